//! A write-ahead log in which each frame occupies whole units: its part in host memory, and the translation of SQLite's
//! reads and writes.
//!
//! Frames that SQLite writes stay in host memory until they are sent: when SQLite syncs the log, and when there are
//! more of them than a system would leave unwritten. `log_sender` sends them, `checkpoint` takes them home.
//!
//! Invariants: a page is in `pages` exactly if the drive does not have it as SQLite wrote it; the log's units of
//! frames up to `frames` have places in the volume.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::{Command, Generation, UNIT_BYTES};
use tantalum_volume::{FileId, Volume, VolumeError};

use crate::frame::{FrameHeader, LOG_HEADER_BYTES, Layout, LogHeader, LogLocation, Part};
use crate::numbering::Numbering;
use crate::recent_frames::RecentFrames;
use crate::share_queue::ShareQueue;

/// Bytes of pages beyond which frames are sent before SQLite asks: about what a system's write-back leaves unwritten.
const UNSENT_BYTES: usize = 4 << 20;

/// Units by which the log's file grows.
pub(crate) const GROWTH_UNITS: u64 = 256;

/// The log of one database.
#[derive(Debug)]
pub(crate) struct FramedLog {
    pub(crate) file: FileId,
    /// The database file, where frames have their homes.
    pub(crate) database: FileId,
    pub(crate) layout: Layout,
    /// Whether frames should carry hints.
    hinted: bool,
    /// Whether frames carry hints from here until the log restarts.
    pub(crate) hints: bool,
    pub(crate) header: Option<LogHeader>,
    /// The drive does not have the header.
    pub(crate) header_is_new: bool,
    /// The volume's metadata of the log are not durable yet.
    pub(crate) metadata_is_new: bool,
    /// Number of frames.
    pub(crate) frames: u32,
    /// Their headers, where known.
    headers: Vec<Option<FrameHeader>>,
    /// Pages that wait to be sent.
    pub(crate) pages: BTreeMap<u32, Box<[u8]>>,
    /// Frames whose current version the drive does not have: their page or their header changed.
    pub(crate) changed: BTreeSet<u32>,
    spare_pages: Vec<Box<[u8]>>,
    pub(crate) numbering: Numbering,
    pub(crate) generation: Option<Generation>,
    /// Units after the log may hold frames of an earlier opening.
    pub(crate) tail_is_stale: bool,
    /// Bytes of the database file whose places are durable.
    pub(crate) home_bytes: u64,
    pub(crate) recent: RecentFrames,
    pub(crate) shares: ShareQueue,
}

impl FramedLog {
    /// An empty log in an empty volume file. It gets its layout on the drive when it is first sent.
    pub fn create(file: FileId, database: FileId, layout: Layout, hinted: bool) -> FramedLog {
        FramedLog {
            file,
            database,
            layout,
            hinted,
            hints: hinted,
            header: None,
            header_is_new: false,
            metadata_is_new: true,
            frames: 0,
            headers: Vec::new(),
            pages: BTreeMap::new(),
            changed: BTreeSet::new(),
            spare_pages: Vec::new(),
            numbering: Numbering::new(layout.page_units(), 0),
            generation: None,
            tail_is_stale: false,
            home_bytes: 0,
            recent: RecentFrames::default(),
            shares: ShareQueue::default(),
        }
    }

    /// The log in a volume file that already is one.
    pub fn open(
        volume: &mut Volume,
        file: FileId,
        database: FileId,
        layout: Layout,
        hinted: bool,
    ) -> Result<FramedLog, VolumeError> {
        let mut log = FramedLog::create(file, database, layout, hinted);
        let mut header = [0; LOG_HEADER_BYTES];
        volume.read(file, 0, &mut header)?;
        log.header = LogHeader::parse(&header);
        if log.header.is_some() {
            log.frames = layout.frames_in_units(volume.size(file)? / UNIT_BYTES as u64);
            log.headers.resize(log.frames as usize, None);
            log.numbering = Numbering::new(layout.page_units(), log.frames);
            log.tail_is_stale = true;
        }
        Ok(log)
    }

