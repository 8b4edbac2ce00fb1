//! Detecting a checkpoint's writes, so that they become shares.
//!
//! SQLite's checkpoint reads a page from the log and then writes the same bytes to the database file. A write is
//! treated as a checkpoint's only if a frame read shortly before has the page's number, is on the drive as a part of a
//! whole transaction, and equals the write byte for byte. Otherwise it is written.

use tantalum::UNIT_BYTES;
use tantalum_volume::{Volume, VolumeError};

use crate::framed_log::FramedLog;
use crate::share_queue::GoesHome;

impl FramedLog {
    /// Handles a write to the database file if a share does the same. Returns whether it did.
    pub fn take_home(&mut self, volume: &mut Volume, offset: u64, data: &[u8]) -> Result<bool, VolumeError> {
        let Some(page) = self.recognise(volume, offset, data)? else { return Ok(false) };
        let (units, limit) = (self.layout.page_units(), volume.device().limits().share_units);
        if units > limit {
            return Ok(false);
        }
        if self.shares.must_be_issued_before(page.page_number, units, limit) {
            self.issue_shares(volume)?;
        }
        let end = offset + data.len() as u64;
        if end > self.home_bytes {
            volume.reserve(self.database, end)?;
        }
        if volume.size(self.database)? < end {
            volume.set_size(self.database, end)?;
        }
        let first_home = offset / UNIT_BYTES as u64;
        let first_unit = self.layout.first_unit(page.frame);
        let places = |unit: u64| {
            let home = volume.lpn(self.database, first_home + unit)?;
            Some((home, volume.lpn(self.file, first_unit + unit)?))
        };
        let Some(places) = (0..u64::from(units)).map(places).collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        self.shares.push(page, places.into_iter());
        for (unit, data) in data.chunks_exact(UNIT_BYTES).enumerate() {
            volume.cache_put_clean(self.database, first_home + unit as u64, data);
        }
        Ok(true)
    }

    /// The frame whose page a write to the database file repeats.
    fn recognise(
        &mut self,
        volume: &mut Volume,
        offset: u64,
        data: &[u8],
    ) -> Result<Option<GoesHome>, VolumeError> {
        let page_bytes = self.layout.page_bytes();
        if data.len() != page_bytes || !offset.is_multiple_of(page_bytes as u64) {
            return Ok(None);
        }
        let Ok(page_number) = u32::try_from(offset / page_bytes as u64 + 1) else { return Ok(None) };
        let (recent, frames) = (self.recent.clone(), self.frames);
        for frame in recent.latest().filter(|&frame| frame <= frames) {
            let is_home = self.frame_header(volume, frame)?.page_number() == page_number;
            if is_home && self.numbering.is_committed(frame) {
                // so the drive has it as SQLite wrote it last: a change makes a frame part of an open transaction
                debug_assert!(!self.changed.contains(&frame), "frame {frame} was sent and has changed since");
                let is_same = self.page_equals(volume, frame, data)?;
                return Ok(is_same.then_some(GoesHome { frame, page_number }));
            }
        }
        Ok(None)
    }

    fn page_equals(&mut self, volume: &mut Volume, frame: u32, data: &[u8]) -> Result<bool, VolumeError> {
        let mut unit = [0; UNIT_BYTES];
        for (index, data) in data.chunks_exact(UNIT_BYTES).enumerate() {
            self.read_page(volume, frame, index * UNIT_BYTES, &mut unit)?;
            if unit != *data {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends the waiting shares. If the drive refuses, their pages are written instead.
    pub fn issue_shares(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        self.write_refused(volume)?;
        self.shares.issue(volume)?;
        self.write_refused(volume)
    }

    /// Writes the pages that the drive refused to share. If that fails, the rest is written before anything else happens to
    /// the database file.
    fn write_refused(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        while let Some(GoesHome { frame, page_number }) = self.shares.refused() {
            let mut data = self.spare_page();
            self.read_page(volume, frame, 0, &mut data)?;
            let offset = u64::from(page_number - 1) * data.len() as u64;
            volume.write(self.database, offset, &data)?;
            self.shares.refused_is_written();
        }
        Ok(())
    }

    /// Before the database file is truncated: homes beyond its new end are gone.
    pub fn database_cut(&mut self, bytes: u64) {
        self.home_bytes = self.home_bytes.min(bytes);
    }
}
