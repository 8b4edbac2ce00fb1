//! Logical blocks of 4096 or 512 bytes, and the drive's units in which they lie.

use std::ops::Range;

use tantalum::{Lpn, UNIT_BYTES};

use crate::failure::Failure;

/// Bytes of a sector, the smallest block: in these the drive is divided whatever the blocks of a namespace.
pub const SECTOR_BYTES: usize = 512;

const _: () = assert!(UNIT_BYTES.is_multiple_of(SECTOR_BYTES), "a unit has whole sectors");

/// The blocks of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockSpace {
    /// Bytes of a block.
    pub block_bytes: u32,
    /// The unit of the drive in which the first block is.
    first: Lpn,
    /// The number of blocks.
    pub blocks: u64,
}

/// A range of existing blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Blocks {
    /// The first block.
    pub first: u64,
    /// Their number, at least one.
    pub count: u32,
}

/// Where blocks lie: units, and the bytes within them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Units {
    /// The first unit.
    pub first: Lpn,
    /// The number of units.
    pub count: u32,
    /// Bytes of the first unit before the blocks.
    pub before: usize,
    /// Bytes of the last unit after the blocks.
    pub after: usize,
}

/// Blocks that are written all or not at all, even if power fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole {
    /// How many.
    pub blocks: u32,
    /// They do not cross a multiple of so many blocks; 0 if they may lie anywhere.
    pub boundary: u32,
}

impl BlockSpace {
    /// No blocks.
    pub const NONE: BlockSpace = BlockSpace { block_bytes: UNIT_BYTES as u32, first: Lpn(0), blocks: 0 };

    /// Blocks of a given size on a drive with a given number of units, from unit `first` on.
    pub fn within(block_bytes: u32, first: u32, units: u32) -> BlockSpace {
        BlockSpace { first: Lpn(first), ..BlockSpace::new(block_bytes, units.into()) }
    }

    /// Blocks of a given size on a drive with a given number of units.
    pub fn new(block_bytes: u32, units: u64) -> BlockSpace {
        assert!(
            (UNIT_BYTES as u32).is_multiple_of(block_bytes),
            "a unit of {UNIT_BYTES} bytes has no whole number of blocks of {block_bytes}"
        );
        BlockSpace { block_bytes, first: Lpn(0), blocks: units * UNIT_BYTES as u64 / u64::from(block_bytes) }
    }

    /// The size of a block, as a power of two.
    pub fn block_bytes_log2(&self) -> u8 {
        self.block_bytes.trailing_zeros() as u8
    }

    /// Blocks in a unit.
    pub fn per_unit(&self) -> u32 {
        UNIT_BYTES as u32 / self.block_bytes
    }

    /// The size of a number of blocks in bytes.
    pub fn bytes(&self, count: u32) -> u64 {
        u64::from(count) * u64::from(self.block_bytes)
    }

    /// Where a block begins on the drive, in bytes.
    pub fn offset(&self, block: u64) -> u64 {
        u64::from(self.first.0) * UNIT_BYTES as u64 + block * u64::from(self.block_bytes)
    }

    /// What is written as a whole on a drive that writes so many units as a whole. The blocks of one unit are. Of several units, as
    /// many as there are in these wherever the first one begins: the first and the last unit may be written in part.
    pub fn written_whole(&self, units: u32) -> Whole {
        let per_unit = self.per_unit();
        match units {
            1 => Whole { blocks: per_unit, boundary: per_unit },
            units => Whole { blocks: (units - 1) * per_unit + 1, boundary: 0 },
        }
    }

    /// The unit of the drive that is unit `unit` here, if so many from there on exist.
    pub fn unit(&self, unit: Lpn, units: u32) -> Result<Lpn, Failure> {
        let end = (u64::from(unit.0) + u64::from(units)) * u64::from(self.per_unit());
        if end <= self.blocks { Ok(Lpn(self.first.0 + unit.0)) } else { Err(Failure::OUT_OF_RANGE) }
    }

