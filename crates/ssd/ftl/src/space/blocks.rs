//! The use of each block, the free blocks, and the choice of the next block to erase.
//!
//! A free block may still hold old pages, and is then *stale*: it is erased when it is opened (see `control/erase.rs`), or before
//! that if the host wants its space (`control/give_back.rs`).

use std::collections::BTreeSet;

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Geometry, Nand, Nanoseconds, PlaneId};

use super::free::{FreeBlock, FreeBlocks};
use crate::types::Seq;

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BlockUse {
    /// Nothing; it may need an erase before it is opened.
    Free,
    /// A data stream writes to it.
    Open,
    /// Full, or closed by recovery: a possible victim.
    Closed,
    /// Journal pages.
    Journal,
    /// Checkpoint pages.
    Checkpoint,
    /// Kept erased for the capacitor's dump.
    Dump,
    /// A zone's.
    Zone,
    /// Retired.
    Bad,
}

/// Whether a block may be taken that has marks which no checkpoint covers: what they prove is recorded when it is erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marked {
    /// It comes first, or in recovery last.
    Ranked,
    /// It may not: the journal has no page for that.
    Never,
}

/// Which of a plane's free blocks is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wear {
    /// The one that was erased least.
    Least,
    /// The one that was erased most: its data will stay.
    Most,
}

/// What is remembered of a page that was programmed, for its block.
#[derive(Clone, Copy, Debug)]
pub struct PageSummary {
    /// Its step.
    pub step: Seq,
    /// Whether it has batch or hint marks.
    pub marked: bool,
    /// Whether the spare areas of all its units are plain.
    pub plain: bool,
}

/// The uses of all blocks.
#[derive(Clone, Debug)]
pub struct Blocks {
    uses: Vec<BlockUse>,
    /// Whether a free block is known to be erased.
    erased: Vec<bool>,
    /// Whether the block has batch or hint marks that no checkpoint covers.
    marked: Vec<bool>,
    /// Whether the block has only units whose spare areas are plain, so that they need not be read. Not known of what was
    /// programmed before power came on.
    plain: Vec<bool>,
    /// When all programs that had been issued are done, when a block was released: copies of what it held, and what
    /// replaced it.
    released_ns: Vec<Nanoseconds>,
    /// The last step programmed into a block: its age for cost-benefit.
    last_step: Vec<Seq>,
    free: FreeBlocks,
    /// Free blocks that hold old pages.
    stale: BTreeSet<BlockId>,
    /// Free blocks with marks.
    free_marked: u32,
    /// Whether the meaning of the marks is still only on flash: then marked blocks are opened last.
    pub recovering: bool,
}

impl Blocks {
    /// All blocks free; erased if the medium is new.
    pub fn new(geometry: &Geometry, nand: &Nand, erased: bool) -> Blocks {
        let count = geometry.blocks() as usize;
        let mut blocks = Blocks {
            uses: vec![BlockUse::Bad; count],
            erased: vec![false; count],
            marked: vec![false; count],
            plain: vec![false; count],
            released_ns: vec![0; count],
            last_step: vec![Seq(0); count],
            free: FreeBlocks::new(geometry),
            stale: BTreeSet::new(),
            free_marked: 0,
            recovering: false,
        };
        // the lowest numbers are taken first
        for block in (0..geometry.blocks()).rev().map(BlockId) {
            if !nand.is_bad(block) {
                blocks.add_free(geometry.plane_of(block), block, erased.then_some(0), nand);
            }
        }
        blocks
    }

    /// The use of a block.
    #[inline]
    pub fn block_use(&self, block: BlockId) -> BlockUse {
        self.uses[block.index()]
    }

    /// Changes a block's use; not from or to free.
    pub fn set_use(&mut self, block: BlockId, block_use: BlockUse) {
        let before = self.uses[block.index()];
        debug_assert!(
            before != BlockUse::Free && block_use != BlockUse::Free,
            "block {block} goes from {before:?} to {block_use:?}"
        );
        debug_assert_ne!(before, BlockUse::Bad, "block {block} is retired and would be {block_use:?}");
        self.uses[block.index()] = block_use;
    }

    /// Free blocks.
    pub fn free(&self) -> u32 {
        self.free.count()
    }

    /// Free blocks of a plane.
    pub fn free_in(&self, plane: PlaneId) -> usize {
        self.free.of(plane).len()
    }

