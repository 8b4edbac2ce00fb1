//! Static wear levelling: data that nobody overwrites keep their blocks from wearing with the others, until they are moved.

use std::cmp::Reverse;

use tantalum_nand::{BlockId, Nand};

use super::blocks::{BlockUse, Blocks};

/// How often all blocks are looked at while each is erased once on average.
const LOOKS_PER_CYCLE: u32 = 8;

/// The blocks whose data are to be moved.
#[derive(Clone, Debug, Default)]
pub(super) struct WearLevelling {
    /// The number of erases from which on the blocks are looked at again.
    next_look: u64,
    /// The number of erases when a block was moved last.
    moved_at: u64,
    /// Whether there were any at the last look.
    is_uneven: bool,
    /// The blocks that were too cold at the last look, with their erases then, the coldest last.
    cold: Vec<(Reverse<u32>, BlockId)>,
}

impl WearLevelling {
    /// The closed block to move after this many erases: one that was erased less often than the most worn one, by more than
    /// `spread`. At most one for each erase, because a host waits for it.
    #[inline]
    pub fn next(&mut self, erases: u64, spread: u32, blocks: &Blocks, nand: &Nand) -> Option<BlockId> {
        if erases >= self.next_look {
            self.look(erases, spread, blocks, nand);
        }
        if self.cold.is_empty() || erases == self.moved_at {
            return None;
        }
        self.moved_at = erases;
        // it may have been collected meanwhile
        let is_as_found = |(Reverse(found), block): &(Reverse<u32>, BlockId)| {
            blocks.block_use(*block) == BlockUse::Closed && nand.erase_count(*block) == *found
        };
        while let Some(found) = self.cold.pop() {
            if is_as_found(&found) {
                return Some(found.1);
            }
        }
        None
    }

    /// Whether a block was too cold at the last look.
    pub fn is_uneven(&self) -> bool {
        self.is_uneven
    }

    fn look(&mut self, erases: u64, spread: u32, blocks: &Blocks, nand: &Nand) {
        self.next_look = erases + u64::from(blocks.count().div_ceil(LOOKS_PER_CYCLE));
        let most = (0..blocks.count()).map(|block| nand.erase_count(BlockId(block))).max().unwrap_or(0);
        let erased = |block| (Reverse(nand.erase_count(block)), block);
        self.cold.clear();
        self.cold.extend(
            blocks
                .with_use(BlockUse::Closed)
                .map(erased)
                .filter(|(Reverse(erases), _)| most - erases > spread),
        );
        self.cold.sort_unstable();
        self.is_uneven = !self.cold.is_empty();
    }
}
