//! An image in a sparse file, locked while it is open. Spare areas are read from the file, not kept in memory.
//!
//! Memory holds each block's part of the tally, and the checksum of each slot's data; the latter is stored in the page
//! record that names the slot.

use std::cmp::Ordering;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zerocopy::{FromZeros, IntoBytes};

use super::layout::{BlockEntry, Layout, MAX_PAGE_RECORD_BYTES, PageHead, StoredPage};
use super::life::Ended;
use super::ordered::Ordered;
use super::store::Store;
use super::tally::{self, BlockSum, Sums, Tally};
use super::{
    HostSync, Image, MappedFile, PageRecord, ProtectedDram, RecordStore, SavedRecords, SlotStore,
    SlotsInFile, Synced,
};
use crate::checksum::checksum_of;
use crate::error::{HostError, NandError};
use crate::geometry::{
    BlockId, Geometry, MAX_UNITS_PER_PAGE, PageId, Ppn, SPARE_END_BYTES, SpareEnds, UNIT_BYTES,
    UNIT_SPARE_BYTES, UnitSpare, spare_ends,
};
use crate::slots::Slot;
use crate::state::Block;

/// Bytes of records read at once.
const READ_BYTES: usize = 1 << 20;

/// An image in a file.
pub(crate) struct FileImage {
    pub(super) path: PathBuf,
    store: Store,
    geometry: Geometry,
    pub(super) layout: Layout,
    protected_bytes: u64,
    sums: Sums,
    /// CRC-32C of each slot's data.
    data_checksums: Vec<u32>,
    /// The number of the newest tally.
    tally_number: u32,
}

/// Adds what was being done when the host failed.
pub(super) fn io_error<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> NandError + 'a {
    move |source| match Ended::is_why(&source) {
        true => NandError::PowerLost,
        false => HostError::new(path, action, &source).into(),
    }
}

impl FileImage {
    /// An image whose records are still to be read ([`super::Contents::load`]).
    pub(super) fn assemble(
        path: &Path,
        store: Store,
        geometry: Geometry,
        layout: Layout,
        protected_bytes: u64,
    ) -> FileImage {
        FileImage {
            path: path.to_owned(),
            store,
            geometry,
            layout,
            protected_bytes,
            sums: Sums::new(&geometry),
            data_checksums: Vec::new(),
            tally_number: 0,
        }
    }

    /// Takes over what was read from the records: each block's part of the tally, the number of the stored tally, and
    /// the checksum of each slot's data.
    pub(super) fn adopt(&mut self, sums: Sums, tally_number: u32, data_checksums: Vec<u32>) {
        self.sums = sums;
        self.tally_number = tally_number;
        self.data_checksums = data_checksums;
    }

    // -- reading and writing ----------------------------------------------------------------------------------

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> Result<u64, NandError> {
        self.store.length().map_err(io_error(&self.path, "read the size of the image"))
    }

    pub(super) fn read(&self, data: &mut [u8], at: u64, action: &'static str) -> Result<(), NandError> {
        self.store.read(data, at).map_err(io_error(&self.path, action))
    }

    fn write(&mut self, data: &[u8], at: u64, action: &'static str) -> Result<(), NandError> {
        self.store.write(data, at).map_err(io_error(&self.path, action))
    }

    /// Calls `visit` with each of `count` records from `at` on, `bytes` apart.
    pub(super) fn visit_records<E: From<NandError>>(
        &self,
        at: u64,
        count: u32,
        bytes: usize,
        mut visit: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let at_once = (READ_BYTES / bytes).min(count as usize);
        let mut buffer = vec![0; at_once * bytes];
        let mut index = 0;
        while index < count {
            let records = at_once.min((count - index) as usize);
            let part = &mut buffer[..records * bytes];
            self.read(part, at + u64::from(index) * bytes as u64, "read records")?;
            for record in part.chunks_exact(bytes) {
                visit(index, record)?;
                index += 1;
            }
        }
        Ok(())
    }

    /// The stored record of a page, with its bytes.
    pub(super) fn read_page(&self, page: PageId, bytes: &mut [u8]) -> Result<StoredPage, NandError> {
        self.read(bytes, self.layout.page_at(page), "read a page record")?;
        Ok(PageHead::parse(bytes))
    }

