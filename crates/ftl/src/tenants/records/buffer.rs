//! Records that wait for a full page in DRAM that a capacitor protects: a `put` is committed on arrival (KAML, section
//! 3.2.4).
//!
//! Invariants:
//! - The indexes name what is on flash; what waits is looked up first and takes its place when it is programmed (hazard 1).
//! - A `put` that waits is in one unit, so it is dumped as a whole, by the capacitor or out of the image's mirror. A larger
//!   one does not wait for a full page: it is programmed as it arrives (`put.rs`).
//! - At most a page of units waits for each stream that takes records. For the drive's own the dump has room beside its
//!   budget; the cache gives up as much for each namespace with logs of its own.
//! - Versions of what waits are greater than the step of the last checkpoint, and units hold nothing older.

use std::collections::BTreeSet;

use tantalum_nand::{Nanoseconds, Source};

use super::KvRecord;
use super::plan::{Piece, Plan};
use super::record::RecordPlace;
use super::record::{CHUNK_BYTES, HEADER_BYTES, Header, UnitImage, spare};
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::key::{Key, NamespaceId};
use crate::page_image::PageImage;
use crate::space::Target;
use crate::spare::Spare;
use crate::types::{HashMap, Seq};

/// A record that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub header: Header,
    /// Which unit.
    unit: u64,
    chunk: u8,
    /// Whether the index has the key as well.
    indexed: bool,
}

/// A unit that is being filled.
#[derive(Clone, Debug)]
struct WaitingUnit {
    /// Its number: they go on.
    number: u64,
    /// The stream whose records it holds.
    target: Target,
    image: UnitImage,
    newest: Seq,
    /// What it holds; what was replaced since is not among `latest`.
    records: Vec<Waiting>,
}

/// All that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// In the order of their numbers.
    units: Vec<WaitingUnit>,
    next: u64,
    latest: HashMap<(NamespaceId, Key), Waiting>,
    /// Pages that were programmed since this was last asked: how many units of each a capacitor protects until they are on
    /// flash, and when that is.
    pub programmed: Vec<(u32, Nanoseconds)>,
}

impl Buffer {
    /// What waits for a key.
    pub fn get(&self, namespace: NamespaceId, key: &Key) -> Option<&Waiting> {
        if self.latest.is_empty() { None } else { self.latest.get(&(namespace, *key)) }
    }

    /// The value of a record that waits.
    pub fn value(&self, waiting: &Waiting) -> &[u8] {
        let unit = self.unit(waiting.unit);
        let start = usize::from(waiting.chunk) * CHUNK_BYTES + HEADER_BYTES;
        &unit.image.bytes[start..start + usize::from(waiting.header.value_bytes)]
    }

    /// Units that wait.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    fn unit(&self, number: u64) -> &WaitingUnit {
        self.units.iter().find(|unit| unit.number == number).expect("what waits is in a unit")
    }

    /// Begins a unit.
    fn begin(&mut self, target: Target) -> &mut WaitingUnit {
        self.units.push(WaitingUnit {
            number: self.next,
            target,
            image: UnitImage::new(),
            newest: Seq(0),
            records: Vec::new(),
        });
        self.next += 1;
        self.units.last_mut().expect("it was just pushed")
    }

    /// What waits for the keys of a namespace.
    pub fn of(&self, namespace: NamespaceId) -> impl Iterator<Item = &Waiting> {
        self.latest.values().filter(move |waiting| waiting.header.namespace == namespace)
    }

    /// The namespaces of what waits for a stream.
    fn namespaces_for(&self, target: Target) -> BTreeSet<NamespaceId> {
        let of_target = self.units.iter().filter(|unit| unit.target == target);
        of_target.flat_map(|unit| &unit.records).map(|waiting| waiting.header.namespace).collect()
    }

    /// How many keys a namespace will have more or fewer.
    pub fn balance(&self, namespace: NamespaceId) -> i64 {
        let change = |waiting: &Waiting| match (waiting.indexed, waiting.header.tombstone) {
            (true, true) => -1,
            (false, false) => 1,
            _ => 0,
        };
        self.of(namespace).map(change).sum()
    }

    /// A namespace is deleted.
    pub fn forget_namespace(&mut self, namespace: NamespaceId) {
        self.latest.retain(|(of, _), _| *of != namespace);
    }

    fn is_latest(&self, waiting: &Waiting) -> bool {
        let latest = self.get(waiting.header.namespace, &waiting.header.key);
        latest.is_some_and(|latest| (latest.unit, latest.chunk) == (waiting.unit, waiting.chunk))
    }
}

impl WaitingUnit {
    fn spare(&self, step: Seq) -> Spare {
        let mut spare = spare(step, self.image.ends, None, false);
        spare.metadata[16..].copy_from_slice(&self.newest.0.to_le_bytes());
        spare
    }

    /// Bytes up to the end of the last record.
    fn filled_bytes(&self) -> usize {
        usize::from(self.image.used()) * CHUNK_BYTES
    }

    fn push(&mut self, header: Header, value: &[u8], indexed: bool) -> Waiting {
        let (chunk, bytes) = self.image.push(header.chunks());
        header.write(value, bytes);
        self.newest = self.newest.max(header.version);
        let waiting = Waiting { header, unit: self.number, chunk, indexed };
        self.records.push(waiting);
        waiting
    }
}

