//! SHARE's board under the requests that InnoDB makes for LinkBench, without a server (SHARE, table 1).
//!
//! The paper prints nothing about the board alone. But its table 1 has mean latencies of 16 clients that never pause, which
//! gives operations per second; and its server waits for the board, not for processors. Here the same number of clients read
//! and dirty pages in virtual time, and one cleaner writes the dirty ones in batches, as InnoDB's does:
//!
//! - doublewrite on: the batch to the doublewrite buffer, flush, each page home, flush;
//! - remapped: the batch to the doublewrite buffer, flush, one share of the whole batch;
//! - doublewrite off: each page home, flush.
//!
//! A client whose page needs room waits while two batches are dirty. An operation dirties what MariaDB was measured to write
//! without doublewrite (`share-fig6`); what it reads is chosen.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::LazyLock;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use tantalum::{Command, Counters, Lpn, Nanoseconds, Profile, ShareRange, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_report::{Bar, Figures, Outcome, Row, Span, Time};
use tantalum_workloads::bench;

use super::binds::{self, Beginning, Phase};
use super::printed::{self, PrintedClaim};
use super::{Run, calibration, drive_of, smaller};
use crate::error::ExperimentError;

/// The paper's set-up at scale 1 (5.1, 5.3.1).
const CAPACITY_BYTES: u64 = 4 << 30;
const DATABASE_BYTES: u64 = 1_500_000_000;
const CLIENTS: usize = 16;

/// Operations of all clients, at scale 1, and of the warm-up before.
const OPERATIONS: u64 = 40_000;

/// Pages in a batch of InnoDB's doublewrite buffer (`innodb_doublewrite_batch_size`).
const BATCH: usize = 120;

/// Dirty pages at which clients wait.
const MOST_DIRTY: usize = 2 * BATCH;

/// SATA's queue, of which the cleaner takes what clients leave.
const CLEANER_DEPTH: usize = 32 - CLIENTS;

/// Percentage of operations that write, by LinkBench's mix.
const WRITING_PERCENT: u32 = 31;

/// What an operation reads from the drive: chosen, as the paper does not say. And how many pages a writing operation dirties,
/// 0.9 for each operation.
const READS: f64 = 1.5;
const DIRTIED: f64 = 0.9 * 100.0 / WRITING_PERCENT as f64;

/// The processor time of an operation on the server.
const HOST_NS: Nanoseconds = 300_000;

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("calibrate_openssd.toml", include_str!("calibrate_openssd.toml")));

/// Operations per second, from table 1.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    source: String,
    doublewrite_on: f64,
    remapped: f64,
    doublewrite_off: f64,
    gain: PrintedClaim,
}

/// What the cleaner does with a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    On,
    Remapped,
    Off,
}

const MODES: [(&str, Mode); 3] =
    [("doublewrite on", Mode::On), ("remapped", Mode::Remapped), ("doublewrite off", Mode::Off)];

/// Runs the three modes on copies of one aged drive.
pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let profile = smaller(
        Profile::load("openssd-barefoot")?,
        run.scaled(CAPACITY_BYTES, 256 << 20).next_multiple_of(1 << 20),
    )?;
    let aged = Drive::new(bench::aged(&profile, profile.capacity_units() as u32, run.seed, run.monitor)?);
    let printed = &*PRINTED;
    let paper = [printed.doublewrite_on, printed.remapped, printed.doublewrite_off];
    let (mut rows, mut phases, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for ((name, mode), paper) in MODES.into_iter().zip(paper) {
        let served = Server::new(run, &aged, mode).serve(run)?;
        rows.push(Row { name: name.to_owned(), ours: vec![served.per_second], paper: Some(vec![paper]) });
        written.push(Row { name: name.to_owned(), ours: served.written.into(), paper: None });
        phases.push((name.to_owned(), served.phase));
    }
    let rates = table(format!("{CLIENTS} clients"), "operations/s", &["operations"], rows);
    let title = "of the drive, for each operation".to_owned();
    let written = table(title, "units", &["read", "written", "programmed"], written);
    let claims = vec![printed.gain.beside(Span::factors(rates.row("remapped"), rates.row("doublewrite on")))];
    let mut outcome = Outcome::new(
        "the board under LinkBench's requests",
        &printed.source,
        Time::Virtual,
        setup(run, &profile),
    );
    outcome.figures = vec![
        calibration::summary(&[("operations per second", calibration::of_figures(&rates))]),
        rates,
        written,
    ];
    outcome.figures.extend(binds::figures(&profile, &phases));
    outcome.claims = claims;
    Ok(outcome)
}

fn table(title: String, unit: &'static str, columns: &[&str], rows: Vec<Row>) -> Figures {
    Figures { title, unit, columns: columns.iter().map(|&name| name.to_owned()).collect(), rows }
}

