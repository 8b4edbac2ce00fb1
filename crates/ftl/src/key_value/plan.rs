//! Which unit each record of a `put` goes to, before anything is staged.

use super::KvRecord;
use super::record::{SEGMENT_BYTES, UNIT_CHUNKS, chunks_of};

/// Units that are not full and are looked at for room.
const OPEN_UNITS: usize = 4;

/// A record as it will be stored: a value, a segment of one, or a tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// Which record of the `put`.
    pub record: usize,
    pub segment: u16,
    /// Which unit of the `put`.
    pub unit: usize,
    pub chunks: u8,
}

/// Pieces in the order of their units, and how many units they take.
pub(super) struct Plan {
    pub pieces: Vec<Piece>,
    pub units: usize,
}

impl Plan {
    pub fn new(records: &[KvRecord<'_>]) -> Plan {
        let mut plan = Plan { pieces: Vec::with_capacity(records.len()), units: 0 };
        let mut open: Vec<(usize, usize)> = Vec::with_capacity(OPEN_UNITS + 1);
        for (index, record) in records.iter().enumerate() {
            for segment in 0..=continuations(record) {
                let chunks = chunks_of(segment_of(record, segment).len());
                let unit = plan.unit_for(chunks.into(), &mut open);
                plan.pieces.push(Piece { record: index, segment, unit, chunks });
            }
        }
        plan.pieces.sort_by_key(|piece| piece.unit);
        plan
    }

    /// The open unit with the least room that is enough, or a new one.
    fn unit_for(&mut self, chunks: usize, open: &mut Vec<(usize, usize)>) -> usize {
        let fitting = open.iter_mut().filter(|(_, used)| used + chunks <= UNIT_CHUNKS);
        if let Some((unit, used)) = fitting.max_by_key(|(_, used)| *used) {
            *used += chunks;
            return *unit;
        }
        self.units += 1;
        open.push((self.units - 1, chunks));
        if open.len() > OPEN_UNITS {
            let fullest = (0..open.len()).max_by_key(|index| open[*index].1).expect("some are open");
            open.remove(fullest);
        }
        self.units - 1
    }

    /// The pieces of each unit.
    pub fn by_unit(&self) -> impl Iterator<Item = &[Piece]> {
        self.pieces.chunk_by(|a, b| a.unit == b.unit)
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
    use crate::key_value::{Key, NamespaceId};

    fn plan(bytes: &[usize]) -> Vec<(usize, u16, usize, u8)> {
        let value = vec![0; 10_000];
        let record = |bytes: &usize| KvRecord {
            namespace: NamespaceId(1),
            key: Key::new(b"k").unwrap(),
            value: Some(&value[..*bytes]),
        };
        let records: Vec<KvRecord<'_>> = bytes.iter().map(record).collect();
        let pieces = Plan::new(&records).pieces;
        pieces.iter().map(|piece| (piece.record, piece.segment, piece.unit, piece.chunks)).collect()
    }

    #[test]
    fn small_records_share_a_unit_and_large_ones_take_several() {
        assert_eq!(plan(&[0, 24, 25]), [(0, 0, 0, 1), (1, 0, 0, 1), (2, 0, 0, 2)]);
        let large = plan(&[2 * SEGMENT_BYTES + 1, 1]);
        assert_eq!(large, [(0, 0, 0, 64), (0, 1, 1, 64), (0, 2, 2, 1), (1, 0, 2, 1)]);
    }

    #[test]
    fn a_record_goes_where_it_leaves_the_least_room() {
        // 40 chunks, 30 chunks, 24 chunks: the last fills up the first
        let chunks = |chunks: usize| chunks * 64 - 40;
        assert_eq!(
            plan(&[chunks(40), chunks(30), chunks(24)]),
            [(0, 0, 0, 40), (2, 0, 0, 24), (1, 0, 1, 30)]
        );
    }
}
