//! KAML's figures 9 and 10: transactions over records compared with a store that logs and then writes (Jin's thesis,
//! sections 3.3.4 and 3.3.5).
//!
//! - **Records**: `tantalum-kv`. Its clients run in the drive's time; each step of a transaction is at most one
//!   command.
//! - **Log, then write**: SQLite with its log, synced with each commit, on a volume of the same drive, instead of the
//!   paper's Shore-MT. It has one writer at a time, so more clients would not make it faster.

mod bench;
mod log_then_write;
mod records;

use std::sync::LazyLock;

use serde::Deserialize;
use tantalum::Profile;
use tantalum_report::table::grouped;
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};
use tantalum_workloads::bench::aged;
use tantalum_workloads::kaml::Load;
use tantalum_workloads::ycsb::Workload;

use self::bench::Bench;
pub(super) use self::bench::{OTHER_PERCENT, TRANSACTIONS, other_units};
use self::log_then_write::STATEMENT_NS;
#[cfg(feature = "rocksdb")]
pub(super) use self::records::{LOADED_AT_ONCE, cache_bytes, load_records};
use self::records::{RECORD_STEP_NS, Setting};
use super::binds::{self, Phase};
use super::printed::{self, PrintedClaim};
use super::{Run, drive_of, smaller};
use crate::error::ExperimentError;

/// Capacity at scale 1. The paper's drive has 375 GB; its channels, dies and planes are kept.
const CAPACITY_BYTES: u64 = 1 << 30;

/// Threads of the paper's host.
pub(super) const CLIENTS: usize = 8;

pub(super) fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    smaller(Profile::load("kaml-board")?, run.scaled(CAPACITY_BYTES, 512 << 20).next_multiple_of(1 << 20))
}

/// The loads of figure 9, with their branches or warehouses at scale 1, and of figure 10, with thousands of records.
pub(super) const OLTP: [(Load, u64); 3] =
    [(Load::AccountUpdate, 100), (Load::NewOrder, 10), (Load::Payment, 10)];
pub(super) const YCSB: [(Load, u64); 5] = [
    (Load::Ycsb(Workload::A), 100),
    (Load::Ycsb(Workload::B), 100),
    (Load::Ycsb(Workload::C), 100),
    (Load::Ycsb(Workload::D), 100),
    (Load::Ycsb(Workload::F), 100),
];

/// What is cached of YCSB's records.
pub(super) const YCSB_CACHED_PERCENT: u64 = 40;

/// What the paper prints.
pub(super) static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("kaml_store.toml", include_str!("kaml_store.toml")));

/// What `kaml_store.toml` says of figures 9 and 10.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Printed {
    pub(super) figure_9: Figure9,
    pub(super) figure_10: Figure10,
}

/// Throughput over Shore-MT's by transaction, and what coarse locks cost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure9 {
    pub(super) source: String,
    account_update: Span,
    new_order: Span,
    payment: Span,
    coarse_locks: PrintedClaim,
}

impl Figure9 {
    /// The factors in the order of [`OLTP`].
    pub(super) fn factors(&self) -> [Span; OLTP.len()] {
        [self.account_update, self.new_order, self.payment]
    }
}

/// Throughput over Shore-MT's of all workloads, and on average.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure10 {
    pub(super) source: String,
    pub(super) over_log: Span,
    #[cfg_attr(
        not(feature = "rocksdb"),
        expect(dead_code, reason = "only the average beside RocksDB is shown")
    )]
    pub(super) average: Span,
}

/// The rows of figure 9: the store with a log, and the store of records in each setting.
const OLTP_LINES: [(&str, Option<Setting>); 5] = {
    const ONE: Setting = Setting { clients: 1, records_per_lock: 1, cached_percent: 100 };
    const ALL: Setting = Setting { clients: CLIENTS, ..ONE };
    [
        ("log, then write", None),
        ("records, 1 client", Some(ONE)),
        ("records, 8 clients", Some(ALL)),
        ("the same, 80 % cached", Some(Setting { cached_percent: 80, ..ALL })),
        ("the same, 16 records a lock", Some(Setting { records_per_lock: 16, ..ALL })),
    ]
};

/// What is measured for each load of figure 9, a row for each of [`OLTP_LINES`].
struct OltpRows {
    per_second: [Row; OLTP_LINES.len()],
    /// Of 1000 transactions, the number that waited for a lock.
    conflicts: [Row; OLTP_LINES.len()],
    /// How long one client waits for the drive: with a log, and with records.
    drive_us: [Row; 2],
    /// The bottleneck, for each line of each load.
    phases: Vec<(String, Phase)>,
}

