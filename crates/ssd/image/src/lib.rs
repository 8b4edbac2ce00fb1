//! Where the medium's bytes are: in memory or in a sparse file. There is a trait for each capability of an image.
//!
//! The image stores what it is given and enforces no rules; `Nand` does. A page's record says what the page
//! holds and is valid only if it carries the erase count of its block, so one small write erases a block.

mod array;
mod checksum;
mod chunks;
mod error;
mod examination;
mod file;
mod geometry;
mod host_faults;
mod host_file;
#[cfg(test)]
mod host_tests;
#[doc(hidden)]
pub mod layout;
mod life;
mod load;
mod lock_holder;
mod locked_file;
mod mapped_file;
mod memory;
mod narrow_array;
mod nvm_lines;
mod nvm_shape;
mod open;
mod ordered;
mod overlay;
mod past_cache;
mod prefetch;
mod process;
mod random;
mod ranges;
mod redo_file;
mod redo_log;
mod slots;
mod spare_buffers;
mod state;
mod store;
mod summary;
#[doc(hidden)]
pub mod tally;
#[cfg(test)]
mod test_support;
mod timing;

pub use array::Array;
pub use checksum::{checksum_joined, checksum_of, checksum_with};
pub use error::{HostError, MediumError, NandError};
pub use examination::{Examination, ImageFinding};
pub use file::FileImage;
pub use geometry::*;
pub use host_faults::{HostCall, HostFailure, HostFault, HostFaults, Mapping, TestHost};
pub use life::Life;
pub use load::{Contents, Damage};
pub use lock_holder::LockHolder;
pub use mapped_file::MappedFile;
pub use memory::MemoryImage;
pub use narrow_array::NarrowArray;
pub use nvm_shape::{MAX_NVM_BYTES, MAX_NVM_LATENCY_NS, NvmShape, WORD_BYTES};
pub use prefetch::prefetch_lines;
pub use process::Process;
pub use random::{SplitMix64, mix};
pub use redo_file::HostSync;
pub use redo_log::{REDO_LOG_BYTES, RedoPlace};
pub use slots::{Lease, Slot, Slots};
pub use spare_buffers::BufferId;
pub use state::{Block, MOVED, PageState};
pub use summary::MediumState;
pub use timing::Timing;

use std::sync::Arc;

/// The longest description of an image.
pub const MAX_DESCRIPTION_BYTES: usize = 64 << 10;

/// The most protected DRAM of an image.
pub const MAX_PROTECTED_BYTES: u64 = 16 << 30;

/// How an image in a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Changes go to the file.
    Write,
    /// Changes go to the file through a redo log: what was synced (`Nand::sync_begin`) survives the
    /// loss of the machine.
    Ordered,
    /// The file is only read; changes stay in memory and vanish with the medium.
    Overlay,
}

/// The contents of a page.
#[derive(Clone, Copy)]
pub struct PageRecord<'a> {
    /// Erases of the block before this program.
    pub erase_count: u32,
    /// Number of the program among all operations: if two places name a slot, the later one owns it.
    pub operation: u64,
    /// What it reads as.
    pub state: PageState,
    /// Slots of the units; 0 for none.
    pub slots: &'a [u32],
    /// One for each slot, or none: then the spare areas are zeros.
    pub spares: &'a [UnitSpare],
}

/// A block's page records in the image's own form, kept while the block's erase may be undone.
#[derive(Clone, Default)]
pub enum SavedRecords {
    /// Nothing was there.
    #[default]
    None,
    /// As the image stores them.
    Bytes(Vec<u8>),
    /// Where the image keeps them.
    Buffer(spare_buffers::BufferId),
}

/// The storage of the medium's bytes: slots, records of pages and blocks, protected DRAM, and memory beside the flash;
/// and its further capabilities.
pub trait Image: SlotStore + RecordStore + ProtectedDram + NvmCells + Send + Sync {
    /// Whether it outlives the process.
    fn outlives_process(&self) -> bool;

    /// Its slots as places in a file; `None` if they must not be read or filled without the image.
    fn slots_in_file(&self) -> Option<&dyn SlotsInFile> {
        None
    }

    /// Its slots as places in a file, to be filled; `None` if they must not be filled without the image.
    fn slots_in_file_mut(&mut self) -> Option<&mut dyn SlotsInFile> {
        None
    }

    /// What makes it survive the loss of the machine, if anything does.
    fn synced(&mut self) -> Option<&mut dyn Synced> {
        None
    }

    /// A second image with the same contents, if that is possible.
    fn try_clone(&self) -> Option<Box<dyn Image>>;
}

/// Buffers of 4096 bytes.
pub trait SlotStore {
    /// Stores 4096 bytes.
    fn write_slot(&mut self, slot: Slot, data: &[u8]) -> Result<(), NandError>;

    /// Reads the 4096 bytes of a slot that was written; [`NandError::DataChecksum`] if they have changed.
    fn read_slot(&self, slot: Slot, data: &mut [u8]) -> Result<(), NandError>;

    /// Prefetches the first data of a slot into the processor's cache, if that helps: afterwards its address is translated.
    fn prefetch_slot(&self, _slot: Slot) {}

