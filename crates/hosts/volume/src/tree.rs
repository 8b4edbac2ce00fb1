//! The tree of folders: creating, naming and removing files.
//!
//! A name is in the inode of its file, or in a link if the file has other names as well; folders have no contents. So
//! an operation changes a few units of the inode table, and waiting changes are at most half a batch: all of them fit
//! in one batch with the inode of a synced file. Changes in one batch need no order; that is why a removal, a creation
//! under the same name and a rename over it can never be seen separately.

use tantalum_filesystem::{FileId, FileKind, FolderEntry, NewFile, RenameMode, Timestamp};

use crate::error::VolumeError;
use crate::file::File;
use crate::folder::{Folder, NameTarget};
use crate::inode::Inode;
use crate::link::{Link, NamePlace};
use crate::name::{check_name, display};
use crate::table::Removed;
use crate::volume::Volume;

/// The most units of metadata that one operation changes: a rename of one file over another, whose further name then
/// moves into its inode.
pub(crate) const MOST_CHANGES: usize = 4;

/// Maximum number of names of a file, as on other file systems: programs count them in 16 bits.
const MOST_NAMES: u32 = 65_000;

/// The two names of a rename.
struct Rename<'a> {
    from: (FileId, &'a [u8]),
    to: (FileId, &'a [u8]),
    entry: NameTarget,
}

impl Volume {
    /// The file with a given name in a folder.
    pub fn lookup(&self, folder: FileId, name: &[u8]) -> Result<FileId, VolumeError> {
        self.entry(folder, name).map(|entry| entry.file)
    }

    /// The parent of a folder; the root is its own.
    pub fn parent(&self, folder: FileId) -> Result<FileId, VolumeError> {
        self.folder(folder)?;
        Ok(self.file(folder)?.inode.folder)
    }

    /// The entries of a folder after the one with cookie `after`; 0 for all.
    pub fn read_folder(
        &self,
        folder: FileId,
        after: u64,
    ) -> Result<impl Iterator<Item = FolderEntry<'_>>, VolumeError> {
        let entries = self.folder(folder)?.after(after);
        Ok(entries.map(|(name, entry)| FolderEntry {
            cookie: entry.cookie,
            name,
            file: entry.file,
            kind: self.files[&entry.file].inode.kind,
        }))
    }

    /// Creates an empty file or folder, or a file of any other kind except a symbolic link. Durable with its first
    /// sync, or with [`Volume::sync_names`].
    pub fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Result<FileId, VolumeError> {
        self.make_file(folder, name, new.kind, &[], new)
    }

    pub(crate) fn make_file(
        &mut self,
        folder: FileId,
        name: &[u8],
        kind: FileKind,
        target: &[u8],
        new: &NewFile,
    ) -> Result<FileId, VolumeError> {
        self.check_new_name(folder, name)?;
        self.make_room_for_names()?;
        let slot = self.take_slot_for_name()?;
        Ok(self.insert_file(slot, folder, name, kind, target, new))
    }

    /// Puts a new file into a slot and under a name, both of which are free.
    pub(crate) fn insert_file(
        &mut self,
        slot: u32,
        folder: FileId,
        name: &[u8],
        kind: FileKind,
        target: &[u8],
        new: &NewFile,
    ) -> FileId {
        let number = self.next_number();
        let mut inode = Inode::new(number, kind, folder, name.into());
        inode.permissions = new.permissions & 0o7777;
        (inode.owner, inode.group, inode.device_number) = (new.owner, new.group, new.device_number);
        (inode.accessed, inode.modified) = (new.now, new.now);
        (inode.changed, inode.created) = (new.now, new.now);
        inode.properties.target = target.into();
        self.files.insert(number, File::new(inode, slot));
        self.unnamed.insert(number);
        self.add_entry(folder, name, number, None);
        self.modified(folder, new.now);
        number
    }

    /// Gives a file that is not a folder a further name. Durable with [`Volume::sync_names`], or a sync of the file.
    pub fn link(
        &mut self,
        file: FileId,
        folder: FileId,
        name: &[u8],
        now: Timestamp,
    ) -> Result<(), VolumeError> {
        let entry = self.file(file)?;
        if entry.folder.is_some() {
            return Err(VolumeError::IsAFolder(file));
        }
        if entry.slot.is_none() {
            return Err(VolumeError::NoSuchFile(file));
        }
        if entry.names() >= MOST_NAMES {
            return Err(VolumeError::TooManyLinks { file, links: entry.names() });
        }
        self.check_new_name(folder, name)?;
        self.make_room_for_names()?;
        let slot = self.take_slot_for_name()?;
        let place = NamePlace { folder, name: name.into() };
        self.links.insert(slot, Link { place, file, stored: None });
        self.unnamed_links.insert(slot);
        self.file_mut(file)?.links.insert(slot);
        self.add_entry(folder, name, file, Some(slot));
        self.changed(file, now);
        self.modified(folder, now);
        Ok(())
    }

    /// Removes a name from a file that is not a folder. The file is removed with its last name, or with its last
    /// [`Volume::close`] if it is open. Durable with [`Volume::sync_names`], or with the next sync that changes another
    /// file's metadata. A file that the drive does not know disappears without a trace.
    pub fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<(), VolumeError> {
        self.drive.check()?;
        let file = self.entry(folder, name)?.file;
        if self.file(file)?.folder.is_some() {
            return Err(VolumeError::IsAFolder(file));
        }
        self.transactions.check_none(file, None)?;
        self.make_room_for_names()?;
        self.remove_name(folder, name, now);
        self.modified(folder, now);
        Ok(())
    }

    /// Removes an empty folder. As durable as an [`Volume::unlink`].
    pub fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<(), VolumeError> {
        self.drive.check()?;
        let file = self.entry(folder, name)?.file;
        self.check_empty(file)?;
        self.make_room_for_names()?;
        self.remove_name(folder, name, now);
        self.modified(folder, now);
        Ok(())
    }

    /// Gives a file another name and perhaps another folder, in one step with the change to the file that had that
    /// name; see [`RenameMode`]. If both are names of one file, they stay as they are. As durable as an
    /// [`Volume::unlink`].
    pub fn rename_in(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        let entry = self.entry(folder, name)?;
        check_name(new_name)?;
        let there = self.folder(new_folder)?.get(new_name);
        self.check_not_into_itself(entry.file, new_folder)?;
        let rename = Rename { from: (folder, name), to: (new_folder, new_name), entry };
        match (there, mode) {
            (Some(_), RenameMode::NoReplace) => return Err(VolumeError::NameExists(display(new_name))),
            (None, RenameMode::Exchange) => return Err(VolumeError::NameNotFound(display(new_name))),
            (Some(other), _) if other.file == entry.file => return Ok(()),
            (Some(other), RenameMode::Exchange) => self.exchange_names(&rename, other)?,
            (Some(other), RenameMode::Replace) => {
                self.check_replaceable(entry.file, other.file)?;
                self.make_room_for_names()?;
                self.remove_name(new_folder, new_name, now);
                self.move_entry(&rename);
            }
            (None, _) => {
                self.make_room_for_names()?;
                self.move_entry(&rename);
            }
        }
        self.changed(entry.file, now);
        self.modified(folder, now);
        self.modified(new_folder, now);
        if let (Some(other), RenameMode::Exchange) = (there, mode) {
            self.changed(other.file, now);
        }
        Ok(())
    }

    fn exchange_names(&mut self, rename: &Rename<'_>, other: NameTarget) -> Result<(), VolumeError> {
        self.check_not_into_itself(other.file, rename.from.0)?;
        self.make_room_for_names()?;
        self.take_entry(rename.from.0, rename.from.1);
        self.take_entry(rename.to.0, rename.to.1);
        self.put_entry(rename.to, rename.entry);
        self.put_entry(rename.from, other);
        Ok(())
    }

    fn move_entry(&mut self, rename: &Rename<'_>) {
        // The replaced name may have been another name of this file's inode, but never this one.
        let entry = self.take_entry(rename.from.0, rename.from.1);
        self.put_entry(rename.to, entry);
    }

    /// Whether a rename may replace `replaced` with `file`.
    fn check_replaceable(&self, file: FileId, replaced: FileId) -> Result<(), VolumeError> {
        let is_folder = self.file(file)?.folder.is_some();
        match (is_folder, self.file(replaced)?.folder.is_some()) {
            (true, _) => self.check_empty(replaced),
            (false, true) => Err(VolumeError::IsAFolder(replaced)),
            (false, false) => self.transactions.check_none(replaced, None),
        }
    }

    fn check_empty(&self, folder: FileId) -> Result<(), VolumeError> {
        let Some(entries) = &self.file(folder)?.folder else { return Err(VolumeError::NotAFolder(folder)) };
        if entries.is_empty() { Ok(()) } else { Err(VolumeError::FolderNotEmpty(folder)) }
    }

    /// Fails if `folder` is `file` or inside it.
    fn check_not_into_itself(&self, file: FileId, mut folder: FileId) -> Result<(), VolumeError> {
        if self.file(file)?.folder.is_none() {
            return Ok(());
        }
        loop {
            if folder == file {
                return Err(VolumeError::IntoItself(file));
            }
            if folder == FileId::ROOT {
                return Ok(());
            }
            folder = self.file(folder)?.inode.folder;
        }
    }

    fn check_new_name(&self, folder: FileId, name: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        check_name(name)?;
        match self.folder(folder)?.get(name) {
            Some(_) => Err(VolumeError::NameExists(display(name))),
            None if self.file(folder)?.slot.is_none() => Err(VolumeError::NoSuchFile(folder)),
            None => Ok(()),
        }
    }

    fn next_number(&mut self) -> FileId {
        loop {
            self.last_file = self.last_file.wrapping_add(1).max(FileId::ROOT.0);
            if !self.files.contains_key(&FileId(self.last_file)) {
                return FileId(self.last_file);
            }
        }
    }

    // -- names and their holders --------------------------------------------------------------------------------

    /// Removes a name, and with its last name the file.
    pub(crate) fn remove_name(&mut self, folder: FileId, name: &[u8], now: Timestamp) {
        let entry = self.take_entry(folder, name);
        let file = self.files.get_mut(&entry.file).expect("an entry's file exists");
        assert!(file.slot.is_some(), "file {} has a name, {:?}, and no slot", entry.file.0, display(name));
        let promoted = file.links.first().copied();
        match (entry.link, promoted) {
            (Some(link), _) => self.drop_link(link),
            (None, Some(link)) => {
                let place = self.links[&link].place.clone();
                self.drop_link(link);
                self.set_place(entry.file, None, &place);
                let folder = self.files.get_mut(&place.folder).and_then(|file| file.folder.as_mut());
                folder.expect("a name is in a folder").set_inode_name(&place.name);
            }
            (None, None) => return self.forget_file(entry.file),
        }
        self.changed(entry.file, now);
        self.assert_names_fit();
    }

    /// Waiting names are at most half a batch, so that they fit in one with the inodes of a sync. Checked in builds with
    /// debug assertions.
    fn assert_names_fit(&self) {
        debug_assert!(
            self.pending_names() <= self.drive.batch_units() / 2,
            "{} names wait, a batch has {} units",
            self.pending_names(),
            self.drive.batch_units()
        );
    }

    fn drop_link(&mut self, slot: u32) {
        let link = self.links.remove(&slot).expect("the link exists");
        self.unnamed_links.remove(&slot);
        let file = self.files.get_mut(&link.file).expect("a link's file exists");
        assert!(file.links.remove(&slot), "file {} did not know its link in slot {slot}", link.file.0);
        self.table.remove(Removed::of_link(slot), link.stored.is_some(), &mut self.space);
    }

    fn put_entry(&mut self, (folder, name): (FileId, &[u8]), entry: NameTarget) {
        self.set_place(entry.file, entry.link, &NamePlace { folder, name: name.into() });
        self.add_entry(folder, name, entry.file, entry.link);
    }

    /// Writes a name where it is stored: in a link, or in the file's inode.
    fn set_place(&mut self, id: FileId, link: Option<u32>, place: &NamePlace) {
        if let Some(slot) = link {
            let link = self.links.get_mut(&slot).expect("an entry's link exists");
            assert_eq!(link.file, id, "the file of the link in slot {slot}, and of the entry with it");
            link.place = place.clone();
            match link.stored.as_ref() == Some(place) {
                true => self.unnamed_links.remove(&slot),
                false => self.unnamed_links.insert(slot),
            };
            return;
        }
        let file = self.files.get_mut(&id).expect("an entry's file exists");
        (file.inode.folder, file.inode.name) = (place.folder, place.name.clone());
        file.dirty = true;
        match file.name_is_stored() {
            true => self.unnamed.remove(&id),
            false => self.unnamed.insert(id),
        };
    }

    fn add_entry(&mut self, folder: FileId, name: &[u8], file: FileId, link: Option<u32>) {
        let is_folder = self.files[&file].folder.is_some();
        let folder = self.folder_mut(folder);
        folder.subfolders += u32::from(is_folder);
        assert!(folder.insert(name.into(), file, link), "the name {:?} was free", display(name));
        self.assert_names_fit();
    }

    fn take_entry(&mut self, folder: FileId, name: &[u8]) -> NameTarget {
        let folder = self.folder_mut(folder);
        let entry = folder.remove(name).expect("the name was there");
        if self.files[&entry.file].folder.is_some() {
            self.folder_mut(self.files[&entry.file].inode.folder).subfolders -= 1;
        }
        entry
    }

    fn entry(&self, folder: FileId, name: &[u8]) -> Result<NameTarget, VolumeError> {
        check_name(name)?;
        self.folder(folder)?.get(name).ok_or_else(|| VolumeError::NameNotFound(display(name)))
    }

    fn folder(&self, folder: FileId) -> Result<&Folder, VolumeError> {
        self.file(folder)?.folder.as_deref().ok_or(VolumeError::NotAFolder(folder))
    }

    fn folder_mut(&mut self, folder: FileId) -> &mut Folder {
        let file = self.files.get_mut(&folder).expect("the folder exists");
        file.folder.as_mut().expect("it is a folder")
    }

    pub(crate) fn root(&self) -> &Folder {
        self.folder(FileId::ROOT).expect("a volume has a root folder")
    }

    // -- waiting changes ------------------------------------------------------------------------------------------

    fn make_room_for_names(&mut self) -> Result<(), VolumeError> {
        self.make_room_for_changes(MOST_CHANGES)
    }

    /// Sends waiting changes to the drive unless `changes` more fit in a batch with them.
    pub(crate) fn make_room_for_changes(&mut self, changes: usize) -> Result<(), VolumeError> {
        let is_full = self.pending_names() + changes > self.drive.batch_units() / 2;
        if is_full { self.sync_names() } else { Ok(()) }
    }
}
