//! What a capacitor protects, mirrored into the image: killing the process is a power cut that PLP survives.
//!
//! A cut within a process leaves the controller's DRAM to be dumped. A killed process leaves only the image. So a drive
//! with a capacitor in a file stores there what the dump would save: the units that wait in the cache and the records
//! that wait in the journal's buffer. Opening the image dumps them as the capacitor would have, and recovery finds them
//! like any other pages.
//!
//! Everything issued to the flash is done when a process is killed, so every record is ready. A unit is stored before
//! its write is acknowledged, and voided once it is on flash or something recorded has replaced it. Unit heads, journal
//! head and header are each written in a single write and carry a checksum. They count only in the epoch that the
//! header names, so that one write voids them all. A unit that is briefly in the cache twice does no harm: the fold
//! takes the greater version.
//!
//! Units that enter the cache in one step have heads with the number of that step, and count once the header has counted it.
//! What they replace is voided after that.
//!
//! A unit of records grows in place: new bytes are written after the existing ones, and then the head. So there may be
//! anything after the last record that a head covers; it is treated as zeros.
//!
//! | where | what |
//! |---|---|
//! | 0 | the header: epoch, the step of the last checkpoint |
//! | 4096 | two lists of dump blocks; the one of the epoch's parity counts |
//! | then | the journal's head, and one page of records |
//! | then | heads of units, 256 bytes each |
//! | then | units, 4096 bytes each |

use std::ops::Range;

use tantalum_nand::{BlockId, Nand, UNIT_BYTES, UnitSpare, checksum_of, checksum_with};
use zerocopy::{FromZeros, IntoBytes};

use super::protected_layout::{Header, JournalHead, MAGIC, Places, UnitHead, read_header};
use super::record::{self, Record};
use crate::error::FtlError;
use crate::host_unit::HostUnit;
use crate::space::FtlConfig;
use crate::types::{HashMap, Lpn, Seq};

/// The kind of contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stored {
    /// A unit of the cache.
    Cached(Lpn),
    /// A unit of waiting records, by its number.
    Records(u64),
}

/// The mirror of a running drive.
#[derive(Clone, Debug)]
pub(crate) struct Protected {
    places: Places,
    header: Header,
    unit_of: HashMap<Stored, u32>,
    free: Vec<u32>,
    /// The places of the units that enter now.
    entering: Vec<u32>,
    records: u32,
    records_checksum: u32,
}

impl Protected {
    /// The mirror of a drive whose image is a file; `None` for others. Nothing in it is valid until
    /// [`Protected::restart`].
    pub fn new(nand: &Nand, dump_blocks: u32, config: &FtlConfig) -> Result<Option<Protected>, FtlError> {
        if !nand.outlives_process() || dump_blocks == 0 {
            return Ok(None);
        }
        let places = Places::new(nand.geometry(), dump_blocks, config);
        let header = read_header(nand)?.unwrap_or(Header::new_zeroed());
        Ok(Some(Protected {
            places,
            header,
            unit_of: HashMap::default(),
            free: Vec::new(),
            entering: Vec::new(),
            records: 0,
            records_checksum: 0,
        }))
    }

    /// Voids everything, and names the blocks for the next dump.
    pub fn restart(&mut self, nand: &mut Nand, dump_blocks: &[BlockId]) -> Result<(), FtlError> {
        let epoch = self.header.epoch.get() + 1;
        let list: Vec<u8> = dump_blocks.iter().flat_map(|block| block.0.to_le_bytes()).collect();
        nand.write_protected(self.places.list(epoch), &list)?;
        self.header.epoch = epoch.into();
        self.header.dump_blocks = (dump_blocks.len() as u32).into();
        self.header.list_checksum = checksum_of(&list).into();
        self.write_header(nand)?;
        self.unit_of.clear();
        self.free = (0..self.places.unit_count).rev().collect();
        (self.records, self.records_checksum) = (0, 0);
        Ok(())
    }

    /// A checkpoint is about to be programmed: anything dumped later must have a later step.
    pub fn checkpoint(&mut self, nand: &mut Nand, step: Seq) -> Result<(), FtlError> {
        let last = self.header.checkpoint_step.get();
        debug_assert!(step.0 >= last, "a checkpoint of step {step} is announced after one of step {last}");
        self.header.checkpoint_step = step.0.into();
        self.write_header(nand)
    }

    fn write_header(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        self.header.magic = MAGIC.into();
        self.header.checksum = self.header.checksum().into();
        Ok(nand.write_protected(0, self.header.as_bytes())?)
    }

    /// Units enter the cache in one step: a process killed before it is over leaves none of them.
    pub fn cached(&mut self, nand: &mut Nand, units: &[HostUnit], data: &[u8]) -> Result<(), FtlError> {
        let entry = if units.len() > 1 { self.header.entries.get() + 1 } else { 0 };
        self.entering.clear();
        for (unit, data) in units.iter().zip(data.chunks(UNIT_BYTES)) {
            let index = self.store(nand, unit, data, entry)?;
            self.entering.push(index);
        }
        if entry > 0 {
            self.header.entries = entry.into();
            self.write_header(nand)?;
        }
        for (place, unit) in units.iter().enumerate() {
            self.enters(nand, unit.lpn, self.entering[place])?;
        }
        Ok(())
    }

