//! PebbleSSD's figures 5 and 6: `fs_write` compared with `write`, and MOVE by `remap` compared with read and write, on
//! the device alone (Jin's thesis, section 4.4.2).
//!
//! Throughput is measured with four clients, latency with one, as in the thesis. `fs_write` is durable when it
//! completes, so it is compared with a durable write (FUA); a write into the volatile cache is shown as well.

use std::sync::LazyLock;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use tantalum::{Command, FileId, Lpn, Nanoseconds, Profile, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_report::table::bytes;
use tantalum_report::{Figures, Outcome, Row, Span, Time};
use tantalum_workloads::bench;
use tantalum_workloads::closed_loop::{Served, Turn, serve};

use super::printed::{self, PrintedClaim};
use super::{Run, drive_of};
use crate::error::ExperimentError;

/// Capacity at scale 1. The paper's drive has 375 GB; its channels, dies, planes and memory are kept.
const CAPACITY_BYTES: u64 = 1 << 30;

/// The part of the capacity that is in use, in percent: "filling it with random data multiple times" (4.4.1).
const SPAN_PERCENT: u64 = 60;

/// Requests for each figure at scale 1.
const REQUESTS: u64 = 20_000;

/// Clients that measure throughput; latency is measured with one.
const CLIENTS: u32 = 4;

/// Units of a request.
const UNITS: [u32; 5] = [1, 2, 4, 8, 16];

/// Requests after which a client clears its file's list, as a file system's checkpoint would.
const REQUESTS_PER_CLEAR: u64 = 512;

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("pebble.toml", include_str!("pebble.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_5: Figure,
    figure_6: Figure,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    source: String,
    throughput: PrintedClaim,
    latency: PrintedClaim,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// Into the cache, as far as there is room.
    WriteCached,
    /// On flash when it completes.
    WriteFua,
    FsWrite,
    /// Read, then write.
    MoveByCopy,
    MoveByRemap,
}

/// The drive and what its clients do.
struct Clients {
    drive: Drive,
    units: u32,
    span: u32,
    random: Xoshiro256PlusPlus,
    data: Vec<u8>,
    /// What each client has read and will write in its next turn.
    copied: Vec<Option<u32>>,
    /// Requests of each client.
    requests: Vec<u64>,
}

impl Clients {
    fn new(aged: &Drive, units: u32, clients: u32, seed: u64) -> Clients {
        let drive = aged.try_clone().expect("a drive in memory can be copied");
        let span = span_units(drive.lock().profile());
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut data = vec![0; units as usize * UNIT_BYTES];
        random.fill(&mut data[..]);
        let (copied, requests) = (vec![None; clients as usize], vec![0; clients as usize]);
        Clients { drive, units, span, random, data, copied, requests }
    }

    /// A place for a request, aligned to its size.
    fn place(&mut self) -> u32 {
        self.random.random_range(0..self.span / self.units) * self.units
    }

    /// A place beyond the space in use, for moved units, separate for each client.
    fn destination(&self, client: usize) -> u32 {
        let number = self.requests[client] * self.requests.len() as u64 + client as u64;
        let room = (self.drive.lock().limits().capacity_units as u32 - self.span) / self.units;
        self.span + (number % u64::from(room)) as u32 * self.units
    }

    fn turn(&mut self, work: Work, client: usize, at_ns: Nanoseconds) -> Result<Turn, ExperimentError> {
        let lpn = Lpn(self.place());
        let turn = match work {
            Work::WriteCached | Work::WriteFua => {
                let fua = work == Work::WriteFua;
                let data = std::mem::take(&mut self.data);
                let written = self.done(Command::Write { lpn, data: &data, fua, handle: None }, at_ns);
                self.data = data;
                written?
            }
            Work::FsWrite => self.fs_write(lpn, client, at_ns)?,
            Work::MoveByCopy => self.copy(client, at_ns)?,
            Work::MoveByRemap => {
                let (src, dst) = (self.mapped(), Lpn(self.destination(client)));
                self.done(Command::Remap { src, dst, units: self.units }, at_ns)?
            }
        };
        if let Turn::Done(_) = turn {
            self.requests[client] += 1;
        }
        Ok(turn)
    }

    fn done(&mut self, command: Command<'_>, at_ns: Nanoseconds) -> Result<Turn, ExperimentError> {
        Ok(Turn::Done(self.drive.lock().submit(command, at_ns)?.done_ns))
    }

    fn fs_write(&mut self, lpn: Lpn, client: usize, at_ns: Nanoseconds) -> Result<Turn, ExperimentError> {
        let (number, file) = (self.requests[client], FileId(client as u32 + 1));
        if number > 0 && number.is_multiple_of(REQUESTS_PER_CLEAR) {
            let cleared = self.drive.lock().submit(Command::ClearFileLists { file: Some(file) }, at_ns)?;
            self.requests[client] += 1;
            // the clearing is part of the request, and others continue meanwhile
            return Ok(Turn::Next(cleared.done_ns));
        }
        let offset = (number % REQUESTS_PER_CLEAR) as u32 * self.units;
        let data = std::mem::take(&mut self.data);
        let written = self.done(Command::FsWrite { lpn, data: &data, file, offset }, at_ns);
        self.data = data;
        written
    }

    /// A request whose units are all mapped: a move takes units away.
    fn mapped(&mut self) -> Lpn {
        loop {
            let first = self.place();
            if (first..first + self.units).all(|lpn| self.drive.lock().is_mapped(Lpn(lpn))) {
                return Lpn(first);
            }
        }
    }

    /// The host reads the units that it moves, then writes them.
    fn copy(&mut self, client: usize, at_ns: Nanoseconds) -> Result<Turn, ExperimentError> {
        let mut data = std::mem::take(&mut self.data);
        let turn = match self.copied[client].take() {
            None => {
                let src = self.mapped();
                self.copied[client] = Some(src.0);
                let read = self.drive.lock().submit(Command::Read { lpn: src, data: &mut data }, at_ns)?;
                Ok(Turn::Next(read.done_ns))
            }
            Some(_) => {
                let dst = Lpn(self.destination(client));
                self.done(Command::Write { lpn: dst, data: &data, fua: false, handle: None }, at_ns)
            }
        };
        self.data = data;
        turn
    }
}

/// What one kind of request achieves, by size: throughput in MB/s with [`CLIENTS`], latency in microseconds with one.
fn measure(run: &Run<'_>, aged: &Drive, work: Work) -> Result<(Vec<f64>, Vec<f64>), ExperimentError> {
    let (mut throughput, mut latency) = (Vec::new(), Vec::new());
    for units in UNITS {
        let with = |clients: u32| -> Result<Served, ExperimentError> {
            let mut on = Clients::new(aged, units, clients, run.seed);
            // moves consume units in use, and must not run out of them
            let most = u64::from(on.span / units / 4);
            let requests = run.scaled(REQUESTS, 1000).min(most);
            let bar = run.monitor.bar(format!("{work:?}, {units} units, {clients} clients"), requests);
            let start_ns = on.drive.lock().time_ns();
            serve(clients, requests, start_ns, &bar, |client, at_ns| on.turn(work, client, at_ns))
        };
        let bytes_each = f64::from(units) * UNIT_BYTES as f64;
        throughput.push(with(CLIENTS)?.per_second * bytes_each / 1e6);
        latency.push(with(1)?.mean_us);
    }
    Ok((throughput, latency))
}

/// Figure 5.
pub(super) fn figure_5(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let works = [
        (Work::WriteFua, "write, durable"),
        (Work::FsWrite, "fs_write"),
        (Work::WriteCached, "write into the cache"),
    ];
    beside(run, "fs_write against write", &works, &PRINTED.figure_5, Span::factors)
}

/// Figure 6.
pub(super) fn figure_6(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let works = [(Work::MoveByCopy, "MOVE by read and write"), (Work::MoveByRemap, "MOVE by remap")];
    beside(run, "MOVE by remap against read and write", &works, &PRINTED.figure_6, Span::changes)
}

/// Two tables, and the second kind of request against the first.
fn beside(
    run: &Run<'_>,
    title: &'static str,
    works: &[(Work, &str)],
    printed: &'static Figure,
    latencies: fn(&[f64], &[f64]) -> Span,
) -> Result<Outcome, ExperimentError> {
    let profile = profile(run)?;
    let aged = Drive::new(bench::aged(&profile, span_units(&profile), run.seed, run.monitor)?);
    let columns: Vec<String> =
        UNITS.iter().map(|units| bytes(u64::from(*units) * UNIT_BYTES as u64)).collect();
    let table = |title: &str, unit| Figures {
        title: format!("{title}, by size of a request"),
        unit,
        columns: columns.clone(),
        rows: Vec::new(),
    };
    let mut tables = [table("throughput of four clients", "MB/s"), table("latency of one client", "us")];
    for (work, name) in works {
        let (throughput, latency) = measure(run, &aged, *work)?;
        for (table, ours) in tables.iter_mut().zip([throughput, latency]) {
            table.rows.push(Row { name: (*name).to_owned(), ours, paper: None });
        }
    }
    let rows = |table: &Figures| (table.rows[0].ours.clone(), table.rows[1].ours.clone());
    let ((base, ours), (base_us, ours_us)) = (rows(&tables[0]), rows(&tables[1]));
    let claims = vec![
        printed.throughput.beside(Span::factors(&ours, &base)),
        printed.latency.beside(latencies(&ours_us, &base_us)),
    ];
    let setup = vec![
        format!("{}, {SPAN_PERCENT} % of it in use, aged", drive_of(&profile)),
        format!("{} requests for each figure, fewer of large ones", run.scaled(REQUESTS, 1000)),
    ];
    let mut outcome = Outcome::new(title, &printed.source, Time::Virtual, setup);
    outcome.figures = tables.into();
    outcome.claims = claims;
    Ok(outcome)
}

fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("pebblessd")?;
    profile.capacity_bytes = run.scaled(CAPACITY_BYTES, 256 << 20).next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

fn span_units(profile: &Profile) -> u32 {
    (profile.capacity_bytes * SPAN_PERCENT / 100 / UNIT_BYTES as u64) as u32
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    fn run(experiment: fn(&Run<'_>) -> Result<Outcome, ExperimentError>) -> Outcome {
        let monitor = Monitor::silent();
        let run = Run { scale: 0.05, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        experiment(&run).unwrap()
    }

    #[test]
    fn fs_write_costs_little_more_than_a_durable_write() {
        let outcome = run(figure_5);
        let [throughput, latency] = &outcome.claims[..] else { panic!("{:?}", outcome.claims) };
        assert!(throughput.ours.low > 0.8, "{throughput:?}");
        assert!((1.0..1.2).contains(&latency.ours.high), "{latency:?}");
    }

    #[test]
    fn a_move_by_remap_takes_a_fraction_of_the_time() {
        let outcome = run(figure_6);
        let [throughput, latency] = &outcome.claims[..] else { panic!("{:?}", outcome.claims) };
        assert!(throughput.ours.low > 1.5 && latency.ours.high < -70.0, "{:?}", outcome.claims);
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
