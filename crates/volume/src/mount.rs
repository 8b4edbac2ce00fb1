//! Making a volume, opening it, closing it.
//!
//! The superblock says whether the volume is in use. If it was when it is mounted, the host crashed: units that
//! no inode names may hold what was written and never became part of a file, so all of them are trimmed. That is
//! all the recovery there is.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::canary::{self, Guard};
use tantalum::{Command, Device, UNIT_BYTES};
use zerocopy::{FromBytes, IntoBytes};

use crate::cache::PageCache;
use crate::checksum;
use crate::drive::Drive;
use crate::error::{Damage, UnmountError, VolumeError};
use crate::extents::LpnRange;
use crate::file::{Continuation, File};
use crate::inode::{CONTINUATION_MAGIC, ContinuationUnit, INODE_MAGIC, Inode, InodeUnit};
use crate::space::FreeSpace;
use crate::superblock::{LEAST_ATOMIC_UNITS, SUPERBLOCK, Superblock};
use crate::volume::Volume;

/// Units of the inode table read in one command.
const READ_UNITS: u32 = 256;

/// The inode table as it lies on the drive, by slot.
#[derive(Default)]
struct Table {
    inodes: BTreeMap<u32, Box<InodeUnit>>,
    /// With those that no inode names any more.
    continuations: BTreeMap<u32, Box<ContinuationUnit>>,
}

impl Volume {
    /// Makes an empty volume on a drive, and mounts it with a page cache of `cache_bytes`. What the drive held is
    /// trimmed.
    pub fn format(device: Device, cache_bytes: u64) -> Result<Volume, VolumeError> {
        let limits = device.limits();
        let superblock = Superblock::new(limits.capacity_units)?;
        check_batches(&device)?;
        let mut drive = Drive::new(device);
        let units = drive_units(limits.capacity_units);
        drive.submit(Command::Trim { lpn: SUPERBLOCK, units })?;
        // The superblock appears once nothing of the old content can.
        drive.submit(Command::Flush)?;
        let mut volume = Volume::empty(drive, superblock, cache_bytes);
        volume.write_superblock(true)?;
        Ok(volume)
    }

    /// Opens a drive's volume with a page cache of `cache_bytes`.
    ///
    /// Refuses a drive without a volume, a volume of another layout version, and one that is damaged.
    pub fn mount(device: Device, cache_bytes: u64) -> Result<Volume, VolumeError> {
        check_batches(&device)?;
        let capacity_units = device.limits().capacity_units;
        let mut drive = Drive::new(device);
        let mut unit = [0; UNIT_BYTES];
        drive.read(SUPERBLOCK, &mut unit)?;
        let superblock = Superblock::parse(&unit, capacity_units)?;
        let table = Table::read(&mut drive, superblock.table_units())?;
        let mut volume = Volume::empty(drive, superblock, cache_bytes);
        volume.add_files(table)?;
        if volume.superblock.in_use() {
            volume.trim_free_space()?;
        } else {
            volume.write_superblock(true)?;
        }
        Ok(volume)
    }

    /// Whether the drive holds a volume, of any version and in any state.
    pub fn is_formatted(device: &mut Device) -> Result<bool, VolumeError> {
        let mut unit = [0; UNIT_BYTES];
        device.submit(Command::Read { lpn: SUPERBLOCK, data: &mut unit }, 0)?;
        Ok(Superblock::is_one(&unit))
    }

    /// Makes everything durable and gives the drive back. Open transactions are aborted.
    pub fn unmount(mut self) -> Result<Device, Box<UnmountError>> {
        match self.shut_down() {
            Ok(()) => Ok(self.drive.device),
            Err(error) => Err(Box::new(UnmountError { volume: self, error })),
        }
    }

    /// Gives the drive back as after a crash of the host: what was not synced is lost.
    pub fn into_device_without_sync(self) -> Device {
        self.drive.device
    }

    fn shut_down(&mut self) -> Result<(), VolumeError> {
        while let Some((&tx, _)) = self.transactions.first_key_value() {
            self.tx_abort(tx)?;
        }
        self.sync_all()?;
        if self.must_flush && !canary::out(Guard::ClosedBeforeTrims) {
            // A drive may lose its last trims and keep what was written after them; a volume that is not in use is
            // not trimmed when it is mounted.
            self.flush()?;
        }
        let closed = self.write_superblock(false);
        if closed.is_err() {
            // The volume goes on. Should this fail as well, so will whatever is tried next.
            let _ = self.write_superblock(true);
        }
        closed
    }

