//! `put`: records are packed into units and programmed, and only then do the indexes name them.

use std::iter::Sum;
use std::ops::{Add, Mul, Range};

use tantalum_canaries::guard;
use tantalum_nand::{Nand, Nanoseconds, Ppn, Source};

use super::index::Entry;
use super::plan::{Piece, UnitPieces, continuations, segment_of};
use super::record::RecordPlace;
use super::record::{Header, SEGMENT_BYTES, TENANT, UnitImage, chunks_of, spare, weight};
use super::{KeyValueError, KvRecord, Records, VALUE_BYTES};
use crate::batches::Marks;
use crate::control::Parts;
use crate::error::FtlError;
use crate::key::{Key, NamespaceId};
use crate::map::{Map, UNIT_WEIGHT};
use crate::page_image::PageImage;
use crate::reads::Reads;
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
pub struct Footprint {
    /// Chunks, of which a unit has 64, as the records are packed when they are moved.
    pub chunks: u64,
    /// Entries of the index. Two take as much as a chunk.
    pub entries: u64,
}

impl Footprint {
    /// What a record with a value of this many bytes takes. A deletion takes as much as an empty value until the next
    /// checkpoint.
    pub fn of(value_bytes: usize) -> Footprint {
        let whole = value_bytes.saturating_sub(1) / SEGMENT_BYTES;
        let rest = u64::from(weight(chunks_of(value_bytes - whole * SEGMENT_BYTES)));
        Footprint { chunks: whole as u64 * u64::from(UNIT_WEIGHT) + rest, entries: whole as u64 + 1 }
    }
}

impl Add for Footprint {
    type Output = Footprint;

    fn add(self, other: Footprint) -> Footprint {
        Footprint { chunks: self.chunks + other.chunks, entries: self.entries + other.entries }
    }
}

impl Mul<u64> for Footprint {
    type Output = Footprint;

    fn mul(self, times: u64) -> Footprint {
        Footprint { chunks: self.chunks * times, entries: self.entries * times }
    }
}

impl Sum for Footprint {
    fn sum<I: Iterator<Item = Footprint>>(footprints: I) -> Footprint {
        footprints.fold(Footprint::default(), Add::add)
    }
}

impl Parts {
    /// Whether records currently fit in addition to everything that is stored, even if they are put in parts, and
    /// whatever they replace. `waiting` units are in the cache.
    pub fn has_room(&self, Footprint { chunks, entries }: Footprint, waiting: usize) -> bool {
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
        let mut removal = self.map().removal();
        let mut remove = |place: RecordPlace| removal.remove(place.ppn, weight(place.chunks));
        self.records().tombstones.values().for_each(|place| remove(*place));
        let free_chunks =
            |released| self.free_units_with(entries, waiting, released) * i64::from(UNIT_WEIGHT);
        let mut free = vec![free_chunks(removal.units())];
        for group in groups {
            let places = group.iter().flat_map(|(namespace, key)| self.records().places_of(*namespace, key));
            places.for_each(|place| removal.remove(place.ppn, weight(place.chunks)));
            free.push(free_chunks(removal.units()));
        }
        free
    }

    /// How many chunks are free at least, with this many more entries, once puts that need the room have programmed the records that
    /// wait, and taken a checkpoint that releases the tombstones. Less than none if more is stored than there is room for.
    pub fn free_at_last(&self, entries: u64, waiting: usize) -> i64 {
        let mut removal = self.map().removal();
        let records = self.records();
        records.tombstones.values().for_each(|place| removal.remove(place.ppn, weight(place.chunks)));
        let replaced =
            records.buffer.latest.keys().flat_map(|(namespace, key)| records.places_of(*namespace, key));
        replaced.for_each(|place| removal.remove(place.ppn, weight(place.chunks)));
        self.free_units_with(entries, waiting, removal.units()) * i64::from(UNIT_WEIGHT)
    }

