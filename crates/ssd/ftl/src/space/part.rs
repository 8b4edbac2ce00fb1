//! The part that owns the flash's blocks: their uses, the streams, the plan, and the blocks that go bad.

use std::cmp::Reverse;

use tantalum_nand::{BlockId, Geometry, Nand};

use super::blocks::{BlockUse, Blocks};
use super::layout::{FtlConfig, Layout};
use super::stream::Streams;

/// The maximum number of partial blocks that are remembered; recovery reads this many more.
const PARTIAL_BLOCKS: usize = 16;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Space {
    /// How much flash each purpose gets.
    pub layout: Layout,
    /// What each block is used for.
    pub blocks: Blocks,
    /// The open blocks.
    pub streams: Streams,
    /// Closed blocks that a power cut left partly filled, those with the most room last. If no block is free, garbage
    /// collection continues in them. Checkpoints name them along with the open ones, since recovery reads the named
    /// blocks and those begun later.
    pub partial: Vec<BlockId>,
    /// Blocks that failed a program, or keep lost units, and must be emptied and retired. None of them is ever free.
    pub failing: Vec<BlockId>,
    /// Whether the drive reached the end of its life because its last free blocks failed.
    pub exhausted: bool,
    /// Number of erases at which wear is checked next.
    pub next_wear_check: u64,
    /// Blocks that are not retired.
    good_blocks: u32,
}

impl Space {
    /// All blocks free; erased if the medium is new.
    pub fn new(nand: &Nand, layout: Layout, erased: bool) -> Space {
        let geometry = nand.geometry();
        Space {
            blocks: Blocks::new(geometry, nand, erased),
            streams: Streams::new(geometry, &layout),
            layout,
            partial: Vec::new(),
            failing: Vec::new(),
            exhausted: false,
            next_wear_check: 0,
            good_blocks: geometry.blocks() - bad_blocks(nand),
        }
    }

    /// Finds the partly filled blocks, only among those that the last checkpoint names if there will be no new one.
    pub fn find_partial(&mut self, nand: &Nand, named: Option<&[BlockId]>) {
        let pages = nand.geometry().pages_per_block;
        let closed = self.blocks.with_use(BlockUse::Closed).filter(|block| nand.next_page(*block) < pages);
        self.partial = closed.filter(|block| named.is_none_or(|named| named.contains(block))).collect();
        self.partial.sort_by_key(|block| Reverse(nand.next_page(*block)));
        let first = self.partial.len().saturating_sub(PARTIAL_BLOCKS);
        self.partial.drain(..first);
    }

    /// The one of them with the most room.
    pub fn take_partial(&mut self) -> Option<BlockId> {
        while let Some(block) = self.partial.pop() {
            // neither a victim nor a block that is to be retired
            if self.blocks.block_use(block) == BlockUse::Closed && !self.failing.contains(&block) {
                return Some(block);
            }
        }
        None
    }

    /// Nothing in a block is needed any more: it is free, unless it failed a program or keeps lost units. Such a block is out
    /// of use until it is retired, and never opened again.
    pub fn release(&mut self, block: BlockId, nand: &Nand) {
        if self.failing.contains(&block) {
            self.blocks.set_use(block, BlockUse::Bad);
        } else {
            self.blocks.release(nand.geometry().plane_of(block), block, nand);
        }
    }

    /// A block was opened: it starts afresh.
    pub fn opened(&mut self, block: BlockId) {
        self.partial.retain(|partial| *partial != block);
    }

    /// Blocks that are not retired.
    pub fn good_blocks(&self) -> u32 {
        self.good_blocks
    }

    /// The fewest good blocks with which the drive accepts writes: those that every drive needs, plus an open block and
    /// one in reserve for each namespace with its own logs.
    pub fn least_blocks(&self) -> u32 {
        self.layout.least_blocks + 2 * self.streams.logs.len() as u32
    }

    /// Whether too few good blocks are left for writes.
    pub fn is_read_only(&self) -> bool {
        self.exhausted || self.good_blocks < self.least_blocks()
    }

    /// A block was retired: plans with what is left.
    pub fn retired(&mut self, geometry: &Geometry, config: &FtlConfig) {
        debug_assert_ne!(self.good_blocks, 0, "a block was retired, and none was left");
        self.good_blocks -= 1;
        self.layout = Layout::with_good_blocks(geometry, config, self.good_blocks);
        self.streams.host.set_width(self.layout.host_width);
        self.streams.collect.set_width(self.layout.collect_width);
    }
}

/// Blocks that are retired.
pub fn bad_blocks(nand: &Nand) -> u32 {
    (0..nand.geometry().blocks()).filter(|block| nand.is_bad(BlockId(*block))).count() as u32
}

#[cfg(test)]
mod tests {
    use tantalum_nand::Source;

    use super::*;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    /// A drive with closed blocks, in each of which this many of four pages are programmed.
    fn space(pages: &[u32]) -> (Nand, Space) {
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        let layout = Layout::with_good_blocks(&GEOMETRY, &CONFIG, GEOMETRY.blocks());
        let mut space = Space::new(&nand, layout, true);
        for (block, pages) in (0..).map(BlockId).zip(pages) {
            space.blocks.take_block(GEOMETRY.plane_of(block), block, BlockUse::Closed);
            for index in 0..*pages {
                let page = GEOMETRY.page(block, index);
                nand.program(page, &[Source::Padding; 2], &[[0; _]; 2], 0).unwrap();
            }
        }
        (nand, space)
    }

    #[test]
    fn of_partial_blocks_the_one_with_the_most_room_is_taken_first() {
        let (nand, mut space) = space(&[3, 4, 1, 2]);
        space.find_partial(&nand, None);
        assert_eq!(
            [(); 4].map(|()| space.take_partial()),
            [Some(BlockId(2)), Some(BlockId(3)), Some(BlockId(0)), None]
        );
    }

    /// Recovery does not read what is programmed into others.
    #[test]
    fn without_a_new_checkpoint_only_blocks_that_the_last_one_names_are_partial() {
        let (nand, mut space) = space(&[3, 4, 1, 2]);
        space.find_partial(&nand, Some(&[BlockId(0), BlockId(1)]));
        assert_eq!(space.partial, [BlockId(0)]);
    }

    #[test]
    fn victims_blocks_that_failed_and_blocks_that_begin_anew_are_not_taken() {
        let (nand, mut space) = space(&[1, 1, 1, 1]);
        space.find_partial(&nand, None);
        space.blocks.set_use(BlockId(0), BlockUse::Open);
        space.failing.push(BlockId(1));
        space.opened(BlockId(2));
        assert_eq!([(); 2].map(|()| space.take_partial()), [Some(BlockId(3)), None]);
    }

    #[test]
    fn few_partial_blocks_are_remembered() {
        let mut pages = [2; PARTIAL_BLOCKS + 2];
        pages[0] = 3;
        pages[1] = 1;
        let (nand, mut space) = space(&pages);
        space.find_partial(&nand, None);
        assert_eq!(space.partial.len(), PARTIAL_BLOCKS);
        assert!(space.partial.contains(&BlockId(1)) && !space.partial.contains(&BlockId(0)));
    }
}