    /// Free blocks covered by a checkpoint: recovery may erase them before it has taken its own.
    pub fn free_unmarked(&self) -> u32 {
        self.free.count() - self.free_marked
    }

    /// The free blocks of a plane.
    pub fn free_list(&self, plane: PlaneId) -> &[FreeBlock] {
        self.free.of(plane)
    }

    /// Whether a plane has a free block that may be taken.
    pub fn has_free(&self, plane: PlaneId, marked: Marked) -> bool {
        let mut free = self.free.of(plane).iter();
        match marked {
            Marked::Ranked => free.len() > 0,
            Marked::Never => free.any(|free| !self.marked[free.block.index()]),
        }
    }

    /// Whether a free block of a plane can be opened without waiting for garbage collection.
    pub fn has_ready(&self, plane: PlaneId, nand: &Nand) -> bool {
        // in a full drive most often none of them is, on any plane
        nand.wait_is_free(self.free.ready_ns(1))
            && self.free.of(plane).iter().any(|free| nand.wait_is_free(free.ready_ns))
    }

    /// The time from which this many free blocks can be opened without waiting for garbage collection; 0 if they
    /// already can.
    pub fn ready_ns(&self, count: u32, nand: &Nand) -> Nanoseconds {
        let ready_ns = self.free.ready_ns(count);
        if nand.wait_is_free(ready_ns) { 0 } else { ready_ns }
    }

    /// Takes the least-worn free block of a plane (dynamic wear levelling), if possible one that need not wait for garbage
    /// collection; among equals, erased ones first. Marked ones are taken first, so that those that recovery may erase
    /// remain; in recovery they are taken last.
    pub fn take(
        &mut self,
        plane: PlaneId,
        block_use: BlockUse,
        marked: Marked,
        wear: Wear,
        nand: &Nand,
    ) -> Option<BlockId> {
        let erases = |block| match wear {
            Wear::Least => nand.erase_count(block),
            Wear::Most => u32::MAX - nand.erase_count(block),
        };
        let rank = |FreeBlock { block, ready_ns }: FreeBlock| {
            let last = self.marked[block.index()] == self.recovering;
            let waits = !nand.wait_is_free(ready_ns);
            (last, waits, erases(block), !self.erased[block.index()])
        };
        // no block ranks before a fresh one that was never erased, and a drive that was never full has many
        let no_marks = self.free_marked == 0 && !self.recovering;
        let first = (no_marks, false, 0, false);
        let free = self.free.of(plane);
        let (mut index, mut best) = (free.len(), None);
        let may_take = |free: &FreeBlock| marked == Marked::Ranked || !self.marked[free.block.index()];
        for (other, free) in free.iter().enumerate().rev().filter(|(_, free)| may_take(free)) {
            let rank = rank(*free);
            if best.is_none_or(|best| rank < best) {
                (index, best) = (other, Some(rank));
                if rank == first {
                    break;
                }
            }
        }
        best?;
        let FreeBlock { block, .. } = self.free.swap_remove(plane, index);
        self.taken(block, block_use);
        Some(block)
    }

    fn taken(&mut self, block: BlockId, block_use: BlockUse) {
        let free = self.uses[block.index()];
        debug_assert_eq!(free, BlockUse::Free, "block {block} is taken for {block_use:?} and is {free:?}");
        debug_assert_ne!(block_use, BlockUse::Free, "block {block} is taken for nothing");
        self.free_marked -= u32::from(self.marked[block.index()]);
        self.stale.remove(&block);
        self.uses[block.index()] = block_use;
    }

    /// Takes a particular free block.
    pub fn take_block(&mut self, plane: PlaneId, block: BlockId, block_use: BlockUse) {
        let index = self.free.of(plane).iter().position(|free| free.block == block);
        self.free.swap_remove(plane, index.expect("a free block is in its plane's list"));
        self.taken(block, block_use);
    }

    /// Returns a block. It is erased when it is opened.
    pub fn release(&mut self, plane: PlaneId, block: BlockId, nand: &Nand) {
        self.add_free(plane, block, None, nand);
    }

    /// A free block that holds old pages.
    pub fn stale(&self) -> Option<BlockId> {
        self.stale.last().copied()
    }

