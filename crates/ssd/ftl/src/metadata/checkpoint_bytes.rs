//! The bytes of a checkpoint while they are appended to. All numbers are little-endian.
//!
//! On a large drive they are a gigabyte, which lies in memory anyway once it is on flash. So whole units move on, to
//! buffers that the pages take over.

use tantalum_nand::{Nand, Slot, UNIT_BYTES, checksum_of, checksum_with};
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::FtlError;

pub(super) const MAGIC: [u8; 8] = *b"TANTCKP9";

/// Precedes everything else.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Head {
    pub magic: [u8; 8],
    /// Bytes that follow.
    pub bytes: U64,
    /// CRC-32C of these.
    pub checksum: U64,
}

pub(super) const HEAD_BYTES: usize = size_of::<Head>();

/// As many bytes move on together.
const PART: usize = 64 << 10;

/// Bytes that grow at their end.
#[derive(Debug)]
pub(crate) struct CheckpointBytes {
    /// Buffers with the first units.
    staged: Vec<Slot>,
    /// The first unit, whose buffer is filled at the end, when its head is known.
    first: Vec<u8>,
    /// Checksum of what is in them behind the head.
    checksum: u32,
    /// What follows.
    waiting: Vec<u8>,
    /// Whether all of it waits until the end.
    stays: bool,
}

impl CheckpointBytes {
    /// Nothing but room for the head. If the checkpoint `stays`, it ends as bytes, and no unit moves on.
    pub fn new(stays: bool) -> CheckpointBytes {
        CheckpointBytes {
            stays,
            staged: Vec::new(),
            first: Vec::new(),
            checksum: checksum_of(&[]),
            waiting: vec![0; HEAD_BYTES],
        }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.staged.len() * UNIT_BYTES + self.waiting.len()
    }

    /// Appends bytes.
    pub fn extend(&mut self, bytes: impl AsRef<[u8]>) {
        self.waiting.extend_from_slice(bytes.as_ref());
    }

    /// Appends zeros. Returns them, to be filled.
    pub fn grow(&mut self, bytes: usize) -> &mut [u8] {
        let start = self.waiting.len();
        self.waiting.resize(start + bytes, 0);
        &mut self.waiting[start..]
    }

    /// Moves whole units on once there are enough of them.
    pub fn move_on(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        if self.stays || self.waiting.len() < PART { Ok(()) } else { self.stage_whole_units(nand) }
    }

    fn stage_whole_units(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        let whole = self.waiting.len() / UNIT_BYTES * UNIT_BYTES;
        let (mut units, mut body) = (&self.waiting[..whole], &self.waiting[..whole]);
        if self.first.is_empty() && whole > 0 {
            // once the head is known: the image of a host that crashes tells by a buffer whether it was written
            self.staged.push(nand.reserve()?);
            self.first = units[..UNIT_BYTES].to_vec();
            (units, body) = (&units[UNIT_BYTES..], &body[HEAD_BYTES..]);
        }
        for unit in units.chunks(UNIT_BYTES) {
            self.staged.push(nand.stage(unit)?);
        }
        self.checksum = checksum_with(self.checksum, body);
        self.waiting.drain(..whole);
        Ok(())
    }

    /// Ends the checkpoint. Returns the buffers with its units, the last of which is padded with zeros.
    pub fn into_units(mut self, nand: &mut Nand) -> Result<Vec<Slot>, FtlError> {
        match self.stage_all(nand) {
            Ok(()) => Ok(self.staged),
            Err(error) => {
                self.give_up(nand);
                Err(error)
            }
        }
    }

    fn stage_all(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        self.stage_whole_units(nand)?;
        let (length, start) = (self.len(), if self.first.is_empty() { HEAD_BYTES } else { 0 });
        let head = head(length, checksum_with(self.checksum, &self.waiting[start..]));
        if !self.waiting.is_empty() {
            self.grow(length.next_multiple_of(UNIT_BYTES) - length);
            self.stage_whole_units(nand)?;
        }
        self.first[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        Ok(nand.fill(self.staged[0], &self.first)?)
    }

    /// Ends a checkpoint that stays. Returns all of it.
    pub fn into_bytes(mut self) -> Vec<u8> {
        assert!(self.staged.is_empty(), "{} units of a checkpoint have moved on", self.staged.len());
        let head = head(self.waiting.len(), checksum_of(&self.waiting[HEAD_BYTES..]));
        self.waiting[..HEAD_BYTES].copy_from_slice(head.as_bytes());
        self.waiting
    }

    /// What follows the head of one that stays.
    #[cfg(test)]
    pub fn into_body(self) -> Vec<u8> {
        self.into_bytes().split_off(HEAD_BYTES)
    }

    /// Gives up the buffers.
    pub fn give_up(self, nand: &mut Nand) {
        self.staged.into_iter().for_each(|slot| nand.release(slot));
    }
}

/// The head of this many bytes, whose checksum is that of what follows the head.
fn head(length: usize, checksum: u32) -> Head {
    Head { magic: MAGIC, bytes: ((length - HEAD_BYTES) as u64).into(), checksum: u64::from(checksum).into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{GEOMETRY, TIMING};

    /// Lengths around those of a unit and of what moves on together.
    #[test]
    fn bytes_that_moved_on_are_those_that_stayed() {
        for length in [0, 1, UNIT_BYTES - HEAD_BYTES, UNIT_BYTES, PART - HEAD_BYTES, PART, 3 * PART + 5000] {
            let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
            let (mut moved, mut stayed) = (CheckpointBytes::new(false), CheckpointBytes::new(true));
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            for part in bytes.chunks(1000) {
                moved.extend(part);
                moved.move_on(&mut nand).unwrap();
                stayed.grow(part.len()).copy_from_slice(part);
                stayed.move_on(&mut nand).unwrap();
            }
            assert_eq!(moved.len(), HEAD_BYTES + length);
            let mut expected = stayed.into_bytes();
            expected.resize(expected.len().next_multiple_of(UNIT_BYTES), 0);
            let units = moved.into_units(&mut nand).unwrap();
            let mut found = vec![0; units.len() * UNIT_BYTES];
            for (unit, slot) in found.chunks_mut(UNIT_BYTES).zip(&units) {
                nand.read_slot(*slot, unit).unwrap();
            }
            assert!(found == expected, "{length} bytes");
            assert_eq!(nand.slots_in_use() as usize, units.len());
        }
    }

    #[test]
    fn what_is_given_up_leaves_no_buffer() {
        let mut nand = Nand::in_memory(GEOMETRY, TIMING).unwrap();
        let mut bytes = CheckpointBytes::new(false);
        bytes.grow(PART);
        bytes.move_on(&mut nand).unwrap();
        assert_eq!(nand.slots_in_use() as usize, PART / UNIT_BYTES);
        bytes.give_up(&mut nand);
        assert_eq!(nand.slots_in_use(), 0);
    }
}
