//! SHARE's figures 5 and 6 and table 1: InnoDB's doublewrite, written twice, remapped and off.
//!
//! The paper's InnoDB calls `share` itself. Here MariaDB is unchanged, and the mounted volume notices that what is
//! written home was written to the doublewrite buffer shortly before.

use tantalum::Profile;
use tantalum_report::LatencyMs;
use tantalum_report::{Claim, Figures, Outcome, Row, Span, Time};
use tantalum_workloads::linkbench;

use super::linkbench_rig::{Case, CaseResult, Doublewrite, Rig, Size};
use super::rig::LogPlace;
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

const MODES: [(&str, Doublewrite); 3] = [
    ("doublewrite on", Doublewrite::On),
    ("remapped", Doublewrite::Remapped),
    ("doublewrite off", Doublewrite::Off),
];

/// The cases of a figure: for each mode those of its columns.
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
    let outcome = outcome(run, "LinkBench throughput by page size", "SHARE (SIGMOD 2016), figure 5a")?;
    throughput(run, outcome, "throughput by page size", &cases)
}

/// Figure 5b: throughput by buffer size.
pub(super) fn figure_5b(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let cases = by_buffer_size(run);
    let outcome = outcome(run, "LinkBench throughput by buffer size", "SHARE (SIGMOD 2016), figure 5b")?;
    throughput(run, outcome, "throughput by buffer size at scale 1", &cases)
}

fn throughput(
    run: &Run<'_>,
    mut outcome: Outcome,
    title: &str,
    cases: &Cases,
) -> Result<Outcome, ExperimentError> {
    let results = measure(run, cases, &MODES.map(|(_, mode)| mode))?;
    let figures = figures(title, "operations/s", cases, &results, |result| result.measured.per_second());
    let [on, remapped, off] = MODES.map(|(name, _)| figures.row(name));
    outcome.claims = vec![
        Claim::factor(
            "throughput, remapped over doublewrite on (paper: more than)",
            Span::one(2.0),
            Span::factors(remapped, on),
        ),
        Claim::percent(
            "throughput, remapped over doublewrite off (paper: within)",
            Span::new(-1.0, 1.0),
            Span::changes(remapped, off),
        ),
    ];
    let busy = MODES.iter().zip(&results).map(|((name, _), results)| {
        ((*name).to_owned(), results.iter().map(|result| result.measured.busy_percent).collect())
    });
    outcome.figures = vec![Figures::of_processors(&figures.columns, busy)];
    outcome.figures.insert(0, figures);
    Ok(outcome)
}

/// Figure 6: pages written, garbage collections and copybacks.
pub(super) fn figure_6(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let cases = by_buffer_size(run);
    let results = measure(run, &cases, &MODES.map(|(_, mode)| mode))?;
    let per_operation = |figure: fn(&CaseResult) -> u64| {
        move |result: &CaseResult| figure(result) as f64 / result.measured.operations() as f64
    };
    let table = |title: &str, figure: fn(&CaseResult) -> u64| {
        figures(title, "for each operation", &cases, &results, per_operation(figure))
    };
    let mut outcome = outcome(run, "what the drive does below LinkBench", "SHARE (SIGMOD 2016), figure 6")?;
    let tables = [
        (
            "host writes (4 KiB)",
            -45.0,
            table("host writes (4 KiB)", |result| result.counters.host_units_written),
        ),
        ("garbage collections", -55.0, table("garbage collections", |result| result.counters.collections)),
        (
            "copybacks (4 KiB)",
            -75.0,
            table("copybacks (4 KiB)", |result| result.counters.flash_units.copyback),
        ),
    ];
    for (name, paper, figures) in tables {
        let ours = Span::changes(figures.row("remapped"), figures.row("doublewrite on"));
        outcome.claims.push(Claim::percent(
            format!("{name}, remapped over doublewrite on"),
            Span::one(paper),
            ours,
        ));
        outcome.figures.push(figures);
    }
    Ok(outcome)
}

