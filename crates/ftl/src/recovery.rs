//! Recovery: the same fold of assertions that the running drive keeps up, over the newest whole checkpoint.
//!
//! 1. Read the first page's spare areas of every block: what it is for, and since when.
//! 2. Load the newest checkpoint that is whole.
//! 3. Read the journal pages programmed since.
//! 4. Read the spare areas of the data pages programmed since.
//! 5. Fold: for each logical page the greatest version wins; among copies of one version, the latest step.
//! 6. Rebuild P2L, owners, valid counts and free blocks from L2P.
//! 7. Take a checkpoint.
//!
//! Nothing is changed on flash before step 7, and that is a checkpoint like any other, so a second cut at any
//! point changes nothing (D5).

use std::collections::{BTreeMap, BTreeSet};

use tantalum_nand::{
    BlockId, Nand, Nanoseconds, PageId, PageState, Ppn, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare,
};

use crate::blocks::{BlockUse, Blocks};
use crate::checkpoint::{Checkpoint, Contents};
use crate::dump::InFlightRecords;
use crate::error::{FtlError, LayoutError};
use crate::fold::{Fold, Folded};
use crate::ftl::{Counters, Ftl, Scratch};
use crate::journal::{Journal, Record, decode_page};
use crate::layout::{FtlConfig, Layout};
use crate::logs::{Attempts, Logs};
use crate::map::Map;
use crate::share::spare_version;
use crate::spare::{Kind, Mark, Spare};
use crate::stream::Stream;
use crate::transactions::Transactions;
use crate::types::{Generation, Seq};

/// What recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Whether the drive had been shut down.
    pub clean: bool,
    /// Pages whose spare areas were read.
    pub pages_scanned: u64,
    /// Pages that were uncorrectable.
    pub torn_pages: u64,
    /// Journal records found behind the checkpoint.
    pub journal_records: u64,
    /// Assertions folded over the checkpoint.
    pub assertions: u64,
    /// Atomic batches that were whole, and that were not and were dropped.
    pub batches_whole: u64,
    /// See `batches_whole`.
    pub batches_dropped: u64,
    /// Log pages whose homes were asserted by hints.
    pub hints_whole: u64,
    /// Log pages behind the whole run, whose homes were not.
    pub hints_dropped: u64,
    /// Device time that recovery took.
    pub device_ns: Nanoseconds,
}

/// What the first page of a block tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FirstPage {
    Erased,
    Torn,
    Programmed(Kind, Seq),
}

struct Scan {
    nand: Nand,
    at_ns: Nanoseconds,
    done_ns: Nanoseconds,
    spares: [UnitSpare; tantalum_nand::MAX_UNITS_PER_PAGE],
    newest: Seq,
    report: RecoveryReport,
}

impl Scan {
    /// Reads a page's spare areas.
    fn read(&mut self, page: PageId) -> Result<PageState, FtlError> {
        let units = self.nand.geometry().units_per_page() as usize;
        let (state, done_ns) = self.nand.read_spares(page, &mut self.spares[..units], self.at_ns)?;
        self.done_ns = self.done_ns.max(done_ns);
        self.report.pages_scanned += 1;
        self.report.torn_pages += u64::from(state == PageState::Uncorrectable);
        Ok(state)
    }

    /// The spare area of a unit of the page read last.
    fn spare(&mut self, unit: u32) -> Option<Spare> {
        let spare = Spare::decode(&self.spares[unit as usize])?;
        self.newest = self.newest.max(spare.step);
        for (_, version) in spare.owners() {
            self.newest = self.newest.max(*version);
        }
        match spare.mark {
            Mark::Batch(batch) => self.newest = self.newest.max(batch.id),
            Mark::Hint(hint, _) => self.newest = self.newest.max(Seq(hint.generation.0)),
            Mark::Plain => {}
        }
        Some(spare)
    }

    /// Calls `each` for the pages of a block up to the first that is erased.
    fn pages(
        &mut self,
        block: BlockId,
        mut each: impl FnMut(&mut Scan, PageId) -> Result<(), FtlError>,
    ) -> Result<(), FtlError> {
        for index in 0..self.nand.geometry().pages_per_block {
            let page = self.nand.geometry().page(block, index);
            match self.read(page)? {
                PageState::Erased => break,
                PageState::Uncorrectable => {}
                PageState::Programmed => each(self, page)?,
            }
        }
        Ok(())
    }

