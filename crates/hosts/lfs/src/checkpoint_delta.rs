//! What a sync must know about the time since the last checkpoint.

use std::collections::BTreeSet;

use tantalum_filesystem::FileId;

use crate::lists::files::ListedFiles;

/// What happened since the last checkpoint, as far as a sync must know.
#[derive(Debug, Default)]
pub(crate) struct CheckpointDelta {
    /// Files whose inode in memory differs from the index's in more than times and space.
    pub changed: BTreeSet<FileId>,
    /// Files whose size or number of units differs.
    pub resized: BTreeSet<FileId>,
    /// Files whose times differ.
    pub times: BTreeSet<FileId>,
    /// Files that no checkpoint has.
    pub new: BTreeSet<FileId>,
    /// Of these, files that no sync of a folder has made durable, in the order of their creation.
    pub unnamed: Vec<FileId>,
    /// Of these, files that a sync of the file itself has made durable.
    pub synced_new: BTreeSet<FileId>,
    /// One of the new files is a folder: only a checkpoint makes it durable.
    pub has_new_folder: bool,
    /// Files that got or lost a name, other than by their creation.
    pub renamed: BTreeSet<FileId>,
    /// Which files the drive lists, and which of them it cannot.
    pub lists: ListedFiles,
    /// The drive refused to move units.
    pub is_share_refused: bool,
    /// A name or a file was removed: the chain of synced nodes must not bring others back in its place.
    pub is_name_lost: bool,
    /// Changes of blocks of folders that were not written back.
    pub block_changes: u32,
}

impl CheckpointDelta {
    /// Whether a file's inode differs from the index's in more than times.
    pub fn is_changed(&self, id: FileId) -> bool {
        self.changed.contains(&id) || self.resized.contains(&id)
    }

    /// Whether the only changes to names are creations of files other than folders, and folders differ from the index
    /// only in size and times.
    pub fn are_names_new(&self, folder: FileId) -> bool {
        !self.is_name_lost
            && !self.has_new_folder
            && self.renamed.is_empty()
            && !self.changed.contains(&folder)
    }

    /// A file was created.
    pub fn created(&mut self, id: FileId, is_folder: bool) {
        let is_new = self.new.insert(id);
        assert!(is_new, "file {id} is created, but is a new file already");
        self.unnamed.push(id);
        self.has_new_folder |= is_folder;
    }

    /// Forgets a file: its inode equals the index's, or is gone.
    pub fn forget_inode(&mut self, id: FileId) {
        self.changed.remove(&id);
        self.resized.remove(&id);
        self.times.remove(&id);
    }
}
