//! Announces the places that files give up, before anybody else gets them.

use std::ops::Range;

use crate::extents::LpnRange;

/// Called with bytes of the drive that a file is about to give up.
#[derive(Default)]
pub(crate) struct BeforeReuse(Option<Box<dyn FnMut(Range<u64>) + Send>>);

impl BeforeReuse {
    /// From now on only `tell` is called for them.
    pub fn set(&mut self, tell: impl FnMut(Range<u64>) + Send + 'static) {
        self.0 = Some(Box::new(tell));
    }

    /// A file gives up these units.
    pub fn tell(&mut self, range: LpnRange) {
        if let Some(tell) = &mut self.0 {
            tell(range.bytes());
        }
    }
}
