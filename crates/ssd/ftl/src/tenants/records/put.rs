//! `put`: records are packed into units and programmed, and only then do the indexes name them.

use std::iter::Sum;
use std::ops::{Add, Mul};

use tantalum_nand::{Nanoseconds, Ppn, Source};

use super::index::Entry;
use super::plan::{Piece, Plan, continuations, segment_of};
use super::record::RecordPlace;
use super::record::{Header, SEGMENT_BYTES, TENANT, UnitImage, chunks_of, spare, weight};
use super::{KeyValueError, KvRecord, VALUE_BYTES};
use crate::allocate::Allocator;
use crate::batch_marks::Marks;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::key::{Key, NamespaceId};
use crate::map::UNIT_WEIGHT;
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::reservation::Reservation;
use crate::types::{HashSet, Seq};

/// The units of a `put` on flash.
#[derive(Default)]
pub(crate) struct ProgrammedUnits {
    /// Pieces with their first chunks.
    pieces: Vec<(Piece, u8)>,
    /// The place of each unit.
    places: Vec<Ppn>,
    /// The number of units on each page, and when it is done.
    pub pages: Vec<(u32, Nanoseconds)>,
}

/// Entries that one `put` adds at most: as many as it has records, or segments of values.
const PUT_ENTRIES: u64 = 2048;

/// When there is room in protected DRAM for this many more units; `None` if there never is.
pub type RoomNs<'a> = &'a mut dyn FnMut(usize) -> Option<Nanoseconds>;

/// What records take of a drive's capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Room {
    /// Chunks, of which a unit has 64, as the records are packed when they are moved.
    pub chunks: u64,
    /// Entries of the index. Two take as much as a chunk.
    pub entries: u64,
}

impl Room {
    /// What a record with a value of this many bytes takes. A deletion takes as much as an empty value until the next
    /// checkpoint.
    pub fn of(value_bytes: usize) -> Room {
        let whole = (value_bytes / SEGMENT_BYTES) as u64;
        let rest = u64::from(weight(chunks_of(value_bytes % SEGMENT_BYTES)));
        Room { chunks: whole * u64::from(UNIT_WEIGHT) + rest, entries: whole + 1 }
    }
}

impl Add for Room {
    type Output = Room;

    fn add(self, other: Room) -> Room {
        Room { chunks: self.chunks + other.chunks, entries: self.entries + other.entries }
    }
}

impl Mul<u64> for Room {
    type Output = Room;

    fn mul(self, times: u64) -> Room {
        Room { chunks: self.chunks * times, entries: self.entries * times }
    }
}

impl Sum for Room {
    fn sum<I: Iterator<Item = Room>>(rooms: I) -> Room {
        rooms.fold(Room::default(), Add::add)
    }
}

impl Parts {
    /// Checks a `put` before anything is changed.
    pub fn check_put(&self, records: &[KvRecord<'_>]) -> Result<(), KeyValueError> {
        let mut seen = HashSet::default();
        for &KvRecord { namespace, key, value } in records {
            if !self.tenants.records.namespaces.contains_key(&namespace) {
                return Err(KeyValueError::NoSuchNamespace(namespace));
            }
            let bytes = value.map_or(0, <[u8]>::len);
            if bytes > VALUE_BYTES {
                return Err(KeyValueError::ValueTooLarge { key, bytes: bytes as u64 });
            }
            if records.len() > 1 && !seen.insert((namespace, key)) {
                return Err(KeyValueError::KeyTwice { namespace, key });
            }
        }
        Ok(())
    }

    /// Whether records currently fit in addition to everything that is stored, even if they are put in parts, and
    /// whatever they replace. `waiting` units are in the cache.
    pub fn has_room(&self, Room { chunks, entries }: Room, waiting: usize) -> bool {
        // a command's entries are counted twice until they are there: one by one, and in whole blocks of two checkpoints
        let at_once = entries.min(PUT_ENTRIES);
        chunks + at_once.div_ceil(2) <= self.free_units(entries, waiting) * u64::from(UNIT_WEIGHT)
    }

    /// How many chunks are free at least, with this many more entries, once a checkpoint has released the tombstones, and groups of records
    /// are deleted as well, one after the other: before the first group, and after each. Less than none if more is stored than
    /// there is room for. No record may be in it twice. Those that wait, or whose index is only on flash, do not count.
    pub fn free_without<'a>(
        &self,
        entries: u64,
        waiting: usize,
        groups: impl Iterator<Item = &'a [(NamespaceId, Key)]>,
    ) -> Vec<i64> {
        let mut removal = self.map.removal();
        let mut remove = |place: RecordPlace| removal.remove(place.ppn, weight(place.chunks));
        self.tenants.records.tombstones.values().for_each(|place| remove(*place));
        let now = i64::from(self.config.logical_units) - self.held_units(entries, waiting) as i64;
        let mut free = vec![(now + removal.units() as i64) * i64::from(UNIT_WEIGHT)];
        for group in groups {
            let places = group.iter().flat_map(|(namespace, key)| self.places_of(*namespace, key));
            places.for_each(|place| removal.remove(place.ppn, weight(place.chunks)));
            free.push((now + removal.units() as i64) * i64::from(UNIT_WEIGHT));
        }
        free
    }

