//! The metadata log's blocks on flash: journal pages in consecutive blocks, and the pages of the checkpoint.
//!
//! This file never takes a block by itself. It says when it needs one and is given it, because a block is erased when
//! it is opened, and erasing (`erase`) involves more than this part.
//!
//! The next journal block is prepared when the open one is half full. So a flush never waits for an erase, and no block
//! is erased while records wait that may be all that makes it invalid.

use std::ops::Range;

use tantalum_nand::{BlockId, Geometry, Nand, NandError, Nanoseconds, PageId, Ppn, Slot, Source, UNIT_BYTES};

use crate::error::FtlError;
use crate::page_image::PageImage;
use crate::spare::{BatchMark, Kind, Mark, Spare};
use crate::types::Seq;

/// The result of trying to program a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Attempt {
    /// It will be on flash at this time.
    Issued(Nanoseconds),
    /// The program failed; the block must be retired, and the page tried again.
    Failed(BlockId),
    /// No page is left: a block must be provided before trying again.
    NoBlock,
}

/// Position of the journal and the checkpoint.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlashLog {
    /// Blocks with journal pages that no checkpoint covers, oldest first.
    journal: Vec<BlockId>,
    /// The block for the next page.
    open: Option<BlockId>,
    /// The block after it, once it is prepared.
    next: Option<BlockId>,
    /// The last checkpoint's blocks.
    checkpoint: Vec<BlockId>,
    /// Its pages, in the order of its bytes.
    checkpoint_pages: Vec<PageId>,
}

impl FlashLog {
    /// What recovery found.
    pub fn found(&mut self, journal: Vec<BlockId>, checkpoint: Vec<BlockId>, pages: Vec<PageId>) {
        (self.journal, self.checkpoint, self.checkpoint_pages) = (journal, checkpoint, pages);
    }

    // -- journal ------------------------------------------------------------------------------------------------

    pub fn has_open(&self) -> bool {
        self.open.is_some()
    }

    pub fn has_next(&self) -> bool {
        self.next.is_some()
    }

    /// Takes an erased block: the open one, if there is none, or else the one after it, if there is none.
    pub fn give(&mut self, block: BlockId) {
        debug_assert!(!self.journal.contains(&block), "block {block} is a journal block already");
        assert!(
            self.open.is_none() || self.next.is_none(),
            "block {block} is given to a journal that has {:?} and {:?}",
            self.open,
            self.next
        );
        self.journal.push(block);
        match self.open {
            Some(_) => self.next = Some(block),
            None => self.open = Some(block),
        }
    }

    /// Whether the open block is half full, so that the next one should be prepared.
    pub fn is_half_full(&self, nand: &Nand) -> bool {
        let half = nand.geometry().pages_per_block / 2;
        self.open.is_some_and(|block| nand.next_page(block) >= half)
    }

    /// Pages left in the open block and the next one.
    pub fn pages_left(&self, nand: &Nand) -> u32 {
        let pages = nand.geometry().pages_per_block;
        let open = self.open.map_or(0, |block| pages - nand.next_page(block));
        open + self.next.map_or(0, |_| pages)
    }

    pub fn journal_blocks(&self) -> u32 {
        self.journal.len() as u32
    }

    /// Units programmed into all its blocks.
    pub fn units(&self, nand: &Nand) -> u64 {
        let pages: u64 =
            self.journal.iter().chain(&self.checkpoint).map(|block| u64::from(nand.next_page(*block))).sum();
        pages * u64::from(nand.geometry().units_per_page())
    }

    /// The block for the next page.
    #[cfg(test)]
    pub fn open(&self) -> Option<BlockId> {
        self.open
    }

    /// Programs a journal page, after every program for hosts issued before it, and `ready_ns`. No host's command waits for
    /// it if it is for an erase.
    pub fn program(
        &mut self,
        nand: &mut Nand,
        page: &PageImage,
        is_for_erase: bool,
        [at_ns, ready_ns]: [Nanoseconds; 2],
    ) -> Result<Attempt, FtlError> {
        let geometry = *nand.geometry();
        let Some(block) = self.open else { return Ok(Attempt::NoBlock) };
        let earliest_ns = at_ns.max(ready_ns).max(nand.host_programs_done_ns());
        let place = geometry.page(block, nand.next_page(block));
        let (sources, spares) = page.parts(&geometry);
        let program = if is_for_erase { Nand::program_for_erase } else { Nand::program };
        let programmed = attempt(program(nand, place, sources, spares, earliest_ns), nand, place)?;
        // The rest of a block that failed serves until the next one is prepared: a block erased now could be one that
        // only the records of this page make invalid.
        let is_full = nand.next_page(block) == geometry.pages_per_block;
        let failed = matches!(programmed, Attempt::Failed(_));
        if is_full || failed && self.next.is_some() {
            self.open = self.next.take();
        }
        Ok(programmed)
    }

