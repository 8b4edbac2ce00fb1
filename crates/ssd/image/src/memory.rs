//! An image in memory. Anything never written costs nothing; the size follows the live data.

use std::collections::HashMap;
use std::ops::Range;

use super::chunks::Chunks;
use super::past_cache::copy_past_cache;
use super::spare_buffers::{BufferId, SpareBuffers};
use super::{
    Image, MAX_PROTECTED_BYTES, NvmCells, PageRecord, ProtectedDram, RecordStore, SavedRecords, SlotStore,
};

use crate::error::NandError;
use crate::geometry::{
    BlockId, Geometry, PageId, Ppn, SpareEnds, SpareHead, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare,
};
use crate::prefetch::prefetch_lines;
use crate::state::Block;

use crate::slots::Slot;

/// A unit is read in parts of this size. A copy of a whole unit may be one instruction, and no processor starts later
/// instructions before it is done, so a read would not overlap the cache misses of the next one.
const READ_BYTES: usize = 1024;

/// Bytes of memory beside the flash that are allocated together.
const NVM_PIECE: usize = 4096;

/// An image in memory.
pub struct MemoryImage {
    geometry: Geometry,
    chunks: Chunks,
    /// Position of the spare areas of a block that has been programmed since its erase.
    spares: Vec<Option<BufferId>>,
    buffers: SpareBuffers,
    protected: Vec<u8>,
    nvm: HashMap<u64, Box<[u8; NVM_PIECE]>>,
}

impl MemoryImage {
    /// An erased one.
    pub fn new(geometry: Geometry) -> MemoryImage {
        MemoryImage {
            geometry,
            chunks: Chunks::default(),
            spares: vec![None; geometry.blocks() as usize],
            buffers: SpareBuffers::new(geometry.blocks() as usize, geometry.units_per_block() as usize),
            protected: Vec::new(),
            nvm: HashMap::new(),
        }
    }

    /// The block of a unit, and the unit's number in it.
    #[inline]
    fn in_block(&self, ppn: Ppn) -> (BlockId, usize) {
        let block = self.geometry.block_of_unit(ppn);
        (block, (ppn.0 - self.geometry.first_unit(block).0) as usize)
    }

    /// Where the spare area of a programmed unit is.
    #[inline]
    fn spare_at(&self, ppn: Ppn) -> (BufferId, usize) {
        let (block, unit) = self.in_block(ppn);
        (self.spares[block.index()].expect("a programmed page has spare areas"), unit)
    }

    /// Stores the spare areas of a page's units. `write` gets the buffer of their block, and the number of the first
    /// one in it.
    #[inline]
    fn write_spares(&mut self, page: PageId, write: impl FnOnce(&mut MemoryImage, &mut BufferId, usize)) {
        let (block, first) = self.in_block(self.geometry.unit(page, 0));
        let mut buffer = self.spares[block.index()].unwrap_or_else(|| self.buffers.take());
        write(self, &mut buffer, first);
        self.spares[block.index()] = Some(buffer);
    }
}

impl SlotStore for MemoryImage {
    fn write_slot(&mut self, slot: Slot, data: &[u8]) -> Result<(), NandError> {
        copy_past_cache(self.chunks.slot_mut(slot)?, data);
        Ok(())
    }

    fn read_slot(&self, slot: Slot, data: &mut [u8]) -> Result<(), NandError> {
        debug_assert!(data.len() == UNIT_BYTES, "a unit is read into {} bytes", data.len());
        let parts = self.chunks.slot(slot).chunks_exact(READ_BYTES);
        for (to, from) in data.chunks_exact_mut(READ_BYTES).zip(parts) {
            std::hint::black_box(to).copy_from_slice(from);
        }
        Ok(())
    }

    #[inline]
    fn prefetch_slot(&self, slot: Slot) {
        std::hint::black_box(self.chunks.slot(slot)[0]);
    }

    #[inline]
    fn prefetch_data(&self, slot: Slot) {
        prefetch_lines(self.chunks.slot(slot).as_ptr(), UNIT_BYTES);
    }
}

impl RecordStore for MemoryImage {
    fn write_page(&mut self, page: PageId, record: &PageRecord) -> Result<(), NandError> {
        self.write_spares(page, |image, buffer, first| {
            for (unit, spare) in (first..).zip(record.spares) {
                image.buffers.write(buffer, unit, spare);
            }
        });
        Ok(())
    }

    fn write_moved_page(
        &mut self,
        page: PageId,
        _record: &PageRecord,
        from: &[Ppn],
        head: SpareHead,
    ) -> Result<(), NandError> {
        self.write_spares(page, |image, buffer, first| {
            for (unit, ppn) in (first..).zip(from) {
                let from = image.spare_at(*ppn);
                image.buffers.copy(from, buffer, unit, head);
            }
        });
        Ok(())
    }

    fn clear_page(&mut self, _page: PageId) -> Result<(), NandError> {
        Ok(())
    }