    /// Prefetches all data of the slot that is read next, if that helps.
    fn prefetch_data(&self, _slot: Slot) {}

    /// Whether a slot that was written equals `data`.
    fn slot_holds(&self, slot: Slot, data: &[u8; UNIT_BYTES]) -> bool {
        let mut found = [0; UNIT_BYTES];
        self.read_slot(slot, &mut found).is_ok() && found == *data
    }
}

/// Slots in a file. They may be read, and reserved ones filled, while others use the image.
pub trait SlotsInFile {
    /// The file.
    fn file(&self) -> Arc<MappedFile>;

    /// The position of a slot in the file.
    fn at(&self, slot: Slot) -> u64;

    /// The checksum of the bytes of a slot that was written.
    fn checksum(&self, slot: Slot) -> u32;

    /// A slot was filled in the file.
    fn written(&mut self, slot: Slot, checksum: u32);
}

/// Records of pages and blocks.
pub trait RecordStore {
    /// Stores the record of an erased page. The data of its slots are already there.
    fn write_page(&mut self, page: PageId, record: &PageRecord) -> Result<(), NandError>;

    /// Stores the record of an erased page with the spare areas of the units `from`, one for each unit of the page; their first
    /// bytes are replaced by `head`.
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

    /// Makes a programmed page uncorrectable; it keeps its slots.
    fn spoil_page(&mut self, page: PageId) -> Result<(), NandError>;

    /// Reads the spare areas of a programmed page, from the unit `first` on.
    fn read_spares(&self, first: Ppn, spares: &mut [UnitSpare]) -> Result<(), NandError>;

    /// Fetches the spare areas of a block's units. Those of pages that are not programmed are undefined, and there may
    /// be none if no page of the block is programmed.
    fn block_spares(&self, block: BlockId, spares: &mut Vec<UnitSpare>) -> Result<(), NandError>;

    /// As [`RecordStore::block_spares`], but only their ends, and fetched into `scratch` only if they must be.
    fn block_spare_ends<'a>(
        &'a self,
        block: BlockId,
        scratch: &'a mut Vec<SpareEnds>,
    ) -> Result<&'a [SpareEnds], NandError>;

    /// Prefetches the spare areas of a block's units, which are copied soon, if that helps.
    fn prefetch_spares(&self, _block: BlockId) {}

    /// Stores a block's record. A new erase count makes its page records void.
    fn write_block(&mut self, block: BlockId, record: &Block) -> Result<(), NandError>;

    /// Returns the records of a block's first `pages` pages before it is erased.
    fn take_records(&mut self, block: BlockId, pages: u32) -> Result<SavedRecords, NandError>;

    /// Puts them back because the erase is undone.
    fn restore_records(&mut self, block: BlockId, records: SavedRecords) -> Result<(), NandError>;

    /// Drops them because the erase can no longer be undone.
    fn drop_records(&mut self, records: SavedRecords);
}

/// DRAM that outlives the process, if the image does.
pub trait ProtectedDram {
    /// Its size in bytes.
    fn protected_bytes(&self) -> u64;

    /// Writes bytes; the range was checked.
    fn write_protected(&mut self, offset: u64, data: &[u8]) -> Result<(), NandError>;

    /// Reads bytes; the range was checked.
    fn read_protected(&self, offset: u64, data: &mut [u8]) -> Result<(), NandError>;
}

/// Memory beside the flash that keeps its contents. Ranges were checked, and are whole words.
pub trait NvmCells {
    /// Writes words.
    fn write_nvm(&mut self, at: u64, data: &[u8]) -> Result<(), NandError>;

    /// Reads words; zeros where nothing was written.
    fn read_nvm(&self, at: u64, data: &mut [u8]) -> Result<(), NandError>;
}

/// An image whose synced contents survive the loss of the machine.
pub trait Synced {
    /// Gathers the changes; once the returned sync has run, they are durable. `None` if there is nothing to sync.
    fn sync_begin(&mut self) -> Result<Option<HostSync>, NandError>;

    /// The sync that [`Synced::sync_begin`] returned has run.
    fn sync_end(&mut self) -> Result<(), NandError>;

    /// Makes all changes durable, and everything that was released free to be overwritten. No sync may be under way.
    fn settle(&mut self) -> Result<(), NandError>;

    /// Leaves a summary of the medium, so that the next opening need not read the page records. Everything must have been
    /// settled, and nothing be undone any more. Nothing is lost if it fails, which the host's next change tells.
    fn summarise(&mut self, state: &MediumState<'_>);

    /// Whether its host takes space back, as far as is known.
    fn takes_space_back(&self) -> bool;

    /// Slots that may take space on the host's disk, beside this many that are in use; 0 if only few can.
    fn slots_on_disk(&self, in_use: u32) -> Result<u32, NandError>;

    /// Gives the space of slots back, which may be overwritten at once: `count` of them, the first one of which is `first`. False
    /// if the host declines.
    fn give_back_slots(&mut self, first: Slot, count: u32) -> Result<bool, NandError>;

    /// A block is erased for good, and none of its pages is programmed: the space of their records may go back.
    fn give_back_records(&mut self, block: BlockId);
}
