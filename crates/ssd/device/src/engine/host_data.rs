//! What a client writes.

use tantalum_ftl::{Handle, Hint, Lpn, Metadata};

/// A plain write.
#[derive(Clone, Copy)]
pub(super) struct PlainWrite<'a> {
    pub lpn: Lpn,
    /// Whole units.
    pub data: &'a [u8],
    pub fua: bool,
    pub handle: Handle,
}

/// Units of the host, starting at `lpn`, with what belongs to them.
#[derive(Clone, Copy)]
pub(super) struct HostData<'a> {
    pub lpn: Lpn,
    pub data: &'a [u8],
    pub metadata: Metadata,
    pub hint: Option<Hint>,
    pub handle: Handle,
}

impl<'a> HostData<'a> {
    /// Units without anything else.
    pub fn plain(lpn: Lpn, data: &'a [u8]) -> HostData<'a> {
        HostData { lpn, data, metadata: [0; 24], hint: None, handle: Handle::DEFAULT }
    }
}
