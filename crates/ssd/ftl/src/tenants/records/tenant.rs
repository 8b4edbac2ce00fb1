//! Records as a tenant of the flash.

use tantalum_nand::Nanoseconds;

use super::collect::Packing;
use super::contents::{RecordsKept, put_indexes};
use super::fold::RecordsFold;
use super::record;
use super::residence::checkpoint_bytes;
use crate::error::FtlError;
use crate::findings::Audit;
use crate::metadata::CheckpointBytes;
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::{CheckpointReader, Packer, Tenant, TenantFold};
use crate::types::Seq;

/// See the head of this file.
pub(crate) struct Records;

impl Tenant for Records {
    fn has(&self, kind: Kind) -> bool {
        kind == Kind::KeyValue
    }

    fn packer(&self) -> Box<dyn Packer> {
        Box::new(Packing::default())
    }

    fn filled_bytes(&self, spare: &Spare) -> usize {
        record::filled_bytes(spare)
    }

    /// `put`s of several units are acknowledged before they are on flash, if protected DRAM has room for them.
    fn is_saved(&self, parts: &Parts, spare: &Spare) -> bool {
        let acknowledged = match spare.mark {
            Mark::Batch(batch) => parts.tenants.records.acknowledged.iter().any(|id| *id == batch.id),
            Mark::Plain | Mark::Hint(..) => true,
        };
        acknowledged && !record::is_copied(spare)
    }

    fn waiting(&self, parts: &mut Parts, step: Seq) -> Result<Vec<PageImage>, FtlError> {
        parts.waiting_targets().into_iter().map(|target| parts.stage_waiting(target, step)).collect()
    }

    fn write_checkpoint(
        &self,
        parts: &mut Parts,
        bytes: &mut CheckpointBytes,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if parts.config.index_dram_bytes.is_none() {
            let records = &parts.tenants.records;
            let indexes = records
                .namespaces
                .iter()
                .map(|(id, namespace)| (*id, &namespace.attributes, namespace.index.get()));
            put_indexes(bytes, records.last_namespace, indexes, &mut parts.nand)?;
            return Ok(at_ns);
        }
        let (kept, done_ns) = parts.records_kept(at_ns)?;
        // their checksums cover all their bytes
        parts.tenants.records.kept_soon = kept.indexes(bytes.len() as u64);
        kept.encode(bytes, &mut parts.nand)?;
        Ok(done_ns)
    }

    fn kept_bytes(&self, parts: &Parts) -> u64 {
        parts.tenants.records.checkpoint_bytes()
    }

    fn unplanned_bytes(&self, parts: &Parts, more_entries: u64) -> u64 {
        self.kept_bytes(parts) + checkpoint_bytes(0, more_entries)
    }

    fn before_checkpoint(&self, parts: &mut Parts) -> Result<(), FtlError> {
        parts.renew_waiting()
    }

    fn after_checkpoint(&self, parts: &mut Parts) {
        parts.release_tombstones();
        let indexes = std::mem::take(&mut parts.tenants.records.kept_soon);
        parts.tenants.records.are_in_checkpoint(&indexes);
    }

    fn fold(&self, kept: &mut CheckpointReader<'_>, step: Seq) -> Option<Box<dyn TenantFold>> {
        let records = RecordsKept::decode(kept)?;
        let indexes = match kept.config.index_dram_bytes {
            Some(_) => records.indexes(kept.first_byte),
            None => Vec::new(),
        };
        Some(Box::new(RecordsFold::new(step, records, indexes)))
    }

    fn audit(&self, parts: &Parts, audit: &mut Audit) {
        parts.audit_records(audit);
    }

    fn reserved_units(&self, parts: &Parts) -> u64 {
        parts.map.packed_units() + parts.tenants.records.buffer.unit_count() as u64
    }

    fn blocks_went_bad(&self, parts: &mut Parts) {
        parts.plan_logs();
    }

