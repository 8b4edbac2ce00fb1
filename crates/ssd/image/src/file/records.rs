//! Records of pages and blocks in an image's file. Each write of a record that counts is between two writes of the
//! tally.

use std::cmp::Ordering;

use zerocopy::{FromZeros, IntoBytes};

use super::{FileImage, io_error};
use crate::error::NandError;
use crate::geometry::{
    BlockId, MAX_UNITS_PER_PAGE, PageId, Ppn, SPARE_END_BYTES, SpareEnds, UNIT_SPARE_BYTES, UnitSpare,
    spare_ends,
};
use crate::layout::{BlockEntry, MAX_PAGE_RECORD_BYTES, PageHead, StoredPage};
use crate::slots::Slot;
use crate::state::Block;
use crate::tally::{self, BlockSum, Tally};
use crate::{PageRecord, RecordStore, SavedRecords};

impl FileImage {
    /// The tally that counts, or `None` if it is damaged.
    pub(crate) fn read_tally(&self) -> Result<Option<Tally>, NandError> {
        let mut stored = [Tally::new_zeroed(); tally::PLACES.len()];
        for (tally, at) in stored.iter_mut().zip(tally::PLACES) {
            self.read(tally.as_mut_bytes(), at, "read the tally")?;
        }
        Ok(Tally::newest(stored))
    }

    /// The next tally.
    fn tally(&mut self, before: u64, after: u64) -> Tally {
        self.tally_number = self.tally_number.wrapping_add(1);
        Tally::new(self.tally_number, before, after)
    }

    fn write_tally(&mut self, tally: &Tally) -> Result<(), NandError> {
        let written = self.store.write_in_parts(tally.as_bytes(), tally.place());
        written.map_err(io_error(&self.path, "write the tally"))
    }

    /// No record is being written: the tally is just the sum.
    fn settle(&mut self) -> Result<(), NandError> {
        let tally = self.tally(self.sums.total(), self.sums.total());
        self.write_tally(&tally)
    }

    /// Writes a tally, a record through `write` and another tally; afterwards its block's part of the sum is `part`. Both
    /// tallies are made before the record is stored: a load of what was stored in other pieces waits for all earlier stores.
    fn write_record(
        &mut self,
        block: BlockId,
        part: BlockSum,
        write: impl FnOnce(&mut FileImage, &Tally) -> Result<(), NandError>,
    ) -> Result<(), NandError> {
        let (old, new) = (self.sums.total(), self.sums.total_with(block, &part));
        let during = self.tally(old, new);
        let after = Tally::new(during.number().wrapping_add(1), new, new);
        write(self, &during)?;
        self.sums.set(block, part);
        self.tally_number = after.number();
        self.write_tally(&after)
    }

    /// Writes a record over one that counts.
    fn overwrite(
        &mut self,
        block: BlockId,
        part: BlockSum,
        record: (&[u8], u64),
        action: &'static str,
    ) -> Result<(), NandError> {
        self.write_record(block, part, |image, tally| {
            image.write_tally(tally)?;
            image.write(record.0, record.1, action)
        })
    }

    /// Writes a page's record, or zeros, over a record that counts; `pages` updates what the block's records add to the
    /// sum.
    fn overwrite_page(
        &mut self,
        page: PageId,
        bytes: &[u8],
        pages: impl FnOnce(u64) -> u64,
    ) -> Result<(), NandError> {
        let (block, part) = self.part_with(page, pages);
        let at = self.layout.page_at(page);
        self.overwrite(block, part, (bytes, at), "write a page record")
    }

    /// A page's block, and its part of the sum once `pages` has updated what the page records add.
    fn part_with(&self, page: PageId, pages: impl FnOnce(u64) -> u64) -> (BlockId, BlockSum) {
        let block = self.geometry.block_of(page);
        let part = self.sums.block(block);
        (block, BlockSum { pages: pages(part.pages), ..part })
    }

