//! An image in a sparse file, locked while it is open. Spare areas are read from the file, not kept in memory.
//!
//! Memory holds each block's part of the tally, and the checksum of each slot's data; the latter is stored in the page
//! record that names the slot.

mod records;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zerocopy::{FromBytes, IntoBytes};

use super::layout::{Layout, PageHead, StoredPage};
use super::life::Ended;
use super::nvm_lines::{self, LINE_BYTES, Line};
use super::ordered::Ordered;
use super::redo_log::REDO_LOG_BYTES;
use super::store::Store;
use super::summary::{self, SUMMARY_AT, Summary};
use super::tally::Sums;
use super::{
    Access, Examination, HostSync, Image, ImageFinding, MappedFile, MediumState, NvmCells, ProtectedDram,
    SlotStore, SlotsInFile, Synced,
};
use crate::checksum::checksum_of;
use crate::error::{HostError, NandError};
use crate::geometry::{BlockId, Geometry, PageId, UNIT_BYTES};
use crate::nvm_shape::NvmShape;
use crate::slots::Slot;

/// So few free slots are not worth giving back: those that a file may have are then not looked for when it is opened.
const FEW_SLOTS: u64 = 256;

/// Bytes of records read at once.
const READ_BYTES: usize = 1 << 20;

/// An image in a file.
pub struct FileImage {
    pub(super) path: PathBuf,
    store: Store,
    geometry: Geometry,
    pub(super) layout: Layout,
    protected_bytes: u64,
    nvm: Option<NvmShape>,
    sums: Sums,
    /// CRC-32C of each slot's data.
    data_checksums: Vec<u32>,
    /// The number of the newest tally.
    tally_number: u32,
    /// Buffers that held the records of erased blocks, for the next ones.
    spare_records: Vec<Vec<u8>>,
}

/// Adds what was being done when the host failed.
pub(super) fn io_error<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> NandError + 'a {
    move |source| match Ended::is_why(&source) {
        true => NandError::PowerLost,
        false => HostError::new(path, action, &source).into(),
    }
}