    /// Stores a unit in a free place.
    fn store(&mut self, nand: &mut Nand, unit: &HostUnit, data: &[u8], entry: u64) -> Result<u32, FtlError> {
        let index = self.take_place();
        nand.write_protected(self.places.unit(index), data)?;
        self.write_head(nand, index, unit.spare(unit.version), data, entry)?;
        Ok(index)
    }

    /// What is stored at a place counts, and what it replaces no longer does.
    fn enters(&mut self, nand: &mut Nand, lpn: Lpn, index: u32) -> Result<(), FtlError> {
        match self.unit_of.insert(Stored::Cached(lpn), index) {
            Some(replaced) => self.void(nand, replaced),
            None => Ok(()),
        }
    }

    /// A unit of records waits to be programmed, or has grown: of its `data`, the bytes in `new` are not stored yet,
    /// those before them are, and those after them are zeros.
    pub fn records_wait(
        &mut self,
        nand: &mut Nand,
        number: u64,
        spare: UnitSpare,
        data: &[u8],
        new: Range<usize>,
    ) -> Result<(), FtlError> {
        let index = match self.unit_of.get(&Stored::Records(number)) {
            Some(index) => *index,
            None => self.take_place(),
        };
        nand.write_protected(self.places.unit(index) + new.start as u64, &data[new])?;
        self.write_head(nand, index, spare, data, 0)?;
        self.unit_of.insert(Stored::Records(number), index);
        Ok(())
    }

    fn take_place(&mut self) -> u32 {
        self.free.pop().expect("there are more places than units wait, by as many as enter in one step")
    }

    /// Writes the head of a unit whose data are stored.
    fn write_head(
        &self,
        nand: &mut Nand,
        index: u32,
        spare: UnitSpare,
        data: &[u8],
        entry: u64,
    ) -> Result<(), FtlError> {
        let (checksum, data_checksum) = (0.into(), checksum_of(data).into());
        let epoch = self.header.epoch;
        let mut head = UnitHead { checksum, data_checksum, epoch, spare, entry: entry.into() };
        head.checksum = head.checksum().into();
        Ok(nand.write_protected(self.places.head(index), head.as_bytes())?)
    }

    /// A unit left the cache: it is on flash, or something recorded has replaced it.
    pub fn uncached(&mut self, nand: &mut Nand, lpn: Lpn) -> Result<(), FtlError> {
        self.remove(nand, Stored::Cached(lpn))
    }

    /// A unit of records no longer waits.
    pub fn records_programmed(&mut self, nand: &mut Nand, number: u64) -> Result<(), FtlError> {
        self.remove(nand, Stored::Records(number))
    }

    fn remove(&mut self, nand: &mut Nand, what: Stored) -> Result<(), FtlError> {
        match self.unit_of.remove(&what) {
            Some(index) => self.void(nand, index),
            None => Ok(()),
        }
    }

    fn void(&mut self, nand: &mut Nand, index: u32) -> Result<(), FtlError> {
        nand.write_protected(self.places.head(index), UnitHead::new_zeroed().as_bytes())?;
        debug_assert!(
            self.free.len() < self.places.unit_count as usize,
            "place {index} is freed, and all {} are free",
            self.places.unit_count
        );
        self.free.push(index);
        Ok(())
    }

    /// Overwrites the places in which nothing waits.
    pub fn scrub(&self, nand: &mut Nand) -> Result<(), FtlError> {
        for index in &self.free {
            nand.write_protected(self.places.unit(*index), &[0; UNIT_BYTES])?;
        }
        Ok(())
    }

    /// Records were appended to the journal's buffer.
    pub fn recorded<'a>(
        &mut self,
        nand: &mut Nand,
        records: impl Iterator<Item = &'a Record>,
    ) -> Result<(), FtlError> {
        let (mut bytes, before) = (Vec::new(), self.records);
        for record in records {
            record::encode_record(record, &mut bytes);
            self.records += 1;
        }
        let at = self.places.records() + u64::from(before) * record::RECORD_BYTES as u64;
        nand.write_protected(at, &bytes)?;
        self.records_checksum = checksum_with(self.records_checksum, &bytes);
        self.write_journal_head(nand)
    }

    /// The journal's buffer was programmed.
    pub fn journaled(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        (self.records, self.records_checksum) = (0, 0);
        self.write_journal_head(nand)
    }

    fn write_journal_head(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        let mut head = JournalHead {
            checksum: 0.into(),
            records: self.records.into(),
            epoch: self.header.epoch,
            records_checksum: self.records_checksum.into(),
        };
        head.checksum = head.checksum().into();
        Ok(nand.write_protected(self.places.journal, head.as_bytes())?)
    }
}

#[cfg(test)]
#[path = "protected_tests.rs"]
mod tests;