fn setup(run: &Run<'_>, profile: &Profile) -> Vec<String> {
    vec![
        format!("{}, full and aged; the database takes 35 % of it", drive_of(profile)),
        format!(
            "{CLIENTS} clients, {} operations after as many of warm-up; each reads {READS} pages of 4 KiB, {WRITING_PERCENT} % of \
             them dirty {DIRTIED:.1}; batches of {BATCH} pages",
            run.scaled(OPERATIONS, 1000)
        ),
    ]
}

/// The result of one mode.
struct Served {
    per_second: f64,
    phase: Phase,
    /// Units read, written and programmed for each operation.
    written: [f64; 3],
}

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Turn {
    /// A client reads the next page, or ends its operation.
    Client(usize),
    /// The cleaner continues.
    Cleaner,
}

/// The cleaner's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Idle,
    /// The batch is in the doublewrite buffer.
    Buffered,
    /// The batch is durable there.
    Flushed,
    /// This many pages were written home.
    Home(usize),
    /// It is done, home and durable.
    Done,
}

/// A client's operation.
#[derive(Clone, Copy, Default, Debug)]
struct Operation {
    reads_left: u32,
    dirties: u32,
}

/// Clients, dirty pages and the cleaner.
struct Server {
    drive: Drive,
    mode: Mode,
    random: Xoshiro256PlusPlus,
    /// The database's pages start here; those of the doublewrite buffer come before.
    pages: u32,
    turns: BinaryHeap<Reverse<(Nanoseconds, Turn)>>,
    operations: [Operation; CLIENTS],
    /// Clients that wait for room.
    waiting: Vec<usize>,
    dirty: VecDeque<Lpn>,
    batch: Vec<Lpn>,
    stage: Stage,
    /// When the batch's writes home are done.
    under_way: BinaryHeap<Reverse<Nanoseconds>>,
    home_ns: Nanoseconds,
    done: u64,
    buffer: Vec<u8>,
}

impl Server {
    fn new(run: &Run<'_>, aged: &Drive, mode: Mode) -> Server {
        let drive = aged.try_clone().expect("a drive in memory can be copied");
        let database = (drive.lock().profile().capacity_bytes as f64 * DATABASE_BYTES as f64
            / CAPACITY_BYTES as f64) as u64;
        Server {
            drive,
            mode,
            random: Xoshiro256PlusPlus::seed_from_u64(run.seed),
            pages: (database / UNIT_BYTES as u64) as u32,
            turns: BinaryHeap::new(),
            operations: [Operation::default(); CLIENTS],
            waiting: Vec::new(),
            dirty: VecDeque::new(),
            batch: Vec::new(),
            stage: Stage::Idle,
            under_way: BinaryHeap::new(),
            home_ns: 0,
            done: 0,
            buffer: vec![0; BATCH * UNIT_BYTES],
        }
    }

    fn serve(mut self, run: &Run<'_>) -> Result<Served, ExperimentError> {
        let operations = run.scaled(OPERATIONS, 1000);
        let bar = run.monitor.bar(format!("{:?}", self.mode), 2 * operations);
        let start_ns = self.drive.lock().time_ns();
        for client in 0..CLIENTS {
            self.begin(client, start_ns);
        }
        self.until(operations, &bar)?;
        let (beginning, before) = self.reading();
        self.until(2 * operations, &bar)?;
        let drive = self.drive.lock();
        let (phase, counted) = (beginning.until(&drive), drive.smart().counters.since(&before));
        let each = |units: u64| units as f64 / operations as f64;
        Ok(Served {
            per_second: operations as f64 * 1e9 / phase.elapsed_ns as f64,
            phase,
            written: [
                each(counted.host_units_read),
                each(counted.host_units_written),
                each(counted.flash_units.total()),
            ],
        })
    }

    fn reading(&self) -> (Beginning, Counters) {
        let drive = self.drive.lock();
        (Beginning::of(&drive), drive.smart().counters)
    }

    /// Runs until that number of operations is done.
    fn until(&mut self, operations: u64, bar: &Bar) -> Result<(), ExperimentError> {
        const STEP: u64 = 256;
        while self.done < operations {
            let Reverse((at_ns, turn)) = self.turns.pop().expect("a client or the cleaner goes on");
            match turn {
                Turn::Client(client) => self.client(client, at_ns)?,
                Turn::Cleaner => self.clean(at_ns)?,
            }
            if let Turn::Client(_) = turn
                && self.done.is_multiple_of(STEP)
            {
                bar.advance(0)?;
            }
        }
        bar.advance(operations / 2)?;
        Ok(())
    }

    fn begin(&mut self, client: usize, at_ns: Nanoseconds) {
        let mut about = |mean: f64| mean as u32 + u32::from(self.random.random_bool(mean.fract()));
        let reads_left = about(READS);
        let dirtied = about(DIRTIED);
        let writes = self.random.random_range(0..100) < WRITING_PERCENT;
        self.operations[client] = Operation { reads_left, dirties: if writes { dirtied } else { 0 } };
        self.turns.push(Reverse((at_ns + HOST_NS, Turn::Client(client))));
    }