impl FileImage {
    /// An image whose records must still be read ([`super::Contents::load`]).
    pub(super) fn assemble(
        path: &Path,
        store: Store,
        geometry: Geometry,
        layout: Layout,
        protected_bytes: u64,
        nvm: Option<NvmShape>,
    ) -> FileImage {
        FileImage {
            path: path.to_owned(),
            store,
            geometry,
            layout,
            protected_bytes,
            nvm,
            sums: Sums::new(&geometry),
            data_checksums: Vec::new(),
            tally_number: 0,
            spare_records: Vec::new(),
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

    /// The geometry of its header.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The shape of the memory beside the flash.
    pub fn nvm(&self) -> Option<&NvmShape> {
        self.nvm.as_ref()
    }

    /// Reads every line of that memory. With [`Access::Write`], damaged ones hold zeros from then on.
    pub fn examine_nvm(&mut self, access: Access, examination: &mut Examination) -> Result<(), NandError> {
        let count = self.nvm.map_or(0, |shape| nvm_lines::line_count(shape.bytes)) as u32;
        let mut damaged = Vec::new();
        self.visit_records(self.layout.nvm_at, count, LINE_BYTES as usize, |number, bytes| {
            let line = Line::read_from_bytes(bytes).expect("the length is that of a line");
            damaged.extend(line.damage(number.into()).map(|_| u64::from(number)));
            Ok::<(), NandError>(())
        })?;
        examination.nvm_lines = count.into();
        for line in damaged {
            examination.findings.push(ImageFinding::NvmLine { line });
            if access == Access::Write {
                self.write_line(line, Line::fresh())?;
            }
        }
        Ok(())
    }

    fn read_line(&self, number: u64) -> Result<Line, NandError> {
        let mut line = Line::fresh();
        self.read(line.as_mut_bytes(), self.line_at(number), "read non-volatile memory")?;
        Ok(line)
    }

    /// Reads a line, whose checksum must be right.
    fn read_whole_line(&self, number: u64) -> Result<Line, NandError> {
        let line = self.read_line(number)?;
        match line.damage(number) {
            None => Ok(line),
            Some((stored, computed)) => Err(NandError::NvmChecksum { line: number, stored, computed }),
        }
    }

    fn write_line(&mut self, number: u64, mut line: Line) -> Result<(), NandError> {
        line.seal(number);
        self.write(line.as_bytes(), self.line_at(number), "write non-volatile memory")
    }

    fn line_at(&self, number: u64) -> u64 {
        self.layout.nvm_at + number * LINE_BYTES
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

    /// Calls `visit` with each of `count` records, starting at `at`, `bytes` apart.
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

    /// The summary of its page records, if it has one that is up to date.
    pub(super) fn read_summary(&self) -> Result<Option<Summary>, NandError> {
        let (Some(log), Some(tally)) = (self.layout.log, self.read_tally()?) else { return Ok(None) };
        Summary::read(&tally, |bytes, at| self.read(bytes, log.log_at + at, "read the summary"))
    }

    /// Nothing takes the summary for true any more, if records are changed without the redo log from now on. Of such changes a lost
    /// machine may leave any, also without the tally, which would still be the one that the summary names.
    pub(super) fn end_summary(&mut self) -> Result<(), NandError> {
        let Some(log) = self.layout.log else { return Ok(()) };
        let at = log.log_at + SUMMARY_AT;
        let mut magic = [0; summary::MAGIC.len()];
        self.read(&mut magic, at, "read the summary")?;
        if magic != summary::MAGIC {
            return Ok(());
        }
        let ended = self.store.erase_durably::<{ summary::MAGIC.len() }>(at);
        ended.map_err(io_error(&self.path, "end the summary of page records"))
    }

    fn first_page_at(&self, block: BlockId) -> u64 {
        self.layout.page_at(self.geometry.page(block, 0))
    }
}

impl Drop for FileImage {
    fn drop(&mut self) {
        if let Some(ordered) = self.store.as_ordered() {
            // If this fails, what was synced is in the redo log; nothing else was promised.
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

    /// Their checksums are in memory.
    #[inline]
    fn prefetch_slot(&self, slot: Slot) {
        std::hint::black_box(self.data_checksums[slot.index()]);
    }

    /// Most units that differ also have different checksums.
    fn slot_holds(&self, slot: Slot, data: &[u8; UNIT_BYTES]) -> bool {
        let mut found = [0; UNIT_BYTES];
        self.data_checksums[slot.index()] == checksum_of(data)
            && self.read_slot(slot, &mut found).is_ok()
            && found == *data
    }
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

impl NvmCells for FileImage {
    fn write_nvm(&mut self, at: u64, data: &[u8]) -> Result<(), NandError> {
        let mut rest = data;
        for (number, first, count) in nvm_lines::lines_of(at, data.len()) {
            let (part, others) = rest.split_at(count);
            let mut line = self.read_whole_line(number)?;
            line.data[first..first + count].copy_from_slice(part);
            self.write_line(number, line)?;
            rest = others;
        }
        Ok(())
    }

    fn read_nvm(&self, at: u64, data: &mut [u8]) -> Result<(), NandError> {
        let mut done = 0;
        for (number, first, count) in nvm_lines::lines_of(at, data.len()) {
            let line = self.read_whole_line(number)?;
            data[done..done + count].copy_from_slice(&line.data[first..first + count]);
            done += count;
        }
        Ok(())
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
        self.store.peek_ordered().is_some().then_some(self as _)
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

    fn settle(&mut self) -> Result<(), NandError> {
        let settled = self.store.as_ordered().map_or(Ok(()), Ordered::settle);
        settled.map_err(io_error(&self.path, "write all records in place"))
    }

    fn summarise(&mut self, state: &MediumState<'_>) {
        let Ok(Some(tally)) = self.read_tally() else { return };
        let bytes = summary::encode(&self.geometry, state, &self.sums, &self.data_checksums, tally);
        if let Some(ordered) = self.store.as_ordered() {
            // the next opening does without it
            let _ = ordered.write_in_empty_log(&bytes, SUMMARY_AT);
        }
    }

    fn takes_space_back(&self) -> bool {
        self.store.peek_ordered().is_some_and(Ordered::takes_space_back)
    }

    fn slots_on_disk(&self, in_use: u32) -> Result<u32, NandError> {
        let error = |action| io_error(&self.path, action);
        let on_disk = self.store.peek_ordered().map_or(Ok(0), Ordered::bytes_on_disk);
        let on_disk = on_disk.map_err(error("read how much the image takes on the disk"))?;
        // the log has its part that is in use, and each unit its part of a page's record
        let record = self.layout.page_stride as u64 / u64::from(self.geometry.units_per_page());
        let beside = REDO_LOG_BYTES / 2 + u64::from(in_use) * record;
        if on_disk < beside + (u64::from(in_use) + FEW_SLOTS) * UNIT_BYTES as u64 {
            return Ok(0);
        }
        Ok((self.bytes()?.saturating_sub(self.layout.slots_at) / UNIT_BYTES as u64) as u32)
    }

    fn give_back_slots(&mut self, first: Slot, count: u32) -> Result<bool, NandError> {
        let at = self.layout.slot_at(first);
        let bytes = at..at + u64::from(count) * UNIT_BYTES as u64;
        let given = self.store.as_ordered().map_or(Ok(false), |ordered| ordered.give_back_slots(bytes));
        given.map_err(io_error(&self.path, "give space of the image back"))
    }

    fn give_back_records(&mut self, block: BlockId) {
        let at = self.first_page_at(block);
        let bytes = u64::from(self.geometry.pages_per_block) * self.layout.page_stride as u64;
        if let Some(ordered) = self.store.as_ordered() {
            ordered.is_void(at..at + bytes);
        }
    }
}