    // -- checkpoint ---------------------------------------------------------------------------------------------

    pub fn checkpoint_blocks(&self) -> &[BlockId] {
        &self.checkpoint
    }

    #[cfg(test)]
    pub fn checkpoint_pages(&self) -> &[PageId] {
        &self.checkpoint_pages
    }

    /// A part of the checkpoint, from the units that contain any of it.
    pub fn checkpoint_bytes(
        &self,
        range: Range<u64>,
        geometry: &Geometry,
        mut read: impl FnMut(Ppn, &mut [u8]) -> Result<(), FtlError>,
    ) -> Result<Vec<u8>, FtlError> {
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let mut unit = [0; UNIT_BYTES];
        let units_per_page = u64::from(geometry.units_per_page());
        let mut next = range.start;
        while next < range.end {
            let (number, start) = (next / UNIT_BYTES as u64, (next % UNIT_BYTES as u64) as usize);
            let page = self.checkpoint_pages[(number / units_per_page) as usize];
            read(geometry.unit(page, (number % units_per_page) as u32), &mut unit)?;
            let count = (range.end - next).min((UNIT_BYTES - start) as u64) as usize;
            bytes.extend(&unit[start..start + count]);
            next += count as u64;
        }
        Ok(bytes)
    }

    /// A new checkpoint stands. Returns the blocks of the old one, and the journal blocks that the new one covers.
    pub fn stands(&mut self, blocks: Vec<BlockId>, pages: Vec<PageId>) -> Vec<BlockId> {
        debug_assert!(
            blocks.iter().all(|block| !self.journal.contains(block)),
            "a block of the checkpoint, {blocks:?}, is one of the journal, {:?}",
            self.journal
        );
        let mut freed = self.replace_checkpoint(blocks);
        self.checkpoint_pages = pages;
        let kept = [self.open, self.next];
        let (kept, covered): (Vec<BlockId>, Vec<BlockId>) =
            std::mem::take(&mut self.journal).into_iter().partition(|block| kept.contains(&Some(*block)));
        self.journal = kept;
        freed.extend(covered);
        freed
    }

    /// The blocks of a checkpoint take the place of those of the last one, which it returns.
    pub fn replace_checkpoint(&mut self, blocks: Vec<BlockId>) -> Vec<BlockId> {
        std::mem::replace(&mut self.checkpoint, blocks)
    }
}

/// A checkpoint while its pages are programmed, side by side on its blocks.
#[derive(Debug)]
pub(crate) struct NewCheckpoint {
    pub blocks: Vec<BlockId>,
    pub pages: Vec<PageId>,
    /// The block that takes the next page.
    turn: usize,
    step: Seq,
    page_count: u32,
}

impl NewCheckpoint {
    /// Blocks that this many bytes fill.
    pub fn blocks_for(bytes: usize, geometry: &Geometry) -> u32 {
        let pages = bytes.div_ceil(geometry.page_bytes as usize) as u32;
        pages.div_ceil(geometry.pages_per_block)
    }

    /// A checkpoint of this many bytes, on erased blocks.
    pub fn new(blocks: Vec<BlockId>, bytes: usize, step: Seq, geometry: &Geometry) -> NewCheckpoint {
        let page_count = bytes.div_ceil(geometry.page_bytes as usize) as u32;
        NewCheckpoint { blocks, pages: Vec::with_capacity(page_count as usize), turn: 0, step, page_count }
    }

    /// Whether all of its pages are programmed.
    pub fn is_complete(&self) -> bool {
        self.pages.len() == self.page_count as usize
    }

    /// The next page, of at most as many units as a page has.
    pub fn image(&self, units: impl Iterator<Item = Slot>) -> PageImage {
        let mut spare = Spare::new(Kind::Checkpoint, self.step);
        let index = self.pages.len() as u32;
        spare.mark = Mark::Batch(BatchMark { id: self.step, index, count: self.page_count });
        let (mut page, spare) = (PageImage::new(), spare.encode());
        units.for_each(|slot| page.push(Source::Staged(slot), spare));
        page
    }

