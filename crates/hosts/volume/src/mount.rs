//! Creating, opening and closing a volume.
//!
//! The superblock says whether the volume is in use. If it is when the volume is mounted, the host crashed: units that
//! no inode names may hold data that never became part of a file, so all of them are trimmed, as is what files have
//! reserved beyond their ends. That is the whole recovery: a file that was open without a name has no inode on the
//! drive.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::canary::{self, Guard};
use tantalum::{Command, Device, Lpn, UNIT_BYTES};
use tantalum_drive::Client;
use tantalum_filesystem::{FileId, FileKind};
use zerocopy::{FromBytes, IntoBytes};

use crate::checksum;
use crate::continuation::{CONTINUATION_MAGIC, ContinuationUnit, PROPERTY_MAGIC};
use crate::drive::Drive;
use crate::error::{Damage, VolumeError};
use crate::extents::LpnRange;
use crate::file::{Continuation, File};
use crate::inode::{INODE_MAGIC, Inode, InodeUnit, units_of};
use crate::link::{LINK_MAGIC, Link, LinkUnit};
use crate::space::Space;
use crate::superblock::{LEAST_ATOMIC_UNITS, SUPERBLOCK, Superblock};
use crate::table::InodeTable;
use crate::transactions::Transactions;
use crate::volume::Volume;
use tantalum_filesystem::PageCache;

/// Units of the inode table read in one command.
const READ_UNITS: u32 = 256;

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

/// The inode table as it is on the drive, by slot.
#[derive(Default)]
struct Table {
    inodes: BTreeMap<u32, (Inode, Vec<u32>)>,
    /// Including those that no inode names any more.
    continuations: BTreeMap<u32, Box<ContinuationUnit>>,
    links: BTreeMap<u32, Link>,
}

impl Volume {
    /// Creates an empty volume on a drive, and mounts it with a page cache of `cache_bytes`. The drive's contents are
    /// trimmed.
    pub fn format(client: impl Into<Client>, cache_bytes: u64) -> Result<Volume, VolumeError> {
        let mut drive = Drive::new(client.into());
        let superblock = Superblock::new(drive.device().limits().capacity_units)?;
        check_batches(&drive)?;
        drive.submit(Command::Trim { lpn: SUPERBLOCK, units: drive.units() })?;
        // The superblock appears once the old contents are gone for good.
        drive.flush()?;
        let mut volume = Volume::empty(drive, superblock, cache_bytes);
        volume.write_root()?;
        volume.table.set_in_use(true, &mut volume.drive)?;
        volume.assert_invariants();
        Ok(volume)
    }

    fn write_root(&mut self) -> Result<(), VolumeError> {
        let mut inode = Inode::new(FileId::ROOT, FileKind::Folder, FileId::ROOT, b""[..].into());
        inode.permissions = 0o755;
        let slot = self.table.take();
        let (lpn, unit) = (self.table.lpn(slot), inode.encode(slot).unit);
        self.drive.submit(Command::Write { lpn, data: unit.as_bytes(), fua: false })?;
        self.drive.flush()?;
        let stored = Some(Box::new(inode.clone()));
        self.files.insert(FileId::ROOT, File { stored, touched: true, ..File::known(inode, slot) });
        Ok(())
    }

    /// Opens a drive's volume with a page cache of `cache_bytes`.
    ///
    /// Fails for a drive without a volume, a volume of another layout version, and a damaged one.
    pub fn mount(client: impl Into<Client>, cache_bytes: u64) -> Result<Volume, VolumeError> {
        let mut drive = Drive::new(client.into());
        check_batches(&drive)?;
        let capacity_units = drive.device().limits().capacity_units;
        let mut unit = [0; UNIT_BYTES];
        drive.read(SUPERBLOCK, &mut unit)?;
        let superblock = Superblock::parse(&unit, capacity_units)?;
        let table = Table::read(&mut drive, &superblock)?;
        let mut volume = Volume::empty(drive, superblock, cache_bytes);
        volume.claim_table()?;
        volume.add_files(table)?;
        volume.build_tree()?;
        if volume.table.in_use() {
            volume.trim_what_is_no_content()?;
        } else {
            volume.table.set_in_use(true, &mut volume.drive)?;
        }
        volume.assert_invariants();
        Ok(volume)
    }

