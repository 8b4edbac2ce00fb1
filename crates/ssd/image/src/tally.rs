//! The tally: a sum over all block entries and page records, which reveals a record that was reverted to an earlier
//! state.
//!
//! Each record has a checksum of its own, which detects every flipped bit. But a record replaced by an older one from
//! the same place, or by the zeros that were there before it was written, passes that check, and the drive would trust
//! it. So every live record adds a number derived from its place and its checksum to a sum, which is stored separately.
//!
//! The sum is stored *before* a record is written, with its old and its new value, and again afterwards. A process
//! killed between the two leaves one of them; if the record is damaged as well, it was being written and does not
//! count. There are two places, used in turn: a process killed while it writes one tally leaves the other, and of two
//! whole tallies the newer counts.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::checksum_of;
use crate::geometry::{BlockId, Geometry, PageId};
use crate::random::mix;

/// Position of the first place.
pub const TALLY_AT: u64 = 2048;

/// Distance between the places.
const PLACE_BYTES: u64 = 64;

/// The places.
pub const PLACES: [u64; 2] = [TALLY_AT, TALLY_AT + PLACE_BYTES];

/// The tally as it is stored.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug, PartialEq)]
#[repr(C)]
pub struct Tally {
    checksum: U32,
    number: U32,
    before: U64,
    after: U64,
}

const _: () = assert!(size_of::<Tally>() as u64 <= PLACE_BYTES, "writing one tally leaves the other");

impl Tally {
    /// The sum before and after a record is written. Each tally has the next number.
    pub fn new(number: u32, before: u64, after: u64) -> Tally {
        let (before, after) = (before.into(), after.into());
        let mut tally = Tally { checksum: 0.into(), number: number.into(), before, after };
        tally.checksum = tally.computed_checksum().into();
        tally
    }

    /// The stored tally that counts; `None` if all are damaged.
    pub fn newest(stored: [Tally; 2]) -> Option<Tally> {
        let is_newer = |a: &Tally, b: &Tally| a.number.get().wrapping_sub(b.number.get()) as i32 > 0;
        stored.into_iter().filter(Tally::is_whole).reduce(|a, b| if is_newer(&b, &a) { b } else { a })
    }

    /// The number of this tally; the next one has the next number.
    pub fn number(&self) -> u32 {
        self.number.get()
    }

    /// The place it is written to.
    pub fn place(&self) -> u64 {
        PLACES[self.number() as usize % PLACES.len()]
    }

    fn computed_checksum(&self) -> u32 {
        checksum_of(&self.as_bytes()[size_of::<U32>()..])
    }

    /// Whether its own checksum is right.
    fn is_whole(&self) -> bool {
        self.checksum.get() == self.computed_checksum()
    }

    /// Whether the records that were found add up to it.
    pub fn agrees(&self, sum: u64) -> bool {
        [self.before.get(), self.after.get()].contains(&sum)
    }
}

/// What a block's entry adds to the sum.
pub fn of_block(block: BlockId, checksum: u32) -> u64 {
    mix(u64::from(block.0) << 32 | u64::from(checksum))
}

/// What a page's record adds to the sum.
pub fn of_page(page: PageId, checksum: u32) -> u64 {
    mix(!(u64::from(page.0) << 32 | u64::from(checksum)))
}

/// What one block adds to the sum.
#[derive(Clone, Copy, Default)]
pub struct BlockSum {
    /// The block's erase count: a page's record counts only if it has the same.
    pub erase_count: u32,
    /// Its entry; 0 for a fresh block.
    pub entry: u64,
    /// Its live page records.
    pub pages: u64,
}

/// What every block adds, and the sum.
pub struct Sums {
    blocks: Vec<BlockSum>,
    total: u64,
}

impl Sums {
    /// A fresh medium: nothing.
    pub fn new(geometry: &Geometry) -> Sums {
        Sums { blocks: vec![BlockSum::default(); geometry.blocks() as usize], total: 0 }
    }

    /// The sum.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// What a block adds.
    pub fn block(&self, block: BlockId) -> BlockSum {
        self.blocks[block.index()]
    }

    /// The sum with a block's part replaced.
    pub fn total_with(&self, block: BlockId, part: &BlockSum) -> u64 {
        let old = self.blocks[block.index()];
        self.total
            .wrapping_sub(old.entry.wrapping_add(old.pages))
            .wrapping_add(part.entry.wrapping_add(part.pages))
    }

    /// Replaces a block's part.
    pub fn set(&mut self, block: BlockId, part: BlockSum) {
        self.total = self.total_with(block, &part);
        self.blocks[block.index()] = part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::GEOMETRY;

    /// Replay refuses what is stored before the first place.
    #[test]
    fn the_places_are_fixed() {
        assert_eq!(PLACES, [TALLY_AT, 2112]);
        assert_eq!(TALLY_AT, 2048);
    }

    fn damaged(tally: Tally, byte: usize) -> Tally {
        let mut bytes = [0; size_of::<Tally>()];
        bytes.copy_from_slice(tally.as_bytes());
        bytes[byte] ^= 4;
        Tally::read_from_bytes(&bytes).unwrap()
    }

    #[test]
    fn size_on_the_image_is_fixed_and_any_damage_shows() {
        assert_eq!(size_of::<Tally>(), 24);
        let tally = Tally::new(1, 5, 1 << 60);
        assert!(tally.is_whole() && tally.agrees(5) && tally.agrees(1 << 60) && !tally.agrees(6));
        assert!((0..size_of::<Tally>()).all(|byte| !damaged(tally, byte).is_whole()));
        assert!(!Tally::new(0, 0, 0).as_bytes().iter().all(|byte| *byte == 0), "a hole is no tally");
    }

    #[test]
    fn the_newest_whole_one_counts_and_the_next_goes_elsewhere() {
        for number in [0, 1, i32::MAX as u32, u32::MAX - 1, u32::MAX] {
            let (older, newer) = (Tally::new(number, 1, 2), Tally::new(number.wrapping_add(1), 2, 2));
            assert_ne!(older.place(), newer.place());
            for stored in [[older, newer], [newer, older]] {
                assert_eq!(Tally::newest(stored), Some(newer));
            }
            assert_eq!(Tally::newest([damaged(newer, 9), older]), Some(older));
            assert_eq!(Tally::newest([damaged(newer, 9), damaged(older, 3)]), None);
        }
    }

    #[test]
    fn a_block_and_a_page_of_one_number_differ() {
        assert_ne!(of_block(BlockId(3), 9), of_page(PageId(3), 9));
        assert_ne!(of_page(PageId(3), 9), of_page(PageId(9), 3));
    }

    #[test]
    fn replacing_a_part_takes_the_old_one_out() {
        let mut sums = Sums::new(&GEOMETRY);
        let part = BlockSum { erase_count: 1, entry: 10, pages: u64::MAX };
        sums.set(BlockId(1), part);
        sums.set(BlockId(2), part);
        assert_eq!(sums.total(), 18);
        sums.set(BlockId(1), BlockSum { pages: 5, ..part });
        assert_eq!((sums.total(), sums.block(BlockId(1)).pages), (24, 5));
    }
}
