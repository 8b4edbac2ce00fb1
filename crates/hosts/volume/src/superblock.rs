//! The volume's first unit: its identity, and the position of the inode table.
//!
//! | unit | holds |
//! |---|---|
//! | 0 | the superblock |
//! | the table's pieces | the inode table ([`crate::inode`]); a unit of zeros is free. The first piece begins at unit 1 |
//! | all others | files |
//!
//! A slot is the number of a unit of the table, counted across its pieces. The table grows by pieces and never shrinks.

use tantalum::{Lpn, UNIT_BYTES};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::{self, Checksummed};
use crate::error::{Damage, VolumeError};
use crate::extents::LpnRange;

/// The layout version of this program.
pub(crate) const VERSION: u32 = 2;

/// Position of the superblock.
pub(crate) const SUPERBLOCK: Lpn = Lpn(0);

/// Units of the smallest drive for a volume.
pub(crate) const LEAST_UNITS: u64 = 64;

/// Half a batch must hold the name changes of one operation; see `tree`.
pub(crate) const LEAST_ATOMIC_UNITS: u32 = 8;

const MAGIC: [u8; 8] = *b"TANTVOL\n";
const TABLE_UNITS: std::ops::RangeInclusive<u64> = 32..=4096;
const UNITS_PER_SLOT: u64 = 256;
const MOST_PIECES: usize = (UNIT_BYTES - 32) / size_of::<PieceRecord>();

/// The superblock as it is stored on the drive.
#[derive(Clone, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct Superblock {
    crc: U32,
    version: U32,
    magic: [u8; 8],
    capacity_units: U64,
    pieces: U32,
    /// 1 while mounted: units without a file may have contents, which the next mount trims.
    in_use: u8,
    zeros: [u8; 3],
    table: [PieceRecord; MOST_PIECES],
}

/// A piece of the inode table.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct PieceRecord {
    lpn: U32,
    units: U32,
}

impl Checksummed for Superblock {}

impl Superblock {
    /// The superblock of a new volume, in use.
    pub fn new(capacity_units: u64) -> Result<Superblock, VolumeError> {
        if capacity_units < LEAST_UNITS {
            return Err(VolumeError::TooSmall { units: capacity_units, needed: LEAST_UNITS });
        }
        let table = (capacity_units / UNITS_PER_SLOT).clamp(*TABLE_UNITS.start(), *TABLE_UNITS.end());
        let mut superblock = Superblock::new_zeroed();
        superblock.version = U32::new(VERSION);
        superblock.magic = MAGIC;
        superblock.capacity_units = U64::new(capacity_units);
        superblock.pieces = U32::new(1);
        superblock.table[0] = PieceRecord { lpn: U32::new(1), units: U32::new(table as u32) };
        superblock.set_in_use(true);
        Ok(superblock)
    }

    /// Whether the unit claims to be a superblock, valid or damaged.
    pub fn is_one(unit: &[u8; UNIT_BYTES]) -> bool {
        unit[8..16] == MAGIC
    }

    /// Reads the superblock of a drive of `drive_units`.
    pub fn parse(unit: &[u8; UNIT_BYTES], drive_units: u64) -> Result<Superblock, VolumeError> {
        if !Superblock::is_one(unit) {
            return Err(VolumeError::NotAVolume);
        }
        let damaged = |damage| VolumeError::Damaged { lpn: SUPERBLOCK, damage };
        checksum::verify(unit).map_err(damaged)?;
        let superblock = Superblock::read_from_bytes(unit).expect("one unit");
        let found = superblock.version.get();
        if found != VERSION {
            return Err(VolumeError::OtherVersion { found, supported: VERSION });
        }
        let formatted_units = superblock.capacity_units.get();
        if formatted_units != drive_units {
            return Err(VolumeError::OtherCapacity { formatted_units, drive_units });
        }
        if superblock.pieces.get() as usize > MOST_PIECES {
            return Err(damaged(Damage::Count { count: superblock.pieces.get(), most: MOST_PIECES as u32 }));
        }
        let mut units = 0;
        for piece in superblock.pieces() {
            units += u64::from(piece.units);
            if piece.units == 0 || u64::from(piece.lpn.0) + u64::from(piece.units) > drive_units {
                return Err(damaged(Damage::Table { units: piece.units }));
            }
        }
        if units == 0 || units >= drive_units {
            return Err(damaged(Damage::Table { units: units as u32 }));
        }
        Ok(superblock)
    }

    /// The pieces of the inode table.
    pub fn pieces(&self) -> impl Iterator<Item = LpnRange> {
        let pieces = &self.table[..self.pieces.get() as usize];
        pieces.iter().map(|piece| LpnRange { lpn: Lpn(piece.lpn.get()), units: piece.units.get() })
    }

