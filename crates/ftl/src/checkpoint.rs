//! The checkpoint: the L2P as of a step, and what is still conditional then.
//!
//! It holds the chunks of L2P that were ever mapped, the owners whose versions no spare area tells, living hints
//! and how far the open logs are whole, the blocks that were open (recovery reads on in them), and the counters.
//! A checkpoint counts only if all its pages are there. The one before it, and the journal that it covers, are
//! free only after it; by the erase rule they are erased after it finished programming (hazard 10).

mod format;

use tantalum_nand::{BlockId, NandError, Nanoseconds, PageId, Ppn, UNIT_BYTES};

use crate::blocks::BlockUse;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::key_value::indexes_in_checkpoint;
use crate::layout::CheckpointInterval;
use crate::logs::Living;
use crate::map::Claim;
use crate::page_image::PageImage;
use crate::spare::{BatchMark, Kind, Mark, Spare};
use crate::types::{Lpn, Seq};

pub use self::format::Contents;
use self::format::{CHUNK_BYTES, HINT_BYTES, OWNER_BYTES};
pub(crate) use self::format::{HEAD_BYTES, take_word};

/// What the running drive knows of its checkpoints.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    /// The step of the last one.
    pub step: Seq,
    /// Its blocks.
    pub blocks: Vec<BlockId>,
    /// Its pages, in the order of its bytes.
    pub pages: Vec<PageId>,
    /// Data pages programmed since, copies included.
    pub pages_since: u64,
    /// Units of host data that had been programmed when it was taken.
    pub host_units: u64,
    /// Erases at which wear is looked at next.
    pub next_wear_check: u64,
    /// Whether one is due because a unit was lost that only a spare area asserted.
    pub wanted: bool,
    /// Operations of the medium when none was due last.
    pub not_due_at: u64,
}

impl Ftl {
    /// Whether recovery would have to read too much. Nothing of that changes but by what is done to flash, so the question
    /// is not asked again before.
    pub(crate) fn checkpoint_due(&mut self) -> bool {
        let operations = self.nand.operations();
        if self.checkpoint.not_due_at == operations && !self.checkpoint.wanted {
            return false;
        }
        let is_due = self.needs_checkpoint();
        if !is_due {
            self.checkpoint.not_due_at = operations;
        }
        is_due
    }

    /// The question itself.
    fn needs_checkpoint(&self) -> bool {
        let interval_over = match self.config.checkpoint_interval {
            CheckpointInterval::Pages(pages) => self.checkpoint.pages_since >= pages,
            CheckpointInterval::HostUnitsForEachUnit(ratio) => {
                let programmed = &self.counters.flash_units;
                let written = programmed.host + programmed.key_value - self.checkpoint.host_units;
                written >= ratio.saturating_mul(self.checkpoint_units(0))
            }
        };
        interval_over
            || self.checkpoint.wanted
            || self.journal.blocks.len() as u32 > self.layout.journal_blocks
            || self.blocks.free_unmarked() < self.system_blocks() + 2
                && self.blocks.free() > self.system_blocks() + 2
    }

    /// Units that a checkpoint would take now, to within a page, with so many owners more than there are.
    pub(crate) fn checkpoint_units(&self, owners: usize) -> u64 {
        let owners = self.map.claims().len() + self.map.extra_owners() + owners;
        let bytes =
            self.map.touched_chunks() * CHUNK_BYTES + owners * OWNER_BYTES + self.logs.count() * HINT_BYTES;
        let pages = (bytes as u64 + self.key_value.checkpoint_bytes())
            .div_ceil(self.geometry.page_bytes.into())
            .max(1);
        pages * u64::from(self.geometry.units_per_page())
    }