    /// Bytes of the log, as SQLite sees it.
    pub fn size(&self) -> u64 {
        if self.header.is_some() { self.layout.bytes(self.frames) } else { 0 }
    }

    /// Reads as SQLite addresses the log; fewer bytes than requested at its end.
    pub fn read(&mut self, volume: &mut Volume, offset: u64, data: &mut [u8]) -> Result<usize, VolumeError> {
        let bytes = self.size().saturating_sub(offset).min(data.len() as u64) as usize;
        let mut done = 0;
        for part in self.layout.parts(offset, bytes) {
            let to = &mut data[done..done + part.bytes];
            done += part.bytes;
            match part.place {
                LogLocation::LogHeader => {
                    let header = self.header.expect("a log that has bytes has a header");
                    to.copy_from_slice(&header.0[part.start..][..part.bytes]);
                }
                LogLocation::FrameHeader(frame) => {
                    let header = self.frame_header(volume, frame)?;
                    to.copy_from_slice(&header.0[part.start..][..part.bytes]);
                }
                LogLocation::Page(frame) => self.read_page(volume, frame, part.start, to)?,
            }
        }
        Ok(bytes)
    }

    /// Reads a part of a frame's page.
    pub(crate) fn read_page(
        &mut self,
        volume: &mut Volume,
        frame: u32,
        start: usize,
        to: &mut [u8],
    ) -> Result<(), VolumeError> {
        if let Some(page) = self.pages.get(&frame) {
            to.copy_from_slice(&page[start..][..to.len()]);
            return Ok(());
        }
        let offset = self.layout.first_unit(frame) * UNIT_BYTES as u64 + start as u64;
        let there = volume.read(self.file, offset, to)?;
        to[there..].fill(0);
        self.recent.note(frame);
        Ok(())
    }

    /// The header of a frame: from memory, or with its page's first unit from the drive.
    pub(crate) fn frame_header(
        &mut self,
        volume: &mut Volume,
        frame: u32,
    ) -> Result<FrameHeader, VolumeError> {
        let known = self.headers.get(frame as usize - 1).copied().flatten();
        if let Some(header) = known {
            return Ok(header);
        }
        let unit = self.layout.first_unit(frame);
        let mut header = FrameHeader::default();
        if let Some(lpn) = volume.lpn(self.file, unit) {
            let mut data = [0; UNIT_BYTES];
            volume.submit(Command::ReadWithMetadata { lpn, data: &mut data, metadata: &mut header.0 })?;
            volume.cache_put_clean(self.file, unit, &data);
        }
        self.headers[frame as usize - 1] = Some(header);
        Ok(header)
    }

    /// Writes frames. The log's header is written with [`FramedLog::restart`] instead.
    pub fn write(&mut self, volume: &mut Volume, offset: u64, data: &[u8]) -> Result<(), VolumeError> {
        let mut done = 0;
        for Part { place, start, bytes } in self.layout.parts(offset, data.len()) {
            let from = &data[done..done + bytes];
            done += bytes;
            match place {
                LogLocation::LogHeader => {
                    if let Some(header) = &mut self.header {
                        header.0[start..][..bytes].copy_from_slice(from);
                        self.header_is_new = true;
                    }
                }
                LogLocation::FrameHeader(frame) => self.write_frame_header(volume, frame, start, from)?,
                LogLocation::Page(frame) => self.write_page(volume, frame, start, from)?,
            }
        }
        Ok(())
    }

    fn write_frame_header(
        &mut self,
        volume: &mut Volume,
        frame: u32,
        start: usize,
        from: &[u8],
    ) -> Result<(), VolumeError> {
        if frame > self.frames && self.pages.len() * self.layout.page_bytes() >= UNSENT_BYTES {
            self.send(volume)?;
        }
        self.make_room(volume, frame)?;
        let mut header = FrameHeader::default();
        if from.len() < header.0.len() {
            header = self.frame_header(volume, frame)?;
        }
        header.0[start..][..from.len()].copy_from_slice(from);
        self.headers[frame as usize - 1] = Some(header);
        self.changed.insert(frame);
        let commits = self.header.is_some_and(|log| header.commits(log.salt()));
        self.numbering.header_written(frame, commits);
        if commits {
            self.forget_changes_after(frame);
        }
        Ok(())
    }

