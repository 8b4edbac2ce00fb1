//! An image in a sparse file, locked while it is open. Spare areas are read from the file, not held in memory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use zerocopy::{FromZeros, IntoBytes};

use super::layout::{
    BlockEntry, DESCRIPTION_AT, Header, Layout, MAGIC, MAX_PAGE_RECORD_BYTES, PageHead, StoredPage, VERSION,
};
use super::{Image, MAX_DESCRIPTION_BYTES, MAX_PROTECTED_BYTES, PageRecord, SavedRecords};
use crate::error::NandError;
use crate::geometry::{BlockId, Geometry, PageId, UNIT_SPARE_BYTES, UnitSpare};
use crate::nand::Block;
use crate::slots::Slot;
use crate::time::Timing;

/// Bytes of records that are read at once.
const READ_BYTES: usize = 1 << 20;

/// An image in a file.
pub(crate) struct FileImage {
    pub(super) path: PathBuf,
    file: File,
    geometry: Geometry,
    pub(super) layout: Layout,
    protected_bytes: u64,
}

/// Says what was being done when the host failed.
fn io_error<'a>(path: &'a Path, action: &'static str) -> impl FnOnce(io::Error) -> NandError + 'a {
    move |source| NandError::Io { path: path.to_owned(), action, source }
}

fn lock(file: &File, path: &Path) -> Result<(), NandError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => NandError::Locked { path: path.to_owned() },
        TryLockError::Error(source) => {
            NandError::Io { path: path.to_owned(), action: "lock the image", source }
        }
    })
}

impl FileImage {
    // -- making and opening -----------------------------------------------------------------------------------

    /// A new image, its arguments being valid.
    pub fn create(
        path: &Path,
        geometry: Geometry,
        timing: Timing,
        description: &str,
        protected_bytes: u64,
    ) -> Result<FileImage, NandError> {
        let opened = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = opened.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => NandError::Exists { path: path.to_owned() },
            _ => io_error(path, "create the image")(error),
        })?;
        let layout = Layout::new(&geometry, protected_bytes);
        let image = FileImage { path: path.to_owned(), file, geometry, layout, protected_bytes };
        let header = Header::new(&geometry, &timing, description, protected_bytes);
        image.initialise(&header, description).inspect_err(|_| {
            // The error that is reported matters more than a file that could not be removed.
            let _ = std::fs::remove_file(path);
        })?;
        Ok(image)
    }

    fn initialise(&self, header: &Header, description: &str) -> Result<(), NandError> {
        lock(&self.file, &self.path)?;
        self.file.set_len(self.layout.bytes).map_err(io_error(&self.path, "set the length of the image"))?;
        self.write(description.as_bytes(), DESCRIPTION_AT, "write the description")?;
        self.write(header.as_bytes(), 0, "write the header")
    }

    /// Opens an image and checks its header and length. Returns its times and description beside it.
    pub fn open(path: &Path) -> Result<(FileImage, Timing, String), NandError> {
        let error = |action| io_error(path, action);
        let file = OpenOptions::new().read(true).write(true).open(path).map_err(error("open the image"))?;
        let metadata = file.metadata().map_err(error("read the size of the image"))?;
        if !metadata.is_file() {
            return Err(NandError::NotAnImage { path: path.to_owned() });
        }
        lock(&file, path)?;
        let header = read_header(&file, path, metadata.len())?;
        let description = read_description(&file, path, &header, metadata.len())?;
        let (geometry, timing) = (header.geometry(), header.timing());
        let protected_bytes = header.protected_bytes.get();
        check_possible(&geometry, &timing, protected_bytes).map_err(|source| {
            NandError::ImpossibleHeader { path: path.to_owned(), source: Box::new(source) }
        })?;
        let layout = Layout::new(&geometry, protected_bytes);
        check_length(path, metadata.len(), layout.bytes)?;
        Ok((
            FileImage { path: path.to_owned(), file, geometry, layout, protected_bytes },
            timing,
            description,
        ))
    }

    // -- reading and writing ----------------------------------------------------------------------------------

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Bytes of the file.
    pub(super) fn bytes(&self) -> Result<u64, NandError> {
        let metadata = self.file.metadata().map_err(io_error(&self.path, "read the size of the image"))?;
        Ok(metadata.len())
    }

    pub(super) fn read(&self, data: &mut [u8], at: u64, action: &'static str) -> Result<(), NandError> {
        self.file.read_exact_at(data, at).map_err(io_error(&self.path, action))
    }

    fn write(&self, data: &[u8], at: u64, action: &'static str) -> Result<(), NandError> {
        self.file.write_all_at(data, at).map_err(io_error(&self.path, action))
    }

    /// Calls `visit` with each of `count` records of `bytes` each that follow each other from `at` on.
    pub(super) fn visit_records(
        &self,
        at: u64,
        count: u32,
        bytes: usize,
        mut visit: impl FnMut(u32, &[u8]) -> Result<(), NandError>,
    ) -> Result<(), NandError> {
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

    fn first_page_at(&self, block: BlockId) -> u64 {
        self.layout.page_at(self.geometry.page(block, 0))
    }
}

fn read_header(file: &File, path: &Path, file_bytes: u64) -> Result<Header, NandError> {
    let mut header = Header::new_zeroed();
    let present = file_bytes.min(size_of::<Header>() as u64) as usize;
    file.read_exact_at(&mut header.as_mut_bytes()[..present], 0)
        .map_err(io_error(path, "read the header"))?;
    if header.magic != MAGIC {
        return Err(NandError::NotAnImage { path: path.to_owned() });
    }
    check_length(path, file_bytes, size_of::<Header>() as u64)?;
    if header.version.get() != VERSION {
        let found = header.version.get();
        return Err(NandError::Version { path: path.to_owned(), found, supported: VERSION });
    }
    Ok(header)
}