    /// Returns a block that was erased and not programmed since.
    pub fn release_erased(&mut self, plane: PlaneId, block: BlockId, nand: &Nand) {
        // a cut may undo the erase until then, and bring back what it held before the copies of that were on flash
        self.add_free(plane, block, Some(nand.plane_idle_ns(plane)), nand);
    }

    /// A block is free; `erased_ns` is when it is erased, if it is not to be erased any more.
    fn add_free(&mut self, plane: PlaneId, block: BlockId, erased_ns: Option<Nanoseconds>, nand: &Nand) {
        debug_assert_ne!(self.uses[block.index()], BlockUse::Free, "block {block} is free already");
        self.uses[block.index()] = BlockUse::Free;
        self.erased[block.index()] = erased_ns.is_some();
        self.released_ns[block.index()] = nand.programs_done_ns();
        let ready_ns = erased_ns.unwrap_or(self.released_ns(block));
        self.free.add(plane, FreeBlock { block, ready_ns });
        if nand.next_page(block) > 0 {
            self.stale.insert(block);
        }
        self.free_marked += u32::from(self.marked[block.index()]);
    }

    /// When all programs issued before a block was released are done.
    pub fn released_ns(&self, block: BlockId) -> Nanoseconds {
        self.released_ns[block.index()]
    }

    /// Whether a block is known to be erased.
    pub fn is_erased(&self, block: BlockId) -> bool {
        self.erased[block.index()]
    }

    /// Notes that a block that was erased is about to be programmed.
    pub fn begin_anew(&mut self, block: BlockId) {
        debug_assert_ne!(self.uses[block.index()], BlockUse::Free, "block {block} is free");
        self.erased[block.index()] = false;
        self.plain[block.index()] = true;
    }

    /// Whether a block is known to have only units whose spare areas are plain.
    #[inline]
    pub fn is_plain(&self, block: BlockId) -> bool {
        self.plain[block.index()]
    }

    /// Notes what was programmed into a block.
    #[inline]
    pub fn programmed(&mut self, block: BlockId, PageSummary { step, marked, plain }: PageSummary) {
        debug_assert_ne!(
            self.uses[block.index()],
            BlockUse::Free,
            "block {block} is programmed while it is free"
        );
        self.last_step[block.index()] = step;
        self.marked[block.index()] |= marked;
        guard!(MarkedUnitTakenForPlain, self.plain[block.index()] &= plain);
    }

    /// The last step programmed into a block since power came on; 0 if none.
    pub fn last_step(&self, block: BlockId) -> Seq {
        self.last_step[block.index()]
    }

    /// Whether a block has marks that no checkpoint covers.
    pub fn is_marked(&self, block: BlockId) -> bool {
        self.marked[block.index()]
    }

    /// A block that is in use, or known to be free, has marks that no checkpoint covers: recovery found them.
    pub fn mark(&mut self, block: BlockId) {
        if !std::mem::replace(&mut self.marked[block.index()], true)
            && self.uses[block.index()] == BlockUse::Free
        {
            self.free_marked += 1;
        }
    }

    /// The marks of a block about to be erased have been recorded.
    pub fn clear_marks(&mut self, block: BlockId) {
        debug_assert_ne!(self.uses[block.index()], BlockUse::Free, "a block is taken before it is erased");
        self.marked[block.index()] = false;
    }

    /// A checkpoint covers all marks.
    pub fn clear_all_marks(&mut self) {
        self.marked.fill(false);
        self.free_marked = 0;
    }

    /// Blocks of the drive, whatever their use.
    pub fn count(&self) -> u32 {
        self.uses.len() as u32
    }

    /// The value of collecting a block now (cost-benefit): its age times the fraction freed, divided by the cost of
    /// moving the rest. The scale keeps integers exact.
    pub fn benefit(&self, block: BlockId, valid: u32, units_per_block: u32, now: Seq) -> u128 {
        debug_assert!(valid <= units_per_block, "block {block} has {valid} valid units of {units_per_block}");
        let age = u128::from(now.0 - self.last_step[block.index()].0) + 1;
        let freed = u128::from(units_per_block - valid);
        age * freed * 1_000_000 / (2 * u128::from(valid)).max(1)
    }

    /// All blocks with this use.
    pub fn with_use(&self, block_use: BlockUse) -> impl Iterator<Item = BlockId> {
        let uses = &self.uses;
        (0..uses.len() as u32).map(BlockId).filter(move |block| uses[block.index()] == block_use)
    }
}
