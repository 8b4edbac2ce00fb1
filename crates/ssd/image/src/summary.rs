//! What opening needs of the page records, in one piece: an image that was shut down cleanly has it behind the empty group of
//! its redo log, in the order of its blocks.
//!
//! It spares opening the page records, of which there is a kilobyte for each page; a page of four units takes 33 bytes here.
//! Invariants:
//! - It counts only if its own checksum is right and it names the tally that the image has. Each change of a record, by
//!   whichever program, writes another tally first. And what it says of the blocks must add up to that tally, together with
//!   their entries. Otherwise it is ignored.
//! - Whoever changes records without the redo log ends it first, durably: a lost machine may keep their records and lose the tally.
//! - It is written when everything that it says is durable in place, and no sync makes it durable: what is lost of it shows.
//! - Nothing needs it. The next group of the redo log overwrites its start.
//! - Whoever reads page records later finds out whether they are damaged (`file/records.rs`), as opening did not look at them.
//!
//! Blocks may be missing: those that no longer fit, and those of which an erase failed or was torn. Their page records are read.

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::checksum_of;
use crate::geometry::{BlockId, Geometry};
use crate::redo_file::SECTOR;
use crate::redo_log::REDO_LOG_BYTES;
use crate::slots::Slot;
use crate::state::{Block, MOVED, PageState};
use crate::tally::{Sums, Tally};

/// Where it begins in the redo log: where the next group will.
pub(super) const SUMMARY_AT: u64 = SECTOR as u64;

/// As many bytes have room.
const MOST_BYTES: usize = REDO_LOG_BYTES as usize - SECTOR;

/// What it begins with.
pub(super) const MAGIC: [u8; 8] = *b"TANTSUM1";

/// What a medium has in memory about its flash.
#[derive(Clone, Copy)]
pub struct MediumState<'a> {
    /// The blocks by their number.
    pub blocks: &'a [Block],
    /// [`PageState`] of each page.
    pub page_states: &'a [u8],
    /// The slot of each unit, with [`MOVED`]; 0 for none.
    pub slot_of: &'a [u32],
    /// Operations so far.
    pub operations: u64,
}

/// Precedes everything else.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    /// Of all that follows it.
    checksum: U32,
    /// Bytes behind the head.
    bytes: U32,
    tally: Tally,
    operations: U64,
}

const HEAD_BYTES: usize = size_of::<Head>();
const CHECKED_FROM: usize = 12;

/// Precedes a block's pages up to the last programmed one: a byte with the state of each, and [`UnitSummary`] of each of their
/// units.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct BlockHead {
    block: U32,
    next_page: U32,
    /// What its page records add to the tally.
    pages: U64,
}

/// A unit's place in the file, and the checksum of its data.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct UnitSummary {
    slot: U32,
    data_checksum: U32,
}

impl UnitSummary {
    /// The slot, with [`MOVED`]; 0 for none.
    pub fn slot(&self) -> u32 {
        self.slot.get()
    }

    /// The checksum of the data of a slot that the unit owns.
    pub fn data_checksum(&self) -> u32 {
        self.data_checksum.get()
    }
}