    /// Where a record is according to its index, which is in DRAM.
    fn places_of(&self, namespace: NamespaceId, key: &Key) -> impl Iterator<Item = RecordPlace> {
        let namespace = self.tenants.records.namespaces.get(&namespace);
        let index = namespace.filter(|namespace| !namespace.index.is_swapped_out());
        let entry = move |segment| index?.index.get().with_hash(key.segment_hash(segment)).next();
        let head = entry(0);
        let segments = head.map_or(0, |head| u32::from(head.continuations) + 1);
        (0..segments as u16).filter_map(entry).map(|entry| entry.place)
    }

    /// Whether these records, for which there is no room, would have it if a checkpoint released the tombstones.
    pub fn tombstones_have_room_of(&self, records: &[KvRecord<'_>], waiting: usize) -> bool {
        let (chunks, entries) = self.plan_of(records).room(records);
        let free = self.free_without(entries, waiting, std::iter::empty())[0];
        !self.tenants.records.tombstones.is_empty()
            && !self.has_room(Room { chunks, entries }, waiting)
            && (chunks + entries.div_ceil(2)) as i64 <= free
    }

    /// The units that records are packed into.
    pub(crate) fn plan_of(&self, records: &[KvRecord<'_>]) -> Plan {
        Plan::new(records, |namespace| self.space.logs_of(namespace))
    }

    /// When everything put is durable: a key may be missing because of a put that is not durable yet.
    fn puts_durable_ns(&self) -> Nanoseconds {
        if canary::out(Guard::IdleDeleteDoesNotWait) { 0 } else { self.tenants.records.durable_ns }
    }

    /// The `needed` records, or all of them if the deletes of missing keys must be part of the step like the others,
    /// because the step could become durable before what removed those keys.
    fn with_unsettled_deletes<'a>(
        &self,
        needed: Vec<KvRecord<'a>>,
        all: &[KvRecord<'a>],
    ) -> Vec<KvRecord<'a>> {
        if self.puts_durable_ns() <= self.nand.now_ns() { needed } else { all.to_vec() }
    }

    /// When there is room in protected DRAM, if there ever is. The drive has the records from then on, and power does
    /// not fail before (hazard 12).
    fn wait_for_room(
        &mut self,
        units: usize,
        at_ns: Nanoseconds,
        room_ns: RoomNs<'_>,
    ) -> Option<Nanoseconds> {
        let room_ns = room_ns(units)?.max(at_ns);
        self.nand.advance(room_ns);
        Some(room_ns)
    }

    /// The indexes name programmed records instead of what they had for their keys. Returns when that was known.
    pub(crate) fn name_programmed(
        &mut self,
        records: &[KvRecord<'_>],
        programmed: ProgrammedUnits,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let ProgrammedUnits { pieces, places, .. } = programmed;
        self.counters.flash_units.key_value += places.len() as u64;
        let namespaces = &self.tenants.records.namespaces;
        records.iter().for_each(|of| namespaces[&of.namespace].index.get().prefetch(of.key.hash()));
        let mut done_ns = at_ns;
        for record in records {
            done_ns = done_ns.max(self.forget(record.namespace, &record.key, at_ns)?);
        }
        for (piece, chunk) in pieces {
            let record = &records[piece.record];
            let place = RecordPlace { ppn: places[piece.unit], chunk, chunks: piece.chunks };
            let segment = (piece.segment, continuations(record));
            self.name(record.namespace, &record.key, segment, record.value.is_none(), place);
        }
        Ok(done_ns)
    }

    /// The records without deletes of missing keys, and when that is known.
    fn without_idle_deletes<'a>(
        &mut self,
        records: &[KvRecord<'a>],
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), FtlError> {
        let (mut needed, mut done_ns) = (Vec::with_capacity(records.len()), at_ns);
        for record in records {
            if record.value.is_none() {
                let (is_there, found_ns) = self.is_there(record.namespace, &record.key, at_ns)?;
                done_ns = done_ns.max(found_ns);
                if !is_there {
                    continue;
                }
            }
            needed.push(*record);
        }
        Ok((needed, done_ns))
    }

    /// Removes a key's entries and tombstone from the index. Returns the time at which they were found.
    pub(super) fn forget(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if let Some(place) = self.tenants.records.tombstones.remove(&(namespace, *key)) {
            self.map.remove_packed(place.ppn, weight(place.chunks));
        }
        let (found, done_ns) = self.find(namespace, key, at_ns)?;
        let Some(head) = found else { return Ok(done_ns) };
        self.unname(namespace, head);
        for segment in 1..=head.continuations {
            let (entry, _) = self.find_segment(namespace, key, segment, at_ns)?;
            self.unname(namespace, entry);
        }
        self.namespace_mut(namespace).records -= 1;
        Ok(done_ns)
    }

    fn unname(&mut self, namespace: NamespaceId, entry: Entry) {
        self.namespace_mut(namespace).index.get_mut().remove(entry.hash, entry.place);
        self.map.remove_packed(entry.place.ppn, weight(entry.place.chunks));
    }

    /// Lets the index name a programmed record, or keeps a tombstone. A segment is given with the number of segments
    /// that follow the first.
    pub(super) fn name(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        (segment, continuations): (u16, u16),
        tombstone: bool,
        place: RecordPlace,
    ) {
        if tombstone && canary::out(Guard::TombstoneDropped) {
            return;
        }
        self.map.add_packed(TENANT, place.ppn, weight(place.chunks));
        if tombstone {
            self.tenants.records.tombstones.insert((namespace, *key), place);
            return;
        }
        let namespace = self.namespace_mut(namespace);
        namespace.records += u64::from(segment == 0);
        namespace.index.get_mut().insert(Entry::of(key, segment, continuations, place));
    }

    pub(crate) fn count_put(&mut self, record: &KvRecord<'_>) {
        let counters = &mut self.counters;
        match record.value {
            Some(value) => {
                counters.records_put += 1;
                counters.record_bytes_put += (record.key.as_bytes().len() + value.len()) as u64;
            }
            None => counters.records_deleted += 1,
        }
    }

    pub(super) fn namespace_mut(&mut self, namespace: NamespaceId) -> &mut super::state::Namespace {
        self.tenants
            .records
            .namespaces
            .get_mut(&namespace)
            .expect("the namespace was there when the command began")
    }
}

impl Allocator {
    /// Programs the units of a batch that records at this version are packed into. The records have no owner yet.
    pub(crate) fn program_records(
        &mut self,
        room: &mut Reservation,
        records: &[KvRecord<'_>],
        plan: &Plan,
        (version, marks): (Seq, Marks),
        at_ns: Nanoseconds,
    ) -> Result<ProgrammedUnits, FtlError> {
        let mut pieces = plan.by_unit();
        let mut image = UnitImage::new();
        let mut programmed = ProgrammedUnits::default();
        for (target, units) in plan.pages(self.geometry.units_per_page() as usize) {
            let step = self.next_seq();
            let mut page = PageImage::new();
            page.marked = marks.are_needed;
            for (index, pieces) in units.clone().zip(&mut pieces) {
                image.clear();
                fill(&mut image, records, pieces, version, &mut programmed.pieces);
                let slot = match self.nand.stage(&image.bytes) {
                    Ok(slot) => slot,
                    Err(error) => {
                        self.give_up_page(&page);
                        return Err(error.into());
                    }
                };
                let spare = spare(step, image.ends, marks.of(index), false);
                page.push(Source::Staged(slot), spare.encode());
            }
            let issued = self.program_reserved(room, target, &page, step, at_ns);
            let (place, done_ns) = issued.inspect_err(|error| self.release_page(&page, error))?;
            programmed.places.extend((0..units.len() as u32).map(|unit| self.geometry.unit(place, unit)));
            programmed.pages.push((units.len() as u32, done_ns));
        }
        debug_assert_eq!(programmed.places.len(), plan.targets.len(), "units of records are without a place");
        Ok(programmed)
    }
}

impl Ftl {
    /// Puts and deletes records, all or nothing. `Ftl::check_put` has passed. Returns when they are durable: on
    /// flash, or in DRAM that a capacitor protects. `room_ns` returns when there is room there for this many more
    /// units, if there ever is. `waiting` units are in the cache.
    pub fn put(
        &mut self,
        records: &[KvRecord<'_>],
        waiting: usize,
        at_ns: Nanoseconds,
        room_ns: RoomNs<'_>,
    ) -> Result<Nanoseconds, FtlError> {
        let at_ns = self.use_indexes(records.iter().map(|record| record.namespace), at_ns)?;
        let (needed, found_ns) = self.without_idle_deletes(records, at_ns)?;
        if needed.is_empty() {
            return Ok(found_ns.max(self.puts_durable_ns()));
        }
        let records = self.with_unsettled_deletes(needed, records);
        let plan = self.plan_of(&records);
        let (chunks, entries) = plan.room(&records);
        let at_ns = self.admit_records(chunks, entries, waiting, at_ns)?;
        let done_ns = if self.can_wait(&plan) {
            let room_ns = self.wait_for_room(1, at_ns, room_ns).unwrap_or(at_ns);
            self.put_waiting(&records, &plan, room_ns)?;
            room_ns
        } else {
            self.settle_waiting(&records, at_ns)?;
            self.put_on_flash(&records, &plan, at_ns, room_ns)?
        };
        records.iter().for_each(|record| self.count_put(record));
        Ok(done_ns.max(found_ns))
    }

    /// The records that a batch needs, among those given, and when that is known. Their indexes are then in DRAM.
    pub(crate) fn needed_records<'a>(
        &mut self,
        records: &[KvRecord<'a>],
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), FtlError> {
        let at_ns = self.use_indexes(records.iter().map(|record| record.namespace), at_ns)?;
        let (needed, found_ns) = self.without_idle_deletes(records, at_ns)?;
        Ok((self.with_unsettled_deletes(needed, records), found_ns))
    }

    /// Programs the units of a `put` as an atomic batch. With a capacitor it is done as soon as there is room for all
    /// of them (KAML, section 3.2.4): from then on the dump saves those that are not on flash. Without one, or if there
    /// are too many, it is done when they are on flash. In that case they go there at once, and need no protected room
    /// on the way.
    fn put_on_flash(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
        room_ns: RoomNs<'_>,
    ) -> Result<Nanoseconds, FtlError> {
        let batch = self.program_batch(&[], records, plan, at_ns)?;
        let on_flash_ns = batch.done_ns;
        let room_ns = self.wait_for_room(plan.targets.len(), at_ns, room_ns);
        if room_ns.is_none() {
            self.tenants.records.is_durable_at(on_flash_ns);
        }
        if room_ns.is_some() {
            let now_ns = self.nand.now_ns();
            self.tenants.records.acknowledged.issued(now_ns, on_flash_ns, batch.id);
            self.tenants.records.buffer.programmed.extend(&batch.records.pages);
        }
        let named = self.name_programmed(records, batch.records, at_ns);
        let named_ns = named.map_err(FtlError::unfinished)?;
        // index lookups are not waited for if the records are already safe
        Ok(room_ns.unwrap_or(on_flash_ns.max(named_ns)))
    }
}

/// Writes a unit's pieces.
fn fill(
    image: &mut UnitImage,
    records: &[KvRecord<'_>],
    pieces: &[Piece],
    version: Seq,
    placed: &mut Vec<(Piece, u8)>,
) {
    for piece in pieces {
        let record = &records[piece.record];
        let value = segment_of(record, piece.segment);
        let header = Header {
            namespace: record.namespace,
            key: record.key,
            version,
            segment: piece.segment,
            continuations: continuations(record),
            value_bytes: value.len() as u16,
            tombstone: record.value.is_none(),
        };
        let (chunk, bytes) = image.push(piece.chunks);
        header.write(value, bytes);
        placed.push((*piece, chunk));
    }
}
