//! The log: heads that append units to segments, and reading units back.
//!
//! What a head appends waits in its buffer until the buffer is large, the segment ends, or the unit is read or synced;
//! then it goes to the drive in one command.
//!
//! Invariants, which assertions check:
//! - A unit that is in no buffer is on the drive.
//! - A buffer holds units of adjacent places, and at most as many as one command writes.
//! - The next unit of a head is where [`Log::allocate`] said: recovery looks for it there.
//! - What has a fixed place is never written over the log.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;
use tantalum::{Command, Fetches, Lpn, Nanoseconds, ShareRange, Status, UNIT_BYTES};
use tantalum_drive::Client;
use tantalum_filesystem::{Errno, FileId};

use super::head::{Filling, Head};
use super::list_writer::{ListWriter, Listed};
use super::table::{Segments, State};
use crate::bytes::Page;
use crate::counters::WrittenCounters;
use crate::error::{LfsError, Result, refuse};

/// Units written in one command.
pub(crate) const BUFFER_UNITS: usize = 256;

/// A place assigned in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allocated {
    pub lpn: Lpn,
    /// The place that the same head will assign next.
    pub next: Lpn,
}

/// The drive as a log.
#[derive(Debug)]
pub(crate) struct Log {
    pub client: Client,
    pub segments: Segments,
    /// Counted by whoever writes it.
    pub written: WrittenCounters,
    /// The last one has no segment: its buffer gathers contents that are written in place.
    pub(super) heads: Vec<Head>,
    /// When everything written so far is done.
    done_ns: Nanoseconds,
    /// Something was sent since the last flush.
    pub(super) is_unflushed: bool,
    /// Files of which contents were appended since the last flush, and when that was done.
    pub(super) unflushed: FxHashSet<FileId>,
    flushed_ns: Nanoseconds,
    /// When everything written durably is done: an element of a chain is useless without those before it.
    durable_ns: Nanoseconds,
    /// When everything sent since counting began is done.
    sent_ns: Nanoseconds,
    /// None if syncs do not leave the index to the drive's lists.
    pub(super) lists: Option<ListWriter>,
    /// Units that were put into holes since the mount.
    filled_units: u64,
}

impl Log {
    pub fn new(client: Client, segments: Segments, heads: usize) -> Log {
        let done_ns = client.now_ns();
        Log {
            client,
            segments,
            written: WrittenCounters::default(),
            heads: vec![Head::default(); heads + 1],
            done_ns,
            is_unflushed: true,
            unflushed: FxHashSet::default(),
            flushed_ns: done_ns,
            durable_ns: done_ns,
            sent_ns: done_ns,
            lists: None,
            filled_units: 0,
        }
    }

    /// The heads, for a checkpoint.
    pub fn heads(&self) -> &[Head] {
        &self.heads
    }

    /// A head continues where a checkpoint left it.
    pub fn continue_head(&mut self, head: usize, segment: Option<u32>, used: u32, following: Option<u32>) {
        assert!(
            used <= self.segments.units(),
            "head {head} has used {used} of {} units of segment {segment:?}",
            self.segments.units()
        );
        let buffered = self.heads[head].buffered();
        assert_eq!(
            buffered, 0,
            "head {head} goes to segment {segment:?} with {buffered} units in its buffer"
        );
        segment.into_iter().chain(following).for_each(|segment| self.segments.open_again(segment));
        // after a crash of the host, what precedes it may be only in the drive's cache
        self.heads[head] = Head { segment, used, following, is_unflushed: true, ..Head::default() };
    }

    /// Gives a head a segment if it has none.
    pub fn ensure_position(&mut self, head: usize) -> Result<()> {
        if self.heads[head].segment.is_none() {
            self.next_segment(head)?;
        }
        Ok(())
    }

    /// Assigns the next place of a head. Its contents come with [`Log::fill`], or from elsewhere.
    pub fn place(&mut self, head: usize) -> Result<Lpn> {
        if self.heads[head].segment.is_none_or(|_| self.heads[head].used == self.segments.units()) {
            self.next_segment(head)?;
        }
        let entry = &mut self.heads[head];
        let segment = entry.segment.expect("the head has a segment");
        let lpn = Lpn(self.segments.first_lpn(segment).0 + entry.used);
        let told = entry.told.take().unwrap_or(lpn);
        assert_eq!(lpn, told, "head {head} goes on at unit {lpn}, but the unit before names {told}");
        let state = self.segments.get(segment).state;
        debug_assert_eq!(state, State::Open, "head {head} writes to segment {segment}");
        entry.used += 1;
        self.segments.wrote(segment);
        Ok(lpn)
    }