    /// Whether the drive holds a volume, of any version and in any state.
    pub fn is_formatted(device: &mut Device) -> Result<bool, VolumeError> {
        let mut unit = [0; UNIT_BYTES];
        let at_ns = device.time_ns();
        device.submit(Command::Read { lpn: SUPERBLOCK, data: &mut unit }, at_ns)?;
        Ok(Superblock::is_one(&unit))
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
        while let Some(&orphan) = self.orphans.first() {
            self.forget_orphan(orphan);
        }
        self.space.trim(&mut self.drive)?;
        if self.drive.owes_flush() && !canary::out(Guard::ClosedBeforeTrims) {
            // A drive may lose its last trims and keep later writes, and mounting does not trim a volume that is not in
            // use.
            self.drive.flush()?;
        }
        // nothing is left that the next mount would have to find
        assert!(
            self.space.untrimmed().is_empty(),
            "{:?} are not trimmed by the unmount",
            self.space.untrimmed()
        );
        assert!(self.transactions.is_empty(), "{:?} is open after the unmount", self.transactions.first());
        debug_assert_eq!(self.cache.dirty_pages(), 0, "dirty pages that the unmount leaves");
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

    fn empty(drive: Drive, superblock: Superblock, cache_bytes: u64) -> Volume {
        let mut space = Space::default();
        let units = drive.units() - 1;
        space.release(LpnRange { lpn: Lpn(1), units });
        // The table's first piece; the others are claimed when it is read.
        let first = superblock.pieces().next().expect("a table has a piece");
        assert!(space.claim(first), "{first:?} is checked against the drive");
        Volume {
            drive,
            cache: PageCache::new(cache_bytes),
            space,
            table: InodeTable::new(superblock),
            files: BTreeMap::new(),
            links: BTreeMap::new(),
            last_file: FileId::ROOT.0,
            unnamed: BTreeSet::new(),
            unnamed_links: BTreeSet::new(),
            orphans: BTreeSet::new(),
            transactions: Transactions::default(),
            scratch: Vec::new(),
        }
    }

    fn claim_table(&mut self) -> Result<(), VolumeError> {
        for piece in self.table.pieces().skip(1) {
            if !self.space.claim(piece) {
                let damage = Damage::Table { units: piece.units };
                return Err(VolumeError::Damaged { lpn: SUPERBLOCK, damage });
            }
        }
        Ok(())
    }

    fn add_files(&mut self, mut table: Table) -> Result<(), VolumeError> {
        for (slot, (mut inode, slots)) in std::mem::take(&mut table.inodes) {
            let lpn = self.table.lpn(slot);
            let damaged = |damage| VolumeError::Damaged { lpn, damage };
            let number = inode.number;
            if self.files.contains_key(&number) {
                return Err(damaged(Damage::DuplicateNumber { number: number.0 }));
            }
            let continuations = table.take_continuations(slot, &slots).map_err(damaged)?;
            inode.add_continuations(continuations.iter().map(|c| &*c.unit)).map_err(damaged)?;
            for extent in inode.extents.iter() {
                if !self.space.claim(extent.range()) {
                    return Err(damaged(Damage::Extent { lpn: extent.lpn, units: extent.units }));
                }
            }
            self.table.claim(slot);
            continuations.iter().for_each(|continuation| self.table.claim(continuation.slot));
            self.table.note_continuations(continuations.len());
            self.last_file = self.last_file.max(number.0);
            let stored = Some(Box::new(inode.clone()));
            let file = File { stored, continuations, touched: true, ..File::known(inode, slot) };
            self.files.insert(number, file);
        }
        table.links.keys().for_each(|slot| self.table.claim(*slot));
        self.links = table.links;
        Ok(())
    }

    /// Builds the index of the folders from the names in inodes and links, and checks that it is complete.
    fn build_tree(&mut self) -> Result<(), VolumeError> {
        let mut names = Vec::new();
        for (&id, file) in self.files.iter().filter(|(id, _)| **id != FileId::ROOT) {
            let slot = file.slot.expect("a file that was read has a slot");
            names.push((slot, None, id, file.inode.folder, file.inode.name.clone()));
        }
        for (&slot, link) in &self.links {
            names.push((slot, Some(slot), link.file, link.place.folder, link.place.name.clone()));
        }
        for (slot, link, id, folder, name) in names {
            let lpn = self.table.lpn(slot);
            let damaged = |damage| VolumeError::Damaged { lpn, damage };
            let lost = |id: FileId| damaged(Damage::Lost { number: id.0 });
            let file = self.files.get_mut(&id).ok_or(lost(id))?;
            let is_folder = file.folder.is_some();
            if let Some(link) = link {
                if is_folder {
                    return Err(lost(id));
                }
                file.links.insert(link);
            }
            let entries = self.files.get_mut(&folder).and_then(|file| file.folder.as_mut());
            let entries = entries.ok_or(lost(folder))?;
            if !entries.insert(name, id, link) {
                return Err(damaged(Damage::DuplicateName));
            }
            entries.subfolders += u32::from(is_folder);
        }
        self.check_reachable()
    }

    /// All folders are below the root, and there is a root.
    fn check_reachable(&self) -> Result<(), VolumeError> {
        let is_root = self.files.get(&FileId::ROOT).is_some_and(|root| root.folder.is_some());
        let mut reached = BTreeSet::new();
        let mut waiting = if is_root { vec![FileId::ROOT] } else { Vec::new() };
        while let Some(id) = waiting.pop() {
            reached.insert(id);
            let entries = self.files[&id].folder.iter().flat_map(|folder| folder.after(0));
            let files = entries.map(|(_, entry)| entry.file);
            waiting.extend(files.filter(|file| self.files[file].folder.is_some()));
        }
        let is_out_of_reach = |(id, file): &(&FileId, &File)| file.folder.is_some() && !reached.contains(id);
        let out_of_reach = self.files.iter().find(is_out_of_reach).map(|(id, _)| *id);
        match out_of_reach.or((!is_root).then_some(FileId::ROOT)) {
            Some(id) => {
                let slot = self.files.get(&id).and_then(|file| file.slot).unwrap_or(0);
                let damage = Damage::Lost { number: id.0 };
                Err(VolumeError::Damaged { lpn: self.table.lpn(slot), damage })
            }
            None => Ok(()),
        }
    }

    fn trim_what_is_no_content(&mut self) -> Result<(), VolumeError> {
        let mut ranges: Vec<LpnRange> = self.space.ranges().collect();
        let inodes = self.files.values().map(|file| &file.inode);
        for inode in inodes.filter(|inode| !inode.reserved_by_program) {
            let beyond = inode.extents.between(units_of(inode.size), u32::MAX);
            ranges.extend(beyond.map(|extent| extent.range()));
        }
        for range in ranges {
            self.drive.submit(Command::Trim { lpn: range.lpn, units: range.units })?;
        }
        // Makes durable what is seen from now on, including what the host had not flushed before it crashed.
        self.drive.flush()
    }
}

impl Table {
    fn read(drive: &mut Drive, superblock: &Superblock) -> Result<Table, VolumeError> {
        let mut table = Table::default();
        let mut buffer = vec![0; READ_UNITS as usize * UNIT_BYTES];
        let mut slot = 0;
        for piece in superblock.pieces() {
            for first in (0..piece.units).step_by(READ_UNITS as usize) {
                let count = READ_UNITS.min(piece.units - first);
                let data = &mut buffer[..count as usize * UNIT_BYTES];
                drive.read(Lpn(piece.lpn.0 + first), data)?;
                for unit in data.as_chunks::<UNIT_BYTES>().0 {
                    let lpn = superblock.slot_lpn(slot);
                    table.add(slot, unit).map_err(|damage| VolumeError::Damaged { lpn, damage })?;
                    slot += 1;
                }
            }
        }
        Ok(table)
    }

