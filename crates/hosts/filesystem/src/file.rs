//! Identification of files.

use std::fmt;

/// Maximum length of a file name in bytes.
pub const NAME_BYTES: usize = 255;

/// A file of a file system: its inode number, which stays the same through renames and mounts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

impl FileId {
    /// The root folder.
    pub const ROOT: FileId = FileId(1);
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