    fn client(&mut self, client: usize, at_ns: Nanoseconds) -> Result<(), ExperimentError> {
        if self.operations[client].reads_left > 0 {
            self.operations[client].reads_left -= 1;
            let command = Command::Read { lpn: self.any_page(), data: &mut self.buffer[..UNIT_BYTES] };
            let done_ns = self.drive.lock().submit(command, at_ns)?.done_ns;
            self.turns.push(Reverse((done_ns, Turn::Client(client))));
            return Ok(());
        }
        if self.operations[client].dirties > 0 && self.dirty.len() >= MOST_DIRTY {
            self.waiting.push(client);
            return Ok(());
        }
        for _ in 0..self.operations[client].dirties {
            let page = self.any_page();
            self.dirty.push_back(page);
        }
        if self.stage == Stage::Idle && self.dirty.len() >= BATCH {
            self.clean(at_ns)?;
        }
        self.done += 1;
        self.begin(client, at_ns);
        Ok(())
    }

    fn any_page(&mut self) -> Lpn {
        Lpn(BATCH as u32 + self.random.random_range(0..self.pages))
    }

    /// The next step of the cleaner, for which it waited until `at_ns`.
    fn clean(&mut self, at_ns: Nanoseconds) -> Result<(), ExperimentError> {
        let (stage, done_ns) = match (self.stage, self.mode) {
            (Stage::Idle, Mode::Off) => {
                self.take_batch();
                (Stage::Home(0), at_ns)
            }
            (Stage::Idle, Mode::On | Mode::Remapped) => {
                self.take_batch();
                self.random.fill(&mut self.buffer[..16]);
                let data = &self.buffer[..self.batch.len() * UNIT_BYTES];
                let write = Command::Write { lpn: Lpn(0), data, fua: false, handle: None };
                (Stage::Buffered, self.drive.lock().submit(write, at_ns)?.done_ns)
            }
            (Stage::Buffered, _) => {
                (Stage::Flushed, self.drive.lock().submit(Command::Flush, at_ns)?.done_ns)
            }
            (Stage::Flushed, Mode::Remapped) => (Stage::Done, self.share(at_ns)?),
            (Stage::Flushed, _) => (Stage::Home(0), at_ns),
            (Stage::Home(written), _) if written == self.batch.len() => {
                (Stage::Done, self.drive.lock().submit(Command::Flush, at_ns)?.done_ns)
            }
            (Stage::Home(written), _) => (Stage::Home(written + 1), self.write_home(written, at_ns)?),
            (Stage::Done, _) => {
                for client in self.waiting.drain(..) {
                    self.turns.push(Reverse((at_ns, Turn::Client(client))));
                }
                self.stage = Stage::Idle;
                return if self.dirty.len() >= BATCH { self.clean(at_ns) } else { Ok(()) };
            }
        };
        self.stage = stage;
        self.turns.push(Reverse((done_ns, Turn::Cleaner)));
        Ok(())
    }

    /// Pages that are dirty twice are written once.
    fn take_batch(&mut self) {
        self.batch = self.dirty.drain(..BATCH).collect();
        self.batch.sort_unstable();
        self.batch.dedup();
    }

    fn share(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, ExperimentError> {
        let range =
            |(index, page): (usize, &Lpn)| ShareRange { dst: *page, src: Lpn(index as u32), units: 1 };
        let ranges: Vec<ShareRange> = self.batch.iter().enumerate().map(range).collect();
        Ok(self.drive.lock().submit(Command::Share { ranges: &ranges, deferred: false }, at_ns)?.done_ns)
    }

    /// Writes the next page of the batch. Returns when the one after it can be issued, or all are done.
    fn write_home(&mut self, index: usize, at_ns: Nanoseconds) -> Result<Nanoseconds, ExperimentError> {
        self.random.fill(&mut self.buffer[..16]);
        let write = Command::Write {
            lpn: self.batch[index],
            data: &self.buffer[..UNIT_BYTES],
            fua: false,
            handle: None,
        };
        let done_ns = self.drive.lock().submit(write, at_ns)?.done_ns;
        self.home_ns = self.home_ns.max(done_ns);
        self.under_way.push(Reverse(done_ns));
        if index + 1 == self.batch.len() {
            self.under_way.clear();
            return Ok(self.home_ns);
        }
        while self.under_way.len() >= CLEANER_DEPTH {
            let Reverse(first_ns) = self.under_way.pop().expect("some are under way");
            if first_ns > at_ns {
                return Ok(first_ns);
            }
        }
        Ok(at_ns)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn a_batch_written_twice_costs_about_twice_the_writes_and_sharing_it_none() {
        let settings =
            Run { scale: 0.1, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let outcome = run(&settings).unwrap();
        let written = |mode| outcome.figures[2].row(mode)[1];
        assert!((1.8..2.2).contains(&(written("doublewrite on") / written("remapped"))), "{outcome:?}");
        assert!((0.93..1.07).contains(&(written("doublewrite off") / written("remapped"))), "{outcome:?}");
        assert!(outcome.claims[0].ours.low > 1.2, "{outcome:?}");
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
