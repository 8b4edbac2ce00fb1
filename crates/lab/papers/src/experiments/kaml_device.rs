//! KAML's figures 5 to 8: records compared with blocks, on the device alone (Jin's thesis, sections 3.3.2 and 3.3.3).

mod target;

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{Device, Profile};
use tantalum_drive::Drive;
use tantalum_report::table::{bytes, grouped};
use tantalum_report::{Figures, Outcome, Row, Span, Time};
use tantalum_workloads::bench;
use tantalum_workloads::closed_loop::Served;

use self::target::{CACHE_BYTES, OTHER_PERCENT, Target, Work, other_units};
use super::binds::{self, Beginning, Phase};
use super::printed::{self, PrintedClaim};
use super::{Run, calibration, drive_of, smaller};
use crate::error::ExperimentError;

/// Capacity at scale 1. The paper's drive has 375 GB; its channels, dies and planes are kept.
const CAPACITY_BYTES: u64 = 1 << 30;

/// Capacity at and above which blocks are as large as the board's.
const WHOLE_BLOCKS_BYTES: u64 = 28 << 30;

/// Entries of the index at scale 1; the paper's has 64 million.
const ENTRIES: u64 = 65_536;

/// Requests for each figure at scale 1.
const REQUESTS: u64 = 20_000;

/// Threads that measure bandwidth; latencies are measured with one (3.3.1).
const THREADS: u32 = 8;

const VALUE_BYTES: [usize; 4] = [512, 1024, 2048, 4096];

/// Records over entries, in percent.
const LOADS: [u64; 3] = [10, 40, 70];

/// The load of figures 6 to 8.
const LOAD: u64 = 40;

const WORKS: [(Work, &str); 3] = [(Work::Fetch, "Fetch"), (Work::Update, "Update"), (Work::Insert, "Insert")];

fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    of_capacity(run.scaled(CAPACITY_BYTES, 512 << 20))
}

/// A new drive of figure 8. Its blocks are full-sized, so that a log does not end its block after eight pages; memory
/// holds only what is written.
fn profile_for_logs() -> Result<Profile, ExperimentError> {
    let profile = of_capacity(WHOLE_BLOCKS_BYTES)?;
    let whole = Profile::load("kaml-board")?.flash.pages_per_block;
    assert_eq!(profile.flash.pages_per_block, whole, "the drive is large enough for whole blocks");
    Ok(profile)
}

fn of_capacity(capacity_bytes: u64) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("kaml-board")?;
    profile.cache.bytes = CACHE_BYTES;
    smaller(profile, capacity_bytes.next_multiple_of(1 << 20))
}

fn aged(run: &Run<'_>, profile: &Profile) -> Result<Drive, ExperimentError> {
    Ok(Drive::new(bench::aged(profile, other_units(profile), run.seed, run.monitor)?))
}

fn records(run: &Run<'_>, load: u64) -> u64 {
    run.scaled(ENTRIES, 8192) * load / 100
}

fn requests(run: &Run<'_>) -> u64 {
    run.scaled(REQUESTS, 1000)
}

/// Inserts, fetches and updates, in that order; the result of each, in the order of [`WORKS`].
fn measure(
    run: &Run<'_>,
    mut target: Target,
    load: u64,
    threads: u32,
) -> Result<[(Served, Phase); 3], ExperimentError> {
    let mut serve = |work: Work, requests: u64| -> Result<(Served, Phase), ExperimentError> {
        let beginning = Beginning::of(&target.drive().lock());
        let served = target.serve(run, work, threads, requests)?;
        let phase = beginning.until(&target.drive().lock());
        if work == Work::Insert {
            target.settle()?;
        }
        Ok((served, phase))
    };
    let insert = serve(Work::Insert, records(run, load))?;
    let fetch = serve(Work::Fetch, requests(run))?;
    let update = serve(Work::Update, requests(run))?;
    Ok([fetch, update, insert])
}

