//! Files of the root folder by name, for programs that need no others. Names here are text.

use tantalum_filesystem::{FileId, FileKind, NewFile, RenameMode, Timestamp};

use crate::error::VolumeError;
use crate::volume::Volume;

/// The time of all changes made through these names.
const NO_TIME: Timestamp = Timestamp { seconds: 0, nanoseconds: 0 };

impl Volume {
    /// Creates an empty file. Durable with its first sync, or with [`Volume::sync_names`].
    pub fn create(&mut self, name: &str) -> Result<FileId, VolumeError> {
        let new = NewFile {
            kind: FileKind::File,
            permissions: 0o644,
            owner: 0,
            group: 0,
            device_number: 0,
            now: NO_TIME,
        };
        self.create_in(FileId::ROOT, name.as_bytes(), &new)
    }

    /// The file of that name.
    pub fn find(&self, name: &str) -> Option<FileId> {
        self.lookup(FileId::ROOT, name.as_bytes()).ok()
    }

    /// All names that are text, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.root().names().filter_map(|name| std::str::from_utf8(name).ok())
    }

    /// Removes a file, as [`Volume::unlink`] does.
    pub fn remove(&mut self, name: &str) -> Result<(), VolumeError> {
        self.unlink(FileId::ROOT, name.as_bytes(), NO_TIME)
    }

    /// Renames a file; a file that had the new name is removed in the same step. As durable as a removal.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), VolumeError> {
        let (root, replace) = (FileId::ROOT, RenameMode::Replace);
        self.rename_in(root, from.as_bytes(), root, to.as_bytes(), replace, NO_TIME)
    }
}
