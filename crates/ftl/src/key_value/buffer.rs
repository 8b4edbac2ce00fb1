//! Records that wait for a full page in DRAM that a capacitor protects: a `put` is committed on arrival (KAML, section
//! 3.2.4).
//!
//! Invariants:
//! - The indexes name what is on flash; what waits is looked up first and takes its place when it is programmed (hazard 1).
//! - A `put` that waits is in one unit, so it is dumped as a whole, by the capacitor or out of the image's mirror.
//! - At most a page of units waits: the dump has room for as many beside its budget.
//! - Versions of what waits are greater than the step of the last checkpoint, and units hold nothing older.

use std::collections::VecDeque;

use tantalum_nand::{Nanoseconds, Source};

use super::KvRecord;
use super::key::{Key, NamespaceId, RecordPlace};
use super::plan::{Piece, Plan};
use super::record::{CHUNK_BYTES, HEADER_BYTES, Header, UnitImage, spare};
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::page_image::PageImage;
use crate::space::Target;
use crate::spare::Spare;
use crate::types::{HashMap, Seq};

/// A record that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub header: Header,
    /// Which unit: their numbers go on.
    unit: u64,
    chunk: u8,
    /// Whether the index has the key as well.
    indexed: bool,
}

/// A unit that is being filled.
#[derive(Clone, Debug)]
struct WaitingUnit {
    image: UnitImage,
    newest: Seq,
    /// What it holds; what was replaced since is not among `latest`.
    records: Vec<Waiting>,
}

/// All that waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    units: VecDeque<WaitingUnit>,
    /// The number of the first unit.
    first: u64,
    latest: HashMap<(NamespaceId, Key), Waiting>,
    /// Units that were programmed since this was last asked, and when they are on flash.
    programmed: (u32, Nanoseconds),
}

impl Buffer {
    /// What waits for a key.
    pub fn get(&self, namespace: NamespaceId, key: &Key) -> Option<&Waiting> {
        if self.latest.is_empty() { None } else { self.latest.get(&(namespace, *key)) }
    }

    /// The value of a record that waits.
    pub fn value(&self, waiting: &Waiting) -> &[u8] {
        let unit = &self.units[(waiting.unit - self.first) as usize];
        let start = usize::from(waiting.chunk) * CHUNK_BYTES + HEADER_BYTES;
        &unit.image.bytes[start..start + usize::from(waiting.header.value_bytes)]
    }

    /// What waits for the keys of a namespace.
    pub fn of(&self, namespace: NamespaceId) -> impl Iterator<Item = &Waiting> {
        self.latest.values().filter(move |waiting| waiting.header.namespace == namespace)
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
    fn new() -> WaitingUnit {
        WaitingUnit { image: UnitImage::new(), newest: Seq(0), records: Vec::new() }
    }

    fn spare(&self, step: Seq) -> Spare {
        let mut spare = spare(step, self.image.ends, None, false);
        spare.metadata[16..].copy_from_slice(&self.newest.0.to_le_bytes());
        spare
    }

    /// Bytes up to the end of the last record.
    fn filled_bytes(&self) -> usize {
        usize::from(self.image.used()) * CHUNK_BYTES
    }

    fn push(&mut self, header: Header, value: &[u8], unit: u64, indexed: bool) -> Waiting {
        let (chunk, bytes) = self.image.push(header.chunks());
        header.write(value, bytes);
        self.newest = self.newest.max(header.version);
        let waiting = Waiting { header, unit, chunk, indexed };
        self.records.push(waiting);
        waiting
    }
}

impl Ftl {
    /// Whether a `put` of these records would wait.
    pub fn put_waits(&self, records: &[KvRecord<'_>]) -> bool {
        self.can_wait(&Plan::new(records))
    }

    /// Whether a `put` can wait: there is a capacitor, and it fits a unit.
    pub(super) fn can_wait(&self, plan: &Plan) -> bool {
        self.has_capacitor() && plan.units == 1 && plan.pieces.iter().all(|piece| piece.segment == 0)
    }

    /// Puts records to those that wait. A full page of units is programmed before.
    pub(super) fn put_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let chunks = plan.pieces.iter().map(|piece| piece.chunks).sum();
        if !self.key_value.buffer.units.back().is_some_and(|unit| unit.image.has_room(chunks)) {
            if self.key_value.buffer.units.len() == self.geometry.units_per_page() as usize {
                self.program_waiting(at_ns)?;
            }
            self.key_value.buffer.units.push_back(WaitingUnit::new());
        }
        let indexed = self.indexed(records, at_ns)?;
        let version = self.next_seq();
        let buffer = &mut self.key_value.buffer;
        let unit = buffer.first + buffer.units.len() as u64 - 1;
        let last = buffer.units.back_mut().expect("there is one with room");
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
            let waiting = last.push(header, value.unwrap_or(&[]), unit, indexed[*record]);
            buffer.latest.insert((namespace, key), waiting);
        }
        self.protect_waiting(unit, old_bytes)
    }