    fn write_page(
        &mut self,
        volume: &mut Volume,
        frame: u32,
        start: usize,
        from: &[u8],
    ) -> Result<(), VolumeError> {
        self.make_room(volume, frame)?;
        if from.len() < self.layout.page_bytes() {
            self.load_page(volume, frame)?;
        }
        let mut page = match self.pages.remove(&frame) {
            Some(page) => page,
            None => self.spare_page(),
        };
        page[start..][..from.len()].copy_from_slice(from);
        self.pages.insert(frame, page);
        self.changed.insert(frame);
        self.numbering.page_written(frame);
        Ok(())
    }

    /// Brings a frame's page into host memory.
    pub(crate) fn load_page(&mut self, volume: &mut Volume, frame: u32) -> Result<(), VolumeError> {
        if !self.pages.contains_key(&frame) {
            let mut page = self.spare_page();
            self.read_page(volume, frame, 0, &mut page)?;
            self.pages.insert(frame, page);
        }
        Ok(())
    }

    /// A buffer for a page, with arbitrary contents.
    pub(crate) fn spare_page(&mut self) -> Box<[u8]> {
        self.spare_pages.pop().unwrap_or_else(|| vec![0; self.layout.page_bytes()].into_boxed_slice())
    }

    /// The drive has the current version of a frame.
    pub(crate) fn forget_change(&mut self, frame: u32) {
        self.changed.remove(&frame);
        self.spare_pages.extend(self.pages.remove(&frame));
    }

    /// A commit ends the log: pages in memory that a rollback left after it are obsolete.
    fn forget_changes_after(&mut self, frame: u32) {
        self.changed.split_off(&(frame + 1));
        self.spare_pages.extend(self.pages.split_off(&(frame + 1)).into_values());
    }

    /// Allocates places in the volume for the header and all frames up to `frame`.
    fn make_room(&mut self, volume: &mut Volume, frame: u32) -> Result<(), VolumeError> {
        if frame <= self.frames && self.frames > 0 {
            return Ok(());
        }
        let units = self.layout.units(frame);
        if volume.size(self.file)? < units * UNIT_BYTES as u64 {
            let bytes = units.next_multiple_of(GROWTH_UNITS) * UNIT_BYTES as u64;
            volume.reserve(self.file, bytes)?;
            volume.set_size(self.file, bytes)?;
            self.metadata_is_new = true;
        }
        self.frames = frame;
        self.headers.resize(frame as usize, None);
        Ok(())
    }

    /// SQLite restarts the log: it has brought everything home, and nobody reads the old frames any more.
    pub fn restart(&mut self, volume: &mut Volume, header: LogHeader) -> Result<(), VolumeError> {
        self.issue_shares(volume)?;
        self.make_room(volume, 0)?;
        self.header = Some(header);
        self.header_is_new = true;
        self.frames = 0;
        self.headers.clear();
        self.forget_changes_after(0);
        self.numbering = Numbering::new(self.layout.page_units(), 0);
        self.generation = None;
        self.hints = self.hinted;
        self.tail_is_stale = false;
        self.recent = RecentFrames::default();
        Ok(())
    }

    /// Truncates the log to `bytes`, as SQLite sees it. Whole frames stay.
    pub fn truncate(&mut self, volume: &mut Volume, bytes: u64) -> Result<(), VolumeError> {
        if bytes >= self.size() {
            return Ok(());
        }
        self.issue_shares(volume)?;
        let frames = self.layout.frames_in_bytes(bytes);
        let units = if bytes < LOG_HEADER_BYTES as u64 { 0 } else { self.layout.units(frames) };
        volume.set_size(self.file, units * UNIT_BYTES as u64)?;
        self.metadata_is_new = true;
        self.forget_changes_after(frames);
        self.frames = frames;
        self.headers.truncate(frames as usize);
        self.recent = RecentFrames::default();
        self.numbering.cut(frames);
        if units == 0 {
            self.header = None;
            self.header_is_new = false;
        }
        Ok(())
    }
}
