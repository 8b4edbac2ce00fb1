//! Memory for the spare areas of blocks, one buffer for each block that has any.
//!
//! Garbage collection walks through the spare areas of whole blocks. In ordinary pages of the host's memory every 32 of
//! them would cost a miss of the address translation; so the buffers lie in large chunks, which the host backs with
//! huge pages where it has them.

use zerocopy::IntoBytes;

use crate::array::Array;

/// Bytes of a chunk, or a little less; a small medium has one chunk as large as it needs.
const CHUNK_BYTES: usize = 32 << 20;

/// The number of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BufferId(u32);

/// The buffers.
#[derive(Clone)]
pub(super) struct SpareBuffers {
    buffer_bytes: usize,
    buffers_per_chunk: usize,
    chunks: Vec<Array>,
    /// Buffers that were given back, to be taken first.
    free: Vec<BufferId>,
    /// Buffers that were ever taken.
    taken: usize,
}

impl SpareBuffers {
    /// Room for the buffers of `blocks` blocks and of erases under way; nothing is allocated yet.
    pub fn new(blocks: usize, buffer_bytes: usize) -> SpareBuffers {
        let buffers_per_chunk = (CHUNK_BYTES / buffer_bytes).clamp(1, blocks.max(1));
        SpareBuffers { buffer_bytes, buffers_per_chunk, chunks: Vec::new(), free: Vec::new(), taken: 0 }
    }

    /// A buffer; what is in it is undefined.
    pub fn take(&mut self) -> BufferId {
        if let Some(buffer) = self.free.pop() {
            return buffer;
        }
        if self.taken == self.chunks.len() * self.buffers_per_chunk {
            let bytes = self.buffers_per_chunk * self.buffer_bytes;
            self.chunks.push(Array::zeroed(bytes.div_ceil(size_of::<u32>())));
        }
        self.taken += 1;
        BufferId(self.taken as u32 - 1)
    }

    /// Gives a buffer back.
    pub fn give_back(&mut self, buffer: BufferId) {
        self.free.push(buffer);
    }

    fn place(&self, buffer: BufferId) -> (usize, usize) {
        let index = buffer.0 as usize;
        (index / self.buffers_per_chunk, index % self.buffers_per_chunk * self.buffer_bytes)
    }

    #[inline]
    pub fn get(&self, buffer: BufferId) -> &[u8] {
        let (chunk, start) = self.place(buffer);
        &self.chunks[chunk].as_bytes()[start..start + self.buffer_bytes]
    }

    #[inline]
    pub fn get_mut(&mut self, buffer: BufferId) -> &mut [u8] {
        let (chunk, start) = self.place(buffer);
        &mut self.chunks[chunk].as_mut_bytes()[start..start + self.buffer_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_do_not_overlap_and_are_taken_again() {
        let mut buffers = SpareBuffers::new(3, 1000);
        // more than blocks: an erase under way holds one
        let taken: Vec<BufferId> = (0..7).map(|_| buffers.take()).collect();
        for (number, buffer) in (1..).zip(&taken) {
            buffers.get_mut(*buffer).fill(number);
        }
        for (number, buffer) in (1..).zip(&taken) {
            assert_eq!(buffers.get(*buffer), [number; 1000]);
        }
        buffers.give_back(taken[4]);
        assert_eq!(buffers.take(), taken[4]);
    }
}
