//! Reads and writes through the page cache, and write-back from it to the drive.
//!
//! A sync sends all dirty pages of a file at once, adjacent ones in one command. Between syncs the oldest dirty pages
//! are written when there are too many: one such batch is in flight at a time, and whoever dirties more waits for it.
//!
//! Invariant: dirty pages lie within their files and have places. So a file gets places before a page becomes dirty, and
//! its pages are forgotten before it loses them.

use std::ops::Range;

use tantalum::{Command, Lpn, TxId, UNIT_BYTES};
use tantalum_filesystem::{FileId, FrameId, PageCache, PageKey};

use crate::byte_range::{UNIT, pieces};
use crate::drive::VolumeClient;
use crate::error::VolumeError;
use crate::file::File;
use crate::files::Files;
use crate::inode::units_of;

/// The most units read in one command.
const READ_UNITS: u32 = 64;

/// The maximum number of units written in one command.
const WRITE_UNITS: usize = 256;

/// Pages written back at once when there are too many.
const BATCH_PAGES: usize = 1024;

/// The pages of files in memory.
pub(crate) struct Pages {
    cache: PageCache,
    /// Where the data of long commands are assembled.
    scratch: Vec<u8>,
}

/// A dirty page and its place.
struct DirtyPage {
    lpn: Lpn,
    frame: FrameId,
}

impl Pages {
    /// No pages, and room for about `bytes`.
    pub fn new(bytes: u64) -> Pages {
        Pages { cache: PageCache::new(bytes), scratch: Vec::new() }
    }

    pub fn copy(&self) -> Pages {
        Pages { cache: self.cache.clone(), scratch: Vec::new() }
    }

    /// What is in memory.
    pub fn cache(&self) -> &PageCache {
        &self.cache
    }

    // -- reading and writing --------------------------------------------------------------------------------------------

    /// Reads from `offset` on, and returns how many bytes there were.
    pub fn read(
        &mut self,
        drive: &mut VolumeClient,
        (id, file): (FileId, &File),
        offset: u64,
        data: &mut [u8],
    ) -> Result<usize, VolumeError> {
        let size = file.size();
        let bytes = size.saturating_sub(offset).min(data.len() as u64) as usize;
        let end = units_of(offset.saturating_add(bytes as u64).min(size));
        let mut done = 0;
        for piece in pieces(offset.min(size), bytes) {
            let to = &mut data[done..done + piece.bytes.len()];
            done += piece.bytes.len();
            match self.page(drive, (id, file), piece.unit, end)? {
                Some(frame) => to.copy_from_slice(&self.cache.data(frame)[piece.bytes]),
                None => to.fill(0),
            }
        }
        Ok(bytes)
    }

    /// Writes to units that have places, and grows the file. If it fails, data from the front may have been written, up to a
    /// unit's end, and the size includes them.
    pub fn write(
        &mut self,
        drive: &mut VolumeClient,
        files: &mut Files,
        id: FileId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), VolumeError> {
        let mut done = 0;
        for piece in pieces(offset, data.len()) {
            let from = &data[done..done + piece.bytes.len()];
            done += piece.bytes.len();
            self.limit_dirty(drive, files)?;
            let file = files.get_mut(id)?;
            let frame = self.page_to_change(drive, (id, &*file), piece.unit, from.len() == UNIT_BYTES)?;
            self.cache.data_mut(frame)[piece.bytes].copy_from_slice(from);
            self.mark_dirty((id, &*file), piece.unit, frame);
            file.grow_to(offset + done as u64);
            self.limit_dirty_after(drive, files);
        }
        Ok(())
    }

    /// Zeroes bytes of one unit, if it has a place.
    pub fn zero(
        &mut self,
        drive: &mut VolumeClient,
        files: &mut Files,
        id: FileId,
        bytes: Range<u64>,
    ) -> Result<(), VolumeError> {
        self.limit_dirty(drive, files)?;
        let (unit, start) = ((bytes.start / UNIT) as u32, bytes.start % UNIT);
        let end = start + bytes.end - bytes.start;
        if self.zero_page(drive, (id, files.get(id)?), unit, start as usize..end as usize)? {
            self.limit_dirty_after(drive, files);
        }
        Ok(())
    }

    /// Zeroes the rest of the file's last unit before the size grows over it. Data may be there since a truncation, or
    /// since a crash between the data and the inode.
    pub fn clear_tail(
        &mut self,
        drive: &mut VolumeClient,
        files: &mut Files,
        id: FileId,
    ) -> Result<(), VolumeError> {
        let size = files.get(id)?.size();
        let (unit, kept) = ((size / UNIT) as u32, (size % UNIT) as usize);
        if kept == 0 {
            return Ok(());
        }
        self.limit_dirty(drive, files)?;
        self.zero_page(drive, (id, files.get(id)?), unit, kept..UNIT_BYTES).map(drop)
    }

