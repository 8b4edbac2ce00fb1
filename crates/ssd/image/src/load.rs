//! What an image in a file says about its blocks, pages and slots, read when it is opened.
//!
//! A summary (`summary.rs`) says it of most blocks after a clean shutdown. Otherwise page records do:
//! only blocks that have been erased or programmed are read, so that a large, mostly empty image opens fast; and of an erased
//! one only the first page's record, since pages are programmed in order. If a record behind one that does not count did count,
//! the tally would not add up. Whoever looks for damage reads all of them. A copyback
//! leaves two places that name one slot; the place programmed last owns it.
//!
//! A record with a wrong checksum is live if the tally adds up with it, and was erased long ago if the tally adds up
//! without it. Live ones are refused, or recorded for a repair.

mod summarised;

use std::collections::{HashMap, HashSet};

use zerocopy::FromBytes;

use super::PageRecord;
use super::examination::{Examination, ImageFinding};
use super::file::FileImage;
use super::layout::{BlockEntry, MAX_PAGE_RECORD_BYTES, PageHead, StoredPage};
use super::open::check_length;
use super::tally::{self, BlockSum, Sums};
use crate::array::Array;
use crate::error::{MediumError, NandError};
use crate::geometry::{BlockId, Geometry, MAX_UNITS_PER_PAGE, PageId, Ppn, UNIT_BYTES};
use crate::slots::{SLOT_LIMIT, Slot, Slots};
use crate::state::{Block, MOVED, PageState};

/// What to do about damaged records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Refuse to open the image.
    Refuse,
    /// Record them, and treat their pages as uncorrectable.
    Note,
}

/// The state of a medium.
pub struct Contents {
    /// The blocks by their number.
    pub blocks: Vec<Block>,
    /// [`PageState`] of each page.
    pub page_states: Vec<u8>,
    /// The slot of each unit, with [`MOVED`]; 0 for none.
    pub slot_of: Array,
    /// The slots in use.
    pub slots: Slots,
    /// Operations so far.
    pub operations: u64,
}

impl Contents {
    /// Nothing is programmed, and nothing was ever erased.
    pub fn erased(geometry: &Geometry) -> Contents {
        Contents {
            blocks: vec![Block::default(); geometry.blocks() as usize],
            page_states: vec![0; geometry.pages() as usize],
            slot_of: Array::zeroed(geometry.units() as usize),
            slots: Slots::default(),
            operations: 0,
        }
    }

    /// The contents of an image. The image takes over what is known about its records.
    pub fn load(image: &mut FileImage, damage: Damage) -> Result<(Contents, Examination), MediumError> {
        // whoever looks for damage looks at everything
        let summary = if damage == Damage::Refuse { image.read_summary()? } else { None };
        let summarised = summary.map(|summary| Loader::with_summary(image, &summary)).transpose()?.flatten();
        let (loader, tally_number) = match summarised {
            Some(loaded) => loaded,
            None => Loader::without_summary(image, damage)?,
        };
        let Loader { mut contents, watermark, used, sums, data_checksums, examination, .. } = loader;
        contents.slots = Slots::rebuild(watermark, used);
        image.end_summary()?;
        image.adopt(sums, tally_number, data_checksums);
        if !examination.findings.is_empty() && examination.findings.iter().all(ImageFinding::is_repairable) {
            contents.spoil(image, &examination)?;
        }
        Ok((contents, examination))
    }

    /// Makes the pages with damaged records uncorrectable in the image, and corrects the tally.
    fn spoil(&self, image: &mut FileImage, examination: &Examination) -> Result<(), NandError> {
        let slots = &[0; MAX_UNITS_PER_PAGE][..image.geometry().units_per_page() as usize];
        let record = |page| {
            let erase_count = self.blocks[image.geometry().block_of(page).index()].erase_count;
            let state = PageState::Uncorrectable;
            (page, PageRecord { erase_count, operation: self.operations, state, slots, spares: &[] })
        };
        let records: Vec<_> = examination.damaged_pages().map(record).collect();
        image.replace_damaged(&records)
    }
}

/// A page record with a wrong checksum.
struct DamagedPage {
    page: PageId,
    /// The stored checksum and the one of its contents: either may be what was written.
    checksums: [u32; 2],
}

struct Loader<'a> {
    image: &'a FileImage,
    geometry: Geometry,
    contents: Contents,
    damage: Damage,
    file_bytes: u64,
    /// A bit for each slot that a place names.
    used: Vec<u64>,
    watermark: u32,
    /// Slots that several places name.
    shared: HashSet<u32>,
    sums: Sums,
    data_checksums: Vec<u32>,
    damaged: Vec<DamagedPage>,
    examination: Examination,
}

