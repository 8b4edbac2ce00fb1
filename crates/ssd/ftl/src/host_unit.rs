//! A unit that the host wrote, on its way to flash.

use tantalum_nand::{Slot, UnitSpare};

use crate::placement::Handle;
use crate::space::Target;
use crate::spare::{self, Mark, Spare};
use crate::types::{Hint, Lpn, METADATA_BYTES, Metadata, Seq};

/// One unit that the host wrote and that goes to flash now.
#[derive(Clone, Copy, Debug)]
pub struct HostUnit {
    /// Its data. The flash owns the buffer once the call succeeds.
    pub slot: Slot,
    /// The logical page.
    pub lpn: Lpn,
    /// The version it got when the host wrote it; 0 if a batch gives it one.
    pub version: Seq,
    /// Metadata from the host.
    pub metadata: Metadata,
    /// Its place in a log.
    pub hint: Option<Hint>,
    /// The handle with which the host places it.
    pub handle: Handle,
}

impl HostUnit {
    /// A unit without metadata and hint, with the first handle.
    #[inline]
    pub fn plain(slot: Slot, lpn: Lpn, version: Seq) -> HostUnit {
        HostUnit { slot, lpn, version, metadata: [0; METADATA_BYTES], hint: None, handle: Handle::DEFAULT }
    }

    /// The spare area with which it is programmed.
    #[inline]
    pub(crate) fn spare(&self, step: Seq) -> UnitSpare {
        let plain = spare::plain(self.lpn, self.version, step, &self.metadata, self.handle);
        let Some(hint) = self.hint else { return plain };
        let mut marked = Spare::decode(&plain).expect("it was just encoded");
        marked.mark = Mark::Hint(hint, self.lpn);
        marked.encode()
    }
}

/// The stream of units that are written together, which have one handle.
#[inline]
pub(crate) fn target_of(units: &[HostUnit]) -> Target {
    units.first().map_or(Target::Host, |unit| Target::of(unit.handle))
}