    /// Whether these records, for which there is no room, would have it if a checkpoint released the tombstones.
    pub fn tombstones_have_room_of(&self, records: &[KvRecord<'_>], waiting: usize) -> bool {
        let (chunks, entries) = self.plan_of(records).room(records);
        let free = self.free_without(entries, waiting, std::iter::empty())[0];
        !self.records().tombstones.is_empty()
            && !self.has_room(Footprint { chunks, entries }, waiting)
            && (chunks + entries.div_ceil(2)) as i64 <= free
    }
}

impl Records {
    /// Checks a `put` before anything is changed.
    pub fn check_put(&self, records: &[KvRecord<'_>]) -> Result<(), KeyValueError> {
        let mut seen = HashSet::default();
        for &KvRecord { namespace, key, value } in records {
            if !self.namespaces.contains_key(&namespace) {
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

    /// Where a record is according to its index, which is in DRAM.
    fn places_of(&self, namespace: NamespaceId, key: &Key) -> impl Iterator<Item = RecordPlace> {
        let namespace = self.namespaces.get(&namespace);
        let index = namespace.filter(|namespace| !namespace.index.is_swapped_out());
        let entry = move |segment| index?.index.get().with_hash(key.segment_hash(segment)).next();
        let head = entry(0);
        let segments = head.map_or(0, |head| u32::from(head.continuations) + 1);
        (0..segments as u16).filter_map(entry).map(|entry| entry.place)
    }

    /// When everything put is durable: a key may be missing because of a put that is not durable yet.
    pub fn puts_durable_ns(&self) -> Nanoseconds {
        guard!(IdleDeleteDoesNotWait, self.durable_ns)
    }

    /// What was put last is durable only at this time.
    pub fn are_durable_at(&mut self, durable_ns: Nanoseconds) {
        self.durable_ns = self.durable_ns.max(durable_ns);
    }

    /// The records without deletes of missing keys, and when that is known.
    pub fn without_idle_deletes<'a>(
        &self,
        records: &[KvRecord<'a>],
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), FtlError> {
        let (mut needed, mut done_ns) = (Vec::with_capacity(records.len()), at_ns);
        for record in records {
            if record.value.is_none() {
                let (is_there, found_ns) = self.is_there(record.namespace, &record.key, reads, at_ns)?;
                done_ns = done_ns.max(found_ns);
                if !is_there {
                    continue;
                }
            }
            needed.push(*record);
        }
        Ok((needed, done_ns))
    }

    /// The `needed` records, or all of them if the deletes of missing keys must be part of the step like the others,
    /// because the step could become durable before what removed those keys.
    pub fn with_unsettled_deletes<'a>(
        &self,
        needed: Vec<KvRecord<'a>>,
        all: &[KvRecord<'a>],
        now_ns: Nanoseconds,
    ) -> Vec<KvRecord<'a>> {
        if self.puts_durable_ns() <= now_ns { needed } else { all.to_vec() }
    }

    /// The indexes name programmed records instead of what they had for their keys. Returns when that was known.
    pub fn name_programmed(
        &mut self,
        records: &[KvRecord<'_>],
        programmed: ProgrammedUnits,
        map: &mut Map,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let ProgrammedUnits { pieces, places, .. } = programmed;
        reads.counters.flash_units.key_value += places.len() as u64;
        let namespaces = &self.namespaces;
        records.iter().for_each(|of| namespaces[&of.namespace].index.get().prefetch(of.key.hash()));
        let mut done_ns = at_ns;
        for record in records {
            done_ns = done_ns.max(self.forget(record.namespace, &record.key, map, reads, at_ns)?);
        }
        for (piece, chunk) in pieces {
            let record = &records[piece.record];
            let place = RecordPlace { ppn: places[piece.unit], chunk, chunks: piece.chunks };
            let segment = (piece.segment, continuations(record));
            self.name(record.namespace, &record.key, segment, record.value.is_none(), place, map);
        }
        Ok(done_ns)
    }

    /// Removes a key's entries and tombstone from the index. Returns the time at which they were found.
    pub(super) fn forget(
        &mut self,
        namespace: NamespaceId,
        key: &Key,
        map: &mut Map,
        reads: &mut Reads<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        if let Some(place) = self.tombstones.remove(&(namespace, *key)) {
            map.remove_packed(place.ppn, weight(place.chunks));
        }
        let (found, done_ns) = self.find(namespace, key, reads, at_ns)?;
        let Some(head) = found else { return Ok(done_ns) };
        self.unname(namespace, head, map);
        for segment in 1..=head.continuations {
            let (entry, _) = self.find_segment(namespace, key, segment, reads, at_ns)?;
            self.unname(namespace, entry, map);
        }
        self.namespace_mut(namespace).records -= 1;
        Ok(done_ns)
    }

    fn unname(&mut self, namespace: NamespaceId, entry: Entry, map: &mut Map) {
        self.namespace_mut(namespace).index.get_mut().remove(entry.hash, entry.place);
        map.remove_packed(entry.place.ppn, weight(entry.place.chunks));
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
        map: &mut Map,
    ) {
        if tombstone {
            guard!(TombstoneDropped, {
                map.add_packed(TENANT, place.ppn, weight(place.chunks));
                self.tombstones.insert((namespace, *key), place);
            });
            return;
        }
        map.add_packed(TENANT, place.ppn, weight(place.chunks));
        let namespace = self.namespace_mut(namespace);
        namespace.records += u64::from(segment == 0);
        namespace.index.get_mut().insert(Entry::of(key, segment, continuations, place));
    }
}

impl ProgrammedUnits {
    /// Stages the units of one page, at this version, and remembers where their pieces are. The number of each unit in its batch
    /// says which mark it has.
    pub fn stage(
        &mut self,
        units: Range<usize>,
        records: &[KvRecord<'_>],
        pieces: &mut UnitPieces<'_>,
        (version, step, marks): (Seq, Seq, Marks),
        nand: &mut Nand,
    ) -> Result<PageImage, FtlError> {
        let mut image = UnitImage::new();
        let mut page = PageImage::new();
        page.marked = marks.are_needed;
        for (index, pieces) in units.zip(pieces) {
            image.clear();
            fill(&mut image, records, pieces, version, &mut self.pieces);
            match nand.stage(&image.bytes) {
                Ok(slot) => {
                    let spare = spare(step, image.ends, marks.of(index), false);
                    page.push(Source::Staged(slot), spare.encode());
                }
                Err(error) => {
                    page.give_up(nand);
                    return Err(error.into());
                }
            }
        }
        Ok(page)
    }

    /// The units of a page were programmed at these places, and will be on flash at `done_ns`.
    pub fn programmed(&mut self, places: impl ExactSizeIterator<Item = Ppn>, done_ns: Nanoseconds) {
        self.pages.push((places.len() as u32, done_ns));
        self.places.extend(places);
    }

    /// How many units were programmed.
    pub fn count(&self) -> usize {
        self.places.len()
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
