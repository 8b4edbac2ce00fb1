//! The log: heads that append units to segments, and reading units back.
//!
//! What a head appends waits in its buffer until that is large, the segment ends, or somebody reads or syncs it; then
//! it goes to the drive in one command. Invariant: a unit that is in no buffer is on the drive.

use tantalum::{Command, Fetches, Lpn, Nanoseconds, ShareRange, Status, UNIT_BYTES};
use tantalum_drive::Client;
use tantalum_filesystem::Errno;

use super::table::Segments;
use crate::bytes::Page;
use crate::error::{LfsError, Result, refuse};

/// Units written in one command.
const BUFFER_UNITS: usize = 256;

/// A place in the log that was given out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Allocated {
    pub lpn: Lpn,
    /// What the same head will give out next.
    pub next: Lpn,
}

/// A log head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// Where it writes.
    pub segment: Option<u32>,
    /// Units of the segment that it has given out.
    pub used: u32,
    /// The segment after that, chosen with the last unit.
    pub following: Option<u32>,
    /// The place of the buffer's first unit.
    first: u32,
    buffer: Vec<u8>,
}

/// The drive as a log.
#[derive(Debug)]
pub(crate) struct Log {
    pub client: Client,
    pub segments: Segments,
    heads: Vec<Head>,
    /// When everything written so far is done.
    done_ns: Nanoseconds,
    /// Something was sent since the last flush.
    is_unflushed: bool,
}

impl Log {
    pub fn new(client: Client, segments: Segments, heads: usize) -> Log {
        let done_ns = client.now_ns();
        Log { client, segments, heads: vec![Head::default(); heads], done_ns, is_unflushed: true }
    }

    /// The heads, for a checkpoint.
    pub fn heads(&self) -> &[Head] {
        &self.heads
    }

    /// A head continues where a checkpoint left it.
    pub fn continue_head(&mut self, head: usize, segment: Option<u32>, used: u32, following: Option<u32>) {
        segment.into_iter().chain(following).for_each(|segment| self.segments.open_again(segment));
        self.heads[head] = Head { segment, used, following, ..Head::default() };
    }

    /// Gives a head a segment if it has none.
    pub fn ensure_position(&mut self, head: usize) -> Result<()> {
        if self.heads[head].segment.is_none() {
            self.next_segment(head)?;
        }
        Ok(())
    }

    /// Gives out the next place of a head. What belongs there comes with [`Log::fill`], or from elsewhere.
    pub fn allocate(&mut self, head: usize) -> Result<Allocated> {
        let units = self.segments.units();
        if self.heads[head].segment.is_none_or(|_| self.heads[head].used == units) {
            self.next_segment(head)?;
        }
        let entry = &mut self.heads[head];
        if entry.used + 1 == units && entry.following.is_none() {
            entry.following = Some(self.segments.open()?);
        }
        let segment = entry.segment.expect("the head has a segment");
        let lpn = Lpn(self.segments.first_lpn(segment).0 + entry.used);
        entry.used += 1;
        let next = match entry.following {
            Some(following) if entry.used == units => self.segments.first_lpn(following),
            _ => Lpn(lpn.0 + 1),
        };
        self.segments.wrote(segment);
        Ok(Allocated { lpn, next })
    }

    fn next_segment(&mut self, head: usize) -> Result<()> {
        self.write_buffer(head, false)?;
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

    /// Puts a unit into the place that a head has just given out.
    pub fn fill(&mut self, head: usize, lpn: Lpn, page: &Page) -> Result<()> {
        let entry = &self.heads[head];
        if entry.first + (entry.buffer.len() / UNIT_BYTES) as u32 != lpn.0 {
            self.write_buffer(head, false)?;
            self.heads[head].first = lpn.0;
        }
        let entry = &mut self.heads[head];
        entry.buffer.extend_from_slice(page);
        match entry.buffer.len() >= BUFFER_UNITS * UNIT_BYTES {
            true => self.write_buffer(head, false),
            false => Ok(()),
        }
    }

    /// Makes what a head appended durable, if everything before that is.
    pub fn write_buffer_durably(&mut self, head: usize) -> Result<()> {
        // Part of it may have left the buffer already, without waiting.
        match self.is_unflushed {
            true => self.flush(),
            false => self.write_buffer(head, true),
        }
    }

    fn write_buffer(&mut self, head: usize, fua: bool) -> Result<()> {
        let entry = &mut self.heads[head];
        if entry.buffer.is_empty() {
            return Ok(());
        }
        let command = Command::Write { lpn: Lpn(entry.first), data: &entry.buffer, fua };
        let done_ns = self.client.submit_queued(command)?.done_ns;
        entry.first += (entry.buffer.len() / UNIT_BYTES) as u32;
        entry.buffer.clear();
        self.done_ns = self.done_ns.max(done_ns);
        self.is_unflushed |= !fua;
        if fua {
            self.client.wait_until(done_ns);
        }
        Ok(())
    }

    /// Sends what all buffers hold.
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
        if self.is_unflushed {
            self.client.submit(Command::Flush)?;
            self.is_unflushed = false;
        }
        Ok(())
    }

    /// Writes units that are not in the log.
    pub fn write(&mut self, lpn: Lpn, data: &[u8], fua: bool) -> Result<()> {
        for (index, part) in data.chunks(BUFFER_UNITS * UNIT_BYTES).enumerate() {
            let lpn = Lpn(lpn.0 + (index * BUFFER_UNITS) as u32);
            let done_ns = self.client.submit_queued(Command::Write { lpn, data: part, fua })?.done_ns;
            self.done_ns = self.done_ns.max(done_ns);
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
        self.done_ns = self.done_ns.max(done_ns);
        self.is_unflushed = true;
        Ok(())
    }

    /// Makes units read as others, without programming flash; durable with the next flush. False if the drive refuses.
    pub fn share(&mut self, ranges: &[ShareRange]) -> Result<bool> {
        match self.client.submit_queued(Command::Share { ranges, deferred: true }) {
            Ok(completion) => {
                self.done_ns = self.done_ns.max(completion.done_ns);
                self.is_unflushed = true;
                Ok(true)
            }
            Err(status) if status.is_end_of_drive() => Err(status.into()),
            Err(_) => Ok(false),
        }
    }

    /// Reads adjacent units now, and returns when they are there, which is not waited for.
    pub fn read_queued(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        fetches: Option<&mut Fetches>,
    ) -> Result<Nanoseconds> {
        let end = lpn.0 + (data.len() / UNIT_BYTES) as u32;
        for head in 0..self.heads.len() {
            let entry = &self.heads[head];
            let buffer_end = entry.first + (entry.buffer.len() / UNIT_BYTES) as u32;
            if entry.first < end && lpn.0 < buffer_end {
                self.write_buffer(head, false)?;
            }
        }
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

    /// Fails if the drive has come to its end.
    pub fn check(&self) -> Result<()> {
        match self.client.check() {
            Err(Status::ReadOnly) => refuse(Errno::EROFS),
            result => result.map_err(LfsError::from),
        }
    }
}
