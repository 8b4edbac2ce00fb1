//! What recovery reads: steps 1 to 5 of `recovery`. Nothing on flash is changed.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_nand::{BlockId, Nanoseconds, PageId, PageState};

use crate::error::{Damage, FtlError};
use crate::fold::Fold;
use crate::metadata::{Facts, FoundCheckpoint, FoundJournal, FoundNvm, MetadataScan, NvmPlan};
use crate::reader::{FirstPage, Reader};
use crate::report::RecoveryReport;
use crate::space::{BlockUse, FtlConfig};
use crate::spare::{Kind, Mark};
use crate::tenants::{DataPlaces, Kept, TenantFound, tenant_of};
use crate::types::{SEQ_LIMIT, Seq};

/// What the flash says.
pub(crate) struct Found {
    pub step: Seq,
    pub clean: bool,
    pub facts: Facts,
    /// The tenants' state, in the order of their list.
    pub tenants: Vec<Box<dyn TenantFound>>,
    pub batches_dropped: BTreeSet<Seq>,
    /// Blocks with marks that the checkpoint does not cover.
    pub marked: BTreeSet<BlockId>,
    pub uses: BTreeMap<BlockId, BlockUse>,
    /// The checkpoint's pages, in the order of its bytes.
    pub checkpoint_pages: Vec<PageId>,
    /// Where the log in memory ends, if that is where it is.
    pub nvm: Option<FoundNvm>,
}

/// The reading of a drive whose power came back.
pub(crate) struct Scan {
    pub reader: Reader,
    config: FtlConfig,
    /// Where the metadata log is, if not on flash.
    nvm: Option<NvmPlan>,
    pub report: RecoveryReport,
}

impl Scan {
    pub fn new(reader: Reader, config: FtlConfig, nvm: Option<NvmPlan>) -> Scan {
        Scan { reader, config, nvm, report: RecoveryReport::default() }
    }

    /// The medium back, and what was done, from `at_ns` on.
    pub fn into_parts(self, at_ns: Nanoseconds) -> (Reader, RecoveryReport) {
        let Scan { reader, mut report, .. } = self;
        report.read_ns = reader.done_ns - at_ns;
        report.pages_scanned = reader.counts.pages_scanned;
        report.pages_read = reader.counts.pages_read;
        report.nvm_bytes_read = reader.counts.nvm_bytes_read;
        report.torn_pages = reader.counts.torn_pages;
        (reader, report)
    }

    /// Steps 1 to 5.
    pub fn find(&mut self) -> Result<Found, FtlError> {
        let first = self.reader.first_pages()?;
        self.reader.wait();
        let mut metadata = MetadataScan::new(self.nvm);
        let checkpoint = metadata.checkpoint(&mut self.reader, &first)?;
        let step = checkpoint.step;
        let (facts, mut fold) = self.decode(&checkpoint)?;
        self.reader.wait();
        self.check_damaged_pages(step)?;
        self.reader.newest = self.reader.newest.max(facts.seq).max(step);
        let journal = metadata.journal(&mut self.reader, &first, &checkpoint)?;
        self.report.journal_records = journal.records.len() as u64;
        self.reader.wait();
        let marked = self.data(&first, step, &facts.open_blocks, &mut fold)?;
        let clean = facts.clean && journal.records.is_empty() && fold.is_empty();
        fold.journal(&journal.records);
        let batches_dropped = fold.assert_batches(&mut self.report);
        let tenants = fold.finish(&mut self.reader, &mut self.report)?;
        let uses = self.uses(&checkpoint.pages, &journal);
        let data = DataPlaces { reader: &self.reader, no_data: no_data(&uses, &first) };
        tenants.iter().try_for_each(|tenant| tenant.check(&data))?;
        let checkpoint_pages = checkpoint.pages;
        let nvm = metadata.found;
        Ok(Found { step, clean, facts, tenants, batches_dropped, marked, uses, checkpoint_pages, nvm })
    }