    fn spoil_page(&mut self, _page: PageId) -> Result<(), NandError> {
        Ok(())
    }

    fn read_spares(&self, first: Ppn, spares: &mut [UnitSpare]) -> Result<(), NandError> {
        let (buffer, first) = self.spare_at(first);
        for (unit, spare) in (first..).zip(spares) {
            self.buffers.read(buffer, unit, spare);
        }
        Ok(())
    }

    fn block_spares(&self, block: BlockId, spares: &mut Vec<UnitSpare>) -> Result<(), NandError> {
        spares.clear();
        if let Some(buffer) = self.spares[block.index()] {
            spares.resize(self.geometry.units_per_block() as usize, [0; UNIT_SPARE_BYTES]);
            spares.iter_mut().enumerate().for_each(|(unit, spare)| self.buffers.read(buffer, unit, spare));
        }
        Ok(())
    }

    fn block_spare_ends<'a>(
        &'a self,
        block: BlockId,
        _scratch: &'a mut Vec<SpareEnds>,
    ) -> Result<&'a [SpareEnds], NandError> {
        Ok(self.spares[block.index()].map_or(&[], |buffer| self.buffers.ends(buffer)))
    }

    fn prefetch_spares(&self, block: BlockId) {
        if let Some(buffer) = self.spares[block.index()] {
            let ends = self.buffers.ends(buffer);
            prefetch_lines(ends.as_ptr().cast(), size_of_val(ends));
        }
    }

    fn write_block(&mut self, _block: BlockId, _record: &Block) -> Result<(), NandError> {
        Ok(())
    }

    fn take_records(&mut self, block: BlockId, _pages: u32) -> Result<SavedRecords, NandError> {
        Ok(self.spares[block.index()].take().map_or(SavedRecords::None, SavedRecords::Buffer))
    }

    fn restore_records(&mut self, block: BlockId, records: SavedRecords) -> Result<(), NandError> {
        let restored = match records {
            SavedRecords::Buffer(buffer) => Some(buffer),
            _ => None,
        };
        if let Some(replaced) = std::mem::replace(&mut self.spares[block.index()], restored) {
            self.buffers.give_back(replaced);
        }
        Ok(())
    }

    fn drop_records(&mut self, records: SavedRecords) {
        if let SavedRecords::Buffer(buffer) = records {
            self.buffers.give_back(buffer);
        }
    }
}

impl ProtectedDram for MemoryImage {
    fn protected_bytes(&self) -> u64 {
        MAX_PROTECTED_BYTES
    }

    fn write_protected(&mut self, offset: u64, data: &[u8]) -> Result<(), NandError> {
        let end = offset as usize + data.len();
        if self.protected.len() < end {
            self.protected.resize(end, 0);
        }
        self.protected[offset as usize..end].copy_from_slice(data);
        Ok(())
    }

    fn read_protected(&self, offset: u64, data: &mut [u8]) -> Result<(), NandError> {
        let stored = self.protected.get(offset as usize..).unwrap_or_default();
        let stored_bytes = stored.len().min(data.len());
        data[..stored_bytes].copy_from_slice(&stored[..stored_bytes]);
        data[stored_bytes..].fill(0);
        Ok(())
    }
}

impl NvmCells for MemoryImage {
    fn write_nvm(&mut self, at: u64, data: &[u8]) -> Result<(), NandError> {
        for (number, first, range) in pieces(at, data.len()) {
            let piece = self.nvm.entry(number).or_insert_with(|| Box::new([0; NVM_PIECE]));
            piece[first..first + range.len()].copy_from_slice(&data[range]);
        }
        Ok(())
    }

    fn read_nvm(&self, at: u64, data: &mut [u8]) -> Result<(), NandError> {
        for (number, first, range) in pieces(at, data.len()) {
            match self.nvm.get(&number) {
                Some(piece) => data[range.clone()].copy_from_slice(&piece[first..first + range.len()]),
                None => data[range].fill(0),
            }
        }
        Ok(())
    }
}

/// The parts of a range that each lie in one piece: the piece's number, the first byte in it, and the bytes of the
/// range.
fn pieces(at: u64, bytes: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let next = at + done as u64;
        let first = (next % NVM_PIECE as u64) as usize;
        let count = (NVM_PIECE - first).min(bytes - done);
        let range = done..done + count;
        done += count;
        (count > 0).then_some((next / NVM_PIECE as u64, first, range))
    })
}

impl Image for MemoryImage {
    fn outlives_process(&self) -> bool {
        false
    }

    fn try_clone(&self) -> Option<Box<dyn Image>> {
        Some(Box::new(MemoryImage {
            geometry: self.geometry,
            chunks: self.chunks.try_clone()?,
            spares: self.spares.clone(),
            buffers: self.buffers.clone(),
            protected: self.protected.clone(),
            nvm: self.nvm.clone(),
        }))
    }
}
