//! DuraSSD's tables 1 and 2: the cost of a flush, and the gain of small pages, on the device alone.
//!
//! Reads and writes use the same share of the drive as the paper's databases do of theirs. It was overwritten at random
//! until garbage collection was steady.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{CacheMode, Command, Device, Nanoseconds, Plp, Profile, UNIT_BYTES};
use tantalum_drive::{Drive, When};
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::bench;
use tantalum_workloads::fsync_writes::{Action, FsyncWrites, Sync};

use super::binds::{self, Beginning, Phase};
use super::printed::{self, PrintedClaim};
use super::{Run, calibration, drive_of, smaller};
use crate::error::ExperimentError;

/// Capacity at scale 1. The paper's drive has 480 GB; its channels, dies and planes are kept.
const CAPACITY_BYTES: u64 = 1 << 30;

/// The part of the capacity that is used: a database of 100 GB on a drive of 480 GB (DuraSSD, 4.3.1).
const SPAN_PERCENT: u64 = 21;

/// Writes, at scale 1, for each figure.
const OPERATIONS: u64 = 20_000;

/// The time that `fio` and the paper's kernel take for each command: Table 1 has 15,458 writes a second by one job, 65
/// us each; less 11 us of firmware and 8 us on the link.
const HOST_NS: Nanoseconds = 47_000;

/// The time of an `fsync` that sends no flush: in Table 1 without barriers, a write and an `fsync` take 69 us.
const SYNC_NS: Nanoseconds = 4_400;

/// SATA's queue: this many of the paper's 128 threads have a command in flight.
const QUEUE_DEPTH: u32 = 32;

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("durassd_device.toml", include_str!("durassd_device.toml")));

/// What `durassd_device.toml` says of tables 1 and 2.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    table_1: Table1,
    table_2: Table2,
}

/// Operations per second, by writes for each fsync.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table1 {
    source: String,
    cache_off: [f64; EVERY.len()],
    flush_drains: [f64; EVERY.len()],
    no_barrier: [f64; EVERY.len()],
    no_barrier_over_drains: PrintedClaim,
    no_fsync_over_each: PrintedClaim,
}

/// Operations per second, by page size.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table2 {
    source: String,
    reads: [f64; PAGES.len()],
    writes_flushed_each: [f64; PAGES.len()],
    writes_flushed_after_256: [f64; PAGES.len()],
    writes_not_flushed: [f64; PAGES.len()],
    gain_reads: PrintedClaim,
    gain_flushed_each: PrintedClaim,
    gain_flushed_after_256: PrintedClaim,
    gain_not_flushed: PrintedClaim,
}

/// The columns of table 1: writes per `fsync`.
const EVERY: [Option<u64>; 9] =
    [Some(1), Some(4), Some(8), Some(16), Some(32), Some(64), Some(128), Some(256), None];

/// The columns of table 2: a page, and its units.
const PAGES: [(&str, u32); 3] = [("16 KiB", 4), ("8 KiB", 2), ("4 KiB", 1)];

/// The drives of the tables: the paper's rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cache {
    /// Every write goes to flash.
    Off,
    /// In DRAM; a flush drains it.
    Drains,
    /// In DRAM that survives; a flush only orders.
    Durable,
}

impl Cache {
    fn name(self) -> &'static str {
        match self {
            Cache::Off => "cache off",
            Cache::Drains => "flush drains",
            Cache::Durable => "flush orders",
        }
    }

    fn profile(self, run: &Run<'_>) -> Result<Profile, ExperimentError> {
        let capacity_bytes = run.scaled(CAPACITY_BYTES, 256 << 20).next_multiple_of(1 << 20);
        let mut profile = smaller(Profile::load("durassd")?, capacity_bytes)?;
        if self != Cache::Durable {
            profile.cache.mode = if self == Cache::Off { CacheMode::Off } else { CacheMode::Volatile };
            profile.power.plp = Plp::None;
            profile.power.dump_bytes = 0;
        }
        profile.validate()?;
        Ok(profile)
    }

    fn aged(self, run: &Run<'_>) -> Result<Device, ExperimentError> {
        let profile = self.profile(run)?;
        Ok(bench::aged(&profile, span_units(&profile), run.seed, run.monitor)?)
    }
}

