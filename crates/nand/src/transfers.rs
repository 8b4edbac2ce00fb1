//! Bytes of units that move between an image in a file and a host while others use the medium.
//!
//! Invariants:
//! - A slot's bytes stay as they are from when it was filled until it is given up. So whoever knows where they lie may
//!   read them without the medium, while a lease keeps slots that are given up from being taken again.
//! - A slot that is reserved is nobody else's, so it may be filled without the medium. Should power go meanwhile, it is
//!   given up; the lease then keeps others from it.
//!
//! Neighbours in the file move in one system call. Through memory each unit moves by itself, while the processor's cache has
//! it for the checksum.

use std::io;
use std::sync::Arc;

use crate::error::NandError;
use crate::geometry::{Nanoseconds, Ppn, UNIT_BYTES};
use crate::image::{MappedFile, SlotsInFile, checksum_of};
use crate::nand::Nand;
use crate::slots::{Lease, Slot};

/// Units that a host fetches from the file of an image into a buffer of its own. See [`Nand::fetches`].
#[derive(Debug)]
pub struct Fetches {
    file: Arc<MappedFile>,
    units: Vec<Fetch>,
    /// Where in the buffer the next unit goes.
    next: usize,
    _lease: Lease,
}

/// A unit that lies at byte `from` of the file and goes to byte `to` of the buffer.
#[derive(Debug)]
struct Fetch {
    from: u64,
    checksum: u32,
    to: usize,
}

/// Buffers of the controller's DRAM that a host fills in the file of an image. See [`Nand::fills`].
#[derive(Debug)]
pub struct Fills {
    file: Arc<MappedFile>,
    units: Vec<Filled>,
    /// Buffers before this one were handed out.
    next: usize,
    _lease: Lease,
}

/// A buffer that lies at byte `at` of the file; it has a checksum once it is filled.
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

    /// Fetches the units. Whether all are as they were written; if not, reading them from the medium tells what is wrong.
    #[must_use]
    pub fn fetch(&self, data: &mut [u8]) -> bool {
        let is_alone = self.file.is_mapped();
        let follows =
            |a: &Fetch, b: &Fetch| !is_alone && is_next(a.from, b.from) && b.to == a.to + UNIT_BYTES;
        self.units.chunk_by(follows).all(|run| {
            let part = &mut data[run[0].to..][..run.len() * UNIT_BYTES];
            let is_right = |(fetch, unit): (&Fetch, &[u8])| fetch.checksum == checksum_of(unit);
            self.file.read_units(part, run[0].from).is_ok()
                && run.iter().zip(part.chunks_exact(UNIT_BYTES)).all(is_right)
        })
    }
}

impl Fills {
    /// Fills the buffers with as many units, one after another.
    pub fn fill(&mut self, data: &[u8]) -> io::Result<()> {
        assert_eq!(data.len(), self.units.len() * UNIT_BYTES, "each buffer takes a unit");
        let mut rest = data;
        let is_alone = self.file.is_mapped();
        for run in self.units.chunk_by_mut(|a, b| !is_alone && is_next(a.at, b.at)) {
            let (part, others) = rest.split_at(run.len() * UNIT_BYTES);
            for (filled, unit) in run.iter_mut().zip(part.chunks_exact(UNIT_BYTES)) {
                filled.checksum = checksum_of(unit);
            }
            self.file.write_in_parts(part, run[0].at)?;
            rest = others;
        }
        Ok(())
    }

    /// The checksum of what was filled into a buffer, the next one being number 0.
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
    /// What [`Nand::read_later`] adds units to; none for a medium in memory or under changes in memory.
    pub fn fetches(&mut self) -> Option<Fetches> {
        let file = self.image.slots_in_file()?.file();
        Some(Fetches { file, units: Vec::new(), next: 0, _lease: self.slots.lease() })
    }

    /// As [`Nand::read`], but the bytes of a unit that has any are to be fetched; `data` are set if it has none.
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

    /// As [`Nand::read_slot`], but the bytes are to be fetched.
    pub fn read_slot_later(&self, slot: Slot, fetches: &mut Fetches) {
        let slots = self.image.slots_in_file().expect("what is to be fetched lies in a file");
        fetches.push(slots.at(slot), slots.checksum(slot));
    }

    /// Reserves buffers as [`Nand::reserve`] does, to be filled without the medium. Each is then to be taken over
    /// ([`Nand::adopt`]) or given up ([`Nand::skip_fills`]). None for a medium in memory, under changes in memory, or with
    /// a redo log.
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

    /// Takes over the next buffer: from now on it is as if [`Nand::stage`] had made it. None if there is none left.
    pub fn adopt(&mut self, fills: &mut Fills) -> Result<Option<Slot>, NandError> {
        self.powered()?;
        let Some(Filled { slot, checksum, .. }) = fills.take() else { return Ok(None) };
        // power may have gone and come again
        if !self.slots.is_used(slot) {
            return Err(NandError::PowerLost);
        }
        let slots = self.image.slots_in_file_mut().expect("what was filled lies in a file");
        slots.written(slot, checksum);
        Ok(Some(slot))
    }

    /// Gives up the next `units` buffers, or all that are left.
    pub fn skip_fills(&mut self, fills: &mut Fills, units: usize) {
        for filled in (0..units).map_while(|_| fills.take()) {
            if self.slots.is_used(filled.slot) {
                self.slots.release(filled.slot);
            }
        }
    }
}

#[cfg(test)]
#[path = "transfers_tests.rs"]
mod tests;
