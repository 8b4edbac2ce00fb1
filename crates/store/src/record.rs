//! Records of ARIES's log. A record is found again only where it was written: it holds its own position, under a checksum.

use tantalum::checksum_of;

use crate::log::Lsn;
use crate::tables::Place;

/// Bytes before a record's body: length, checksum, position, transaction, previous record of the transaction, kind.
const HEAD_BYTES: usize = 40;

/// No record.
pub(crate) const NONE: Lsn = 0;

/// What a record says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// Bytes of a page were changed.
    Update { place: Place, before: Vec<u8>, after: Vec<u8> },
    /// An update was undone (compensation). What is undone next of the transaction is at `next`.
    Undone { place: Place, after: Vec<u8>, next: Lsn },
    /// The transaction is committed, and ends.
    Commit,
    /// The transaction is undone, and ends.
    End,
    /// What was going on when a checkpoint was taken: transactions with their first and last records, and changed pages with
    /// their first change that the drive may not have.
    Checkpoint { active: Vec<(u64, Lsn, Lsn)>, changed: Vec<(u64, Lsn)> },
}

/// A record of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub transaction: u64,
    /// The record before it of the same transaction.
    pub previous: Lsn,
    pub body: Body,
}

fn put_place(to: &mut Vec<u8>, place: Place) {
    to.extend(place.page.to_le_bytes());
    to.extend((place.offset as u64).to_le_bytes());
}

/// Reads numbers and bytes, as far as there are any.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self, length: u64) -> Option<Vec<u8>> {
        let (bytes, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    fn place(&mut self) -> Option<Place> {
        Some(Place { page: self.number()?, offset: self.number()? as usize })
    }
}

impl Record {
    /// As it stands in the log from `lsn` on.
    pub fn encode(&self, lsn: Lsn) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        let kind: u64 = match self.body {
            Body::Update { .. } => 1,
            Body::Undone { .. } => 2,
            Body::Commit => 3,
            Body::End => 4,
            Body::Checkpoint { .. } => 5,
        };
        for number in [lsn, self.transaction, self.previous, kind] {
            bytes.extend(number.to_le_bytes());
        }
        match &self.body {
            Body::Update { place, before, after } => {
                put_place(&mut bytes, *place);
                bytes.extend((after.len() as u64).to_le_bytes());
                bytes.extend(before);
                bytes.extend(after);
            }
            Body::Undone { place, after, next } => {
                put_place(&mut bytes, *place);
                bytes.extend((after.len() as u64).to_le_bytes());
                bytes.extend(after);
                bytes.extend(next.to_le_bytes());
            }
            Body::Commit | Body::End => {}
            Body::Checkpoint { active, changed } => {
                for length in [active.len(), changed.len()] {
                    bytes.extend((length as u64).to_le_bytes());
                }
                let active = active.iter().flat_map(|&(transaction, first, last)| [transaction, first, last]);
                let changed = changed.iter().flat_map(|&(page, since)| [page, since]);
                active.chain(changed).for_each(|number| bytes.extend(number.to_le_bytes()));
            }
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let length = (bytes.len() as u32).to_le_bytes();
        bytes[..4].copy_from_slice(&length);
        let checksum = checksum_of(&bytes[8..]).to_le_bytes();
        bytes[4..8].copy_from_slice(&checksum);
        bytes
    }

    /// The record at `lsn`, and its length; none if the log ends there.
    pub fn decode(bytes: &[u8], lsn: Lsn) -> Option<(Record, u64)> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let length = word(0)? as usize;
        if length < HEAD_BYTES || !length.is_multiple_of(8) || length > bytes.len() {
            return None;
        }
        if word(4)? != checksum_of(&bytes[8..length]) {
            return None;
        }
        let mut reader = Reader(&bytes[8..length]);
        let (stored, transaction, previous) = (reader.number()?, reader.number()?, reader.number()?);
        if stored != lsn {
            return None;
        }
        let body = match reader.number()? {
            1 => {
                let (place, length) = (reader.place()?, reader.number()?);
                Body::Update { place, before: reader.bytes(length)?, after: reader.bytes(length)? }
            }
            2 => {
                let (place, length) = (reader.place()?, reader.number()?);
                Body::Undone { place, after: reader.bytes(length)?, next: reader.number()? }
            }
            3 => Body::Commit,
            4 => Body::End,
            5 => {
                let (active, changed) = (reader.number()?, reader.number()?);
                let active =
                    (0..active).map(|_| Some((reader.number()?, reader.number()?, reader.number()?)));
                let active = active.collect::<Option<Vec<_>>>()?;
                let changed = (0..changed).map(|_| Some((reader.number()?, reader.number()?)));
                Body::Checkpoint { active, changed: changed.collect::<Option<Vec<_>>>()? }
            }
            _ => return None,
        };
        Some((Record { transaction, previous, body }, length as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_only_whole_and_in_their_place() {
        let place = Place { page: 77, offset: 116 };
        let bodies = [
            Body::Update { place, before: vec![1; 8], after: vec![2; 8] },
            Body::Undone { place, after: vec![3; 48], next: 512 },
            Body::Commit,
            Body::End,
            Body::Checkpoint { active: vec![(1, 2, 3), (4, 5, 6)], changed: vec![(7, 8)] },
        ];
        for body in bodies {
            let record = Record { transaction: 9, previous: 1024, body };
            let bytes = record.encode(4096);
            assert_eq!(Record::decode(&bytes, 4096), Some((record.clone(), bytes.len() as u64)));
            assert_eq!(Record::decode(&bytes, 8192), None, "what the ring held before");
            assert_eq!(Record::decode(&bytes[..bytes.len() - 1], 4096), None);
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                assert_eq!(Record::decode(&damaged, 4096), None, "byte {at}");
            }
        }
    }
}
