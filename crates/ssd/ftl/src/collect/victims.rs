//! Chooses the block to collect next.

use tantalum_nand::{BlockId, PlaneId};

use crate::parts::Parts;
use crate::space::VictimPolicy;

impl Parts {
    /// The block of a plane with the fewest valid units, if collecting it frees at least half of it. If more must be
    /// moved, the log is better off on other planes.
    pub(super) fn choose_victim_on(&self, plane: PlaneId) -> Option<BlockId> {
        let (first, valid) = (plane.0 * self.geometry.blocks_per_plane, self.map.valid_counts());
        let closed = (first..first + self.geometry.blocks_per_plane)
            .map(BlockId)
            .filter(|block| valid.is_candidate(*block));
        let victim = closed.min_by_key(|block| valid.get(*block))?;
        (valid.get(victim) <= self.geometry.units_per_block() / 2).then_some(victim)
    }

    pub(super) fn choose_victim(&mut self) -> Option<BlockId> {
        match self.config.victim_policy {
            VictimPolicy::Greedy => self.map.valid_counts_mut().fewest_valid(),
            VictimPolicy::CostBenefit => {
                let (units_per_block, valid) = (self.geometry.units_per_block(), self.map.valid_counts());
                let benefit = |block: &BlockId| {
                    self.space.blocks.benefit(*block, valid.get(*block), units_per_block, self.seq)
                };
                valid.candidates().max_by_key(benefit)
            }
        }
    }
}
