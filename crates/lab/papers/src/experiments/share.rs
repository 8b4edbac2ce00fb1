//! SHARE's figures 5 and 6 and table 1: InnoDB's doublewrite, written twice, remapped and off.
//!
//! The paper's InnoDB calls `share` itself. Here MariaDB is unchanged, and the mounted volume notices that a page
//! written home was written to the doublewrite buffer shortly before.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::Profile;
use tantalum_report::{Figures, LatencyMs, Outcome, Row, Span, Time};
use tantalum_workloads::linkbench;

use super::linkbench_rig::{Case, CaseResult, Doublewrite, Rig, Size};
use super::mounted_mariadb::LogPlace;
use super::printed::{self, PrintedClaim};
use super::server_binds::ServerBinds;
use super::{Run, drive_of};
use crate::error::ExperimentError;
use crate::servers::LEAST_BUFFER_BYTES;

/// The paper's set-up: 4 GB of drive, 1.5 GB of database, 16 clients, 10,000 operations each after a warm-up of 300 s.
const CAPACITY_BYTES: u64 = 4 << 30;
const DATABASE_BYTES: u64 = 1_500_000_000;
const CLIENTS: u64 = 16;
const OPERATIONS_EACH: u64 = 10_000;

/// Operations of the warm-up for each measured one.
const WARM_UP: f64 = 0.5;

const MIB: u64 = 1 << 20;

/// The buffer of figure 5a, figure 6 and table 1.
const BUFFER_BYTES: u64 = 50 * MIB;

/// What a row is called, and how its pages are written.
type Mode = (&'static str, Doublewrite);

const ON: Mode = ("doublewrite on", Doublewrite::On);
const REMAPPED: Mode = ("remapped", Doublewrite::Remapped);
const OFF: Mode = ("doublewrite off", Doublewrite::Off);
const MODES: [Mode; 3] = [ON, REMAPPED, OFF];

/// On a drive whose writes are all or nothing up to InnoDB's largest page here.
const ATOMIC: Mode = ("atomic writes", Doublewrite::Off);
const ATOMIC_UNITS: u32 = 4;

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("share.toml", include_str!("share.toml")));

/// Of two figures and a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_5: Figure5,
    figure_6: Figure6,
    table_1: Table1,
}

/// Throughput, by page size (a) and buffer size (b).
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure5 {
    source_a: String,
    source_b: String,
    over_on: PrintedClaim,
    over_off: PrintedClaim,
}

/// Units in the drive's batches.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure6 {
    source: String,
    host_writes: PrintedClaim,
    collections: PrintedClaim,
    copybacks: PrintedClaim,
}

/// Latencies in ms.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table1 {
    source: String,
    doublewrite_on: LatencyTable,
    remapped: LatencyTable,
    mean: PrintedClaim,
    p99: PrintedClaim,
    longest: PrintedClaim,
}

/// A printed table of latencies in ms: a row for each kind of operation, [`LatencyMs::COLUMNS`] across.
pub(super) type LatencyTable = [[f64; LatencyMs::COLUMNS.len()]; linkbench::NAMES.len()];

/// The cases of a figure: for each mode, those of its columns.
type Cases = Vec<(String, u32, u64)>;

fn by_page_size(run: &Run<'_>) -> Cases {
    [4096, 8192, 16_384]
        .into_iter()
        .map(|page| (format!("{} KiB", page >> 10), page, run.scaled(BUFFER_BYTES, LEAST_BUFFER_BYTES)))
        .collect()
}

fn by_buffer_size(run: &Run<'_>) -> Cases {
    [50, 100, 150].into_iter().map(|mib| (format!("{mib} MiB"), 4096, run.scaled(mib * MIB, 0))).collect()
}

/// Figure 5a: throughput by page size.
pub(super) fn figure_5a(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let cases = by_page_size(run);
    let outcome = outcome(run, "LinkBench throughput by page size", &PRINTED.figure_5.source_a)?;
    throughput(run, outcome, "throughput by page size", &cases)
}

/// Figure 5b: throughput by buffer size.
pub(super) fn figure_5b(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let cases = by_buffer_size(run);
    let outcome = outcome(run, "LinkBench throughput by buffer size", &PRINTED.figure_5.source_b)?;
    throughput(run, outcome, "throughput by buffer size at scale 1", &cases)
}

