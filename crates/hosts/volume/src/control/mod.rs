//! What a volume does, and in which order it asks its parts.
//!
//! | part | owns |
//! |---|---|
//! | [`VolumeClient`] | the client of the drive; what was sent and not flushed |
//! | [`Files`] of [`File`]s | contents and metadata: as programs see them, and as the drive knows them; files without a name |
//! | [`Tree`] | names: folders, links, slots of inodes; which names the drive does not know |
//! | [`InodeTable`] | slots, free or waiting for a removal to be durable; the superblock |
//! | [`Space`] | free units, and those given up and not trimmed |
//! | [`Pages`] | the page cache, and write-back from it |
//! | [`Transactions`] | open transactions, and what each has written |
//!
//! The parts borrow each other for a call; none knows the volume. Names, metadata, syncs and the volume itself are in
//! this file, contents in [`contents`]. A change is checked first, then gets what it needs (units, a slot, room in a batch),
//! and only then changes anything. [`Commit`] makes metadata durable.

mod contents;

use std::fmt;

use tantalum::{Command, Completion, Device, Nanoseconds, Status, UNIT_BYTES};
use tantalum_canaries::guard;
use tantalum_drive::{Client, DeviceGuard};
use tantalum_filesystem::{
    FileId, FileKind, FolderEntry, Metadata, MetadataChange, NewFile, RenameMode, SetMode, Statistics,
    Timestamp,
};

use crate::commit::{Commit, InodeChange};
use crate::drive::VolumeClient;
use crate::error::VolumeError;
use crate::files::Files;
use crate::inode::ATTRIBUTE_BYTES;
use crate::invariants;
use crate::mount::Found;
use crate::pages::Pages;
use crate::properties::check_attribute_name;
use crate::space::Space;
use crate::superblock::{SUPERBLOCK, Superblock};
use crate::table::{InodeTable, Removed};
use crate::transactions::Transactions;
use crate::tree::{Tree, Unnamed};

/// The most units of metadata that one operation changes: a rename of one file over another, whose further name then
/// moves into its inode.
const MOST_CHANGES: usize = 4;

/// Maximum length of a symbolic link's target: that of a path, without its end.
const MOST_TARGET_BYTES: usize = 4095;

/// The time of all changes made through names of the root folder that are text.
const NO_TIME: Timestamp = Timestamp { seconds: 0, nanoseconds: 0 };

/// A mounted volume.
///
/// Dropping it without [`Volume::unmount`] is a crash of the host: what was not synced is lost.
pub struct Volume {
    drive: VolumeClient,
    files: Files,
    tree: Tree,
    table: InodeTable,
    space: Space,
    pages: Pages,
    transactions: Transactions,
}

/// A failed unmount: the volume continues. Transactions that were open may be aborted, and files without a name may be
/// gone; it has everything else. If the drive may already name it unmounted and could not be told otherwise, it refuses
/// every change ([`Volume::stopped`]).
#[derive(Debug, thiserror::Error)]
#[error("the volume could not be unmounted: {error}")]
pub struct UnmountError {
    /// The volume, still mounted.
    pub volume: Volume,
    /// Why it could not be unmounted.
    pub error: VolumeError,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("files", &self.files.len())
            .field("free_units", &self.space.units())
            .field("dirty_pages", &self.pages.cache().dirty_pages())
            .field("now_ns", &self.drive.now_ns())
            .finish_non_exhaustive()
    }
}

impl Volume {
    // -- mounting -----------------------------------------------------------------------------------------------------

    /// Creates an empty volume on a drive, and mounts it with a page cache of `cache_bytes`. The drive's contents are
    /// trimmed.
    pub fn format(client: impl Into<Client>, cache_bytes: u64) -> Result<Volume, VolumeError> {
        let mut drive = VolumeClient::new(client.into());
        let found = Found::create(&mut drive)?;
        Ok(Volume::of(drive, found, cache_bytes))
    }