    /// The contents of the checkpoint's bytes.
    fn decode(&self, found: &FoundCheckpoint) -> Result<(Facts, Fold), FtlError> {
        let (expected, step) = (self.reader.logical_units, found.step);
        let damaged = || FtlError::from(Damage::Checkpoint { step });
        let (facts, bytes, first_byte) = Facts::decode(&found.bytes).ok_or_else(damaged)?;
        if facts.logical_units != expected {
            return Err(Damage::OtherCapacity { found: facts.logical_units, expected }.into());
        }
        let geometry = self.reader.nand.geometry();
        let mut kept = Kept { bytes, first_byte, config: &self.config, geometry };
        let fold = Fold::new(&mut kept, step).filter(|_| facts.seq < SEQ_LIMIT).ok_or_else(damaged)?;
        Ok((facts, fold))
    }

    /// The blocks of the metadata log.
    fn uses(&self, checkpoint: &[PageId], journal: &FoundJournal) -> BTreeMap<BlockId, BlockUse> {
        let block_of = |page: &PageId| self.reader.nand.geometry().block_of(*page);
        let checkpoint = checkpoint.iter().map(|page| (block_of(page), BlockUse::Checkpoint));
        checkpoint.chain(journal.blocks.iter().map(|block| (*block, BlockUse::Journal))).collect()
    }

    /// A page whose record in the image is damaged is lost. It can be ignored if it is known to be older than the
    /// checkpoint, because a later page of its block is.
    fn check_damaged_pages(&mut self, step: Seq) -> Result<(), FtlError> {
        let geometry = *self.reader.nand.geometry();
        for page in self.reader.nand.damaged_pages().to_vec() {
            let mut covered = false;
            let end = geometry.page(geometry.block_of(page), geometry.pages_per_block);
            for later in (page.0 + 1..end.0).map(PageId) {
                if self.reader.read(later)? == PageState::Programmed {
                    let spare = self.reader.spare(later, 0)?;
                    covered |= spare.step < step || spare.step == step && spare.kind != Kind::Checkpoint;
                }
            }
            if !covered {
                return Err(Damage::PageRecord { page }.into());
            }
        }
        Ok(())
    }

    /// Passes every data unit programmed after `step` to the fold. Returns the blocks in which one is marked.
    fn data(
        &mut self,
        first: &[FirstPage],
        step: Seq,
        open: &[BlockId],
        fold: &mut Fold,
    ) -> Result<BTreeSet<BlockId>, FtlError> {
        let mut marked = BTreeSet::new();
        for (block, first) in (0..).map(BlockId).zip(first) {
            let since = match first {
                FirstPage::Programmed(kind, since) if tenant_of(*kind).is_some() => {
                    *since > step || open.contains(&block)
                }
                FirstPage::Torn => true,
                _ => false,
            };
            if !since {
                continue;
            }
            self.reader.pages(block, |reader, page| {
                for unit in 0..reader.nand.geometry().units_per_page() {
                    let (spare, ppn) = (reader.spare(page, unit)?, reader.nand.geometry().unit(page, unit));
                    if spare.step > step && fold.unit(reader, ppn, &spare)? && spare.mark != Mark::Plain {
                        marked.insert(block);
                    }
                }
                Ok(())
            })?;
        }
        Ok(marked)
    }
}

/// Blocks that hold no data: the metadata log's, and journal blocks that the checkpoint covers, which are free.
fn no_data(uses: &BTreeMap<BlockId, BlockUse>, first: &[FirstPage]) -> BTreeSet<BlockId> {
    let is_journal =
        |(_, first): &(u32, &FirstPage)| matches!(first, FirstPage::Programmed(Kind::Journal, _));
    let journal = (0..).zip(first).filter(is_journal).map(|(block, _)| BlockId(block));
    uses.keys().copied().chain(journal).collect()
}