    /// Calls `visit` with the records of a block's first `pages` pages.
    pub(super) fn visit_pages<E: From<NandError>>(
        &self,
        block: BlockId,
        pages: u32,
        mut visit: impl FnMut(u32, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let Layout { page_record_bytes, page_stride, .. } = self.layout;
        self.visit_records(self.first_page_at(block), pages, page_stride, |index, bytes| {
            visit(index, &bytes[..page_record_bytes])
        })
    }

    /// Calls `visit` with the spare area of each unit of a block.
    fn visit_spares(
        &self,
        block: BlockId,
        mut visit: impl FnMut(usize, &UnitSpare),
    ) -> Result<(), NandError> {
        let units = self.geometry.units_per_page() as usize;
        self.visit_pages(block, self.geometry.pages_per_block, |page, record| {
            let (spares, _) = record[size_of::<PageHead>()..].as_chunks();
            (page as usize * units..).zip(spares).for_each(|(unit, spare)| visit(unit, spare));
            Ok(())
        })
    }

    fn first_page_at(&self, block: BlockId) -> u64 {
        self.layout.page_at(self.geometry.page(block, 0))
    }

    // -- the tally ----------------------------------------------------------------------------------------------

    /// The tally that counts, or none if it is damaged.
    pub(super) fn read_tally(&self) -> Result<Option<Tally>, NandError> {
        let mut stored = [Tally::new_zeroed(); tally::PLACES.len()];
        for (tally, at) in stored.iter_mut().zip(tally::PLACES) {
            self.read(tally.as_mut_bytes(), at, "read the tally")?;
        }
        Ok(Tally::newest(stored))
    }

    fn write_tally(&mut self, before: u64, after: u64) -> Result<(), NandError> {
        self.tally_number = self.tally_number.wrapping_add(1);
        let tally = Tally::new(self.tally_number, before, after);
        let written = self.store.write_in_parts(tally.as_bytes(), tally.place());
        written.map_err(io_error(&self.path, "write the tally"))
    }

    /// No record is being written: the tally is just the sum.
    fn settle(&mut self) -> Result<(), NandError> {
        self.write_tally(self.sums.total(), self.sums.total())
    }

    /// Writes a record through `write`; afterwards its block's part of the sum is `part`.
    fn write_record(
        &mut self,
        block: BlockId,
        part: BlockSum,
        write: impl FnOnce(&mut FileImage) -> Result<(), NandError>,
    ) -> Result<(), NandError> {
        self.write_tally(self.sums.total(), self.sums.total_with(block, &part))?;
        write(self)?;
        self.sums.set(block, part);
        self.settle()
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
        self.write_record(block, part, |image| image.write(bytes, at, "write a page record"))
    }

    /// A page's block, and its part of the sum once `pages` has updated what the page records add.
    fn part_with(&self, page: PageId, pages: impl FnOnce(u64) -> u64) -> (BlockId, BlockSum) {
        let block = self.geometry.block_of(page);
        let part = self.sums.block(block);
        (block, BlockSum { pages: pages(part.pages), ..part })
    }

    /// Replaces damaged records, and writes a new tally. The tally that counts is written last: if the process is
    /// killed in between there is no tally, so damaged records cannot pass for erased ones.
    pub(super) fn replace_damaged(&mut self, records: &[(PageId, PageRecord)]) -> Result<(), NandError> {
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
            if let StoredPage::Whole(head) = PageHead::parse(bytes)
                && head.erase_count.get() == erase_count
            {
                sum = sum.wrapping_add(tally::of_page(PageId(first.0 + index), head.checksum()));
            }
            Ok::<(), NandError>(())
        })?;
        Ok(sum)
    }
}

impl Drop for FileImage {
    fn drop(&mut self) {
        if let Some(ordered) = self.store.as_ordered() {
            // What was synced is in the redo log if this fails; the rest was promised to nobody.
            let _ = ordered.close();
        }
    }
}

impl SlotStore for FileImage {
    fn write_slot(&mut self, slot: Slot, data: &[u8]) -> Result<(), NandError> {
        let checksum = checksum_of(data);
        let written = self.store.write_unit(data, self.layout.slot_at(slot), checksum);
        written.map_err(io_error(&self.path, "write a unit"))?;
        self.written(slot, checksum);
        Ok(())
    }

    fn read_slot(&self, slot: Slot, data: &mut [u8]) -> Result<(), NandError> {
        let read = self.store.read_unit(data, self.layout.slot_at(slot));
        read.map_err(io_error(&self.path, "read a unit"))?;
        let (stored, computed) = (self.data_checksums[slot.index()], checksum_of(data));
        if stored != computed {
            return Err(NandError::DataChecksum { stored, computed });
        }
        Ok(())
    }