/// A table for each kind of work: blocks, and records at each load; `figure` of what was measured, by size of values. Also
/// the bottleneck, for blocks and for records at [`LOAD`].
fn by_size(
    run: &Run<'_>,
    loads: &[u64],
    threads: u32,
    unit: &'static str,
    figure: impl Fn(Served, usize) -> f64,
) -> Result<(Vec<Figures>, Vec<Figures>), ExperimentError> {
    let drive = aged(run, &profile(run)?)?;
    let mut phases = Vec::new();
    let mut tables: Vec<Figures> = WORKS.iter().map(|(_, name)| by_bytes(name, unit)).collect();
    let lines = std::iter::once(None).chain(loads.iter().copied().map(Some));
    for load in lines {
        let mut ours = [const { Vec::new() }; 3];
        for value_bytes in VALUE_BYTES {
            let target = match load {
                None => Target::blocks(&drive, value_bytes, records(run, LOAD), run.seed),
                Some(_) => Target::keys(&drive, value_bytes, 1, run.seed)?,
            };
            let served = measure(run, target, load.unwrap_or(LOAD), threads)?;
            for ((ours, (served, phase)), (work, name)) in ours.iter_mut().zip(served).zip(WORKS) {
                ours.push(figure(served, value_bytes));
                if [None, Some(LOAD)].contains(&load) {
                    let case = format!("{name}, {}, {}", row_name(work, load), grouped(value_bytes as u64));
                    phases.push((case, phase));
                }
            }
        }
        for ((table, ours), (work, _)) in tables.iter_mut().zip(ours).zip(WORKS) {
            table.rows.push(Row { name: row_name(work, load), ours, paper: None });
        }
    }
    Ok((tables, binds::figures(drive.lock().profile(), &phases)))
}

/// A table for one kind of work, without rows.
fn by_bytes(name: &str, unit: &'static str) -> Figures {
    let columns = VALUE_BYTES.iter().map(|bytes| grouped(*bytes as u64)).collect();
    Figures { title: format!("{name}, by bytes of a value"), unit, columns, rows: Vec::new() }
}

fn row_name(work: Work, load: Option<u64>) -> String {
    match (work, load) {
        (Work::Fetch, None) => "read".to_owned(),
        (_, None) => "write".to_owned(),
        (Work::Fetch, Some(load)) => format!("Get, load {:.1}", load as f64 / 100.0),
        (_, Some(load)) => format!("Put, load {:.1}", load as f64 / 100.0),
    }
}

/// The ratio of records to blocks in a table of [`by_size`], for the sizes of `columns`.
fn over_blocks(table: &Figures, load: u64, columns: std::ops::Range<usize>) -> Span {
    let of = |load| {
        table
            .rows
            .iter()
            .find(|row| [row_name(Work::Fetch, load), row_name(Work::Update, load)].contains(&row.name))
    };
    let [keys, blocks] = [of(Some(load)), of(None)].map(|row| &row.expect("it was measured").ours);
    Span::factors(&keys[columns.clone()], &blocks[columns])
}

/// Sizes below a unit; a whole one.
const PART: std::ops::Range<usize> = 0..3;
const WHOLE: std::ops::Range<usize> = 3..4;

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("kaml_device.toml", include_str!("kaml_device.toml")));

/// What `kaml_device.toml` says of figures 5 to 8.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_5: Figure5,
    figure_6: Figure6,
    figure_7: Figure7,
    figure_8: Figure8,
}

/// Factors of bandwidth.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure5 {
    source: String,
    fetch_load_10: PrintedClaim,
    fetch_load_40: PrintedClaim,
    update: PrintedClaim,
    insert: PrintedClaim,
}

/// Factors of latency.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure6 {
    source: String,
    fetch: PrintedClaim,
    update: PrintedClaim,
    insert: PrintedClaim,
    insert_whole: PrintedClaim,
}

/// What batches gain.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure7 {
    source: String,
    update: PrintedClaim,
    fill: PrintedClaim,
}

/// What logs gain, by records in a Put.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure8 {
    source: String,
    one: PrintedClaim,
    sixteen: PrintedClaim,
}

