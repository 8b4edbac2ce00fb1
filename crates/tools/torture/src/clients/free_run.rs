//! Threads that use one drive in whatever order the machine lets them: nobody draws it, so a run does not repeat.
//!
//! The oracle knows of each command only when its thread submitted it and when that thread had the answer, as places in one
//! count of such events. A command comes before another one if its answer came before the other's submission. Then
//!
//! - a read returns a version that was submitted before the read ended, unless a version that comes after it was answered
//!   before the read began;
//! - after a cut a unit holds a version unless one that comes after it is certain: answered, and durable then, or covered by
//!   a flush that was submitted after that answer, and answered;
//! - a step has happened in all of its units that nothing newer hides, or in none.

mod history;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use rand::{Rng, RngExt};
use tantalum::{Command, Device, Lpn, PowerLoss, ShareRange, Status, UNIT_BYTES};
use tantalum_drive::{Answers, Drive, Pacing, Queue, Reply, Request, Units, When};

use history::{History, Seen, What};

use super::case::{Case, Found, Report};
use crate::device::draw::{Generator, range};
use crate::device::drive::DIRECT;
use crate::device::guard::guarded;
use crate::device::history::Stamp;
use crate::device::host::{stamp_of, unit_of};
use crate::device::progress::Progress;
use crate::device::random::generator;
use crate::device::run::cold_stamp;
use crate::device::stop::Stop;
use crate::device::tally::Reached;

/// Commands of a thread in flight.
const DEPTH: usize = 3;

/// Selects the random numbers of the threads, and of the cuts.
const THREADS: u64 = 7 << 32;
const CUTS: u64 = 8 << 32;

/// The first unit that only one thread writes to, and how many each has: sources of shares, whose contents it knows.
const OWN: u32 = DIRECT.start - 32;
const OWN_EACH: u32 = 4;

/// The answer to one of a thread's commands.
type Answered = (usize, Result<Reply, Status>);

/// What the threads share.
struct Shared<'a> {
    events: AtomicU64,
    stamps: &'a AtomicU64,
}

impl Shared<'_> {
    fn event(&self) -> u64 {
        self.events.fetch_add(1, Ordering::SeqCst)
    }
}

/// A client on a thread of its own.
struct Thread<'a> {
    number: u32,
    queue: Queue,
    shared: &'a Shared<'a>,
    durable_writes: bool,
    /// Whether some writes repeat what only this thread's units hold.
    repeats: bool,
    seen: Vec<Seen>,
    own: BTreeMap<Lpn, Stamp>,
    in_flight: usize,
    sender: mpsc::Sender<Answered>,
    receiver: mpsc::Receiver<Answered>,
}

