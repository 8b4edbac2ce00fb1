//! What a program did to its files.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tantalum_filesystem::{FileKind, RenameMode};

/// A file of a recording. Numbers are never reused; the root folder is 0.
pub type FileNumber = u64;

/// The root folder.
pub const ROOT: FileNumber = 0;

/// A name in a folder.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct FolderName {
    /// The folder.
    pub folder: FileNumber,
    /// The name there.
    pub name: Vec<u8>,
}

/// The attributes with which a file is created, or to which it is changed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Made {
    /// File, folder, symbolic link, pipe, socket or device.
    pub kind: FileKind,
    /// Permission bits.
    pub permissions: u16,
    /// The owner's number.
    pub owner: u32,
    /// The group's number.
    pub group: u32,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
}

/// A change of something other than a file's contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Attribute {
    /// Permission bits.
    Permissions(u16),
    /// The owner's and the group's number.
    Owner(Option<u32>, Option<u32>),
    /// Sets an extended attribute, or removes it.
    Extended(Vec<u8>, Option<Vec<u8>>),
}

/// One operation that changed something, or made it durable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Operation {
    /// A new file of any kind.
    Create(FolderName, FileNumber, Made),
    /// A further name.
    Link(FolderName, FileNumber),
    /// Removes a name.
    Unlink(FolderName),
    /// Removes a folder.
    RemoveFolder(FolderName),
    /// Renames, in one step.
    Rename(FolderName, FolderName, RenameMode),
    /// Zeros at an offset; the file grows unless it keeps its size.
    Zero {
        /// The file.
        file: FileNumber,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        bytes: u64,
        /// Whether it does not grow.
        keep_size: bool,
    },
    /// Allocates a range; the file grows unless it keeps its size.
    Allocate {
        /// The file.
        file: FileNumber,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        bytes: u64,
        /// Whether it does not grow.
        keep_size: bool,
    },
    /// Changes the file's size.
    Resize(FileNumber, u64),
    /// Changes something else about a file.
    Change(FileNumber, Attribute),
    /// `fsync`.
    Sync(FileNumber),
    /// `fdatasync`.
    SyncData(FileNumber),
    /// `fsync` of a folder.
    SyncFolder(FileNumber),
    /// Bytes at an offset; in a stored recording they are an event of their own. It is last, as variants are stored by
    /// their number among those that are stored.
    #[serde(skip)]
    Write(FileNumber, u64, Arc<[u8]>),
}

impl Operation {
    /// Whether it only makes durable what others did.
    pub fn is_sync(&self) -> bool {
        matches!(self, Operation::Sync(_) | Operation::SyncData(_) | Operation::SyncFolder(_))
    }
}

/// The kernel's pages.
const PAGE_BYTES: u64 = 4096;

/// Whether a write of `bytes` at `offset` is only the first part of what a program wrote, if the next write to the file begins at
/// `next`: Linux 6.18 passes on what goes to the end of the first page apart from the rest of a buffered write. A program
/// that ends a write at such a boundary and continues there with the next one looks the same, unless
/// [`Event::CallEnded`](crate::Event::CallEnded) is between them.
pub fn is_first_part(offset: u64, bytes: u64, next: u64) -> bool {
    let end = offset + bytes;
    end == next && end.is_multiple_of(PAGE_BYTES) && bytes < PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_to_the_end_of_a_page_is_a_first_part() {
        // 1,500 bytes at 3,000
        assert!(is_first_part(3000, 1096, 4096));
        // then others
        assert!(!is_first_part(4096, 404, 4500) && !is_first_part(3000, 1000, 4000));
        // whole pages are passed on together
        assert!(!is_first_part(4096, 4096, 8192) && !is_first_part(3000, 5192, 8192));
        assert!(!is_first_part(3000, 1096, 8192), "elsewhere");
    }
}
