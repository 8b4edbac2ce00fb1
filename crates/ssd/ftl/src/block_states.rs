//! What each block is used for, how much of it is in use and how worn it is, for observers outside the drive.
//!
//! The caller provides the buffer and asks for as many blocks as it is willing to wait for. Nothing is allocated or
//! searched: a block costs three look-ups.

use tantalum_nand::BlockId;

use crate::parts::Parts;
use crate::space::BlockUse;

/// A block as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockState {
    /// What it is used for.
    pub block_use: BlockUse,
    /// Its units that are in use.
    pub valid_units: u32,
    /// How often it was erased.
    pub erases: u32,
}

impl Default for BlockState {
    /// A free block that was never erased.
    fn default() -> BlockState {
        BlockState { block_use: BlockUse::Free, valid_units: 0, erases: 0 }
    }
}

impl Parts {
    /// The states of the blocks, starting at `first`, up to the length of `states`. Returns their number.
    pub fn block_states(&self, first: BlockId, states: &mut [BlockState]) -> usize {
        let blocks = (first.0..self.geometry.blocks()).map(BlockId);
        let count = states.iter_mut().zip(blocks).map(|(state, block)| {
            *state = BlockState {
                block_use: self.space.block_use(block),
                valid_units: self.map.valid(block),
                erases: self.nand.erase_count(block),
            };
        });
        count.count()
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Nand, UNIT_BYTES};

    use super::*;
    use crate::ftl::Ftl;
    use crate::host_unit::HostUnit;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::Lpn;

    fn states(ftl: &Ftl, first: u32, room: usize) -> Vec<BlockState> {
        let mut states = vec![BlockState::default(); room];
        let count = ftl.block_states(BlockId(first), &mut states);
        states.truncate(count);
        states
    }

    #[test]
    fn states_are_those_of_the_blocks() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        for lpn in [1, 2, 1] {
            let slot = ftl.nand.stage(&[1; UNIT_BYTES]).unwrap();
            let version = ftl.next_seq();
            let unit = HostUnit { slot, lpn: Lpn(lpn), version, metadata: [0; 24], hint: None };
            ftl.write_page(&[unit], 0).unwrap();
        }
        let all = states(&ftl, 0, GEOMETRY.blocks() as usize);
        assert_eq!(all.len(), GEOMETRY.blocks() as usize);
        assert_eq!(all.iter().map(|state| state.valid_units).sum::<u32>(), 2);
        assert!(all.iter().any(|state| state.block_use == BlockUse::Open && state.valid_units > 0));
        let erases: u32 = all.iter().map(|state| state.erases).sum();
        let counted: u32 = (0..GEOMETRY.blocks()).map(|block| ftl.nand.erase_count(BlockId(block))).sum();
        assert_eq!(erases, counted);
    }

    #[test]
    fn no_more_are_given_than_there_are_or_than_there_is_room_for() {
        let ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let blocks = GEOMETRY.blocks();
        let all = states(&ftl, 0, blocks as usize + 5);
        assert_eq!(all.len(), blocks as usize);
        assert_eq!(states(&ftl, 2, 3), all[2..5]);
        assert_eq!(states(&ftl, blocks - 1, 3), all[blocks as usize - 1..]);
        assert_eq!(states(&ftl, blocks, 3), []);
        assert_eq!(states(&ftl, u32::MAX, 3), []);
    }
}