/// Table 1: latencies with doublewrite on and remapped.
pub(super) fn table_1(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    const ON: [[f64; 6]; 10] = [
        [51.4, 4.0, 12.0, 28.0, 600.0, 1363.3],
        [32.8, 2.0, 5.0, 15.0, 600.0, 1244.4],
        [40.7, 0.3, 5.0, 19.0, 500.0, 1573.5],
        [39.4, 0.3, 5.0, 18.0, 500.0, 17467.4],
        [6.3, 0.3, 0.4, 0.4, 200.0, 1521.0],
        [64.0, 5.0, 15.0, 42.0, 700.0, 2071.4],
        [62.6, 5.0, 13.0, 40.0, 600.0, 1104.6],
        [119.3, 17.0, 40.0, 200.0, 1000.0, 2248.2],
        [70.5, 4.0, 16.0, 55.0, 800.0, 1417.6],
        [114.9, 16.0, 38.0, 200.0, 1000.0, 2270.5],
    ];
    const REMAPPED: [[f64; 6]; 10] = [
        [23.9, 5.0, 10.0, 23.0, 300.0, 901.1],
        [14.4, 2.0, 5.0, 17.0, 200.0, 747.4],
        [15.2, 0.8, 6.0, 17.0, 200.0, 313.3],
        [17.2, 0.3, 5.0, 17.0, 200.0, 6140.7],
        [1.5, 0.3, 0.3, 0.4, 24.0, 554.6],
        [28.3, 5.0, 14.0, 27.0, 300.0, 823.8],
        [26.3, 5.0, 12.0, 25.0, 300.0, 596.7],
        [49.7, 14.0, 27.0, 57.0, 400.0, 730.4],
        [30.3, 4.0, 14.0, 30.0, 300.0, 1132.8],
        [49.4, 13.0, 26.0, 54.0, 400.0, 1102.5],
    ];
    let cases = vec![(String::new(), 4096, run.scaled(BUFFER_BYTES, 0))];
    let results = measure(run, &cases, &[Doublewrite::On, Doublewrite::Remapped])?;
    let on = latencies("doublewrite on", &results[0][0], &ON);
    let remapped = latencies("remapped", &results[1][0], &REMAPPED);
    let mut outcome = outcome(run, "latencies of LinkBench", "SHARE (SIGMOD 2016), table 1")?;
    let ratio = |column| Span::factors(&column_of(&on, column), &column_of(&remapped, column));
    outcome.claims = vec![
        Claim::factor("mean latency, doublewrite on over remapped", Span::new(2.1, 4.2), ratio(0)),
        Claim::factor("99th percentile, doublewrite on over remapped", Span::new(2.0, 8.3), ratio(4)),
        Claim::factor("longest, doublewrite on over remapped", Span::new(1.2, 3.4), ratio(5)),
    ];
    outcome.figures = vec![on, remapped];
    Ok(outcome)
}

/// A table of latencies: a row for each kind of operation.
pub(super) fn latencies(title: &str, result: &CaseResult, paper: &[[f64; 6]; 10]) -> Figures {
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
fn measure(
    run: &Run<'_>,
    cases: &Cases,
    modes: &[Doublewrite],
) -> Result<Vec<Vec<CaseResult>>, ExperimentError> {
    let profile = profile(run)?;
    let mut rig = Rig::new(run, size(run), modes.len() * cases.len())?;
    let mut results = Vec::new();
    for &doublewrite in modes {
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
    results: &[Vec<CaseResult>],
    figure: impl Fn(&CaseResult) -> f64,
) -> Figures {
    let row = |((name, _), results): (&(&str, Doublewrite), &Vec<CaseResult>)| Row {
        name: (*name).to_owned(),
        ours: results.iter().map(&figure).collect(),
        paper: None,
    };
    Figures {
        title: title.to_owned(),
        unit,
        columns: cases.iter().map(|(name, ..)| name.clone()).collect(),
        rows: MODES.iter().zip(results).map(row).collect(),
    }
}

fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("openssd-barefoot")?;
    // beside the scaled database, the server's own files need their room
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
