//! What an image in a file says about its blocks, pages and slots, read when it is opened.
//!
//! Only blocks that have been programmed since their erase are looked into, so that a large image that is mostly
//! empty opens fast. A copyback leaves two places that name one slot; the place programmed last owns it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use zerocopy::FromBytes;

use super::file::{FileImage, check_length};
use super::layout::{BlockEntry, MAX_PAGE_RECORD_BYTES, PageHead, StoredPage};
use crate::error::NandError;
use crate::geometry::{BlockId, Geometry, PageId, Ppn, UNIT_BYTES};
use crate::nand::{Block, MOVED, PageState};
use crate::slots::{SLOT_LIMIT, Slot, Slots};

/// The state of a medium.
pub(crate) struct Contents {
    pub blocks: Vec<Block>,
    pub page_states: Vec<u8>,
    pub slot_of: Vec<u32>,
    pub slots: Slots,
    pub operations: u64,
}

impl Contents {
    /// Nothing is programmed, nothing was ever erased.
    pub fn erased(geometry: &Geometry) -> Contents {
        Contents {
            blocks: vec![Block::default(); geometry.blocks() as usize],
            page_states: vec![0; geometry.pages() as usize],
            slot_of: vec![0; geometry.units() as usize],
            slots: Slots::default(),
            operations: 0,
        }
    }

    /// What an image holds.
    pub fn load(image: &FileImage) -> Result<Contents, NandError> {
        let mut loader = Loader {
            image,
            geometry: *image.geometry(),
            contents: Contents::erased(image.geometry()),
            file_bytes: image.bytes()?,
            used: Vec::new(),
            watermark: 0,
            shared: HashSet::new(),
        };
        let used_blocks = loader.load_blocks()?;
        for &block in &used_blocks {
            loader.load_pages(block)?;
        }
        if !loader.shared.is_empty() {
            loader.find_owners(&used_blocks)?;
        }
        loader.contents.slots = Slots::rebuild(loader.watermark, loader.used);
        Ok(loader.contents)
    }
}

struct Loader<'a> {
    image: &'a FileImage,
    geometry: Geometry,
    contents: Contents,
    file_bytes: u64,
    /// A bit for each slot that a place names.
    used: Vec<u64>,
    watermark: u32,
    /// Slots that several places name.
    shared: HashSet<u32>,
}

impl Loader<'_> {
    /// Reads the block records. Returns the blocks with pages to look at.
    fn load_blocks(&mut self) -> Result<Vec<BlockId>, NandError> {
        let mut used_blocks = Vec::new();
        let (image, count) = (self.image, self.geometry.blocks());
        image.visit_records(image.layout.blocks_at, count, size_of::<BlockEntry>(), |index, bytes| {
            let entry = BlockEntry::read_from_bytes(bytes).expect("the length is that of an entry");
            if entry.is_fresh() {
                return Ok(());
            }
            let (stored, computed) = (entry.checksum.get(), entry.computed_checksum());
            if stored != computed {
                let (path, block) = (image.path.clone(), BlockId(index));
                return Err(NandError::BlockChecksum { path, block, stored, computed });
            }
            let (block, used) = entry.decode();
            self.contents.blocks[index as usize] = block;
            if used {
                used_blocks.push(BlockId(index));
            }
            Ok(())
        })?;
        Ok(used_blocks)
    }

    fn load_pages(&mut self, block: BlockId) -> Result<(), NandError> {
        let pages = self.geometry.pages_per_block;
        let Block { erase_count, torn, failed, .. } = self.contents.blocks[block.index()];
        let first = self.geometry.page(block, 0);
        if failed {
            let states = &mut self.contents.page_states[first.index()..first.index() + pages as usize];
            states.fill(PageState::Uncorrectable as u8);
            self.contents.blocks[block.index()].next_page = pages;
            return Ok(());
        }
        let image = self.image;
        let mut next_page = 0;
        image.visit_records(
            image.layout.page_at(first),
            pages,
            image.layout.page_record_bytes,
            |index, bytes| {
                let page = PageId(first.0 + index);
                let state = match PageHead::parse(bytes) {
                    StoredPage::Absent => PageState::Erased,
                    StoredPage::Damaged => PageState::Uncorrectable,
                    StoredPage::Whole(head) if head.erase_count.get() != erase_count => PageState::Erased,
                    StoredPage::Whole(head) => self.load_slots(page, &head)?,
                };
                if state != PageState::Erased {
                    next_page = index + 1;
                    self.contents.page_states[page.index()] = state as u8;
                }
                Ok(())
            },
        )?;
        self.contents.blocks[block.index()].next_page = if torn { pages } else { next_page };
        Ok(())
    }

    fn load_slots(&mut self, page: PageId, head: &PageHead) -> Result<PageState, NandError> {
        self.contents.operations = self.contents.operations.max(head.operation.get());
        for index in 0..self.geometry.units_per_page() {
            let slot = head.slots[index as usize].get();
            if slot == 0 {
                continue;
            }
            self.note_slot(slot)?;
            self.contents.slot_of[self.geometry.unit(page, index).index()] = slot;
        }
        Ok(head.state())
    }

    fn note_slot(&mut self, slot: u32) -> Result<(), NandError> {
        let end = self.image.layout.slot_at(Slot(slot)) + UNIT_BYTES as u64;
        check_length(&self.image.path, self.file_bytes, if slot < SLOT_LIMIT { end } else { u64::MAX })?;
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        if self.used[word] & bit != 0 {
            self.shared.insert(slot);
        }
        self.used[word] |= bit;
        self.watermark = self.watermark.max(slot);
        Ok(())
    }

    /// Marks the places of shared slots as moved, but for the one programmed last.
    fn find_owners(&mut self, used_blocks: &[BlockId]) -> Result<(), NandError> {
        let mut owners: HashMap<u32, (u64, Ppn)> = HashMap::new();
        for &block in used_blocks {
            let first = self.geometry.first_unit(block);
            for ppn in (first.0..first.0 + self.geometry.units_per_block()).map(Ppn) {
                let slot = self.contents.slot_of[ppn.index()];
                if !self.shared.contains(&slot) {
                    continue;
                }
                let operation = self.operation_of(self.geometry.page_of(ppn))?;
                let loser = match owners.entry(slot) {
                    Entry::Vacant(vacant) => {
                        vacant.insert((operation, ppn));
                        continue;
                    }
                    Entry::Occupied(mut owner) if owner.get().0 < operation => {
                        owner.insert((operation, ppn)).1
                    }
                    Entry::Occupied(_) => ppn,
                };
                self.contents.slot_of[loser.index()] |= MOVED;
            }
        }
        Ok(())
    }

    fn operation_of(&self, page: PageId) -> Result<u64, NandError> {
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        match self.image.read_page(page, &mut buffer[..self.image.layout.page_record_bytes])? {
            StoredPage::Whole(head) => Ok(head.operation.get()),
            StoredPage::Absent | StoredPage::Damaged => Ok(0),
        }
    }
}
