//! Memory for the units of an image in memory, in large chunks.
//!
//! A copy of an image shares the chunks of the original: a drive that was aged once serves many runs, each of which writes a
//! small part of it, and getting memory from the host costs as much as copying, because the host clears it. What is written
//! while a chunk is shared goes to memory of its own, whose chunks serve the next copy once this one is gone.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapMut;

use crate::array::{Array, huge_pages};
use crate::error::HostError;
use crate::geometry::UNIT_BYTES;
use crate::slots::Slot;

/// Slots in one chunk. The host provides memory as it is touched, in huge pages if it has them: otherwise each random unit
/// among gigabytes costs a TLB miss.
const CHUNK_SLOTS: usize = 1 << 14;

/// The chunks of one image.
#[derive(Default)]
pub(super) struct Chunks {
    /// The slots, in order. Those of a chunk that has another owner too are not written.
    chunks: Vec<Arc<MmapMut>>,
    /// Slots that were written while their chunk was shared.
    own: Own,
}

/// Slots with memory of their own, one after the other.
#[derive(Default)]
struct Own {
    /// By the slot's index: its number among these, from 1 on; 0 or nothing if it has none.
    numbers: Array,
    count: usize,
    chunks: Vec<MmapMut>,
    /// Chunks that images copied from each other no longer use.
    unused: Arc<Mutex<Vec<MmapMut>>>,
}

impl Chunks {
    /// The bytes of a slot that was written.
    #[inline]
    pub fn slot(&self, slot: Slot) -> &[u8] {
        if let Some(own) = self.own.slot(slot) {
            return own;
        }
        let (chunk, range) = place(slot.index());
        &self.chunks[chunk][range]
    }

    /// The bytes of a slot, all of which will be written.
    #[inline]
    pub fn slot_mut(&mut self, slot: Slot) -> Result<&mut [u8], HostError> {
        let (chunk, range) = place(slot.index());
        while self.chunks.len() <= chunk {
            self.chunks.push(Arc::new(new_chunk()?));
        }
        let slots = self.chunks.len() * CHUNK_SLOTS;
        if self.own.number(slot).is_none()
            && let Some(chunk) = Arc::get_mut(&mut self.chunks[chunk])
        {
            return Ok(&mut chunk[range]);
        }
        self.own.slot_mut(slot, slots)
    }

    /// A copy, which shares what it does not write; none if the host has too little memory.
    pub fn try_clone(&self) -> Option<Chunks> {
        Some(Chunks { chunks: self.chunks.clone(), own: self.own.try_clone()? })
    }
}

impl Own {
    #[inline]
    fn number(&self, slot: Slot) -> Option<usize> {
        (self.numbers.get(slot.index()).copied().unwrap_or(0) as usize).checked_sub(1)
    }

    #[inline]
    fn slot(&self, slot: Slot) -> Option<&[u8]> {
        let (chunk, range) = place(self.number(slot)?);
        Some(&self.chunks[chunk][range])
    }

    /// The memory of one of an image's slots.
    fn slot_mut(&mut self, slot: Slot, slots: usize) -> Result<&mut [u8], HostError> {
        let number = match self.number(slot) {
            Some(number) => number,
            None => self.add(slot, slots)?,
        };
        let (chunk, range) = place(number);
        Ok(&mut self.chunks[chunk][range])
    }

    #[cold]
    fn add(&mut self, slot: Slot, slots: usize) -> Result<usize, HostError> {
        if self.numbers.len() <= slot.index() {
            self.numbers.extend(slots);
        }
        if self.count == self.chunks.len() * CHUNK_SLOTS {
            let chunk = self.another_chunk()?;
            self.chunks.push(chunk);
        }
        self.count += 1;
        self.numbers[slot.index()] = self.count as u32;
        Ok(self.count - 1)
    }