    /// Opens a drive's volume with a page cache of `cache_bytes`.
    ///
    /// Fails for a drive without a volume, a volume of another layout version, and a damaged one.
    pub fn mount(client: impl Into<Client>, cache_bytes: u64) -> Result<Volume, VolumeError> {
        let mut drive = VolumeClient::new(client.into());
        let found = Found::read(&mut drive)?;
        Ok(Volume::of(drive, found, cache_bytes))
    }

    fn of(drive: VolumeClient, found: Found, cache_bytes: u64) -> Volume {
        let Found { table, space, files, tree } = found;
        let (pages, transactions) = (Pages::new(cache_bytes), Transactions::default());
        let volume = Volume { drive, files, tree, table, space, pages, transactions };
        volume.assert_invariants();
        volume
    }

    /// Whether the drive holds a volume, of any version and in any state.
    pub fn is_formatted(device: &mut Device) -> Result<bool, VolumeError> {
        let mut unit = [0; UNIT_BYTES];
        let at_ns = device.time_ns();
        device.submit(Command::Read { lpn: SUPERBLOCK, data: &mut unit }, at_ns)?;
        Ok(Superblock::is_one(&unit))
    }

    /// An independent copy of the volume and its drive, including everything not yet synced. None if the drive cannot
    /// be copied.
    pub fn try_clone(&self) -> Option<Volume> {
        Some(Volume {
            drive: self.drive.try_clone()?,
            files: self.files.clone(),
            tree: self.tree.clone(),
            table: self.table.clone(),
            space: self.space.copy(),
            pages: self.pages.copy(),
            transactions: self.transactions.clone(),
        })
    }

    /// Makes everything durable and returns the drive. Open transactions are aborted.
    pub fn unmount(mut self) -> Result<Client, Box<UnmountError>> {
        match self.shut_down() {
            Ok(()) => Ok(self.drive.into_client()),
            Err(error) => Err(Box::new(UnmountError { volume: self, error })),
        }
    }

    /// Returns the drive as after a crash of the host: what was not synced is lost.
    pub fn into_client_without_sync(self) -> Client {
        self.drive.into_client()
    }

    fn shut_down(&mut self) -> Result<(), VolumeError> {
        while let Some(tx) = self.transactions.first() {
            self.tx_abort(tx)?;
        }
        self.sync_all()?;
        // Mounting does not trim a volume that is not in use: files that are only open are removed now, and whatever could
        // not be trimmed yet must be.
        while let Some(orphan) = self.files.first_orphan() {
            self.forget_orphan(orphan);
        }
        self.space.trim(&mut self.drive)?;
        if guard!(ClosedBeforeTrims, self.drive.owes_flush()) {
            // A drive may lose its last trims and keep later writes, and mounting does not trim a volume that is not in
            // use.
            self.drive.flush()?;
        }
        // nothing is left that the next mount would have to find
        let untrimmed = self.space.untrimmed();
        assert!(untrimmed.is_empty(), "{untrimmed:?} are not trimmed by the unmount");
        assert!(self.transactions.is_empty(), "{:?} is open after the unmount", self.transactions.first());
        debug_assert_eq!(self.pages.cache().dirty_pages(), 0, "dirty pages that the unmount leaves");
        self.assert_invariants();
        let closed = self.table.set_in_use(false, &mut self.drive);
        if closed.is_err()
            && let Err(VolumeError::Device(status)) = self.table.set_in_use(true, &mut self.drive)
        {
            // The drive may name it unmounted: then no mount would trim what is written from now on.
            self.drive.stop(status);
        }
        closed
    }

    // -- the drive ----------------------------------------------------------------------------------------------------

    /// The volume's drive, which others may share.
    pub fn drive(&self) -> &tantalum_drive::Drive {
        self.drive.client().drive()
    }