fn read_description(file: &File, path: &Path, header: &Header, file_bytes: u64) -> Result<String, NandError> {
    // A length that is too large can only be damage; the checksum of what is there then fails.
    let bytes = (header.description_bytes.get() as usize).min(MAX_DESCRIPTION_BYTES);
    check_length(path, file_bytes, DESCRIPTION_AT + bytes as u64)?;
    let mut description = vec![0; bytes];
    file.read_exact_at(&mut description, DESCRIPTION_AT).map_err(io_error(path, "read the description"))?;
    let (stored, computed) = (header.checksum.get(), header.checksum_with(&description));
    if stored != computed {
        return Err(NandError::HeaderChecksum { path: path.to_owned(), stored, computed });
    }
    String::from_utf8(description).map_err(|_| NandError::DescriptionNotText { path: path.to_owned() })
}

fn check_possible(geometry: &Geometry, timing: &Timing, protected_bytes: u64) -> Result<(), NandError> {
    geometry.validate()?;
    timing.validate()?;
    if protected_bytes > MAX_PROTECTED_BYTES {
        return Err(NandError::ProtectedTooLarge { bytes: protected_bytes, limit: MAX_PROTECTED_BYTES });
    }
    Ok(())
}

pub(super) fn check_length(path: &Path, bytes: u64, expected: u64) -> Result<(), NandError> {
    if bytes < expected {
        return Err(NandError::Truncated { path: path.to_owned(), bytes, expected });
    }
    Ok(())
}

impl Image for FileImage {
    fn write_slot(&mut self, slot: Slot, data: &[u8]) -> Result<(), NandError> {
        self.write(data, self.layout.slot_at(slot), "write a unit")
    }

    fn read_slot(&self, slot: Slot, data: &mut [u8]) -> Result<(), NandError> {
        self.read(data, self.layout.slot_at(slot), "read a unit")
    }

    fn write_page(&mut self, page: PageId, record: &PageRecord) -> Result<(), NandError> {
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let bytes = &mut buffer[..self.layout.page_record_bytes];
        PageHead::encode(record, bytes);
        self.write(bytes, self.layout.page_at(page), "write a page record")
    }

    fn clear_page(&mut self, page: PageId) -> Result<(), NandError> {
        let zeros = &[0; MAX_PAGE_RECORD_BYTES][..self.layout.page_record_bytes];
        self.write(zeros, self.layout.page_at(page), "clear a page record")
    }

    fn spoil_page(&mut self, page: PageId) -> Result<(), NandError> {
        let mut buffer = [0; MAX_PAGE_RECORD_BYTES];
        let bytes = &mut buffer[..self.layout.page_record_bytes];
        match self.read_page(page, bytes)? {
            StoredPage::Whole(head) => {
                head.spoil(bytes);
                self.write(bytes, self.layout.page_at(page), "write a page record")
            }
            StoredPage::Absent | StoredPage::Damaged => Ok(()),
        }
    }

    fn read_spares(&self, page: PageId, first: usize, spares: &mut [UnitSpare]) -> Result<(), NandError> {
        let start = (size_of::<PageHead>() + first * UNIT_SPARE_BYTES) as u64;
        self.read(spares.as_flattened_mut(), self.layout.page_at(page) + start, "read spare areas")
    }

    fn block_spares<'a>(
        &'a self,
        block: BlockId,
        spares: &'a mut Vec<UnitSpare>,
    ) -> Result<&'a [UnitSpare], NandError> {
        let units = self.geometry.units_per_page() as usize;
        let pages = self.geometry.pages_per_block;
        spares.resize(pages as usize * units, [0; UNIT_SPARE_BYTES]);
        let record_bytes = self.layout.page_record_bytes;
        self.visit_records(self.first_page_at(block), pages, record_bytes, |index, record| {
            let start = index as usize * units;
            let stored = &record[size_of::<PageHead>()..];
            spares[start..start + units].as_flattened_mut().copy_from_slice(stored);
            Ok(())
        })?;
        Ok(spares)
    }

    fn write_block(&mut self, block: BlockId, record: &Block) -> Result<(), NandError> {
        let entry = BlockEntry::new(record);
        self.write(entry.as_bytes(), self.layout.block_at(block), "write a block record")
    }

    fn take_records(&mut self, block: BlockId, pages: u32) -> Result<SavedRecords, NandError> {
        let mut records = vec![0; pages as usize * self.layout.page_record_bytes];
        self.read(&mut records, self.first_page_at(block), "read the records of a block")?;
        Ok(records)
    }

    fn restore_records(&mut self, block: BlockId, records: SavedRecords) -> Result<(), NandError> {
        self.write(&records, self.first_page_at(block), "write the records of a block")
    }

    fn drop_records(&mut self, _records: SavedRecords) {}

    fn protected_bytes(&self) -> u64 {
        self.protected_bytes
    }

    fn write_protected(&mut self, offset: u64, data: &[u8]) -> Result<(), NandError> {
        self.write(data, self.layout.protected_at + offset, "write protected DRAM")
    }

    fn read_protected(&self, offset: u64, data: &mut [u8]) -> Result<(), NandError> {
        self.read(data, self.layout.protected_at + offset, "read protected DRAM")
    }

    fn try_clone(&self) -> Option<Box<dyn Image>> {
        None
    }
}