/// Table 1: writes of 4 KiB by one job, with an `fsync` after a given number of writes.
pub(super) fn table_1(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    const NO_BARRIER: Sync = Sync::NoBarrier { sync_ns: SYNC_NS };
    let printed = &PRINTED.table_1;
    let lines = [
        ("cache off", Cache::Off, Sync::Flushes, Some(printed.cache_off)),
        ("flush drains", Cache::Drains, Sync::Flushes, Some(printed.flush_drains)),
        ("flush orders", Cache::Durable, Sync::Flushes, None),
        ("no barrier", Cache::Durable, NO_BARRIER, Some(printed.no_barrier)),
    ];
    let (mut rows, mut phases) = (Vec::new(), Vec::new());
    for (name, cache, sync, paper) in lines {
        let drive = Drive::new(cache.aged(run)?);
        let mut ours = Vec::new();
        for writes_per_sync in EVERY {
            let action = Action::Write { writes_per_sync, sync };
            let (rate, phase) = measure(run, &drive, FsyncWrites { action, ..JOB }, cache)?;
            ours.push(rate);
            if cache == Cache::Drains {
                phases.push((format!("{name}, {}", every(writes_per_sync)), phase));
            }
        }
        rows.push(Row { name: name.to_owned(), ours, paper: paper.map(Vec::from) });
    }
    let figures = Figures {
        title: "random writes of 4 KiB by one job, by writes for each fsync".to_owned(),
        unit: "IOPS",
        columns: EVERY.map(every).into(),
        rows,
    };
    let (drains, durable) = (figures.row("flush drains"), figures.row("no barrier"));
    let claims = vec![
        printed.no_barrier_over_drains.beside(Span::factors(&durable[..1], &drains[..1])),
        printed.no_fsync_over_each.beside(Span::factors(&drains[8..], &drains[..1])),
    ];
    let mut outcome = outcome(run, "what a flush costs", &printed.source)?;
    outcome.figures = vec![figures];
    outcome.figures.extend(binds::figures(&Cache::Drains.profile(run)?, &phases));
    outcome.claims = claims;
    Ok(outcome)
}

/// A column of table 1.
fn every(writes_per_sync: Option<u64>) -> String {
    writes_per_sync.map_or("none".to_owned(), |writes| writes.to_string())
}

/// Both tables, and how far ours are from the paper's.
pub(super) fn calibrate(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let (first, second) = (table_1(run)?, table_2(run)?);
    let source = "DuraSSD (SIGMOD 2014), tables 1 and 2";
    let mut outcome = outcome(run, "the drive alone, cell by cell", source)?;
    let parts = [("table 1", &first), ("table 2", &second)]
        .map(|(name, table)| (name, calibration::of_figures(&table.figures[0])));
    outcome.figures = vec![calibration::summary(&parts)];
    for table in [first, second] {
        outcome.figures.extend(table.figures);
        outcome.claims.extend(table.claims);
    }
    Ok(outcome)
}