impl Ftl {
    /// Whether a `put` of these records would wait.
    pub fn put_waits(&self, records: &[KvRecord<'_>]) -> bool {
        self.can_wait(&Plan::new(records, |namespace| self.logs_of(namespace)))
    }

    /// Whether a `put` can wait: there is a capacitor, and it fits a unit.
    pub(super) fn can_wait(&self, plan: &Plan) -> bool {
        self.has_plp() && plan.targets.len() == 1 && plan.pieces.iter().all(|piece| piece.segment == 0)
    }

    /// Puts records to those that wait for the same stream. A full page of its units is programmed before.
    pub(super) fn put_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let target = plan.targets[0];
        let chunks = plan.pieces.iter().map(|piece| piece.chunks).sum();
        let of_target = || self.tenants.records.buffer.units.iter().filter(|unit| unit.target == target);
        if !of_target().next_back().is_some_and(|unit| unit.image.has_room(chunks)) {
            if of_target().count() == self.geometry.units_per_page() as usize {
                self.program_waiting_for(target, at_ns)?;
            }
            self.tenants.records.buffer.begin(target);
        }
        let indexed = self.indexed(records, at_ns)?;
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

    /// A `put` that goes to flash at once replaces these, and may be lost until there is room for it or it is there. What
    /// waits for their keys was acknowledged as durable: it goes to flash first.
    pub(super) fn settle_waiting(
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

    /// Keeps a unit in the image's mirror, if there is one, which has its first `old_bytes`.
    fn protect_waiting(&mut self, unit: u64, old_bytes: usize) -> Result<(), FtlError> {
        let Some(protected) = self.metadata.protected() else { return Ok(()) };
        let waiting = self.tenants.records.buffer.unit(unit);
        let spare = waiting.spare(waiting.newest).encode();
        let new = old_bytes..waiting.filled_bytes();
        protected.records_wait(&mut self.nand, unit, spare, &waiting.image.bytes, new)
    }

    /// Programs what waits, and lets the indexes name it.
    pub fn program_waiting(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let mut done_ns = at_ns;
        while let Some(unit) = self.tenants.records.buffer.units.first() {
            done_ns = done_ns.max(self.program_waiting_for(unit.target, at_ns)?);
        }
        Ok(done_ns)
    }

    /// Programs what waits for a stream.
    fn program_waiting_for(&mut self, target: Target, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let at_ns = self.load_indexes(self.tenants.records.buffer.namespaces_for(target), at_ns)?;
        self.ensure_space(&[(target, 1)], at_ns)?;
        let step = self.next_seq();
        let page = self.stage_waiting(target, step)?;
        let programmed = self.program(target, &page, step, at_ns);
        let (place, done_ns) = programmed.inspect_err(|error| self.release_page(&page, error))?;
        let of_target = |unit: &mut WaitingUnit| unit.target == target;
        let units: Vec<WaitingUnit> = self.tenants.records.buffer.units.extract_if(.., of_target).collect();
        self.counters.flash_units.key_value += units.len() as u64;
        for (index, unit) in units.iter().enumerate() {
            self.name_waiting(unit, self.geometry.unit(place, index as u32), at_ns)?;
        }
        let buffer = &mut self.tenants.records.buffer;
        debug_assert!(!buffer.units.is_empty() || buffer.latest.is_empty(), "something waits in no unit");
        buffer.programmed.push((units.len() as u32, done_ns));
        self.unprotect_waiting(units.iter().map(|unit| unit.number))?;
        Ok(done_ns)
    }

    /// Units no longer wait.
    fn unprotect_waiting(&mut self, mut units: impl Iterator<Item = u64>) -> Result<(), FtlError> {
        let Some(protected) = self.metadata.protected() else { return Ok(()) };
        units.try_for_each(|unit| protected.records_programmed(&mut self.nand, unit))
    }

    /// A namespace is deleted: what waits for its own logs goes.
    pub(super) fn forget_waiting(&mut self, namespace: NamespaceId) -> Result<(), FtlError> {
        let buffer = &mut self.tenants.records.buffer;
        buffer.forget_namespace(namespace);
        let of_namespace = |unit: &mut WaitingUnit| unit.target == Target::Logs(namespace);
        let units: Vec<u64> = buffer.units.extract_if(.., of_namespace).map(|unit| unit.number).collect();
        self.unprotect_waiting(units.into_iter())
    }

    /// The streams that something waits for.
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
        let mut page = PageImage::new();
        for unit in self.tenants.records.buffer.units.iter().filter(|unit| unit.target == target) {
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

    /// Pages of records that were programmed since this was last asked: how many units of each a capacitor protects until
    /// they are on flash, and when that is.
    pub fn take_programmed_records(&mut self) -> impl Iterator<Item = (u32, Nanoseconds)> + '_ {
        self.tenants.records.buffer.programmed.drain(..)
    }

    /// A checkpoint is about to be programmed, and does not have what waits: that takes versions after it. What was
    /// replaced goes: behind the checkpoint it would pass for a copy of what the checkpoint has.
    pub(crate) fn renew_waiting(&mut self) -> Result<(), FtlError> {
        if canary::out(Guard::WaitingKeepsVersion) {
            return Ok(());
        }
        let old = std::mem::take(&mut self.tenants.records.buffer.units);
        for old_unit in &old {
            let number = self.tenants.records.buffer.begin(old_unit.target).number;
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
