//! What recovery reads: steps 1 to 5 of `recovery`. Nothing is changed on flash.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_nand::{BlockId, NandError, PageId, PageState, Ppn};

use crate::checkpoint::{Contents, HEAD_BYTES};
use crate::counters::Counters;
use crate::error::{Damage, FtlError};
use crate::key::NamespaceId;
use crate::map::Attempts;
use crate::metadata::{FoundCheckpoint, FoundJournal, Record, find_checkpoint, find_journal};
use crate::reader::{FirstPage, Reader};
use crate::report::RecoveryReport;
use crate::space::BlockUse;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::records::{InCheckpoint, RecordsFound, indexes_in_checkpoint};
use crate::tenants::units::{Fold, Folded};
use crate::types::{Generation, HashMap, Lpn, Seq};

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
    pub key_value: RecordsFound,
    /// The checkpoint's pages, in the order of its bytes, and where it has the indexes if they are swapped.
    pub checkpoint_pages: Vec<PageId>,
    pub indexes: Vec<(NamespaceId, InCheckpoint)>,
}

/// The reading of a drive whose power came back.
pub(crate) struct Scan {
    pub reader: Reader,
    /// Whether indexes are swapped, so that where the checkpoint has them is to be known.
    swaps_indexes: bool,
    /// Units of transactions programmed since the checkpoint, with their places: garbage collection may have moved one.
    transaction_units: BTreeMap<(Lpn, Seq), BTreeSet<Ppn>>,
    pub report: RecoveryReport,
}

impl Scan {
    pub fn new(reader: Reader, swaps_indexes: bool) -> Scan {
        let report = RecoveryReport::default();
        Scan { reader, swaps_indexes, transaction_units: BTreeMap::new(), report }
    }

    /// What the bytes of the checkpoint say.
    fn decode(&self, found: &FoundCheckpoint) -> Result<Contents, FtlError> {
        let (units, step) = (self.reader.logical_units, found.step);
        let damaged = || FtlError::from(Damage::Checkpoint { step });
        let contents = Contents::decode(&found.bytes).ok_or_else(damaged)?;
        if contents.logical_units != units {
            return Err(Damage::OtherCapacity { found: contents.logical_units, expected: units }.into());
        }
        let possible = contents.is_possible(units, self.reader.nand.geometry());
        possible.then_some(contents).ok_or_else(damaged)
    }

    /// A page whose record in the image is damaged is lost, and may be done without if it is known to be older than the
    /// checkpoint: a later page of its block is.
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
            let spare = self.reader.nand.spare(ppn).ok().and_then(|bytes| Spare::decode(&bytes));
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
            let Scan { reader, transaction_units, .. } = self;
            reader.pages(block, |reader, page| {
                for unit in 0..reader.nand.geometry().units_per_page() {
                    let (spare, ppn) = (reader.spare(page, unit)?, reader.nand.geometry().unit(page, unit));
                    if spare.step <= step {
                        continue;
                    }
                    if spare.kind == Kind::Transaction {
                        for &owner in spare.owners() {
                            transaction_units.entry(owner).or_default().insert(ppn);
                        }
                    } else if matches!(spare.kind, Kind::Data | Kind::KeyValue) {
                        match spare.kind {
                            Kind::Data => fold.unit(ppn, &spare),
                            _ => fold.key_value.unit(reader, ppn, &spare)?,
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

impl Scan {
    /// Steps 1 to 5.
    pub fn find(&mut self) -> Result<Found, FtlError> {
        let first = self.reader.first_pages()?;
        self.reader.wait();
        let checkpoint = find_checkpoint(&mut self.reader, &first)?;
        let (step, contents) = (checkpoint.step, self.decode(&checkpoint)?);
        self.reader.wait();
        self.check_damaged_pages(step)?;
        self.reader.newest = self.reader.newest.max(contents.seq).max(step);
        let (clean, counters, exhausted) = (contents.clean, contents.counters, contents.exhausted);
        let open = contents.open_blocks.clone();
        let FoundJournal { records, blocks: journal_blocks } = find_journal(&mut self.reader, &first, step)?;
        self.report.journal_records = records.len() as u64;
        self.reader.wait();
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
        let block_of = |page: &PageId| self.reader.nand.geometry().block_of(*page);
        let mut uses: BTreeMap<BlockId, BlockUse> =
            checkpoint.pages.iter().map(|page| (block_of(page), BlockUse::Checkpoint)).collect();
        uses.extend(journal_blocks.into_iter().map(|block| (block, BlockUse::Journal)));
        // a journal block that the checkpoint covers is free, and still holds no data
        let is_journal =
            |(_, first): &(u32, &FirstPage)| matches!(first, FirstPage::Programmed(Kind::Journal, _));
        let journal = (0..).zip(&first).filter(is_journal).map(|(block, _)| BlockId(block));
        let no_data: BTreeSet<BlockId> = uses.keys().copied().chain(journal).collect();
        self.check_places(&folded.places, &no_data)?;
        self.forget_told_versions(&mut folded)?;
        let Folded { places, versions, logs, batches_dropped, key_value } = folded;
        self.reader.wait();
        let key_value = key_value.finish(&mut self.reader)?;
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
            checkpoint_pages: checkpoint.pages,
            indexes,
        })
    }

    /// Every unit must be at a place that was programmed, in a block for data.
    fn check_places(&self, places: &[(Lpn, Ppn)], no_data: &BTreeSet<BlockId>) -> Result<(), FtlError> {
        let geometry = self.reader.nand.geometry();
        for &(lpn, ppn) in places {
            let state = self.reader.nand.page_state(geometry.page_of(ppn));
            if state == PageState::Erased || no_data.contains(&geometry.block_of_unit(ppn)) {
                return Err(Damage::Place { lpn, ppn }.into());
            }
        }
        Ok(())
    }

    /// So must every record.
    fn check_record_places(&self, found: &RecordsFound, no_data: &BTreeSet<BlockId>) -> Result<(), FtlError> {
        let geometry = self.reader.nand.geometry();
        for (namespace, ppn) in found.places() {
            let state = self.reader.nand.page_state(geometry.page_of(ppn));
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
            let bytes = match self.reader.nand.spare(ppn) {
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
