//! Memory for the units of an image in memory, in large chunks.
//!
//! Getting a chunk from the host costs as much as copying one, because the host clears it. So the chunks of a copy that is
//! gone serve the next copy, or the original.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapMut;

use crate::array::huge_pages;
use crate::error::HostError;
use crate::geometry::UNIT_BYTES;
use crate::slots::Slot;

/// Slots in one chunk. The host provides memory as it is touched, in huge pages if it has them: otherwise each random unit
/// among gigabytes costs a TLB miss.
const CHUNK_SLOTS: usize = 1 << 14;

/// The chunks of one image.
#[derive(Default)]
pub(super) struct Chunks {
    chunks: Vec<MmapMut>,
    /// Slots below this have been written.
    written_slots: usize,
    /// Chunks that images copied from each other no longer use.
    unused: Arc<Mutex<Vec<MmapMut>>>,
}

impl Chunks {
    /// The bytes of a slot that was written.
    #[inline]
    pub fn slot(&self, slot: Slot) -> &[u8] {
        let (chunk, range) = in_chunk(slot);
        &self.chunks[chunk][range]
    }

    /// The bytes of a slot, which will be written.
    #[inline]
    pub fn slot_mut(&mut self, slot: Slot) -> Result<&mut [u8], HostError> {
        let (chunk, range) = in_chunk(slot);
        while self.chunks.len() <= chunk {
            let chunk = self.another_chunk()?;
            self.chunks.push(chunk);
        }
        self.written_slots = self.written_slots.max(slot.index() + 1);
        Ok(&mut self.chunks[chunk][range])
    }

    /// A copy of the bytes in chunks of its own; none if the host has too little memory.
    pub fn try_clone(&self) -> Option<Chunks> {
        let mut copy = Chunks {
            chunks: Vec::new(),
            written_slots: self.written_slots,
            unused: Arc::clone(&self.unused),
        };
        let mut left = self.written_slots * UNIT_BYTES;
        for chunk in &self.chunks {
            let written = left.min(chunk.len());
            left -= written;
            let mut other = self.another_chunk().ok()?;
            other[..written].copy_from_slice(&chunk[..written]);
            copy.chunks.push(other);
        }
        Some(copy)
    }

    /// A chunk with undefined contents.
    #[cold]
    fn another_chunk(&self) -> Result<MmapMut, HostError> {
        if let Some(chunk) = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(chunk);
        }
        huge_pages(CHUNK_SLOTS * UNIT_BYTES).map_err(|error| {
            HostError::new(Path::new("memory"), "map more of the host's memory for the image", &error)
        })
    }
}

impl Drop for Chunks {
    /// The last image has nobody to leave its chunks to.
    fn drop(&mut self) {
        if Arc::strong_count(&self.unused) > 1 {
            self.unused.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.chunks);
        }
    }
}

/// The chunk of a slot, and the slot's bytes in it.
#[inline]
fn in_chunk(slot: Slot) -> (usize, Range<usize>) {
    let start = slot.index() % CHUNK_SLOTS * UNIT_BYTES;
    (slot.index() / CHUNK_SLOTS, start..start + UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(index: usize) -> Slot {
        Slot(index as u32 + 1)
    }

    #[test]
    fn copies_are_apart_and_use_the_memory_of_copies_that_are_gone() {
        let mut original = Chunks::default();
        let last = slot(CHUNK_SLOTS + 5);
        original.slot_mut(slot(0)).unwrap().fill(1);
        original.slot_mut(last).unwrap().fill(2);
        let mut copy = original.try_clone().unwrap();
        copy.slot_mut(last).unwrap().fill(3);
        assert_eq!([original.slot(last)[9], copy.slot(last)[9], copy.slot(slot(0))[9]], [2, 3, 1]);

        let places: Vec<_> = copy.chunks.iter().map(|chunk| chunk.as_ptr()).collect();
        drop(copy);
        let again = original.try_clone().unwrap();
        assert!(again.chunks.iter().all(|chunk| places.contains(&chunk.as_ptr())));
        assert_eq!([again.slot(slot(0))[9], again.slot(last)[9]], [1, 2]);

        let unused = Arc::downgrade(&original.unused);
        drop(again);
        drop(original);
        assert!(unused.upgrade().is_none(), "the last image keeps no memory");
    }
}
