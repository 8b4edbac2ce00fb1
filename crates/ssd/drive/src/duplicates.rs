//! Writes that repeat an earlier one become shares (SHARE, section 2.1): databases and journaling file systems write
//! blocks twice so that none is torn, and the second copy needs no flash. It works for all clients of a drive together.
//!
//! Invariants:
//! - A write becomes a share only of a unit that holds the same bytes and no metadata. Nobody else can have the device
//!   meanwhile, so a source cannot change between the comparison and the share.
//! - A share is as durable as the write would have been: with the next flush, or at once if the write is forced or the
//!   drive has no cache.
//! - What the drive refuses to share is written.
//! - A write of the size that is all or nothing is shared as a whole in one step, or written as a whole (hazard 36).

use tantalum::{
    Command, Completion, Device, Fills, Handle, Lpn, Nanoseconds, ShareRange, Status, UNIT_BYTES,
};
use tantalum_canaries::guard;
use tantalum_image::checksum_of;

use crate::issue::issue;
use crate::recent_writes::RecentWrites;

/// How many units before a unit's turn its candidates are prefetched.
const UNITS_AHEAD: usize = 8;

/// What became of the writes of a drive that remaps duplicates, in units.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DuplicateCounts {
    /// Shared with an equal unit instead of being written.
    pub remapped: u64,
    /// Written.
    pub without_duplicate: u64,
}

/// Recent writes, and what became of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Duplicates {
    recent: RecentWrites,
    pub counts: DuplicateCounts,
    /// For each unit of the current write, what it is shared with instead, if anything.
    sources: Vec<Option<Lpn>>,
    /// Ranges of the current share.
    ranges: Vec<ShareRange>,
}

/// A write of whole units, all of them in range.
pub(crate) struct Write<'a> {
    pub lpn: Lpn,
    pub units: &'a [[u8; UNIT_BYTES]],
    /// They hold the same units already.
    pub fills: Option<&'a mut Fills>,
    pub fua: bool,
    /// Where what is not shared is placed.
    pub handle: Option<Handle>,
    pub at_ns: Nanoseconds,
}

impl Duplicates {
    /// Writes units, or shares them with equal ones.
    pub fn write(&mut self, device: &mut Device, mut write: Write<'_>) -> Result<Completion, Status> {
        let mut sources = std::mem::take(&mut self.sources);
        self.find(device, &write, &mut sources);
        let (found, units) = (sources.len(), write.units.len());
        assert_eq!(found, units, "sources of {found} units were looked for, and {units} are written");
        if !is_one_step(device, &sources) {
            sources.fill(None);
        }
        let mut completion = Completion::default();
        for run in sources.chunk_by(|a, b| a.is_some() == b.is_some()) {
            let (mut part, rest) = write.split(run.len());
            let part_ns = match run[0] {
                Some(_) => self.share_run(device, &mut part, run)?,
                None => self.write_run(device, &mut part)?,
            };
            completion.done_ns = completion.done_ns.max(part_ns);
            (write.lpn, write.units) = rest;
        }
        let left = write.units.len();
        assert_eq!(left, 0, "{left} units were neither written nor shared");
        self.sources = sources;
        Ok(completion)
    }

    /// Looks for a source of each unit.
    fn find(&mut self, device: &Device, write: &Write<'_>, sources: &mut Vec<Option<Lpn>>) {
        let all = write.lpn.0..write.lpn.0 + write.units.len() as u32;
        sources.clear();
        let known = |number| write.fills.as_deref().and_then(|fills| fills.checksum(number));
        for (number, (unit, lpn)) in write.units.iter().zip(all.clone()).enumerate() {
            if let Some(later) = known(number + UNITS_AHEAD) {
                self.recent.prefetch(later);
            }
            let known = known(number);
            let checksum = known.unwrap_or_else(|| checksum_of(unit));
            let is_equal = |source| guard!(DuplicateUnchecked, device.holds(source, unit));
            sources.push(self.recent.find_or_remember(checksum, Lpn(lpn), &all, is_equal));
        }
    }

