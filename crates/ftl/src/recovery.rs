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
    BlockId, Nand, NandError, Nanoseconds, PageId, PageState, Ppn, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare,
};

use crate::blocks::{BlockUse, Blocks};
use crate::canary::{self, Guard};
use crate::checkpoint::{Checkpoint, Contents};
use crate::dump::InFlightRecords;
use crate::error::{FtlError, LayoutError};
use crate::fold::{Fold, Folded};
use crate::ftl::{Counters, Ftl, Scratch, UNSAFE_SHUTDOWNS};
use crate::journal::{Journal, Record, decode_page};
use crate::layout::{FtlConfig, Layout};
use crate::logs::{Attempts, Logs};
use crate::map::Map;
use crate::protected::{Protected, dump_what_is_left};
use crate::share::spare_version;
use crate::spare::{Kind, Mark, Spare};
use crate::stream::Stream;
use crate::transactions::Transactions;
use crate::types::{Generation, HashMap, Lpn, Seq};

/// What recovery did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Whether the drive had been shut down.
    pub clean: bool,
    /// Pages whose spare areas were read.
    pub pages_scanned: u64,
    /// Pages of checkpoint and journal that were read.
    pub pages_read: u64,
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
    /// Transactions whose commit the journal tells since the checkpoint.
    pub transactions_completed: u64,
    /// Units written since the checkpoint in transactions that were not committed, and dropped.
    pub transaction_units_dropped: u64,
    /// Units that had been acknowledged, waited in protected DRAM, and were brought back by the dump.
    pub units_restored: u64,
    /// Units of the checkpoint that ended it; 0 after a clean shutdown.
    pub checkpoint_units: u64,
    /// Device time that reading took.
    pub read_ns: Nanoseconds,
    /// Device time that recovery took: reading, the new checkpoint, and erases for it and for the dump.
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
    logical_units: u32,
    /// Units of transactions programmed since the checkpoint, with their places: garbage collection may have moved one.
    transaction_units: BTreeMap<(Lpn, Seq), BTreeSet<Ppn>>,
    report: RecoveryReport,
}

impl Scan {
    /// Waits for what was read: it says what is to be read next.
    fn wait(&mut self) {
        self.at_ns = self.done_ns;
    }

    /// Reads a page's spare areas.
    fn read(&mut self, page: PageId) -> Result<PageState, FtlError> {
        let units = self.nand.geometry().units_per_page() as usize;
        let (state, done_ns) = self.nand.read_spares(page, &mut self.spares[..units], self.at_ns)?;
        self.done_ns = self.done_ns.max(done_ns);
        self.report.pages_scanned += 1;
        self.report.torn_pages += u64::from(state == PageState::Uncorrectable);
        Ok(state)
    }

