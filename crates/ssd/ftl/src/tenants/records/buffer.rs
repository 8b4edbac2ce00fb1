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

use std::collections::BTreeSet;

use tantalum_canaries::guard;
use tantalum_nand::{Nand, Nanoseconds, PageId, Ppn, Source};

use super::plan::{Piece, Plan};
use super::record::{CHUNK_BYTES, HEADER_BYTES, Header, RecordPlace};
use super::waiting::{Buffer, Waiting, WaitingUnit};
use super::{KvRecord, Records};
use crate::error::FtlError;
use crate::key::NamespaceId;
use crate::map::Map;
use crate::metadata::MetadataLog;
use crate::page_image::PageImage;
use crate::reads::Reads;
use crate::space::Target;
use crate::types::{Numbers, Seq};

impl Records {
    /// The units that wait for a stream.
    fn waiting_for(&self, target: Target) -> impl DoubleEndedIterator<Item = &WaitingUnit> {
        self.buffer.units.iter().filter(move |unit| unit.target == target)
    }

    /// Whether the records of a plan fit in the last unit that waits for their stream.
    fn has_waiting_room(&self, plan: &Plan) -> bool {
        let chunks = plan.pieces.iter().map(|piece| piece.chunks).sum();
        self.waiting_for(plan.targets[0]).next_back().is_some_and(|unit| unit.image.has_room(chunks))
    }

    /// Whether so much waits for a plan's stream that its records must wait for another page, of this many units.
    pub fn page_waits(&self, plan: &Plan, page_units: u32) -> bool {
        !self.has_waiting_room(plan) && self.waiting_for(plan.targets[0]).count() == page_units as usize
    }

