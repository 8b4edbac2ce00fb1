//! Figures 9 and 10: Filebench's OLTP.

use tantalum_filesystem::FileSystem;
use tantalum_lfs::{Cleaning, Indexing, LfsKind};
use tantalum_report::{Figures, Outcome, Row, Time};
use tantalum_workloads::WorkloadError;
use tantalum_workloads::filebench::{Filebench, Personality};

use super::cost::{Cost, Done};
use super::cuts::{self, Survived};
use super::{KINDS, PRINTED, Run, claims, format, indexings, setup};
use crate::error::ExperimentError;

/// Operations at scale 1.
const OPERATIONS: u64 = 200_000;

/// One run: its throughput and cost, and what survived cuts.
struct Measured {
    name: String,
    per_second: f64,
    cost: Cost,
    survived: Survived,
}

/// Each kind with each way of syncing.
fn measure_all(run: &Run<'_>) -> Result<Vec<Measured>, ExperimentError> {
    let mut all = Vec::new();
    for (kind, kind_name) in KINDS {
        for &(indexing, name) in indexings(kind) {
            all.push(measure(run, kind, indexing, format!("{kind_name}, {name}"))?);
        }
    }
    Ok(all)
}

fn measure(
    run: &Run<'_>,
    kind: LfsKind,
    indexing: Indexing,
    name: String,
) -> Result<Measured, ExperimentError> {
    let mut fs = format(run, kind, Cleaning::Copy, indexing)?;
    let operations = run.scaled(OPERATIONS, 5000);
    let bar = run.monitor.bar(format!("OLTP, {name}"), operations);
    let mut bench = Filebench::prepare(&mut fs, Personality::Oltp, 1.0, run.seed, &bar)?;
    let before = Done::by(bench.file_system());
    let per_second = bench.run(operations, &bar)?;
    fs.write_back().map_err(WorkloadError::from)?;
    let cost = Cost::between(before, Done::by(&fs));
    Ok(Measured { name, per_second, cost, survived: cuts::survive(run, fs)? })
}

/// Figure 9 (a).
pub fn figure_9(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let all = measure_all(run)?;
    let table = table("throughput of Filebench's OLTP", "operations/s", &all, |one| one.per_second);
    let printed = &PRINTED.figure_9;
    let about = "fs_write under OLTP: throughput";
    let mut outcome = Outcome::new(about, &printed.source, Time::Virtual, oltp_setup(run)?);
    outcome.claims = claims(printed, &table);
    outcome.figures = vec![table, after_cuts(&all)];
    Ok(outcome)
}

/// Figure 10.
pub fn figure_10(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let all = measure_all(run)?;
    let first = table("file write amplification", "x", &all, |one| one.cost.amplification);
    let printed = &PRINTED.figure_10;
    let about = "fs_write under OLTP: file write amplification";
    let mut outcome = Outcome::new(about, &printed.source, Time::Virtual, oltp_setup(run)?);
    outcome.claims = claims(printed, &first);
    outcome.figures = vec![
        first,
        table("units of the index for each of contents", "x", &all, |one| one.cost.index),
        table("of these, nodes", "x", &all, |one| one.cost.nodes),
        table("of these, summaries", "x", &all, |one| one.cost.summaries),
        table("flash programmed over contents", "x", &all, |one| one.cost.flash),
        table("syncs that wrote contents alone", "%", &all, |one| one.cost.listed_percent),
        table("checkpoints", "", &all, |one| one.cost.checkpoints),
        after_cuts(&all),
    ];
    Ok(outcome)
}

fn table(title: &str, unit: &'static str, all: &[Measured], figure: fn(&Measured) -> f64) -> Figures {
    let row = |one: &Measured| Row { name: one.name.clone(), ours: vec![figure(one)], paper: None };
    let rows = all.iter().map(row).collect();
    Figures { title: title.to_owned(), unit, columns: vec!["OLTP".to_owned()], rows }
}

fn after_cuts(all: &[Measured]) -> Figures {
    cuts::table(all.iter().map(|one| (one.name.clone(), one.survived)))
}

fn oltp_setup(run: &Run<'_>) -> Result<Vec<String>, ExperimentError> {
    let operations = run.scaled(OPERATIONS, 5000);
    setup(
        run,
        format!(
            "filebench's OLTP as it is defined, {operations} operations; pebble-fig9-mariadb has TPC-C and LinkBench"
        ),
    )
}