fn throughput(
    run: &Run<'_>,
    mut outcome: Outcome,
    title: &str,
    cases: &Cases,
) -> Result<Outcome, ExperimentError> {
    let results = measure(run, cases, &MODES)?;
    let figures =
        figures(title, "operations/s", cases, &MODES, &results, |result| result.measured.per_second());
    let [on, remapped, off] = MODES.map(|(name, _)| figures.row(name));
    let printed = &PRINTED.figure_5;
    outcome.claims = vec![
        printed.over_on.beside(Span::factors(remapped, on)),
        printed.over_off.beside(Span::changes(remapped, off)),
    ];
    outcome.figures = vec![figures];
    outcome.figures.extend(what_binds(run, &MODES, cases, &results)?);
    Ok(outcome)
}

/// What the drive did in each case, and what an operation read from it.
fn what_binds(
    run: &Run<'_>,
    modes: &[Mode],
    cases: &Cases,
    results: &[Vec<CaseResult>],
) -> Result<Vec<Figures>, ExperimentError> {
    let (mut binds, mut reads) = (ServerBinds::default(), Vec::new());
    for ((mode, _), results) in modes.iter().zip(results) {
        for ((case, ..), result) in cases.iter().zip(results) {
            let name = format!("{mode} {case}").trim_end().to_owned();
            binds.add(&name, result);
            let read = result.counters.host_units_read as f64 / result.measured.operations() as f64;
            reads.push(Row { name, ours: vec![read], paper: None });
        }
    }
    let mut tables = binds.figures(&profile(run)?);
    tables.push(Figures {
        title: "reads of the drive".to_owned(),
        unit: "units for each operation",
        columns: vec!["read".to_owned()],
        rows: reads,
    });
    Ok(tables)
}

/// Figure 6: pages written, garbage collections and copybacks.
pub(super) fn figure_6(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let cases = by_buffer_size(run);
    let results = measure(run, &cases, &MODES)?;
    let table = |title: &str, figure: fn(&CaseResult) -> u64| {
        figures(title, "for each operation", &cases, &MODES, &results, per_operation(figure))
    };
    let printed = &PRINTED.figure_6;
    let mut outcome = outcome(run, "what the drive does under LinkBench", &printed.source)?;
    let tables = [
        (&printed.host_writes, table("host writes (4 KiB)", |result| result.counters.host_units_written)),
        (&printed.collections, table("garbage collections", |result| result.counters.collections)),
        (&printed.copybacks, table("copybacks (4 KiB)", |result| result.counters.flash_units.copyback)),
    ];
    for (claim, figures) in tables {
        outcome
            .claims
            .push(claim.beside(Span::changes(figures.row("remapped"), figures.row("doublewrite on"))));
        outcome.figures.push(figures);
    }
    outcome.figures.extend(what_binds(run, &MODES, &cases, &results)?);
    Ok(outcome)
}

fn per_operation(figure: fn(&CaseResult) -> u64) -> impl Fn(&CaseResult) -> f64 {
    move |result| figure(result) as f64 / result.measured.operations() as f64
}

/// What SHARE's authors might print today: the conventional way, theirs, and doublewrite switched off on a drive that promises atomic
/// writes as NVMe has them.
pub(super) fn atomic_writes(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let (cases, modes) = (by_page_size(run), [ON, REMAPPED, ATOMIC]);
    let results = measure(run, &cases, &modes)?;
    let title = "LinkBench on atomic writes, beside doublewrite and remapping";
    let mut outcome = outcome(run, title, "SHARE's experiment on NVMe's atomic writes; no paper prints it")?;
    let unit = "for each operation";
    let counted = |title: &str, figure: fn(&CaseResult) -> u64| {
        figures(title, unit, &cases, &modes, &results, per_operation(figure))
    };
    outcome.figures = vec![
        counted("flash writes for any reason (4 KiB)", |result| result.counters.flash_units.total()),
        counted("host writes (4 KiB)", |result| result.counters.host_units_written),
        counted("copybacks (4 KiB)", |result| result.counters.flash_units.copyback),
        figures("throughput", "operations/s", &cases, &modes, &results, |result| {
            result.measured.per_second()
        }),
    ];
    outcome.figures.extend(what_binds(run, &modes, &cases, &results)?);
    Ok(outcome)
}

