//! The layout of non-volatile memory (NVM), planned once from its size and the drive's.
//!
//! | at | what |
//! |---|---|
//! | 0 | the switch: the number of the checkpoint that counts; one word, so that it changes as a whole |
//! | 64 | the log |
//! | then | two places for checkpoints; one of an odd number is in the second |
//!
//! The log is at least large enough for the largest step on each of its halves: a checkpoint is due once the first half
//! is full. A place holds at least the largest checkpoint without indexes of key-value namespaces. The rest of the
//! memory is divided between them, so that these indexes have room.

use super::record::{RECORD_BYTES, records_per_page};
use crate::error::LayoutError;
use crate::space::{FtlConfig, Layout};
use tantalum_nand::{Geometry, WORD_BYTES};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Precedes the records of an entry.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct EntryHead {
    /// CRC-32C of the rest of the head, and of the records.
    pub checksum: U32,
    pub records: U32,
    /// The number of the checkpoint that it follows.
    pub checkpoint: U64,
    /// How many entries are before it.
    pub index: U64,
}

/// Precedes the bytes of a checkpoint.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct CheckpointHead {
    /// CRC-32C of the rest of the head. The bytes have a separate one.
    pub checksum: U32,
    pub reserved: U32,
    pub number: U64,
    pub step: U64,
    pub bytes: U64,
}

/// Bytes of the head of an entry.
pub(super) const ENTRY_HEAD_BYTES: u64 = size_of::<EntryHead>() as u64;

/// Bytes of the head of a checkpoint.
pub(super) const CHECKPOINT_HEAD_BYTES: u64 = size_of::<CheckpointHead>() as u64;

const _: () = assert!(ENTRY_HEAD_BYTES == 24 && CHECKPOINT_HEAD_BYTES == 32);

/// Bytes before the log.
const HEAD_BYTES: u64 = 64;

/// The log gets one part in this many of what is left.
const LOG_SHARE: u64 = 4;

/// See the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvmPlan {
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of each place for a checkpoint.
    pub place_bytes: u64,
    /// Units of a page of the flash: they bound what one entry of the log holds.
    pub(super) units_per_page: u32,
}

impl NvmPlan {
    /// Plans the memory of a drive that keeps its metadata log there; `None` for others.
    pub fn plan(
        geometry: &Geometry,
        config: &FtlConfig,
        layout: &Layout,
    ) -> Result<Option<NvmPlan>, LayoutError> {
        let Some(bytes) = config.nvm_log_bytes else { return Ok(None) };
        let (least_log, least_place) = (least_log_bytes(geometry, layout), least_place_bytes(layout));
        let needed = NvmPlan::least_bytes(geometry, layout);
        let Some(left) = bytes.checked_sub(needed) else {
            return Err(LayoutError::TooLittleNvm { bytes, needed });
        };
        let for_log = left / LOG_SHARE / WORD_BYTES * WORD_BYTES;
        let for_place = (left - for_log) / 2 / WORD_BYTES * WORD_BYTES;
        Ok(Some(NvmPlan {
            log_bytes: least_log + for_log,
            place_bytes: least_place + for_place,
            units_per_page: geometry.units_per_page(),
        }))
    }

    /// The least memory of such a drive.
    pub fn least_bytes(geometry: &Geometry, layout: &Layout) -> u64 {
        HEAD_BYTES + least_log_bytes(geometry, layout) + 2 * least_place_bytes(layout)
    }

    /// Where the log begins.
    pub(super) fn log_at(&self) -> u64 {
        HEAD_BYTES
    }

    /// Where the checkpoint of this number begins.
    pub(super) fn place_at(&self, number: u64) -> u64 {
        HEAD_BYTES + self.log_bytes + number % 2 * self.place_bytes
    }
}

/// Room for the largest checkpoint without indexes of key-value namespaces.
fn least_place_bytes(layout: &Layout) -> u64 {
    words(CHECKPOINT_HEAD_BYTES + layout.checkpoint_bytes)
}

/// Rounded up to words.
pub(super) fn words(bytes: u64) -> u64 {
    bytes.next_multiple_of(WORD_BYTES)
}

/// Room for the largest step twice: a commit of all units that transactions may hold, each of which may also end a
/// claim; and pages of records around it.
fn least_log_bytes(geometry: &Geometry, layout: &Layout) -> u64 {
    let per_entry = records_per_page(geometry.units_per_page()) as u64;
    let records = 2 * u64::from(layout.transaction_units_limit) + 4 * per_entry;
    let entries = records.div_ceil(per_entry) + u64::from(geometry.units_per_block());
    2 * words(records * RECORD_BYTES as u64 + entries * (ENTRY_HEAD_BYTES + WORD_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::{CONFIG, GEOMETRY};

    /// 1,000 units of transactions and a checkpoint of 50,001 bytes; pages of two units have 292 records of 28 bytes.
    fn layout() -> Layout {
        let planned = Layout::with_good_blocks(&GEOMETRY, &CONFIG, 64);
        Layout { transaction_units_limit: 1000, checkpoint_bytes: 50_001, ..planned }
    }

    /// Twice 2,000 records and four pages of them, in 11 entries and one for each unit of a block.
    const LEAST_LOG: u64 = 2 * ((2000 + 4 * 292) * 28 + (11 + 8) * 32);

    /// The checkpoint and its head, in words.
    const LEAST_PLACE: u64 = 50_040;

    fn plan(bytes: u64) -> Result<Option<NvmPlan>, LayoutError> {
        NvmPlan::plan(&GEOMETRY, &FtlConfig { nvm_log_bytes: Some(bytes), ..CONFIG }, &layout())
    }

    #[test]
    fn the_least_memory_holds_the_largest_step_twice_and_two_checkpoints() {
        let needed = HEAD_BYTES + LEAST_LOG + 2 * LEAST_PLACE;
        assert_eq!(NvmPlan::least_bytes(&GEOMETRY, &layout()), needed);
        let bytes = needed - 1;
        assert_eq!(plan(bytes), Err(LayoutError::TooLittleNvm { bytes, needed }));
        let least = plan(needed).unwrap().unwrap();
        assert_eq!((least.log_bytes, least.place_bytes, least.units_per_page), (LEAST_LOG, LEAST_PLACE, 2));
    }

    #[test]
    fn what_is_left_is_shared_out_in_words() {
        let plan = plan(HEAD_BYTES + LEAST_LOG + 2 * LEAST_PLACE + 1000).unwrap().unwrap();
        // a quarter of 1,000 bytes, and half of the rest
        assert_eq!((plan.log_bytes, plan.place_bytes), (LEAST_LOG + 248, LEAST_PLACE + 376));
        assert_eq!(plan.log_at(), HEAD_BYTES);
        let first = HEAD_BYTES + plan.log_bytes;
        let second = first + plan.place_bytes;
        assert_eq!([0, 1, 2, 7].map(|number| plan.place_at(number)), [first, second, first, second]);
    }
}
