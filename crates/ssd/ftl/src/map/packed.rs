//! The contents in use of each block, for tenants that pack.

use tantalum_nand::Ppn;

use super::valid::ValidCounts;
use crate::types::TenantId;

/// The weight of a full unit of a tenant that packs.
pub const UNIT_WEIGHT: u32 = 64;

/// What contents of a unit weigh at most. Contents that fill less than they weigh fill more than half of that.
pub const MOST_WEIGHT: u32 = 2 * UNIT_WEIGHT - 1;

/// In P2L: the place's contents are packed.
const PACKED: u32 = 1 << 14;
const TENANT_SHIFT: u32 = 8;
const TENANTS: u32 = 0x3f;
const WEIGHT: u32 = (1 << TENANT_SHIFT) - 1;
const _: () = assert!(MOST_WEIGHT <= WEIGHT && TENANTS << TENANT_SHIFT < PACKED);

/// The largest number of a place with packed contents.
pub(super) const MOST_PACKED: u32 = 2 * PACKED - 1;

/// What P2L says about a place with packed contents: whose they are, and the weight in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PackedEntry {
    pub tenant: TenantId,
    pub weight: u32,
}

impl PackedEntry {
    /// From its number; 0 is none.
    #[inline]
    pub fn decode(number: u32) -> Option<PackedEntry> {
        let tenant = TenantId((number >> TENANT_SHIFT & TENANTS) as u8);
        (number & PACKED != 0).then_some(PackedEntry { tenant, weight: number & WEIGHT })
    }

    /// As a number.
    pub fn encode(self) -> u32 {
        let PackedEntry { tenant: TenantId(tenant), weight } = self;
        let fits = weight <= MOST_WEIGHT && u32::from(tenant) <= TENANTS;
        assert!(fits, "contents of weight {weight} of tenant {tenant} are too much for a unit");
        PACKED | u32::from(tenant) << TENANT_SHIFT | weight
    }
}

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
pub(crate) struct Packed {
    /// Empty until something is packed.
    blocks: Vec<BlockPacked>,
    units: u64,
}

impl Packed {
    /// Units that packed contents need when moved together with the rest of their block.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Whether a block has some.
    pub fn has_some(&self, block: u32) -> bool {
        self.blocks.get(block as usize).is_some_and(|packed| packed.units > 0)
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

/// What would be given back if contents were removed.
pub(crate) struct Removal<'a> {
    packed: &'a Packed,
    /// The weight that is removed from each block.
    removed: Vec<u32>,
    units: u64,
    units_per_block: u32,
}

impl<'a> Removal<'a> {
    pub fn new(packed: &'a Packed, units_per_block: u32) -> Removal<'a> {
        Removal { packed, removed: vec![0; packed.blocks.len()], units: 0, units_per_block }
    }

    /// Contents of this weight at a place are removed as well.
    pub fn remove(&mut self, ppn: Ppn, weight: u32) {
        let block = (ppn.0 / self.units_per_block) as usize;
        let valid = |removed| {
            let all = self.packed.blocks[block];
            BlockPacked { weight: all.weight.saturating_sub(removed), ..all }.valid()
        };
        let before = valid(self.removed[block]);
        self.removed[block] += weight;
        self.units += u64::from(before - valid(self.removed[block]));
    }

    /// Units that are given back at least.
    pub fn units(&self) -> u64 {
        self.units
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_whose_contents_a_place_has_and_what_they_weigh() {
        for (tenant, weight) in
            (0..=TENANTS as u8).flat_map(|tenant| [0, 1, 108, MOST_WEIGHT].map(|weight| (tenant, weight)))
        {
            let entry = PackedEntry { tenant: TenantId(tenant), weight };
            assert_eq!(PackedEntry::decode(entry.encode()), Some(entry));
            assert!(entry.encode() <= MOST_PACKED);
        }
        assert_eq!(PackedEntry::decode(0), None, "a claim");
    }

    /// Units with three records of weight 22 count as one unit each, until so many are gone that they need fewer.
    #[test]
    fn what_a_removal_gives_back_is_known_before() {
        let mut valid = ValidCounts::new(2, 256);
        let mut packed = Packed::default();
        (0..256).for_each(|_| packed.recount(0, &mut valid, |block| block.add(66)));
        (0..10).for_each(|_| packed.recount(1, &mut valid, |block| block.add(64)));
        let before = packed.clone();
        let mut removal = Removal::new(&before, 256);
        for removed in 1..=600 {
            removal.remove(Ppn(removed % 256), 22);
            packed.recount(0, &mut valid, |block| block.weight -= 22);
            assert_eq!(before.units() - packed.units(), removal.units());
            assert!(removed > 23 || removal.units() == 0);
        }
        assert_eq!(removal.units(), 198);
        removal.remove(Ppn(300), 64);
        assert_eq!(removal.units(), 199);
    }

    #[test]
    #[should_panic(expected = "contents of weight 128 of tenant 1 are too much for a unit")]
    fn contents_heavier_than_a_unit_panic() {
        PackedEntry { tenant: TenantId(1), weight: MOST_WEIGHT + 1 }.encode();
    }
}