impl Thread<'_> {
    /// Works until power goes. Returns what it saw.
    fn work(mut self, mut rng: Generator) -> Result<Vec<Seen>, Stop> {
        while self.queue.drive().lock().has_power() {
            let (request, what) = self.draw(&mut rng);
            self.submit(request, what);
            let most = rng.random_range(0..DEPTH);
            while self.in_flight > most {
                self.receive()?;
            }
        }
        while self.in_flight > 0 {
            self.receive()?;
        }
        Ok(self.seen)
    }

    fn stamp(&self) -> Stamp {
        2 * self.shared.stamps.fetch_add(1, Ordering::Relaxed) + 4
    }

    fn draw(&mut self, rng: &mut Generator) -> (Request, What) {
        let units = range(rng, 5);
        let (lpn, count) = (Lpn(units.start), units.len() as u32);
        let mut new: BTreeMap<Lpn, Stamp> = units.map(|lpn| (Lpn(lpn), self.stamp())).collect();
        if self.repeats && rng.random_ratio(1, 3) {
            new.values_mut().zip(self.own.values()).for_each(|(stamp, own)| *stamp = *own);
        }
        let data = || new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        match rng.random_range(0..20) {
            0..7 => {
                let request = Request::Write { lpn, data: data(), fua: false, handle: None };
                (request, What::Write { new, step: false, durable: self.durable_writes })
            }
            7..9 => {
                let request = Request::Write { lpn, data: data(), fua: true, handle: None };
                (request, What::Write { new, step: false, durable: true })
            }
            9..12 => {
                let new: BTreeMap<Lpn, Stamp> = new.into_keys().map(|lpn| (lpn, self.stamp())).collect();
                let writes = new.iter().map(|(lpn, stamp)| (*lpn, unit_of(*stamp))).collect();
                (Request::WriteAtomic { writes }, What::Write { new, step: true, durable: true })
            }
            12 => {
                let new = new.into_keys().map(|lpn| (lpn, 0)).collect();
                let what = What::Write { new, step: false, durable: false };
                (Request::Trim { lpn, units: count }, what)
            }
            13..15 => (Request::Flush, What::Flush),
            15..17 if !self.own.is_empty() => self.share(lpn, rng),
            15..17 => {
                let lpn = Lpn(OWN + OWN_EACH * self.number + rng.random_range(0..OWN_EACH));
                let stamp = self.stamp();
                self.own.insert(lpn, stamp);
                let what = What::Write { new: BTreeMap::from([(lpn, stamp)]), step: false, durable: true };
                (Request::Write { lpn, data: unit_of(stamp), fua: true, handle: None }, what)
            }
            _ => (
                Request::Read { lpn, data: Units(count) },
                What::Read { found: vec![(lpn, 0); count as usize] },
            ),
        }
    }

    /// Shares units with some that only this thread writes to.
    fn share(&mut self, first: Lpn, rng: &mut Generator) -> (Request, What) {
        let sources = self.own.iter().zip(first.0..DIRECT.end);
        let pairs: Vec<(Lpn, Lpn, Stamp)> =
            sources.map(|((src, stamp), dst)| (Lpn(dst), *src, *stamp)).collect();
        let ranges =
            pairs.iter().map(|(dst, src, _)| ShareRange { dst: *dst, src: *src, units: 1 }).collect();
        let deferred = rng.random_ratio(1, 2);
        let new = pairs.iter().map(|(dst, _, stamp)| (*dst, *stamp)).collect();
        (Request::Share { ranges, deferred }, What::Write { new, step: true, durable: !deferred })
    }

    fn submit(&mut self, request: Request, what: What) {
        let (place, submitted) = (self.seen.len(), self.shared.event());
        self.seen.push(Seen { submitted, answered: None, what });
        let sender = self.sender.clone();
        self.in_flight += 1;
        self.queue.submit(request, 0, move |ended, _| {
            // a thread that stopped waits for nothing
            let _ = sender.send((place, ended));
        });
    }

    fn receive(&mut self) -> Result<(), Stop> {
        let (place, ended) = self.receiver.recv().expect("it has a sender itself");
        self.in_flight -= 1;
        let (answered, seen) = (self.shared.event(), &mut self.seen[place]);
        match ended {
            Ok(reply) => {
                seen.answered = Some(answered);
                if let What::Read { found } = &mut seen.what {
                    let data = reply.into_data();
                    let units = data.chunks(UNIT_BYTES);
                    for (at, (unit, slot)) in units.zip(found.iter_mut()).enumerate() {
                        slot.0 = Lpn(slot.0.0 + at as u32);
                        slot.1 = stamp_of(unit, &format!("unit {}", slot.0))?;
                    }
                }
                Ok(())
            }
            Err(Status::PowerLost) => Ok(()),
            // whatever was refused changed nothing
            Err(Status::OverLimit { .. }) => {
                seen.what = What::Read { found: Vec::new() };
                Ok(())
            }
            Err(status) => Err(Stop::refused(&status)),
        }
    }
}

/// Lets threads work on a drive until power goes, `count` times.
pub(super) fn free_run(case: &Case, count: u64, progress: &Progress<'_>) -> Report {
    let mut report = Report::default();
    let made = guarded(|| {
        let device = Device::in_memory(&case.setup.profile(case.seed));
        let drive = Drive::new(device.map_err(|error| Stop::broken("refused", error.to_string()))?);
        drive.set_remap_duplicates(case.setup.remaps);
        fill(&drive, case)?;
        Ok(drive)
    });
    let drive = match made {
        Ok(drive) => drive,
        Err(stop) => return Report { found: Some(Found::new(stop, 0, 0, None)), ..report },
    };
    let (mut base, stamps) = (BTreeMap::new(), AtomicU64::new(0));
    for cut in 0..count {
        if let Err(stop) = guarded(|| cycle(case, &drive, cut, (&mut base, &stamps), &mut report)) {
            report.found = Some(Found::new(stop, 0, cut, None));
            break;
        }
        if !progress.advance(1) {
            break;
        }
    }
    report.coverage.remapped += drive.lock().duplicates().remapped;
    report
}

/// Threads work until power is lost; recovery; comparison.
fn cycle(
    case: &Case,
    drive: &Drive,
    cut: u64,
    (base, stamps): (&mut BTreeMap<Lpn, Stamp>, &AtomicU64),
    report: &mut Report,
) -> Result<(), Stop> {
    let mut rng = generator(&[case.seed, CUTS, cut]);
    let reach = if rng.random_ratio(1, 8) { 800 } else { 120 };
    drive.lock().cut_after(Some(rng.random_range(1..reach)));
    let before = drive.lock().smart().counters;
    let seen = work(case, drive, cut, stamps)?;
    let done = drive.lock().smart().counters.since(&before);
    report.tally.reached.add(&Reached::of(&done, u64::from(case.setup.kind.page_bytes) / UNIT_BYTES as u64));
    for command in &seen {
        let name = match command.what {
            What::Write { step: true, .. } => "atomic",
            What::Write { .. } => "write",
            What::Flush => "flush",
            What::Read { .. } => "read",
        };
        report.coverage.command(name, "queue");
        report.tally.reached.commands += 1;
    }
    let lost = seen.iter().filter(|seen| seen.answered.is_none()).count() as u64;
    report.coverage.answers_lost += lost;
    report.coverage.in_flight_at_cuts += lost;
    report.coverage.most_in_flight = report.coverage.most_in_flight.max(lost);
    report.coverage.cut("in a command");
    report.tally.cuts += 1;
    recover(case, drive, &mut rng, report)?;
    let history = History::new(std::mem::take(base), seen, case.setup.is_protected());
    *base = compare(drive, &history, report)?;
    check_cold(drive, case)
}

