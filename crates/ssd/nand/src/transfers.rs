//! Bytes of units that move between an image in a file and a host while others use the medium.
//!
//! Invariants:
//! - A slot's bytes do not change from when it is filled until it is released. So anyone who knows where they are may
//!   read them without the medium, while a lease keeps released slots from being reused.
//! - A reserved slot belongs to nobody else, so it may be filled without the medium. If power fails meanwhile, the slot is
//!   released; the lease then keeps others from using it.
//!
//! Units that are adjacent in the file move in one system call. Through memory each unit moves by itself, while it is in
//! the processor's cache for the checksum.

use std::io;
use std::sync::Arc;

use crate::nand::Nand;
use tantalum_image::NandError;
use tantalum_image::checksum_of;
use tantalum_image::prefetch_lines;
use tantalum_image::{Lease, Slot};
use tantalum_image::{MappedFile, SlotsInFile};
use tantalum_image::{Nanoseconds, Ppn, UNIT_BYTES};

/// Units that a host fetches from the image file into its own buffer. See [`Nand::fetches`].
#[derive(Debug)]
pub struct Fetches {
    file: Arc<MappedFile>,
    units: Vec<Fetch>,
    /// Position of the next unit in the buffer.
    next: usize,
    _lease: Lease,
}

/// A unit at byte `from` of the file that goes to byte `to` of the buffer.
#[derive(Debug)]
struct Fetch {
    from: u64,
    checksum: u32,
    to: usize,
}

/// Buffers of the controller's DRAM that a host fills in the image file. See [`Nand::fills`].
#[derive(Debug)]
pub struct Fills {
    file: Arc<MappedFile>,
    units: Vec<Filled>,
    /// Buffers before this one were handed out.
    next: usize,
    _lease: Lease,
}

/// A buffer at byte `at` of the file; it has a checksum once it is filled.
#[derive(Clone, Copy, Debug)]
struct Filled {
    slot: Slot,
    at: u64,
    checksum: u32,
}

impl Fetches {
    /// The next unit goes to byte `at` of the buffer.
    pub fn go_to(&mut self, at: usize) {
        self.next = at;
    }

    /// The next unit is in the buffer already.
    pub fn skip(&mut self) {
        self.next += UNIT_BYTES;
    }

    fn push(&mut self, from: u64, checksum: u32) {
        self.units.push(Fetch { from, checksum, to: self.next });
        self.next += UNIT_BYTES;
    }

    /// Fetches the units. Returns whether all are as written; if not, reading them from the medium reports what is
    /// wrong.
    #[must_use]
    pub fn fetch(&self, data: &mut [u8]) -> bool {
        let is_alone = self.file.is_mapped();
        let follows =
            |a: &Fetch, b: &Fetch| !is_alone && is_next(a.from, b.from) && b.to == a.to + UNIT_BYTES;
        let mut runs = self.units.chunk_by(follows).peekable();
        while let Some(run) = runs.next() {
            if let Some(next) = runs.peek() {
                self.file.prefetch(next[0].from, UNIT_BYTES);
            }
            let part = &mut data[run[0].to..][..run.len() * UNIT_BYTES];
            let is_right = |(fetch, unit): (&Fetch, &[u8])| fetch.checksum == checksum_of(unit);
            let is_there = self.file.read_units(part, run[0].from).is_ok();
            if !is_there || !run.iter().zip(part.chunks_exact(UNIT_BYTES)).all(is_right) {
                return false;
            }
        }
        true
    }
}

impl Fills {
    /// Fills the buffers with as many units, one after another.
    pub fn fill(&mut self, data: &[u8]) -> io::Result<()> {
        assert_eq!(data.len(), self.units.len() * UNIT_BYTES, "each buffer takes a unit");
        let mut rest = data;
        let is_alone = self.file.is_mapped();
        let runs = self.units.chunk_by_mut(|a, b| !is_alone && is_next(a.at, b.at));
        self.file.write_pieces(runs.map(|run| {
            let (part, others) = rest.split_at(run.len() * UNIT_BYTES);
            prefetch_lines(others.as_ptr(), UNIT_BYTES.min(others.len()));
            for (filled, unit) in run.iter_mut().zip(part.chunks_exact(UNIT_BYTES)) {
                filled.checksum = checksum_of(unit);
            }
            rest = others;
            (part, run[0].at)
        }))
    }