/// Table 2: reads and writes by page size.
pub(super) fn table_2(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.table_2;
    let write = |every, jobs| (Action::Write { writes_per_sync: every, sync: Sync::Flushes }, jobs);
    let lines = [
        ("reads, 128 threads", Cache::Durable, (Action::Read, QUEUE_DEPTH), printed.reads),
        ("writes, flush after each", Cache::Drains, write(Some(1), 1), printed.writes_flushed_each),
        ("writes, flush after 256", Cache::Drains, write(Some(256), 1), printed.writes_flushed_after_256),
        (
            "writes, 128 threads, no flush",
            Cache::Durable,
            write(None, QUEUE_DEPTH),
            printed.writes_not_flushed,
        ),
    ];
    let mut aged =
        vec![(Cache::Durable, Cache::Durable.aged(run)?), (Cache::Drains, Cache::Drains.aged(run)?)];
    let (mut rows, mut phases) = (Vec::new(), Vec::new());
    for (name, cache, (action, jobs), paper) in lines {
        let place = aged.iter().position(|(kind, _)| *kind == cache).expect("both kinds are aged");
        // an observer of the experiment sees the newest drive, which is this one
        let drive = Drive::new(aged.swap_remove(place).1);
        let mut ours = Vec::new();
        for (page, units) in PAGES {
            let (rate, phase) = measure(run, &drive, FsyncWrites { action, units, jobs, ..JOB }, cache)?;
            ours.push(rate);
            phases.push((format!("{name}, {page}"), phase));
        }
        aged.push((cache, drive.into_device().expect("nobody shares the drive")));
        rows.push(Row { name: name.to_owned(), ours, paper: Some(paper.into()) });
    }
    let columns = PAGES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let figures = Figures { title: "random operations by page size".to_owned(), unit: "IOPS", columns, rows };
    let mut outcome = outcome(run, "what a small page gains", &printed.source)?;
    outcome.claims = printed.beside(&figures);
    outcome.figures = vec![figures];
    outcome.figures.extend(binds::figures(&Cache::Durable.profile(run)?, &phases));
    Ok(outcome)
}

impl Table2 {
    /// What the paper claims, next to our rates.
    fn beside(&self, figures: &Figures) -> Vec<PaperClaim> {
        let gain = |name: &str| Span::factors(&figures.row(name)[2..], &figures.row(name)[..1]);
        vec![
            self.gain_reads.beside(gain("reads, 128 threads")),
            self.gain_flushed_each.beside(gain("writes, flush after each")),
            self.gain_flushed_after_256.beside(gain("writes, flush after 256")),
            self.gain_not_flushed.beside(gain("writes, 128 threads, no flush")),
        ]
    }
}

/// One job; span and operations follow from the drive and the scale.
const JOB: FsyncWrites =
    FsyncWrites { span_units: 0, action: Action::Read, units: 1, jobs: 1, operations: 0, host_ns: HOST_NS };

fn span_units(profile: &Profile) -> u32 {
    (profile.capacity_bytes * SPAN_PERCENT / 100 / UNIT_BYTES as u64) as u32
}

fn operations(run: &Run<'_>) -> u64 {
    run.scaled(OPERATIONS, 1000)
}

/// Measures on an idle drive: operations per second, and what the drive did.
fn measure(
    run: &Run<'_>,
    drive: &Drive,
    job: FsyncWrites,
    cache: Cache,
) -> Result<(f64, Phase), ExperimentError> {
    let span_units = span_units(drive.lock().profile());
    let load = FsyncWrites { span_units, operations: operations(run), ..job };
    drive.lock().issue(Command::Flush, When::AfterAll)?;
    let bar = run.monitor.bar(cache.name(), load.operations);
    let beginning = Beginning::of(&drive.lock());
    let rate = load.run(drive, run.seed, &bar)?;
    let phase = beginning.until(&drive.lock());
    Ok((rate, phase))
}

fn outcome(run: &Run<'_>, title: &'static str, source: &'static str) -> Result<Outcome, ExperimentError> {
    let profile = Cache::Durable.profile(run)?;
    let setup = vec![
        format!(
            "{}, {SPAN_PERCENT} % of it in use, aged; also with its cache volatile or off",
            drive_of(&profile)
        ),
        format!(
            "{} operations for each figure; {} us of host time for each; at most {QUEUE_DEPTH} under way",
            operations(run),
            HOST_NS / 1000
        ),
    ];
    Ok(Outcome::new(title, source, Time::Virtual, setup))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    /// The effect that the paper is about, on a small drive.
    #[test]
    fn a_flush_after_each_write_costs_an_order_of_magnitude() {
        let run =
            Run { scale: 0.05, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let outcome = table_1(&run).unwrap();
        let claim = &outcome.claims[0];
        assert!(claim.ours.low > 8.0, "{claim:?}");
        assert_eq!(outcome.figures[0].rows.len(), 4);
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