    /// Adds records to those that wait, in a new unit if they do not fit in the last one.
    pub fn add_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        numbers: &mut Numbers,
        log: &mut MetadataLog,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let target = plan.targets[0];
        // The last step that may fail before anything waits. Only power, the image or the drive's own data can fail it, and
        // then the drive stops; so a unit begun before it would do no harm.
        let indexed = self.indexed(records, reads, at_ns)?;
        if !self.has_waiting_room(plan) {
            self.buffer.begin(target, reads.nand.geometry().units_per_page());
        }
        let version = numbers.draw();
        let Buffer { units, latest, .. } = &mut self.buffer;
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
        self.protect_waiting(unit, old_bytes, log, reads.nand)
    }

    /// Which of the keys are in an index.
    fn indexed(
        &self,
        records: &[KvRecord<'_>],
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Vec<bool>, FtlError> {
        let found =
            |record: &KvRecord<'_>| Ok(self.find(record.namespace, &record.key, reads, at_ns)?.0.is_some());
        records.iter().map(found).collect()
    }

    /// Stores a unit in the image's mirror, if there is one; the mirror already has its first `old_bytes`.
    fn protect_waiting(
        &self,
        unit: u64,
        old_bytes: usize,
        log: &mut MetadataLog,
        nand: &mut Nand,
    ) -> Result<(), FtlError> {
        let waiting = self.buffer.unit(unit);
        let spare = || waiting.spare(waiting.newest).encode();
        let new = old_bytes..waiting.filled_bytes();
        log.records_wait(nand, unit, spare, &waiting.image.bytes, new)
    }

    /// What waited for a stream is now on a page, and will be on flash at `done_ns`: the indexes name it.
    pub fn name_waiting_page(
        &mut self,
        target: Target,
        (page, done_ns): (PageId, Nanoseconds),
        map: &mut Map,
        log: &mut MetadataLog,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let of_target = |unit: &mut WaitingUnit| unit.target == target;
        let units: Vec<WaitingUnit> = self.buffer.units.extract_if(.., of_target).collect();
        let geometry = *reads.nand.geometry();
        debug_assert!(
            units.len() <= geometry.units_per_page() as usize,
            "{} units waited for one page",
            units.len()
        );
        reads.counters.flash_units.key_value += units.len() as u64;
        for (index, unit) in units.iter().enumerate() {
            let named = self.name_waiting(unit, geometry.unit(page, index as u32), map, reads, at_ns);
            named.map_err(FtlError::unfinished)?;
        }
        let buffer = &mut self.buffer;
        debug_assert!(!buffer.units.is_empty() || buffer.latest.is_empty(), "something waits in no unit");
        buffer.programmed.push((units.len() as u32, done_ns));
        log.records_left(reads.nand, units.iter().map(|unit| unit.number))
    }

    /// A namespace is deleted: what waits for its own logs is dropped.
    pub(super) fn forget_waiting(
        &mut self,
        namespace: NamespaceId,
        log: &mut MetadataLog,
        nand: &mut Nand,
    ) -> Result<(), FtlError> {
        self.buffer.forget_namespace(namespace);
        let of_namespace = |unit: &mut WaitingUnit| unit.target == Target::Logs(namespace);
        let units: Vec<u64> =
            self.buffer.units.extract_if(.., of_namespace).map(|unit| unit.number).collect();
        log.records_left(nand, units.into_iter())
    }

    /// The streams with waiting records.
    pub fn waiting_targets(&self) -> Vec<Target> {
        let mut targets: Vec<Target> = Vec::new();
        for unit in &self.buffer.units {
            if !targets.contains(&unit.target) {
                targets.push(unit.target);
            }
        }
        targets
    }

    /// A stream with waiting records.
    pub fn first_waiting(&self) -> Option<Target> {
        self.buffer.units.first().map(|unit| unit.target)
    }

    /// The stream for which a record with this key waits.
    pub fn waits_for(&self, record: &KvRecord<'_>) -> Option<Target> {
        let waiting = self.buffer.get(record.namespace, &record.key)?;
        Some(self.buffer.unit(waiting.unit).target)
    }

    /// The namespaces of the records that wait for a stream.
    pub fn namespaces_waiting_for(&self, target: Target) -> BTreeSet<NamespaceId> {
        self.buffer.namespaces_for(target)
    }

    /// What waits for a stream, as a page at a step. All of it is newer than the checkpoint that stands.
    pub fn stage_waiting(
        &self,
        target: Target,
        step: Seq,
        checkpoint: Seq,
        nand: &mut Nand,
    ) -> Result<PageImage, FtlError> {
        let mut page = PageImage::new();
        for unit in self.waiting_for(target) {
            let is_newer = |waiting: &Waiting| waiting.header.version > checkpoint;
            guard!(
                WaitingKeepsVersion,
                debug_assert!(
                    unit.records.iter().all(is_newer),
                    "a checkpoint of step {checkpoint} stands over waiting {:?}",
                    unit.records
                )
            );
            match nand.stage(&unit.image.bytes) {
                Ok(slot) => page.push(Source::Staged(slot), unit.spare(step).encode()),
                Err(error) => {
                    page.give_up(nand);
                    return Err(error.into());
                }
            }
        }
        Ok(page)
    }

    fn name_waiting(
        &mut self,
        unit: &WaitingUnit,
        ppn: Ppn,
        map: &mut Map,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        for waiting in &unit.records {
            let Header { namespace, key, tombstone, .. } = waiting.header;
            if !self.buffer.is_latest(waiting) {
                continue;
            }
            self.forget(namespace, &key, map, reads, at_ns)?;
            let place = RecordPlace { ppn, chunk: waiting.chunk, chunks: waiting.header.chunks() };
            self.name(namespace, &key, (0, 0), tombstone, place, map);
            self.buffer.latest.remove(&(namespace, key));
        }
        Ok(())
    }

    /// Pages of records programmed since the last call: how many units of each a capacitor protects until they are on
    /// flash, and when they are.
    pub fn take_programmed(&mut self) -> impl Iterator<Item = (u32, Nanoseconds)> + '_ {
        self.buffer.programmed.drain(..)
    }

    /// A checkpoint is about to be programmed without the waiting records, so they get later versions. Replaced records
    /// are dropped: after the checkpoint they would be taken for copies of what it has.
    pub fn before_checkpoint(
        &mut self,
        numbers: &mut Numbers,
        log: &mut MetadataLog,
        nand: &mut Nand,
    ) -> Result<(), FtlError> {
        let page_units = nand.geometry().units_per_page();
        let old = std::mem::take(&mut self.buffer.units);
        for old_unit in &old {
            let number = self.buffer.begin(old_unit.target, page_units).number;
            for waiting in &old_unit.records {
                if !self.buffer.is_latest(waiting) {
                    continue;
                }
                let header = Header { version: numbers.draw(), ..waiting.header };
                let start = usize::from(waiting.chunk) * CHUNK_BYTES + HEADER_BYTES;
                let value = &old_unit.image.bytes[start..start + usize::from(header.value_bytes)];
                let Buffer { units, latest, .. } = &mut self.buffer;
                let renewed = units.last_mut().expect("it was just begun");
                latest.insert((header.namespace, header.key), renewed.push(header, value, waiting.indexed));
            }
            self.protect_waiting(number, 0, log, nand)?;
            log.records_left(nand, std::iter::once(old_unit.number))?;
        }
        Ok(())
    }
}
