//! Records of ARIES's log. A record is valid only where it was written: it holds its own position, under a checksum.

use tantalum_image::checksum_of;

use crate::tables::PageOffset;

/// Bytes before a record's body: length, checksum, position, transaction, previous record of the transaction, kind.
const HEAD_BYTES: usize = 40;

/// A position in the log, in bytes, which names the record that begins there.
pub(crate) type Lsn = u64;

/// No record.
pub(crate) const NONE: Lsn = 0;

/// The contents of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// Bytes of a page were changed.
    Update { place: PageOffset, before: Vec<u8>, after: Vec<u8> },
    /// An update was undone (compensation). The transaction's next update to undo is at `next`.
    Undone { place: PageOffset, after: Vec<u8>, next: Lsn },
    /// The transaction is committed, and ends.
    Commit,
    /// The transaction is undone, and ends.
    End,
    /// The state when a checkpoint was taken: transactions with their first and last records, and changed pages with their
    /// first change that the drive may not have.
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

fn put_numbers(to: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| to.extend(number.to_le_bytes()));
}

fn put_place(to: &mut Vec<u8>, place: PageOffset) {
    put_numbers(to, [place.page, place.offset as u64]);
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

    fn place(&mut self) -> Option<PageOffset> {
        Some(PageOffset { page: self.number()?, offset: self.number()? as usize })
    }
}

impl Body {
    fn kind(&self) -> u64 {
        match self {
            Body::Update { .. } => 1,
            Body::Undone { .. } => 2,
            Body::Commit => 3,
            Body::End => 4,
            Body::Checkpoint { .. } => 5,
        }
    }

    fn encode(&self, to: &mut Vec<u8>) {
        match self {
            Body::Update { place, before, after } => {
                assert_eq!(before.len(), after.len(), "an update changes as many bytes as it has before");
                put_place(to, *place);
                put_numbers(to, [after.len() as u64]);
                to.extend(before);
                to.extend(after);
            }
            Body::Undone { place, after, next } => {
                put_place(to, *place);
                put_numbers(to, [after.len() as u64]);
                to.extend(after);
                put_numbers(to, [*next]);
            }
            Body::Commit | Body::End => {}
            Body::Checkpoint { active, changed } => {
                put_numbers(to, [active.len(), changed.len()].map(|length| length as u64));
                put_numbers(
                    to,
                    active.iter().flat_map(|&(transaction, first, last)| [transaction, first, last]),
                );
                put_numbers(to, changed.iter().flat_map(|&(page, since)| [page, since]));
            }
        }
    }

    fn decode(kind: u64, from: &mut Reader<'_>) -> Option<Body> {
        Some(match kind {
            1 => {
                let (place, length) = (from.place()?, from.number()?);
                Body::Update { place, before: from.bytes(length)?, after: from.bytes(length)? }
            }
            2 => {
                let (place, length) = (from.place()?, from.number()?);
                Body::Undone { place, after: from.bytes(length)?, next: from.number()? }
            }
            3 => Body::Commit,
            4 => Body::End,
            5 => {
                let (active, changed) = (from.number()?, from.number()?);
                let active = (0..active).map(|_| Some((from.number()?, from.number()?, from.number()?)));
                let active = active.collect::<Option<Vec<_>>>()?;
                let changed = (0..changed).map(|_| Some((from.number()?, from.number()?)));
                Body::Checkpoint { active, changed: changed.collect::<Option<Vec<_>>>()? }
            }
            _ => return None,
        })
    }
}

impl Record {
    /// Its bytes in the log, starting at `lsn`.
    pub fn encode(&self, lsn: Lsn) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        put_numbers(&mut bytes, [lsn, self.transaction, self.previous, self.body.kind()]);
        self.body.encode(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let length = (bytes.len() as u32).to_le_bytes();
        bytes[..4].copy_from_slice(&length);
        let checksum = checksum_of(&bytes[8..]).to_le_bytes();
        bytes[4..8].copy_from_slice(&checksum);
        bytes
    }

    /// The record at `lsn`, and its length; `None` if the log ends there.
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
        let kind = reader.number()?;
        let body = Body::decode(kind, &mut reader)?;
        Some((Record { transaction, previous, body }, length as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_they_were_written_and_only_whole_and_in_their_place() {
        let place = PageOffset { page: 77, offset: 116 };
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
