//! What recovery reads: steps 1 to 5 of `recovery`. Nothing is changed on flash.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_nand::{
    BlockId, MAX_UNITS_PER_PAGE, Nand, NandError, Nanoseconds, PageId, PageState, Ppn, UNIT_BYTES, UnitSpare,
};

use crate::blocks::BlockUse;
use crate::checkpoint::{Contents, HEAD_BYTES};
use crate::counters::Counters;
use crate::error::{Damage, FtlError};
use crate::fold::{Fold, Folded};
use crate::key_value::{
    Header, InCheckpoint, KeyValueFold, KeyValueFound, NamespaceId, RecordPlace, bytes_of, ends,
    indexes_in_checkpoint, records,
};
use crate::logs::Attempts;
use crate::metadata::{Record, decode_page};
use crate::recovery::RecoveryReport;
use crate::spare::{Kind, Mark, Spare};
use crate::types::{Generation, HashMap, Lpn, SEQ_LIMIT, Seq};

/// What the flash told.
pub(crate) struct Found {
    pub step: Seq,
    pub clean: bool,
    pub counters: Counters,
    pub exhausted: bool,
    pub places: Vec<(Lpn, Ppn)>,
    pub versions: HashMap<u32, Seq>,
    pub logs: Vec<(Generation, Attempts)>,
    pub batches_dropped: BTreeSet<Seq>,
    /// Blocks with marks that the checkpoint does not cover.
    pub marked: BTreeSet<BlockId>,
    pub uses: BTreeMap<BlockId, BlockUse>,
    /// Key-value namespaces, their indexes and tombstones.
    pub key_value: KeyValueFound,
    /// The checkpoint's pages, in the order of its bytes, and where it has the indexes if they are swapped.
    pub checkpoint_pages: Vec<PageId>,
    pub indexes: Vec<(NamespaceId, InCheckpoint)>,
}

/// What the first page of a block tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FirstPage {
    Erased,
    Torn,
    Programmed(Kind, Seq),
}

/// The reading of a drive whose power came back.
pub(crate) struct Scan {
    pub nand: Nand,
    pub at_ns: Nanoseconds,
    pub done_ns: Nanoseconds,
    pub spares: [UnitSpare; MAX_UNITS_PER_PAGE],
    pub newest: Seq,
    pub logical_units: u32,
    /// Whether indexes are swapped, so that where the checkpoint has them is to be known.
    pub swaps_indexes: bool,
    /// Units of transactions programmed since the checkpoint, with their places: garbage collection may have moved one.
    pub transaction_units: BTreeMap<(Lpn, Seq), BTreeSet<Ppn>>,
    pub report: RecoveryReport,
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
            .ok_or_else(|| Damage::Spare { ppn: self.nand.geometry().unit(page, unit) })?;
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