    /// Assigns the next place of a head, and says which one will follow, so that units can be chained.
    pub fn allocate(&mut self, head: usize) -> Result<Allocated> {
        let units = self.segments.units();
        let entry = &self.heads[head];
        if entry.segment.is_some() && entry.used + 1 == units && entry.following.is_none() {
            self.heads[head].following = Some(self.segments.open()?);
        }
        let lpn = self.place(head)?;
        let next = match self.heads[head].following {
            Some(following) if self.heads[head].used == units => self.segments.first_lpn(following),
            _ => Lpn(lpn.0 + 1),
        };
        let entry = &mut self.heads[head];
        entry.told = Some(next);
        assert!(
            entry.used < units || entry.following.is_some(),
            "unit {lpn} ends segment {:?} of head {head}, and no segment follows",
            entry.segment
        );
        Ok(Allocated { lpn, next })
    }

    /// Whether the next unit of a head takes another segment.
    pub fn needs_segment(&self, head: usize) -> bool {
        self.heads[head].needs_segment(self.segments.units())
    }

    /// A head continues in the holes of a full segment.
    pub fn begin_filling(&mut self, head: usize, segment: u32, holes: VecDeque<Lpn>) {
        assert!(
            self.needs_segment(head),
            "head {head} fills segment {segment}, but has segment {:?} and {} units of it left",
            self.heads[head].segment,
            self.segments.units() - self.heads[head].used
        );
        debug_assert!(
            holes.iter().all(|hole| self.segments.find(*hole) == Some(segment)),
            "the holes of segment {segment} are {holes:?}"
        );
        let entry = &mut self.heads[head];
        entry.filling = Some(Filling { segment, holes });
        entry.used = 0;
        if let Some(full) = entry.segment.take() {
            self.segments.close(full);
        }
        self.segments.fill(segment);
    }

    /// Assigns the next hole of the segment that a head fills; `None` if there is none left.
    pub fn allocate_hole(&mut self, head: usize) -> Option<Lpn> {
        let filling = self.heads[head].filling.as_mut()?;
        let segment = filling.segment;
        let hole = filling.holes.pop_front();
        match hole {
            Some(hole) => {
                debug_assert!(
                    self.segments.is_hole(segment, hole),
                    "hole {hole} of segment {segment} was given up after the last checkpoint"
                );
                self.filled_units += 1;
                self.segments.wrote(segment);
            }
            None => {
                self.heads[head].filling = None;
                self.segments.close(segment);
            }
        }
        hole
    }

    /// Units that were put into holes since the mount.
    pub fn filled_units(&self) -> u64 {
        self.filled_units
    }

    fn next_segment(&mut self, head: usize) -> Result<()> {
        self.write_buffer(head, false)?;
        let Head { segment, used, .. } = &self.heads[head];
        assert!(
            segment.is_none() || *used == self.segments.units(),
            "head {head} leaves segment {segment:?} after {used} units"
        );
        let next = match self.heads[head].following.take() {
            Some(following) => following,
            None => self.segments.open()?,
        };
        if let Some(full) = self.heads[head].segment.replace(next) {
            self.segments.close(full);
        }
        self.heads[head].used = 0;
        Ok(())
    }

    /// Puts a unit into the place that a head has just assigned.
    pub fn fill(&mut self, head: usize, lpn: Lpn, page: &Page) -> Result<()> {
        self.put(head, lpn, page, None)
    }

    /// Puts a file's unit, which the drive lists, into the place that a head has just assigned.
    pub fn fill_listed(&mut self, head: usize, lpn: Lpn, page: &Page, listed: Listed) -> Result<()> {
        assert!(self.lists.is_some(), "the drive lists {listed:?} at unit {lpn} of a log without lists");
        self.put(head, lpn, page, Some(listed))
    }

