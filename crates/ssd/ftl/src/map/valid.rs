//! The number of units in use in each block, and the closed blocks in that order.
//!
//! Each count has a ring of the closed blocks with that count. So the block with the fewest valid units is found
//! without a search, and a unit that becomes invalid costs a few writes to small arrays.

use tantalum_nand::BlockId;

/// Valid counts, and rings of candidates for garbage collection.
#[derive(Clone, Debug)]
pub struct ValidCounts {
    valid: Vec<u32>,
    /// Rings: a node for each block, then one head for each count.
    next: Vec<u32>,
    prev: Vec<u32>,
    /// No ring has a block below this count.
    lowest: u32,
    units_per_block: u32,
    /// Units in use in all blocks.
    total: u64,
}

/// A block that is in no ring points to itself.
fn alone(index: u32) -> u32 {
    index
}

impl ValidCounts {
    /// No unit is in use, and no block is a candidate.
    pub fn new(blocks: u32, units_per_block: u32) -> ValidCounts {
        let nodes = blocks + units_per_block + 1;
        ValidCounts {
            valid: vec![0; blocks as usize],
            next: (0..nodes).map(alone).collect(),
            prev: (0..nodes).map(alone).collect(),
            lowest: units_per_block,
            units_per_block,
            total: 0,
        }
    }

    /// Units in use in a block.
    #[inline]
    pub fn get(&self, block: BlockId) -> u32 {
        self.valid[block.index()]
    }

    /// Units in use in all blocks.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// All counts.
    pub fn counts(&self) -> &[u32] {
        &self.valid
    }

    /// Bytes of host memory.
    pub fn dram_bytes(&self) -> usize {
        4 * (self.valid.len() + self.next.len() + self.prev.len())
    }

    /// Whether a block may be collected.
    pub fn is_candidate(&self, block: BlockId) -> bool {
        self.in_ring(block.0)
    }

    fn in_ring(&self, block: u32) -> bool {
        self.next[block as usize] != block
    }

    fn unlink(&mut self, block: u32) {
        let (next, prev) = (self.next[block as usize], self.prev[block as usize]);
        self.next[prev as usize] = next;
        self.prev[next as usize] = prev;
        self.next[block as usize] = block;
        self.prev[block as usize] = block;
    }

    /// Appends a block to the ring of its count: the one there longest is collected first.
    fn link(&mut self, block: u32) {
        debug_assert!(!self.in_ring(block), "block {block} is in a ring already");
        let count = self.valid[block as usize];
        let head = self.valid.len() as u32 + count;
        let last = self.prev[head as usize];
        self.next[last as usize] = block;
        self.prev[block as usize] = last;
        self.next[block as usize] = head;
        self.prev[head as usize] = block;
        self.lowest = self.lowest.min(count);
    }

    /// A unit came into use.
    #[inline]
    pub fn increase(&mut self, block: u32) {
        self.increase_by(block, 1);
    }

    /// Units came into use.
    #[inline]
    pub fn increase_by(&mut self, block: u32, units: u32) {
        self.valid[block as usize] += units;
        self.total += u64::from(units);
        debug_assert!(
            self.valid[block as usize] <= self.units_per_block,
            "block {block} has {} units in use, of {}",
            self.valid[block as usize],
            self.units_per_block
        );
        // the last page of a block is mapped after the block is closed
        self.recount(block);
    }

    /// A unit is no longer in use.
    #[inline]
    pub fn decrease(&mut self, block: u32) {
        debug_assert_ne!(self.valid[block as usize], 0, "block {block} has no unit in use");
        self.valid[block as usize] -= 1;
        self.total -= 1;
        self.recount(block);
    }

    /// A candidate moves to the ring of its new count.
    #[inline]
    fn recount(&mut self, block: u32) {
        if self.in_ring(block) {
            self.unlink(block);
            self.link(block);
        }
    }

    /// A block is closed: it may be collected from now on.
    pub fn add_candidate(&mut self, block: BlockId) {
        debug_assert!(!self.in_ring(block.0), "block {block} is a candidate already");
        self.link(block.0);
    }

    /// A block is no longer a candidate.
    pub fn remove_candidate(&mut self, block: BlockId) {
        if self.in_ring(block.0) {
            self.unlink(block.0);
        }
    }

    /// The candidate with the fewest valid units; none if all are full of them.
    pub fn fewest_valid(&mut self) -> Option<BlockId> {
        while self.lowest < self.units_per_block {
            let head = self.valid.len() as u32 + self.lowest;
            let first = self.next[head as usize];
            if first != head {
                let (count, ring) = (self.valid[first as usize], self.lowest);
                debug_assert_eq!(
                    count, ring,
                    "block {first} has {count} units in use and is in the ring of {ring}"
                );
                return Some(BlockId(first));
            }
            self.lowest += 1;
        }
        None
    }

    /// All candidates that are not full of valid units, fewest first.
    pub fn candidates(&self) -> impl Iterator<Item = BlockId> + '_ {
        let heads = self.valid.len() as u32;
        (heads..heads + self.units_per_block).flat_map(move |head| {
            let first = self.next[head as usize];
            std::iter::successors(Some(first), move |block| Some(self.next[*block as usize]))
                .take_while(move |block| *block != head)
                .map(BlockId)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(valid: &[u32]) -> ValidCounts {
        let mut counts = ValidCounts::new(valid.len() as u32, 4);
        for (block, &valid) in valid.iter().enumerate() {
            (0..valid).for_each(|_| counts.increase(block as u32));
        }
        counts
    }

    #[test]
    fn only_candidates_are_found_fewest_first() {
        let mut counts = counts(&[3, 1, 2, 0]);
        assert_eq!(counts.fewest_valid(), None);
        for block in [0, 1, 2] {
            counts.add_candidate(BlockId(block));
        }
        assert_eq!(counts.fewest_valid(), Some(BlockId(1)));
        assert_eq!(counts.candidates().collect::<Vec<_>>(), [BlockId(1), BlockId(2), BlockId(0)]);
        counts.remove_candidate(BlockId(1));
        assert_eq!(counts.fewest_valid(), Some(BlockId(2)));
    }

    #[test]
    fn a_candidate_that_loses_units_comes_forward() {
        let mut counts = counts(&[3, 2]);
        counts.add_candidate(BlockId(0));
        counts.add_candidate(BlockId(1));
        counts.decrease(0);
        counts.decrease(0);
        assert_eq!(counts.fewest_valid(), Some(BlockId(0)));
    }

    #[test]
    fn full_blocks_are_no_victims() {
        let mut counts = counts(&[4]);
        counts.add_candidate(BlockId(0));
        assert_eq!(counts.fewest_valid(), None);
        counts.decrease(0);
        assert_eq!(counts.fewest_valid(), Some(BlockId(0)));
    }
}
