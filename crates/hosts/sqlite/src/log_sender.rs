//! Sending a framed log to the drive.
//!
//! Recovery relies on the order (hazards 7 and 9 in docs/internals/hazards.md):
//!
//! 1. Shares of the old log are durable before a new header is sent: SQLite syncs the database before it restarts its
//!    log, and [`crate::database::Database::sync`] issues and flushes them.
//! 2. Before a frame is sent, the volume durably knows the log's units, and the database's units that hints name as
//!    homes; otherwise the drive would bring pages home into units that belong to no file.
//! 3. A new header is durable before a frame of the life that it opens is sent: SQLite syncs the log after its header
//!    (`sqlite3WalFrames`).
//! 4. Everything after the place where a reopened log continues is durably trimmed before the log continues.
//!
//! If the drive accepts no more hints, or has forgotten the log because of many others, the log continues without hints
//! until it restarts. The drive then brings home fewer transactions than SQLite recovers, and SQLite's own checkpoint
//! makes up for it; it never brings home more.

use tantalum::{Command, Lpn, Nanoseconds, Status, UNIT_BYTES, result_of};
use tantalum_canaries::guard;
use tantalum_volume::{Volume, VolumeError};

use crate::frame::FrameHeader;
use crate::framed_log::{FramedLog, GROWTH_UNITS};

impl FramedLog {
    /// Sends everything new and makes it durable.
    pub fn sync(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        let is_header = self.numbering.unsent().is_empty();
        self.send(volume)?;
        match is_header {
            true => guard!(FramesBeforeHeader, volume.submit(Command::Flush).map(drop)),
            false => guard!(HomesBeforeLog, volume.submit(Command::Flush).map(drop)),
        }
    }

    /// Sends everything new.
    pub fn send(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        self.send_header(volume)?;
        if self.numbering.unsent().is_empty() {
            return Ok(());
        }
        self.make_metadata_durable(volume)?;
        if self.hints {
            self.make_homes_durable(volume)?;
        }
        self.begin_generation(volume)?;
        self.send_frames(volume)
    }

    fn send_header(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        let Some(header) = self.header.filter(|_| self.header_is_new) else { return Ok(()) };
        self.make_metadata_durable(volume)?;
        let mut unit = [0; UNIT_BYTES];
        unit[..header.0.len()].copy_from_slice(&header.0);
        let lpn = volume.lpn(self.file, 0).expect("a log that has a header has its first unit");
        volume.submit(Command::Write { lpn, data: &unit, fua: false, handle: None })?;
        volume.cache_put_clean(self.file, 0, &unit);
        self.header_is_new = false;
        Ok(())
    }

    fn make_metadata_durable(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        if self.metadata_is_new {
            volume.set_attributes(self.file, &self.layout.to_attributes())?;
            volume.sync(self.file)?;
            self.metadata_is_new = false;
        }
        Ok(())
    }

