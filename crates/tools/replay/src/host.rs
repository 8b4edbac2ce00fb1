//! A host that issues the requests of a trace to a drive.
//!
//! - The drive's commands are whole units of 4 KiB. A write of part of a unit makes the drive read the unit first, and
//!   write all of it (read-modify-write). Deallocation of part of a unit does nothing.
//! - A request may take several commands. A command that depends on an earlier one is issued when that is done:
//!   requests and such commands are issued together in the order of time.
//! - Every unit written begins with its own number, and each read checks that it finds this or zeros.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tantalum::{Command, Device, Lpn, Nanoseconds, Status, UNIT_BYTES};
use tantalum_workloads::WrongData;

use crate::error::ReplayError;
use crate::job::Job;
use crate::placement::Piece;
use crate::tally::{RequestKind, Tally};
use crate::trace::Operation;

/// Units in one command: 1 MiB, as the kernel sends at most.
const MOST_UNITS: u64 = 256;

const UNIT: u64 = UNIT_BYTES as u64;

/// The number of requests that may wait for their commands. Without a limit, a trace that the drive cannot keep up with
/// would fill memory.
const MOST_WAITING: usize = 1 << 20;

/// An event and its time. Events at the same time happen in the order in which they were scheduled.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Event {
    at_ns: Nanoseconds,
    number: u64,
    what: What,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    /// The flush before a write is done.
    Begin(Job),
    /// All units that a write fills in part have been read.
    Write(Job),
    /// A request is done, and the host may issue another.
    Done,
}

/// Requests on their way to the drive.
pub(crate) struct Host {
    pub tally: Tally,
    events: BinaryHeap<Reverse<Event>>,
    /// Whether the end of a request is an event.
    closed: bool,
    scheduled: u64,
    waiting: usize,
    source: Vec<u8>,
    target: Vec<u8>,
}

impl Host {
    /// A host of one drive; `closed` if it waits for the end of requests.
    pub(crate) fn new(tally: Tally, closed: bool) -> Host {
        let buffer = || vec![0; MOST_UNITS as usize * UNIT_BYTES];
        Host {
            tally,
            events: BinaryHeap::new(),
            closed,
            scheduled: 0,
            waiting: 0,
            source: buffer(),
            target: buffer(),
        }
    }

    /// When something happens next.
    pub(crate) fn next_ns(&self) -> Option<Nanoseconds> {
        self.events.peek().map(|Reverse(event)| event.at_ns)
    }

    /// Executes the next event. Returns whether it was the end of a request.
    pub(crate) fn step(&mut self, device: &mut Device) -> Result<bool, ReplayError> {
        let Some(Reverse(Event { at_ns, what, .. })) = self.events.pop() else { return Ok(false) };
        match what {
            What::Done => return Ok(true),
            What::Begin(job) => {
                self.waiting -= 1;
                self.begin(device, job, at_ns)?;
            }
            What::Write(job) => {
                self.waiting -= 1;
                self.write(device, job, at_ns)?;
            }
        }
        Ok(false)
    }

    /// The host issues a request, at its `asked_ns`.
    pub(crate) fn ask(&mut self, device: &mut Device, job: Job) -> Result<(), ReplayError> {
        let at_ns = job.asked_ns;
        self.tally.asked(&job);
        match job.operation {
            Operation::Write { preflush: true, .. } => {
                let done_ns = submit(device, job.line, Command::Flush, at_ns)?;
                self.wait(done_ns, What::Begin(job))
            }
            _ => self.begin(device, job, at_ns),
        }
    }

    fn begin(&mut self, device: &mut Device, job: Job, at_ns: Nanoseconds) -> Result<(), ReplayError> {
        match job.operation {
            Operation::Read => self.read(device, job, at_ns),
            Operation::Flush => {
                let done_ns = submit(device, job.line, Command::Flush, at_ns)?;
                self.end(&job, done_ns);
                Ok(())
            }
            Operation::Trim => self.trim(device, job, at_ns),
            Operation::Write { .. } => {
                let parts = parts_of(&job.pieces);
                if parts.is_empty() {
                    return self.write(device, job, at_ns);
                }
                let mut done_ns = at_ns;
                for lpn in parts {
                    let data = &mut self.target[..UNIT_BYTES];
                    let read = device.submit_inside(Command::Read { lpn, data }, at_ns);
                    done_ns = done_ns.max(read.map_err(refused(job.line))?.done_ns);
                    self.check(lpn, 1, job.line)?;
                    self.tally.units_read_to_write += 1;
                }
                self.wait(done_ns, What::Write(job))
            }
        }
    }

    fn read(&mut self, device: &mut Device, job: Job, at_ns: Nanoseconds) -> Result<(), ReplayError> {
        let mut done_ns = at_ns;
        for (lpn, units) in commands_of(&job.pieces) {
            let data = &mut self.target[..units as usize * UNIT_BYTES];
            let read = device.submit(Command::Read { lpn, data }, at_ns);
            done_ns = done_ns.max(read.map_err(refused(job.line))?.done_ns);
            self.tally.units_without_data += self.check(lpn, units, job.line)?;
            self.tally.units_read += units;
        }
        self.end(&job, done_ns);
        Ok(())
    }

