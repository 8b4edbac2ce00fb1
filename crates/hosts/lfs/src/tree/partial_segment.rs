//! The end of the log: the partial segment that is being written.
//!
//! Invariants, of which assertions check the first:
//! - A partial segment is within one segment, and the last unit of a segment is a summary.
//! - What the checksum of a summary does not cover (a unit that the drive moved) is durable before the summary is sent.

use tantalum::Lpn;
use tantalum_canaries::guard;
use tantalum_filesystem::FileId;
use tantalum_image::checksum_with;

use super::HEAD;
use super::summary::{MOST_ENTRIES, Summary, SummaryEntry, What};
use crate::bytes::Page;
use crate::error::Result;
use crate::segments::{Log, Run};

/// The partial segment at the end of the log.
#[derive(Debug, Default)]
pub(super) struct PartialSegment {
    start: Option<Lpn>,
    entries: Vec<SummaryEntry>,
    checksum: u32,
    /// The checksum of the summary before.
    previous: u32,
    has_shared: bool,
    /// A summary was sealed that may not be durable yet.
    is_end_volatile: bool,
    /// Segments begun since an anchor was last written.
    segments_begun: u32,
}

impl PartialSegment {
    /// Continues after a summary that is `segments` segments after the one that an anchor names.
    pub fn after(previous: u32, segments_begun: u32) -> PartialSegment {
        PartialSegment { previous, segments_begun, ..PartialSegment::default() }
    }

    /// Continues with existing units that have no summary.
    pub fn resume(&mut self, start: Lpn, entries: Vec<SummaryEntry>) {
        assert!(
            self.entries.is_empty() && entries.len() <= MOST_ENTRIES,
            "{} units from {start} on follow {} others in a partial segment of up to {MOST_ENTRIES}",
            entries.len(),
            self.entries.len()
        );
        (self.start, self.entries) = (Some(start), entries);
    }

    pub fn segments_begun(&self) -> u32 {
        self.segments_begun
    }

    /// An anchor now names this part of the log.
    pub fn anchored(&mut self) {
        self.segments_begun = 0;
    }

    /// Units that fit in before a summary must follow.
    pub fn room(&self, log: &Log) -> usize {
        let head = &log.heads()[HEAD];
        let units = log.segments.units();
        let left = match head.segment {
            Some(_) if head.used < units => units - head.used,
            _ => units,
        };
        (MOST_ENTRIES - self.entries.len()).min(left as usize - 1)
    }

    /// Makes room for `units` more in one partial segment.
    pub fn ensure_room(&mut self, log: &mut Log, units: usize) -> Result<()> {
        let most = MOST_ENTRIES.min(log.segments.units() as usize - 1);
        assert!(units <= most, "{units} units are to be in one partial segment, which has room for {most}");
        while self.room(log) < units {
            self.seal(log, None)?;
        }
        Ok(())
    }

    fn allocate(&mut self, log: &mut Log, what: What, is_unchecked: bool) -> Result<Lpn> {
        self.ensure_room(log, 1)?;
        let place = log.allocate(HEAD)?;
        self.segments_begun += u32::from(log.heads()[HEAD].used == 1);
        let start = *self.start.get_or_insert(place.lpn);
        let lpn = Lpn(start.0 + self.entries.len() as u32);
        assert_eq!(place.lpn, lpn, "{what:?} follows {} units from {start} on", self.entries.len());
        assert_eq!(place.next.0, lpn.0 + 1, "{what:?} is the last unit of its segment, at {lpn}");
        self.entries.push(SummaryEntry { what, is_unchecked });
        Ok(place.lpn)
    }

    /// Appends a unit.
    pub fn append(&mut self, log: &mut Log, what: What, page: &Page) -> Result<Lpn> {
        let lpn = self.allocate(log, what, false)?;
        self.checksum = checksum_with(self.checksum, page);
        log.fill(HEAD, lpn, page)?;
        *what.counter(&mut log.written) += 1;
        Ok(lpn)
    }

    /// Appends a unit of a file, which the drive lists as durable: only after summaries that are durable, or a mount would
    /// not get this far (T5 of [`super`]).
    pub fn append_listed(
        &mut self,
        log: &mut Log,
        what: What,
        page: &Page,
        listed: (FileId, u32),
    ) -> Result<Lpn> {
        let lpn = self.allocate_listed(log, what)?;
        self.checksum = checksum_with(self.checksum, page);
        log.fill_listed(HEAD, lpn, page, listed)?;
        *what.counter(&mut log.written) += 1;
        Ok(lpn)
    }

    /// Appends the next unit of a run.
    pub fn append_of(&mut self, log: &mut Log, what: What, run: &mut Run<'_>) -> Result<Lpn> {
        let lpn = match run.is_listed() {
            true => self.allocate_listed(log, what)?,
            false => self.allocate(log, what, false)?,
        };
        self.checksum = run.add_to_checksum(self.checksum);
        run.place(log, HEAD, lpn)?;
        Ok(lpn)
    }

    fn allocate_listed(&mut self, log: &mut Log, what: What) -> Result<Lpn> {
        let lpn = self.allocate(log, what, false)?;
        if guard!(ListBeforeSummary, self.is_end_volatile) {
            self.write_durably(log)?;
        }
        Ok(lpn)
    }

    /// Makes everything appended durable, at least up to the last summary.
    pub fn write_durably(&mut self, log: &mut Log) -> Result<()> {
        log.write_buffer_durably(HEAD)?;
        self.is_end_volatile = false;
        Ok(())
    }

    /// Assigns a place to which the drive is to move a unit.
    pub fn place(&mut self, log: &mut Log, what: What) -> Result<Lpn> {
        self.has_shared = true;
        self.allocate(log, what, true)
    }

    /// Ends the partial segment with a summary. Returns its place.
    pub fn seal(&mut self, log: &mut Log, synced: Option<FileId>) -> Result<Lpn> {
        let place = log.allocate(HEAD)?;
        self.segments_begun += u32::from(log.heads()[HEAD].used == 1);
        if guard!(SummaryBeforeMoves, self.has_shared) {
            log.flush()?;
        }
        let summary = Summary {
            previous: self.previous,
            start: self.start.unwrap_or(place.lpn),
            next: place.next,
            checksum: self.checksum,
            synced,
            entries: std::mem::take(&mut self.entries),
        };
        assert_eq!(
            summary.place(),
            u64::from(place.lpn.0),
            "the summary of {} units from {} on goes elsewhere than behind them",
            summary.entries.len(),
            summary.start
        );
        let (page, checksum) = summary.encode();
        log.fill(HEAD, place.lpn, &page)?;
        log.written.summaries += 1;
        *self = PartialSegment {
            previous: checksum,
            segments_begun: self.segments_begun,
            entries: summary.entries,
            is_end_volatile: true,
            ..PartialSegment::default()
        };
        self.entries.clear();
        Ok(place.lpn)
    }
}
