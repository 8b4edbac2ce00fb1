//! The image file, byte by byte. All numbers are little-endian.
//!
//! | at | what |
//! |---|---|
//! | 0 | [`Header`]; its checksum covers the description too |
//! | 1024 | [`NvmHeader`], if there is non-volatile memory: version 4 |
//! | 2048 | two places for the tally (`tally`) |
//! | 4096 | the description, up to 64 KiB |
//! | 68 KiB | a [`BlockEntry`] for each block |
//! | then | a page record for each page: [`PageHead`] and its units' spare areas; none crosses a multiple of 4 KiB |
//! | then, aligned | the protected DRAM |
//! | then, aligned | the lines of the non-volatile memory (`nvm_lines.rs`), if there is one |
//! | then, aligned | the redo log of an image that survives the loss of the machine (`ordered`), 4 MiB |
//! | then, aligned | the slots, 4 KiB each; staged units may grow the file beyond one slot for each unit |
//!
//! Anything never written (a fresh block, an erased page) is a hole and reads as zeros. A page record counts only if it
//! has the erase count of its block. Data are written before the record that names them. The tallies before and after a
//! record tell a record that was being written when the process was killed from a damaged one. So a killed process
//! leaves each page erased or complete. A record that counts is overwritten in a single write, and no record crosses a
//! page of the host's cache, where such a write may stop.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::nvm_lines;
use super::redo_log::{REDO_LOG_BYTES, RedoPlace};
use super::{MAX_DESCRIPTION_BYTES, PageRecord};
use crate::checksum::{checksum_of, checksum_with};
use crate::geometry::{BlockId, Geometry, MAX_UNITS_PER_PAGE, PageId, UNIT_BYTES, UNIT_SPARE_BYTES};
use crate::nvm_shape::NvmShape;
use crate::slots::Slot;
use crate::state::{Block, PageState};
use crate::timing::Timing;

/// The magic number of an image.
pub const MAGIC: [u8; 8] = *b"TANTALUM";

/// The version of an image, with everything but non-volatile memory.
pub const VERSION: u32 = 3;

/// The version of an image with non-volatile memory: the newest that this module reads and writes. Images without one
/// keep the older number, which older programs read.
pub const VERSION_WITH_NVM: u32 = 4;

/// Position of the description of the non-volatile memory.
pub const NVM_HEADER_AT: u64 = 1024;

/// Where the description starts.
pub const DESCRIPTION_AT: u64 = 4096;

/// Bytes of the longest page record.
pub const MAX_PAGE_RECORD_BYTES: usize = size_of::<PageHead>() + MAX_UNITS_PER_PAGE * UNIT_SPARE_BYTES;

/// The image's first bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug, PartialEq)]
#[repr(C)]
pub struct Header {
    pub magic: [u8; 8],
    pub version: U32,
    pub checksum: U32,
    pub channels: U32,
    pub dies_per_channel: U32,
    pub planes_per_die: U32,
    pub blocks_per_plane: U32,
    pub pages_per_block: U32,
    pub page_bytes: U32,
    pub read_ns: U64,
    pub program_ns: U64,
    pub erase_ns: U64,
    pub channel_bytes_per_second: U64,
    pub protected_bytes: U64,
    pub description_bytes: U32,
    /// Bytes of the redo log: 4 MiB, or 0 in images older than the redo log.
    pub log_bytes: U32,
}