/// The bytes of a summary of an image whose tally this is. `data_checksums` has those of the slots.
pub(super) fn encode(
    geometry: &Geometry,
    state: &MediumState<'_>,
    sums: &Sums,
    data_checksums: &[u32],
    tally: Tally,
) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_BYTES];
    for (block, record) in (0..).map(BlockId).zip(state.blocks) {
        let is_used = record.next_page > 0 || record.erase_count > 0;
        let (pages, units) = (record.next_page as usize, geometry.units_per_page() as usize);
        if !is_used || record.failed || record.torn {
            continue;
        }
        let length = size_of::<BlockHead>() + pages * (1 + units * size_of::<UnitSummary>());
        if bytes.len() + length > MOST_BYTES {
            break;
        }
        let (page, unit) = (geometry.page(block, 0).index(), geometry.first_unit(block).index());
        let (number, next_page) = (block.0.into(), record.next_page.into());
        let head = BlockHead { block: number, next_page, pages: sums.block(block).pages.into() };
        bytes.extend_from_slice(head.as_bytes());
        bytes.extend_from_slice(&state.page_states[page..page + pages]);
        for &slot in &state.slot_of[unit..unit + pages * units] {
            let is_owned = slot != 0 && slot & MOVED == 0;
            let data_checksum = if is_owned { data_checksums[Slot(slot).index()] } else { 0 };
            let unit = UnitSummary { slot: slot.into(), data_checksum: data_checksum.into() };
            bytes.extend_from_slice(unit.as_bytes());
        }
    }
    let mut head = Head {
        magic: MAGIC,
        checksum: 0.into(),
        bytes: ((bytes.len() - HEAD_BYTES) as u32).into(),
        tally,
        operations: state.operations.into(),
    };
    bytes[..HEAD_BYTES].copy_from_slice(head.as_bytes());
    head.checksum = checksum_of(&bytes[CHECKED_FROM..]).into();
    bytes[..HEAD_BYTES].copy_from_slice(head.as_bytes());
    bytes
}

/// A summary that was read.
pub(super) struct Summary {
    pub operations: u64,
    body: Vec<u8>,
}

impl Summary {
    /// The summary that `read` reads from the redo log, if there is one of an image with this tally.
    pub fn read<E>(
        tally: &Tally,
        read: impl Fn(&mut [u8], u64) -> Result<(), E>,
    ) -> Result<Option<Summary>, E> {
        let mut head = Head::new_zeroed();
        read(head.as_mut_bytes(), SUMMARY_AT)?;
        let length = HEAD_BYTES + head.bytes.get() as usize;
        if head.magic != MAGIC || length > MOST_BYTES || head.tally != *tally {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        read(&mut bytes, SUMMARY_AT)?;
        let is_whole = checksum_of(&bytes[CHECKED_FROM..]) == head.checksum.get();
        let operations = head.operations.get();
        Ok(is_whole.then(|| Summary { operations, body: bytes.split_off(HEAD_BYTES) }))
    }

    /// Its blocks, from the first on.
    pub fn blocks(&self, geometry: &Geometry) -> SummarisedBlocks<'_> {
        SummarisedBlocks { rest: &self.body, geometry: *geometry }
    }
}

/// A block as it was when the summary was written.
pub(super) struct SummarisedBlock<'a> {
    pub next_page: u32,
    /// What its page records add to the tally.
    pub pages: u64,
    /// States of its first pages.
    pub page_states: &'a [u8],
    /// Their units.
    pub units: &'a [UnitSummary],
}

/// The blocks of a summary that were not asked for yet.
pub(super) struct SummarisedBlocks<'a> {
    rest: &'a [u8],
    geometry: Geometry,
}

impl<'a> SummarisedBlocks<'a> {
    /// A block, if it is the next one. They must be asked for in order.
    pub fn take(&mut self, block: BlockId) -> Option<SummarisedBlock<'a>> {
        let (head, rest) = BlockHead::read_from_prefix(self.rest).ok()?;
        let next_page = head.next_page.get();
        if head.block.get() != block.0 || next_page > self.geometry.pages_per_block {
            return None;
        }
        let pages = next_page as usize;
        let (page_states, rest) = rest.split_at_checked(pages)?;
        let units = pages * self.geometry.units_per_page() as usize;
        let (units, rest) = <[UnitSummary]>::ref_from_prefix_with_elems(rest, units).ok()?;
        self.rest = rest;
        Some(SummarisedBlock { next_page, pages: head.pages.get(), page_states, units })
    }
}

/// Whether every byte is the state of a page.
pub(super) fn are_states(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| PageState::from_byte(*byte) as u8 == *byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_on_the_image_are_fixed() {
        assert_eq!((HEAD_BYTES, size_of::<BlockHead>(), size_of::<UnitSummary>()), (48, 16, 8));
        assert_eq!((SUMMARY_AT, MOST_BYTES as u64 + SUMMARY_AT), (512, REDO_LOG_BYTES));
    }
}
