//! What a client writes.

use tantalum_ftl::{Hint, Lpn, Metadata};

/// Units of the host, starting at `lpn`, with what belongs to them.
#[derive(Clone, Copy)]
pub(super) struct HostData<'a> {
    pub lpn: Lpn,
    pub data: &'a [u8],
    pub metadata: Metadata,
    pub hint: Option<Hint>,
}

impl<'a> HostData<'a> {
    /// Units without anything else.
    pub fn plain(lpn: Lpn, data: &'a [u8]) -> HostData<'a> {
        HostData { lpn, data, metadata: [0; 24], hint: None }
    }
}