    fn empty(drive: Drive, superblock: Superblock, cache_bytes: u64) -> Volume {
        let mut space = FreeSpace::default();
        let first = superblock.first_data();
        let units = drive_units(drive.device.limits().capacity_units) - first.0;
        space.release(LpnRange { lpn: first, units });
        Volume {
            drive,
            cache: PageCache::new(cache_bytes),
            space,
            free_slots: (0..superblock.table_units()).collect(),
            superblock,
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            next_file: 0,
            unnamed: BTreeSet::new(),
            removed: Vec::new(),
            untrimmed: Vec::new(),
            transactions: BTreeMap::new(),
            write_back_done_ns: 0,
            must_flush: false,
            scratch: Vec::new(),
        }
    }

    fn write_superblock(&mut self, in_use: bool) -> Result<(), VolumeError> {
        self.superblock.set_in_use(in_use);
        let data = self.superblock.as_bytes();
        self.drive.submit(Command::Write { lpn: SUPERBLOCK, data, fua: false })?;
        self.flush()
    }

    fn add_files(&mut self, mut table: Table) -> Result<(), VolumeError> {
        for (slot, unit) in std::mem::take(&mut table.inodes) {
            let damaged = |damage| VolumeError::Damaged { lpn: Volume::slot_lpn(slot), damage };
            let continuations = table.take_continuations(slot, &unit).map_err(damaged)?;
            let units = continuations.iter().map(|continuation| &continuation.unit);
            let inode = Inode::decode(&unit, units).map_err(damaged)?;
            if self.names.contains_key(&inode.name) {
                return Err(damaged(Damage::DuplicateName));
            }
            for extent in inode.extents.iter() {
                if !self.space.claim(extent.range()) {
                    return Err(damaged(Damage::Extent { lpn: extent.lpn, units: extent.units }));
                }
            }
            self.free_slots.remove(&slot);
            for continuation in &continuations {
                self.free_slots.remove(&continuation.slot);
            }
            let stored = Some(unit);
            let freed = Vec::new();
            self.add_file(File { inode, slot, stored, continuations, dirty: false, touched: true, freed });
        }
        Ok(())
    }

    fn trim_free_space(&mut self) -> Result<(), VolumeError> {
        let ranges: Vec<LpnRange> = self.space.ranges().collect();
        for range in ranges {
            self.drive.submit(Command::Trim { lpn: range.lpn, units: range.units })?;
        }
        // What is seen from now on is durable, also what the host had not got to flush before it crashed.
        self.flush()
    }
}

impl Table {
    fn read(drive: &mut Drive, units: u32) -> Result<Table, VolumeError> {
        let mut table = Table::default();
        let mut buffer = vec![0; READ_UNITS.min(units) as usize * UNIT_BYTES];
        for first in (0..units).step_by(READ_UNITS as usize) {
            let count = READ_UNITS.min(units - first);
            let data = &mut buffer[..count as usize * UNIT_BYTES];
            drive.read(Volume::slot_lpn(first), data)?;
            for (slot, unit) in (first..).zip(data.as_chunks::<UNIT_BYTES>().0) {
                let damaged = |damage| VolumeError::Damaged { lpn: Volume::slot_lpn(slot), damage };
                table.add(slot, unit).map_err(damaged)?;
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
                let inode = InodeUnit::read_from_bytes(unit).expect("one unit");
                self.inodes.insert(slot, Box::new(inode));
            }
            CONTINUATION_MAGIC => {
                let continuation = ContinuationUnit::read_from_bytes(unit).expect("one unit");
                self.continuations.insert(slot, Box::new(continuation));
            }
            _ => return Err(Damage::Kind),
        }
        Ok(())
    }

    /// The continuations of the inode in `slot`, in order.
    fn take_continuations(&mut self, slot: u32, unit: &InodeUnit) -> Result<Vec<Continuation>, Damage> {
        let mut continuations = Vec::new();
        for (index, at) in unit.continuation_slots()?.enumerate() {
            let found = self.continuations.remove(&at).filter(|unit| unit.belongs_to(slot, index));
            let unit = found.ok_or(Damage::Continuation { inode: slot })?;
            continuations.push(Continuation { slot: at, unit });
        }
        Ok(continuations)
    }
}

fn check_batches(device: &Device) -> Result<(), VolumeError> {
    let units = device.limits().atomic_units;
    if units < LEAST_ATOMIC_UNITS {
        return Err(VolumeError::AtomicLimit { units, needed: LEAST_ATOMIC_UNITS });
    }
    Ok(())
}

/// The drive's units as a count that LPNs can reach.
fn drive_units(capacity_units: u64) -> u32 {
    u32::try_from(capacity_units).unwrap_or(u32::MAX)
}
