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
use crate::tenants::records::RecordsFound;
use crate::tenants::units::UnitsFound;
use crate::tenants::{CheckpointReader, DataPlaces, Tenant};
use crate::types::{SEQ_LIMIT, Seq};
use crate::zones::{ZonesFold, ZonesFound};

/// What the flash says.
pub(crate) struct Found {
    pub step: Seq,
    pub clean: bool,
    pub facts: Facts,
    pub units: UnitsFound,
    pub records: RecordsFound,
    pub zones: Option<ZonesFound>,
    pub batches_dropped: BTreeSet<Seq>,
    /// Blocks with marks that the checkpoint does not cover.
    pub marked: BTreeSet<BlockId>,
    pub uses: BTreeMap<BlockId, BlockUse>,
    /// The checkpoint's pages, in the order of its bytes.
    pub checkpoint_pages: Vec<PageId>,
    /// Where the log ends, if it is in memory.
    pub nvm: Option<FoundNvm>,
}

/// Reading a drive after power came back.
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

    /// Returns the medium, and what was done since `at_ns`.
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
        let mut open_blocks = facts.open_blocks.clone();
        open_blocks.extend(fold.zones().into_iter().flat_map(ZonesFold::open_blocks));
        let marked = self.data(&first, step, &open_blocks, &mut fold)?;
        let clean = facts.clean && journal.records.is_empty() && fold.is_empty();
        fold.journal(&journal.records);
        let batches_dropped = fold.assert_batches(&mut self.report);
        let (units, records, zones) = fold.finish((&first, step), &mut self.reader, &mut self.report)?;
        let mut uses = self.uses(&checkpoint.pages, &journal);
        uses.extend(zones.iter().flat_map(ZonesFound::blocks).map(|block| (block, BlockUse::Zone)));
        let data = DataPlaces { reader: &self.reader, no_data: no_data(&uses, &first) };
        units.check(&data)?;
        records.check(&data)?;
        let checkpoint_pages = checkpoint.pages;
        let nvm = metadata.found;
        Ok(Found {
            step,
            clean,
            facts,
            units,
            records,
            zones,
            batches_dropped,
            marked,
            uses,
            checkpoint_pages,
            nvm,
        })
    }

    /// The contents of the checkpoint's bytes.
    fn decode(&self, found: &FoundCheckpoint) -> Result<(Facts, Fold), FtlError> {
        let (expected, step) = (self.reader.logical_units, found.step);
        let damaged = || FtlError::from(Damage::Checkpoint { step });
        let handles = self.config.placement.map_or(0, |placement| placement.handles);
        let (facts, bytes, first_byte) =
            Facts::decode(&found.bytes, handles, self.config.zones).ok_or_else(damaged)?;
        if facts.logical_units != expected {
            return Err(Damage::OtherCapacity { found: facts.logical_units, expected }.into());
        }
        let geometry = self.reader.nand.geometry();
        let mut kept =
            CheckpointReader { bytes, first_byte, checkpoint: &found.bytes, config: &self.config, geometry };
        let zones = self.config.zones.map(|config| ZonesFold::over(config, geometry, facts.zones.clone()));
        let fold = Fold::new(&mut kept, zones, step).filter(|_| facts.seq < SEQ_LIMIT).ok_or_else(damaged)?;
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
                FirstPage::Programmed(kind, since) if Tenant::of(*kind).is_some() => {
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
fn no_data(uses: &BTreeMap<BlockId, BlockUse>, first: &[FirstPage]) -> Vec<bool> {
    let is_journal = |first: &FirstPage| matches!(first, FirstPage::Programmed(Kind::Journal, _));
    let mut no_data: Vec<bool> = first.iter().map(is_journal).collect();
    uses.keys().for_each(|block| no_data[block.index()] = true);
    no_data
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{Access, Nand, UNIT_BYTES};

    use super::*;
    use crate::control::FormatError;
    use crate::control::Ftl;
    use crate::host_unit::HostUnit;

    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::Lpn;

    fn units(ftl: &mut Ftl, lpns: std::ops::Range<u32>) -> Vec<HostUnit> {
        lpns.map(|lpn| {
            let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
            HostUnit::plain(slot, Lpn(lpn), ftl.next_seq())
        })
        .collect()
    }

    fn write(ftl: &mut Ftl, lpn: u32) -> BlockId {
        let units = units(ftl, lpn..lpn + 1);
        ftl.write_page(&units, 0).unwrap();
        block_of(ftl, lpn)
    }

    fn block_of(ftl: &Ftl, lpn: u32) -> BlockId {
        GEOMETRY.block_of_unit(ftl.map().lookup(Lpn(lpn)).unwrap())
    }

    fn found(ftl: Ftl) -> Found {
        let mut nand = ftl.into_nand();
        nand.advance(u64::MAX);
        Scan::new(Reader::new(nand, CONFIG.logical_units, 0), CONFIG, None).find().unwrap()
    }

    /// Two blocks of plain units, and a batch in the next two.
    fn with_batch() -> (Ftl, BTreeSet<BlockId>) {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let plain: BTreeSet<BlockId> = (0..8).map(|lpn| write(&mut ftl, lpn)).collect();
        let batch = units(&mut ftl, 20..26);
        ftl.write_batch(&batch, &[], 0).unwrap();
        let marked: BTreeSet<BlockId> = (20..26).map(|lpn| block_of(&ftl, lpn)).collect();
        assert!(plain.is_disjoint(&marked) && plain.len() == 2);
        (ftl, marked)
    }

    /// Recovery may erase before its own checkpoint stands, and must first record what these blocks prove.
    #[test]
    fn blocks_with_marks_since_the_checkpoint_are_found() {
        let (ftl, marked) = with_batch();
        assert_eq!(found(ftl).marked, marked);
        let (mut ftl, marked) = with_batch();
        ftl.take_checkpoint(0, false).unwrap();
        assert!(marked.contains(&write(&mut ftl, 30)), "the block goes on");
        assert_eq!(found(ftl).marked, BTreeSet::new(), "the checkpoint covers the marks");
    }

    #[test]
    fn the_metadata_logs_blocks_hold_no_data() {
        let (data, journal) = (FirstPage::Programmed(Kind::Data, Seq(1)), Kind::Journal);
        let first = [data, FirstPage::Programmed(journal, Seq(2)), FirstPage::Erased, data, FirstPage::Torn];
        let uses = BTreeMap::from([(BlockId(3), BlockUse::Checkpoint)]);
        assert_eq!(no_data(&uses, &first)[..5], [false, true, false, true, false]);
    }

    /// Recovers a drive in a file after the record of a unit's page was damaged. `work` returns the unit.
    fn recovered_without(work: impl Fn(&mut Ftl) -> u32) -> Result<(), FormatError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let mut ftl = Ftl::format(Nand::create(&path, GEOMETRY, TIMING, "", 0).unwrap(), CONFIG).unwrap();
        let lpn = work(&mut ftl);
        let spare = ftl.nand().spare(ftl.map().lookup(Lpn(lpn)).unwrap()).unwrap();
        let mut nand = ftl.into_nand();
        nand.advance(u64::MAX);
        drop(nand);
        let mut bytes = std::fs::read(&path).unwrap();
        let at = bytes.windows(spare.len()).position(|bytes| bytes == spare).expect("the file has it");
        bytes[at] = !bytes[at];
        std::fs::write(&path, bytes).unwrap();
        let (nand, _) = Nand::examine(&path, Access::Overlay).unwrap();
        assert_eq!(nand.damaged_pages().len(), 1);
        Ftl::recover(nand, CONFIG, 0).map(drop).map_err(|(_, error)| error)
    }

    /// Pages are written in turn on two planes, so unit 2 follows unit 0 in its block. What is older than the checkpoint is
    /// in the checkpoint; the contents of what may be newer are unknown.
    #[test]
    fn a_damaged_page_is_ignored_only_if_a_later_one_is_older_than_the_checkpoint() {
        let checkpoint = |ftl: &mut Ftl| ftl.take_checkpoint(0, false).unwrap();
        let before = |ftl: &mut Ftl, lpn| {
            for lpn in 0..4 {
                write(ftl, lpn);
            }
            checkpoint(ftl);
            lpn
        };
        let after = |ftl: &mut Ftl| {
            checkpoint(ftl);
            for lpn in 0..4 {
                write(ftl, lpn);
            }
            0
        };
        let is_refused = |recovered: Result<(), FormatError>| {
            matches!(recovered, Err(FormatError::Ftl(FtlError::Damaged(Damage::PageRecord { .. }))))
        };
        recovered_without(|ftl| before(ftl, 0)).unwrap();
        assert!(is_refused(recovered_without(|ftl| before(ftl, 2))), "no page follows it");
        assert!(is_refused(recovered_without(after)), "what follows it is newer");
    }
}
