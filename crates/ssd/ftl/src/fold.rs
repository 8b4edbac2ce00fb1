//! The fold: the drive's state is the maximum of all assertions over the newest checkpoint. Each tenant folds its own;
//! this file has the common part: atomic batches, which count if all of their members are there or the journal says
//! that they were.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_nand::Ppn;

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::metadata::Record;
use crate::reader::Reader;
use crate::report::RecoveryReport;
use crate::spare::Spare;
use crate::tenants::{CheckpointReader, TENANTS, TenantFold, TenantFound};
use crate::types::Seq;

/// The folds of all tenants, in the order of their list.
pub(crate) struct Fold {
    tenants: Vec<Box<dyn TenantFold>>,
    /// Batches that the journal says are whole.
    whole: BTreeSet<Seq>,
}

impl Fold {
    /// A fold over the tenants' contents of the checkpoint at `step`; none if these are not valid.
    pub fn new(kept: &mut CheckpointReader<'_>, step: Seq) -> Option<Fold> {
        let mut tenants = Vec::with_capacity(TENANTS.len());
        for tenant in TENANTS {
            let before = kept.bytes.len();
            tenants.push(tenant.fold(kept, step)?);
            kept.first_byte += (before - kept.bytes.len()) as u64;
        }
        kept.bytes.is_empty().then_some(Fold { tenants, whole: BTreeSet::new() })
    }

    /// A unit programmed since the checkpoint. Returns whether it belongs to a tenant.
    pub fn unit(&mut self, reader: &mut Reader, ppn: Ppn, spare: &Spare) -> Result<bool, FtlError> {
        let Some(index) = TENANTS.iter().position(|tenant| tenant.has(spare.kind)) else { return Ok(false) };
        self.tenants[index].unit(reader, ppn, spare)?;
        Ok(true)
    }

    /// Whether nothing was asserted since the checkpoint.
    pub fn is_empty(&self) -> bool {
        self.tenants.iter().all(|fold| fold.is_empty())
    }

    /// The journal since the checkpoint, after all units.
    pub fn journal(&mut self, records: &[Record]) {
        let whole = |record: &Record| if let Record::BatchWhole { id } = record { Some(*id) } else { None };
        self.whole.extend(records.iter().filter_map(whole));
        self.tenants.iter_mut().for_each(|fold| fold.journal(records));
    }

    /// Decides which batches are whole. Returns those that are not.
    pub fn assert_batches(&mut self, report: &mut RecoveryReport) -> BTreeSet<Seq> {
        let mut seen: BTreeMap<Seq, (u32, BTreeSet<u32>)> = BTreeMap::new();
        for batch in self.tenants.iter().flat_map(|fold| fold.batches()) {
            seen.entry(batch.id).or_insert((batch.count, BTreeSet::new())).1.insert(batch.index);
        }
        let is_whole = |id: &Seq, (count, indexes): &(u32, BTreeSet<u32>)| {
            indexes.len() == *count as usize
                || self.whole.contains(id)
                || canary::out(Guard::PutMembersCountAlone)
        };
        let whole: BTreeSet<Seq> =
            seen.iter().filter(|(id, found)| is_whole(id, found)).map(|(id, _)| *id).collect();
        report.batches_whole = whole.len() as u64;
        report.batches_dropped = (seen.len() - whole.len()) as u64;
        self.tenants.iter_mut().for_each(|fold| fold.assert_batches(&whole));
        seen.into_keys().filter(|id| !whole.contains(id)).collect()
    }

    /// Takes the maximum, tenant by tenant.
    pub fn finish(
        self,
        reader: &mut Reader,
        report: &mut RecoveryReport,
    ) -> Result<Vec<Box<dyn TenantFound>>, FtlError> {
        let mut found = Vec::with_capacity(self.tenants.len());
        for fold in self.tenants {
            reader.wait();
            found.push(fold.finish(reader, report)?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spare::BatchMark;

    /// A tenant that has seen these members of batches, and records those that count.
    struct Members(Vec<BatchMark>);

    impl TenantFold for Members {
        fn unit(&mut self, _: &mut Reader, _: Ppn, _: &Spare) -> Result<(), FtlError> {
            unreachable!("there are no units")
        }

        fn journal(&mut self, _: &[Record]) {}

        fn batches(&self) -> Vec<BatchMark> {
            self.0.clone()
        }

        fn assert_batches(&mut self, whole: &BTreeSet<Seq>) {
            assert_eq!(whole.iter().copied().collect::<Vec<_>>(), [Seq(1), Seq(3)]);
        }

        fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        fn finish(
            self: Box<Self>,
            _: &mut Reader,
            _: &mut RecoveryReport,
        ) -> Result<Box<dyn TenantFound>, FtlError> {
            unreachable!("the fold goes on")
        }
    }

    /// The batches returned never count: a member may be erased while recovery has no checkpoint yet, and then the
    /// journal must not call the batch whole.
    #[test]
    fn a_batch_with_a_member_missing_is_dropped_unless_the_journal_has_seen_it_whole() {
        let mark = |id, index| BatchMark { id: Seq(id), index, count: 2 };
        let members = Members(vec![mark(1, 0), mark(1, 1), mark(2, 1), mark(2, 1), mark(3, 0)]);
        let mut fold = Fold { tenants: vec![Box::new(members)], whole: BTreeSet::new() };
        assert!(!fold.is_empty());
        fold.journal(&[Record::BatchWhole { id: Seq(3) }]);
        let mut report = RecoveryReport::default();
        assert_eq!(fold.assert_batches(&mut report), BTreeSet::from([Seq(2)]));
        assert_eq!((report.batches_whole, report.batches_dropped), (2, 1));
    }
}