    fn add(&mut self, slot: u32, unit: &[u8; UNIT_BYTES]) -> Result<(), Damage> {
        if unit.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        checksum::verify(unit)?;
        let magic: [u8; 4] = unit[4..8].try_into().expect("four bytes");
        match magic {
            INODE_MAGIC => {
                let unit = InodeUnit::ref_from_bytes(unit).expect("one unit");
                self.inodes.insert(slot, (Inode::decode(unit)?, unit.continuation_slots()?));
            }
            CONTINUATION_MAGIC | PROPERTY_MAGIC => {
                let continuation = ContinuationUnit::read_from_bytes(unit).expect("one unit");
                self.continuations.insert(slot, Box::new(continuation));
            }
            LINK_MAGIC => {
                let unit = LinkUnit::ref_from_bytes(unit).expect("one unit");
                self.links.insert(slot, Link::decode(unit)?);
            }
            _ => return Err(Damage::Kind),
        }
        Ok(())
    }

    /// The continuations of the inode in `slot`, in order.
    fn take_continuations(&mut self, slot: u32, places: &[u32]) -> Result<Vec<Continuation>, Damage> {
        let mut continuations = Vec::new();
        for (index, &at) in places.iter().enumerate() {
            let found = self.continuations.remove(&at).filter(|unit| unit.belongs_to(slot, index));
            let unit = found.ok_or(Damage::Continuation { inode: slot })?;
            continuations.push(Continuation { slot: at, unit });
        }
        Ok(continuations)
    }
}

fn check_batches(drive: &Drive) -> Result<(), VolumeError> {
    let units = drive.batch_units() as u32;
    if units < LEAST_ATOMIC_UNITS {
        return Err(VolumeError::AtomicLimit { units, needed: LEAST_ATOMIC_UNITS });
    }
    Ok(())
}
