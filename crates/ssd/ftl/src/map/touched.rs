//! Which chunks of L2P were ever mapped: checkpoints leave the others out.

use std::ops::Range;

use crate::types::Lpn;

/// Entries of L2P in one chunk of a checkpoint: 4 KiB.
pub const CHUNK_ENTRIES: usize = 1024;

/// A flag for each chunk.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    chunks: Vec<bool>,
    count: usize,
    logical_units: u32,
}

impl Touched {
    /// No chunk of so many logical pages.
    pub fn new(logical_units: u32) -> Touched {
        let chunks = vec![false; (logical_units as usize).div_ceil(CHUNK_ENTRIES)];
        Touched { chunks, count: 0, logical_units }
    }

    /// All chunks, in order, and whether each was mapped.
    pub fn chunks(&self) -> &[bool] {
        &self.chunks
    }

    /// Chunks that were mapped.
    pub fn count(&self) -> usize {
        self.count
    }

    /// A logical page is mapped.
    #[inline]
    pub fn touch(&mut self, lpn: Lpn) {
        let touched = &mut self.chunks[lpn.index() / CHUNK_ENTRIES];
        if !*touched {
            *touched = true;
            self.count += 1;
        }
    }

    /// The chunks that were mapped, as ranges of logical pages.
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        let entries = CHUNK_ENTRIES as u32;
        let touched = self.chunks.iter().zip(0_u32..).filter(|(touched, _)| **touched);
        touched.map(move |(_, chunk)| chunk * entries..((chunk + 1) * entries).min(self.logical_units))
    }
}
