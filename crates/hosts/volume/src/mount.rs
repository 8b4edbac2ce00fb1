//! What a volume is when it is created or opened.
//!
//! The superblock says whether the volume is in use. If it is when the volume is mounted, the host crashed: units that
//! no inode names may hold data that never became part of a file, so all of them are trimmed, as is what files have
//! reserved beyond their ends. That is the whole recovery: a file that was open without a name has no inode on the
//! drive.

use std::collections::BTreeMap;

use tantalum::{Command, Lpn, UNIT_BYTES};
use tantalum_filesystem::{FileId, FileKind};
use zerocopy::{FromBytes, IntoBytes};

use crate::checksum;
use crate::continuation::{CONTINUATION_MAGIC, ContinuationUnit, PROPERTY_MAGIC};
use crate::drive::VolumeClient;
use crate::error::{Damage, VolumeError};
use crate::extents::LpnRange;
use crate::file::{Continuation, File};
use crate::files::Files;
use crate::inode::{INODE_MAGIC, Inode, InodeUnit};
use crate::link::{LINK_MAGIC, Link, LinkUnit};
use crate::name::NamePlace;
use crate::space::Space;
use crate::superblock::{LEAST_ATOMIC_UNITS, SUPERBLOCK, Superblock};
use crate::table::InodeTable;
use crate::tree::Tree;

/// Units of the inode table read in one command.
const READ_UNITS: u32 = 256;

/// The parts that are derived from what is on the drive.
pub(crate) struct Found {
    pub table: InodeTable,
    pub space: Space,
    pub files: Files,
    pub tree: Tree,
}

/// The inode table as it is on the drive, by slot.
#[derive(Default)]
struct TableUnits {
    inodes: BTreeMap<u32, (Inode, NamePlace, Vec<u32>)>,
    /// Including those that no inode names any more.
    continuations: BTreeMap<u32, Box<ContinuationUnit>>,
    links: BTreeMap<u32, Link>,
}

impl Found {
    /// Trims the drive, and writes an empty volume to it.
    pub fn create(drive: &mut VolumeClient) -> Result<Found, VolumeError> {
        let superblock = Superblock::new(drive.device().limits().capacity_units)?;
        check_batches(drive)?;
        drive.submit(Command::Trim { lpn: SUPERBLOCK, units: drive.units() })?;
        // The superblock appears once the old contents are gone for good.
        drive.flush()?;
        let mut found = Found::empty(drive, superblock);
        found.write_root(drive)?;
        found.table.set_in_use(true, drive)?;
        Ok(found)
    }

    /// Reads the drive's volume, and repairs what a crash of the host left.
    pub fn read(drive: &mut VolumeClient) -> Result<Found, VolumeError> {
        check_batches(drive)?;
        let capacity_units = drive.device().limits().capacity_units;
        let mut unit = [0; UNIT_BYTES];
        drive.read(SUPERBLOCK, &mut unit)?;
        let superblock = Superblock::parse(&unit, capacity_units)?;
        let mut units = TableUnits::read(drive, &superblock)?;
        let mut found = Found::empty(drive, superblock);
        found.claim_table()?;
        found.add_files(&mut units)?;
        found.add_names(units.links)?;
        if found.table.in_use() {
            found.trim_what_is_no_content(drive)?;
        } else {
            found.table.set_in_use(true, drive)?;
        }
        Ok(found)
    }

    fn empty(drive: &VolumeClient, superblock: Superblock) -> Found {
        let mut space = Space::default();
        space.release(LpnRange { lpn: Lpn(1), units: drive.units() - 1 });
        // The table's first piece; the others are claimed when it is read.
        let first = superblock.pieces().next().expect("a table has a piece");
        assert!(space.claim(first), "{first:?} is checked against the drive");
        Found { table: InodeTable::new(superblock), space, files: Files::default(), tree: Tree::default() }
    }

    fn write_root(&mut self, drive: &mut VolumeClient) -> Result<(), VolumeError> {
        let mut inode = Inode::new(FileId::ROOT, FileKind::Folder);
        inode.permissions = 0o755;
        let place = NamePlace { folder: FileId::ROOT, name: b""[..].into() };
        let slot = self.table.take();
        let unit = inode.encode(slot, &place).unit;
        let lpn = self.table.lpn(slot);
        drive.submit(Command::Write { lpn, data: unit.as_bytes(), fua: false, handle: None })?;
        drive.flush()?;
        self.files.add(FileId::ROOT, File::stored(inode, Vec::new()));
        self.tree.add_stored(FileId::ROOT, slot, place, true);
        Ok(())
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

    fn add_files(&mut self, units: &mut TableUnits) -> Result<(), VolumeError> {
        for (slot, (mut inode, place, slots)) in std::mem::take(&mut units.inodes) {
            let lpn = self.table.lpn(slot);
            let damaged = |damage| VolumeError::Damaged { lpn, damage };
            let number = inode.number;
            if self.files.contains(number) {
                return Err(damaged(Damage::DuplicateNumber { number: number.0 }));
            }
            let continuations = units.take_continuations(slot, &slots).map_err(damaged)?;
            inode.add_continuations(continuations.iter().map(|c| &*c.unit)).map_err(damaged)?;
            for extent in inode.extents.iter() {
                if !self.space.claim(extent.range()) {
                    return Err(damaged(Damage::Extent { lpn: extent.lpn, units: extent.units }));
                }
            }
            self.table.claim(slot);
            continuations.iter().for_each(|continuation| self.table.claim(continuation.slot));
            self.table.note_continuations(continuations.len());
            self.tree.add_stored(number, slot, place, inode.kind == FileKind::Folder);
            self.files.add(number, File::stored(inode, continuations));
        }
        Ok(())
    }

    fn add_names(&mut self, links: BTreeMap<u32, Link>) -> Result<(), VolumeError> {
        links.keys().for_each(|slot| self.table.claim(*slot));
        self.tree
            .index(links)
            .map_err(|(slot, damage)| VolumeError::Damaged { lpn: self.table.lpn(slot), damage })
    }

    fn trim_what_is_no_content(&self, drive: &mut VolumeClient) -> Result<(), VolumeError> {
        let mut ranges: Vec<LpnRange> = self.space.ranges().collect();
        for (_, file) in self.files.iter() {
            let beyond = file.beyond_end(0..u32::MAX);
            ranges.extend(file.extents().between(beyond.start, beyond.end).map(|extent| extent.range()));
        }
        for range in ranges {
            drive.submit(Command::Trim { lpn: range.lpn, units: range.units })?;
        }
        // Makes durable what is seen from now on, including what the host had not flushed before it crashed.
        drive.flush()
    }
}

impl TableUnits {
    fn read(drive: &mut VolumeClient, superblock: &Superblock) -> Result<TableUnits, VolumeError> {
        let mut table = TableUnits::default();
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
                let (inode, place) = Inode::decode(unit)?;
                self.inodes.insert(slot, (inode, place, unit.continuation_slots()?));
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

/// Refuses a drive whose batches are too small.
fn check_batches(drive: &VolumeClient) -> Result<(), VolumeError> {
    let units = drive.batch_units() as u32;
    if units < LEAST_ATOMIC_UNITS {
        return Err(VolumeError::AtomicLimit { units, needed: LEAST_ATOMIC_UNITS });
    }
    Ok(())
}