    /// Programs the next page on the block whose turn it is, skipping failing blocks.
    pub fn program(
        &mut self,
        nand: &mut Nand,
        page: &PageImage,
        failing: &[BlockId],
        earliest_ns: Nanoseconds,
    ) -> Result<Attempt, FtlError> {
        let Some(place) = self.next_place(nand, failing) else { return Ok(Attempt::NoBlock) };
        let (sources, spares) = page.parts(nand.geometry());
        let programmed = nand.program_in_background(place, sources, spares, earliest_ns);
        let programmed = attempt(programmed, nand, place)?;
        if let Attempt::Issued(_) = programmed {
            debug_assert!(
                self.pages.len() < self.page_count as usize,
                "a checkpoint of {} pages has one more",
                self.page_count
            );
            self.pages.push(place);
        }
        Ok(programmed)
    }

    fn next_place(&mut self, nand: &Nand, failing: &[BlockId]) -> Option<PageId> {
        for _ in 0..self.blocks.len() {
            let block = self.blocks[self.turn % self.blocks.len()];
            self.turn += 1;
            let index = nand.next_page(block);
            if index < nand.geometry().pages_per_block && !failing.contains(&block) {
                return Some(nand.geometry().page(block, index));
            }
        }
        None
    }
}

fn attempt(
    programmed: Result<Nanoseconds, NandError>,
    nand: &Nand,
    place: PageId,
) -> Result<Attempt, FtlError> {
    match programmed {
        Ok(done_ns) => Ok(Attempt::Issued(done_ns)),
        Err(NandError::ProgramFailed { .. }) => Ok(Attempt::Failed(nand.geometry().block_of(place))),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::UNIT_BYTES;

    use super::*;
    use crate::test_support::{GEOMETRY, TIMING};

    /// Blocks of four pages of 8 KiB.
    #[test]
    fn a_checkpoint_has_the_blocks_that_its_pages_fill() {
        let blocks = [0, 1, 4 * 8192, 4 * 8192 + 1, 8 * 8192, 8 * 8192 + 1]
            .map(|bytes| NewCheckpoint::blocks_for(bytes, &GEOMETRY));
        assert_eq!(blocks, [0, 1, 1, 2, 2, 3]);
    }

    /// Its blocks take turns, skipping one that fails and one that is full.
    #[test]
    fn a_page_of_a_checkpoint_goes_to_a_block_that_has_room_and_does_not_fail() {
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        let blocks: Vec<BlockId> = [1, 3, 5].map(BlockId).into();
        let mut new = NewCheckpoint::new(blocks, 10 * 8192, Seq(7), &GEOMETRY);
        let units = |nand: &mut Nand| [1; 2].map(|_| nand.stage(&[1; UNIT_BYTES]).unwrap()).into_iter();
        let mut places = Vec::new();
        for failing in
            [&[][..], &[], &[BlockId(1)], &[BlockId(1)], &[BlockId(1)], &[BlockId(1)], &[BlockId(1)]]
        {
            let image = new.image(units(&mut nand));
            assert!(matches!(new.program(&mut nand, &image, failing, 0).unwrap(), Attempt::Issued(_)));
            let place = *new.pages.last().unwrap();
            places.push((GEOMETRY.block_of(place).0, place.0 % GEOMETRY.pages_per_block));
        }
        assert_eq!(places, [(1, 0), (3, 0), (5, 0), (3, 1), (5, 1), (3, 2), (5, 2)]);
        for (block, page) in [(3, 3), (5, 3)] {
            let image = new.image(units(&mut nand));
            new.program(&mut nand, &image, &[BlockId(1)], 0).unwrap();
            assert_eq!(new.pages.last(), Some(&GEOMETRY.page(BlockId(block), page)));
        }
        let image = new.image(units(&mut nand));
        assert_eq!(new.program(&mut nand, &image, &[BlockId(1)], 0).unwrap(), Attempt::NoBlock);
        new.program(&mut nand, &image, &[], 0).unwrap();
        assert_eq!(new.pages.last(), Some(&GEOMETRY.page(BlockId(1), 1)), "the others are full");
    }
}