    /// Which of the keys are in an index.
    fn indexed(&mut self, records: &[KvRecord<'_>], at_ns: Nanoseconds) -> Result<Vec<bool>, FtlError> {
        let found = |record: &KvRecord<'_>| Ok(self.find(record.namespace, &record.key, at_ns)?.0.is_some());
        records.iter().map(found).collect()
    }

    /// A `put` that goes to flash at once replaces these, and may be lost until it is there. What waits for their keys was
    /// acknowledged as durable: it goes to flash first.
    pub(super) fn settle_waiting(
        &mut self,
        records: &[KvRecord<'_>],
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let buffer = &self.key_value.buffer;
        if records.iter().any(|record| buffer.get(record.namespace, &record.key).is_some()) {
            self.program_waiting(at_ns)?;
        }
        Ok(())
    }

    /// Keeps a unit in the image's mirror, if there is one, which has its first `old_bytes`.
    fn protect_waiting(&mut self, unit: u64, old_bytes: usize) -> Result<(), FtlError> {
        let Some(protected) = &mut self.protected else { return Ok(()) };
        let buffer = &self.key_value.buffer;
        let waiting = &buffer.units[(unit - buffer.first) as usize];
        let spare = waiting.spare(waiting.newest).encode();
        let new = old_bytes..waiting.filled_bytes();
        protected.records_wait(&mut self.nand, unit, spare, &waiting.image.bytes, new)
    }

    /// Programs what waits, and lets the indexes name it.
    pub fn program_waiting(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        if self.key_value.buffer.units.is_empty() {
            return Ok(at_ns);
        }
        self.ensure_space(1, at_ns)?;
        let step = self.next_seq();
        let page = self.stage_waiting(step)?;
        let programmed = self.program(Target::Host, &page, step, at_ns);
        match &programmed {
            Err(FtlError::Nand(error)) => self.release_page(&page, error),
            Err(_) => self.give_up_page(&page),
            Ok(_) => {}
        }
        let (place, done_ns) = programmed?;
        let units = std::mem::take(&mut self.key_value.buffer.units);
        self.counters.programmed.key_value += units.len() as u64;
        let first = self.key_value.buffer.first;
        for (index, unit) in units.iter().enumerate() {
            self.name_waiting(unit, self.geometry.unit(place, index as u32), at_ns)?;
        }
        let buffer = &mut self.key_value.buffer;
        debug_assert!(buffer.latest.is_empty(), "something waits in no unit");
        buffer.first += units.len() as u64;
        buffer.programmed = (buffer.programmed.0 + units.len() as u32, done_ns.max(buffer.programmed.1));
        if let Some(protected) = &mut self.protected {
            for unit in first..first + units.len() as u64 {
                protected.records_programmed(&mut self.nand, unit)?;
            }
        }
        Ok(done_ns)
    }

    /// What waits, as a page.
    pub(crate) fn stage_waiting(&mut self, step: Seq) -> Result<PageImage, FtlError> {
        let mut page = PageImage::new();
        for unit in &self.key_value.buffer.units {
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
            if !self.key_value.buffer.is_latest(waiting) {
                continue;
            }
            self.forget(namespace, &key, at_ns)?;
            let place = RecordPlace { ppn, chunk: waiting.chunk, chunks: waiting.header.chunks() };
            self.name(namespace, &key, (0, 0), tombstone, place);
            self.key_value.buffer.latest.remove(&(namespace, key));
        }
        Ok(())
    }

    /// Units of records that were programmed since this was last asked, and when they are on flash.
    pub fn take_programmed_records(&mut self) -> (u32, Nanoseconds) {
        std::mem::take(&mut self.key_value.buffer.programmed)
    }

    /// A checkpoint is about to be programmed, and does not have what waits: that takes versions after it. What was
    /// replaced goes: behind the checkpoint it would pass for a copy of what the checkpoint has.
    pub(crate) fn renew_waiting(&mut self) -> Result<(), FtlError> {
        if canary::out(Guard::WaitingKeepsVersion) {
            return Ok(());
        }
        let old = std::mem::take(&mut self.key_value.buffer.units);
        let old_first = self.key_value.buffer.first;
        self.key_value.buffer.first += old.len() as u64;
        for (index, old_unit) in old.iter().enumerate() {
            let mut renewed = WaitingUnit::new();
            let unit = self.key_value.buffer.first + index as u64;
            for waiting in &old_unit.records {
                if !self.key_value.buffer.is_latest(waiting) {
                    continue;
                }
                let header = Header { version: self.next_seq(), ..waiting.header };
                let start = usize::from(waiting.chunk) * CHUNK_BYTES + HEADER_BYTES;
                let value = &old_unit.image.bytes[start..start + usize::from(header.value_bytes)];
                let renewed = renewed.push(header, value, unit, waiting.indexed);
                self.key_value.buffer.latest.insert((header.namespace, header.key), renewed);
            }
            self.key_value.buffer.units.push_back(renewed);
        }
        for unit in 0..old.len() as u64 {
            self.protect_waiting(self.key_value.buffer.first + unit, 0)?;
            if let Some(protected) = &mut self.protected {
                protected.records_programmed(&mut self.nand, old_first + unit)?;
            }
        }
        Ok(())
    }
}
