//! The checkpoint: the L2P as of a step, and what is still conditional then.
//!
//! It holds the chunks of L2P that were ever mapped, the owners whose versions no spare area tells, living hints
//! and how far the open logs are whole, the blocks that were open (recovery reads on in them), and the counters.
//! A checkpoint counts only if all its pages are there. The one before it, and the journal that it covers, are
//! free only after it; by the erase rule they are erased after it finished programming (hazard 10).

mod format;

use tantalum_nand::{BlockId, Nanoseconds, PageId, Ppn};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::map::Claim;
use crate::map::Living;
use crate::metadata::{Attempt, NewCheckpoint};
use crate::page_image::PageImage;
use crate::space::BlockUse;
use crate::space::CheckpointInterval;
use crate::tenants::records::indexes_in_checkpoint;
use crate::types::{Lpn, Seq};

pub use self::format::Contents;
use self::format::{CHUNK_BYTES, HINT_BYTES, OWNER_BYTES};
pub(crate) use self::format::{HEAD_BYTES, take_word};

impl Ftl {
    /// Whether recovery would have to read too much. Nothing of that changes but by what is done to flash, so the question
    /// is not asked again before.
    pub(crate) fn checkpoint_due(&mut self) -> bool {
        let operations = self.nand.operations();
        if self.metadata.checkpoint.not_due_at == operations && !self.metadata.checkpoint.wanted {
            return false;
        }
        let is_due = self.needs_checkpoint();
        if !is_due {
            self.metadata.checkpoint.not_due_at = operations;
        }
        is_due
    }

    /// The question itself.
    fn needs_checkpoint(&self) -> bool {
        let interval_over = match self.config.checkpoint_interval {
            CheckpointInterval::Pages(pages) => self.metadata.checkpoint.pages_since >= pages,
            CheckpointInterval::HostUnitsForEachUnit(ratio) => {
                let programmed = &self.counters.flash_units;
                let written = programmed.host + programmed.key_value - self.metadata.checkpoint.host_units;
                written >= ratio.saturating_mul(self.checkpoint_units(0))
            }
        };
        interval_over
            || self.metadata.checkpoint.wanted
            || self.metadata.journal_blocks() > self.layout.journal_blocks
            || self.blocks.free_unmarked() < self.system_blocks() + 2
                && self.blocks.free() > self.system_blocks() + 2
    }

    /// Units that a checkpoint would take now, to within a page, with so many owners more than there are.
    pub(crate) fn checkpoint_units(&self, owners: usize) -> u64 {
        let owners = self.map.claims().len() + self.map.extra_owners() + owners;
        let bytes =
            self.map.touched_chunks() * CHUNK_BYTES + owners * OWNER_BYTES + self.logs.count() * HINT_BYTES;
        let pages = (bytes as u64 + self.tenants.records.checkpoint_bytes())
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
            for block in self.metadata.give_up_checkpoint() {
                self.nand.erase(block, at_ns)?;
                self.blocks.release(self.geometry.plane_of(block), block);
            }
        }
        let mut blocks = Vec::new();
        let programmed = self.program_checkpoint(&bytes, &mut blocks, at_ns.max(read_ns));
        match programmed {
            Ok((step, pages, done_ns)) => {
                self.retain_only(blocks, pages, step);
                // their checksums are of all their bytes
                if self.config.index_dram_bytes.is_some() {
                    let indexes = indexes_in_checkpoint(&contents.namespaces, HEAD_BYTES);
                    self.tenants.records.are_in_checkpoint(&indexes);
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
        for _ in 0..NewCheckpoint::blocks_for(bytes.len(), &self.geometry) {
            blocks.push(self.take_system_block(BlockUse::Checkpoint, at_ns)?);
        }
        // Only now: what is recorded when blocks are erased for it is covered by the checkpoint, which otherwise would
        // not be the last word of a clean shutdown.
        let step = self.next_seq();
        self.metadata.announce_checkpoint(&mut self.nand, step)?;
        self.renew_waiting()?;
        let mut new = NewCheckpoint::new(std::mem::take(blocks), bytes.len(), step, &self.geometry);
        let programmed = self.program_checkpoint_pages(&mut new, bytes, at_ns);
        *blocks = new.blocks;
        Ok((step, new.pages, programmed?))
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
            last_namespace: self.tenants.records.last_namespace,
            namespaces,
            chunks: self.map.chunks().map(|(number, entries)| (number as u32, entries.collect())).collect(),
        };
        Ok((contents, read_ns))
    }

    /// Programs the pages side by side on the blocks. Returns when all are done.
    fn program_checkpoint_pages(
        &mut self,
        new: &mut NewCheckpoint,
        bytes: &[u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let earliest_ns = at_ns.max(self.nand.programs_done_ns());
        let mut done_ns = earliest_ns;
        for page in bytes.chunks(self.geometry.page_bytes as usize) {
            let image = new.stage(&mut self.nand, page)?;
            done_ns = done_ns.max(self.program_checkpoint_page(new, &image, earliest_ns)?);
            self.counters.flash_units.checkpoint += u64::from(self.geometry.units_per_page());
        }
        Ok(done_ns)
    }

    fn program_checkpoint_page(
        &mut self,
        new: &mut NewCheckpoint,
        page: &PageImage,
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        loop {
            let attempt = new.program(&mut self.nand, page, &self.failing, earliest_ns);
            match attempt.inspect_err(|error| self.release_page(page, error))? {
                Attempt::Issued(done_ns) => return Ok(done_ns),
                Attempt::Failed(block) => self.program_failed(block),
                Attempt::NoBlock => {
                    // program failures used up what was planned
                    let opened = self.take_system_block(BlockUse::Checkpoint, earliest_ns);
                    new.blocks.push(opened.inspect_err(|_| self.give_up_page(page))?);
                }
            }
        }
    }

    /// The checkpoint at `step` stands: what is older may go.
    pub(crate) fn retain_only(&mut self, blocks: Vec<BlockId>, pages: Vec<PageId>, step: Seq) {
        let host_units = self.counters.flash_units.host + self.counters.flash_units.key_value;
        for block in self.metadata.stands(step, blocks, pages, host_units) {
            self.blocks.release(self.geometry.plane_of(block), block);
        }
        self.release_tombstones();
        self.tenants.records.budget_chunks = 0;
        self.blocks.clear_all_marks();
    }
}