fn measure_oltp(run: &Run<'_>) -> Result<OltpRows, ExperimentError> {
    let profile = profile(run)?;
    let aged = aged(&profile, other_units(&profile), run.seed, run.monitor)?;
    let rows = OLTP_LINES.map(|(name, _)| Row { name: name.to_owned(), ours: Vec::new(), paper: None });
    let mut all = OltpRows {
        drive_us: [rows[0].clone(), rows[1].clone()],
        conflicts: rows.clone(),
        per_second: rows,
        phases: Vec::new(),
    };
    for (load, units) in OLTP {
        let bench = Bench { run, load, units: run.scaled(units, 2), aged: &aged };
        for (number, (name, setting)) in OLTP_LINES.iter().enumerate() {
            let measured =
                setting.map_or_else(|| bench.log_then_write(100), |setting| bench.records(setting))?;
            all.per_second[number].ours.push(measured.per_second);
            all.phases.push((format!("{}, {name}", load.name()), measured.phase));
            all.conflicts[number].ours.push(measured.conflicts as f64 * 1e3 / bench.transactions() as f64);
            if let Some(drive) = all.drive_us.get_mut(number) {
                drive.ours.push(measured.drive_us);
            }
        }
    }
    Ok(all)
}

/// Figure 9: OLTP.
pub(super) fn figure_9(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let OltpRows { per_second, conflicts, drive_us, phases } = measure_oltp(run)?;
    let table = |title: &str, unit, rows: &[Row]| Figures {
        title: title.to_owned(),
        unit,
        columns: OLTP.iter().map(|(load, _)| load.name()).collect(),
        rows: rows.to_vec(),
    };
    let [log, _, records, _, coarse] = &per_second;
    let printed = &PRINTED.figure_9;
    let mut outcome = outcome(run, "OLTP over records and over a log", &printed.source)?;
    for (number, ((load, _), paper)) in OLTP.iter().zip(printed.factors()).enumerate() {
        let ours = Span::factors(&records.ours[number..=number], &log.ours[number..=number]);
        outcome.claims.push(PaperClaim::factor(format!("{}: records over a log", load.name()), paper, ours));
    }
    outcome.claims.push(printed.coarse_locks.beside(Span::changes(&coarse.ours, &records.ours)));
    outcome.figures = vec![
        table("transactions per second", "1/s", &per_second),
        table("what one client's transaction waits for the drive", "us", &drive_us),
        table("transactions that waited for a lock", "of 1000", &conflicts[2..]),
    ];
    outcome.figures.extend(binds::figures(&profile(run)?, &phases));
    Ok(outcome)
}

/// Figure 10: YCSB, of which two fifths are cached.
pub(super) fn figure_10(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let profile = profile(run)?;
    let aged = aged(&profile, other_units(&profile), run.seed, run.monitor)?;
    let names = ["log, then write", "records, 1 client", "records, 8 clients"];
    let mut rows = names.map(|name| Row { name: name.to_owned(), ours: Vec::new(), paper: None });
    let mut drive = [rows[0].clone(), rows[1].clone()];
    let mut phases = Vec::new();
    for (load, units) in YCSB {
        let bench = Bench { run, load, units: run.scaled(units, 2), aged: &aged };
        let measured = bench.log_then_write(YCSB_CACHED_PERCENT)?;
        rows[0].ours.push(measured.per_second);
        drive[0].ours.push(measured.drive_us);
        phases.push((format!("{}, {}", load.name(), rows[0].name), measured.phase));
        for (row, clients) in rows[1..].iter_mut().zip([1, CLIENTS]) {
            let setting = Setting { clients, records_per_lock: 1, cached_percent: YCSB_CACHED_PERCENT };
            let measured = bench.records(setting)?;
            row.ours.push(measured.per_second);
            phases.push((format!("{}, {}", load.name(), row.name), measured.phase));
            if clients == 1 {
                drive[1].ours.push(measured.drive_us);
            }
        }
    }
    let printed = &PRINTED.figure_10;
    let mut outcome = outcome(run, "YCSB over records and over a log", &printed.source)?;
    outcome.claims = vec![PaperClaim::factor(
        "records over a log, 1 client",
        printed.over_log,
        Span::factors(&rows[1].ours, &rows[0].ours),
    )];
    outcome.figures = vec![
        by_workload("operations per second", "1/s", rows.into()),
        by_workload("what one client's operation waits for the drive", "us", drive.into()),
    ];
    outcome.figures.extend(binds::figures(&profile, &phases));
    Ok(outcome)
}

fn by_workload(title: &str, unit: &'static str, rows: Vec<Row>) -> Figures {
    let columns = YCSB.iter().map(|(load, _)| load.name()).collect();
    Figures { title: format!("{title}, by workload"), unit, columns, rows }
}

fn outcome(run: &Run<'_>, title: &'static str, source: &'static str) -> Result<Outcome, ExperimentError> {
    let profile = profile(run)?;
    let setup = vec![
        format!("{}; {OTHER_PERCENT} % of it is other data, aged", drive_of(&profile)),
        format!(
            "{} transactions for each figure; the host takes {} ns for a record, {} ns for a statement of SQLite",
            grouped(run.scaled(TRANSACTIONS, 1000)),
            grouped(RECORD_STEP_NS),
            grouped(STATEMENT_NS)
        ),
    ];
    Ok(Outcome::new(title, source, Time::Virtual, setup))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn records_beat_a_log_where_transactions_are_small_and_coarse_locks_wait_more() {
        let run =
            Run { scale: 0.05, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let outcome = figure_9(&run).unwrap();
        assert!(outcome.claims[0].ours.low > 1.5, "{:?}", outcome.claims);
        let conflicts = &outcome.figures[2].rows;
        assert!(conflicts[2].ours[0] > conflicts[0].ours[0], "{conflicts:?}");
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