    pub(super) fn put(&mut self, head: usize, lpn: Lpn, page: &Page, listed: Option<Listed>) -> Result<()> {
        if !self.heads[head].continues(lpn, listed) {
            self.write_buffer(head, false)?;
            (self.heads[head].first, self.heads[head].listed) = (lpn.0, listed);
        }
        debug_assert!(
            head + 1 == self.heads.len() || self.segments.find(lpn).is_some(),
            "head {head} writes unit {lpn}, which is not in the log"
        );
        let entry = &mut self.heads[head];
        debug_assert_eq!(
            entry.first + entry.buffered(),
            lpn.0,
            "unit {lpn} does not follow the {} units in the buffer of head {head}",
            entry.buffered()
        );
        entry.buffer.extend_from_slice(page);
        match entry.buffer.len() >= BUFFER_UNITS * UNIT_BYTES {
            true => self.write_buffer(head, false),
            false => Ok(()),
        }
    }

    /// Makes what a head appended durable, if everything before it is.
    pub fn write_buffer_durably(&mut self, head: usize) -> Result<()> {
        // Part of it may already have left the buffer.
        match self.heads[head].is_unflushed {
            true => self.flush(),
            false => self.write_buffer(head, true),
        }
    }

    /// Sends what the buffer of a head holds.
    pub fn send_buffer(&mut self, head: usize) -> Result<()> {
        self.write_buffer(head, false)
    }

    fn write_buffer(&mut self, head: usize, fua: bool) -> Result<()> {
        let entry = &mut self.heads[head];
        if entry.buffer.is_empty() {
            return Ok(());
        }
        let buffered = entry.buffered();
        assert!(
            buffered <= BUFFER_UNITS as u32,
            "head {head} writes {buffered} units at once, and {BUFFER_UNITS} are the most"
        );
        let (lpn, data) = (Lpn(entry.first), &entry.buffer[..]);
        let listed_ns = match (&mut self.lists, entry.listed) {
            (Some(lists), Some(listed)) => lists.write(&mut self.client, lpn, data, listed)?,
            _ => None,
        };
        let done_ns = match listed_ns {
            Some(done_ns) => done_ns,
            None => {
                (entry.is_unflushed, self.is_unflushed) =
                    (entry.is_unflushed | !fua, self.is_unflushed | !fua);
                self.unflushed.extend(entry.listed.map(|(file, _)| file));
                self.client.submit_queued(Command::Write { lpn, data, fua, handle: None })?.done_ns
            }
        };
        entry.first += entry.buffered();
        entry.buffer.clear();
        entry.listed = None;
        self.sent(done_ns);
        if fua {
            self.durable_ns = self.durable_ns.max(done_ns);
            self.client.wait_until(self.durable_ns);
        }
        Ok(())
    }

    pub(super) fn sent(&mut self, done_ns: Nanoseconds) {
        self.done_ns = self.done_ns.max(done_ns);
        self.sent_ns = self.sent_ns.max(done_ns);
    }

    /// From now on, counts what is sent.
    pub fn begin_sending(&mut self) {
        self.sent_ns = self.client.now_ns();
    }

    /// Sends the contents of all buffers, and waits for what was sent since [`Log::begin_sending`].
    pub fn wait_for_sent(&mut self) -> Result<()> {
        self.write_buffers()?;
        self.client.wait_until(self.sent_ns);
        Ok(())
    }

    /// Contents of a file were appended, or shared, and are not durable.
    pub fn note_contents(&mut self, file: FileId) {
        self.unflushed.insert(file);
    }

    /// Makes the contents of a file durable. What the sync of another file has flushed needs no second flush.
    pub fn flush_contents(&mut self, file: FileId) -> Result<()> {
        if self.unflushed.contains(&file) {
            return self.flush();
        }
        self.write_buffers()?;
        self.client.wait_until(self.sent_ns.max(self.flushed_ns));
        Ok(())
    }

    /// Sends the contents of all buffers.
    pub fn write_buffers(&mut self) -> Result<()> {
        (0..self.heads.len()).try_for_each(|head| self.write_buffer(head, false))
    }

    /// Waits until everything sent is done.
    pub fn wait(&mut self) -> Result<()> {
        self.write_buffers()?;
        self.client.wait_until(self.done_ns);
        Ok(())
    }