    /// Finds the newest whole checkpoint: its step, contents and pages.
    fn checkpoint(&mut self, first: &[FirstPage]) -> Result<(Seq, Contents, Vec<PageId>), FtlError> {
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
            return Ok((step, contents, parts.into_values().collect()));
        }
        Err(Damage::NoCheckpoint.into())
    }

    /// Reads a checkpoint that is whole. What it replaced may be erased by now, so there is no other to fall back to.
    fn load<'a>(&mut self, step: Seq, pages: impl Iterator<Item = &'a PageId>) -> Result<Contents, FtlError> {
        let damaged = || FtlError::from(Damage::Checkpoint { step });
        let mut bytes = Vec::new();
        for page in pages {
            self.read_page(*page, &mut bytes).map_err(|error| match error {
                FtlError::Nand(NandError::Uncorrectable { .. }) => damaged(),
                error => error,
            })?;
        }
        let contents = Contents::decode(&bytes).ok_or_else(damaged)?;
        if contents.logical_units != self.logical_units {
            return Err(Damage::OtherCapacity {
                found: contents.logical_units,
                expected: self.logical_units,
            }
            .into());
        }
        let possible = contents.is_possible(self.logical_units, self.nand.geometry());
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
                return Err(Damage::PageRecord { page }.into());
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
        let damaged = || FtlError::from(Damage::Journal { page });
        let mut bytes = Vec::new();
        self.read_page(page, &mut bytes).map_err(|error| match error {
            FtlError::Nand(NandError::Uncorrectable { .. }) => damaged(),
            error => error,
        })?;
        let (units, geometry) = (self.logical_units, self.nand.geometry());
        decode_page(&bytes)
            .filter(|records| records.iter().all(|record| record.is_possible(units, geometry)))
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
                FirstPage::Programmed(Kind::Data | Kind::Transaction | Kind::KeyValue, since) => {
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
                    } else if matches!(spare.kind, Kind::Data | Kind::KeyValue) {
                        match spare.kind {
                            Kind::Data => fold.unit(ppn, &spare),
                            _ => scan.records(ppn, &spare, &mut fold.key_value)?,
                        }
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

// -- records ----------------------------------------------------------------------------------------------------

impl Scan {
    /// Reads a unit of records, and hands them to the fold.
    fn records(&mut self, ppn: Ppn, spare: &Spare, fold: &mut KeyValueFold) -> Result<(), FtlError> {
        let batch = if let Mark::Batch(batch) = spare.mark { Some(batch) } else { None };
        for (place, header) in self.read_records(ppn, spare)? {
            self.newest = self.newest.max(header.version);
            fold.record(place, header, spare.step, batch);
        }
        Ok(())
    }

    fn read_records(&mut self, ppn: Ppn, spare: &Spare) -> Result<Vec<(RecordPlace, Header)>, FtlError> {
        let damaged = || FtlError::from(Damage::Records { ppn });
        let mut unit = [0; UNIT_BYTES];
        match self.nand.read_retrying(ppn, &mut unit, self.at_ns) {
            Ok(done_ns) => self.done_ns = self.done_ns.max(done_ns),
            Err(NandError::Uncorrectable { .. }) => return Err(damaged()),
            Err(error) => return Err(error.into()),
        }
        let found = records(&unit, ends(spare), ppn).ok_or_else(damaged)?;
        if found.iter().any(|(_, header)| header.version >= SEQ_LIMIT) {
            return Err(damaged());
        }
        Ok(found)
    }

    /// What the record at a place of a checkpoint's index says of itself, if there still is one.
    fn read_header(&mut self, place: RecordPlace) -> Result<Option<Header>, FtlError> {
        if self.nand.page_state(self.nand.geometry().page_of(place.ppn)) != PageState::Programmed {
            return Ok(None);
        }
        let mut unit = [0; UNIT_BYTES];
        match self.nand.read_retrying(place.ppn, &mut unit, self.at_ns) {
            Ok(done_ns) => self.done_ns = self.done_ns.max(done_ns),
            Err(NandError::Uncorrectable { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        Ok(Header::read(bytes_of(&unit, place)).map(|read| read.0))
    }

    fn key_value(&mut self, fold: KeyValueFold) -> Result<KeyValueFound, FtlError> {
        fold.finish(&mut |place| self.read_header(place))
    }
}

impl Scan {
    /// Steps 1 to 5.
    pub fn find(&mut self) -> Result<Found, FtlError> {
        let first = self.first_pages()?;
        self.wait();
        let (step, contents, checkpoint_pages) = self.checkpoint(&first)?;
        self.wait();
        self.check_damaged_pages(step)?;
        self.newest = self.newest.max(contents.seq).max(step);
        let (clean, counters, exhausted) = (contents.clean, contents.counters, contents.exhausted);
        let open = contents.open_blocks.clone();
        let (records, journal_blocks) = self.journal(&first, step)?;
        self.wait();
        let indexes = match self.swaps_indexes {
            true => indexes_in_checkpoint(&contents.namespaces, HEAD_BYTES),
            false => Vec::new(),
        };
        let mut fold = Fold::new(step, contents);
        let marked = self.data(&first, step, &open, &mut fold)?;
        self.count_transactions(&records);
        let clean = clean && records.is_empty() && fold.is_empty();
        fold.records(records);
        let mut folded = fold.finish(&mut self.report);
        let block_of = |page: &PageId| self.nand.geometry().block_of(*page);
        let mut uses: BTreeMap<BlockId, BlockUse> =
            checkpoint_pages.iter().map(|page| (block_of(page), BlockUse::Checkpoint)).collect();
        uses.extend(journal_blocks.into_iter().map(|block| (block, BlockUse::Journal)));
        // a journal block that the checkpoint covers is free, and still holds no data
        let is_journal =
            |(_, first): &(u32, &FirstPage)| matches!(first, FirstPage::Programmed(Kind::Journal, _));
        let journal = (0..).zip(&first).filter(is_journal).map(|(block, _)| BlockId(block));
        let no_data: BTreeSet<BlockId> = uses.keys().copied().chain(journal).collect();
        self.check_places(&folded.places, &no_data)?;
        self.forget_told_versions(&mut folded)?;
        let Folded { places, versions, logs, batches_dropped, key_value } = folded;
        self.wait();
        let key_value = self.key_value(key_value)?;
        self.check_record_places(&key_value, &no_data)?;
        Ok(Found {
            step,
            clean,
            counters,
            exhausted,
            places,
            versions,
            logs,
            batches_dropped,
            marked,
            uses,
            key_value,
            checkpoint_pages,
            indexes,
        })
    }

    /// Every unit must be at a place that was programmed, in a block for data.
    fn check_places(&self, places: &[(Lpn, Ppn)], no_data: &BTreeSet<BlockId>) -> Result<(), FtlError> {
        let geometry = self.nand.geometry();
        for &(lpn, ppn) in places {
            let state = self.nand.page_state(geometry.page_of(ppn));
            if state == PageState::Erased || no_data.contains(&geometry.block_of_unit(ppn)) {
                return Err(Damage::Place { lpn, ppn }.into());
            }
        }
        Ok(())
    }

    /// So must every record.
    fn check_record_places(
        &self,
        found: &KeyValueFound,
        no_data: &BTreeSet<BlockId>,
    ) -> Result<(), FtlError> {
        let geometry = self.nand.geometry();
        for (namespace, ppn) in found.places() {
            let state = self.nand.page_state(geometry.page_of(ppn));
            if state == PageState::Erased || no_data.contains(&geometry.block_of_unit(ppn)) {
                return Err(Damage::RecordPlace { namespace, ppn }.into());
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