/// Figure 5: bandwidth.
pub(super) fn figure_5(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let (tables, binds) =
        by_size(run, &LOADS, THREADS, "MB/s", |served, bytes| served.per_second * bytes as f64 / 1e6)?;
    let printed = &PRINTED.figure_5;
    let mut outcome = outcome(run, "bandwidth of records and of blocks", &printed.source)?;
    let over = |table: usize, load, columns| over_blocks(&tables[table], load, columns);
    outcome.claims = vec![
        printed.fetch_load_10.beside(over(0, 10, 0..4)),
        printed.fetch_load_40.beside(over(0, 40, 0..4)),
        printed.update.beside(over(1, LOAD, PART)),
        printed.insert.beside(over(2, LOAD, PART)),
    ];
    outcome.figures = tables;
    outcome.figures.extend(binds);
    Ok(outcome)
}

/// Figure 6: latency, by one thread.
pub(super) fn figure_6(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let (tables, binds) = by_size(run, &[LOAD], 1, "us", |served, _| served.mean_us)?;
    let printed = &PRINTED.figure_6;
    let mut outcome = outcome(run, "latency of records and of blocks", &printed.source)?;
    let over = |table: usize, columns| over_blocks(&tables[table], LOAD, columns);
    outcome.claims = vec![
        printed.fetch.beside(over(0, 0..4)),
        printed.update.beside(over(1, PART)),
        printed.insert.beside(over(2, PART)),
        printed.insert_whole.beside(over(2, WHOLE)),
    ];
    outcome.figures = tables;
    outcome.figures.extend(binds);
    Ok(outcome)
}

/// Figure 7: records in each `put`.
pub(super) fn figure_7(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    const BATCHES: [usize; 5] = [1, 2, 4, 8, 16];
    const FULL: u64 = 70;
    let drive = aged(run, &profile(run)?)?;
    let (mut updates, mut seconds, mut phases) = (Vec::new(), Vec::new(), Vec::new());
    for batch in BATCHES {
        let mut target = Target::keys(&drive, VALUE_BYTES[0], batch, run.seed)?;
        let puts = records(run, FULL) / batch as u64;
        let beginning = Beginning::of(&target.drive().lock());
        let insert = target.serve(run, Work::Insert, THREADS, puts)?;
        phases.push((format!("Insert, {batch}"), beginning.until(&target.drive().lock())));
        seconds.push(puts as f64 / insert.per_second);
        let beginning = Beginning::of(&target.drive().lock());
        let update = target.serve(run, Work::Update, THREADS, requests(run))?;
        phases.push((format!("Update, {batch}"), beginning.until(&target.drive().lock())));
        updates.push(update.per_second * batch as f64 / 1e3);
    }
    let columns: Vec<String> = BATCHES.iter().map(usize::to_string).collect();
    let table = |title: &str, unit, ours: &[f64]| Figures {
        title: format!("{title}, by records in a Put"),
        unit,
        columns: columns.clone(),
        rows: vec![Row { name: "Put, 512 bytes".to_owned(), ours: ours.to_vec(), paper: None }],
    };
    let printed = &PRINTED.figure_7;
    let mut outcome = outcome(run, "batches of records", &printed.source)?;
    outcome.figures = vec![
        table("Update", "1000 records/s", &updates),
        table("filling a namespace to a load of 0.7", "s", &seconds),
    ];
    outcome.figures.extend(binds::figures(drive.lock().profile(), &phases));
    outcome.claims = vec![
        printed.update.beside(Span::factors(&updates[2..3], &updates[..1])),
        printed.fill.beside(Span::changes(&seconds[2..3], &seconds[..1])),
    ];
    Ok(outcome)
}

/// Records in each `put` of figure 8.
const LOG_BATCHES: [usize; 2] = [1, 16];