    /// Makes everything appended durable.
    pub fn flush(&mut self) -> Result<()> {
        self.wait()?;
        let buffered: u32 = self.heads.iter().map(Head::buffered).sum();
        assert_eq!(buffered, 0, "{buffered} units are still in buffers when the log is flushed");
        assert!(
            self.is_unflushed || self.heads.iter().all(|head| !head.is_unflushed),
            "a head has sent something that the log does not flush: {:?}",
            self.heads.iter().map(|head| head.is_unflushed).collect::<Vec<_>>()
        );
        if self.is_unflushed {
            self.client.submit(Command::Flush)?;
            self.is_unflushed = false;
            self.heads.iter_mut().for_each(|head| head.is_unflushed = false);
            self.unflushed.clear();
            self.flushed_ns = self.client.now_ns();
            assert!(
                self.flushed_ns >= self.done_ns,
                "a flush ended at {} ns, before what was sent at {} ns",
                self.flushed_ns,
                self.done_ns
            );
        }
        Ok(())
    }

    /// Writes units that are not in the log.
    pub fn write(&mut self, lpn: Lpn, data: &[u8], fua: bool) -> Result<()> {
        let (units, log) = ((data.len() / UNIT_BYTES) as u32, self.segments.first_lpn(0));
        assert!(lpn.0 + units <= log.0, "{units} units at {lpn} reach the log, which begins at unit {log}");
        for (index, part) in data.chunks(BUFFER_UNITS * UNIT_BYTES).enumerate() {
            let lpn = Lpn(lpn.0 + (index * BUFFER_UNITS) as u32);
            let done_ns =
                self.client.submit_queued(Command::Write { lpn, data: part, fua, handle: None })?.done_ns;
            self.sent(done_ns);
            self.is_unflushed |= !fua;
        }
        if fua {
            self.client.wait_until(self.done_ns);
        }
        Ok(())
    }

    /// Gives units up.
    pub fn trim(&mut self, lpn: Lpn, units: u32) -> Result<()> {
        let done_ns = self.client.submit_queued(Command::Trim { lpn, units })?.done_ns;
        self.sent(done_ns);
        self.is_unflushed = true;
        Ok(())
    }

    /// Makes units read as others, without programming flash; durable with the next flush. False if the drive refuses.
    pub fn share(&mut self, ranges: &[ShareRange]) -> Result<bool> {
        // The drive must move the unit's newest contents, so a waiting overwrite is sent first.
        self.write_buffer(self.heads.len() - 1, false)?;
        match self.client.submit_queued(Command::Share { ranges, deferred: true }) {
            Ok(completion) => {
                self.sent(completion.done_ns);
                self.is_unflushed = true;
                Ok(true)
            }
            Err(status) if status.is_end_of_drive() => Err(status.into()),
            Err(_) => Ok(false),
        }
    }

    /// Sends the buffers that hold any of some units.
    pub(super) fn write_overlapping(&mut self, lpn: Lpn, units: u32) -> Result<()> {
        for head in 0..self.heads.len() {
            if self.heads[head].overlaps(lpn, units) {
                self.write_buffer(head, false)?;
            }
        }
        Ok(())
    }

    /// Whether a buffer holds any of some units.
    pub(super) fn is_buffered(&self, lpn: Lpn, units: u32) -> bool {
        self.heads.iter().any(|head| head.overlaps(lpn, units))
    }

    /// Reads adjacent units now, and returns the time at which they are there, without waiting for it.
    pub fn read_queued(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        fetches: Option<&mut Fetches>,
    ) -> Result<Nanoseconds> {
        let units = (data.len() / UNIT_BYTES) as u32;
        self.write_overlapping(lpn, units)?;
        debug_assert!(
            !self.is_buffered(lpn, units),
            "{units} units at {lpn} are read, but some are in a buffer"
        );
        let command = match fetches {
            Some(fetches) => Command::ReadLater { lpn, data, fetches },
            None => Command::Read { lpn, data },
        };
        Ok(self.client.submit_queued(command)?.done_ns)
    }

    /// Reads adjacent units.
    pub fn read(&mut self, lpn: Lpn, data: &mut [u8]) -> Result<()> {
        let done_ns = self.read_queued(lpn, data, None)?;
        self.client.wait_until(done_ns);
        Ok(())
    }

    /// Fails if the drive has no power: nothing can be read.
    pub fn check_power(&self) -> Result<()> {
        Ok(self.client.check_power()?)
    }

    /// Fails if the drive has come to its end: nothing can be changed.
    pub fn check(&self) -> Result<()> {
        match self.client.check() {
            Err(Status::ReadOnly) => refuse(Errno::EROFS),
            result => result.map_err(LfsError::from),
        }
    }
}