    /// Replaces damaged records, and writes a new tally. The tally that counts is written last: if the process is
    /// killed in between there is no tally, so damaged records cannot pass for erased ones.
    pub(crate) fn replace_damaged(&mut self, records: &[(PageId, PageRecord)]) -> Result<(), NandError> {
        for place in [1, 0].map(|next| self.tally_number.wrapping_add(next) as usize % tally::PLACES.len()) {
            self.write(&[0; size_of::<Tally>()], tally::PLACES[place], "write the tally")?;
        }
        for &(page, ref record) in records {
            let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
            let bytes = &mut buffer[..self.layout.page_record_bytes];
            let checksum = PageHead::encode(record, &[0; MAX_UNITS_PER_PAGE], bytes);
            self.write(bytes, self.layout.page_at(page), "write a page record")?;
            let (block, part) =
                self.part_with(page, |pages| pages.wrapping_add(tally::of_page(page, checksum)));
            self.sums.set(block, part);
        }
        self.settle()
    }

    /// What a stored record adds to the sum.
    fn addition(&self, page: PageId, record: &StoredPage) -> u64 {
        let erase_count = self.sums.block(self.geometry.block_of(page)).erase_count;
        match record {
            StoredPage::Whole(head) if head.erase_count.get() == erase_count => {
                tally::of_page(page, head.checksum())
            }
            _ => 0,
        }
    }

    /// What a block's page records add to the sum, provided they carry this erase count.
    fn sum_of_pages(&self, block: BlockId, erase_count: u32) -> Result<u64, NandError> {
        let (first, mut sum) = (self.geometry.page(block, 0), 0_u64);
        self.visit_pages(block, self.geometry.pages_per_block, |index, bytes| {
            sum = sum.wrapping_add(addition(PageId(first.0 + index), bytes, erase_count));
            Ok::<(), NandError>(())
        })?;
        Ok(sum)
    }

    /// Calls `visit` with the spare area of each unit of a block, whose page records must add up to what they did.
    fn visit_spares(
        &self,
        block: BlockId,
        mut visit: impl FnMut(usize, &UnitSpare),
    ) -> Result<(), NandError> {
        let units = self.geometry.units_per_page() as usize;
        let (first, expected) = (self.geometry.page(block, 0), self.sums.block(block));
        let mut sum = 0_u64;
        self.visit_pages(block, self.geometry.pages_per_block, |page, record| {
            sum = sum.wrapping_add(addition(PageId(first.0 + page), record, expected.erase_count));
            let (spares, _) = record[size_of::<PageHead>()..].as_chunks();
            (page as usize * units..).zip(spares).for_each(|(unit, spare)| visit(unit, spare));
            Ok::<(), NandError>(())
        })?;
        if sum == expected.pages { Ok(()) } else { Err(NandError::PageRecords { block }) }
    }
}

/// What the bytes of a page's record add to the sum, if its block has this erase count.
fn addition(page: PageId, bytes: &[u8], erase_count: u32) -> u64 {
    match PageHead::parse(bytes) {
        StoredPage::Whole(head) if head.erase_count.get() == erase_count => {
            tally::of_page(page, head.checksum())
        }
        _ => 0,
    }
}

impl RecordStore for FileImage {
    fn write_page(&mut self, page: PageId, record: &PageRecord) -> Result<(), NandError> {
        debug_assert_eq!(
            record.erase_count,
            self.sums.block(self.geometry.block_of(page)).erase_count,
            "erases of its block before page {page} was programmed"
        );
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let bytes = &mut buffer[..self.layout.page_record_bytes];
        let mut data_checksums = [0; MAX_UNITS_PER_PAGE];
        for (checksum, &slot) in data_checksums.iter_mut().zip(record.slots).filter(|(_, slot)| **slot > 0) {
            *checksum = self.data_checksums[Slot(slot).index()];
        }
        let checksum = PageHead::encode(record, &data_checksums, bytes);
        let at = self.layout.page_at(page);
        let (block, part) = self.part_with(page, |pages| pages.wrapping_add(tally::of_page(page, checksum)));
        self.write_record(block, part, |image, tally| {
            let written = image.store.write_pieces([(tally.as_bytes(), tally.place()), (bytes, at)]);
            written.map_err(io_error(&image.path, "write a page record"))
        })
    }