    /// Zeroes bytes of a unit; returns false, and does nothing, if it is a hole.
    fn zero_page(
        &mut self,
        drive: &mut VolumeClient,
        file: (FileId, &File),
        unit: u32,
        bytes: Range<usize>,
    ) -> Result<bool, VolumeError> {
        let Some(frame) = self.page(drive, file, unit, unit + 1)? else { return Ok(false) };
        self.cache.data_mut(frame)[bytes].fill(0);
        self.mark_dirty(file, unit, frame);
        Ok(true)
    }

    /// The page of a unit now differs from what the drive holds, and will be written to the unit's place.
    fn mark_dirty(&mut self, (id, file): (FileId, &File), unit: u32, frame: FrameId) {
        debug_assert!(
            file.extents().run(unit).is_some(),
            "unit {unit} of file {} becomes dirty and has no place",
            id.0
        );
        self.cache.mark_dirty(frame);
    }

    /// The page of a unit, read from the drive if necessary, together with following units below `end`. None if
    /// the unit is a hole.
    fn page(
        &mut self,
        drive: &mut VolumeClient,
        (id, file): (FileId, &File),
        unit: u32,
        end: u32,
    ) -> Result<Option<FrameId>, VolumeError> {
        if let Some(frame) = self.cache.find(PageKey::new(id, unit)) {
            return Ok(Some(frame));
        }
        let Some(range) = file.extents().run(unit) else { return Ok(None) };
        let most = READ_UNITS.min((self.cache.most_pages() / 4) as u32).min(range.units);
        let most = most.min(end.saturating_sub(unit)).max(1);
        let is_missing = |i: &u32| !self.cache.contains(PageKey::new(id, unit + i));
        let mut units = 1 + (1..most).take_while(is_missing).count();
        self.scratch.resize(units * UNIT_BYTES, 0);
        let mut read = drive.read(range.lpn, &mut self.scratch);
        if units > 1 && read.as_ref().is_err_and(|error| !error.is_end_of_drive()) {
            // one of the units that nobody asked for may be the one that cannot be read
            units = 1;
            read = drive.read(range.lpn, &mut self.scratch[..UNIT_BYTES]);
        }
        read?;
        // In falling order, so that the first one, which was requested, would be evicted last.
        for i in (0..units).rev() {
            let frame = self.cache.insert(PageKey::new(id, unit + i as u32));
            self.cache.data_mut(frame).copy_from_slice(&self.scratch[i * UNIT_BYTES..][..UNIT_BYTES]);
        }
        Ok(self.cache.find(PageKey::new(id, unit)))
    }

    /// The page of a unit that has a place, to be written. Its contents are old, unless `whole` is about to be
    /// written or the unit is beyond the file's end.
    fn page_to_change(
        &mut self,
        drive: &mut VolumeClient,
        (id, file): (FileId, &File),
        unit: u32,
        whole: bool,
    ) -> Result<FrameId, VolumeError> {
        if whole {
            return Ok(self.cache.find_or_insert(PageKey::new(id, unit)));
        }
        let is_beyond = u64::from(unit) * UNIT >= file.size();
        if is_beyond {
            let frame = self.cache.find_or_insert(PageKey::new(id, unit));
            self.cache.data_mut(frame).fill(0);
            return Ok(frame);
        }
        let page = self.page(drive, (id, file), unit, unit + 1)?;
        Ok(page.expect("a unit that has a place has a page"))
    }

    // -- beside the cache -------------------------------------------------------------------------------------------------

    /// A cached unit.
    pub fn cached(&mut self, id: FileId, unit: u32) -> Option<&[u8; UNIT_BYTES]> {
        let frame = self.cache.find(PageKey::new(id, unit))?;
        Some(self.cache.data(frame))
    }

    /// The drive holds this in a unit.
    pub fn put_clean(&mut self, id: FileId, unit: u32, page: &[u8; UNIT_BYTES]) {
        let frame = self.cache.find_or_insert(PageKey::new(id, unit));
        self.cache.data_mut(frame).copy_from_slice(page);
        self.cache.mark_clean(frame);
    }

    /// Units change without the cache, or lose their places.
    pub fn forget(&mut self, id: FileId, units: Range<u32>) {
        self.cache.remove_units(id, units);
    }

    /// One unit changes without the cache.
    pub fn forget_unit(&mut self, id: FileId, unit: u32) {
        self.cache.remove(PageKey::new(id, unit));
    }

    /// Units may have changed without the cache. Dirty pages still have their turn.
    pub fn forget_clean(&mut self, id: FileId, units: Range<u32>) {
        self.cache.remove_clean_units(id, units);
    }

    // -- versions of transactions -----------------------------------------------------------------------------------------

    /// A transaction has written a unit.
    pub fn put_in(&mut self, tx: TxId, id: FileId, unit: u32, page: &[u8; UNIT_BYTES]) {
        let frame = self.cache.find_or_insert(PageKey { file: id, unit, tx: Some(tx) });
        self.cache.data_mut(frame).copy_from_slice(page);
    }