    /// Takes a checkpoint and frees what it makes superfluous.
    pub fn take_checkpoint(&mut self, at_ns: Nanoseconds, clean: bool) -> Result<Nanoseconds, FtlError> {
        self.flush_journal(at_ns)?;
        self.counters.checkpoints += 1;
        let (contents, read_ns) = self.contents(clean, at_ns)?;
        let bytes = contents.encode();
        if canary::out(Guard::CheckpointInPlace) {
            for block in std::mem::take(&mut self.checkpoint.blocks) {
                self.nand.erase(block, at_ns)?;
                self.blocks.release(self.geometry.plane_of(block), block);
            }
        }
        let mut blocks = Vec::new();
        let programmed = self.program_checkpoint(&bytes, &mut blocks, at_ns.max(read_ns));
        match programmed {
            Ok((step, pages, done_ns)) => {
                self.retain_only(blocks, step);
                self.checkpoint.pages = pages;
                // their checksums are of all their bytes
                if self.config.index_dram_bytes.is_some() {
                    let indexes = indexes_in_checkpoint(&contents.namespaces, HEAD_BYTES);
                    self.key_value.are_in_checkpoint(&indexes);
                }
                Ok(done_ns)
            }
            Err(error) => {
                for block in blocks {
                    self.blocks.release(self.geometry.plane_of(block), block);
                }
                Err(error)
            }
        }
    }

