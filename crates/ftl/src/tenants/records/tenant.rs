//! Records as a tenant of the flash.

use tantalum_nand::Nanoseconds;

use super::collect::Packing;
use super::contents::RecordsKept;
use super::fold::RecordsFold;
use super::record;
use super::residence::checkpoint_bytes;
use crate::error::FtlError;
use crate::findings::Audit;
use crate::ftl::Ftl;
use crate::page_image::PageImage;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::{Kept, Packer, Tenant, TenantFold};
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
    fn is_saved(&self, ftl: &Ftl, spare: &Spare) -> bool {
        let acknowledged = match spare.mark {
            Mark::Batch(batch) => ftl.tenants.records.acknowledged.iter().any(|id| *id == batch.id),
            Mark::Plain | Mark::Hint(..) => true,
        };
        acknowledged && !record::is_copied(spare)
    }

    fn waiting(&self, ftl: &mut Ftl, step: Seq) -> Result<Vec<PageImage>, FtlError> {
        ftl.waiting_targets().into_iter().map(|target| ftl.stage_waiting(target, step)).collect()
    }

    fn keep(&self, ftl: &mut Ftl, bytes: &mut Vec<u8>, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let (kept, done_ns) = ftl.records_kept(at_ns)?;
        if ftl.config.index_dram_bytes.is_some() {
            // their checksums cover all their bytes
            ftl.tenants.records.kept_soon = kept.indexes(bytes.len() as u64);
        }
        kept.encode(bytes);
        Ok(done_ns)
    }

    fn kept_bytes(&self, ftl: &Ftl) -> u64 {
        ftl.tenants.records.checkpoint_bytes()
    }

    fn unplanned_bytes(&self, ftl: &Ftl, more_entries: u64) -> u64 {
        self.kept_bytes(ftl) + checkpoint_bytes(0, more_entries)
    }

    fn is_kept_soon(&self, ftl: &mut Ftl) -> Result<(), FtlError> {
        ftl.renew_waiting()
    }

    fn is_kept(&self, ftl: &mut Ftl) {
        ftl.release_tombstones();
        let indexes = std::mem::take(&mut ftl.tenants.records.kept_soon);
        ftl.tenants.records.are_in_checkpoint(&indexes);
    }

    fn fold(&self, kept: &mut Kept<'_>, step: Seq) -> Option<Box<dyn TenantFold>> {
        let records = RecordsKept::decode(kept)?;
        let indexes = match kept.config.index_dram_bytes {
            Some(_) => records.indexes(kept.first_byte),
            None => Vec::new(),
        };
        Some(Box::new(RecordsFold::new(step, records, indexes)))
    }

    fn audit(&self, ftl: &Ftl, audit: &mut Audit) {
        ftl.audit_records(audit);
    }

    fn reserved_units(&self, ftl: &Ftl) -> u64 {
        ftl.map.packed_units() + ftl.tenants.records.buffer.unit_count() as u64
    }

    fn maintain(&self, ftl: &mut Ftl, at_ns: Nanoseconds) -> Result<(), FtlError> {
        ftl.fit_indexes(at_ns)
    }

    fn blocks_went_bad(&self, ftl: &mut Ftl) {
        ftl.plan_logs();
    }

    fn recovered(&self, ftl: &mut Ftl) {
        ftl.fit_recovered_indexes();
    }
}