    /// Most units that differ also have different checksums.
    fn slot_holds(&self, slot: Slot, data: &[u8; UNIT_BYTES]) -> bool {
        let mut found = [0; UNIT_BYTES];
        self.data_checksums[slot.index()] == checksum_of(data)
            && self.read_slot(slot, &mut found).is_ok()
            && found == *data
    }
}

impl RecordStore for FileImage {
    fn write_page(&mut self, page: PageId, record: &PageRecord) -> Result<(), NandError> {
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let bytes = &mut buffer[..self.layout.page_record_bytes];
        let mut data_checksums = [0; MAX_UNITS_PER_PAGE];
        for (checksum, &slot) in data_checksums.iter_mut().zip(record.slots).filter(|(_, slot)| **slot > 0) {
            *checksum = self.data_checksums[Slot(slot).index()];
        }
        let checksum = PageHead::encode(record, &data_checksums, bytes);
        let at = self.layout.page_at(page);
        let (block, part) = self.part_with(page, |pages| pages.wrapping_add(tally::of_page(page, checksum)));
        self.write_record(block, part, |image| {
            let written = image.store.write_in_parts(bytes, at);
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
        let index = (first.0 - self.geometry.unit(page, 0).0) as usize;
        let start = (size_of::<PageHead>() + index * UNIT_SPARE_BYTES) as u64;
        self.read(spares.as_flattened_mut(), self.layout.page_at(page) + start, "read spare areas")
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
        self.write_record(block, part, |image| image.write(entry.as_bytes(), at, "write a block record"))
    }

    fn take_records(&mut self, block: BlockId, pages: u32) -> Result<SavedRecords, NandError> {
        let mut records = vec![0; pages as usize * self.layout.page_stride];
        self.read(&mut records, self.first_page_at(block), "read the records of a block")?;
        Ok(SavedRecords::Bytes(records))
    }

    fn restore_records(&mut self, block: BlockId, records: SavedRecords) -> Result<(), NandError> {
        let SavedRecords::Bytes(records) = records else { return Ok(()) };
        self.write(&records, self.first_page_at(block), "write the records of a block")
    }

    fn drop_records(&mut self, _records: SavedRecords) {}
}

impl ProtectedDram for FileImage {
    fn protected_bytes(&self) -> u64 {
        self.protected_bytes
    }

    fn write_protected(&mut self, offset: u64, data: &[u8]) -> Result<(), NandError> {
        self.write(data, self.layout.protected_at + offset, "write protected DRAM")
    }

    fn read_protected(&self, offset: u64, data: &mut [u8]) -> Result<(), NandError> {
        self.read(data, self.layout.protected_at + offset, "read protected DRAM")
    }
}

impl Image for FileImage {
    fn outlives_process(&self) -> bool {
        true
    }

    fn slots_in_file(&self) -> Option<&dyn SlotsInFile> {
        self.store.slot_file().is_some().then_some(self as _)
    }

    fn slots_in_file_mut(&mut self) -> Option<&mut dyn SlotsInFile> {
        self.store.slot_file().is_some().then_some(self as _)
    }

    fn synced(&mut self) -> Option<&mut dyn Synced> {
        self.store.is_ordered().then_some(self as _)
    }

    fn try_clone(&self) -> Option<Box<dyn Image>> {
        None
    }
}

impl SlotsInFile for FileImage {
    fn file(&self) -> Arc<MappedFile> {
        let file = self.store.slot_file().expect("an image says whether its slots lie in a file");
        Arc::clone(file)
    }

    fn at(&self, slot: Slot) -> u64 {
        self.layout.slot_at(slot)
    }

    fn checksum(&self, slot: Slot) -> u32 {
        self.data_checksums[slot.index()]
    }

    fn written(&mut self, slot: Slot, checksum: u32) {
        if self.data_checksums.len() <= slot.index() {
            self.data_checksums.resize(slot.index() + 1, 0);
        }
        self.data_checksums[slot.index()] = checksum;
    }
}

impl Synced for FileImage {
    fn sync_begin(&mut self) -> Result<Option<HostSync>, NandError> {
        let begun = self.store.as_ordered().map_or(Ok(None), Ordered::sync_begin);
        begun.map_err(io_error(&self.path, "collect changes for the redo log of the image"))
    }

    fn sync_end(&mut self) -> Result<(), NandError> {
        let ended = self.store.as_ordered().map_or(Ok(()), Ordered::sync_end);
        ended.map_err(io_error(&self.path, "write records in place"))
    }
}
