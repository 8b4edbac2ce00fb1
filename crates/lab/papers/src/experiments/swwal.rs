//! SW-WAL's figures 7 and 8: SQLite with its log, on X-FTL, and with SW-WAL.
//!
//! The figures come from `tantalum compare sqlite`, for each order of updates, value size and synchronous setting, as
//! fractions of those of the log (`wal`, the paper's Base).

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{Nanoseconds, Profile};
use tantalum_report::table::grouped;
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_sqlite::Mode;
use tantalum_sqlite::Synchronous;

use super::binds::{self, Phase};
use super::printed;
use super::{Run, drive_of};
use crate::compare::{self, compare};
use crate::compare::{INTACT, Run as Measured};
use crate::compare::{KeyValue, Pattern};
use crate::error::ExperimentError;

/// Capacity at scale 1; the paper's drive has 32 GB. Channels and dies are kept.
const CAPACITY_BYTES: u64 = 1 << 30;

/// Rows and updates at scale 1.
const ROWS: u64 = 10_000;

const MODES: [(Mode, &str); 3] = [(Mode::Wal, "Base (wal)"), (Mode::XFtl, "X-FTL"), (Mode::SwWal, "SW-WAL")];

const WORKLOADS: [(&str, Pattern, u32); 6] = [
    ("R-4KB", Pattern::Random, 4096),
    ("R-8KB", Pattern::Random, 8192),
    ("R-16KB", Pattern::Random, 16_384),
    ("S-4KB", Pattern::Sequential, 4096),
    ("S-8KB", Pattern::Sequential, 8192),
    ("S-16KB", Pattern::Sequential, 16_384),
];

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("swwal.toml", include_str!("swwal.toml")));

/// What `swwal.toml` says of figures 7 and 8.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    figure_7: Figure,
    figure_8: Figure,
}

/// For each synchronous setting.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    source: String,
    normal: Changes,
    full: Changes,
}

/// Changes in percent of SW-WAL over Base and over X-FTL.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    over_base: Span,
    over_x_ftl: Span,
}

/// Figure 7: flash page writes.
pub(super) fn figure_7(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let figure = Measured::flash_units_per_transaction;
    let (outcome, _) =
        outcome(run, "flash writes, as shares of Base", "flash writes", &PRINTED.figure_7, figure)?;
    Ok(outcome)
}

/// Figure 8: throughput.
pub(super) fn figure_8(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let figure = |measured: &Measured| measured.transactions_per_second;
    let (mut outcome, phases) =
        outcome(run, "throughput, as shares of Base", "throughput", &PRINTED.figure_8, figure)?;
    outcome.figures.extend(binds::figures(&profile(run)?, &phases));
    Ok(outcome)
}

fn outcome(
    run: &Run<'_>,
    title: &'static str,
    what: &'static str,
    printed: &'static Figure,
    figure: impl Fn(&Measured) -> f64,
) -> Result<(Outcome, Phases), ExperimentError> {
    let profile = profile(run)?;
    let rows = run.scaled(ROWS, 100);
    let setup = vec![
        format!("{}, aged", drive_of(&profile)),
        format!("{} rows, as many updates, one in each transaction; R random, S sequential", grouped(rows)),
    ];
    let mut outcome = Outcome::new(title, &printed.source, Time::Virtual, setup);
    let mut phases = Vec::new();
    for (synchronous, changes) in [(Synchronous::Normal, &printed.normal), (Synchronous::Full, &printed.full)]
    {
        let (shares, of_setting) = shares(run, &profile, rows, synchronous, &figure)?;
        phases.extend(of_setting);
        let name = synchronous.name();
        let [base, x_ftl, sw_wal] = &shares;
        let over = |other: &str| format!("synchronous = {name}: {what}, SW-WAL over {other}");
        outcome.claims.push(PaperClaim::percent(
            over("Base"),
            changes.over_base,
            Span::changes(sw_wal, base),
        ));
        outcome.claims.push(PaperClaim::percent(
            over("X-FTL"),
            changes.over_x_ftl,
            Span::changes(sw_wal, x_ftl),
        ));
        outcome.figures.push(Figures {
            title: format!("synchronous = {name}: {what}"),
            unit: "Base is 1",
            columns: WORKLOADS.iter().map(|(name, ..)| (*name).to_owned()).collect(),
            rows: MODES
                .iter()
                .zip(&shares)
                .map(|((_, name), ours)| Row { name: (*name).to_owned(), ours: ours.clone(), paper: None })
                .collect(),
        });
    }
    Ok((outcome, phases))
}

/// The bottleneck in each mode of each workload.
type Phases = Vec<(String, Phase)>;

fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("femu-2021")?;
    profile.capacity_bytes = run.scaled(CAPACITY_BYTES, 256 << 20).next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

/// For each mode, the figure of each workload divided by Base's.
fn shares(
    run: &Run<'_>,
    profile: &Profile,
    rows: u64,
    synchronous: Synchronous,
    figure: &impl Fn(&Measured) -> f64,
) -> Result<([Vec<f64>; 3], Phases), ExperimentError> {
    let mut shares: [Vec<f64>; 3] = Default::default();
    let mut phases = Vec::new();
    for (workload_name, pattern, value_bytes) in WORKLOADS {
        let workload = KeyValue { pattern, rows, operations: rows, value_bytes };
        let settings = compare::Settings {
            profile: profile.clone(),
            modes: MODES.iter().map(|(mode, _)| *mode).collect(),
            synchronous,
            seed: run.seed,
        };
        let comparison = compare(&settings, &workload, run.monitor)?;
        if let Some(wrong) = comparison.runs.iter().find(|run| run.integrity != INTACT) {
            return Err(ExperimentError::WrongContents { mode: wrong.mode, what: wrong.integrity.clone() });
        }
        let base = figure(&comparison.runs[0]);
        for ((shares, measured), (_, mode)) in shares.iter_mut().zip(&comparison.runs).zip(MODES) {
            shares.push(figure(measured) / base);
            let elapsed_ns = (measured.device_seconds * 1e9) as Nanoseconds;
            let name = format!("{}, {workload_name}, {mode}", synchronous.name());
            phases.push((name, Phase { usage: measured.usage, elapsed_ns }));
        }
    }
    Ok((shares, phases))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
