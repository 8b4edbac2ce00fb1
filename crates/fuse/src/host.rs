//! What one mutex protects: the volume, what the kernel knows of it, and which files are open.
//!
//! Each request is one method, in the file for its kind.

mod attributes;
mod data;
mod folders;
mod names;
mod ranges;

pub(crate) use attributes::Change;
pub(crate) use ranges::Done;

use fuser::Request;
use tantalum_volume::Volume;

use crate::handles::Handles;
use crate::known::Known;
use crate::refusal::Refusal;

/// The result of a request.
pub(crate) type Outcome<T> = Result<T, Refusal>;

/// A mounted volume as its requests see it.
pub(crate) struct Host {
    pub volume: Volume,
    pub known: Known,
    pub handles: Handles,
    /// Whether each write of whole units is all or nothing.
    pub atomic_writes: bool,
}

/// Who made the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub user: u32,
    pub group: u32,
}

impl From<&Request> for Caller {
    fn from(request: &Request) -> Caller {
        Caller { user: request.uid(), group: request.gid() }
    }
}

impl Caller {
    /// Whether permission bits for other identities stay when a file changes.
    pub fn is_root(self) -> bool {
        self.user == 0
    }
}

impl Host {
    pub fn new(volume: Volume, atomic_writes: bool) -> Host {
        Host { volume, known: Known::default(), handles: Handles::default(), atomic_writes }
    }
}