    /// Units of the inode table.
    pub fn table_units(&self) -> u32 {
        self.pieces().map(|piece| piece.units).sum()
    }

    /// Whether the table can have another piece.
    pub fn can_grow(&self) -> bool {
        (self.pieces.get() as usize) < MOST_PIECES
    }

    /// Adds a piece to the table, and returns its slots. There must be room for it.
    pub fn grow(&mut self, piece: LpnRange) -> std::ops::Range<u32> {
        assert!(self.can_grow(), "the table has {MOST_PIECES} pieces, the most");
        let first = self.table_units();
        let place = &mut self.table[self.pieces.get() as usize];
        *place = PieceRecord { lpn: U32::new(piece.lpn.0), units: U32::new(piece.units) };
        self.pieces += 1;
        self.seal();
        first..first + piece.units
    }

    /// The position of a slot of the table.
    pub fn slot_lpn(&self, slot: u32) -> Lpn {
        let mut index = slot;
        for piece in self.pieces() {
            if index < piece.units {
                return Lpn(piece.lpn.0 + index);
            }
            index -= piece.units;
        }
        panic!("slot {slot} is beyond the table's {} units", self.table_units());
    }

    /// Whether the volume was not unmounted.
    pub fn in_use(&self) -> bool {
        self.in_use != 0
    }

    pub fn set_in_use(&mut self, in_use: bool) {
        self.in_use = u8::from(in_use);
        self.seal();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(superblock: &Superblock) -> [u8; UNIT_BYTES] {
        superblock.as_bytes().try_into().unwrap()
    }

    #[test]
    fn a_superblock_is_one_unit_and_reads_back() {
        assert_eq!(size_of::<Superblock>(), UNIT_BYTES);
        let superblock = Superblock::new(1 << 20).unwrap();
        let read = Superblock::parse(&unit(&superblock), 1 << 20).unwrap();
        assert_eq!(read.as_bytes(), superblock.as_bytes());
        assert_eq!((read.table_units(), read.slot_lpn(0), read.in_use()), (4096, Lpn(1), true));
    }

    #[test]
    fn the_layout_is_pinned() {
        let bytes = unit(&Superblock::new(0x1_0000).unwrap());
        assert_eq!(bytes[4..29], *b"\x02\0\0\0TANTVOL\n\0\0\x01\0\0\0\0\0\x01\0\0\0\x01");
        assert_eq!(bytes[32..41], *b"\x01\0\0\0\0\x01\0\0\0");
        assert_eq!(bytes[..4], tantalum_image::checksum_of(&bytes[4..]).to_le_bytes());
    }

    #[test]
    fn a_table_grows_by_pieces() {
        let mut superblock = Superblock::new(1 << 20).unwrap();
        let piece = LpnRange { lpn: Lpn(9000), units: 7 };
        assert_eq!(superblock.grow(piece), 4096..4103);
        let read = Superblock::parse(&unit(&superblock), 1 << 20).unwrap();
        assert_eq!([0, 4095, 4096, 4102].map(|slot| read.slot_lpn(slot).0), [1, 4096, 9000, 9006]);
        let beyond = LpnRange { lpn: Lpn((1 << 20) - 1), units: 2 };
        superblock.grow(beyond);
        let error = Superblock::parse(&unit(&superblock), 1 << 20).err();
        let damage = Damage::Table { units: 2 };
        assert_eq!(error, Some(VolumeError::Damaged { lpn: SUPERBLOCK, damage }));
    }

    #[test]
    fn what_is_no_superblock_is_told_apart_from_one_that_is_damaged() {
        assert_eq!(Superblock::parse(&[0; UNIT_BYTES], 64).err(), Some(VolumeError::NotAVolume));
        let mut bytes = unit(&Superblock::new(64).unwrap());
        bytes[100] ^= 1;
        let error = Superblock::parse(&bytes, 64).err();
        assert!(matches!(
            error,
            Some(VolumeError::Damaged { lpn: SUPERBLOCK, damage: Damage::Checksum { .. } })
        ));
    }

    #[test]
    fn another_version_and_another_capacity_are_refused() {
        let mut superblock = Superblock::new(64).unwrap();
        let error = Superblock::parse(&unit(&superblock), 128).err();
        assert_eq!(error, Some(VolumeError::OtherCapacity { formatted_units: 64, drive_units: 128 }));
        superblock.version = U32::new(7);
        superblock.seal();
        let error = Superblock::parse(&unit(&superblock), 64).err();
        assert_eq!(error, Some(VolumeError::OtherVersion { found: 7, supported: VERSION }));
    }

    #[test]
    fn a_drive_that_is_too_small_is_refused() {
        assert_eq!(Superblock::new(63).err(), Some(VolumeError::TooSmall { units: 63, needed: LEAST_UNITS }));
    }
}
