//! Records that wait for a full page in DRAM that a capacitor protects: a `put` is committed on arrival (KAML, section
//! 3.2.4).
//!
//! Invariants:
//! - The indexes name what is on flash. Waiting records are looked up first, and enter the index when they are
//!   programmed (hazard 1).
//! - A `put` that waits is in one unit, so it is dumped as a whole, by the capacitor or from the image's mirror. A
//!   larger one does not wait for a full page: it is programmed as it arrives (`put.rs`).
//! - At most a page of units waits for each stream that takes records. The dump has room for that of the drive's own
//!   log in addition to its budget; the cache gives up the same amount for each namespace with its own logs.
//! - Versions of waiting records are greater than the step of the last checkpoint, and units hold nothing older.

use tantalum_nand::{Nanoseconds, PageId, Source};

use super::KvRecord;
use super::plan::{Piece, Plan};
use super::record::RecordPlace;
use super::record::{CHUNK_BYTES, HEADER_BYTES, Header};
use super::waiting::{Buffer, Waiting, WaitingUnit};
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::key::NamespaceId;
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::reservation::Need;
use crate::space::Target;
use crate::types::Seq;

impl Parts {
    /// Whether a `put` of these records would wait.
    pub fn put_waits(&self, records: &[KvRecord<'_>]) -> bool {
        self.can_wait(&self.plan_of(records))
    }

    /// Whether a `put` can wait: there is a capacitor, and the `put` fits in a unit.
    pub(super) fn can_wait(&self, plan: &Plan) -> bool {
        self.has_plp() && plan.targets.len() == 1 && plan.pieces.iter().all(|piece| piece.segment == 0)
    }

    /// The units that wait for a stream.
    fn waiting_for(&self, target: Target) -> impl DoubleEndedIterator<Item = &WaitingUnit> {
        self.tenants.records.buffer.units.iter().filter(move |unit| unit.target == target)
    }

    /// Whether the records of a plan fit in the last unit that waits for their stream.
    fn has_waiting_room(&self, plan: &Plan) -> bool {
        let chunks = plan.pieces.iter().map(|piece| piece.chunks).sum();
        self.waiting_for(plan.targets[0]).next_back().is_some_and(|unit| unit.image.has_room(chunks))
    }

    /// Adds records to those that wait, in a new unit if they do not fit in the last one.
    fn add_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let target = plan.targets[0];
        // The last step that may fail before anything waits. Only power, the image or the drive's own data can fail it, and
        // then the drive stops; so a unit begun before it would do no harm.
        let indexed = self.indexed(records, at_ns)?;
        if !self.has_waiting_room(plan) {
            self.tenants.records.buffer.begin(target, self.geometry.units_per_page());
        }
        let version = self.next_seq();
        let Buffer { units, latest, .. } = &mut self.tenants.records.buffer;
        let last = units.iter_mut().rev().find(|unit| unit.target == target).expect("there is one with room");
        let old_bytes = last.filled_bytes();
        for Piece { record, .. } in &plan.pieces {
            let KvRecord { namespace, key, value } = records[*record];
            let header = Header {
                namespace,
                key,
                version,
                segment: 0,
                continuations: 0,
                value_bytes: value.map_or(0, <[u8]>::len) as u16,
                tombstone: value.is_none(),
            };
            let waiting = last.push(header, value.unwrap_or(&[]), indexed[*record]);
            latest.insert((namespace, key), waiting);
        }
        let unit = last.number;
        self.protect_waiting(unit, old_bytes)
    }

    /// Which of the keys are in an index.
    fn indexed(&mut self, records: &[KvRecord<'_>], at_ns: Nanoseconds) -> Result<Vec<bool>, FtlError> {
        let found = |record: &KvRecord<'_>| Ok(self.find(record.namespace, &record.key, at_ns)?.0.is_some());
        records.iter().map(found).collect()
    }

    /// Stores a unit in the image's mirror, if there is one; the mirror already has its first `old_bytes`.
    fn protect_waiting(&mut self, unit: u64, old_bytes: usize) -> Result<(), FtlError> {
        let waiting = self.tenants.records.buffer.unit(unit);
        let spare = || waiting.spare(waiting.newest).encode();
        let new = old_bytes..waiting.filled_bytes();
        self.metadata.records_wait(&mut self.nand, unit, spare, &waiting.image.bytes, new)
    }

    /// The indexes name what waited for a stream and is now on a page.
    fn name_waiting_page(
        &mut self,
        target: Target,
        page: PageId,
        done_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let of_target = |unit: &mut WaitingUnit| unit.target == target;
        let units: Vec<WaitingUnit> = self.tenants.records.buffer.units.extract_if(.., of_target).collect();
        debug_assert!(
            units.len() <= self.geometry.units_per_page() as usize,
            "{} units waited for one page",
            units.len()
        );
        self.counters.flash_units.key_value += units.len() as u64;
        for (index, unit) in units.iter().enumerate() {
            let named = self.name_waiting(unit, self.geometry.unit(page, index as u32), at_ns);
            named.map_err(FtlError::unfinished)?;
        }
        let buffer = &mut self.tenants.records.buffer;
        debug_assert!(!buffer.units.is_empty() || buffer.latest.is_empty(), "something waits in no unit");
        buffer.programmed.push((units.len() as u32, done_ns));
        self.unprotect_waiting(units.iter().map(|unit| unit.number))
    }

    /// Units no longer wait.
    fn unprotect_waiting(&mut self, units: impl Iterator<Item = u64>) -> Result<(), FtlError> {
        self.metadata.records_left(&mut self.nand, units)
    }

    /// A namespace is deleted: what waits for its own logs is dropped.
    pub(super) fn forget_waiting(&mut self, namespace: NamespaceId) -> Result<(), FtlError> {
        let buffer = &mut self.tenants.records.buffer;
        buffer.forget_namespace(namespace);
        let of_namespace = |unit: &mut WaitingUnit| unit.target == Target::Logs(namespace);
        let units: Vec<u64> = buffer.units.extract_if(.., of_namespace).map(|unit| unit.number).collect();
        self.unprotect_waiting(units.into_iter())
    }

    /// The streams with waiting records.
    pub(crate) fn waiting_targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> = Vec::new();
        for unit in &self.tenants.records.buffer.units {
            if !targets.contains(&unit.target) {
                targets.push(unit.target);
            }
        }
        targets
    }

