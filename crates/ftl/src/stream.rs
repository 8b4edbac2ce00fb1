//! A stream: a log with one open block for each of several planes.
//!
//! The next page goes to the first plane that is idle, in turn, or to the one that will be idle first.

use tantalum_nand::{BlockId, Geometry, Nand, Nanoseconds, PageId, PlaneId};

/// The open blocks of a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    open: Vec<Option<BlockId>>,
    width: u32,
    opened: u32,
    cursor: usize,
}

impl Stream {
    /// A stream over all planes that keeps at most `width` blocks open.
    pub fn new(geometry: &Geometry, width: u32) -> Stream {
        Stream { open: vec![None; geometry.planes() as usize], width, opened: 0, cursor: 0 }
    }

    /// The open blocks.
    pub fn blocks(&self) -> impl Iterator<Item = BlockId> + '_ {
        self.open.iter().flatten().copied()
    }

    /// How many blocks are open.
    pub fn opened(&self) -> u32 {
        self.opened
    }

    /// Whether another block should be opened.
    pub fn wants_block(&self) -> bool {
        self.opened < self.width
    }

    /// The plane that is idle first among those where `eligible`, at or after `at_ns`, in turn.
    fn next_plane(&self, nand: &Nand, at_ns: Nanoseconds, eligible: impl Fn(usize) -> bool) -> Option<usize> {
        let planes = self.open.len();
        let mut best = None;
        for plane in (self.cursor..planes).chain(0..self.cursor).filter(|plane| eligible(*plane)) {
            let idle_ns = nand.plane_idle_ns(PlaneId(plane as u32));
            if idle_ns <= at_ns {
                return Some(plane);
            }
            if best.is_none_or(|(earliest, _)| idle_ns < earliest) {
                best = Some((idle_ns, plane));
            }
        }
        best.map(|(_, plane)| plane)
    }

    /// The plane on which to open the next block, among those with a free one.
    pub fn plane_to_open(
        &self,
        nand: &Nand,
        at_ns: Nanoseconds,
        has_free: impl Fn(PlaneId) -> bool,
    ) -> Option<PlaneId> {
        self.next_plane(nand, at_ns, |plane| self.open[plane].is_none() && has_free(PlaneId(plane as u32)))
            .map(|plane| PlaneId(plane as u32))
    }

    /// Takes an erased block.
    pub fn add(&mut self, plane: PlaneId, block: BlockId) {
        debug_assert!(self.open[plane.index()].is_none());
        self.open[plane.index()] = Some(block);
        self.opened += 1;
    }

    /// The page to program next, none if no block is open.
    pub fn next_page(
        &mut self,
        geometry: &Geometry,
        nand: &Nand,
        at_ns: Nanoseconds,
    ) -> Option<(PlaneId, PageId)> {
        let plane = self.next_plane(nand, at_ns, |plane| self.open[plane].is_some())?;
        self.cursor = if plane + 1 == self.open.len() { 0 } else { plane + 1 };
        let block = self.open[plane].expect("the plane is eligible");
        Some((PlaneId(plane as u32), geometry.page(block, nand.next_page(block))))
    }

    /// Takes a plane's block out, full or failed.
    pub fn close(&mut self, plane: PlaneId) -> Option<BlockId> {
        let block = self.open[plane.index()].take();
        self.opened -= u32::from(block.is_some());
        block
    }
}