impl Header {
    pub fn new(
        geometry: &Geometry,
        timing: &Timing,
        description: &str,
        protected_bytes: u64,
        has_nvm: bool,
    ) -> Header {
        let mut header = Header {
            magic: MAGIC,
            version: if has_nvm { VERSION_WITH_NVM } else { VERSION }.into(),
            checksum: 0.into(),
            channels: geometry.channels.into(),
            dies_per_channel: geometry.dies_per_channel.into(),
            planes_per_die: geometry.planes_per_die.into(),
            blocks_per_plane: geometry.blocks_per_plane.into(),
            pages_per_block: geometry.pages_per_block.into(),
            page_bytes: geometry.page_bytes.into(),
            read_ns: timing.read_ns.into(),
            program_ns: timing.program_ns.into(),
            erase_ns: timing.erase_ns.into(),
            channel_bytes_per_second: timing.channel_bytes_per_second.into(),
            protected_bytes: protected_bytes.into(),
            description_bytes: (description.len() as u32).into(),
            log_bytes: (REDO_LOG_BYTES as u32).into(),
        };
        header.checksum = header.checksum_with(description.as_bytes()).into();
        header
    }

    pub fn checksum_with(&self, description: &[u8]) -> u32 {
        let unsigned = Header { checksum: 0.into(), ..*self };
        checksum_with(checksum_of(unsigned.as_bytes()), description)
    }

    pub fn geometry(&self) -> Geometry {
        Geometry {
            channels: self.channels.get(),
            dies_per_channel: self.dies_per_channel.get(),
            planes_per_die: self.planes_per_die.get(),
            blocks_per_plane: self.blocks_per_plane.get(),
            pages_per_block: self.pages_per_block.get(),
            page_bytes: self.page_bytes.get(),
        }
    }

    pub fn timing(&self) -> Timing {
        Timing {
            read_ns: self.read_ns.get(),
            program_ns: self.program_ns.get(),
            erase_ns: self.erase_ns.get(),
            channel_bytes_per_second: self.channel_bytes_per_second.get(),
        }
    }
}

/// The non-volatile memory of an image that has one.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug, PartialEq)]
#[repr(C)]
pub struct NvmHeader {
    pub checksum: U32,
    reserved: U32,
    bytes: U64,
    latency_ns: U64,
    bytes_per_second: U64,
}

impl NvmHeader {
    pub fn new(shape: &NvmShape) -> NvmHeader {
        let mut header = NvmHeader {
            checksum: 0.into(),
            reserved: 0.into(),
            bytes: shape.bytes.into(),
            latency_ns: shape.latency_ns.into(),
            bytes_per_second: shape.bytes_per_second.into(),
        };
        header.checksum = header.computed_checksum().into();
        header
    }

    pub fn computed_checksum(&self) -> u32 {
        checksum_of(&self.as_bytes()[size_of::<U32>()..])
    }

    pub fn shape(&self) -> NvmShape {
        NvmShape {
            bytes: self.bytes.get(),
            latency_ns: self.latency_ns.get(),
            bytes_per_second: self.bytes_per_second.get(),
        }
    }
}

const BAD: u32 = 1;
const TORN: u32 = 2;
const FAILED: u32 = 4;
/// Set before the first page is programmed, so that opening can skip the pages of other blocks; and with each erase,
/// since pages are programmed after it, so that the entry need not be written again for the first of them.
const USED: u32 = 8;

/// A block's record. All zeros: never erased, never programmed.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub struct BlockEntry {
    pub checksum: U32,
    erase_count: U32,
    flags: U32,
    reserved: [u8; 20],
}

impl BlockEntry {
    pub fn new(block: &Block) -> BlockEntry {
        let flag = |set, flag| if set { flag } else { 0 };
        let flags = flag(block.bad, BAD)
            | flag(block.torn, TORN)
            | flag(block.failed, FAILED)
            | flag(block.next_page > 0 || block.erase_count > 0, USED);
        let mut entry = BlockEntry {
            checksum: 0.into(),
            erase_count: block.erase_count.into(),
            flags: flags.into(),
            reserved: [0; 20],
        };
        entry.checksum = entry.computed_checksum().into();
        entry
    }

    pub fn is_fresh(&self) -> bool {
        self.as_bytes().iter().all(|byte| *byte == 0)
    }

    pub fn computed_checksum(&self) -> u32 {
        checksum_of(&self.as_bytes()[size_of::<U32>()..])
    }

