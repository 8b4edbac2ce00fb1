//! Non-volatile memory as a handler sees it: its own stores on top of the drive's contents.
//!
//! Invariants: a store changes nothing in the drive until it is committed; stores committed together reach the drive at one time,
//! so no other client finds a part of them. A program that faults never commits (hazard 22).

use std::ops::Range;

use tantalum::{Command, Lpn, Nanoseconds, Status, UNIT_BYTES};

use crate::backing::Backing;

/// The maximum number of units with uncommitted stores of one handler.
pub const STAGE_UNITS: usize = 64;

const UNIT: u64 = UNIT_BYTES as u64;

/// How stores are committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// Like a plain write: durable with the next flush.
    Cached,
    /// Durable, each unit whole.
    Flushed,
    /// Durable, all or nothing.
    Atomic,
}

impl How {
    pub fn from_number(number: u32) -> Option<How> {
        [How::Cached, How::Flushed, How::Atomic].get(number as usize).copied()
    }
}

/// The stores of one handler.
#[derive(Default, Debug)]
pub(crate) struct Stage {
    units: Vec<Staged>,
}

/// A unit with stores. The rest of it is read from the drive only at the commit, because others may change it until then.
#[derive(Debug)]
struct Staged {
    lpn: Lpn,
    data: Box<[u8; UNIT_BYTES]>,
    /// The ranges that were stored, sorted and disjoint.
    stored: Vec<Range<usize>>,
}

impl Staged {
    fn is_whole(&self) -> bool {
        self.stored.first() == Some(&(0..UNIT_BYTES))
    }

    fn store(&mut self, part: Range<usize>, bytes: &[u8]) {
        self.data[part.clone()].copy_from_slice(bytes);
        self.stored.push(part);
        self.stored.sort_unstable_by_key(|range| range.start);
        let mut merged: Vec<Range<usize>> = Vec::with_capacity(self.stored.len());
        for range in self.stored.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        self.stored = merged;
    }

    /// The stored bytes, with their addresses.
    fn stores(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let start = u64::from(self.lpn.0) * UNIT;
        self.stored.iter().map(move |range| (start + range.start as u64, &self.data[range.clone()]))
    }

    /// Overlays the stores on the drive's contents.
    fn lay_over(&self, unit: &mut [u8; UNIT_BYTES]) {
        for range in &self.stored {
            unit[range.clone()].copy_from_slice(&self.data[range.clone()]);
        }
    }
}

/// The part of a unit that a range covers.
fn part(lpn: Lpn, range: &Range<u64>) -> Range<usize> {
    let start = u64::from(lpn.0) * UNIT;
    let from = range.start.max(start) - start;
    let to = range.end.min(start + UNIT) - start;
    from as usize..to as usize
}

fn units(range: &Range<u64>) -> impl Iterator<Item = Lpn> {
    (range.start / UNIT..range.end.div_ceil(UNIT)).map(|lpn| Lpn(lpn as u32))
}

impl Stage {
    fn staged(&self, lpn: Lpn) -> Option<&Staged> {
        self.units.iter().find(|staged| staged.lpn == lpn)
    }

    /// Whether nothing waits to be committed.
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The bytes that were stored.
    pub fn stored(&self) -> impl Iterator<Item = Range<u64>> {
        self.units.iter().flat_map(|staged| {
            let start = u64::from(staged.lpn.0) * UNIT;
            staged.stored.iter().map(move |part| start + part.start as u64..start + part.end as u64)
        })
    }

    /// Whether a store to a range would exceed the limit.
    pub fn is_full_for(&self, range: &Range<u64>) -> bool {
        let further = units(range).filter(|&lpn| self.staged(lpn).is_none()).count();
        self.units.len() + further > STAGE_UNITS
    }

    /// Appends the contents of a range, as this handler sees it; returns when they have been read.
    pub fn read(
        &self,
        backing: &mut Backing<'_>,
        range: &Range<u64>,
        to: &mut Vec<u8>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        if backing.memory.is_some() {
            return self.load(backing, range, to, at_ns);
        }
        let mut done_ns = at_ns;
        let mut unit = [0; UNIT_BYTES];
        for lpn in units(range) {
            let staged = self.staged(lpn);
            if !staged.is_some_and(Staged::is_whole) {
                done_ns = done_ns.max(backing.submit(Command::Read { lpn, data: &mut unit }, at_ns)?);
            }
            if let Some(staged) = staged {
                staged.lay_over(&mut unit);
            }
            to.extend(&unit[part(lpn, range)]);
        }
        Ok(done_ns)
    }

    /// Reads a range of the processors' own memory, as this handler sees it.
    fn load(
        &self,
        backing: &mut Backing<'_>,
        range: &Range<u64>,
        to: &mut Vec<u8>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let begun = to.len();
        to.resize(begun + (range.end - range.start) as usize, 0);
        let Backing { device, memory } = backing;
        let memory = memory.as_mut().expect("it has such memory");
        let done_ns = memory.load(device, range.start, &mut to[begun..], at_ns)?;
        for (address, bytes) in self.units.iter().flat_map(Staged::stores) {
            let (from, end) = (address.max(range.start), (address + bytes.len() as u64).min(range.end));
            if from < end {
                let stored = &bytes[(from - address) as usize..(end - address) as usize];
                to[begun + (from - range.start) as usize..][..stored.len()].copy_from_slice(stored);
            }
        }
        Ok(done_ns)
    }

