//! What a capacitor protects, mirrored into the image: killing the process is a power cut that PLP survives.
//!
//! A cut within a process leaves the controller's DRAM to be dumped. A killed process leaves only the image. So a drive
//! with a capacitor in a file stores there what the dump would save: the units that wait in the cache and the records
//! that wait in the journal's buffer. Opening the image dumps them as the capacitor would have, and recovery finds them
//! like any other pages.
//!
//! Everything issued to the flash is done when a process is killed, so every record is ready. A unit is stored before
//! its write is acknowledged, and voided after it is on flash or something recorded has replaced it. Unit heads,
//! journal head and header are each written in a single write and carry a checksum. They count only in the epoch that
//! the header names, so that one write voids them all. A unit that is briefly in the cache twice does no harm: the fold
//! takes the greater version.
//!
//! A unit of records grows in place: new bytes are written after the existing ones, and then the head. So there may be
//! anything after the last record that a head covers, and it is taken for zeros.
//!
//! | where | what |
//! |---|---|
//! | 0 | the header: epoch, the step of the last checkpoint |
//! | 4096 | two lists of dump blocks; the one of the epoch's parity counts |
//! | then | the journal's head, and one page of records |
//! | then | heads of units, 256 bytes each |
//! | then | units, 4096 bytes each |

use std::collections::BTreeSet;
use std::ops::Range;

use tantalum_nand::{
    BlockId, Geometry, Nand, NandError, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare, checksum_of, checksum_with,
};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::dump_pages::DumpPages;
use super::record::{self, Record};
use crate::error::{Damage, FtlError};
use crate::host_unit::HostUnit;
use crate::spare::{self, Kind, Spare};
use crate::types::{HashMap, Lpn, Metadata, Seq};

const MAGIC: u32 = u32::from_le_bytes(*b"TPD2");
const HEAD_BYTES: u64 = 256;
const ALIGNMENT: u64 = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: U32,
    checksum: U32,
    epoch: U64,
    checkpoint_step: U64,
    dump_blocks: U32,
    /// Checksum of the list of dump blocks.
    list_checksum: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct JournalHead {
    checksum: U32,
    records: U32,
    epoch: U64,
    /// Checksum of the records.
    records_checksum: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct UnitHead {
    checksum: U32,
    /// Checksum of the unit's data; for a unit of records, with zeros after the last one.
    data_checksum: U32,
    epoch: U64,
    spare: [u8; UNIT_SPARE_BYTES],
}

const _: () = assert!(size_of::<UnitHead>() as u64 <= HEAD_BYTES);

impl Header {
    fn checksum(&self) -> u32 {
        checksum_of(&self.as_bytes()[8..])
    }
}

impl JournalHead {
    fn checksum(&self) -> u32 {
        checksum_of(&self.as_bytes()[4..])
    }
}

impl UnitHead {
    fn checksum(&self) -> u32 {
        checksum_of(&self.as_bytes()[4..])
    }
}

/// Layout of protected DRAM, in bytes.
#[derive(Clone, Copy, Debug)]
struct Places {
    list_bytes: u64,
    journal: u64,
    heads: u64,
    units: u64,
    unit_count: u32,
}

impl Places {
    fn new(geometry: &Geometry, dump_blocks: u32, cache_units: u32) -> Places {
        let list_bytes = (u64::from(dump_blocks) * 4).next_multiple_of(ALIGNMENT);
        let journal = ALIGNMENT + 2 * list_bytes;
        let heads = journal + ALIGNMENT + u64::from(geometry.page_bytes);
        // a page of units with records waits beside the cache, and one more: a rewrite is stored before what it
        // replaces is voided
        let unit_count = cache_units + geometry.units_per_page() + 1;
        let units = heads + (u64::from(unit_count) * HEAD_BYTES).next_multiple_of(ALIGNMENT);
        Places { list_bytes, journal, heads, units, unit_count }
    }

    fn bytes(&self) -> u64 {
        self.units + u64::from(self.unit_count) * UNIT_BYTES as u64
    }

    fn list(&self, epoch: u64) -> u64 {
        ALIGNMENT + epoch % 2 * self.list_bytes
    }

    fn records(&self) -> u64 {
        self.journal + ALIGNMENT
    }

    fn head(&self, index: u32) -> u64 {
        self.heads + u64::from(index) * HEAD_BYTES
    }

    fn unit(&self, index: u32) -> u64 {
        self.units + u64::from(index) * UNIT_BYTES as u64
    }
}

/// Protected DRAM that a drive with a capacitor needs in its image, bytes.
pub fn protected_bytes(geometry: &Geometry, dump_blocks: u32, cache_units: u32) -> u64 {
    Places::new(geometry, dump_blocks, cache_units).bytes()
}

/// The kind of contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stored {
    /// A unit of the cache.
    Cached(Lpn),
    /// A unit of records that wait, by its number.
    Records(u64),
}