    /// What waits for a stream, as a page.
    pub(crate) fn stage_waiting(&mut self, target: Target, step: Seq) -> Result<PageImage, FtlError> {
        let (mut page, checkpoint) = (PageImage::new(), self.metadata.checkpoint_step());
        for unit in self.tenants.records.buffer.units.iter().filter(|unit| unit.target == target) {
            let is_newer = |waiting: &Waiting| waiting.header.version > checkpoint;
            debug_assert!(
                unit.records.iter().all(is_newer) || canary::out(Guard::WaitingKeepsVersion),
                "a checkpoint of step {checkpoint} stands over waiting {:?}",
                unit.records
            );
            match self.nand.stage(&unit.image.bytes) {
                Ok(slot) => page.push(Source::Staged(slot), unit.spare(step).encode()),
                Err(error) => {
                    self.give_up_page(&page);
                    return Err(error.into());
                }
            }
        }
        Ok(page)
    }

    fn name_waiting(
        &mut self,
        unit: &WaitingUnit,
        ppn: tantalum_nand::Ppn,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        for waiting in &unit.records {
            let Header { namespace, key, tombstone, .. } = waiting.header;
            if !self.tenants.records.buffer.is_latest(waiting) {
                continue;
            }
            self.forget(namespace, &key, at_ns)?;
            let place = RecordPlace { ppn, chunk: waiting.chunk, chunks: waiting.header.chunks() };
            self.name(namespace, &key, (0, 0), tombstone, place);
            self.tenants.records.buffer.latest.remove(&(namespace, key));
        }
        Ok(())
    }

    /// Pages of records programmed since the last call: how many units of each a capacitor protects until they are on
    /// flash, and when they are.
    pub fn take_programmed_records(&mut self) -> impl Iterator<Item = (u32, Nanoseconds)> + '_ {
        self.tenants.records.buffer.programmed.drain(..)
    }

    /// A checkpoint is about to be programmed without the waiting records, so they get later versions. Replaced records
    /// are dropped: after the checkpoint they would be taken for copies of what it has.
    pub(crate) fn renew_waiting(&mut self) -> Result<(), FtlError> {
        if canary::out(Guard::WaitingKeepsVersion) {
            return Ok(());
        }
        let old = std::mem::take(&mut self.tenants.records.buffer.units);
        for old_unit in &old {
            let number =
                self.tenants.records.buffer.begin(old_unit.target, self.geometry.units_per_page()).number;
            for waiting in &old_unit.records {
                if !self.tenants.records.buffer.is_latest(waiting) {
                    continue;
                }
                let header = Header { version: self.next_seq(), ..waiting.header };
                let start = usize::from(waiting.chunk) * CHUNK_BYTES + HEADER_BYTES;
                let value = &old_unit.image.bytes[start..start + usize::from(header.value_bytes)];
                let Buffer { units, latest, .. } = &mut self.tenants.records.buffer;
                let renewed = units.last_mut().expect("it was just begun");
                latest.insert((header.namespace, header.key), renewed.push(header, value, waiting.indexed));
            }
            self.protect_waiting(number, 0)?;
            self.unprotect_waiting(std::iter::once(old_unit.number))?;
        }
        Ok(())
    }
}

impl Ftl {
    /// Adds records to those that wait for the same stream. If its units already fill a page, they are programmed
    /// first.
    pub(super) fn put_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let (target, full) = (plan.targets[0], self.geometry.units_per_page() as usize);
        if !self.has_waiting_room(plan) && self.waiting_for(target).count() == full {
            self.program_waiting_for(target, at_ns)?;
        }
        self.add_waiting(records, plan, at_ns)
    }

    /// A `put` that goes to flash at once replaces these, and may be lost until there is room for it or it is on flash.
    /// Waiting records with these keys were acknowledged as durable, so they go to flash first.
    pub(crate) fn settle_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        for record in records {
            let buffer = &self.tenants.records.buffer;
            if let Some(waiting) = buffer.get(record.namespace, &record.key) {
                self.program_waiting_for(buffer.unit(waiting.unit).target, at_ns)?;
            }
        }
        Ok(())
    }

    /// Programs all waiting records, and lets the indexes name them.
    pub fn program_waiting(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let mut done_ns = at_ns;
        while let Some(unit) = self.tenants.records.buffer.units.first() {
            done_ns = done_ns.max(self.program_waiting_for(unit.target, at_ns)?);
        }
        Ok(done_ns)
    }

    /// Programs what waits for a stream.
    fn program_waiting_for(&mut self, target: Target, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let namespaces = self.tenants.records.buffer.namespaces_for(target);
        let at_ns = self.load_indexes(namespaces, at_ns)?;
        let mut room = self.reserve(&Need::waiting(&[(target, 1)]), at_ns)?;
        let step = self.next_seq();
        let page = self.stage_waiting(target, step)?;
        let programmed = self.program_reserved(&mut room, target, &page, step, at_ns);
        let (place, done_ns) = programmed.inspect_err(|error| self.release_page(&page, error))?;
        self.name_waiting_page(target, place, done_ns, at_ns)?;
        Ok(done_ns)
    }
}
