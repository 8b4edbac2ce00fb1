//! How long reads and writes wait if reads go ahead of programs and erases, or interrupt them (Wu and He, FAST 2012).
//!
//! The paper replays traces; here operations arrive at random at stated loads, on a drive without a cache. So the
//! figures show the effect and how it depends on the load, and not the paper's means over its traces.

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::{FlashScheduling, Profile};
use tantalum_drive::Drive;
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::bench;
use tantalum_workloads::open_loop::{OpenLoop, WaitsByKind};

use super::binds::{self, Beginning, Phase};
use super::printed::{self, PrintedClaim};
use super::{Run, drive_of, smaller};
use crate::error::ExperimentError;

/// Capacity at scale 1.
const CAPACITY_BYTES: u64 = 1 << 30;

/// Operations, at scale 1, for each figure.
const OPERATIONS: u64 = 40_000;

/// Percentage of reads; chosen.
const READ_PERCENT: u32 = 70;

/// The cost of an interruption, as in `tlc-nvme`.
const SUSPEND_NS: u64 = 20_000;
const SUSPENSIONS: u32 = 8;

const POLICIES: [(&str, FlashScheduling); 3] = [
    ("fifo", FlashScheduling::Fifo),
    ("read-first", FlashScheduling::ReadFirst),
    ("suspend", FlashScheduling::Suspend),
];

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("suspension.toml", include_str!("suspension.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    source: String,
    reads_over_read_first: PrintedClaim,
    reads_over_fifo: PrintedClaim,
    writes_over_read_first: PrintedClaim,
}

/// Whether the drive collects garbage while it is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// A quarter of the capacity was written once, so that no block is collected.
    New,
    /// All of it, and overwritten until garbage collection is steady.
    Aged,
}

impl State {
    const ALL: [State; 2] = [State::New, State::Aged];

    fn name(self) -> &'static str {
        match self {
            State::New => "new",
            State::Aged => "aged",
        }
    }

    /// Operations per second. An aged drive does not keep up with 8,000: it collects one victim at a time.
    fn loads(self) -> [u64; 4] {
        match self {
            State::New => [2000, 4000, 8000, 16_000],
            State::Aged => [500, 1000, 2000, 4000],
        }
    }

    fn span_units(self, profile: &Profile) -> u32 {
        let units = profile.capacity_units() as u32;
        if self == State::New { units / 4 } else { units }
    }

    /// An idle drive in this state.
    fn drive(self, run: &Run<'_>, profile: &Profile) -> Result<Drive, ExperimentError> {
        let units = self.span_units(profile);
        let make = if self == State::Aged { bench::aged } else { bench::filled };
        Ok(Drive::new(make(profile, units, run.seed, run.monitor)?))
    }
}

/// How long operations waited under one policy, by load.
struct Line {
    policy: &'static str,
    waits: Vec<WaitsByKind>,
}

impl Line {
    fn each(&self, figure_ns: impl Fn(&WaitsByKind) -> f64) -> Vec<f64> {
        self.waits.iter().map(|waits| figure_ns(waits) / 1000.0).collect()
    }
}

pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let fifo = profile(run, FlashScheduling::Fifo)?;
    let setup = vec![
        drive_of(&fifo),
        format!("{READ_PERCENT} reads in 100 operations of 4 KiB, at random, an open loop; no cache"),
        format!(
            "{} operations for each figure; an interruption costs {} us",
            operations(run),
            SUSPEND_NS / 1000
        ),
    ];
    let title = "reads that go ahead of programs and erases, or interrupt them";
    let mut outcome = Outcome::new(title, &PRINTED.source, Time::Virtual, setup);
    let mut phases = Vec::new();
    for state in State::ALL {
        let mut lines = Vec::new();
        for (policy, scheduling) in POLICIES {
            lines.push(measure(run, state, policy, &profile(run, scheduling)?, &mut phases)?);
        }
        let tables = tables(state, &lines);
        outcome.claims.extend(claims(state, &tables));
        outcome.figures.extend(tables);
    }
    outcome.figures.extend(binds::figures(&fifo, &phases));
    Ok(outcome)
}

