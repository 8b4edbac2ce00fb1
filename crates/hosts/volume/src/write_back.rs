//! Write-back: from the page cache to the drive.
//!
//! A sync sends all dirty pages of a file at once, adjacent ones in one command. Between syncs the oldest dirty pages
//! are written when there are too many: one such batch is in flight at a time, and whoever dirties more waits for it.

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;

use crate::error::VolumeError;
use crate::volume::Volume;
use tantalum_filesystem::FrameId;

/// The maximum number of units written in one command.
const WRITE_UNITS: usize = 256;

/// Pages written back at once when there are too many.
const BATCH_PAGES: usize = 1024;

/// A dirty page and its place.
struct DirtyPage {
    lpn: Lpn,
    frame: FrameId,
}

impl Volume {
    /// Sends all dirty pages of a file, without waiting for them.
    pub(crate) fn write_back_file(&mut self, file: FileId) -> Result<(), VolumeError> {
        self.write_back(file, 0, usize::MAX)
    }

    /// Limits the number of dirty pages. Called before a page becomes dirty: if it fails, nothing has changed, and
    /// at most one page more than the limit is dirty.
    pub(crate) fn limit_dirty_pages(&mut self) -> Result<(), VolumeError> {
        let (limit, dirty) = (self.cache.dirty_limit(), self.cache.dirty_pages());
        assert!(dirty <= limit + 1, "{dirty} pages are dirty, the limit is {limit}");
        if self.cache.dirty_pages() <= limit {
            return Ok(());
        }
        self.drive.await_write_back();
        while self.cache.dirty_pages() > limit - limit / 4 {
            let Some((file, unit)) = self.cache.oldest_dirty() else { break };
            self.write_back(file, unit, BATCH_PAGES)?;
        }
        Ok(())
    }

    /// As [`Volume::limit_dirty_pages`], when a page has become dirty. The page is in the cache, so its writer does not fail:
    /// pages that could not be written stay dirty, and the next change or sync reports why.
    pub(crate) fn limit_dirty_pages_after(&mut self) {
        let _ = self.limit_dirty_pages();
    }

    /// Sends up to `most` dirty pages of a file, from unit `from` on, without waiting for them.
    fn write_back(&mut self, file: FileId, from: u32, most: usize) -> Result<(), VolumeError> {
        let extents = &self.file(file)?.inode.extents;
        let place = |(unit, frame)| {
            let range = extents.run(unit).expect("a dirty page has a place");
            DirtyPage { lpn: range.lpn, frame }
        };
        let pages: Vec<DirtyPage> = self.cache.dirty_from(file, from).take(most).map(place).collect();
        if pages.is_empty() {
            return Ok(());
        }
        self.file_mut(file)?.touched = true;
        let mut rest = &pages[..];
        while !rest.is_empty() {
            let (run, others) = rest.split_at(run_length(rest));
            self.write_run(run)?;
            rest = others;
        }
        Ok(())
    }

    /// Writes adjacent pages in one command.
    fn write_run(&mut self, run: &[DirtyPage]) -> Result<(), VolumeError> {
        let Volume { drive, cache, scratch, .. } = self;
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