    /// The block without its next page, and whether some of its pages may be programmed.
    pub fn decode(&self) -> (Block, bool) {
        let is = |flag| self.flags.get() & flag != 0;
        let block = Block {
            erase_count: self.erase_count.get(),
            next_page: 0,
            bad: is(BAD),
            torn: is(TORN),
            failed: is(FAILED),
        };
        (block, is(USED))
    }
}

/// The first bytes of a page's record. The checksum covers the rest of the record.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Debug)]
#[repr(C)]
pub struct PageHead {
    checksum: U32,
    pub erase_count: U32,
    pub operation: U64,
    pub slots: [U32; MAX_UNITS_PER_PAGE],
    state: u8,
    reserved: [u8; 7],
    /// CRC-32C of the data of each unit; 0 for padding.
    pub data_checksums: [U32; MAX_UNITS_PER_PAGE],
}

/// The state of a stored page record.
pub enum StoredPage {
    /// Never written, or cleared.
    Absent,
    /// Its checksum is wrong.
    Damaged(PageHead),
    /// Intact.
    Whole(PageHead),
}

impl PageHead {
    pub fn state(&self) -> PageState {
        PageState::from_byte(self.state)
    }

    /// The record's checksum as it is stored.
    pub fn checksum(&self) -> u32 {
        self.checksum.get()
    }

    /// Writes a page's record into `bytes`, which has the record's length; `data_checksums` are those of its slots.
    /// Returns the record's checksum.
    pub fn encode(record: &PageRecord, data_checksums: &[u32; MAX_UNITS_PER_PAGE], bytes: &mut [u8]) -> u32 {
        let (units, spares) = (record.slots.len(), record.spares.len());
        debug_assert!(spares == 0 || spares == units, "{spares} spare areas for {units} units");
        let mut head = PageHead::new_zeroed();
        head.erase_count = record.erase_count.into();
        head.operation = record.operation.into();
        head.state = record.state as u8;
        for (stored, &slot) in head.slots.iter_mut().zip(record.slots) {
            *stored = slot.into();
        }
        head.data_checksums = data_checksums.map(U32::new);
        let (head_bytes, spare_bytes) = bytes.split_at_mut(size_of::<PageHead>());
        head_bytes.copy_from_slice(head.as_bytes());
        let spares = record.spares.as_flattened();
        spare_bytes[..spares.len()].copy_from_slice(spares);
        spare_bytes[spares.len()..].fill(0);
        Self::seal(bytes)
    }

    /// Turns the whole record in `bytes` into that of an uncorrectable page with the same slots. Returns its checksum.
    pub fn spoil(&self, bytes: &mut [u8]) -> u32 {
        let head = PageHead { state: PageState::Uncorrectable as u8, ..*self };
        bytes[..size_of::<PageHead>()].copy_from_slice(head.as_bytes());
        bytes[size_of::<PageHead>()..].fill(0);
        Self::seal(bytes)
    }

    /// The correct checksum of a record's bytes.
    pub fn computed_checksum(bytes: &[u8]) -> u32 {
        checksum_of(&bytes[size_of::<U32>()..])
    }

    fn seal(bytes: &mut [u8]) -> u32 {
        let checksum = Self::computed_checksum(bytes);
        bytes[..size_of::<U32>()].copy_from_slice(U32::new(checksum).as_bytes());
        checksum
    }

    pub fn parse(bytes: &[u8]) -> StoredPage {
        let (head, _) = PageHead::read_from_prefix(bytes).expect("a record is longer than its head");
        if head.as_bytes().iter().all(|byte| *byte == 0) {
            StoredPage::Absent
        } else if head.checksum.get() != Self::computed_checksum(bytes) {
            StoredPage::Damaged(head)
        } else {
            StoredPage::Whole(head)
        }
    }
}