    fn first_pages(&mut self) -> Result<Vec<FirstPage>, FtlError> {
        let geometry = *self.nand.geometry();
        let mut found = Vec::with_capacity(geometry.blocks() as usize);
        for block in (0..geometry.blocks()).map(BlockId) {
            found.push(match self.read(geometry.page(block, 0))? {
                PageState::Erased => FirstPage::Erased,
                PageState::Uncorrectable => FirstPage::Torn,
                PageState::Programmed => match self.spare(0) {
                    Some(spare) => FirstPage::Programmed(spare.kind, spare.step),
                    None => FirstPage::Torn,
                },
            });
        }
        Ok(found)
    }

    /// Finds the newest whole checkpoint: its step, contents and blocks.
    fn checkpoint(&mut self, first: &[FirstPage]) -> Result<(Seq, Contents, Vec<BlockId>), FtlError> {
        // a block whose first page is torn may hold the rest of a checkpoint whose pages lie on several blocks
        let mut found: BTreeMap<Seq, (u32, BTreeMap<u32, PageId>)> = BTreeMap::new();
        for (block, first) in first.iter().enumerate() {
            if !matches!(first, FirstPage::Programmed(Kind::Checkpoint, _) | FirstPage::Torn) {
                continue;
            }
            self.pages(BlockId(block as u32), |scan, page| {
                if let Some(Spare { kind: Kind::Checkpoint, mark: Mark::Batch(part), .. }) = scan.spare(0) {
                    found.entry(part.id).or_insert((part.count, BTreeMap::new())).1.insert(part.index, page);
                }
                Ok(())
            })?;
        }
        for (step, (count, parts)) in found.into_iter().rev() {
            if parts.len() != count as usize {
                continue;
            }
            if let Some(contents) = self.load(parts.values())? {
                let geometry = *self.nand.geometry();
                let blocks: BTreeSet<BlockId> = parts.values().map(|page| geometry.block_of(*page)).collect();
                return Ok((step, contents, blocks.into_iter().collect()));
            }
        }
        Err(FtlError::NoCheckpoint)
    }

    fn load<'a>(&mut self, pages: impl Iterator<Item = &'a PageId>) -> Result<Option<Contents>, FtlError> {
        let mut bytes = Vec::new();
        for page in pages {
            match self.read_page(*page, &mut bytes) {
                Err(FtlError::Nand(tantalum_nand::NandError::Uncorrectable { .. })) => return Ok(None),
                other => other?,
            }
        }
        Ok(Contents::decode(&bytes))
    }

    /// Appends a page's data.
    fn read_page(&mut self, page: PageId, bytes: &mut Vec<u8>) -> Result<(), FtlError> {
        for unit in 0..self.nand.geometry().units_per_page() {
            let start = bytes.len();
            bytes.resize(start + UNIT_BYTES, 0);
            let ppn = self.nand.geometry().unit(page, unit);
            let done_ns = self.nand.read(ppn, &mut bytes[start..], self.at_ns)?;
            self.done_ns = self.done_ns.max(done_ns);
        }
        Ok(())
    }

    /// The records programmed after `step`.
    fn journal(&mut self, first: &[FirstPage], step: Seq) -> Result<Vec<Record>, FtlError> {
        let mut records = Vec::new();
        for (block, first) in first.iter().enumerate() {
            if !matches!(first, FirstPage::Programmed(Kind::Journal, _) | FirstPage::Torn) {
                continue;
            }
            self.pages(BlockId(block as u32), |scan, page| {
                let Some(spare) = scan.spare(0) else { return Ok(()) };
                if spare.kind != Kind::Journal || spare.step <= step {
                    return Ok(());
                }
                let mut bytes = Vec::new();
                scan.read_page(page, &mut bytes)?;
                let decoded = decode_page(&bytes);
                records.extend(decoded.ok_or_else(|| FtlError::Damaged(format!("journal page {page}")))?);
                Ok(())
            })?;
        }
        for record in &records {
            self.newest = self.newest.max(record.newest_seq());
        }
        self.report.journal_records = records.len() as u64;
        Ok(records)
    }

    /// Hands every data unit programmed after `step` to the fold. Returns the blocks in which one is marked.
    fn data(
        &mut self,
        first: &[FirstPage],
        step: Seq,
        open: &[BlockId],
        fold: &mut Fold,
    ) -> Result<BTreeSet<BlockId>, FtlError> {
        let mut marked = BTreeSet::new();
        for (block, first) in first.iter().enumerate() {
            let block = BlockId(block as u32);
            let since = match first {
                FirstPage::Programmed(Kind::Data | Kind::Transaction, since) => {
                    *since > step || open.contains(&block)
                }
                FirstPage::Torn => true,
                _ => false,
            };
            if !since {
                continue;
            }
            self.pages(block, |scan, page| {
                for unit in 0..scan.nand.geometry().units_per_page() {
                    if let Some(spare) = scan.spare(unit)
                        && spare.kind == Kind::Data
                        && spare.step > step
                    {
                        fold.unit(scan.nand.geometry().unit(page, unit), &spare);
                        if spare.mark != Mark::Plain {
                            marked.insert(block);
                        }
                    }
                }
                Ok(())
            })?;
        }
        Ok(marked)
    }
}

