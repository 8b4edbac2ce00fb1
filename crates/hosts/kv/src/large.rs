//! Values that are too large for one record: how they are stored, and reading them.
//!
//! A large value lies in *parts*, records of the first namespace, under a number. In its place is a *head*, which has the
//! number. Beside the parts is a *description*, which names the head. It is there exactly as long as the head, so a head is
//! one only if its description names it; any other record of the same bytes is a value. Parts never change.

use tantalum::{Key, NamespaceId, Status};

use crate::failure::Failure;
use crate::record::{Name, Value};
use crate::record_store::Source;

/// A value with more bytes is large. Parts of this size fill units of the drive, and a change of any one value fits in one
/// `put` together with the nodes that it changes.
pub(crate) const PART_BYTES: usize = 258 * 4056;

const HEAD: &[u8] = b"large";
const HEAD_BYTES: usize = HEAD.len() + 8;
const DESCRIPTION: &[u8] = b"large";
const PART: &[u8] = b"part";
const FORMAT: u8 = 1;

/// At most: format, namespace, length of the key, key, length of the value.
const DESCRIPTION_BYTES: usize = 1 + 4 + 1 + 16 + 8;

/// A value in parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Large {
    /// The record of its head.
    pub name: Name,
    pub number: u64,
    pub bytes: u64,
}

fn key(kind: &[u8], number: u64, rest: &[u8]) -> Key {
    Key::new(&[kind, &number.to_be_bytes(), rest].concat()).expect("it has at most 16 bytes")
}

/// The key of a description, in the first namespace.
pub(crate) fn description_key(number: u64) -> Key {
    key(DESCRIPTION, number, &[])
}

/// The key of a part.
pub(crate) fn part_key(number: u64, part: u32) -> Key {
    key(PART, number, &part.to_be_bytes())
}

/// What a key of the first namespace is for.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Description(u64),
    Part(u64),
    Other,
}

impl Use {
    pub fn of(key: &Key) -> Use {
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_be_bytes).ok();
        let bytes = key.as_bytes();
        let description = bytes.strip_prefix(DESCRIPTION).and_then(number);
        let part = bytes.strip_prefix(PART).filter(|rest| rest.len() == 12);
        match (description, part.and_then(|rest| number(&rest[..8]))) {
            (Some(number), _) => Use::Description(number),
            (None, Some(number)) => Use::Part(number),
            (None, None) => Use::Other,
        }
    }
}

/// The number of the value of which this is the head, if it is one.
pub(crate) fn number_of_head(record: &[u8]) -> Option<u64> {
    let number = record.strip_prefix(HEAD)?;
    number.try_into().map(u64::from_le_bytes).ok()
}

/// Sizes of the records of a value.
pub(crate) fn sizes(bytes: usize) -> impl Iterator<Item = usize> + Clone {
    let is_large = bytes > PART_BYTES;
    let whole = std::iter::repeat_n(PART_BYTES, if is_large { bytes / PART_BYTES } else { 0 });
    let rest = if is_large { bytes % PART_BYTES } else { bytes };
    let others = [HEAD_BYTES, DESCRIPTION_BYTES].into_iter().take(if is_large { 2 } else { 0 });
    whole.chain([rest]).chain(others)
}

impl Large {
    pub fn parts(&self) -> u32 {
        self.bytes.div_ceil(PART_BYTES as u64) as u32
    }

    /// Bytes of a part.
    pub fn part_bytes(&self, part: u32) -> usize {
        assert!(part < self.parts(), "part {part} of {self:?}, which has {}", self.parts());
        (self.bytes - u64::from(part) * PART_BYTES as u64).min(PART_BYTES as u64) as usize
    }

    pub fn head(&self) -> Value {
        [HEAD, &self.number.to_le_bytes()].concat().into()
    }

    /// Format (1 byte), namespace of the head (4), length of its key (1), the key, length of the value (8). All
    /// little-endian.
    pub fn description(&self) -> Value {
        let (namespace, key) = (self.name.0.0.to_le_bytes(), self.name.1.as_bytes());
        let bytes = self.bytes.to_le_bytes();
        [&[FORMAT][..], &namespace, &[key.len() as u8], key, &bytes].concat().into()
    }

    pub fn described(number: u64, description: &[u8]) -> Option<Large> {
        let ([FORMAT], rest) = description.split_first_chunk()? else { return None };
        let (namespace, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let (key, bytes) = rest.split_at_checked(usize::from(*length))?;
        let name = (NamespaceId(u32::from_le_bytes(*namespace)), Key::new(key).ok()?);
        let bytes = u64::from_le_bytes(bytes.try_into().ok()?);
        let parts = bytes.div_ceil(PART_BYTES as u64);
        (bytes > 0 && parts <= u32::MAX.into()).then_some(Large { name, number, bytes })
    }
}

/// A value as it is stored.
#[derive(Clone, Debug)]
pub(crate) enum Stored {
    Whole(Value),
    InParts(Large),
}

impl Stored {
    /// What is stored for a record that has been read; none if there was none.
    pub fn of(
        source: &impl Source,
        first: NamespaceId,
        name: Name,
        record: Option<Value>,
    ) -> Result<Option<Stored>, Failure> {
        let Some(record) = record else { return Ok(None) };
        let Some(number) = number_of_head(&record) else { return Ok(Some(Stored::Whole(record))) };
        let description = match source.record((first, description_key(number))) {
            Ok(Some(description)) => description,
            Ok(None) => return Ok(Some(Stored::Whole(record))),
            Err(Failure::Drive(Status::RecordUnreadable { .. })) => return Err(Failure::missing(name)),
            Err(failure) => return Err(failure),
        };
        match Large::described(number, &description).ok_or_else(|| Failure::missing(name))? {
            large if large.name == name => Ok(Some(Stored::InParts(large))),
            _ => Ok(Some(Stored::Whole(record))),
        }
    }