/// Table 1: latencies with doublewrite on and remapped.
pub(super) fn table_1(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let printed = &PRINTED.table_1;
    let cases = vec![(String::new(), 4096, run.scaled(BUFFER_BYTES, 0))];
    let results = measure(run, &cases, &MODES[..2])?;
    let on = latencies("doublewrite on", &results[0][0], &printed.doublewrite_on);
    let remapped = latencies("remapped", &results[1][0], &printed.remapped);
    let mut outcome = outcome(run, "latencies of LinkBench", &printed.source)?;
    let ratio = |column| Span::factors(&column_of(&on, column), &column_of(&remapped, column));
    outcome.claims =
        vec![printed.mean.beside(ratio(0)), printed.p99.beside(ratio(4)), printed.longest.beside(ratio(5))];
    outcome.figures = vec![on, remapped];
    outcome.figures.extend(what_binds(run, &MODES[..2], &cases, &results)?);
    Ok(outcome)
}

/// A table of latencies: a row for each kind of operation.
pub(super) fn latencies(title: &str, result: &CaseResult, paper: &LatencyTable) -> Figures {
    let row = |((name, histogram), paper): ((&&str, _), &[f64; 6])| Row {
        name: (*name).to_owned(),
        ours: LatencyMs::of(histogram).columns().into(),
        paper: Some(paper.to_vec()),
    };
    Figures {
        title: title.to_owned(),
        unit: "ms",
        columns: LatencyMs::COLUMNS.map(str::to_owned).into(),
        rows: linkbench::NAMES.iter().zip(&result.measured.latencies).zip(paper).map(row).collect(),
    }
}

/// One column of all rows.
pub(super) fn column_of(figures: &Figures, column: usize) -> Vec<f64> {
    figures.rows.iter().map(|row| row.ours[column]).collect()
}

/// For each mode the results of all cases.
fn measure(run: &Run<'_>, cases: &Cases, modes: &[Mode]) -> Result<Vec<Vec<CaseResult>>, ExperimentError> {
    let mut rig = Rig::new(run, size(run), modes.len() * cases.len())?;
    let mut results = Vec::new();
    for &mode in modes {
        let (mut profile, (_, doublewrite)) = (profile(run)?, mode);
        if mode == ATOMIC {
            profile.limits.atomic_write_units = ATOMIC_UNITS;
            profile.validate()?;
        }
        let mut of_mode = Vec::new();
        for &(_, page_bytes, buffer_bytes) in cases {
            of_mode.push(rig.measure(&profile, Case { page_bytes, buffer_bytes, doublewrite })?);
        }
        results.push(of_mode);
    }
    Ok(results)
}

fn figures(
    title: &str,
    unit: &'static str,
    cases: &Cases,
    modes: &[Mode],
    results: &[Vec<CaseResult>],
    figure: impl Fn(&CaseResult) -> f64,
) -> Figures {
    let row = |((name, _), results): (&Mode, &Vec<CaseResult>)| Row {
        name: (*name).to_owned(),
        ours: results.iter().map(&figure).collect(),
        paper: None,
    };
    Figures {
        title: title.to_owned(),
        unit,
        columns: cases.iter().map(|(name, ..)| name.clone()).collect(),
        rows: modes.iter().zip(results).map(row).collect(),
    }
}

/// SHARE's drive, scaled, but only as long as `room_bytes` is at most two thirds of it.
pub(super) fn drive_with_room(run: &Run<'_>, room_bytes: u64) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("openssd-barefoot")?;
    let capacity_bytes = run.scaled(CAPACITY_BYTES, 0).max(room_bytes * 3 / 2);
    profile.capacity_bytes = capacity_bytes.next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("openssd-barefoot")?;
    // besides the scaled database, the server's own files need space
    let own_bytes = 512 * MIB;
    profile.capacity_bytes = (own_bytes + run.scaled(CAPACITY_BYTES - own_bytes, 0)).next_multiple_of(MIB);
    profile.validate()?;
    Ok(profile)
}

fn size(run: &Run<'_>) -> Size {
    let operations_each = run.scaled(OPERATIONS_EACH, 10);
    Size {
        database_bytes: run.scaled(DATABASE_BYTES, 1_000_000),
        partitions: 1,
        // SHARE, 5.1: the log is on another SSD
        log: LogPlace::Machine,
        clients: CLIENTS,
        warm_up_each: (operations_each as f64 * WARM_UP) as u64,
        operations_each,
    }
}

fn outcome(run: &Run<'_>, title: &'static str, source: &'static str) -> Result<Outcome, ExperimentError> {
    let (profile, size) = (profile(run)?, size(run));
    let setup = vec![format!("{}, aged", drive_of(&profile)), size.described()];
    Ok(Outcome::new(title, source, Time::Real, setup))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
