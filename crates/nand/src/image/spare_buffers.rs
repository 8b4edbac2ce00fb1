//! Memory for the spare areas of blocks, one buffer for each block that has any.
//!
//! Garbage collection walks through the spare areas of whole blocks. In ordinary pages of the host's memory every 32 of
//! them would cost a miss of the address translation; so the buffers lie in large chunks, which the host backs with
//! huge pages where it has them. And most spare areas have zeros in their middle: only their ends are in the buffers, a
//! line of the processor's cache each, and the middles of the few blocks that have any are apart.

use zerocopy::{FromBytes, IntoBytes};

use crate::array::Array;
use crate::geometry::{SPARE_END_BYTES, SpareEnds, UNIT_SPARE_BYTES, UnitSpare, spare_ends};

/// Bytes of a chunk, or a little less; a small medium has one chunk as large as it needs.
const CHUNK_BYTES: usize = 32 << 20;

/// Where the second end of a spare area starts.
const SECOND_END: usize = UNIT_SPARE_BYTES - SPARE_END_BYTES;

/// What is between the ends.
type Middle = [u8; SECOND_END - SPARE_END_BYTES];

/// The number of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BufferId(u32);

/// The buffers.
#[derive(Clone)]
pub(super) struct SpareBuffers {
    units_per_buffer: usize,
    buffers_per_chunk: usize,
    chunks: Vec<Array>,
    /// For each buffer that was ever taken: the middles, if one of them is not zeros.
    middles: Vec<Option<Box<[Middle]>>>,
    /// Buffers that were given back, to be taken first.
    free: Vec<BufferId>,
}

impl SpareBuffers {
    /// Room for the spare areas of `blocks` blocks and of erases under way; nothing is allocated yet.
    pub fn new(blocks: usize, units_per_block: usize) -> SpareBuffers {
        let buffers_per_chunk =
            (CHUNK_BYTES / (units_per_block * size_of::<SpareEnds>())).clamp(1, blocks.max(1));
        SpareBuffers {
            units_per_buffer: units_per_block,
            buffers_per_chunk,
            chunks: Vec::new(),
            middles: Vec::new(),
            free: Vec::new(),
        }
    }

    /// A buffer; what is in it is undefined.
    pub fn take(&mut self) -> BufferId {
        if let Some(buffer) = self.free.pop() {
            return buffer;
        }
        let taken = self.middles.len();
        if taken == self.chunks.len() * self.buffers_per_chunk {
            let bytes = self.buffers_per_chunk * self.units_per_buffer * size_of::<SpareEnds>();
            self.chunks.push(Array::zeroed(bytes.div_ceil(size_of::<u32>())));
        }
        self.middles.push(None);
        BufferId(taken as u32)
    }

    /// Gives a buffer back.
    pub fn give_back(&mut self, buffer: BufferId) {
        self.middles[buffer.0 as usize] = None;
        self.free.push(buffer);
    }

    fn place(&self, buffer: BufferId) -> (usize, std::ops::Range<usize>) {
        let bytes = self.units_per_buffer * size_of::<SpareEnds>();
        let start = buffer.0 as usize % self.buffers_per_chunk * bytes;
        (buffer.0 as usize / self.buffers_per_chunk, start..start + bytes)
    }

    /// The ends of all spare areas in a buffer.
    #[inline]
    pub fn ends(&self, buffer: BufferId) -> &[SpareEnds] {
        let (chunk, range) = self.place(buffer);
        <[SpareEnds]>::ref_from_bytes(&self.chunks[chunk].as_bytes()[range]).expect("whole ends")
    }

    /// Stores a spare area.
    #[inline]
    pub fn write(&mut self, buffer: BufferId, unit: usize, spare: &UnitSpare) {
        let (chunk, range) = self.place(buffer);
        let ends = <[SpareEnds]>::mut_from_bytes(&mut self.chunks[chunk].as_mut_bytes()[range]);
        ends.expect("whole ends")[unit] = spare_ends(spare);
        let middle = &spare[SPARE_END_BYTES..SECOND_END];
        let middles = &mut self.middles[buffer.0 as usize];
        // all bytes at once: a comparison that stops at the first difference is a call
        if middles.is_some() || middle.iter().fold(0, |any, byte| any | byte) != 0 {
            let middles =
                middles.get_or_insert_with(|| vec![[0; size_of::<Middle>()]; self.units_per_buffer].into());
            middles[unit].copy_from_slice(middle);
        }
    }

    /// Reads a spare area that was stored.
    #[inline]
    pub fn read(&self, buffer: BufferId, unit: usize, spare: &mut UnitSpare) {
        let ends = &self.ends(buffer)[unit];
        spare[..SPARE_END_BYTES].copy_from_slice(&ends[..SPARE_END_BYTES]);
        spare[SECOND_END..].copy_from_slice(&ends[SPARE_END_BYTES..]);
        let middle = &mut spare[SPARE_END_BYTES..SECOND_END];
        match &self.middles[buffer.0 as usize] {
            Some(middles) => middle.copy_from_slice(&middles[unit]),
            None => middle.fill(0),
        }
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
        // more than blocks: an erase under way holds one
        let taken: Vec<BufferId> = (0..7).map(|_| buffers.take()).collect();
        for (number, buffer) in (1..).zip(&taken) {
            (0..8).for_each(|unit| buffers.write(*buffer, unit, &[number; UNIT_SPARE_BYTES]));
        }
        for (number, buffer) in (1..).zip(&taken) {
            (0..8).for_each(|unit| assert_eq!(read(&buffers, *buffer, unit), [number; UNIT_SPARE_BYTES]));
            assert_eq!(buffers.ends(*buffer), [[number; 2 * SPARE_END_BYTES]; 8]);
        }
        buffers.give_back(taken[4]);
        assert_eq!(buffers.take(), taken[4]);
    }

    #[test]
    fn a_middle_of_zeros_stays_so_beside_one_that_is_not_and_after_one() {
        let mut buffers = SpareBuffers::new(1, 4);
        let buffer = buffers.take();
        let plain: UnitSpare = std::array::from_fn(|at| if at % 96 < SPARE_END_BYTES { at as u8 } else { 0 });
        let full: UnitSpare = std::array::from_fn(|at| at as u8);
        (0..3).for_each(|unit| buffers.write(buffer, unit, &plain));
        assert!(buffers.middles[0].is_none());
        buffers.write(buffer, 1, &full);
        assert_eq!([0, 1, 2].map(|unit| read(&buffers, buffer, unit)), [plain, full, plain]);
        buffers.write(buffer, 1, &plain);
        assert_eq!([0, 1, 2].map(|unit| read(&buffers, buffer, unit)), [plain; 3]);
        buffers.write(buffer, 3, &full);
        buffers.give_back(buffer);
        let again = buffers.take();
        buffers.write(again, 3, &plain);
        assert_eq!((again, read(&buffers, again, 3)), (buffer, plain));
    }
}