    /// Bytes of the value.
    pub fn bytes(&self) -> u64 {
        match self {
            Stored::Whole(value) => value.len() as u64,
            Stored::InParts(large) => large.bytes,
        }
    }

    /// The whole value; `part` reads its parts.
    pub fn whole<E>(self, mut part: impl FnMut(&Large, u32) -> Result<Value, E>) -> Result<Value, E> {
        let large = match self {
            Stored::Whole(value) => return Ok(value),
            Stored::InParts(large) => large,
        };
        let mut whole = Vec::new();
        for number in 0..large.parts() {
            whole.extend_from_slice(&part(&large, number)?);
        }
        assert_eq!(whole.len() as u64, large.bytes, "bytes of all parts, and of the value, {large:?}");
        Ok(whole.into())
    }

    /// Copies the bytes from an offset on, as many as there are; returns how many. `part` reads its parts.
    pub fn read_at<E>(
        &self,
        offset: u64,
        buffer: &mut [u8],
        mut part: impl FnMut(&Large, u32) -> Result<Value, E>,
    ) -> Result<usize, E> {
        let length = self.bytes().saturating_sub(offset).min(buffer.len() as u64) as usize;
        let buffer = &mut buffer[..length];
        let large = match self {
            Stored::Whole(_) if length == 0 => return Ok(0),
            Stored::Whole(value) => {
                buffer.copy_from_slice(&value[offset as usize..][..length]);
                return Ok(length);
            }
            Stored::InParts(large) => large,
        };
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let bytes = part(large, (at / PART_BYTES as u64) as u32)?;
            let found = &bytes[(at % PART_BYTES as u64) as usize..];
            let count = found.len().min(length - done);
            assert!(count > 0, "{large:?} ends before its byte {at}, in a part of {} bytes", bytes.len());
            buffer[done..done + count].copy_from_slice(&found[..count]);
            done += count;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn large(bytes: u64) -> Large {
        Large { name: (NamespaceId(70_000), Key::new(&[7; 16]).unwrap()), number: 1 << 40, bytes }
    }

    #[test]
    fn the_layout_round_trips_and_is_as_stated() {
        let large = large(5 << 30);
        let description = large.description();
        assert_eq!(description.len(), DESCRIPTION_BYTES);
        assert_eq!(description[..6], [1, 0x70, 0x11, 1, 0, 16]);
        assert_eq!(Large::described(large.number, &description), Some(large));
        for length in 0..description.len() {
            assert_eq!(Large::described(large.number, &description[..length]), None, "{length}");
        }
        let head = large.head();
        assert_eq!((head.len(), number_of_head(&head)), (HEAD_BYTES, Some(large.number)));
        assert_eq!(number_of_head(&head[1..]), None);
    }

    #[test]
    fn keys_of_the_first_namespace_are_told_apart() {
        let other = |bytes: &[u8]| Use::of(&Key::new(bytes).unwrap());
        assert_eq!(Use::of(&description_key(9)), Use::Description(9));
        assert_eq!(Use::of(&part_key(9, 3)), Use::Part(9));
        for bytes in
            [&b"names"[..], b"redo", b"redo\0\0\0\0\0\0\0\0", b"redo filler", b"large", b"part", b"part\0"]
        {
            assert_eq!(other(bytes), Use::Other);
        }
    }

    #[test]
    fn any_piece_of_a_value_is_read_from_its_parts() {
        let bytes = 2 * PART_BYTES + 100;
        let value: Vec<u8> = (0..bytes).map(|at| (at / 7) as u8).collect();
        let stored = Stored::InParts(large(bytes as u64));
        let part = |large: &Large, part: u32| {
            let part = &value[part as usize * PART_BYTES..][..large.part_bytes(part)];
            Ok::<Value, Infallible>(part.into())
        };
        assert_eq!(stored.clone().whole(part).unwrap()[..], value[..]);
        for offset in [0, 1, PART_BYTES - 1, PART_BYTES, 2 * PART_BYTES + 99, bytes, bytes + 1, usize::MAX] {
            for length in [0, 1, 200, PART_BYTES + 2, bytes] {
                let mut buffer = vec![0; length];
                let count = stored.read_at(offset as u64, &mut buffer, part).unwrap();
                let expected = value.get(offset..).map_or(&[][..], |rest| &rest[..rest.len().min(length)]);
                assert_eq!(&buffer[..count], expected, "{length} from {offset}");
                let whole = Stored::Whole(value[..].into());
                assert_eq!(whole.read_at(offset as u64, &mut buffer, part).unwrap(), count);
            }
        }
        let others = [HEAD_BYTES, DESCRIPTION_BYTES];
        assert_eq!(sizes(bytes).collect::<Vec<_>>(), [&[PART_BYTES, PART_BYTES, 100], &others[..]].concat());
        assert_eq!(sizes(PART_BYTES).collect::<Vec<_>>(), [PART_BYTES]);
    }
}