    fn try_clone(&self) -> Option<Own> {
        let mut copy = Own {
            numbers: self.numbers.clone(),
            count: self.count,
            chunks: Vec::new(),
            unused: Arc::clone(&self.unused),
        };
        let mut left = self.count * UNIT_BYTES;
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
    fn another_chunk(&self) -> Result<MmapMut, HostError> {
        let unused = self.unused.lock().unwrap_or_else(PoisonError::into_inner).pop();
        unused.map_or_else(new_chunk, Ok)
    }
}

impl Drop for Own {
    /// The last image has nobody to leave its chunks to.
    fn drop(&mut self) {
        if Arc::strong_count(&self.unused) > 1 {
            self.unused.lock().unwrap_or_else(PoisonError::into_inner).append(&mut self.chunks);
        }
    }
}

#[cold]
fn new_chunk() -> Result<MmapMut, HostError> {
    huge_pages(CHUNK_SLOTS * UNIT_BYTES).map_err(|error| {
        HostError::new(Path::new("memory"), "map more of the host's memory for the image", &error)
    })
}

/// The chunk and the bytes in it of the slot with this number.
#[inline]
fn place(number: usize) -> (usize, Range<usize>) {
    let start = number % CHUNK_SLOTS * UNIT_BYTES;
    (number / CHUNK_SLOTS, start..start + UNIT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

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
        copy.slot_mut(slot(0)).unwrap().fill(3);
        original.slot_mut(last).unwrap().fill(4);
        copy.slot_mut(slot(7)).unwrap().fill(5);
        assert_eq!([copy.slot(slot(0))[9], copy.slot(last)[9], copy.slot(slot(7))[9]], [3, 2, 5]);
        assert_eq!([original.slot(slot(0))[9], original.slot(last)[9]], [1, 4]);
        assert_eq!((copy.own.count, original.own.count), (2, 1), "only what is written is copied");

        let place = copy.own.chunks[0].as_ptr();
        drop(copy);
        original.slot_mut(slot(0)).unwrap().fill(6);
        assert_eq!(original.own.count, 1, "its chunks are its own again");
        let mut again = original.try_clone().unwrap();
        assert_eq!(again.own.chunks[0].as_ptr(), place, "for what the original had written");
        again.slot_mut(last).unwrap().fill(7);
        assert_eq!([again.slot(slot(0))[9], again.slot(last)[9], original.slot(last)[9]], [6, 7, 4]);

        let unused = Arc::downgrade(&original.own.unused);
        drop(again);
        drop(original);
        assert!(unused.upgrade().is_none(), "the last image keeps no memory");
    }

    /// Compared with images that share nothing.
    #[test]
    fn copies_of_copies_read_as_what_was_written_to_them() {
        const PLACES: [usize; 6] = [0, 1, 77, CHUNK_SLOTS - 1, CHUNK_SLOTS, 2 * CHUNK_SLOTS + 3];
        for seed in 0..50 {
            let mut random = SplitMix64(seed);
            let mut images = vec![(Chunks::default(), [0_u8; PLACES.len()])];
            for tag in 1..100 {
                let which = random.below(images.len() as u64) as usize;
                match random.below(8) {
                    0 if images.len() < 5 => {
                        let copy = (images[which].0.try_clone().unwrap(), images[which].1);
                        images.push(copy);
                    }
                    1 if images.len() > 1 => drop(images.swap_remove(which)),
                    _ => {
                        let (image, model) = &mut images[which];
                        let place = random.below(PLACES.len() as u64) as usize;
                        image.slot_mut(slot(PLACES[place])).unwrap().fill(tag);
                        model[place] = tag;
                    }
                }
                for (image, model) in &images {
                    for (place, tag) in PLACES.iter().zip(model).filter(|(_, tag)| **tag > 0) {
                        let bytes = image.slot(slot(*place));
                        assert!(
                            bytes.iter().all(|byte| byte == tag),
                            "seed {seed}, step {tag}, slot {place}"
                        );
                    }
                }
            }
        }
    }
}
