//! Memory for the spare areas of blocks: one buffer for each block that has any.
//!
//! Garbage collection walks through the spare areas of whole blocks. In ordinary pages of the host's memory every 32 of
//! them would cost a TLB miss, so the buffers are in large chunks, which the host backs with huge pages if it has them.
//! Most spare areas have zeros in their middle: the buffers hold only their ends, a cache line each; the middles of the
//! few blocks that have any are kept separately.

use std::collections::HashMap;

use crate::array::Array;
use crate::geometry::{SPARE_END_BYTES, SpareEnds, SpareHead, UNIT_SPARE_BYTES, UnitSpare, spare_ends};

/// Bytes of a chunk, or slightly less; a small medium has a single chunk of the size it needs.
const CHUNK_BYTES: usize = 32 << 20;

/// Start of the second end of a spare area.
const SECOND_END: usize = UNIT_SPARE_BYTES - SPARE_END_BYTES;

/// The bytes between the ends.
type Middle = [u8; SECOND_END - SPARE_END_BYTES];

/// A buffer: the number of its first unit among those of all buffers, and whether it has middles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferId {
    start: u32,
    has_middles: bool,
}

/// A unit of a buffer.
pub(super) type InBuffer = (BufferId, usize);

/// The buffers.
#[derive(Clone)]
pub(super) struct SpareBuffers {
    units_per_buffer: usize,
    buffers_per_chunk: usize,
    /// Numbering assumes that every chunk has this many units: a power of two.
    chunk_units: usize,
    chunks: Vec<Array<SpareEnds>>,
    /// Buffers ever taken.
    taken: usize,
    /// The middles of buffers that have any, by the buffer's first unit.
    middles: HashMap<u32, Box<[Middle]>>,
    /// Returned buffers, which are reused first.
    free: Vec<BufferId>,
}

impl SpareBuffers {
    /// Space for the spare areas of `blocks` blocks and of erases in flight; nothing is allocated yet.
    pub fn new(blocks: usize, units_per_block: usize) -> SpareBuffers {
        let chunk_units = (CHUNK_BYTES / size_of::<SpareEnds>()).max(units_per_block).next_power_of_two();
        SpareBuffers {
            units_per_buffer: units_per_block,
            buffers_per_chunk: (chunk_units / units_per_block).clamp(1, blocks.max(1)),
            chunk_units,
            chunks: Vec::new(),
            taken: 0,
            middles: HashMap::new(),
            free: Vec::new(),
        }
    }

    /// A buffer with undefined contents.
    pub fn take(&mut self) -> BufferId {
        if let Some(buffer) = self.free.pop() {
            return buffer;
        }
        let (chunk, in_chunk) = (self.taken / self.buffers_per_chunk, self.taken % self.buffers_per_chunk);
        if chunk == self.chunks.len() {
            self.chunks.push(Array::zeroed(self.buffers_per_chunk * self.units_per_buffer));
        }
        self.taken += 1;
        let start = chunk * self.chunk_units + in_chunk * self.units_per_buffer;
        debug_assert!(start <= u32::MAX as usize, "buffer {} begins at unit {start}", self.taken);
        BufferId { start: start as u32, has_middles: false }
    }

    /// Returns a buffer.
    pub fn give_back(&mut self, buffer: BufferId) {
        debug_assert!(
            self.free.iter().all(|free| free.start != buffer.start),
            "the buffer at unit {} is returned twice",
            buffer.start
        );
        if buffer.has_middles {
            self.middles.remove(&buffer.start);
        }
        self.free.push(BufferId { has_middles: false, ..buffer });
    }

    /// The chunk of a unit's number, and the number within it.
    #[inline]
    fn place(&self, unit: usize) -> (usize, usize) {
        (unit >> self.chunk_units.trailing_zeros(), unit & (self.chunk_units - 1))
    }

    #[inline]
    fn end_mut(&mut self, (buffer, unit): InBuffer) -> &mut SpareEnds {
        let (chunk, unit) = self.place(buffer.start as usize + unit);
        &mut self.chunks[chunk][unit]
    }

    #[inline]
    fn end(&self, (buffer, unit): InBuffer) -> &SpareEnds {
        let (chunk, unit) = self.place(buffer.start as usize + unit);
        &self.chunks[chunk][unit]
    }

    /// The ends of all spare areas in a buffer.
    #[inline]
    pub fn ends(&self, buffer: BufferId) -> &[SpareEnds] {
        let (chunk, start) = self.place(buffer.start as usize);
        &self.chunks[chunk][start..start + self.units_per_buffer]
    }

    #[inline]
    fn middle(&self, (buffer, unit): InBuffer) -> Middle {
        if buffer.has_middles { self.middles[&buffer.start][unit] } else { [0; size_of::<Middle>()] }
    }

