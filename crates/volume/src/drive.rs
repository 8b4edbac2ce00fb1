//! The drive as the volume's files see it: whole units, and writes that become shares of recently written data.

use tantalum::{Command, Completion, Fills, Lpn, Nanoseconds, ShareRange, UNIT_BYTES, checksum_of};
use tantalum_drive::{Client, Locked};

use crate::error::VolumeError;
use crate::remap_duplicates::RecentWrites;

/// A client of a drive, and its recent writes.
#[derive(Debug)]
pub(crate) struct Drive {
    pub client: Client,
    /// Recent writes, if writes of the same bytes become shares.
    pub recent: Option<RecentWrites>,
    /// For each unit of the current write, what it is shared with instead, if anything.
    sources: Vec<Option<Lpn>>,
}

impl Drive {
    pub fn new(client: Client) -> Drive {
        Drive { client, recent: None, sources: Vec::new() }
    }

    pub fn try_clone(&self) -> Option<Drive> {
        Some(Drive { client: self.client.try_clone()?, recent: self.recent.clone(), sources: Vec::new() })
    }

    /// The device by itself.
    pub fn device(&self) -> Locked<'_> {
        self.client.device()
    }

    pub fn now_ns(&self) -> Nanoseconds {
        self.client.now_ns()
    }

    pub fn wait_until(&mut self, ns: Nanoseconds) {
        self.client.wait_until(ns);
    }

    /// Fails with the error that ended the drive, if it has ended.
    pub fn check(&self) -> Result<(), VolumeError> {
        Ok(self.client.check()?)
    }

    /// Issues a command now, without waiting for it.
    pub fn submit_queued(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        Ok(self.client.submit_queued(command)?)
    }

    /// Issues a command now and waits for it.
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, VolumeError> {
        Ok(self.client.submit(command)?)
    }

    pub fn read(&mut self, lpn: Lpn, data: &mut [u8]) -> Result<(), VolumeError> {
        self.submit(Command::Read { lpn, data }).map(drop)
    }

    /// Writes whole units of a file now and returns when that will be done; units recently written elsewhere are shared
    /// instead.
    pub fn write(&mut self, lpn: Lpn, data: &[u8]) -> Result<Nanoseconds, VolumeError> {
        self.write_filled(lpn, data, None)
    }

    /// As [`Drive::write`]. The next of `fills` already hold the same units.
    pub fn write_filled(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Result<Nanoseconds, VolumeError> {
        let Drive { client, recent: Some(recent), sources } = self else {
            return Ok(self.submit_queued(write_command(lpn, data, fills))?.done_ns);
        };
        let (units, _) = data.as_chunks::<UNIT_BYTES>();
        let all = lpn.0..lpn.0 + units.len() as u32;
        let mut sources = std::mem::take(sources);
        let device = client.device();
        sources.clear();
        sources.extend(units.iter().zip(all.clone()).enumerate().map(|(number, (unit, lpn))| {
            let known = fills.as_deref().and_then(|fills| fills.checksum(number));
            let checksum = known.unwrap_or_else(|| checksum_of(unit));
            let is_equal = |source| device.holds(source, unit);
            recent.find_or_remember(checksum, Lpn(lpn), &all, is_equal)
        }));
        drop(device);
        let done_ns = self.write_or_share(lpn, &sources, units, fills);
        self.sources = sources;
        done_ns
    }

    fn write_or_share(
        &mut self,
        lpn: Lpn,
        sources: &[Option<Lpn>],
        units: &[[u8; UNIT_BYTES]],
        mut fills: Option<&mut Fills>,
    ) -> Result<Nanoseconds, VolumeError> {
        let mut done_ns = self.now_ns();
        let mut first = 0;
        for run in sources.chunk_by(|a, b| a.is_some() == b.is_some()) {
            let (at, end) = (Lpn(lpn.0 + first as u32), first + run.len());
            let written = match run[0] {
                Some(_) => self.share_run(at, run, &units[first..end], fills.as_deref_mut())?,
                None => self.write_run(at, &units[first..end], fills.as_deref_mut())?,
            };
            done_ns = done_ns.max(written);
            first = end;
        }
        Ok(done_ns)
    }

    fn write_run(
        &mut self,
        lpn: Lpn,
        units: &[[u8; UNIT_BYTES]],
        fills: Option<&mut Fills>,
    ) -> Result<Nanoseconds, VolumeError> {
        let completion = self.submit_queued(write_command(lpn, units.as_flattened(), fills))?;
        if let Some(recent) = &mut self.recent {
            recent.units_without_duplicate += units.len() as u64;
        }
        Ok(completion.done_ns)
    }

    /// Shares units with others that read as `units`, durable with the next flush like a write. If the drive refuses,
    /// it writes them.
    fn share_run(
        &mut self,
        lpn: Lpn,
        sources: &[Option<Lpn>],
        units: &[[u8; UNIT_BYTES]],
        mut fills: Option<&mut Fills>,
    ) -> Result<Nanoseconds, VolumeError> {
        let limit = self.device().limits().share_units.max(1) as usize;
        let mut done_ns = self.now_ns();
        let parts = sources.chunks(limit).zip(units.chunks(limit));
        for (index, (sources, units)) in parts.enumerate() {
            let lpn = Lpn(lpn.0 + (index * limit) as u32);
            let ranges = ranges_of(lpn, sources);
            let part_ns = match self.submit_queued(Command::Share { ranges: &ranges, deferred: true }) {
                Ok(completion) => {
                    if let Some(recent) = &mut self.recent {
                        recent.units_remapped += units.len() as u64;
                    }
                    if let Some(fills) = fills.as_deref_mut() {
                        self.device().skip_fills(fills, units.len());
                    }
                    completion.done_ns
                }
                Err(error) if error.is_end_of_drive() => return Err(error),
                Err(_) => self.write_run(lpn, units, fills.as_deref_mut())?,
            };
            done_ns = done_ns.max(part_ns);
        }
        Ok(done_ns)
    }
}

fn write_command<'a>(lpn: Lpn, data: &'a [u8], fills: Option<&'a mut Fills>) -> Command<'a> {
    match fills {
        Some(fills) => Command::WriteFilled { lpn, data, fills },
        None => Command::Write { lpn, data, fua: false },
    }
}

/// Adjacent units with adjacent sources become one range.
fn ranges_of(lpn: Lpn, sources: &[Option<Lpn>]) -> Vec<ShareRange> {
    let mut ranges: Vec<ShareRange> = Vec::new();
    for (dst, &src) in (lpn.0..).zip(sources.iter().flatten()) {
        match ranges.last_mut().filter(|range| range.src.0 + range.units == src.0) {
            Some(range) => range.units += 1,
            None => ranges.push(ShareRange { dst: Lpn(dst), src, units: 1 }),
        }
    }
    ranges
}