    /// A range, if all of it exists.
    pub fn blocks(&self, first: u64, count: u32) -> Result<Blocks, Failure> {
        let is_there = first.checked_add(count.into()).is_some_and(|end| end <= self.blocks);
        if is_there { Ok(Blocks { first, count }) } else { Err(Failure::OUT_OF_RANGE) }
    }

    /// The sectors of the drive, of 512 bytes each, that blocks have.
    pub fn sectors(&self, blocks: Blocks) -> Range<u64> {
        let per_block = u64::from(self.block_bytes) / SECTOR_BYTES as u64;
        let first = u64::from(self.first.0) * (UNIT_BYTES / SECTOR_BYTES) as u64 + blocks.first * per_block;
        first..first + u64::from(blocks.count) * per_block
    }

    /// The units in which blocks lie.
    pub fn units(&self, blocks: Blocks) -> Units {
        let unit = UNIT_BYTES as u64;
        let from = blocks.first * u64::from(self.block_bytes);
        let end = from + self.bytes(blocks.count);
        let first = from / unit;
        let units = Units {
            first: Lpn(self.first.0 + first as u32),
            count: (end.div_ceil(unit) - first) as u32,
            before: (from % unit) as usize,
            after: (end.next_multiple_of(unit) - end) as usize,
        };
        debug_assert_eq!(
            units.bytes() as u64,
            units.before as u64 + self.bytes(blocks.count) + units.after as u64,
            "{blocks:?} of {} bytes lie in {units:?}",
            self.block_bytes
        );
        units
    }
}

impl Units {
    /// Whether the blocks fill all of their units.
    pub fn are_whole(&self) -> bool {
        self.before == 0 && self.after == 0
    }

    /// Bytes of all the units.
    pub fn bytes(&self) -> usize {
        self.count as usize * UNIT_BYTES
    }

    /// The units that the blocks cover completely.
    pub fn whole(&self) -> (Lpn, u32) {
        let skipped = u32::from(self.before > 0);
        let partial = skipped + u32::from(self.after > 0);
        debug_assert!(partial <= self.count + 1, "{partial} units of {self:?} are covered in part");
        (Lpn(self.first.0 + skipped), self.count.saturating_sub(partial))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_blocks_lie_in_units() {
        let space = BlockSpace::new(512, 100);
        let units = |first, count| space.units(space.blocks(first, count).unwrap());
        let within = units(9, 2);
        assert_eq!(within, Units { first: Lpn(1), count: 1, before: 512, after: 5 * 512 });
        assert_eq!(within.whole().1, 0);
        let across = units(7, 10);
        assert_eq!(across, Units { first: Lpn(0), count: 3, before: 7 * 512, after: 7 * 512 });
        assert_eq!(across.whole(), (Lpn(1), 1));
        assert!(units(8, 16).are_whole());
        let elsewhere = BlockSpace::within(512, 1000, 100);
        let there = |first, count| elsewhere.units(elsewhere.blocks(first, count).unwrap());
        assert_eq!(there(9, 2), Units { first: Lpn(1001), ..within });
        let sectors = |space: &BlockSpace| space.sectors(space.blocks(9, 2).unwrap());
        assert_eq!((sectors(&space), sectors(&elsewhere)), (9..11, 8009..8011));
        assert_eq!(sectors(&BlockSpace::within(4096, 1000, 100)), 8072..8088);
        assert_eq!(elsewhere.unit(Lpn(98), 2), Ok(Lpn(1098)));
        assert_eq!(elsewhere.unit(Lpn(99), 2), Err(Failure::OUT_OF_RANGE));
        assert_eq!(elsewhere.unit(Lpn(u32::MAX), u32::MAX), Err(Failure::OUT_OF_RANGE));
        assert_eq!(space.blocks(799, 2), Err(Failure::OUT_OF_RANGE));
        assert_eq!(space.blocks(u64::MAX, 1), Err(Failure::OUT_OF_RANGE));
    }
}