impl<'a> Loader<'a> {
    fn new(image: &'a FileImage, damage: Damage) -> Result<Loader<'a>, MediumError> {
        let geometry = *image.geometry();
        Ok(Loader {
            image,
            geometry,
            contents: Contents::erased(&geometry),
            damage,
            file_bytes: image.bytes()?,
            used: Vec::new(),
            watermark: 0,
            shared: HashSet::new(),
            sums: Sums::new(&geometry),
            data_checksums: Vec::new(),
            damaged: Vec::new(),
            examination: Examination::default(),
        })
    }

    /// Reads all page records that may count. Also returns the number of the tally.
    fn without_summary(image: &'a FileImage, damage: Damage) -> Result<(Loader<'a>, u32), MediumError> {
        let mut loader = Loader::new(image, damage)?;
        let used_blocks = loader.load_blocks()?;
        for &block in &used_blocks {
            loader.load_pages(block)?;
        }
        let tally_number = loader.compare_with_tally()?;
        if !loader.shared.is_empty() {
            loader.find_owners(&used_blocks)?;
        }
        Ok((loader, tally_number))
    }

    /// Refuses the image, or records the finding.
    fn found(&mut self, finding: ImageFinding, error: MediumError) -> Result<(), MediumError> {
        if self.damage == Damage::Refuse {
            return Err(error);
        }
        self.examination.findings.push(finding);
        Ok(())
    }

    /// Reads the block records. Returns the blocks whose pages must be read.
    fn load_blocks(&mut self) -> Result<Vec<BlockId>, MediumError> {
        let mut used_blocks = Vec::new();
        let (image, count) = (self.image, self.geometry.blocks());
        self.examination.block_entries = count.into();
        image.visit_records(image.layout.blocks_at, count, size_of::<BlockEntry>(), |index, bytes| {
            let entry = BlockEntry::read_from_bytes(bytes).expect("the length is that of an entry");
            if entry.is_fresh() {
                return Ok(());
            }
            let block = BlockId(index);
            let (stored, computed) = (entry.checksum.get(), entry.computed_checksum());
            if stored != computed {
                let path = image.path.clone();
                let error = MediumError::BlockChecksum { path, block, stored, computed };
                return self.found(ImageFinding::Block { block }, error);
            }
            let (record, used) = entry.decode();
            let (erase_count, entry) = (record.erase_count, tally::of_block(block, stored));
            self.sums.set(block, BlockSum { erase_count, entry, pages: 0 });
            self.contents.blocks[index as usize] = record;
            if used {
                used_blocks.push(block);
            }
            Ok(())
        })?;
        Ok(used_blocks)
    }

    fn load_pages(&mut self, block: BlockId) -> Result<(), MediumError> {
        let pages = self.geometry.pages_per_block;
        let Block { erase_count, torn, failed, .. } = self.contents.blocks[block.index()];
        let first = self.geometry.page(block, 0);
        if failed {
            let states = &mut self.contents.page_states[first.index()..first.index() + pages as usize];
            states.fill(PageState::Uncorrectable as u8);
            self.contents.blocks[block.index()].next_page = pages;
            return Ok(());
        }
        if self.damage == Damage::Refuse && !torn && !self.may_count(first, erase_count)? {
            return Ok(());
        }
        self.examination.page_records += u64::from(pages);
        let (image, mut next_page, mut sum) = (self.image, 0, 0_u64);
        image.visit_pages(block, pages, |index, bytes| {
            let page = PageId(first.0 + index);
            match PageHead::parse(bytes) {
                StoredPage::Absent => {}
                StoredPage::Damaged(head) => {
                    let checksums = [head.checksum(), PageHead::computed_checksum(bytes)];
                    self.damaged.push(DamagedPage { page, checksums });
                }
                StoredPage::Whole(head) if head.erase_count.get() != erase_count => {}
                StoredPage::Whole(head) => {
                    next_page = index + 1;
                    sum = sum.wrapping_add(tally::of_page(page, head.checksum()));
                    self.contents.page_states[page.index()] = self.load_slots(page, &head)? as u8;
                }
            }
            Ok::<(), MediumError>(())
        })?;
        self.sums.set(block, BlockSum { pages: sum, ..self.sums.block(block) });
        self.contents.blocks[block.index()].next_page = if torn { pages } else { next_page };
        Ok(())
    }

    /// Whether a page's record counts, or is damaged.
    fn may_count(&self, page: PageId, erase_count: u32) -> Result<bool, NandError> {
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let record = self.image.read_page(page, &mut buffer[..self.image.layout.page_record_bytes])?;
        Ok(match record {
            StoredPage::Absent => false,
            StoredPage::Damaged(_) => true,
            StoredPage::Whole(head) => head.erase_count.get() == erase_count,
        })
    }

    fn load_slots(&mut self, page: PageId, head: &PageHead) -> Result<PageState, MediumError> {
        self.contents.operations = self.contents.operations.max(head.operation.get());
        for index in 0..self.geometry.units_per_page() {
            let slot = head.slots[index as usize].get();
            if slot == 0 {
                continue;
            }
            self.note_slot(slot, head.data_checksums[index as usize].get())?;
            self.contents.slot_of[self.geometry.unit(page, index).index()] = slot;
        }
        Ok(head.state())
    }

    /// Makes room for what is known of a slot.
    fn know_slot(&mut self, slot: u32) -> Result<(), MediumError> {
        let is_one = (1..SLOT_LIMIT).contains(&slot);
        let end = is_one.then(|| self.image.layout.slot_at(Slot(slot)) + UNIT_BYTES as u64);
        check_length(&self.image.path, self.file_bytes, end.unwrap_or(u64::MAX))?;
        let word = slot as usize / 64;
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
            self.data_checksums.resize(64 * (word + 1), 0);
        }
        self.watermark = self.watermark.max(slot);
        Ok(())
    }