    /// Stores bytes, which reach the drive with the commit.
    pub fn write(&mut self, range: &Range<u64>, mut bytes: &[u8]) {
        for lpn in units(range) {
            let part = part(lpn, range);
            let (now, later) = bytes.split_at(part.len());
            bytes = later;
            match self.units.iter_mut().find(|staged| staged.lpn == lpn) {
                Some(staged) => staged.store(part, now),
                None => {
                    let mut staged = Staged { lpn, data: Box::new([0; UNIT_BYTES]), stored: Vec::new() };
                    staged.store(part, now);
                    self.units.push(staged);
                }
            }
        }
        assert!(self.units.len() <= STAGE_UNITS, "{} units wait for a commit", self.units.len());
    }

    /// Writes the stores to the drive; returns when it acknowledges them.
    pub fn commit(
        &mut self,
        backing: &mut Backing<'_>,
        how: How,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        if self.units.is_empty() {
            return Ok(at_ns);
        }
        if let Some(memory) = &mut backing.memory {
            // in the processors' own memory, every store is durable and atomic
            let stores: Vec<(u64, &[u8])> = self.units.iter().flat_map(Staged::stores).collect();
            let done_ns = memory.store(backing.device, &stores, at_ns)?;
            self.units.clear();
            return Ok(done_ns);
        }
        let read_ns = self.complete(backing, at_ns)?;
        let mut done_ns = at_ns;
        match how {
            How::Cached | How::Flushed => {
                for Staged { lpn, data, .. } in &self.units {
                    let write =
                        Command::Write { lpn: *lpn, data: &data[..], fua: how == How::Flushed, handle: None };
                    done_ns = done_ns.max(backing.submit(write, at_ns)?);
                }
            }
            How::Atomic => {
                let writes: Vec<(Lpn, &[u8])> =
                    self.units.iter().map(|staged| (staged.lpn, &staged.data[..])).collect();
                done_ns = backing.submit(Command::WriteAtomic { writes: &writes }, at_ns)?;
            }
        }
        self.units.clear();
        // the writes are submitted at once, so that nothing comes between; their time counts after the reads
        Ok(read_ns + (done_ns - at_ns))
    }

    /// Reads the rest of each partly stored unit from the drive.
    fn complete(&mut self, backing: &mut Backing<'_>, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let mut done_ns = at_ns;
        for staged in self.units.iter_mut().filter(|staged| !staged.is_whole()) {
            let mut unit = Box::new([0; UNIT_BYTES]);
            let read = Command::Read { lpn: staged.lpn, data: &mut unit[..] };
            done_ns = done_ns.max(backing.submit(read, at_ns)?);
            staged.lay_over(&mut unit);
            staged.data = unit;
        }
        Ok(done_ns)
    }

    /// Discards the stores.
    pub fn discard(&mut self) {
        self.units.clear();
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};

    use super::*;

    fn flash(device: &mut Device) -> Backing<'_> {
        Backing { device, memory: None }
    }

    fn device() -> Device {
        let profile = Profile { capacity_bytes: 8 << 20, ..Profile::load("tlc-nvme").unwrap() };
        Device::in_memory(&profile).unwrap()
    }

    fn read(stage: &Stage, device: &mut Device, range: Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        stage.read(&mut flash(device), &range, &mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn stores_are_seen_by_their_handler_alone_until_they_are_committed() {
        let (mut device, mut mine, other) = (device(), Stage::default(), Stage::default());
        mine.write(&(4090..4100), &[7; 10]);
        assert_eq!(read(&mine, &mut device, 4089..4101), [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0]);
        assert_eq!(read(&other, &mut device, 4089..4101), [0; 12]);
        mine.commit(&mut flash(&mut device), How::Cached, 0).unwrap();
        assert_eq!(read(&other, &mut device, 4090..4100), [7; 10]);
        mine.write(&(4090..4091), &[1]);
        mine.discard();
        assert_eq!(read(&mine, &mut device, 4090..4091), [7]);
    }

    /// Two handlers that stored to parts of one unit at the same time once lost the first one's store.
    #[test]
    fn handlers_that_store_to_parts_of_one_unit_keep_each_other_s_stores() {
        let (mut device, mut one, mut other) = (device(), Stage::default(), Stage::default());
        one.write(&(0..8), &[1; 8]);
        other.write(&(4..12), &[2; 8]);
        other.commit(&mut flash(&mut device), How::Cached, 0).unwrap();
        one.commit(&mut flash(&mut device), How::Atomic, 0).unwrap();
        assert_eq!(read(&one, &mut device, 0..13), [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 0]);
    }

    #[test]
    fn the_stage_is_bounded() {
        let mut stage = Stage::default();
        for unit in 0..STAGE_UNITS as u64 {
            assert!(!stage.is_full_for(&(unit * UNIT..unit * UNIT + 1)));
            stage.write(&(unit * UNIT..unit * UNIT + 1), &[1]);
        }
        assert!(!stage.is_full_for(&(0..UNIT)), "a unit that is there takes no more room");
        assert!(stage.is_full_for(&(1 << 20..(1 << 20) + 1)));
    }
}