    /// Opens `blocks` for the bytes and programs them. Returns the step, the pages, and when it is done.
    fn program_checkpoint(
        &mut self,
        bytes: &[u8],
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(Seq, Vec<PageId>, Nanoseconds), FtlError> {
        self.open_checkpoint_blocks(bytes.len(), blocks, at_ns)?;
        // Only now: what is recorded when blocks are erased for it is covered by the checkpoint, which otherwise would
        // not be the last word of a clean shutdown.
        let step = self.next_seq();
        if let Some(protected) = &mut self.protected {
            protected.checkpoint(&mut self.nand, step)?;
        }
        self.renew_waiting()?;
        let (pages, done_ns) = self.program_checkpoint_pages(bytes, step, blocks, at_ns)?;
        Ok((step, pages, done_ns))
    }

    /// What a checkpoint says now, and when the indexes that are on flash only have been read for it.
    fn contents(&mut self, clean: bool, at_ns: Nanoseconds) -> Result<(Contents, Nanoseconds), FtlError> {
        let (namespaces, read_ns) = self.namespace_contents(at_ns)?;
        let mut versions = Vec::new();
        for (_, claim) in self.map.claims() {
            if let Claim::Owners(owners) = claim {
                versions.extend(owners.iter().copied());
            }
        }
        versions.sort_unstable();
        self.logs.forget_needless(&mut self.map);
        let living = self.logs.living().map(|(lpn, living)| (lpn, *living, self.map.lookup(lpn)));
        let waiting = self.logs.waiting().map(|(lpn, waiting)| (lpn, *waiting, None));
        let mut hints: Vec<(Lpn, Living, Option<Ppn>)> = living.chain(waiting).collect();
        hints.sort_unstable_by_key(|(lpn, living, _)| (*lpn, living.version));
        let contents = Contents {
            logical_units: self.config.logical_units,
            clean,
            seq: self.seq,
            last_unmap: self.last_unmap,
            counters: self.counters,
            exhausted: self.exhausted,
            open_blocks: self.streams.blocks().collect(),
            versions,
            hints,
            runs: self.logs.runs(),
            last_namespace: self.key_value.last_namespace,
            namespaces,
            chunks: self.map.chunks().map(|(number, entries)| (number as u32, entries.collect())).collect(),
        };
        Ok((contents, read_ns))
    }

    /// As many blocks as the bytes fill.
    fn open_checkpoint_blocks(
        &mut self,
        bytes: usize,
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let pages = bytes.div_ceil(self.geometry.page_bytes as usize) as u32;
        for _ in 0..pages.div_ceil(self.geometry.pages_per_block) {
            blocks.push(self.take_system_block(BlockUse::Checkpoint, at_ns)?);
        }
        Ok(())
    }

    /// Programs the pages side by side on the blocks. Returns them, and when all are done.
    fn program_checkpoint_pages(
        &mut self,
        bytes: &[u8],
        step: Seq,
        blocks: &mut Vec<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<PageId>, Nanoseconds), FtlError> {
        let page_bytes = self.geometry.page_bytes as usize;
        let count = bytes.len().div_ceil(page_bytes) as u32;
        let earliest_ns = at_ns.max(self.nand.programs_done_ns());
        let mut done_ns = earliest_ns;
        let (mut turn, mut pages) = (0, Vec::with_capacity(count as usize));
        for (index, page) in bytes.chunks(page_bytes).enumerate() {
            let mark = BatchMark { id: step, index: index as u32, count };
            let (place, page_ns) =
                self.program_checkpoint_page(page, mark, blocks, &mut turn, earliest_ns)?;
            pages.push(place);
            done_ns = done_ns.max(page_ns);
        }
        Ok((pages, done_ns))
    }

    fn program_checkpoint_page(
        &mut self,
        bytes: &[u8],
        mark: BatchMark,
        blocks: &mut Vec<BlockId>,
        turn: &mut usize,
        earliest_ns: Nanoseconds,
    ) -> Result<(PageId, Nanoseconds), FtlError> {
        let units = self.geometry.units_per_page() as usize;
        let mut spare = Spare::new(Kind::Checkpoint, mark.id);
        spare.mark = Mark::Batch(mark);
        let mut unit_aligned = bytes.to_vec();
        unit_aligned.resize(bytes.len().next_multiple_of(UNIT_BYTES), 0);
        let page = PageImage::stage(&mut self.nand, &unit_aligned, &spare)?;
        loop {
            let Some(place) = self.next_checkpoint_page(blocks, turn) else {
                // program failures used up what was planned
                let opened = self.take_system_block(BlockUse::Checkpoint, earliest_ns);
                if opened.is_err() {
                    self.give_up_page(&page);
                }
                blocks.push(opened?);
                continue;
            };
            match self.nand.program(place, &page.sources[..units], &page.spares[..units], earliest_ns) {
                Ok(done_ns) => {
                    self.counters.flash_units.checkpoint += units as u64;
                    return Ok((place, done_ns));
                }
                Err(NandError::ProgramFailed { .. }) => self.program_failed(self.geometry.block_of(place)),
                Err(error) => {
                    let error = error.into();
                    self.release_page(&page, &error);
                    return Err(error);
                }
            }
        }
    }

    fn next_checkpoint_page(&self, blocks: &[BlockId], turn: &mut usize) -> Option<PageId> {
        for _ in 0..blocks.len() {
            let block = blocks[*turn % blocks.len()];
            *turn += 1;
            let index = self.nand.next_page(block);
            if index < self.geometry.pages_per_block && !self.failing.contains(&block) {
                return Some(self.geometry.page(block, index));
            }
        }
        None
    }

    /// The checkpoint at `step` stands: what is older may go.
    pub(crate) fn retain_only(&mut self, blocks: Vec<BlockId>, step: Seq) {
        let old = std::mem::replace(&mut self.checkpoint.blocks, blocks);
        let kept = [self.journal.open, self.journal.next];
        let journal = std::mem::take(&mut self.journal.blocks);
        let (kept, covered): (Vec<BlockId>, Vec<BlockId>) =
            journal.into_iter().partition(|block| kept.contains(&Some(*block)));
        self.journal.blocks = kept;
        for block in old.into_iter().chain(covered) {
            self.blocks.release(self.geometry.plane_of(block), block);
        }
        self.checkpoint.step = step;
        self.checkpoint.pages_since = 0;
        self.checkpoint.wanted = false;
        self.checkpoint.host_units = self.counters.flash_units.host + self.counters.flash_units.key_value;
        self.release_tombstones();
        self.key_value.budget_chunks = 0;
        self.blocks.clear_all_marks();
    }
}
