//! The contents in use of each block, for tenants that pack.

use super::valid::ValidCounts;

/// The weight of a full unit of a tenant that packs.
pub const UNIT_WEIGHT: u32 = 64;

/// The packed contents in use of a block.
#[derive(Clone, Copy, Debug, Default)]
pub struct BlockPacked {
    /// Their weight.
    pub weight: u32,
    /// Units that hold some of them.
    pub units: u32,
}

impl BlockPacked {
    /// Adds a unit with this weight in use.
    pub fn add(&mut self, weight: u32) {
        self.weight += weight;
        self.units += 1;
    }

    /// Units that they need when moved together.
    pub fn valid(&self) -> u32 {
        self.weight.div_ceil(UNIT_WEIGHT).min(self.units)
    }
}

/// The same for all blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    /// Empty until something is packed.
    blocks: Vec<BlockPacked>,
    units: u64,
}

impl Packed {
    /// Units that packed contents need when moved together with the rest of their block.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Changes a block's contents in use, and with them its valid count.
    pub fn recount(&mut self, block: u32, valid: &mut ValidCounts, change: impl FnOnce(&mut BlockPacked)) {
        if self.blocks.is_empty() {
            self.blocks.resize(valid.counts().len(), BlockPacked::default());
        }
        let packed = &mut self.blocks[block as usize];
        let before = packed.valid();
        change(packed);
        let after = packed.valid();
        self.units = self.units + u64::from(after) - u64::from(before);
        (before..after).for_each(|_| valid.increase(block));
        (after..before).for_each(|_| valid.decrease(block));
    }
}
