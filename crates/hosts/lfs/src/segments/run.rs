//! Contents of adjacent units of a file on their way to the log, past the buffers of its heads: adjacent places go to
//! the drive in one command, from the memory that holds the contents, or from buffers of the drive that already hold
//! them.
//!
//! Invariant: whoever assigned places to units of a run sends it, even if something failed in between.

use tantalum::{Command, Fills, Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;
use tantalum_image::{checksum_joined, checksum_with};

use super::BUFFER_UNITS;
use super::list_writer::Listed;
use super::log::Log;
use crate::bytes::Page;
use crate::error::Result;

/// Units that were not sent yet.
pub(crate) struct Run<'a> {
    file: FileId,
    /// The first unit of the file.
    unit: u32,
    data: &'a [u8],
    /// The next ones hold `data`.
    fills: Option<&'a mut Fills>,
    /// The drive is to list them.
    is_listed: bool,
    /// The first units have a place: these, from here on.
    first: Lpn,
    placed: usize,
}

impl<'a> Run<'a> {
    /// Units of a file from `unit` on. The next of `fills` already hold them.
    pub fn new((file, unit): Listed, data: &'a [u8], fills: Option<&'a mut Fills>, is_listed: bool) -> Self {
        Run { file, unit, data, fills, is_listed, first: Lpn(0), placed: 0 }
    }

    pub fn file(&self) -> FileId {
        self.file
    }

    pub fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// The unit after the last one; `None` if there are none.
    pub fn end(&self) -> Option<u64> {
        let units = (self.data.len() / UNIT_BYTES) as u64;
        (units > 0).then(|| u64::from(self.unit) + units)
    }

    /// How many units have no place.
    pub fn left(&self) -> usize {
        self.data.len() / UNIT_BYTES - self.placed
    }

    /// Whether all units that have a place were sent.
    pub fn is_sent(&self) -> bool {
        self.placed == 0
    }

    /// The next unit that has no place.
    pub fn next(&self) -> Option<u32> {
        (self.left() > 0).then(|| self.unit + self.placed as u32)
    }

    /// Extends `checksum`, that of some bytes, by the next unit that has no place.
    pub fn add_to_checksum(&self, checksum: u32) -> u32 {
        match self.fills.as_deref().and_then(|fills| fills.checksum(self.placed)) {
            Some(unit) => checksum_joined(checksum, unit),
            None => checksum_with(checksum, self.page()),
        }
    }

    fn page(&self) -> &Page {
        self.data[self.placed * UNIT_BYTES..].first_chunk().expect("there is another unit")
    }

    /// The next unit goes to a place that a head has given out. Those before it are sent unless it continues them.
    pub fn place(&mut self, log: &mut Log, head: usize, lpn: Lpn) -> Result<()> {
        assert!(self.left() > 0, "unit {lpn} is assigned to a run of file {} that has all places", self.file);
        let continues = self.first.0 + self.placed as u32 == lpn.0 && self.placed < BUFFER_UNITS;
        let sent = if continues { Ok(()) } else { self.send(log, head) };
        if self.placed == 0 {
            self.first = lpn;
        }
        self.placed += 1;
        log.written.contents += 1;
        sent
    }

    /// Sends the units that have places.
    pub fn send(&mut self, log: &mut Log, head: usize) -> Result<()> {
        if self.placed == 0 {
            return Ok(());
        }
        let (data, rest) = self.data.split_at(self.placed * UNIT_BYTES);
        let listed = self.is_listed.then_some((self.file, self.unit));
        let fills = self.fills.as_deref_mut();
        self.data = rest;
        self.unit = self.unit.wrapping_add(self.placed as u32);
        self.placed = 0;
        log.write_run(head, self.first, data, fills, listed)
    }
}

impl Log {
    /// Sends units to where a head has given places out, now.
    fn write_run(
        &mut self,
        head: usize,
        lpn: Lpn,
        data: &[u8],
        fills: Option<&mut Fills>,
        listed: Option<Listed>,
    ) -> Result<()> {
        let units = data.len() / UNIT_BYTES;
        assert!(
            units <= BUFFER_UNITS,
            "a run writes {units} units at {lpn}, and {BUFFER_UNITS} are the most"
        );
        debug_assert!(!self.is_buffered(lpn, units as u32), "a buffer holds some of {units} units at {lpn}");
        assert!(
            listed.is_none() || self.lists.is_some(),
            "the drive lists {listed:?} at unit {lpn} of a log without lists"
        );
        if let Some(done_ns) = self.write_listed(lpn, data, listed)? {
            if let Some(fills) = fills {
                self.client.device().skip_fills(fills, data.len() / UNIT_BYTES);
            }
            self.sent(done_ns);
            return Ok(());
        }
        let command = match fills {
            Some(fills) => Command::WriteFilled { lpn, data, fills, handle: None },
            None => Command::Write { lpn, data, fua: false, handle: None },
        };
        let done_ns = self.client.submit_queued(command)?.done_ns;
        self.heads[head].is_unflushed = true;
        self.is_unflushed = true;
        self.unflushed.extend(listed.map(|(file, _)| file));
        self.sent(done_ns);
        Ok(())
    }
}