    fn write_middle(&mut self, buffer: &mut BufferId, unit: usize, middle: &Middle) {
        let units = self.units_per_buffer;
        let middles = self.middles.entry(buffer.start);
        middles.or_insert_with(|| vec![[0; size_of::<Middle>()]; units].into())[unit] = *middle;
        buffer.has_middles = true;
    }

    /// Stores a spare area.
    #[inline]
    pub fn write(&mut self, buffer: &mut BufferId, unit: usize, spare: &UnitSpare) {
        *self.end_mut((*buffer, unit)) = spare_ends(spare);
        let middle: &Middle =
            spare[SPARE_END_BYTES..SECOND_END].try_into().expect("the length is a middle's");
        // all bytes at once: a comparison that stops at the first difference is a call
        if buffer.has_middles || middle.iter().fold(0, |any, byte| any | byte) != 0 {
            self.write_middle(buffer, unit, middle);
        }
    }

    /// Stores a copy of a spare area with another head.
    #[inline]
    pub fn copy(&mut self, from: InBuffer, to: &mut BufferId, unit: usize, head: SpareHead) {
        let mut ends = *self.end(from);
        ends[..head.len()].copy_from_slice(&head);
        *self.end_mut((*to, unit)) = ends;
        if from.0.has_middles || to.has_middles {
            self.write_middle(to, unit, &self.middle(from));
        }
    }

    /// Reads a stored spare area.
    #[inline]
    pub fn read(&self, buffer: BufferId, unit: usize, spare: &mut UnitSpare) {
        let ends = self.end((buffer, unit));
        spare[..SPARE_END_BYTES].copy_from_slice(&ends[..SPARE_END_BYTES]);
        spare[SECOND_END..].copy_from_slice(&ends[SPARE_END_BYTES..]);
        spare[SPARE_END_BYTES..SECOND_END].copy_from_slice(&self.middle((buffer, unit)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(buffers: &SpareBuffers, buffer: BufferId, unit: usize) -> UnitSpare {
        let mut spare = [0xee; UNIT_SPARE_BYTES];
        buffers.read(buffer, unit, &mut spare);
        spare
    }

    #[test]
    fn buffers_do_not_overlap_and_are_taken_again() {
        let mut buffers = SpareBuffers::new(3, 8);
        // more than the number of blocks: an erase in flight holds one
        let mut taken: Vec<BufferId> = (0..7).map(|_| buffers.take()).collect();
        for (number, buffer) in (1..).zip(&mut taken) {
            (0..8).for_each(|unit| buffers.write(buffer, unit, &[number; UNIT_SPARE_BYTES]));
        }
        for (number, buffer) in (1..).zip(&taken) {
            (0..8).for_each(|unit| assert_eq!(read(&buffers, *buffer, unit), [number; UNIT_SPARE_BYTES]));
            assert_eq!(buffers.ends(*buffer), [[number; 2 * SPARE_END_BYTES]; 8]);
        }
        buffers.give_back(taken[4]);
        assert_eq!(buffers.take().start, taken[4].start);
    }

    #[test]
    fn a_middle_of_zeros_stays_so_beside_one_that_is_not_and_after_one() {
        let mut buffers = SpareBuffers::new(1, 4);
        let mut buffer = buffers.take();
        let plain: UnitSpare = std::array::from_fn(|at| if at % 96 < SPARE_END_BYTES { at as u8 } else { 0 });
        let full: UnitSpare = std::array::from_fn(|at| at as u8);
        (0..3).for_each(|unit| buffers.write(&mut buffer, unit, &plain));
        assert!(!buffer.has_middles && buffers.middles.is_empty());
        buffers.write(&mut buffer, 1, &full);
        assert_eq!([0, 1, 2].map(|unit| read(&buffers, buffer, unit)), [plain, full, plain]);
        buffers.write(&mut buffer, 1, &plain);
        assert_eq!([0, 1, 2].map(|unit| read(&buffers, buffer, unit)), [plain; 3]);
        buffers.write(&mut buffer, 3, &full);
        // copies: a full one over a plain one, and the reverse
        let mut others = buffers.take();
        buffers.write(&mut others, 0, &plain);
        buffers.copy((buffer, 3), &mut others, 0, [7; 8]);
        buffers.copy((buffer, 0), &mut others, 1, [8; 8]);
        buffers.copy((buffer, 0), &mut buffer, 3, plain[..8].try_into().unwrap());
        let with_head =
            |spare: UnitSpare, head: u8| std::array::from_fn(|at| if at < 8 { head } else { spare[at] });
        assert_eq!(read(&buffers, others, 0), with_head(full, 7));
        assert_eq!(read(&buffers, others, 1), with_head(plain, 8));
        assert_eq!(read(&buffers, buffer, 3), plain);
        buffers.give_back(buffer);
        let mut again = buffers.take();
        buffers.write(&mut again, 3, &plain);
        assert_eq!((again.start, read(&buffers, again, 3)), (buffer.start, plain));
    }
}