    /// Makes the places of all pages in the frames to be sent durable. If there is no room for the database, some pages
    /// have no home; they will be written.
    fn make_homes_durable(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        let mut needed = 0;
        for frame in self.numbering.unsent() {
            let page_number = self.frame_header(volume, frame)?.page_number();
            needed = needed.max(u64::from(page_number) * self.layout.page_bytes() as u64);
        }
        if needed <= self.home_bytes {
            return Ok(());
        }
        let bytes = needed.next_multiple_of(GROWTH_UNITS * UNIT_BYTES as u64);
        match volume.reserve(self.database, bytes) {
            Ok(()) => {
                volume.sync(self.database)?;
                self.home_bytes = bytes;
                Ok(())
            }
            Err(VolumeError::NoSpace { .. } | VolumeError::TooFragmented { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The home of a page's unit in the database file.
    pub(crate) fn home(&self, volume: &Volume, page_number: u32, unit: u32) -> Option<Lpn> {
        let page_bytes = self.layout.page_bytes() as u64;
        let end = u64::from(page_number) * page_bytes;
        if page_number == 0 || end > self.home_bytes {
            return None;
        }
        volume.lpn(self.database, (end - page_bytes) / UNIT_BYTES as u64 + u64::from(unit))
    }

    fn begin_generation(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        let Some(base) = self.numbering.needs_generation() else { return Ok(()) };
        if guard!(StaleTailKept, self.tail_is_stale || self.generation.is_some()) {
            for frame in self.numbering.unsent() {
                self.load_page(volume, frame)?;
            }
            self.trim_behind(volume, base)?;
            self.tail_is_stale = false;
        }
        self.generation = None;
        if self.hints {
            match result_of(|generation| volume.submit(Command::BeginLog { generation })) {
                Ok(generation) => self.generation = Some(generation),
                Err(VolumeError::Device(Status::OverLimit { .. })) => self.hints = false,
                Err(error) => return Err(error),
            }
        }
        self.numbering.generation_begun();
        Ok(())
    }

    /// Durably trims all units after a frame.
    fn trim_behind(&mut self, volume: &mut Volume, frame: u32) -> Result<(), VolumeError> {
        let end = volume.size(self.file)? / UNIT_BYTES as u64;
        let mut run: Option<(Lpn, u32)> = None;
        for unit in self.layout.units(frame)..end {
            let Some(next) = volume.lpn(self.file, unit) else { continue };
            volume.cache_drop(self.file, unit);
            run = match run {
                Some((lpn, units)) if lpn.0 + units == next.0 => Some((lpn, units + 1)),
                _ => {
                    trim(volume, run)?;
                    Some((next, 1))
                }
            };
        }
        trim(volume, run)?;
        volume.submit(Command::Flush).map(drop)
    }

    /// Sends the frames at once, so that they go to the dies in parallel, and waits for all.
    fn send_frames(&mut self, volume: &mut Volume) -> Result<(), VolumeError> {
        self.numbering.begin_sending();
        let mut done_ns = volume.now_ns();
        for frame in self.numbering.unsent() {
            if self.hints || self.changed.contains(&frame) {
                self.load_page(volume, frame)?;
                done_ns = done_ns.max(self.send_frame(volume, frame)?);
                self.forget_change(frame);
            }
            self.numbering.frame_sent(frame);
        }
        volume.wait_until(done_ns);
        Ok(())
    }

    /// Sends a frame whose page is in memory, and returns when it is done.
    fn send_frame(&mut self, volume: &mut Volume, frame: u32) -> Result<Nanoseconds, VolumeError> {
        let header = self.frame_header(volume, frame)?;
        let mut done_ns = 0;
        for unit in 0..self.layout.page_units() {
            let metadata = &(if unit == 0 { header } else { FrameHeader::default() }).0;
            let home = self.home(volume, header.page_number(), unit);
            let data = &self.pages[&frame][unit as usize * UNIT_BYTES..][..UNIT_BYTES];
            let place = self.layout.first_unit(frame) + u64::from(unit);
            let lpn = volume.lpn(self.file, place).expect("a frame has its units");
            let sent = match self.generation.filter(|_| self.hints) {
                Some(generation) => {
                    let hint = self.numbering.hint(generation, frame, unit, home);
                    volume.submit_queued(Command::WriteHinted { lpn, data, metadata, hint })
                }
                None => volume.submit_queued(Command::WriteWithMetadata { lpn, data, metadata, fua: false }),
            };
            let sent = match sent {
                // out of order: an attempt to send this frame failed between two of its units
                Err(VolumeError::Device(
                    Status::OverLimit { .. } | Status::UnknownLog(_) | Status::SlotOutOfOrder(_),
                )) if self.hints => {
                    self.hints = false;
                    volume.submit_queued(Command::WriteWithMetadata { lpn, data, metadata, fua: false })
                }
                sent => sent,
            };
            done_ns = done_ns.max(sent?.done_ns);
            volume.cache_put_clean(self.file, place, data);
        }
        Ok(done_ns)
    }
}

fn trim(volume: &mut Volume, run: Option<(Lpn, u32)>) -> Result<(), VolumeError> {
    if let Some((lpn, units)) = run {
        volume.submit(Command::Trim { lpn, units })?;
    }
    Ok(())
}