    /// The checksum of what was filled into a buffer; the next one has number 0.
    pub fn checksum(&self, number: usize) -> Option<u32> {
        self.units.get(self.next + number).map(|filled| filled.checksum)
    }

    /// The next buffer.
    fn take(&mut self) -> Option<Filled> {
        let filled = self.units.get(self.next).copied()?;
        self.next += 1;
        Some(filled)
    }
}

/// Whether the unit at byte `other` of the file follows the one at byte `at`.
fn is_next(at: u64, other: u64) -> bool {
    other == at + UNIT_BYTES as u64
}

impl Nand {
    /// The list to which [`Nand::read_later`] adds units; `None` for a medium in memory or under changes in memory.
    pub fn fetches(&mut self) -> Option<Fetches> {
        let file = self.image.slots_in_file()?.file();
        Some(Fetches { file, units: Vec::new(), next: 0, _lease: self.slots.lease() })
    }

    /// As [`Nand::read`], but the unit's bytes, if it has any, are left to be fetched; if it has none, `data` is set.
    pub fn read_later(
        &mut self,
        ppn: Ppn,
        data: &mut [u8],
        fetches: &mut Fetches,
        earliest_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        let (slot, done_ns) = self.begin_read(ppn, earliest_ns)?;
        match slot {
            Some(slot) => self.read_slot_later(slot, fetches),
            None => {
                data.fill(0);
                fetches.skip();
            }
        }
        Ok(done_ns)
    }

    /// As [`Nand::read_slot`], but the bytes are left to be fetched.
    pub fn read_slot_later(&self, slot: Slot, fetches: &mut Fetches) {
        debug_assert!(self.slots.is_used(slot), "slot {} is to be fetched, but is free", slot.0);
        let slots = self.image.slots_in_file().expect("what is to be fetched lies in a file");
        fetches.push(slots.at(slot), slots.checksum(slot));
    }

    /// Reserves buffers as [`Nand::reserve`] does, to be filled without the medium. Each must then be taken over
    /// ([`Nand::adopt`]) or given up ([`Nand::skip_fills`]). `None` for a medium in memory, under changes in memory, or
    /// with a redo log.
    pub fn fills(&mut self, units: usize) -> Result<Option<Fills>, NandError> {
        let Some(file) = self.image.slots_in_file().map(SlotsInFile::file) else { return Ok(None) };
        let mut fills = Fills { file, units: Vec::with_capacity(units), next: 0, _lease: self.slots.lease() };
        for _ in 0..units {
            match self.reserve() {
                Ok(slot) => {
                    let slots = self.image.slots_in_file().expect("it was asked before");
                    fills.units.push(Filled { slot, at: slots.at(slot), checksum: 0 });
                }
                Err(error) => {
                    self.skip_fills(&mut fills, units);
                    return Err(error);
                }
            }
        }
        Ok(Some(fills))
    }

    /// Takes over the next buffer, as if [`Nand::stage`] had created it. `None` if there is none left.
    pub fn adopt(&mut self, fills: &mut Fills) -> Result<Option<Slot>, NandError> {
        self.powered()?;
        let Some(Filled { slot, checksum, .. }) = fills.take() else { return Ok(None) };
        // power may have gone and come back
        if !self.slots.is_used(slot) {
            return Err(NandError::PowerLost);
        }
        let slots = self.image.slots_in_file_mut().expect("what was filled lies in a file");
        slots.written(slot, checksum);
        Ok(Some(slot))
    }

    /// Releases the next `units` buffers, or all that are left.
    pub fn skip_fills(&mut self, fills: &mut Fills, units: usize) {
        for filled in (0..units).map_while(|_| fills.take()) {
            if self.slots.is_used(filled.slot) {
                self.slots.release(filled.slot);
            }
        }
    }

    /// Releases the buffers that are left, and overwrites what was filled into them.
    ///
    /// # Errors
    /// The host's, if it could not be overwritten; the buffers are released all the same.
    pub fn discard_fills(&mut self, fills: &mut Fills) -> Result<(), NandError> {
        let left = &fills.units[fills.next..];
        let mut ours = left.iter().map(|filled| filled.slot).filter(|slot| self.slots.is_used(*slot));
        let cleared = ours.try_for_each(|slot| self.image.write_slot(slot, &[0; UNIT_BYTES]));
        self.skip_fills(fills, usize::MAX);
        cleared
    }
}

#[cfg(test)]
#[path = "transfers_tests.rs"]
mod tests;