    /// A unit that the transaction has written, and where it is.
    pub fn read_in(
        &mut self,
        drive: &mut VolumeClient,
        tx: TxId,
        (id, file): (FileId, &File),
        unit: u32,
    ) -> Result<&[u8; UNIT_BYTES], VolumeError> {
        let key = PageKey { file: id, unit, tx: Some(tx) };
        if let Some(frame) = self.cache.find(key) {
            return Ok(self.cache.data(frame));
        }
        let lpn = file.place(unit).lpn;
        let frame = self.cache.insert(key);
        let data = self.cache.data_mut(frame);
        if let Err(error) = drive.submit(Command::TxRead { tx, lpn, data }) {
            self.cache.remove(key);
            return Err(error);
        }
        Ok(self.cache.data(frame))
    }

    /// The transaction is committed: everyone sees its version of a unit.
    pub fn publish(&mut self, tx: TxId, id: FileId, unit: u32) {
        self.cache.publish(PageKey { file: id, unit, tx: Some(tx) });
    }

    /// The transaction is aborted: nobody sees its version of a unit.
    pub fn forget_in(&mut self, tx: TxId, id: FileId, unit: u32) {
        self.cache.remove(PageKey { file: id, unit, tx: Some(tx) });
    }

    // -- write-back -------------------------------------------------------------------------------------------------------

    /// Sends all dirty pages of a file, without waiting for them.
    pub fn write_back(
        &mut self,
        drive: &mut VolumeClient,
        files: &mut Files,
        id: FileId,
    ) -> Result<(), VolumeError> {
        self.write_back_from(drive, files, (id, 0), usize::MAX)
    }

    /// Limits the number of dirty pages. Called before a page becomes dirty: if it fails, nothing has changed, and
    /// at most one page more than the limit is dirty.
    fn limit_dirty(&mut self, drive: &mut VolumeClient, files: &mut Files) -> Result<(), VolumeError> {
        let (limit, dirty) = (self.cache.dirty_limit(), self.cache.dirty_pages());
        assert!(dirty <= limit + 1, "{dirty} pages are dirty, the limit is {limit}");
        if dirty <= limit {
            return Ok(());
        }
        drive.await_write_back();
        while self.cache.dirty_pages() > limit - limit / 4 {
            let Some(oldest) = self.cache.oldest_dirty() else { break };
            self.write_back_from(drive, files, oldest, BATCH_PAGES)?;
        }
        Ok(())
    }

    /// As [`Pages::limit_dirty`], when a page has become dirty. The page is in the cache, so its writer does not fail:
    /// pages that could not be written stay dirty, and the next change or sync reports why.
    fn limit_dirty_after(&mut self, drive: &mut VolumeClient, files: &mut Files) {
        let _ = self.limit_dirty(drive, files);
    }

    /// Sends up to `most` dirty pages of a file, from a unit on, without waiting for them.
    fn write_back_from(
        &mut self,
        drive: &mut VolumeClient,
        files: &mut Files,
        (id, from): (FileId, u32),
        most: usize,
    ) -> Result<(), VolumeError> {
        let file = files.get_mut(id)?;
        let place = |(unit, frame)| DirtyPage { lpn: file.place(unit).lpn, frame };
        let pages: Vec<DirtyPage> = self.cache.dirty_from(id, from).take(most).map(place).collect();
        if pages.is_empty() {
            return Ok(());
        }
        file.touch();
        let mut rest = &pages[..];
        while !rest.is_empty() {
            let (run, others) = rest.split_at(run_length(rest));
            self.write_run(drive, run)?;
            rest = others;
        }
        debug_assert!(
            self.cache.dirty_from(id, from).next().is_none() || pages.len() == most,
            "pages of file {} are dirty after {} were written back",
            id.0,
            pages.len()
        );
        Ok(())
    }

    /// Writes adjacent pages in one command.
    fn write_run(&mut self, drive: &mut VolumeClient, run: &[DirtyPage]) -> Result<(), VolumeError> {
        let Pages { cache, scratch } = self;
        let data: &[u8] = if let [page] = run {
            cache.data(page.frame)
        } else {
            scratch.clear();
            run.iter().for_each(|page| scratch.extend_from_slice(cache.data(page.frame)));
            scratch
        };
        debug_assert_eq!(
            data.len(),
            run.len() * UNIT_BYTES,
            "bytes of {} pages at {:?}",
            run.len(),
            run[0].lpn
        );
        drive.write_back(run[0].lpn, data)?;
        run.iter().for_each(|page| self.cache.mark_clean(page.frame));
        Ok(())
    }
}

/// The number of pages, starting with the first, that are adjacent.
fn run_length(pages: &[DirtyPage]) -> usize {
    let first = pages[0].lpn.0;
    let follows = |(i, page): &(usize, &DirtyPage)| page.lpn.0 == first + *i as u32;
    pages.iter().take(WRITE_UNITS).enumerate().take_while(follows).count()
}
