//! The free blocks of each plane, and when each can be opened without waiting for garbage collection.

use tantalum_nand::{BlockId, Geometry, Nanoseconds, PlaneId};

/// A free block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeBlock {
    /// Its number.
    pub block: BlockId,
    /// When the copies of what it held, and what replaced it, are on flash; 0 if it is erased.
    pub ready_ns: Nanoseconds,
}

/// All free blocks.
#[derive(Clone, Debug)]
pub struct FreeBlocks {
    of_plane: Vec<Vec<FreeBlock>>,
    /// When each is ready, in order. Blocks become free in the order of their times, so changes are near the end.
    ready_ns: Vec<Nanoseconds>,
}

impl FreeBlocks {
    /// None.
    pub fn new(geometry: &Geometry) -> FreeBlocks {
        FreeBlocks { of_plane: vec![Vec::new(); geometry.planes() as usize], ready_ns: Vec::new() }
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.ready_ns.len() as u32
    }

    /// Those of a plane.
    pub fn of(&self, plane: PlaneId) -> &[FreeBlock] {
        &self.of_plane[plane.index()]
    }

    /// The time from which this many are ready, or all if there are fewer; 0 for none.
    pub fn ready_ns(&self, count: u32) -> Nanoseconds {
        let count = self.ready_ns.len().min(count as usize);
        count.checked_sub(1).map_or(0, |last| self.ready_ns[last])
    }

    /// Adds one, behind the others of its plane.
    pub fn add(&mut self, plane: PlaneId, free: FreeBlock) {
        self.of_plane[plane.index()].push(free);
        let index = self.ready_ns.partition_point(|ready_ns| *ready_ns <= free.ready_ns);
        self.ready_ns.insert(index, free.ready_ns);
    }

    /// Removes the one at an index of its plane; the last one takes its place.
    pub fn swap_remove(&mut self, plane: PlaneId, index: usize) -> FreeBlock {
        let free = self.of_plane[plane.index()].swap_remove(index);
        // the last one of that time, since there are few behind it
        let behind = self.ready_ns.partition_point(|ready_ns| *ready_ns <= free.ready_ns);
        let removed_ns = self.ready_ns.remove(behind - 1);
        debug_assert_eq!(removed_ns, free.ready_ns, "the time of block {} is not among all", free.block);
        free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::GEOMETRY;

    fn free(block: u32, ready_ns: Nanoseconds) -> FreeBlock {
        FreeBlock { block: BlockId(block), ready_ns }
    }

    #[test]
    fn so_many_are_ready_at_a_time() {
        let (mut blocks, [one, other]) = (FreeBlocks::new(&GEOMETRY), [0, 1].map(PlaneId));
        assert_eq!((blocks.count(), blocks.ready_ns(0), blocks.ready_ns(5)), (0, 0, 0));
        let added = [(one, free(1, 30)), (other, free(2, 10)), (one, free(3, 30)), (one, free(4, 0))];
        added.into_iter().for_each(|(plane, free)| blocks.add(plane, free));
        assert_eq!([0, 1, 2, 3, 4, 9].map(|count| blocks.ready_ns(count)), [0, 0, 10, 30, 30, 30]);
        assert_eq!(
            (blocks.swap_remove(one, 0), blocks.of(one)),
            (free(1, 30), &[free(4, 0), free(3, 30)][..])
        );
        assert_eq!([1, 2, 3, 4].map(|count| blocks.ready_ns(count)), [0, 10, 30, 30]);
        assert_eq!((blocks.count(), blocks.of(other)), (3, &[free(2, 10)][..]));
    }
}
