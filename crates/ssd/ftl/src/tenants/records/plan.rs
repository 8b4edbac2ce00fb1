//! Assigns each record of a `put` to a unit, before anything is staged. A unit holds records of one stream.

use std::ops::Range;
use std::slice::ChunkBy;

use super::record::{SEGMENT_BYTES, UNIT_CHUNKS, chunks_of, weight};

use super::{KvRecord, NamespaceId};
use crate::space::Target;

/// Units with room that are examined.
const OPEN_UNITS: usize = 4;

/// A record as it will be stored: a value, a segment of one, or a tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// The record's number in the `put`.
    pub record: usize,
    pub segment: u16,
    /// The unit's number in the `put`.
    pub unit: usize,
    pub chunks: u8,
}

/// Pieces in the order of their units, and the destination of each unit.
pub(crate) struct Plan {
    pub(super) pieces: Vec<Piece>,
    /// The stream of each unit. Units of one stream are adjacent.
    pub targets: Vec<Target>,
}

/// The pieces of each unit of a plan.
pub(crate) type UnitPieces<'a> = ChunkBy<'a, Piece, fn(&Piece, &Piece) -> bool>;

/// A unit that is not full.
struct OpenUnit {
    unit: usize,
    used: usize,
}

impl Plan {
    /// A plan for records whose namespaces have these streams.
    pub fn new(records: &[KvRecord<'_>], target_of: impl Fn(NamespaceId) -> Target) -> Plan {
        let mut plan = Plan { pieces: Vec::with_capacity(records.len()), targets: Vec::new() };
        let mut open: Vec<OpenUnit> = Vec::new();
        for (index, record) in records.iter().enumerate() {
            let target = target_of(record.namespace);
            for segment in 0..=continuations(record) {
                let chunks = chunks_of(segment_of(record, segment).len());
                let unit = plan.unit_for(target, chunks.into(), &mut open);
                plan.pieces.push(Piece { record: index, segment, unit, chunks });
            }
        }
        plan.order_by_stream();
        plan.pieces.sort_by_key(|piece| piece.unit);
        plan
    }

    /// The open unit of a stream with the least sufficient room, or a new one.
    fn unit_for(&mut self, target: Target, chunks: usize, open: &mut Vec<OpenUnit>) -> usize {
        let fits =
            |open: &&mut OpenUnit| self.targets[open.unit] == target && open.used + chunks <= UNIT_CHUNKS;
        if let Some(open) = open.iter_mut().filter(fits).max_by_key(|open| open.used) {
            open.used += chunks;
            return open.unit;
        }
        let unit = self.targets.len();
        self.targets.push(target);
        open.push(OpenUnit { unit, used: chunks });
        if open.len() > OPEN_UNITS {
            let fullest = (0..open.len()).max_by_key(|index| open[*index].used).expect("some are open");
            open.remove(fullest);
        }
        unit
    }

    /// Renumbers the units so that those of one stream are adjacent.
    fn order_by_stream(&mut self) {
        if self.targets.windows(2).all(|two| two[0] == two[1]) {
            return;
        }
        let first_of = |unit: &usize| self.targets.iter().position(|target| *target == self.targets[*unit]);
        let mut order: Vec<usize> = (0..self.targets.len()).collect();
        order.sort_by_key(first_of);
        let mut number_of = vec![0; order.len()];
        order.iter().enumerate().for_each(|(number, unit)| number_of[*unit] = number);
        self.targets = order.iter().map(|unit| self.targets[*unit]).collect();
        self.pieces.iter_mut().for_each(|piece| piece.unit = number_of[piece.unit]);
    }

    /// The pages for the units, each with its stream.
    pub fn pages(&self, units_per_page: usize) -> Vec<(Target, Range<usize>)> {
        let mut pages = Vec::new();
        let mut first = 0;
        for of_stream in self.targets.chunk_by(|a, b| a == b) {
            for page in of_stream.chunks(units_per_page) {
                pages.push((page[0], first..first + page.len()));
                first += page.len();
            }
        }
        pages
    }

    /// The chunks and index entries that the records take. Deletes alone take none: they make room.
    pub fn room(&self, records: &[KvRecord<'_>]) -> (u64, u64) {
        if records.iter().all(|record| record.value.is_none()) {
            return (0, 0);
        }
        let chunks = self.pieces.iter().map(|piece| u64::from(weight(piece.chunks))).sum();
        (chunks, self.pieces.len() as u64)
    }

    /// The pieces of each unit.
    pub fn by_unit(&self) -> UnitPieces<'_> {
        self.pieces.chunk_by(|a, b| a.unit == b.unit)
    }

    /// Whether its records can wait for a full page in protected DRAM: they fit in a unit.
    pub fn fits_in_a_unit(&self) -> bool {
        self.targets.len() == 1 && self.pieces.iter().all(|piece| piece.segment == 0)
    }
}

/// Segments of a record's value beyond the first.
pub(super) fn continuations(record: &KvRecord<'_>) -> u16 {
    let bytes = record.value.map_or(0, <[u8]>::len);
    (bytes.div_ceil(SEGMENT_BYTES).max(1) - 1) as u16
}

/// A segment of a record's value.
pub(super) fn segment_of<'a>(record: &KvRecord<'a>, segment: u16) -> &'a [u8] {
    record.value.unwrap_or(&[]).chunks(SEGMENT_BYTES).nth(segment.into()).unwrap_or(&[])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Key, NamespaceId};

    fn plan(bytes: &[usize]) -> Vec<(usize, u16, usize, u8)> {
        let value = vec![0; 10_000];
        let record = |bytes: &usize| KvRecord {
            namespace: NamespaceId(1),
            key: Key::new(b"k").unwrap(),
            value: Some(&value[..*bytes]),
        };
        let records: Vec<KvRecord<'_>> = bytes.iter().map(record).collect();
        let pieces = Plan::new(&records, |_| Target::Host).pieces;
        pieces.iter().map(|piece| (piece.record, piece.segment, piece.unit, piece.chunks)).collect()
    }

    #[test]
    fn small_records_share_a_unit_and_large_ones_take_several() {
        assert_eq!(plan(&[0, 24, 25]), [(0, 0, 0, 1), (1, 0, 0, 1), (2, 0, 0, 2)]);
        let large = plan(&[2 * SEGMENT_BYTES + 1, 1]);
        assert_eq!(large, [(0, 0, 0, 64), (0, 1, 1, 64), (0, 2, 2, 1), (1, 0, 2, 1)]);
    }

    /// Streams take turns in the `put`: units hold records of one, and those of one stream fill its pages.
    #[test]
    fn streams_have_units_and_pages_of_their_own() {
        let value = vec![0; 2000];
        let record = |number: u32| KvRecord {
            namespace: NamespaceId(number % 2),
            key: Key::new(&number.to_le_bytes()).unwrap(),
            value: Some(&value),
        };
        let records: Vec<KvRecord<'_>> = (0..10).map(record).collect();
        let plan = Plan::new(&records, Target::Logs);
        let [even, odd] = [0, 1].map(|number| Target::Logs(NamespaceId(number)));
        assert_eq!(plan.targets, [even, even, even, odd, odd, odd]);
        for piece in &plan.pieces {
            assert_eq!(Target::Logs(records[piece.record].namespace), plan.targets[piece.unit]);
        }
        assert!(plan.pieces.is_sorted_by_key(|piece| piece.unit) && plan.pieces.len() == 10);
        assert_eq!(plan.pages(2), [(even, 0..2), (even, 2..3), (odd, 3..5), (odd, 5..6)]);
        assert_eq!(plan.pages(4), [(even, 0..3), (odd, 3..6)]);
    }

    #[test]
    fn a_record_goes_where_it_leaves_the_least_room() {
        // 40 chunks, 30 chunks, 24 chunks: the last fills up the unit of the first
        let chunks = |chunks: usize| chunks * 64 - 40;
        assert_eq!(
            plan(&[chunks(40), chunks(30), chunks(24)]),
            [(0, 0, 0, 40), (2, 0, 0, 24), (1, 0, 1, 30)]
        );
    }

    /// A record of more than half a unit weighs a whole one. Deletes take room only together with records.
    #[test]
    fn records_take_the_room_of_their_weights_and_an_entry_for_each_segment() {
        let key = |text: &[u8]| Key::new(text).unwrap();
        let value = vec![0; 10_000];
        let record = |text, value| KvRecord { namespace: NamespaceId(1), key: key(text), value };
        let room = |records: &[KvRecord<'_>]| Plan::new(records, |_| Target::Host).room(records);
        assert_eq!(room(&[record(b"a", None), record(b"b", None)]), (0, 0));
        assert_eq!(room(&[record(b"a", Some(&value[..24])), record(b"b", None)]), (2, 2));
        assert_eq!(room(&[record(b"a", Some(&value[..33 * 64 - 40]))]), (64, 1));
        assert_eq!(room(&[record(b"a", Some(&value[..2 * SEGMENT_BYTES + 1]))]), (129, 3));
    }
}