    /// The spare area of a unit of `page`, which was read last.
    fn spare(&mut self, page: PageId, unit: u32) -> Result<Spare, FtlError> {
        let spare = Spare::decode(&self.spares[unit as usize]);
        let spare = spare
            .filter(|spare| spare.is_possible(self.logical_units))
            .ok_or_else(|| FtlError::Damaged(format!("the spare area of unit {unit} of page {page}")))?;
        self.newest = self.newest.max(spare.newest_seq());
        Ok(spare)
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
                PageState::Programmed => {
                    let spare = self.spare(geometry.page(block, 0), 0)?;
                    FirstPage::Programmed(spare.kind, spare.step)
                }
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
                if let Spare { kind: Kind::Checkpoint, mark: Mark::Batch(part), .. } = scan.spare(page, 0)? {
                    found.entry(part.id).or_insert((part.count, BTreeMap::new())).1.insert(part.index, page);
                }
                Ok(())
            })?;
        }
        for (step, (count, parts)) in found.into_iter().rev() {
            if parts.len() != count as usize {
                continue;
            }
            let contents = self.load(step, parts.values())?;
            let geometry = *self.nand.geometry();
            let blocks: BTreeSet<BlockId> = parts.values().map(|page| geometry.block_of(*page)).collect();
            return Ok((step, contents, blocks.into_iter().collect()));
        }
        Err(FtlError::NoCheckpoint)
    }

    /// Reads a checkpoint that is whole. What it replaced may be erased by now, so there is no other to fall back to.
    fn load<'a>(&mut self, step: Seq, pages: impl Iterator<Item = &'a PageId>) -> Result<Contents, FtlError> {
        let damaged = || FtlError::Damaged(format!("the checkpoint of step {step}"));
        let mut bytes = Vec::new();
        for page in pages {
            self.read_page(*page, &mut bytes).map_err(|error| match error {
                FtlError::Nand(NandError::Uncorrectable { .. }) => damaged(),
                error => error,
            })?;
        }
        let contents = Contents::decode(&bytes).ok_or_else(damaged)?;
        if contents.logical_units != self.logical_units {
            return Err(FtlError::Damaged(format!(
                "the checkpoint is of a drive with {} units, this one has {}",
                contents.logical_units, self.logical_units
            )));
        }
        let possible = contents.is_possible(self.logical_units, self.nand.geometry().units());
        possible.then_some(contents).ok_or_else(damaged)
    }

    /// A page whose record in the image is damaged is lost, and may be done without if it is known to be older than the
    /// checkpoint: a later page of its block is.
    fn check_damaged_pages(&mut self, step: Seq) -> Result<(), FtlError> {
        let geometry = *self.nand.geometry();
        for page in self.nand.damaged_pages().to_vec() {
            let mut covered = false;
            let end = geometry.page(geometry.block_of(page), geometry.pages_per_block);
            for later in (page.0 + 1..end.0).map(PageId) {
                if self.read(later)? == PageState::Programmed {
                    let spare = self.spare(later, 0)?;
                    covered |= spare.step < step || spare.step == step && spare.kind != Kind::Checkpoint;
                }
            }
            if !covered {
                return Err(FtlError::DamagedSince { page });
            }
        }
        Ok(())
    }

    /// Appends a page's data.
    fn read_page(&mut self, page: PageId, bytes: &mut Vec<u8>) -> Result<(), FtlError> {
        self.report.pages_read += 1;
        for unit in 0..self.nand.geometry().units_per_page() {
            let start = bytes.len();
            bytes.resize(start + UNIT_BYTES, 0);
            let ppn = self.nand.geometry().unit(page, unit);
            let done_ns = self.nand.read_retrying(ppn, &mut bytes[start..], self.at_ns)?;
            self.done_ns = self.done_ns.max(done_ns);
        }
        Ok(())
    }

    /// The records programmed after `step`, and the blocks that hold them.
    fn journal(
        &mut self,
        first: &[FirstPage],
        step: Seq,
    ) -> Result<(Vec<Record>, BTreeSet<BlockId>), FtlError> {
        let (mut records, mut blocks) = (Vec::new(), BTreeSet::new());
        for (block, first) in first.iter().enumerate() {
            if !matches!(first, FirstPage::Programmed(Kind::Journal, _) | FirstPage::Torn) {
                continue;
            }
            self.pages(BlockId(block as u32), |scan, page| {
                let spare = scan.spare(page, 0)?;
                if spare.kind != Kind::Journal || spare.step <= step {
                    return Ok(());
                }
                records.extend(scan.journal_page(page)?);
                blocks.insert(scan.nand.geometry().block_of(page));
                Ok(())
            })?;
        }
        for record in &records {
            self.newest = self.newest.max(record.newest_seq());
        }
        self.report.journal_records = records.len() as u64;
        Ok((records, blocks))
    }

    fn journal_page(&mut self, page: PageId) -> Result<Vec<Record>, FtlError> {
        let damaged = || FtlError::Damaged(format!("journal page {page}"));
        let mut bytes = Vec::new();
        self.read_page(page, &mut bytes).map_err(|error| match error {
            FtlError::Nand(NandError::Uncorrectable { .. }) => damaged(),
            error => error,
        })?;
        let (units, places) = (self.logical_units, self.nand.geometry().units());
        decode_page(&bytes)
            .filter(|records| records.iter().all(|record| record.is_possible(units, places)))
            .ok_or_else(damaged)
    }

    /// Counts the transactions that the journal completes, and the units of those that it does not.
    fn count_transactions(&mut self, records: &[Record]) {
        let groups: BTreeSet<Seq> = records
            .iter()
            .filter_map(|record| if let Record::GroupWhole { group } = record { Some(*group) } else { None })
            .collect();
        let (mut completed, mut places) = (BTreeSet::new(), BTreeSet::new());
        for record in records {
            let (commit, ppn) = match *record {
                Record::Map { step, ppn, .. } => (step, ppn),
                Record::MapInGroup { group, ppn, .. } if groups.contains(&group) => (group, ppn),
                _ => continue,
            };
            let spare = self.nand.spare(ppn).ok().and_then(|bytes| Spare::decode(&bytes));
            if spare.is_some_and(|spare| spare.kind == Kind::Transaction) {
                completed.insert(commit);
                places.insert(ppn);
            }
        }
        self.report.transactions_completed = completed.len() as u64;
        let dropped = self.transaction_units.values().filter(|unit| unit.is_disjoint(&places));
        self.report.transaction_units_dropped = dropped.count() as u64;
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
                    let (spare, ppn) = (scan.spare(page, unit)?, scan.nand.geometry().unit(page, unit));
                    if spare.step <= step {
                        continue;
                    }
                    if spare.kind == Kind::Transaction {
                        for &owner in spare.owners() {
                            scan.transaction_units.entry(owner).or_default().insert(ppn);
                        }
                    } else if spare.kind == Kind::Data {
                        fold.unit(ppn, &spare);
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
        let layout = Layout::plan(nand.geometry(), &config, bad_blocks(&nand))?;
        let blocks = Blocks::new(nand.geometry(), &nand, true);
        let mut ftl = Ftl::assemble(nand, config, layout, blocks);
        ftl.take_checkpoint(0, true)?;
        ftl.reserve_dump_blocks(0)?;
        ftl.protected = Protected::new(&ftl.nand, ftl.layout.dump_blocks, config.protected_units)?;
        ftl.restart_protected()?;
        Ok(ftl)
    }

    /// Brings a drive back from its flash. Power may go again at any point of it. On failure the medium comes back
    /// with the error.
    pub fn recover(
        mut nand: Nand,
        config: FtlConfig,
        at_ns: Nanoseconds,
    ) -> Result<(Ftl, RecoveryReport), (Box<Nand>, FormatError)> {
        if let Err(error) = Layout::plan(nand.geometry(), &config, 0) {
            return Err((Box::new(nand), error.into()));
        }
        // too few for writes is no reason not to recover
        let good_blocks = nand.geometry().blocks() - bad_blocks(&nand);
        let layout = Layout::with_good_blocks(nand.geometry(), &config, good_blocks);
        let left = dump_what_is_left(&mut nand, layout.dump_blocks, config.protected_units);
        let units_restored = match left {
            Ok(units) => units,
            Err(error) => return Err((Box::new(nand), error.into())),
        };
        let mut scan = Scan {
            nand,
            at_ns,
            done_ns: at_ns,
            spares: [[0; UNIT_SPARE_BYTES]; tantalum_nand::MAX_UNITS_PER_PAGE],
            newest: Seq(0),
            logical_units: config.logical_units,
            transaction_units: BTreeMap::new(),
            report: RecoveryReport { units_restored, ..RecoveryReport::default() },
        };
        let found = match scan.find() {
            Ok(found) => found,
            Err(error) => return Err((Box::new(scan.nand), error.into())),
        };
        let Scan { nand, done_ns, newest, mut report, .. } = scan;
        report.read_ns = done_ns - at_ns;
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
        let good_blocks = geometry.blocks() - bad_blocks(&nand);
        Ftl {
            map: Map::new(&geometry, config.logical_units),
            host: Stream::new(&geometry, layout.host_width),
            collect: Stream::new(&geometry, layout.collect_width),
            nand,
            geometry,
            config,
            layout,
            good_blocks,
            blocks,
            journal: Journal::default(),
            in_flight_records: InFlightRecords::default(),
            protected: None,
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
        let places = found.places.into_iter();
        self.map.rebuild(places, found.versions, |lpn, ppn| spare_version(nand, lpn, ppn))?;
        for (block, block_use) in found.uses {
            if self.blocks.block_use(block) == BlockUse::Free {
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
            self.counters.controller[UNSAFE_SHUTDOWNS] += 1;
        }
        let before = self.counters.programmed.checkpoint;
        let rebased = match found.clean {
            true => Ok(()),
            false => self.rebase(found.logs, found.batches_dropped, &found.marked, at_ns),
        };
        report.checkpoint_units = self.counters.programmed.checkpoint - before;
        let ready = rebased.and_then(|()| self.make_ready(at_ns));
        if matches!(ready, Err(FtlError::CapacityExceeded)) {
            self.note_exhaustion();
        }
        match ready {
            // it can still be read, and every recovery finds the same
            Err(FtlError::CapacityExceeded) if self.is_read_only() => Ok(report),
            ready => ready.map(|()| report),
        }
    }

    /// Garbage is collected and blocks are set aside for the dump, for writes to come.
    fn make_ready(&mut self, at_ns: Nanoseconds) -> Result<(), FtlError> {
        // the checkpoint tells all that the dump brought back
        self.protected = Protected::new(&self.nand, self.layout.dump_blocks, self.config.protected_units)?;
        self.restart_protected()?;
        if self.is_read_only() {
            return Ok(());
        }
        if self.spare_blocks() <= self.collection_reserve() + self.layout.dump_blocks {
            self.collect_garbage(at_ns)?;
        }
        self.reserve_dump_blocks(at_ns)?;
        self.restart_protected()
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
        if !canary::out(Guard::RecoveryErases) {
            self.abandoned = batches_dropped;
            logs.into_iter().for_each(|(generation, attempts)| self.logs.found(generation, attempts));
            marked.iter().for_each(|block| self.blocks.mark(*block));
        }
        self.blocks.recovering = true;
        let taken = self.take_checkpoint(at_ns, false);
        self.blocks.recovering = false;
        taken?;
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

/// Blocks that are retired.
fn bad_blocks(nand: &Nand) -> u32 {
    (0..nand.geometry().blocks()).filter(|block| nand.is_bad(BlockId(*block))).count() as u32
}

/// What the flash told.
struct Found {
    step: Seq,
    clean: bool,
    counters: Counters,
    places: Vec<(Lpn, Ppn)>,
    versions: HashMap<u32, Seq>,
    logs: Vec<(Generation, Attempts)>,
    batches_dropped: BTreeSet<Seq>,
    /// Blocks with marks that the checkpoint does not cover.
    marked: BTreeSet<BlockId>,
    uses: BTreeMap<BlockId, BlockUse>,
}

impl Scan {
    /// Steps 1 to 5.
    fn find(&mut self) -> Result<Found, FtlError> {
        let first = self.first_pages()?;
        self.wait();
        let (step, contents, checkpoint_blocks) = self.checkpoint(&first)?;
        self.wait();
        self.check_damaged_pages(step)?;
        self.newest = self.newest.max(contents.seq).max(step);
        let (clean, counters) = (contents.clean, contents.counters);
        let open = contents.open_blocks.clone();
        let (records, journal_blocks) = self.journal(&first, step)?;
        self.wait();
        let mut fold = Fold::new(step, contents);
        let marked = self.data(&first, step, &open, &mut fold)?;
        self.count_transactions(&records);
        let clean = clean && records.is_empty() && fold.is_empty();
        fold.records(records);
        let mut folded = fold.finish(&mut self.report);
        let mut uses: BTreeMap<BlockId, BlockUse> =
            checkpoint_blocks.iter().map(|block| (*block, BlockUse::Checkpoint)).collect();
        for (block, first) in first.iter().enumerate() {
            if let FirstPage::Programmed(Kind::Journal, _) = first {
                uses.insert(BlockId(block as u32), BlockUse::Journal);
            }
        }
        uses.extend(journal_blocks.into_iter().map(|block| (block, BlockUse::Journal)));
        self.check_places(&folded.places, &uses)?;
        self.forget_told_versions(&mut folded)?;
        let Folded { places, versions, logs, batches_dropped } = folded;
        Ok(Found { step, clean, counters, places, versions, logs, batches_dropped, marked, uses })
    }

    /// Every unit must be at a place that was programmed, in a block for data.
    fn check_places(
        &self,
        places: &[(Lpn, Ppn)],
        uses: &BTreeMap<BlockId, BlockUse>,
    ) -> Result<(), FtlError> {
        let geometry = self.nand.geometry();
        for &(lpn, ppn) in places {
            let state = self.nand.page_state(geometry.page_of(ppn));
            if state == PageState::Erased || uses.contains_key(&geometry.block_of_unit(ppn)) {
                return Err(FtlError::Damaged(format!(
                    "unit {lpn} is recorded at place {ppn}, which does not hold data"
                )));
            }
        }
        Ok(())
    }

    /// Versions that the spare areas tell after all need not be kept: a committed transaction's, for one.
    fn forget_told_versions(&mut self, folded: &mut Folded) -> Result<(), FtlError> {
        for &(lpn, ppn) in &folded.places {
            let Some(version) = folded.versions.get(&lpn.0) else { continue };
            let bytes = match self.nand.spare(ppn) {
                Err(NandError::Uncorrectable { .. }) => continue,
                bytes => bytes?,
            };
            if Spare::decode(&bytes).and_then(|spare| spare.version_of(lpn)) == Some(*version) {
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