/// The places of the parts of an image.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub blocks_at: u64,
    pages_at: u64,
    pub page_record_bytes: usize,
    /// Distance between page records: a power of two, so that none crosses a page of the host's cache.
    pub page_stride: usize,
    pub protected_at: u64,
    /// Where the lines of non-volatile memory lie.
    pub nvm_at: u64,
    /// Where the redo log lies, if there is one.
    pub log: Option<RedoPlace>,
    pub slots_at: u64,
    /// The minimum length of a complete image.
    pub bytes: u64,
}

impl Layout {
    pub fn new(geometry: &Geometry, protected_bytes: u64, nvm_bytes: u64, log_bytes: u64) -> Layout {
        let aligned = |at: u64| at.next_multiple_of(UNIT_BYTES as u64);
        let page_record_bytes = size_of::<PageHead>() + geometry.units_per_page() as usize * UNIT_SPARE_BYTES;
        let page_stride = page_record_bytes.next_power_of_two();
        let blocks_at = DESCRIPTION_AT + MAX_DESCRIPTION_BYTES as u64;
        let pages_at = aligned(blocks_at + u64::from(geometry.blocks()) * size_of::<BlockEntry>() as u64);
        let protected_at = aligned(pages_at + u64::from(geometry.pages()) * page_stride as u64);
        let nvm_at = aligned(protected_at + protected_bytes);
        let log_at = aligned(nvm_at + nvm_lines::file_bytes(nvm_bytes));
        let slots_at = aligned(log_at + log_bytes);
        let log = (log_bytes > 0).then_some(RedoPlace { log_at, slots_at });
        let bytes = slots_at + u64::from(geometry.units()) * UNIT_BYTES as u64;
        Layout {
            blocks_at,
            pages_at,
            page_record_bytes,
            page_stride,
            protected_at,
            nvm_at,
            log,
            slots_at,
            bytes,
        }
    }

    pub fn block_at(&self, block: BlockId) -> u64 {
        self.blocks_at + u64::from(block.0) * size_of::<BlockEntry>() as u64
    }

    pub fn page_at(&self, page: PageId) -> u64 {
        self.pages_at + u64::from(page.0) * self.page_stride as u64
    }