    fn write(&mut self, device: &mut Device, job: Job, at_ns: Nanoseconds) -> Result<(), ReplayError> {
        let fua = matches!(job.operation, Operation::Write { fua: true, .. });
        let mut done_ns = at_ns;
        for (lpn, units) in commands_of(&job.pieces) {
            let data = &mut self.source[..units as usize * UNIT_BYTES];
            for (unit, number) in data.chunks_mut(UNIT_BYTES).zip(u64::from(lpn.0)..) {
                unit[..8].copy_from_slice(&number.to_le_bytes());
            }
            let written = device.submit(Command::Write { lpn, data, fua, handle: job.handle }, at_ns);
            done_ns = done_ns.max(written.map_err(refused(job.line))?.done_ns);
        }
        self.end(&job, done_ns);
        Ok(())
    }

    fn trim(&mut self, device: &mut Device, job: Job, at_ns: Nanoseconds) -> Result<(), ReplayError> {
        let mut done_ns = at_ns;
        for piece in &job.pieces {
            let (from, to) = (piece.offset.div_ceil(UNIT), (piece.offset + piece.bytes) / UNIT);
            if from < to {
                let (lpn, units) = (Lpn(from as u32), (to - from) as u32);
                done_ns = done_ns.max(submit(device, job.line, Command::Trim { lpn, units }, at_ns)?);
                self.tally.units_trimmed += to - from;
            }
        }
        self.end(&job, done_ns);
        Ok(())
    }

    /// Units just read hold their own numbers, or nothing. Returns how many hold nothing.
    fn check(&self, first: Lpn, units: u64, line: u64) -> Result<u64, ReplayError> {
        let mut empty = 0;
        for (unit, number) in self.target.chunks(UNIT_BYTES).zip(u64::from(first.0)..).take(units as usize) {
            let found = u64::from_le_bytes(unit[..8].try_into().expect("eight bytes"));
            if found != number && found != 0 {
                let wrong = WrongData { lpn: Lpn(number as u32), found };
                return Err(ReplayError::WrongData { line, wrong });
            }
            // unit 0 holds zeros also when it was written
            empty += u64::from(found == 0 && number != 0);
        }
        Ok(empty)
    }

    fn wait(&mut self, until_ns: Nanoseconds, what: What) -> Result<(), ReplayError> {
        if let What::Begin(job) | What::Write(job) = &what {
            if self.waiting == MOST_WAITING {
                return Err(ReplayError::Overloaded { line: job.line, waiting: self.waiting });
            }
            self.waiting += 1;
        }
        self.schedule(until_ns, what);
        Ok(())
    }

    fn end(&mut self, job: &Job, done_ns: Nanoseconds) {
        self.tally.done(RequestKind::of(job.operation), job.bytes, job.asked_ns, done_ns);
        if self.closed {
            self.schedule(done_ns, What::Done);
        }
    }

    fn schedule(&mut self, at_ns: Nanoseconds, what: What) {
        self.scheduled += 1;
        self.events.push(Reverse(Event { at_ns, number: self.scheduled, what }));
    }
}

fn submit(
    device: &mut Device,
    line: u64,
    command: Command<'_>,
    at_ns: Nanoseconds,
) -> Result<Nanoseconds, ReplayError> {
    device.submit(command, at_ns).map(|completion| completion.done_ns).map_err(refused(line))
}

fn refused(line: u64) -> impl FnOnce(Status) -> ReplayError {
    move |status| ReplayError::Refused { line, status }
}

/// The units that a piece touches.
fn units_of(piece: &Piece) -> (u64, u64) {
    (piece.offset / UNIT, (piece.offset + piece.bytes).div_ceil(UNIT))
}

/// Commands of at most [`MOST_UNITS`] that touch all units of these pieces.
fn commands_of(pieces: &[Piece]) -> impl Iterator<Item = (Lpn, u64)> + use<'_> {
    pieces.iter().flat_map(|piece| {
        let (from, to) = units_of(piece);
        let step = MOST_UNITS as usize;
        (from..to).step_by(step).map(move |first| (Lpn(first as u32), MOST_UNITS.min(to - first)))
    })
}

/// The units that these pieces cover only in part, each once.
fn parts_of(pieces: &[Piece]) -> Vec<Lpn> {
    let mut parts = Vec::new();
    for piece in pieces {
        let (from, to) = units_of(piece);
        let end = piece.offset + piece.bytes;
        if !piece.offset.is_multiple_of(UNIT) {
            parts.push(Lpn(from as u32));
        }
        if !end.is_multiple_of(UNIT) && (to - from > 1 || piece.offset.is_multiple_of(UNIT)) {
            parts.push(Lpn((to - 1) as u32));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(offset: u64, bytes: u64) -> Piece {
        Piece { offset, bytes }
    }

    #[test]
    fn a_unit_that_is_written_in_part_is_read_once() {
        let parts = |offset, bytes| {
            let parts: Vec<u32> = parts_of(&[piece(offset, bytes)]).iter().map(|lpn| lpn.0).collect();
            parts
        };
        assert!(parts(0, 8192).is_empty());
        assert_eq!(parts(512, 512), [0]);
        assert_eq!(parts(0, 512), [0]);
        assert_eq!(parts(4096 + 512, 4096 - 512), [1]);
        assert_eq!(parts(4096, 5000), [2]);
        assert_eq!(parts(100, 8192), [0, 2]);
        assert_eq!(parts(4000, 200), [0, 1]);
    }

    #[test]
    fn long_requests_are_commands_of_a_mebibyte() {
        let commands: Vec<(u32, u64)> = commands_of(&[piece(4095, 2 + (1 << 20)), piece(0, 1)])
            .map(|(lpn, units)| (lpn.0, units))
            .collect();
        assert_eq!(commands, [(0, 256), (256, 2), (0, 1)]);
    }
}