fn operations(run: &Run<'_>) -> u64 {
    run.scaled(OPERATIONS, 1000)
}

fn profile(run: &Run<'_>, scheduling: FlashScheduling) -> Result<Profile, ExperimentError> {
    let capacity_bytes = run.scaled(CAPACITY_BYTES, 128 << 20).next_multiple_of(1 << 20);
    let mut profile = smaller(Profile::load("femu-2021")?, capacity_bytes)?;
    profile.flash.scheduling = scheduling;
    if scheduling == FlashScheduling::Suspend {
        (profile.flash.suspend_ns, profile.flash.suspensions) = (Some(SUSPEND_NS), Some(SUSPENSIONS));
    }
    profile.validate()?;
    Ok(profile)
}

/// All loads, each on a copy of one drive.
fn measure(
    run: &Run<'_>,
    state: State,
    policy: &'static str,
    profile: &Profile,
    phases: &mut Vec<(String, Phase)>,
) -> Result<Line, ExperimentError> {
    let drive = state.drive(run, profile)?;
    let mut waits = Vec::new();
    for per_second in state.loads() {
        let copy = drive.try_clone().expect("its flash is in memory");
        let span_units = state.span_units(profile);
        let load =
            OpenLoop { span_units, read_percent: READ_PERCENT, operations: operations(run), per_second };
        let bar = run.monitor.bar(format!("{}, {policy}", state.name()), load.operations);
        let beginning = Beginning::of(&copy.lock());
        waits.push(load.run(&copy, run.seed, &bar)?);
        let phase = beginning.until(&copy.lock());
        phases.push((format!("{}, {policy}, {per_second}/s", state.name()), phase));
    }
    Ok(Line { policy, waits })
}

fn tables(state: State, lines: &[Line]) -> Vec<Figures> {
    let table = |what: &str, figure_ns: fn(&WaitsByKind) -> f64| Figures {
        title: format!("{} drive: {what}, by operations a second", state.name()),
        unit: "us",
        columns: state.loads().map(|load| load.to_string()).into(),
        rows: lines
            .iter()
            .map(|line| Row { name: line.policy.to_owned(), ours: line.each(figure_ns), paper: None })
            .collect(),
    };
    vec![
        table("mean read latency", |waits| waits.reads.mean_ns()),
        table("mean write latency", |waits| waits.writes.mean_ns()),
        table("longest read latency", |waits| waits.reads.most_ns as f64),
        table("longest write latency", |waits| waits.writes.most_ns as f64),
    ]
}

/// The paper's claims next to ours over all loads.
fn claims(state: State, tables: &[Figures]) -> impl Iterator<Item = PaperClaim> {
    let over = |table: usize, policy| Span::changes(tables[table].row("suspend"), tables[table].row(policy));
    let claims = [
        PRINTED.reads_over_read_first.beside(over(0, "read-first")),
        PRINTED.reads_over_fifo.beside(over(0, "fifo")),
        PRINTED.writes_over_read_first.beside(over(1, "read-first")),
    ];
    let named = move |claim: PaperClaim| PaperClaim {
        what: format!("{} drive: {}", state.name(), claim.what),
        ..claim
    };
    claims.into_iter().map(named)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    /// The effect that the paper is about, on a small drive.
    #[test]
    fn reads_that_interrupt_wait_less_than_those_that_go_ahead() {
        let monitor = Monitor::silent();
        let run = Run { scale: 0.05, slower: 1, seed: 1, program: Path::new(""), monitor: &monitor };
        let outcome = super::run(&run).unwrap();
        for load in 0..State::New.loads().len() {
            let [fifo, first, suspend] = POLICIES.map(|(policy, _)| outcome.figures[0].row(policy)[load]);
            assert!(suspend < first && suspend < fifo, "{:?}", outcome.figures[0]);
        }
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