    pub fn slot_at(&self, slot: Slot) -> u64 {
        self.slots_at + slot.index() as u64 * UNIT_BYTES as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::tally::TALLY_AT;
    use super::*;

    #[test]
    fn sizes_on_the_image_are_fixed() {
        assert_eq!(size_of::<Header>(), 88);
        assert_eq!(size_of::<NvmHeader>(), 32);
        assert!(size_of::<Header>() as u64 <= NVM_HEADER_AT);
        assert!(NVM_HEADER_AT + size_of::<NvmHeader>() as u64 <= TALLY_AT);
        assert_eq!(size_of::<BlockEntry>(), 32);
        assert_eq!(size_of::<PageHead>(), 56);
        assert_eq!(MAX_PAGE_RECORD_BYTES, 568);
        assert!(size_of::<Header>() as u64 <= TALLY_AT);
    }

    #[test]
    fn no_page_record_crosses_a_page_of_the_hosts_cache() {
        for page_bytes in [4096, 8192, 16384] {
            let layout = Layout::new(&Geometry { page_bytes, ..crate::test_support::GEOMETRY }, 0, 0, 0);
            for page in (0..200).map(PageId) {
                let (first, last) =
                    (layout.page_at(page), layout.page_at(page) + layout.page_record_bytes as u64 - 1);
                assert_eq!(first / 4096, last / 4096, "page {page} of {page_bytes} bytes");
            }
        }
    }

    #[test]
    fn header_round_trips_and_its_checksum_covers_every_byte() {
        let geometry = Geometry {
            channels: 2,
            dies_per_channel: 3,
            planes_per_die: 4,
            blocks_per_plane: 5,
            pages_per_block: 6,
            page_bytes: 8192,
        };
        let timing = Timing { read_ns: 7, program_ns: 8, erase_ns: 9, channel_bytes_per_second: 10 };
        let header = Header::new(&geometry, &timing, "text", 11, false);
        assert_eq!(header.geometry(), geometry);
        assert_eq!(header.timing(), timing);
        assert_eq!((header.protected_bytes.get(), header.description_bytes.get()), (11, 4));
        let stored = header.checksum.get();
        assert_eq!(header.checksum_with(b"text"), stored);
        assert_ne!(header.checksum_with(b"tent"), stored);
        for byte in (0..12).chain(16..88) {
            let mut bytes = [0; 88];
            bytes.copy_from_slice(header.as_bytes());
            bytes[byte] ^= 0x10;
            let changed = Header::read_from_bytes(&bytes).unwrap();
            assert_ne!(changed.checksum_with(b"text"), stored, "byte {byte}");
        }
    }

    #[test]
    fn the_memorys_header_round_trips_and_any_damage_shows() {
        let shape = NvmShape { bytes: 1 << 31, latency_ns: 300, bytes_per_second: 2_000_000_000 };
        let header = NvmHeader::new(&shape);
        assert_eq!((header.shape(), header.checksum.get()), (shape, header.computed_checksum()));
        for byte in 0..size_of::<NvmHeader>() {
            let mut bytes = [0; 32];
            bytes.copy_from_slice(header.as_bytes());
            bytes[byte] ^= 0x10;
            let changed = NvmHeader::read_from_bytes(&bytes).unwrap();
            assert_ne!(changed.checksum.get(), changed.computed_checksum(), "byte {byte}");
        }
    }

    #[test]
    fn block_entry_round_trips_every_flag() {
        for bits in 0..32_u32 {
            let is = |bit: u32| bits & (1 << bit) != 0;
            let block = Block {
                erase_count: u32::from(is(4)) * 77,
                next_page: u32::from(is(0)) * 5,
                bad: is(1),
                torn: is(2),
                failed: is(3),
            };
            let entry = BlockEntry::new(&block);
            assert_eq!(entry.checksum.get(), entry.computed_checksum());
            assert!(!entry.is_fresh());
            assert_eq!(entry.decode(), (Block { next_page: 0, ..block }, is(0) || is(4)));
        }
        assert!(BlockEntry::new_zeroed().is_fresh());
    }

    #[test]
    fn page_record_round_trips_and_any_damage_shows() {
        let spares = [[0xA5; UNIT_SPARE_BYTES], [0x5A; UNIT_SPARE_BYTES]];
        let record = PageRecord {
            erase_count: 3,
            operation: 1 << 40,
            state: PageState::Programmed,
            slots: &[17, 0],
            spares: &spares,
        };
        let mut bytes = vec![0; size_of::<PageHead>() + 2 * UNIT_SPARE_BYTES];
        assert!(matches!(PageHead::parse(&bytes), StoredPage::Absent));
        let checksum = PageHead::encode(&record, &[5, 6, 0, 0], &mut bytes);
        let StoredPage::Whole(head) = PageHead::parse(&bytes) else { panic!("the record is whole") };
        assert_eq!((head.erase_count.get(), head.operation.get()), (3, 1 << 40));
        assert_eq!(head.slots.map(|slot| slot.get()), [17, 0, 0, 0]);
        assert_eq!(head.data_checksums.map(|checksum| checksum.get()), [5, 6, 0, 0]);
        assert_eq!((head.state(), head.checksum()), (PageState::Programmed, checksum));
        assert_eq!(&bytes[size_of::<PageHead>()..], spares.as_flattened());
        for byte in 0..bytes.len() {
            bytes[byte] ^= 1;
            assert!(matches!(PageHead::parse(&bytes), StoredPage::Damaged(_)), "byte {byte}");
            bytes[byte] ^= 1;
        }
        let checksum = head.spoil(&mut bytes);
        let StoredPage::Whole(head) = PageHead::parse(&bytes) else { panic!("the record is whole") };
        assert_eq!((head.state(), head.slots[0].get()), (PageState::Uncorrectable, 17));
        assert_eq!(head.checksum(), checksum);
    }
}