/// Bandwidth of updates of a namespace with this many logs, by records in each `put`.
fn by_batch(run: &Run<'_>, profile: &Profile, logs: u32) -> Result<[(f64, Phase); 2], ExperimentError> {
    let mut measured = Vec::new();
    for batch in LOG_BATCHES {
        let drive = Drive::new(Device::in_memory(profile)?);
        let mut target = Target::keys_in_logs(drive, VALUE_BYTES[2], batch, logs, run.seed)?;
        target.serve(run, Work::Insert, THREADS, records(run, LOAD) / batch as u64)?;
        let beginning = Beginning::of(&target.drive().lock());
        let update = target.serve(run, Work::Update, THREADS, requests(run) / batch as u64)?;
        let rate = update.per_second * (batch * VALUE_BYTES[2]) as f64 / 1e6;
        measured.push((rate, beginning.until(&target.drive().lock())));
    }
    Ok(measured.try_into().expect("one for each batch"))
}

/// Figure 8: the logs of a namespace, each on a chip.
pub(super) fn figure_8(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    const LOGS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
    let profile = profile_for_logs()?;
    let (mut ours, mut phases) = ([const { Vec::new() }; 2], Vec::new());
    for logs in LOGS {
        let measured = by_batch(run, &profile, logs)?;
        for ((ours, batch), (rate, phase)) in ours.iter_mut().zip(LOG_BATCHES).zip(measured) {
            ours.push(rate);
            phases.push((format!("{logs} logs, {batch}"), phase));
        }
    }
    let printed = &PRINTED.figure_8;
    let mut outcome = outcome(run, "bandwidth by logs", &printed.source)?;
    outcome.setup[0] =
        format!("{}, new, blocks of {} pages", drive_of(&profile), profile.flash.pages_per_block);
    let over = |of: usize| Span::factors(&ours[of][6..], &ours[of][4..5]);
    outcome.claims = vec![printed.one.beside(over(0)), printed.sixteen.beside(over(1))];
    outcome.figures = vec![Figures {
        title: "Update of values of 2 KiB, by logs of the namespace".to_owned(),
        unit: "MB/s",
        columns: LOGS.iter().map(u32::to_string).collect(),
        rows: LOG_BATCHES
            .iter()
            .zip(ours)
            .map(|(batch, ours)| Row { name: format!("{batch} records in a Put"), ours, paper: None })
            .collect(),
    }];
    outcome.figures.extend(binds::figures(&profile, &phases));
    Ok(outcome)
}

/// All four figures, and how far ours are from what the paper says.
pub(super) fn calibrate(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let figures = [
        ("figure 5", figure_5(run)?),
        ("figure 6", figure_6(run)?),
        ("figure 7", figure_7(run)?),
        ("figure 8", figure_8(run)?),
    ];
    let mut outcome = outcome(run, "the board alone, claim by claim", "KAML (HPCA 2017), figures 5 to 8")?;
    outcome.figures = vec![calibration::summary(
        &figures.each_ref().map(|(name, figure)| (*name, calibration::of_claims(&figure.claims))),
    )];
    for (name, figure) in figures {
        let named = |table: Figures| Figures { title: format!("{name}: {}", table.title), ..table };
        outcome.figures.extend(figure.figures.into_iter().map(named));
        outcome.claims.extend(figure.claims);
    }
    Ok(outcome)
}

fn outcome(run: &Run<'_>, title: &'static str, source: &'static str) -> Result<Outcome, ExperimentError> {
    let profile = profile(run)?;
    let setup = vec![
        format!(
            "{}, a cache of {}; {OTHER_PERCENT} % of it is other data, aged",
            drive_of(&profile),
            bytes(CACHE_BYTES),
        ),
        format!(
            "load 1 is {} records; {} requests for each figure",
            grouped(run.scaled(ENTRIES, 8192)),
            grouped(requests(run))
        ),
    ];
    Ok(Outcome::new(title, source, Time::Virtual, setup))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    /// The effects that the paper is about, on a small drive.
    #[test]
    fn small_records_are_changed_without_reading_and_logs_work_at_once() {
        let run = Run { scale: 0.1, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let outcome = figure_6(&run).unwrap();
        let update = &outcome.claims[1];
        assert!(update.ours.high < 0.7, "{update:?}");
        let profile = profile_for_logs().unwrap();
        let [few, many] = [1, 16].map(|logs| by_batch(&run, &profile, logs).unwrap()[1].0);
        assert!(many > 4.0 * few, "{few} {many}");
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
