//! The part that owns the flash's blocks: their uses, the streams, the plan, and the blocks that go bad.

use tantalum_nand::{BlockId, Geometry, Nand};

use super::blocks::Blocks;
use super::layout::{FtlConfig, Layout};
use super::stream::Streams;

/// See the head of this file.
#[derive(Clone, Debug)]
pub struct Space {
    /// How much flash each purpose gets.
    pub layout: Layout,
    /// What each block is used for.
    pub blocks: Blocks,
    /// The open blocks.
    pub streams: Streams,
    /// Blocks that failed a program, or keep lost units, and must be emptied and retired.
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
            failing: Vec::new(),
            exhausted: false,
            next_wear_check: 0,
            good_blocks: geometry.blocks() - bad_blocks(nand),
        }
    }

    /// Blocks that are not retired.
    pub fn good_blocks(&self) -> u32 {
        self.good_blocks
    }

    /// Good blocks without which the drive accepts no writes: those that every drive needs, plus an open block and one
    /// in reserve for each namespace with logs of its own.
    pub fn least_blocks(&self) -> u32 {
        self.layout.least_blocks + 2 * self.streams.logs.len() as u32
    }

    /// Whether too few good blocks are left for writes.
    pub fn is_read_only(&self) -> bool {
        self.exhausted || self.good_blocks < self.least_blocks()
    }

    /// A block was retired: plans with what is left.
    pub fn retired(&mut self, geometry: &Geometry, config: &FtlConfig) {
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
