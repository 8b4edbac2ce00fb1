//! The layout of protected DRAM in an image: what is where, and the heads, each with a checksum.

use tantalum_nand::{Geometry, Nand, NandError, UNIT_BYTES, UNIT_SPARE_BYTES, checksum_of};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Damage, FtlError};
use crate::space::FtlConfig;

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"TPD2");
pub(super) const HEAD_BYTES: u64 = 256;
pub(super) const ALIGNMENT: u64 = 4096;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub magic: U32,
    pub checksum: U32,
    pub epoch: U64,
    pub checkpoint_step: U64,
    pub dump_blocks: U32,
    /// Checksum of the list of dump blocks.
    pub list_checksum: U32,
    /// How often several units have entered the cache in one step.
    pub entries: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct JournalHead {
    pub checksum: U32,
    pub records: U32,
    pub epoch: U64,
    /// Checksum of the records.
    pub records_checksum: U32,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct UnitHead {
    pub checksum: U32,
    /// Checksum of the unit's data; for a unit of records, with zeros after the last one.
    pub data_checksum: U32,
    pub epoch: U64,
    pub spare: [u8; UNIT_SPARE_BYTES],
    /// Which of these steps it entered in, so that it counts only once the header does; 0 for a unit alone.
    pub entry: U64,
}

const _: () = assert!(size_of::<UnitHead>() as u64 <= HEAD_BYTES);

/// The bytes that a checksum covers. A number at the end that is 0 is not one of them: images from before there was such a
/// number are still valid.
fn covered(bytes: &[u8], last: U64) -> &[u8] {
    &bytes[..bytes.len() - if last.get() == 0 { size_of::<U64>() } else { 0 }]
}

impl Header {
    pub fn checksum(&self) -> u32 {
        checksum_of(&covered(self.as_bytes(), self.entries)[8..])
    }
}

impl JournalHead {
    pub fn checksum(&self) -> u32 {
        checksum_of(&self.as_bytes()[4..])
    }
}

impl UnitHead {
    pub fn checksum(&self) -> u32 {
        checksum_of(&covered(self.as_bytes(), self.entry)[4..])
    }
}

/// Layout of protected DRAM, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub list_bytes: u64,
    pub journal: u64,
    pub heads: u64,
    pub units: u64,
    pub unit_count: u32,
}

impl Places {
    pub fn new(geometry: &Geometry, dump_blocks: u32, config: &FtlConfig) -> Places {
        let list_bytes = (u64::from(dump_blocks) * 4).next_multiple_of(ALIGNMENT);
        let journal = ALIGNMENT + 2 * list_bytes;
        let heads = journal + ALIGNMENT + u64::from(geometry.page_bytes);
        // a page of units with records waits beside the cache, and as many more as enter it in one step: a rewrite is stored
        // before what it replaces is voided
        let unit_count = config.protected_units + geometry.units_per_page() + config.units_at_once;
        let units = heads + (u64::from(unit_count) * HEAD_BYTES).next_multiple_of(ALIGNMENT);
        Places { list_bytes, journal, heads, units, unit_count }
    }

    pub fn bytes(&self) -> u64 {
        self.units + u64::from(self.unit_count) * UNIT_BYTES as u64
    }

    pub fn list(&self, epoch: u64) -> u64 {
        ALIGNMENT + epoch % 2 * self.list_bytes
    }

    pub fn records(&self) -> u64 {
        self.journal + ALIGNMENT
    }

    pub fn head(&self, index: u32) -> u64 {
        self.heads + u64::from(index) * HEAD_BYTES
    }

    pub fn unit(&self, index: u32) -> u64 {
        self.units + u64::from(index) * UNIT_BYTES as u64
    }
}

/// Protected DRAM that a drive with a capacitor needs in its image, bytes.
pub fn protected_bytes(geometry: &Geometry, dump_blocks: u32, config: &FtlConfig) -> u64 {
    Places::new(geometry, dump_blocks, config).bytes()
}

impl std::fmt::Debug for Header {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Header").field("epoch", &self.epoch.get()).finish_non_exhaustive()
    }
}

pub(super) fn damaged(part: &'static str) -> FtlError {
    Damage::Protected { part }.into()
}

pub(super) fn read<T: FromBytes + IntoBytes>(nand: &Nand, at: u64) -> Result<T, NandError> {
    let mut value = T::new_zeroed();
    nand.read_protected(at, value.as_mut_bytes())?;
    Ok(value)
}

/// The header; none before the first one was written.
pub(super) fn read_header(nand: &Nand) -> Result<Option<Header>, FtlError> {
    let header: Header = read(nand, 0)?;
    if header.as_bytes().iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    if header.magic.get() != MAGIC || header.checksum.get() != header.checksum() {
        return Err(damaged("the header"));
    }
    Ok(Some(header))
}