    fn note_slot(&mut self, slot: u32, data_checksum: u32) -> Result<(), MediumError> {
        self.know_slot(slot)?;
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        self.data_checksums[Slot(slot).index()] = data_checksum;
        if self.used[word] & bit != 0 {
            self.shared.insert(slot);
        }
        self.used[word] |= bit;
        Ok(())
    }

    /// Distinguishes damaged live records from erased ones, and detects replaced ones. Returns the number of the tally.
    fn compare_with_tally(&mut self) -> Result<u32, MediumError> {
        let path = self.image.path.clone();
        let Some(tally) = self.image.read_tally()? else {
            self.found(ImageFinding::Tally, MediumError::TallyChecksum { path })?;
            self.refuse_damaged()?;
            return Ok(0);
        };
        let sum = self.sums.total();
        let complete_with = |choice: usize| {
            let damaged = self.damaged.iter();
            let added = damaged.fold(sum, |sum, DamagedPage { page, checksums }| {
                sum.wrapping_add(tally::of_page(*page, checksums[choice]))
            });
            tally.agrees(added)
        };
        // the damaged ones were erased and remain so, or one was being written when the process was killed
        if !tally.agrees(sum) {
            let are_live = complete_with(0) || complete_with(1);
            self.refuse_damaged()?;
            if !are_live {
                self.found(ImageFinding::Replaced, MediumError::Tally { path })?;
            }
        }
        Ok(tally.number())
    }

    /// The damaged records are live: their pages are uncorrectable, if the image is opened at all.
    fn refuse_damaged(&mut self) -> Result<(), MediumError> {
        for DamagedPage { page, .. } in std::mem::take(&mut self.damaged) {
            let (path, block) = (self.image.path.clone(), self.geometry.block_of(page));
            self.found(ImageFinding::Page { page, block }, MediumError::PageChecksum { path, page })?;
            self.contents.page_states[page.index()] = PageState::Uncorrectable as u8;
            let next_page = &mut self.contents.blocks[block.index()].next_page;
            *next_page = (*next_page).max(page.0 - self.geometry.page(block, 0).0 + 1);
        }
        Ok(())
    }

    /// Marks the places of shared slots as moved, except the one programmed last, whose data checksum is valid.
    fn find_owners(&mut self, used_blocks: &[BlockId]) -> Result<(), MediumError> {
        let mut owners: HashMap<u32, (u64, Ppn)> = HashMap::new();
        for &block in used_blocks {
            let first = self.geometry.first_unit(block);
            for ppn in (first.0..first.0 + self.geometry.units_per_block()).map(Ppn) {
                let slot = self.contents.slot_of[ppn.index()];
                if !self.shared.contains(&slot) {
                    continue;
                }
                let (operation, data_checksum) = self.stored_of(ppn)?;
                let owner = owners.entry(slot).or_insert((operation, ppn));
                let loser = if owner.0 < operation {
                    Some(std::mem::replace(owner, (operation, ppn)).1)
                } else {
                    (owner.1 != ppn).then_some(ppn)
                };
                if loser != Some(ppn) {
                    self.data_checksums[Slot(slot).index()] = data_checksum;
                }
                if let Some(loser) = loser {
                    self.contents.slot_of[loser.index()] |= MOVED;
                }
            }
        }
        let (owned, shared) = (owners.len(), self.shared.len());
        debug_assert!(
            owned == shared,
            "{shared} slots have several places, but only {owned} of them an owner"
        );
        Ok(())
    }

    /// The operation that programmed a unit's page, and the checksum of the unit's data.
    fn stored_of(&self, ppn: Ppn) -> Result<(u64, u32), NandError> {
        let page = self.geometry.page_of(ppn);
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        match self.image.read_page(page, &mut buffer[..self.image.layout.page_record_bytes])? {
            StoredPage::Whole(head) => {
                let index = ppn.0 - self.geometry.unit(page, 0).0;
                Ok((head.operation.get(), head.data_checksums[index as usize].get()))
            }
            StoredPage::Absent | StoredPage::Damaged(_) => Ok((0, 0)),
        }
    }
}
