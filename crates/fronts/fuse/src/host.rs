//! The state under the mutex: the file system, the files that the kernel knows, and the open files.
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
use tantalum_filesystem::FileSystem;

use crate::handles::Handles;
use crate::known_files::KnownFiles;
use crate::refusal::Refusal;
use crate::watched_files::Watched;

/// The result of a request.
pub(crate) type Outcome<T> = Result<T, Refusal>;

/// A mounted file system as its requests see it.
pub(crate) struct Host {
    pub file_system: Box<dyn FileSystem>,
    pub known: KnownFiles,
    pub handles: Handles,
    /// Whether each write of whole units is all or nothing.
    pub atomic_writes: bool,
    /// Whether a flush follows each write.
    pub sync_writes: bool,
    /// Whether the kernel may have contents and sizes of files that the file system has not seen.
    pub write_back: bool,
    /// What is written to each file, while somebody watches.
    pub watched: Option<Box<Watched>>,
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
    /// With ordinary writes: torn if power fails, and durable only on request.
    pub fn new(file_system: Box<dyn FileSystem>) -> Host {
        Host {
            file_system,
            known: KnownFiles::default(),
            handles: Handles::default(),
            atomic_writes: false,
            sync_writes: false,
            write_back: false,
            watched: None,
        }
    }
}

#[cfg(test)]
#[path = "../examples/memory/file_system.rs"]
mod memory;

#[cfg(test)]
pub(crate) mod tests;