    /// The device below. Writing to it without the volume may damage the volume. The volume waits while somebody has
    /// it, so keep it only as long as necessary.
    pub fn device(&self) -> DeviceGuard<'_> {
        self.drive.device()
    }

    pub(crate) fn client(&self) -> &Client {
        self.drive.client()
    }

    pub(crate) fn client_mut(&mut self) -> &mut Client {
        self.drive.client_mut()
    }

    /// Why the drive or the volume stopped for good, if one did: what ended the drive ([`tantalum::Device::ended`]), or an error
    /// after which [`Volume::unmount`] could not go back. From then on the volume refuses every change with that error, and
    /// what was not synced is lost with this process. Reads go on, as long as the drive has power.
    pub fn stopped(&self) -> Option<Status> {
        self.drive.end()
    }

    /// The client's time.
    pub fn now_ns(&self) -> Nanoseconds {
        self.drive.now_ns()
    }

    /// From now on the client lives in the machine's time, and sees the drive's latencies.
    pub fn run_in_real_time(&mut self) {
        self.drive.client_mut().run_in_real_time();
    }

    /// One of several clients continues at `now_ns`, in virtual time. It must hold its answers back until
    /// [`Volume::now_ns`]: others may continue before that, so that their commands are in flight together.
    pub fn begin_at(&mut self, now_ns: Nanoseconds) {
        self.drive.client_mut().begin_at(now_ns);
    }

    /// The client waits until `ns`, unless that has passed.
    pub fn wait_until(&mut self, ns: Nanoseconds) {
        self.drive.wait_until(ns);
    }

    /// The client spends `ns` elsewhere.
    pub fn advance_ns(&mut self, ns: Nanoseconds) {
        self.drive.wait_until(self.drive.now_ns().saturating_add(ns));
    }

    /// Sends a command to the drive now and waits for it. The page cache does not learn of it: update it with
    /// [`Volume::cache_put_clean`] or [`Volume::cache_drop`].
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        self.drive.submit(command)
    }

    /// Sends a command to the drive now without waiting for it: follow with [`Volume::wait_until`] its
    /// `done_ns`. Otherwise like [`Volume::submit`].
    pub fn submit_queued(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        self.drive.submit_queued(command)
    }

    /// Whether writes that equal one recently made elsewhere become shares. Off in a new drive.
    pub fn set_remap_duplicates(&mut self, on: bool) {
        self.drive().set_remap_duplicates(on);
    }

    /// The contents of the volume, and its free space.
    pub fn statistics(&self) -> Statistics {
        let free_units = self.space.units();
        let device = self.drive.device();
        let duplicates = device.duplicates();
        Statistics {
            units: device.limits().capacity_units.saturating_sub(1 + u64::from(self.table.slots())),
            free_units,
            files: self.files.len() as u64,
            free_files: self.table.free_slots().len() as u64 + free_units,
            units_remapped: duplicates.remapped,
            units_without_duplicate: duplicates.without_duplicate,
            log: None,
        }
    }

    /// Units that belong to no file.
    pub fn free_units(&self) -> u64 {
        self.space.units()
    }

    // -- names --------------------------------------------------------------------------------------------------------

    /// The file with a given name in a folder.
    pub fn lookup(&self, folder: FileId, name: &[u8]) -> Result<FileId, VolumeError> {
        self.tree.lookup(folder, name)
    }

    /// The parent of a folder; the root is its own.
    pub fn parent(&self, folder: FileId) -> Result<FileId, VolumeError> {
        self.tree.parent(folder)
    }

    /// The entries of a folder after the one with cookie `after`; 0 for all.
    pub fn read_folder(
        &self,
        folder: FileId,
        after: u64,
    ) -> Result<impl Iterator<Item = FolderEntry<'_>>, VolumeError> {
        let entries = self.tree.entries(folder, after)?;
        Ok(entries.map(|(cookie, name, file)| {
            let kind = self.files.get(file).expect("an entry's file exists").kind();
            FolderEntry { cookie, name, file, kind }
        }))
    }

    /// Creates an empty file or folder, or a file of any other kind except a symbolic link. Durable with its first
    /// sync, or with [`Volume::sync_names`].
    pub fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Result<FileId, VolumeError> {
        self.make_file(folder, name, new, &[])
    }

    /// Creates a symbolic link to `target`, which is any path. It is never seen without its target. If it fails, there is
    /// none.
    pub fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Result<FileId, VolumeError> {
        let bytes = target.len();
        if !(1..=MOST_TARGET_BYTES).contains(&bytes) || target.contains(&0) {
            return Err(VolumeError::BadTarget { bytes, most: MOST_TARGET_BYTES });
        }
        let link = self.make_file(folder, name, &NewFile { kind: FileKind::SymbolicLink, ..*new }, target)?;
        if self.files.get(link)?.has_properties_outside()
            && let Err(error) = self.commit_files(&[link], false)
        {
            // Names alone would store it without the continuation that has its target. The drive does not know it, so
            // it goes without a trace, and nothing can fail.
            self.remove_name(folder, name, new.now);
            return Err(error);
        }
        Ok(link)
    }

    fn make_file(
        &mut self,
        folder: FileId,
        name: &[u8],
        new: &NewFile,
        target: &[u8],
    ) -> Result<FileId, VolumeError> {
        self.drive.check()?;
        self.tree.check_new_name(folder, name)?;
        self.make_room_for_changes(MOST_CHANGES)?;
        let slot = self.commit().take_slot_for_name()?;
        Ok(self.insert_file(slot, folder, name, new, target))
    }

    /// Puts a new file into a slot and under a name, both of which are free.
    fn insert_file(
        &mut self,
        slot: u32,
        folder: FileId,
        name: &[u8],
        new: &NewFile,
        target: &[u8],
    ) -> FileId {
        let file = self.files.create(target, new);
        self.tree.add(file, slot, folder, name, new.kind == FileKind::Folder);
        self.assert_names_fit();
        self.files.modified(folder, new.now);
        file
    }

    /// The target of a symbolic link.
    pub fn read_symbolic_link(&self, file: FileId) -> Result<Vec<u8>, VolumeError> {
        let entry = self.files.get(file)?;
        match entry.kind() {
            FileKind::SymbolicLink => Ok(entry.properties().target().to_vec()),
            _ => Err(VolumeError::NotASymbolicLink(file)),
        }
    }

    /// Gives a file that is not a folder a further name. Durable with [`Volume::sync_names`], or a sync of the file.
    pub fn link(
        &mut self,
        file: FileId,
        folder: FileId,
        name: &[u8],
        now: Timestamp,
    ) -> Result<(), VolumeError> {
        self.tree.check_link(file)?;
        self.drive.check()?;
        self.tree.check_new_name(folder, name)?;
        self.make_room_for_changes(MOST_CHANGES)?;
        let slot = self.commit().take_slot_for_name()?;
        self.tree.add_link(file, slot, folder, name);
        self.assert_names_fit();
        self.files.changed(file, now);
        self.files.modified(folder, now);
        Ok(())
    }

    /// Removes a name from a file that is not a folder. The file is removed with its last name, or with its last
    /// [`Volume::close`] if it is open. Durable with [`Volume::sync_names`], or with the next sync that changes another
    /// file's metadata. A file that the drive does not know disappears without a trace.
    pub fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<(), VolumeError> {
        self.drive.check()?;
        let file = self.tree.lookup(folder, name)?;
        if self.tree.is_folder(file)? {
            return Err(VolumeError::IsAFolder(file));
        }
        self.transactions.check_none(file, None)?;
        self.make_room_for_changes(MOST_CHANGES)?;
        self.remove_name(folder, name, now);
        self.files.modified(folder, now);
        Ok(())
    }

    /// Removes an empty folder. As durable as an [`Volume::unlink`].
    pub fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Result<(), VolumeError> {
        self.drive.check()?;
        let file = self.tree.lookup(folder, name)?;
        self.tree.check_empty(file)?;
        self.make_room_for_changes(MOST_CHANGES)?;
        self.remove_name(folder, name, now);
        self.files.modified(folder, now);
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
        let rename = self.tree.plan_rename((folder, name), (new_folder, new_name), mode)?;
        let Some(rename) = rename else { return Ok(()) };
        let (exchanged, replaced) = match rename.exchanges {
            true => (rename.other, None),
            false => (None, rename.other),
        };
        if let Some(replaced) = replaced {
            self.transactions.check_none(replaced, None)?;
        }
        self.make_room_for_changes(MOST_CHANGES)?;
        if replaced.is_some() {
            self.remove_name(new_folder, new_name, now);
        }
        for file in self.tree.rename(&rename) {
            self.files.existing(file).name_has_changed();
        }
        self.assert_names_fit();
        self.files.changed(rename.file, now);
        self.files.modified(folder, now);
        self.files.modified(new_folder, now);
        if let Some(exchanged) = exchanged {
            self.files.changed(exchanged, now);
        }
        Ok(())
    }

    /// As [`Volume::rename_in`], replacing what has the new name, and in the same step creates a *whiteout* with the old one: a
    /// character device with number 0, by which an overlay hides the file of that name in the layer below
    /// (`RENAME_WHITEOUT`). `whiteout` gives owner, permissions and time.
    pub fn rename_leaving_whiteout(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        whiteout: &NewFile,
    ) -> Result<(), VolumeError> {
        // The slot is taken before the names change, and nothing is committed in between, so that the rename and the
        // whiteout are in one batch: after a power cut both are there, or neither.
        self.make_room_for_changes(MOST_CHANGES + 1)?;
        let slot = self.commit().take_slot_for_name()?;
        let renamed = self.rename_in(folder, name, new_folder, new_name, RenameMode::Replace, whiteout.now);
        if renamed.is_err() || self.lookup(folder, name).is_ok() {
            // Refused, or both are names of one file and remain.
            self.table.free(slot);
            return renamed;
        }
        let whiteout = NewFile { kind: FileKind::CharDevice, device_number: 0, ..*whiteout };
        self.insert_file(slot, folder, name, &whiteout, &[]);
        Ok(())
    }

    /// Removes a name, and with its last name the file, unless it is open.
    fn remove_name(&mut self, folder: FileId, name: &[u8], now: Timestamp) {
        let (file, unnamed) = self.tree.remove(folder, name);
        match unnamed {
            Unnamed::Link { slot, is_stored, was_first } => {
                self.table.remove(Removed::of_link(slot), is_stored, &mut self.space);
                let entry = self.files.existing(file);
                if was_first {
                    entry.name_has_changed();
                }
                entry.changed(now);
            }
            Unnamed::File { slot } => {
                let entry = self.files.existing(file);
                let (is_stored, continuations) = entry.unstore();
                let removed = Removed { slot, continuations, freed: entry.take_freed() };
                self.table.remove(removed, is_stored, &mut self.space);
                if self.files.orphan(file) {
                    self.forget_orphan(file);
                }
            }
        }
        self.assert_names_fit();
    }

    /// A file without a name was closed. The drive's inode may still name what it gives up, so that is freed
    /// together with the last removed file.
    fn forget_orphan(&mut self, file: FileId) {
        let (end, freed) = self.files.forget(file, &mut self.space);
        self.tree.forget(file);
        self.pages.forget(file, 0..end);
        let dirty = self.pages.cache().last_dirty_unit(file);
        debug_assert_eq!(dirty, None, "the dirty unit of a file that is gone");
        self.table.give_up_with_removals(freed, &mut self.space);
    }

    /// Keeps a file, whatever happens to its names, until it is closed as often.
    pub fn open(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.drive.check_power()?;
        self.files.open(file)
    }

    /// Undoes one [`Volume::open`]. A file that has lost its last name meanwhile is removed with the last close, or by
    /// a crash.
    pub fn close(&mut self, file: FileId) -> Result<(), VolumeError> {
        if self.files.close(file)? {
            self.forget_orphan(file);
        }
        Ok(())
    }

    // -- files of the root folder, by names that are text -----------------------------------------------------------------

    /// Creates an empty file. Durable with its first sync, or with [`Volume::sync_names`].
    pub fn create(&mut self, name: &str) -> Result<FileId, VolumeError> {
        let (kind, permissions, now) = (FileKind::File, 0o644, NO_TIME);
        let new = NewFile { kind, permissions, owner: 0, group: 0, device_number: 0, now };
        self.create_in(FileId::ROOT, name.as_bytes(), &new)
    }

    /// The file of that name.
    pub fn find(&self, name: &str) -> Option<FileId> {
        self.lookup(FileId::ROOT, name.as_bytes()).ok()
    }

    /// All names that are text, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names = self.tree.names(FileId::ROOT).expect("a volume has a root folder");
        names.filter_map(|name| std::str::from_utf8(name).ok())
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

    // -- metadata -----------------------------------------------------------------------------------------------------

    /// The metadata of a file.
    pub fn metadata(&self, file: FileId) -> Result<Metadata, VolumeError> {
        Ok(self.files.get(file)?.metadata(self.tree.count(file)?))
    }

    /// Applies `change` to a file's metadata. Durable with [`Volume::sync`]; times alone are not worth writing an inode at each
    /// [`Volume::sync_data`], and become durable with the next inode written for another reason.
    pub fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.files.get(file)?;
        if let Some(size) = change.size {
            self.set_size(file, size)?;
        }
        self.files.get_mut(file)?.change_metadata(change);
        Ok(())
    }

    /// The bytes set by [`Volume::set_attributes`]; zeros in a new file.
    pub fn attributes(&self, file: FileId) -> Result<[u8; ATTRIBUTE_BYTES], VolumeError> {
        Ok(*self.files.get(file)?.attributes())
    }

    /// Sets bytes that are stored with the file and mean nothing to the volume. They become durable when the file is
    /// next synced or written atomically.
    pub fn set_attributes(
        &mut self,
        file: FileId,
        attributes: &[u8; ATTRIBUTE_BYTES],
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.files.get_mut(file)?.set_attributes(attributes);
        Ok(())
    }

    /// The value of a file's extended attribute.
    pub fn extended_attribute(&self, file: FileId, name: &[u8]) -> Result<Vec<u8>, VolumeError> {
        Ok(self.files.get(file)?.properties().value(file, name)?.to_vec())
    }

    /// The names of all extended attributes of a file, in order.
    pub fn extended_attributes(&self, file: FileId) -> Result<Vec<Vec<u8>>, VolumeError> {
        Ok(self.files.get(file)?.properties().names().map(<[u8]>::to_vec).collect())
    }

    /// Sets an extended attribute: a small named value that means nothing to the volume, and becomes durable with the next
    /// [`Volume::sync`]. Those of one file take at most 64 KiB, including their names.
    pub fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        check_attribute_name(name)?;
        let entry = self.files.get_mut(file)?;
        let changed = entry.properties().with(file, name, value, mode)?;
        entry.set_properties(changed);
        Ok(())
    }

    /// Removes an extended attribute.
    pub fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Result<(), VolumeError> {
        self.drive.check()?;
        let entry = self.files.get_mut(file)?;
        let changed = entry.properties().without(file, name)?;
        entry.set_properties(changed);
        Ok(())
    }

    // -- making durable -----------------------------------------------------------------------------------------------

    /// Makes the file, its content and its metadata durable. Flushes the drive even if nothing was dirty.
    pub fn sync(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.sync_file(file, true)
    }

    /// As [`Volume::sync`], but times alone are not made durable (fdatasync).
    pub fn sync_data(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.sync_file(file, false)
    }

    fn sync_file(&mut self, file: FileId, times: bool) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.write_back_file(file)?;
        self.commit_files(&[file], times)?;
        self.assert_invariants();
        Ok(())
    }

    /// Whether anything waits to be made durable, apart from what programs wrote without the page cache.
    pub fn is_dirty(&self) -> bool {
        self.pages.cache().dirty_pages() > 0
            || self.pending_names() > 0
            || self.files.iter().any(|(_, file)| file.may_differ())
    }

    /// Makes creations, removals and renames durable. A new file then exists, with the size of its last sync.
    pub fn sync_names(&mut self) -> Result<(), VolumeError> {
        self.drive.check()?;
        self.commit().names()
    }

    /// Makes everything durable.
    pub fn sync_all(&mut self) -> Result<(), VolumeError> {
        self.drive.check()?;
        while let Some(file) = self.pages.cache().next_dirty_file(None) {
            self.write_back_file(file)?;
        }
        let files = self.files.which(|file| file.may_differ() || file.has_freed());
        if files.is_empty() {
            self.drive.flush()?;
        }
        // Half a batch, as the other half may be names.
        for files in files.chunks(self.drive.batch_units() / 2) {
            self.commit_files(files, true)?;
        }
        self.commit().names()?;
        let dirty = self.pages.cache().dirty_pages();
        debug_assert_eq!(dirty, 0, "dirty pages after a sync of everything");
        self.assert_invariants();
        Ok(())
    }

    /// Sends all dirty pages of a file, without waiting for them.
    fn write_back_file(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.pages.write_back(&mut self.drive, &mut self.files, file)
    }

    fn commit(&mut self) -> Commit<'_> {
        Commit::new(&mut self.drive, &mut self.files, &mut self.tree, &mut self.table, &mut self.space)
    }

    /// Makes the metadata of files durable whose pages were written back.
    fn commit_files(&mut self, files: &[FileId], times: bool) -> Result<(), VolumeError> {
        for &file in files {
            self.assert_written_back(file);
        }
        self.commit().files(files, times)
    }

    /// Ensures that inodes written without a sync do not precede what they show: dirty data of their files, and whatever
    /// was sent and not flushed.
    fn settle(&mut self, changes: &[InodeChange]) -> Result<(), VolumeError> {
        for change in changes {
            self.write_back_file(change.file())?;
        }
        if self.drive.owes_flush() && !changes.is_empty() {
            self.drive.flush()?;
        }
        changes.iter().for_each(|change| self.assert_written_back(change.file()));
        Ok(())
    }

    /// V4: data precede the inode that shows them.
    fn assert_written_back(&self, file: FileId) {
        let dirty = self.pages.cache().last_dirty_unit(file);
        debug_assert_eq!(dirty, None, "a dirty unit of file {}, whose inode goes first", file.0);
    }

    /// Names that wait to become durable, in units of metadata.
    fn pending_names(&self) -> usize {
        self.tree.pending() + self.table.removed().len()
    }

    /// Sends waiting changes to the drive unless `changes` more fit in a batch with them.
    fn make_room_for_changes(&mut self, changes: usize) -> Result<(), VolumeError> {
        let is_full = self.pending_names() + changes > self.drive.batch_units() / 2;
        if is_full { self.sync_names() } else { Ok(()) }
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

    /// Checks what must hold between the parts, in builds with debug assertions.
    fn assert_invariants(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        self.space.assert_invariants();
        self.tree.assert_invariants();
        self.files.assert_invariants();
        invariants::assert_units_have_one_owner(&self.space, &self.table, &self.files, self.drive.units());
        invariants::assert_slots_have_one_owner(&self.table, &self.tree, &self.files);
        invariants::assert_files_are_known(&self.files, &self.tree, &self.table);
        invariants::assert_pages_have_places(&self.pages, &self.files, &self.transactions);
    }
}

#[cfg(test)]
mod tests;