/// The mirror of a running drive.
#[derive(Clone, Debug)]
pub(crate) struct Protected {
    places: Places,
    header: Header,
    unit_of: HashMap<Stored, u32>,
    free: Vec<u32>,
    records: u32,
    records_checksum: u32,
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").field("epoch", &self.epoch.get()).finish_non_exhaustive()
    }
}

impl Protected {
    /// The mirror of a drive whose image is a file; none for others. Nothing in it is valid until
    /// [`Protected::restart`].
    pub fn new(nand: &Nand, dump_blocks: u32, cache_units: u32) -> Result<Option<Protected>, FtlError> {
        if !nand.outlives_process() || dump_blocks == 0 {
            return Ok(None);
        }
        let places = Places::new(nand.geometry(), dump_blocks, cache_units);
        let header = read_header(nand)?.unwrap_or(Header::new_zeroed());
        Ok(Some(Protected {
            places,
            header,
            unit_of: HashMap::default(),
            free: Vec::new(),
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
        self.header.checkpoint_step = step.0.into();
        self.write_header(nand)
    }

    fn write_header(&mut self, nand: &mut Nand) -> Result<(), FtlError> {
        self.header.magic = MAGIC.into();
        self.header.checksum = self.header.checksum().into();
        Ok(nand.write_protected(0, self.header.as_bytes())?)
    }

    /// A unit enters the cache.
    pub fn cached(&mut self, nand: &mut Nand, unit: &HostUnit, data: &[u8]) -> Result<(), FtlError> {
        let index = self.take_place();
        nand.write_protected(self.places.unit(index), data)?;
        self.write_head(nand, index, unit.spare(unit.version), data)?;
        match self.unit_of.insert(Stored::Cached(unit.lpn), index) {
            Some(replaced) => self.void(nand, replaced),
            None => Ok(()),
        }
    }

    /// A unit of records waits to be programmed, or has grown: of its `data`, those in `new` are not stored yet, those
    /// before them are, and those after them are zeros.
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
        self.write_head(nand, index, spare, data)?;
        self.unit_of.insert(Stored::Records(number), index);
        Ok(())
    }

    fn take_place(&mut self) -> u32 {
        self.free.pop().expect("there is one place more than units wait")
    }

    /// Writes the head of a unit whose data are stored.
    fn write_head(&self, nand: &mut Nand, index: u32, spare: UnitSpare, data: &[u8]) -> Result<(), FtlError> {
        let data_checksum = checksum_of(data).into();
        let mut head = UnitHead { checksum: 0.into(), data_checksum, epoch: self.header.epoch, spare };
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
        self.free.push(index);
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

fn damaged(part: &'static str) -> FtlError {
    Damage::Protected { part }.into()
}

fn read<T: FromBytes + IntoBytes>(nand: &Nand, at: u64) -> Result<T, NandError> {
    let mut value = T::new_zeroed();
    nand.read_protected(at, value.as_mut_bytes())?;
    Ok(value)
}

/// The header; none before the first one was written.
fn read_header(nand: &Nand) -> Result<Option<Header>, FtlError> {
    let header: Header = read(nand, 0)?;
    if header.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if header.magic.get() != MAGIC || header.checksum.get() != header.checksum() {
        return Err(damaged("the header"));
    }
    Ok(Some(header))
}

/// Returns how many bytes of a unit have contents.
type FilledBytes = fn(&Spare) -> usize;

/// What a killed process left behind.
struct Left {
    dump_blocks: Vec<BlockId>,
    checkpoint_step: Seq,
    units: Vec<(UnitSpare, Vec<u8>)>,
    records: Vec<Record>,
}

impl Left {
    fn read(nand: &Nand, places: &Places, filled_bytes: FilledBytes) -> Result<Option<Left>, FtlError> {
        let Some(header) = read_header(nand)? else { return Ok(None) };
        let count = header.dump_blocks.get();
        if u64::from(count) * 4 > places.list_bytes {
            return Err(damaged("the number of dump blocks"));
        }
        let mut list = vec![0; count as usize * 4];
        nand.read_protected(places.list(header.epoch.get()), &mut list)?;
        if checksum_of(&list) != header.list_checksum.get() {
            return Err(damaged("the list of dump blocks"));
        }
        let (ids, _) = list.as_chunks();
        let dump_blocks: Vec<BlockId> = ids.iter().map(|id| BlockId(u32::from_le_bytes(*id))).collect();
        if dump_blocks.iter().any(|block| block.0 >= nand.geometry().blocks()) {
            return Err(damaged("a dump block"));
        }
        let mut units = Vec::new();
        let mut heads = vec![0; places.unit_count as usize * HEAD_BYTES as usize];
        nand.read_protected(places.heads, &mut heads)?;
        for (index, head) in (0..).zip(heads.chunks_exact(HEAD_BYTES as usize)) {
            units.extend(read_unit(nand, places, (index, head), header.epoch.get(), filled_bytes)?);
        }
        Ok(Some(Left {
            dump_blocks,
            checkpoint_step: Seq(header.checkpoint_step.get()),
            units,
            records: read_records(nand, places, header.epoch.get())?,
        }))
    }
}

fn read_unit(
    nand: &Nand,
    places: &Places,
    (index, head): (u32, &[u8]),
    epoch: u64,
    filled_bytes: FilledBytes,
) -> Result<Option<(UnitSpare, Vec<u8>)>, FtlError> {
    let (head, _) = UnitHead::read_from_prefix(head).expect("a head is not larger than its place");
    if head.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if head.checksum.get() != head.checksum() {
        return Err(damaged("the head of a unit"));
    }
    if head.epoch.get() != epoch {
        return Ok(None);
    }
    let spare = Spare::decode(&head.spare).ok_or_else(|| damaged("a unit"))?;
    let mut data = vec![0; UNIT_BYTES];
    nand.read_protected(places.unit(index), &mut data)?;
    data[filled_bytes(&spare)..].fill(0);
    if checksum_of(&data) != head.data_checksum.get() {
        return Err(damaged("a unit"));
    }
    Ok(Some((head.spare, data)))
}

fn read_records(nand: &Nand, places: &Places, epoch: u64) -> Result<Vec<Record>, FtlError> {
    let head: JournalHead = read(nand, places.journal)?;
    if head.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(Vec::new());
    }
    let most = record::records_per_page(nand.geometry().units_per_page());
    if head.checksum.get() != head.checksum() || head.records.get() as usize > most {
        return Err(damaged("the head of the journal"));
    }
    if head.epoch.get() != epoch {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0; head.records.get() as usize * record::RECORD_BYTES];
    nand.read_protected(places.records(), &mut bytes)?;
    if checksum_of(&bytes) != head.records_checksum.get() {
        return Err(damaged("the journal"));
    }
    record::decode_records(&bytes).ok_or_else(|| damaged("a record"))
}

/// Dumps what a killed process left, as the capacitor would have. Returns the number of units that had been waiting. A
/// kill during this does no harm: what is already in the dump blocks is not dumped again.
pub(crate) fn dump_what_is_left(
    nand: &mut Nand,
    dump_blocks: u32,
    cache_units: u32,
    filled_bytes: FilledBytes,
) -> Result<u64, FtlError> {
    if !nand.outlives_process() || dump_blocks == 0 {
        return Ok(0);
    }
    let places = Places::new(nand.geometry(), dump_blocks, cache_units);
    let Some(left) = Left::read(nand, &places, filled_bytes)? else { return Ok(0) };
    let dumped = Dumped::find(nand, &left.dump_blocks)?;
    let step = left.next_step();
    let restored = left.units.len() as u64;
    let mut dump = DumpPages::new(left.dump_blocks);
    for (mut bytes, data) in left.units {
        let spare = Spare::decode(&bytes).ok_or_else(|| damaged("a unit"))?;
        if dumped.units.contains(&identity(&spare)) {
            continue;
        }
        bytes[..8].copy_from_slice(&spare::head(step));
        let slot = nand.stage(&data)?;
        dump.push(nand, slot, bytes, 0)?;
    }
    dump.end_page(nand, 0)?;
    if !dumped.journal {
        dump.push_records(nand, &left.records, step, 0)?;
    }
    Ok(restored)
}

impl Left {
    /// A step after everything that is left and after the checkpoint.
    fn next_step(&self) -> Seq {
        let versions = self.units.iter().filter_map(|(bytes, _)| Spare::decode(bytes));
        let units = versions.map(|spare| spare.step);
        let newest = units.chain(self.records.iter().map(Record::newest_seq)).chain([self.checkpoint_step]);
        Seq(newest.max().unwrap_or_default().0 + 1)
    }
}

/// What an interrupted attempt has already dumped.
struct Dumped {
    units: BTreeSet<Identity>,
    journal: bool,
}

/// What identifies a unit: owners with versions, and for records the metadata, which also contain a version.
type Identity = (Vec<(Lpn, Seq)>, Metadata);

fn identity(spare: &Spare) -> Identity {
    (spare.owners().to_vec(), spare.metadata)
}

impl Dumped {
    fn find(nand: &Nand, blocks: &[BlockId]) -> Result<Dumped, FtlError> {
        let mut dumped = Dumped { units: BTreeSet::new(), journal: false };
        let mut scratch = Vec::new();
        for block in blocks {
            for spare in
                nand.block_spares(*block, &mut scratch)?.filter_map(|(_, spare)| Spare::decode(spare))
            {
                dumped.journal |= spare.kind == Kind::Journal;
                dumped.units.insert(identity(&spare));
            }
        }
        Ok(dumped)
    }
}

#[cfg(test)]
#[path = "protected_tests.rs"]
mod tests;