    fn clear_page(&mut self, page: PageId) -> Result<(), NandError> {
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let bytes = &mut buffer[..self.layout.page_record_bytes];
        let addition = match self.read_page(page, bytes)? {
            StoredPage::Absent => return Ok(()),
            record => self.addition(page, &record),
        };
        bytes.fill(0);
        self.overwrite_page(page, bytes, |pages| pages.wrapping_sub(addition))
    }

    fn spoil_page(&mut self, page: PageId) -> Result<(), NandError> {
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let bytes = &mut buffer[..self.layout.page_record_bytes];
        let record = self.read_page(page, bytes)?;
        let addition = self.addition(page, &record);
        let StoredPage::Whole(head) = record else { return Ok(()) };
        let checksum = head.spoil(bytes);
        self.overwrite_page(page, bytes, |pages| {
            pages.wrapping_sub(addition).wrapping_add(tally::of_page(page, checksum))
        })
    }

    fn read_spares(&self, first: Ppn, spares: &mut [UnitSpare]) -> Result<(), NandError> {
        let page = self.geometry.page_of(first);
        let (block, index) =
            (self.geometry.block_of(page), (first.0 - self.geometry.unit(page, 0).0) as usize);
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let bytes = &mut buffer[..self.layout.page_record_bytes];
        match self.read_page(page, bytes)? {
            StoredPage::Whole(head) if head.erase_count.get() == self.sums.block(block).erase_count => {}
            _ => return Err(NandError::PageRecords { block }),
        }
        let start = size_of::<PageHead>() + index * UNIT_SPARE_BYTES;
        let spares = spares.as_flattened_mut();
        spares.copy_from_slice(&bytes[start..start + spares.len()]);
        Ok(())
    }

    fn block_spares(&self, block: BlockId, spares: &mut Vec<UnitSpare>) -> Result<(), NandError> {
        spares.resize(self.geometry.units_per_block() as usize, [0; UNIT_SPARE_BYTES]);
        self.visit_spares(block, |unit, spare| spares[unit] = *spare)
    }

    fn block_spare_ends<'a>(
        &'a self,
        block: BlockId,
        ends: &'a mut Vec<SpareEnds>,
    ) -> Result<&'a [SpareEnds], NandError> {
        ends.resize(self.geometry.units_per_block() as usize, [0; 2 * SPARE_END_BYTES]);
        self.visit_spares(block, |unit, spare| ends[unit] = spare_ends(spare))?;
        Ok(ends)
    }

    fn write_block(&mut self, block: BlockId, record: &Block) -> Result<(), NandError> {
        let (entry, old) = (BlockEntry::new(record), self.sums.block(block));
        let pages = match record.erase_count.cmp(&old.erase_count) {
            Ordering::Equal => old.pages,
            Ordering::Greater => 0,
            // an erase is undone: the earlier records count again
            Ordering::Less => self.sum_of_pages(block, record.erase_count)?,
        };
        let entry_sum = tally::of_block(block, entry.checksum.get());
        if (record.erase_count, entry_sum) == (old.erase_count, old.entry) {
            return Ok(());
        }
        let part = BlockSum { erase_count: record.erase_count, entry: entry_sum, pages };
        let at = self.layout.block_at(block);
        self.overwrite(block, part, (entry.as_bytes(), at), "write a block record")
    }

    fn take_records(&mut self, block: BlockId, pages: u32) -> Result<SavedRecords, NandError> {
        let mut records = self.spare_records.pop().unwrap_or_default();
        records.resize(pages as usize * self.layout.page_stride, 0);
        self.read(&mut records, self.first_page_at(block), "read the records of a block")?;
        Ok(SavedRecords::Bytes(records))
    }

    fn restore_records(&mut self, block: BlockId, records: SavedRecords) -> Result<(), NandError> {
        let SavedRecords::Bytes(records) = records else { return Ok(()) };
        self.write(&records, self.first_page_at(block), "write the records of a block")
    }

    fn drop_records(&mut self, records: SavedRecords) {
        if let SavedRecords::Bytes(records) = records {
            self.spare_records.push(records);
        }
    }
}
