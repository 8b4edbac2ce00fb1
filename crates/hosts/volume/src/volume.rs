//! A mounted volume: its parts, its clock, and direct access to the drive.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use tantalum::{Command, Completion, Lpn, Nanoseconds, Status};
use tantalum_drive::Locked;
use tantalum_filesystem::{FileId, FileKind};

use crate::drive::Drive;
use crate::error::VolumeError;
use crate::file::File;
use crate::inode::ATTRIBUTE_BYTES;
use crate::link::Link;
use crate::space::Space;
use crate::table::InodeTable;
use crate::transactions::Transactions;
use tantalum_filesystem::PageCache;

/// A mounted volume.
///
/// Dropping it without [`Volume::unmount`] is a crash of the host: what was not synced is lost.
pub struct Volume {
    pub(crate) drive: Drive,
    pub(crate) cache: PageCache,
    pub(crate) table: InodeTable,
    pub(crate) space: Space,
    pub(crate) files: BTreeMap<FileId, File>,
    /// Further names of files, by slot.
    pub(crate) links: BTreeMap<u32, Link>,
    /// The file that was created last.
    pub(crate) last_file: u32,
    /// Files that the drive does not know, or knows by another name.
    pub(crate) unnamed: BTreeSet<FileId>,
    /// Links that the drive does not know, or knows by another name.
    pub(crate) unnamed_links: BTreeSet<u32>,
    /// Files that have no name and are open.
    pub(crate) orphans: BTreeSet<FileId>,
    pub(crate) transactions: Transactions,
    /// Where the data of long commands are assembled.
    pub(crate) scratch: Vec<u8>,
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume")
            .field("files", &self.files.len())
            .field("free_units", &self.space.units())
            .field("dirty_pages", &self.cache.dirty_pages())
            .field("now_ns", &self.drive.now_ns())
            .finish_non_exhaustive()
    }
}

impl Volume {
    /// An independent copy of the volume and its drive, including everything not yet synced. None if the drive cannot
    /// be copied.
    pub fn try_clone(&self) -> Option<Volume> {
        Some(Volume {
            drive: self.drive.try_clone()?,
            cache: self.cache.clone(),
            table: self.table.clone(),
            space: self.space.copy(),
            files: self.files.clone(),
            links: self.links.clone(),
            last_file: self.last_file,
            unnamed: self.unnamed.clone(),
            unnamed_links: self.unnamed_links.clone(),
            orphans: self.orphans.clone(),
            transactions: self.transactions.clone(),
            scratch: Vec::new(),
        })
    }

    /// The volume's drive, which others may share.
    pub fn drive(&self) -> &tantalum_drive::Drive {
        self.drive.client().drive()
    }

    /// The device below. Writing to it without the volume may damage the volume. The volume waits while somebody has
    /// it, so keep it only as long as necessary.
    pub fn device(&self) -> Locked<'_> {
        self.drive.device()
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

    /// Units that belong to no file.
    pub fn free_units(&self) -> u64 {
        self.space.units()
    }

    /// Bytes of the file.
    pub fn size(&self, file: FileId) -> Result<u64, VolumeError> {
        Ok(self.file(file)?.inode.size)
    }

    /// The bytes set by [`Volume::set_attributes`]; zeros in a new file.
    pub fn attributes(&self, file: FileId) -> Result<[u8; ATTRIBUTE_BYTES], VolumeError> {
        Ok(self.file(file)?.inode.attributes)
    }

    /// Sets bytes that are stored with the file and mean nothing to the volume. They become durable when the file is
    /// next synced or written atomically.
    pub fn set_attributes(
        &mut self,
        file: FileId,
        attributes: &[u8; ATTRIBUTE_BYTES],
    ) -> Result<(), VolumeError> {
        self.drive.check()?;
        let file = self.file_mut(file)?;
        file.dirty |= file.inode.attributes != *attributes;
        file.inode.attributes = *attributes;
        Ok(())
    }

    /// The place of unit `unit` of the file; none if it has no place yet. A program may write there directly if it has
    /// reserved the unit.
    pub fn lpn(&self, file: FileId, unit: u64) -> Option<Lpn> {
        let unit = u32::try_from(unit).ok()?;
        Some(self.file(file).ok()?.inode.extents.run(unit)?.lpn)
    }

    pub(crate) fn file(&self, file: FileId) -> Result<&File, VolumeError> {
        self.files.get(&file).ok_or(VolumeError::NoSuchFile(file))
    }

    pub(crate) fn file_mut(&mut self, file: FileId) -> Result<&mut File, VolumeError> {
        self.files.get_mut(&file).ok_or(VolumeError::NoSuchFile(file))
    }

    /// Names that wait to become durable, in units of metadata.
    pub(crate) fn pending_names(&self) -> usize {
        self.unnamed.len() + self.unnamed_links.len() + self.table.removed().len()
    }

    /// The file, if it has contents that programs read and write.
    pub(crate) fn content_file(&self, file: FileId) -> Result<&File, VolumeError> {
        let entry = self.file(file)?;
        match entry.inode.kind {
            FileKind::File => Ok(entry),
            FileKind::Folder => Err(VolumeError::IsAFolder(file)),
            _ => Err(VolumeError::NotARegularFile(file)),
        }
    }
}
