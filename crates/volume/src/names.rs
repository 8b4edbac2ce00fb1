//! Names of files: creating, removing, renaming.
//!
//! Invariant: at most half a batch of names waits to become durable, so that all of them fit in one batch with
//! the inode of a file that is synced. What is in one batch needs no order; that is how a removal, a creation
//! under the same name and a rename over it can never be seen apart.

use crate::error::VolumeError;
use crate::file::{File, FileId, RemovedFile};
use crate::inode::{NAME_BYTES, is_valid_name};
use crate::volume::Volume;

impl Volume {
    /// Makes an empty file. Durable with its first sync, or with [`Volume::sync_names`].
    pub fn create(&mut self, name: &str) -> Result<FileId, VolumeError> {
        self.drive.check()?;
        check_name(name)?;
        if self.names.contains_key(name) {
            return Err(VolumeError::NameExists(name.to_owned()));
        }
        self.make_room_for_names()?;
        let slot = self.take_slot()?;
        let file = self.add_file(File::new(name, slot));
        self.unnamed.insert(file);
        Ok(file)
    }

    /// The file of that name.
    pub fn find(&self, name: &str) -> Option<FileId> {
        self.names.get(name).copied()
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(String::as_str)
    }

    /// Removes a file. Durable with [`Volume::sync_names`], or with the next sync that changes another file's
    /// metadata. A file that the drive does not know goes without a trace.
    pub fn remove(&mut self, name: &str) -> Result<(), VolumeError> {
        self.drive.check()?;
        let file = self.find(name).ok_or_else(|| VolumeError::NameNotFound(name.to_owned()))?;
        self.check_no_transaction(file, None)?;
        self.make_room_for_names()?;
        self.forget_file(file);
        Ok(())
    }

    /// Gives a file another name; a file that had it is removed in the same step. Durable as a removal is.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), VolumeError> {
        self.drive.check()?;
        check_name(to)?;
        let file = self.find(from).ok_or_else(|| VolumeError::NameNotFound(from.to_owned()))?;
        if from == to {
            return Ok(());
        }
        if let Some(replaced) = self.find(to) {
            self.check_no_transaction(replaced, None)?;
        }
        self.make_room_for_names()?;
        if let Some(replaced) = self.find(to) {
            self.forget_file(replaced);
        }
        self.names.remove(from);
        self.names.insert(to.to_owned(), file);
        let entry = self.file_mut(file)?;
        entry.inode.name = to.to_owned();
        entry.dirty = true;
        if entry.name_is_stored() {
            self.unnamed.remove(&file);
        } else {
            self.unnamed.insert(file);
        }
        Ok(())
    }

    pub(crate) fn add_file(&mut self, file: File) -> FileId {
        let id = FileId(self.next_file);
        self.next_file = self.next_file.checked_add(1).expect("fewer than 2^32 files in one mount");
        self.names.insert(file.inode.name.clone(), id);
        self.files.insert(id, file);
        id
    }

    /// Takes a file out of the volume as programs see it.
    fn forget_file(&mut self, id: FileId) {
        let mut file = self.files.remove(&id).expect("a file that has a name");
        self.names.remove(&file.inode.name);
        self.unnamed.remove(&id);
        let end = file.inode.extents.end().max(file.inode.kept_units(file.inode.size));
        self.cache.remove_units(id, 0..end);
        file.give_up_from(0, &mut self.space);
        if !file.touched {
            self.free_slots.insert(file.slot);
            return;
        }
        self.removed.push(RemovedFile {
            slot: file.slot,
            stored: file.stored.is_some(),
            continuations: file.continuations.iter().map(|c| c.slot).collect(),
            freed: file.freed,
        });
    }

    /// Names that wait to become durable, in units of metadata.
    pub(crate) fn pending_names(&self) -> usize {
        self.unnamed.len() + self.removed.iter().filter(|removed| removed.stored).count()
    }

    /// One operation changes two files' names at most.
    fn make_room_for_names(&mut self) -> Result<(), VolumeError> {
        if self.pending_names() + 2 > self.batch_units() / 2 { self.sync_names() } else { Ok(()) }
    }

    /// A unit of the inode table that holds nothing.
    pub(crate) fn take_slot(&mut self) -> Result<u32, VolumeError> {
        if self.free_slots.is_empty() && !self.removed.is_empty() {
            self.sync_names()?;
        }
        let slots = self.superblock.table_units();
        self.free_slots.pop_first().ok_or(VolumeError::TableFull { slots })
    }
}

fn check_name(name: &str) -> Result<(), VolumeError> {
    if is_valid_name(name) {
        return Ok(());
    }
    Err(VolumeError::BadName { bytes: name.len(), most: NAME_BYTES })
}