/// Fills the units that no thread uses, so that garbage is collected.
fn fill(drive: &Drive, case: &Case) -> Result<(), Stop> {
    for lpn in case.setup.cold() {
        drive.write(Lpn(lpn), &unit_of(cold_stamp(lpn)), false, When::AfterAll)?;
    }
    drive.lock().issue(Command::Flush, When::AfterAll)?;
    Ok(())
}

/// They hold what they were filled with.
fn check_cold(drive: &Drive, case: &Case) -> Result<(), Stop> {
    for lpn in case.setup.cold() {
        let mut unit = [0; UNIT_BYTES];
        drive.read(Lpn(lpn), &mut unit, When::AfterAll)?;
        let found = stamp_of(&unit, &format!("unit {lpn}"))?;
        if found != cold_stamp(lpn) {
            return Err(Stop::broken("D1", format!("cold unit {lpn} reads {found}")));
        }
    }
    Ok(())
}

fn work(case: &Case, drive: &Drive, cut: u64, stamps: &AtomicU64) -> Result<Vec<Seen>, Stop> {
    let from_ns = drive.lock().time_ns();
    let pacing = if case.setup.paced { Pacing::Real } else { Pacing::None };
    let answers = Answers::new(pacing, from_ns)
        .map_err(|error| Stop::broken("refused", format!("no thread for answers: {error}")))?;
    let shared = &Shared { events: AtomicU64::new(1), stamps };
    let run = |number: u32| {
        let (sender, receiver) = mpsc::channel();
        let thread = Thread {
            number,
            queue: Queue::new(drive.clone(), answers.clone()),
            shared,
            durable_writes: case.setup.has_durable_writes(),
            repeats: case.setup.remaps,
            seen: Vec::new(),
            own: BTreeMap::new(),
            in_flight: 0,
            sender,
            receiver,
        };
        let rng = generator(&[case.seed, THREADS, cut, number.into()]);
        move || guarded(|| thread.work(rng))
    };
    let seen: Vec<Result<Vec<Seen>, Stop>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..case.setup.clients).map(|number| scope.spawn(run(number))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a panic is caught")).collect()
    });
    Ok(seen.into_iter().collect::<Result<Vec<_>, Stop>>()?.concat())
}

fn recover(case: &Case, drive: &Drive, rng: &mut Generator, report: &mut Report) -> Result<(), Stop> {
    let twice = case.plan.second_cut && rng.random_ratio(1, 2);
    let mut device = drive.lock();
    device.cut_after(twice.then(|| rng.random_range(1..12)));
    let mut loss = PowerLoss::seeded(rng.next_u64());
    loop {
        match device.power_on(&mut loss) {
            Ok(recovered) => {
                report.tally.torn_pages_seen += recovered.torn_pages;
                report.tally.dirty_recoveries += u64::from(!recovered.clean);
                break;
            }
            Err(_) if !device.in_flight().is_empty() => {
                report.tally.second_cuts += 1;
                report.coverage.cut("in recovery");
                device.cut_after(None);
            }
            Err(error) => return Err(Stop::broken("D5", format!("recovery fails: {error}"))),
        }
    }
    device.cut_after(None);
    Ok(())
}

/// Compares what was read while the drive ran, and what it holds now, which is certain from here on.
fn compare(drive: &Drive, history: &History, report: &mut Report) -> Result<BTreeMap<Lpn, Stamp>, Stop> {
    for read in &history.seen {
        report.tally.promises_checked += history.check_read(read)?;
    }
    let mut found = BTreeMap::new();
    for lpn in (OWN..DIRECT.end).map(Lpn) {
        let mut unit = [0; UNIT_BYTES];
        let at_ns = drive.lock().time_ns();
        drive.read(lpn, &mut unit, at_ns)?;
        let stamp = stamp_of(&unit, &format!("unit {lpn}"))?;
        history.check_unit(lpn, stamp)?;
        found.insert(lpn, stamp);
    }
    for step in &history.seen {
        history.check_step(step, &found)?;
    }
    report.tally.promises_checked += (found.len() + history.seen.len()) as u64;
    drive.lock().audit();
    Ok(found)
}