    fn recovered(&self, parts: &mut Parts) {
        parts.fit_recovered_indexes();
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{BlockId, Nand, Outcome, PlaneId};

    use super::super::record::UnitImage;
    use super::super::{KvRecord, NamespaceId, Room};
    use super::*;
    use crate::ftl::Ftl;
    use crate::key::{Key, NamespaceAttributes};
    use crate::space::{FtlConfig, Target};
    use crate::spare::BatchMark;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    /// With a capacitor.
    const PROTECTED: FtlConfig = FtlConfig { dump_units: 16, protected_units: 8, ..CONFIG };

    fn ftl() -> (Ftl, NamespaceId) {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), PROTECTED).unwrap();
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        (ftl, namespace)
    }

    fn put(ftl: &mut Ftl, namespace: NamespaceId, number: u32, value: Option<&[u8]>) {
        let key = Key::new(&number.to_le_bytes()).unwrap();
        ftl.put(&[KvRecord { namespace, key, value }], 0, 0, &mut |_| None).unwrap();
    }

    /// Everything is on flash when power fails; what waits is dumped.
    fn cut(mut ftl: Ftl) -> Ftl {
        let now_ns = ftl.nand.idle_ns().max(ftl.nand.programs_done_ns());
        ftl.nand.power_fail(now_ns);
        let undone = ftl.nand.resolve(&mut |_| Outcome::Completed, &mut || 0).unwrap();
        ftl.dump(undone, std::iter::empty(), now_ns).unwrap();
        let mut nand = ftl.into_nand();
        nand.lose_dram();
        let at_ns = nand.idle_ns().max(nand.programs_done_ns());
        Ftl::recover(nand, PROTECTED, at_ns).map_err(|(_, error)| error).unwrap().0
    }

    /// Only an acknowledged `put`; not a copy, whose records are still at their old place.
    #[test]
    fn a_dump_saves_what_was_acknowledged_and_is_nowhere_else() {
        let (mut ftl, _) = ftl();
        ftl.tenants.records.acknowledged.issued(0, 100, Seq(7));
        let is_saved = |batch: Option<u64>, copied| {
            let batch = batch.map(|id| BatchMark { id: Seq(id), index: 0, count: 1 });
            let ends = UnitImage::new().ends;
            Records.is_saved(&ftl, &record::spare(Seq(9), ends, batch, copied))
        };
        assert_eq!([is_saved(None, false), is_saved(Some(7), false)], [true; 2]);
        assert_eq!([is_saved(Some(8), false), is_saved(None, true), is_saved(Some(7), true)], [false; 3]);
    }

    /// A record waits in protected DRAM while a checkpoint is taken without it.
    #[test]
    fn a_record_that_waits_while_a_checkpoint_is_taken_is_dumped_as_newer() {
        for checkpoint in [false, true] {
            let (mut ftl, namespace) = ftl();
            put(&mut ftl, namespace, 1, Some(b"old"));
            ftl.program_waiting(0).unwrap();
            put(&mut ftl, namespace, 1, Some(b"new"));
            put(&mut ftl, namespace, 2, Some(b"two"));
            assert_eq!(ftl.tenants.records.buffer.unit_count(), 1);
            if checkpoint {
                ftl.take_checkpoint(0, false).unwrap();
            }
            let mut ftl = cut(ftl);
            for (number, expected) in [(1_u32, b"new"), (2, b"two")] {
                let (key, mut value) = (Key::new(&number.to_le_bytes()).unwrap(), Vec::new());
                ftl.get(namespace, &key, &mut value, 0).unwrap();
                assert_eq!(value, expected);
            }
        }
    }

    /// What is on flash, as it is packed when it is moved, and what waits.
    #[test]
    fn records_reserve_the_units_that_they_take() {
        let (mut ftl, namespace) = ftl();
        assert_eq!(Records.reserved_units(&ftl), 0);
        put(&mut ftl, namespace, 1, Some(&[1; 4000]));
        assert_eq!(Records.reserved_units(&ftl), 1, "it waits");
        ftl.program_waiting(0).unwrap();
        assert_eq!(Records.reserved_units(&ftl), 1);
        for number in 2..5 {
            put(&mut ftl, namespace, number, Some(&[1; 4000]));
            ftl.program_waiting(0).unwrap();
        }
        put(&mut ftl, namespace, 5, Some(&[1; 4000]));
        assert_eq!(Records.reserved_units(&ftl), 4 + 1);
    }

    /// A tombstone is needed until there is a checkpoint without its key.
    #[test]
    fn tombstones_take_no_room_once_a_checkpoint_stands() {
        let (mut ftl, namespace) = ftl();
        put(&mut ftl, namespace, 1, Some(&[1; 4000]));
        ftl.program_waiting(0).unwrap();
        put(&mut ftl, namespace, 1, None);
        ftl.program_waiting(0).unwrap();
        assert_eq!((ftl.tenants.records.tombstones.len(), ftl.map.packed_units()), (1, 1));
        ftl.take_checkpoint(0, false).unwrap();
        assert_eq!((ftl.tenants.records.tombstones.len(), ftl.map.packed_units()), (0, 0));
    }

    /// Records of three chunks fill a unit and weigh more, so that the first of them give back nothing.
    #[test]
    fn what_deletes_give_back_is_known_before() {
        for bytes in [10, 100, 4000, 9000] {
            let (mut ftl, namespace) = ftl();
            let mut count = 0;
            while ftl.has_room(Room::of(bytes) * 8, 0) {
                (0..8).for_each(|number| put(&mut ftl, namespace, count + number, Some(&vec![1; bytes])));
                ftl.program_waiting(0).unwrap();
                count += 8;
            }
            // what they leave behind counts until there is a checkpoint
            (0..3).for_each(|number| put(&mut ftl, namespace, number, None));
            ftl.program_waiting(0).unwrap();
            let key = |number: u32| (namespace, Key::new(&number.to_le_bytes()).unwrap());
            let groups: Vec<Vec<_>> =
                (0..5).map(|group| (3..count).skip(group).step_by(5).map(key).collect()).collect();
            let free = ftl.free_without(0, 0, groups.iter().map(|group| &group[..]));
            for (group, free) in [vec![]].iter().chain(&groups).zip(free) {
                for (namespace, key) in group {
                    let delete = KvRecord { namespace: *namespace, key: *key, value: None };
                    ftl.put(&[delete], 0, 0, &mut |_| None).unwrap();
                }
                ftl.program_waiting(0).unwrap();
                ftl.take_checkpoint(0, false).unwrap();
                let freed = ftl.free_units(0, 0) as i64 * 64;
                // the index of small records gives back blocks of the next checkpoint, which are not counted
                assert!(freed == free || bytes < 4000 && freed > free, "{bytes} bytes: {freed}, not {free}");
            }
            assert_eq!(ftl.free_units(0, 0), 128);
        }
    }

    /// Each namespace has one block in reserve besides the open ones. Fewer blocks are left than were planned with.
    #[test]
    fn logs_share_the_blocks_for_them_and_become_narrower_when_blocks_go_bad() {
        let (mut ftl, _) = ftl();
        ftl.space.layout_mut().log_blocks = 6;
        let logs = NamespaceAttributes { logs: 2, ..NamespaceAttributes::default() };
        let namespaces = [0, 1].map(|_| ftl.create_namespace(logs, 0).unwrap());
        let widths = |ftl: &Ftl| {
            namespaces.map(|namespace| {
                let mut stream = ftl.space.stream(Target::Logs(namespace)).clone();
                let planes = (0..2).take_while(|plane| {
                    let wants = stream.wants_block();
                    stream.add(PlaneId(*plane), BlockId(*plane));
                    wants
                });
                planes.count()
            })
        };
        assert_eq!(widths(&ftl), [2, 2]);
        for (blocks, expected) in [(5, [2, 1]), (4, [2, 1]), (3, [2, 1]), (2, [1, 1])] {
            ftl.space.layout_mut().log_blocks = blocks;
            Records.blocks_went_bad(&mut ftl);
            assert_eq!(widths(&ftl), expected, "{blocks} blocks");
        }
    }
}