impl Ftl {
    /// A new drive on an empty medium.
    pub fn format(nand: Nand, config: FtlConfig) -> Result<Ftl, FormatError> {
        let layout = Layout::plan(nand.geometry(), &config)?;
        let blocks = Blocks::new(nand.geometry(), &nand, true);
        let mut ftl = Ftl::assemble(nand, config, layout, blocks);
        ftl.take_checkpoint(0, true)?;
        ftl.reserve_dump_blocks(0)?;
        Ok(ftl)
    }

    /// Brings a drive back from its flash. Power may go again at any point of it. On failure the medium comes back
    /// with the error.
    pub fn recover(
        nand: Nand,
        config: FtlConfig,
        at_ns: Nanoseconds,
    ) -> Result<(Ftl, RecoveryReport), (Box<Nand>, FormatError)> {
        let layout = match Layout::plan(nand.geometry(), &config) {
            Ok(layout) => layout,
            Err(error) => return Err((Box::new(nand), error.into())),
        };
        let mut scan = Scan {
            nand,
            at_ns,
            done_ns: at_ns,
            spares: [[0; UNIT_SPARE_BYTES]; tantalum_nand::MAX_UNITS_PER_PAGE],
            newest: Seq(0),
            report: RecoveryReport::default(),
        };
        let found = match scan.find(&config) {
            Ok(found) => found,
            Err(error) => return Err((Box::new(scan.nand), error.into())),
        };
        let Scan { nand, done_ns, newest, report, .. } = scan;
        let blocks = Blocks::new(nand.geometry(), &nand, false);
        let mut ftl = Ftl::assemble(nand, config, layout, blocks);
        ftl.seq = newest;
        match ftl.restore(found, report, done_ns) {
            Ok(mut report) => {
                report.device_ns = ftl.nand.idle_ns().max(done_ns) - at_ns;
                Ok((ftl, report))
            }
            Err(error) => Err((Box::new(ftl.nand), error.into())),
        }
    }

    fn assemble(nand: Nand, config: FtlConfig, layout: Layout, blocks: Blocks) -> Ftl {
        let geometry = *nand.geometry();
        Ftl {
            map: Map::new(&geometry, config.logical_units),
            host: Stream::new(&geometry, layout.host_width),
            collect: Stream::new(&geometry, layout.collect_width),
            nand,
            geometry,
            config,
            layout,
            blocks,
            journal: Journal::default(),
            in_flight_records: InFlightRecords::default(),
            logs: Logs::default(),
            transactions: Transactions::default(),
            checkpoint: Checkpoint::default(),
            seq: Seq(0),
            last_unmap: Seq(0),
            batches_done_ns: 0,
            batch_under_way: false,
            abandoned: BTreeSet::new(),
            dump_blocks: Vec::new(),
            failing: Vec::new(),
            counters: Counters::default(),
            scratch: Scratch::default(),
        }
    }

    /// Steps 6 and 7.
    fn restore(
        &mut self,
        found: Found,
        mut report: RecoveryReport,
        at_ns: Nanoseconds,
    ) -> Result<RecoveryReport, FtlError> {
        self.counters = found.counters;
        // an unmapping may have been lost that a transaction's version must not pass: all of them are over anyway
        self.last_unmap = self.seq;
        let nand = &self.nand;
        self.map.rebuild(found.places.into_iter(), found.versions, |lpn, ppn| spare_version(nand, lpn, ppn));
        for (block, block_use) in found.uses {
            if !self.nand.is_bad(block) {
                self.blocks.take_block(self.geometry.plane_of(block), block, block_use);
            }
        }
        for block in (0..self.geometry.blocks()).map(BlockId) {
            if self.map.valid(block) > 0 && self.blocks.block_use(block) == BlockUse::Free {
                self.blocks.take_block(self.geometry.plane_of(block), block, BlockUse::Open);
                self.close_block(block);
            }
        }
        self.checkpoint.blocks = self.blocks.with_use(BlockUse::Checkpoint).collect();
        self.checkpoint.step = found.step;
        self.journal.blocks = self.blocks.with_use(BlockUse::Journal).collect();
        report.clean = found.clean;
        if found.clean {
            let blocks = std::mem::take(&mut self.checkpoint.blocks);
            self.retain_only(blocks, found.step);
        } else {
            self.rebase(found.logs, found.batches_dropped, &found.marked, at_ns)?;
        }
        if self.spare_blocks() <= self.collection_reserve() + self.layout.dump_blocks {
            self.collect_garbage(at_ns)?;
        }
        self.reserve_dump_blocks(at_ns)?;
        Ok(report)
    }

