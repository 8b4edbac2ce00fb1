//! The fold: the drive's state is the maximum of all assertions over the newest checkpoint. Units, records and zones fold their
//! own; this file has the common part: atomic batches, which count if all of their members are there or the journal says
//! that they were.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_canaries::guard;
use tantalum_nand::Ppn;

use crate::error::{Damage, FtlError};
use crate::metadata::Record;
use crate::reader::{FirstPage, Reader};
use crate::report::RecoveryReport;
use crate::spare::Spare;
use crate::tenants::records::{RecordsFold, RecordsFound};
use crate::tenants::units::{UnitsFold, UnitsFound};
use crate::tenants::{CheckpointReader, Tenant};
use crate::types::Seq;
use crate::zones::{ZonesFold, ZonesFound};

/// The folds over units, over records and over zones.
pub(crate) struct Fold {
    units: UnitsFold,
    records: RecordsFold,
    /// None on a drive without zones.
    zones: Option<ZonesFold>,
    /// Batches that the journal says are whole.
    whole: BTreeSet<Seq>,
}

impl Fold {
    /// A fold over the contents of the checkpoint at `step`, beside the zones that it kept; none if these are not valid.
    pub fn new(kept: &mut CheckpointReader<'_>, zones: Option<ZonesFold>, step: Seq) -> Option<Fold> {
        let before = kept.bytes.len();
        let units = UnitsFold::over(kept, step)?;
        kept.first_byte += (before - kept.bytes.len()) as u64;
        let records = RecordsFold::over(kept, step)?;
        kept.bytes.is_empty().then_some(Fold { units, records, zones, whole: BTreeSet::new() })
    }

    /// A unit programmed since the checkpoint. Returns whether it has contents of a tenant.
    pub fn unit(&mut self, reader: &mut Reader, ppn: Ppn, spare: &Spare) -> Result<bool, FtlError> {
        match Tenant::of(spare.kind) {
            Some(Tenant::Units) => self.units.unit(ppn, spare),
            Some(Tenant::Records) => self.records.unit(reader, ppn, spare)?,
            Some(Tenant::Zones) => {
                let zones = self.zones.as_mut().ok_or(Damage::Spare { ppn })?;
                zones.unit(ppn, spare)?;
            }
            None => return Ok(false),
        }
        Ok(true)
    }

    /// Whether nothing was asserted since the checkpoint.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
            && self.records.is_empty()
            && self.zones.as_ref().is_none_or(ZonesFold::is_empty)
    }

    /// The journal since the checkpoint, after all units.
    pub fn journal(&mut self, records: &[Record]) {
        let whole = |record: &Record| if let Record::BatchWhole { id } = record { Some(*id) } else { None };
        self.whole.extend(records.iter().filter_map(whole));
        self.units.journal(records);
        self.records.journal(records);
        self.zones.iter_mut().for_each(|zones| zones.journal(records));
    }

    /// The zones that the checkpoint kept.
    pub fn zones(&self) -> Option<&ZonesFold> {
        self.zones.as_ref()
    }

    /// Decides which batches are whole. Returns those that are not.
    pub fn assert_batches(&mut self, report: &mut RecoveryReport) -> BTreeSet<Seq> {
        let mut seen: BTreeMap<Seq, (u32, BTreeSet<u32>)> = BTreeMap::new();
        for batch in self.units.batches().chain(self.records.batches()) {
            seen.entry(batch.id).or_insert((batch.count, BTreeSet::new())).1.insert(batch.index);
        }
        let is_whole = |id: &Seq, (count, indexes): &(u32, BTreeSet<u32>)| {
            guard!(PutMembersCountAlone, indexes.len() == *count as usize || self.whole.contains(id))
        };
        let whole: BTreeSet<Seq> =
            seen.iter().filter(|(id, found)| is_whole(id, found)).map(|(id, _)| *id).collect();
        report.batches_whole = whole.len() as u64;
        report.batches_dropped = (seen.len() - whole.len()) as u64;
        self.units.assert_batches(&whole);
        self.records.assert_batches(&whole);
        seen.into_keys().filter(|id| !whole.contains(id)).collect()
    }

    /// Takes the maximum. `first` are the first pages of all blocks, and `step` is that of the checkpoint.
    pub fn finish(
        self,
        (first, step): (&[FirstPage], Seq),
        reader: &mut Reader,
        report: &mut RecoveryReport,
    ) -> Result<(UnitsFound, RecordsFound, Option<ZonesFound>), FtlError> {
        reader.wait();
        let units = self.units.finish(report);
        reader.wait();
        let zones = self.zones.map(|zones| zones.finish(first, step)).transpose()?;
        Ok((units, self.records.finish(reader, report)?, zones))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tantalum_nand::{Array, Nand};

    use super::*;
    use crate::spare::{BatchMark, Kind, Mark};
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::Lpn;

    /// The batches returned never count: a member may be erased while recovery has no checkpoint yet, and then the
    /// journal must not call the batch whole.
    #[test]
    fn a_batch_with_a_member_missing_is_dropped_unless_the_journal_has_seen_it_whole() {
        let mut reader = Reader::new(Nand::in_memory(GEOMETRY, TIMING).unwrap(), 128, 0);
        // a checkpoint without contents
        let checkpoint: Arc<Array<u8>> = Arc::new(vec![0; 7 * 8].into());
        let kept = &mut CheckpointReader {
            bytes: &checkpoint,
            first_byte: 0,
            checkpoint: &checkpoint,
            config: &CONFIG,
            geometry: &GEOMETRY,
        };
        let mut fold = Fold::new(kept, None, Seq(0)).unwrap();
        assert!(fold.is_empty());
        for (place, (id, index)) in (0..).zip([(1, 0), (1, 1), (2, 1), (2, 1), (3, 0)]) {
            let mut spare = Spare::with_owner(Kind::Data, Seq(10), Lpn(place), Seq(9));
            spare.mark = Mark::Batch(BatchMark { id: Seq(id), index, count: 2 });
            assert!(fold.unit(&mut reader, Ppn(place), &spare).unwrap());
        }
        assert!(!fold.is_empty());
        fold.journal(&[Record::BatchWhole { id: Seq(3) }]);
        let mut report = RecoveryReport::default();
        assert_eq!(fold.assert_batches(&mut report), BTreeSet::from([Seq(2)]));
        assert_eq!((report.batches_whole, report.batches_dropped), (2, 1));
        fold.finish((&[], Seq(0)), &mut reader, &mut report).unwrap();
        assert_eq!(report.assertions, 3, "two members of batch 1, and one of batch 3");
    }
}
