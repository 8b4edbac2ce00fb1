//! Where the medium's bytes are: in memory or in a sparse file. A trait for each thing that an image can do.
//!
//! The image stores what it is told and knows no rule; [`crate::nand`] keeps them. A page's record says what the
//! page holds and is valid only if it carries the erase count of its block, so that one small write erases a
//! block.

mod file;
#[cfg(test)]
mod file_tests;
mod layout;
mod life;
mod load;
mod locked_file;
mod mapped_file;
mod memory;
mod open;
mod ordered;
mod past_cache;
mod ranges;
mod redo_file;
mod redo_log;
mod spare_buffers;
mod store;
mod tally;

pub(crate) use file::FileImage;
pub use file::checksum_of;
pub use life::Life;
pub(crate) use load::{Contents, Damage};
pub use load::{Examination, ImageFinding};
pub(crate) use mapped_file::MappedFile;
pub(crate) use memory::MemoryImage;
pub use redo_file::HostSync;

use std::sync::Arc;

use crate::error::NandError;
use crate::geometry::{
    BlockId, MAX_UNITS_PER_PAGE, PageId, Ppn, SpareEnds, SpareHead, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare,
};
use crate::slots::Slot;
use crate::state::{Block, PageState};

/// The longest description that an image holds.
pub const MAX_DESCRIPTION_BYTES: usize = 64 << 10;

/// The most protected DRAM that an image holds.
pub const MAX_PROTECTED_BYTES: u64 = 16 << 30;

/// How an image in a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// What changes goes to the file.
    Write,
    /// What changes goes to the file by way of a redo log: what was synced ([`crate::Nand::sync_begin`]) survives the
    /// loss of the machine.
    Ordered,
    /// The file is only read; what changes stays in memory and is gone with the medium.
    Overlay,
}

/// What a page holds.
#[derive(Clone, Copy)]
pub(crate) struct PageRecord<'a> {
    /// Erases of the block before this program.
    pub erase_count: u32,
    /// Number of the program among all operations: of two places that name a slot, the later one owns it.
    pub operation: u64,
    pub state: PageState,
    /// Slots of the units, 0 for none.
    pub slots: &'a [u32],
    /// As many as slots, or none: then the spare areas are zeros.
    pub spares: &'a [UnitSpare],
}

/// A block's page records in the image's own form, kept while their erase may be undone.
#[derive(Clone, Default)]
pub(crate) enum SavedRecords {
    /// Nothing was there.
    #[default]
    None,
    /// As the image stores them.
    Bytes(Vec<u8>),
    /// Where the image keeps them.
    Buffer(spare_buffers::BufferId),
}

/// What keeps the medium's bytes: slots, records of pages and blocks, and protected DRAM; and what else it can do.
pub(crate) trait Image: SlotStore + RecordStore + ProtectedDram + Send + Sync {
    /// Whether it is still there when the process has ended.
    fn outlives_process(&self) -> bool;

    /// Its slots as places in a file; none if they may not be read or filled without the image.
    fn slots_in_file(&self) -> Option<&dyn SlotsInFile> {
        None
    }

    /// The same, to be filled.
    fn slots_in_file_mut(&mut self) -> Option<&mut dyn SlotsInFile> {
        None
    }

    /// What makes it survive the loss of the machine; none if nothing does.
    fn synced(&mut self) -> Option<&mut dyn Synced> {
        None
    }

    /// A second image of the same contents, if that can be had.
    fn try_clone(&self) -> Option<Box<dyn Image>>;
}

/// Buffers of 4096 bytes.
pub(crate) trait SlotStore {
    /// Stores 4096 bytes.
    fn write_slot(&mut self, slot: Slot, data: &[u8]) -> Result<(), NandError>;

    /// Reads 4096 bytes of a slot that was written. [`NandError::DataChecksum`] if they are not what was written.
    fn read_slot(&self, slot: Slot, data: &mut [u8]) -> Result<(), NandError>;

    /// Brings the data of a slot into the processor's cache, if that helps.
    fn prefetch_slot(&self, _slot: Slot) {}