    /// Step 7. Until the checkpoint stands, the erase rule needs to know what was found whole: the blocks that prove it
    /// may be free already, and a second cut must find them or a record of it (hazards 4 and 10).
    fn rebase(
        &mut self,
        logs: Vec<(Generation, Attempts)>,
        batches_dropped: BTreeSet<Seq>,
        marked: &BTreeSet<BlockId>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.abandoned = batches_dropped;
        logs.into_iter().for_each(|(generation, attempts)| self.logs.found(generation, attempts));
        marked.iter().for_each(|block| self.blocks.mark(*block));
        self.blocks.recovering = true;
        self.take_checkpoint(at_ns, false)?;
        self.blocks.recovering = false;
        self.logs = Logs::default();
        self.abandoned.clear();
        Ok(())
    }

    /// Sets blocks aside for the dump, erased.
    fn reserve_dump_blocks(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        while (self.dump_blocks.len() as u32) < self.layout.dump_blocks {
            let block = self.take_system_block(BlockUse::Dump, at_ns)?;
            self.dump_blocks.push(block);
        }
        Ok(())
    }
}

/// What the flash told.
struct Found {
    step: Seq,
    clean: bool,
    counters: Counters,
    places: Vec<(crate::types::Lpn, Ppn)>,
    versions: crate::types::HashMap<u32, Seq>,
    logs: Vec<(Generation, Attempts)>,
    batches_dropped: BTreeSet<Seq>,
    /// Blocks with marks that the checkpoint does not cover.
    marked: BTreeSet<BlockId>,
    uses: Vec<(BlockId, BlockUse)>,
}

impl Scan {
    /// Steps 1 to 5.
    fn find(&mut self, config: &FtlConfig) -> Result<Found, FtlError> {
        let first = self.first_pages()?;
        let (step, contents, checkpoint_blocks) = self.checkpoint(&first)?;
        if contents.logical_units != config.logical_units {
            return Err(FtlError::Damaged(format!(
                "the checkpoint is of a drive with {} units, this one has {}",
                contents.logical_units, config.logical_units
            )));
        }
        self.newest = self.newest.max(contents.seq).max(step);
        let (clean, counters) = (contents.clean, contents.counters);
        let open = contents.open_blocks.clone();
        let records = self.journal(&first, step)?;
        let mut fold = Fold::new(step, contents);
        let marked = self.data(&first, step, &open, &mut fold)?;
        let clean = clean && records.is_empty() && fold.is_empty();
        fold.records(records);
        let mut folded = fold.finish(&mut self.report);
        for &(lpn, ppn) in &folded.places {
            if self.nand.page_state(self.nand.geometry().page_of(ppn)) == PageState::Erased {
                return Err(FtlError::Damaged(format!(
                    "unit {lpn} is recorded at place {ppn}, which is erased"
                )));
            }
        }
        self.forget_told_versions(&mut folded)?;
        let mut uses: Vec<(BlockId, BlockUse)> =
            checkpoint_blocks.iter().map(|block| (*block, BlockUse::Checkpoint)).collect();
        for (block, first) in first.iter().enumerate() {
            if let FirstPage::Programmed(Kind::Journal, _) = first {
                uses.push((BlockId(block as u32), BlockUse::Journal));
            }
        }
        let Folded { places, versions, logs, batches_dropped } = folded;
        Ok(Found { step, clean, counters, places, versions, logs, batches_dropped, marked, uses })
    }

    /// Versions that the spare areas tell after all need not be kept: a committed transaction's, for one.
    fn forget_told_versions(&mut self, folded: &mut Folded) -> Result<(), FtlError> {
        for &(lpn, ppn) in &folded.places {
            let Some(version) = folded.versions.get(&lpn.0) else { continue };
            if Spare::decode(&self.nand.spare(ppn)?).and_then(|spare| spare.version_of(lpn)) == Some(*version)
            {
                folded.versions.remove(&lpn.0);
            }
        }
        Ok(())
    }
}

/// Why a drive could not be made or brought back.
#[derive(Debug, thiserror::Error)]
pub enum FormatError {
    /// It cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The flash.
    #[error(transparent)]
    Ftl(#[from] FtlError),
}