    fn write_run(&mut self, device: &mut Device, write: &mut Write<'_>) -> Result<Nanoseconds, Status> {
        let Write { lpn, units, fua, handle, at_ns, .. } = *write;
        let command = write_command(lpn, units.as_flattened(), write.fills.as_deref_mut(), fua, handle);
        let completion = issue(device, command, at_ns)?;
        self.counts.without_duplicate += units.len() as u64;
        Ok(completion.done_ns)
    }

    /// Shares units with others that hold the same, as many at once as the drive allows.
    fn share_run(
        &mut self,
        device: &mut Device,
        write: &mut Write<'_>,
        sources: &[Option<Lpn>],
    ) -> Result<Nanoseconds, Status> {
        let limit = device.limits().share_units.max(1) as usize;
        let mut done_ns = 0;
        for sources in sources.chunks(limit) {
            let (mut part, rest) = write.split(sources.len());
            done_ns = done_ns.max(self.share(device, &mut part, sources)?);
            (write.lpn, write.units) = rest;
        }
        Ok(done_ns)
    }

    fn share(
        &mut self,
        device: &mut Device,
        write: &mut Write<'_>,
        sources: &[Option<Lpn>],
    ) -> Result<Nanoseconds, Status> {
        collect_ranges(&mut self.ranges, write.lpn, sources);
        let shared: u32 = self.ranges.iter().map(|range| range.units).sum();
        assert_eq!(shared as usize, write.units.len(), "the ranges of a share have {shared} units");
        let deferred = !write.fua && !device.is_write_through();
        let share = Command::Share { ranges: &self.ranges, deferred };
        match issue(device, share, write.at_ns) {
            Ok(completion) => {
                self.counts.remapped += write.units.len() as u64;
                if let Some(fills) = write.fills.as_deref_mut() {
                    device.skip_fills(fills, write.units.len());
                }
                Ok(completion.done_ns)
            }
            Err(status) if status.is_end_of_drive() => Err(status),
            Err(_) => self.write_run(device, write),
        }
    }
}

impl<'a> Write<'a> {
    /// The first units, and where the rest begins.
    fn split(&mut self, units: usize) -> (Write<'_>, (Lpn, &'a [[u8; UNIT_BYTES]])) {
        let (first, rest) = self.units.split_at(units);
        let Write { lpn, fua, handle, at_ns, .. } = *self;
        let part = Write { lpn, units: first, fills: self.fills.as_deref_mut(), fua, handle, at_ns };
        (part, (Lpn(lpn.0 + units as u32), rest))
    }
}

/// Whether a write that is shared where it has sources is as much one step as without them.
fn is_one_step(device: &Device, sources: &[Option<Lpn>]) -> bool {
    let limits = &device.profile().limits;
    let is_whole = (2..=limits.atomic_write_units as usize).contains(&sources.len());
    let in_one_share = || sources.len() <= device.limits().share_units as usize;
    !is_whole || sources.iter().all(Option::is_some) && in_one_share()
}

/// The command that writes these units.
pub(crate) fn write_command<'a>(
    lpn: Lpn,
    data: &'a [u8],
    fills: Option<&'a mut Fills>,
    fua: bool,
    handle: Option<Handle>,
) -> Command<'a> {
    debug_assert!(!(fua && fills.is_some()), "buffers are filled for writes that need not be on flash");
    match fills {
        Some(fills) => Command::WriteFilled { lpn, data, fills, handle },
        None => Command::Write { lpn, data, fua, handle },
    }
}

/// Adjacent units with adjacent sources become one range.
fn collect_ranges(ranges: &mut Vec<ShareRange>, lpn: Lpn, sources: &[Option<Lpn>]) {
    ranges.clear();
    for (dst, &src) in (lpn.0..).zip(sources.iter().flatten()) {
        match ranges.last_mut().filter(|range| range.src.0 + range.units == src.0) {
            Some(range) => range.units += 1,
            None => ranges.push(ShareRange { dst: Lpn(dst), src, units: 1 }),
        }
    }
}