    /// Whether a slot that was written holds `data`.
    fn slot_holds(&self, slot: Slot, data: &[u8; UNIT_BYTES]) -> bool {
        let mut found = [0; UNIT_BYTES];
        self.read_slot(slot, &mut found).is_ok() && found == *data
    }
}

/// Slots in a file, in which they may be read, and filled that are reserved, while others use the image.
pub(crate) trait SlotsInFile {
    /// The file.
    fn file(&self) -> Arc<MappedFile>;

    /// Where a slot lies there.
    fn at(&self, slot: Slot) -> u64;

    /// The checksum of the bytes of a slot that was written.
    fn checksum(&self, slot: Slot) -> u32;

    /// A slot was filled there.
    fn written(&mut self, slot: Slot, checksum: u32);
}

/// Records of pages and blocks.
pub(crate) trait RecordStore {
    /// Stores the record of an erased page. The data of its slots are there already.
    fn write_page(&mut self, page: PageId, record: &PageRecord) -> Result<(), NandError>;

    /// The same with the spare areas of other units, one for each of the page's, that begin with `head` instead.
    fn write_moved_page(
        &mut self,
        page: PageId,
        record: &PageRecord,
        from: &[Ppn],
        head: SpareHead,
    ) -> Result<(), NandError> {
        let mut spares = [[0; UNIT_SPARE_BYTES]; MAX_UNITS_PER_PAGE];
        let spares = &mut spares[..from.len()];
        for (spare, ppn) in spares.iter_mut().zip(from) {
            self.read_spares(*ppn, std::slice::from_mut(spare))?;
            spare[..head.len()].copy_from_slice(&head);
        }
        self.write_page(page, &PageRecord { spares, ..*record })
    }

    /// Makes a page erased.
    fn clear_page(&mut self, page: PageId) -> Result<(), NandError>;

    /// Makes a page uncorrectable that was programmed; it keeps its slots.
    fn spoil_page(&mut self, page: PageId) -> Result<(), NandError>;

    /// Reads spare areas of a programmed page from the unit `first` on.
    fn read_spares(&self, first: Ppn, spares: &mut [UnitSpare]) -> Result<(), NandError>;

    /// Fetches the spare areas of a block's units; what is there for pages that are not programmed is undefined, and none
    /// need be there if no page of the block is.
    fn block_spares(&self, block: BlockId, spares: &mut Vec<UnitSpare>) -> Result<(), NandError>;

    /// As [`RecordStore::block_spares`], but only their ends, and fetched into `scratch` only if they must be.
    fn block_spare_ends<'a>(
        &'a self,
        block: BlockId,
        scratch: &'a mut Vec<SpareEnds>,
    ) -> Result<&'a [SpareEnds], NandError>;

    /// Stores a block's record. With a new erase count its page records are void.
    fn write_block(&mut self, block: BlockId, record: &Block) -> Result<(), NandError>;

    /// Hands out the records of a block's first `pages` pages, before it is erased.
    fn take_records(&mut self, block: BlockId, pages: u32) -> Result<SavedRecords, NandError>;

    /// Puts them back, the erase being undone.
    fn restore_records(&mut self, block: BlockId, records: SavedRecords) -> Result<(), NandError>;

    /// Drops them, the erase being past.
    fn drop_records(&mut self, records: SavedRecords);
}

/// DRAM that survives the end of the process, if the image does.
pub(crate) trait ProtectedDram {
    /// Bytes that there are.
    fn protected_bytes(&self) -> u64;

    /// Writes some; the range was checked.
    fn write_protected(&mut self, offset: u64, data: &[u8]) -> Result<(), NandError>;

    /// Reads some; the range was checked.
    fn read_protected(&self, offset: u64, data: &mut [u8]) -> Result<(), NandError>;
}

/// An image of which what was synced survives the loss of the machine.
pub(crate) trait Synced {
    /// Gathers what changed; once what is returned has run, it is durable. None if there is nothing to sync.
    fn sync_begin(&mut self) -> Result<Option<HostSync>, NandError>;

    /// What [`Synced::sync_begin`] gave has run.
    fn sync_end(&mut self) -> Result<(), NandError>;
}
