//! The results of a comparison, as `--json` prints them.

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};
use tantalum::{Effective, FlashUnits, Profile, Usage};
use tantalum_report::LatencyUs;
use tantalum_sqlite::{Mode, Synchronous};
use tantalum_workloads::ageing::Ageing;

use super::pattern::Pattern;
use super::session::{AUTOCHECKPOINT_PAGES, HOST_NS_PER_STATEMENT, Mark, PAGE_CACHE_BYTES, SQLITE_CACHE_KIB};
use super::spread::Uncertainty;

/// The results of one `tantalum compare sqlite`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// `"compare sqlite"`.
    pub command: &'static str,
    /// The profile's name.
    #[serde(serialize_with = "name_only")]
    pub profile: Profile,
    /// The drive's logical capacity.
    pub capacity_bytes: u64,
    /// The seed of all randomness.
    pub seed: u64,
    /// What was done.
    pub workload: WorkloadOutcome,
    /// One run for each mode, in the requested order.
    pub runs: Vec<Run>,
}

impl Comparison {
    /// Whether every run left correct contents in the database.
    pub fn is_intact(&self) -> bool {
        self.runs.iter().all(|run| run.integrity == INTACT)
    }
}

/// The value of [`Run::integrity`] if the database has correct contents.
pub(crate) const INTACT: &str = "ok";

/// The workload and its circumstances.
#[derive(Clone, Debug, Serialize)]
pub struct WorkloadOutcome {
    /// `"key-value"` or `"statements"`.
    pub kind: &'static str,
    /// The order of updates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Pattern>,
    /// Rows of the table.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Measured transactions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// Transactions before them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_up_operations: Option<u64>,
    /// Bytes of a value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_bytes: Option<u32>,
    /// The user's database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub database: Option<String>,
    /// The user's statements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sql: Option<String>,
    /// `PRAGMA synchronous`.
    #[serde(serialize_with = "synchronous_name")]
    pub synchronous: Synchronous,
    /// SQLite's page cache.
    pub sqlite_cache_kib: u32,
    /// `PRAGMA wal_autocheckpoint`, in modes that have a log.
    pub wal_autocheckpoint_pages: u32,
    /// The page cache below SQLite.
    pub page_cache_bytes: u64,
    /// The host time assumed for one statement.
    pub host_ns_per_statement: u64,
    /// Flash beyond the logical capacity, as asked for.
    pub over_provisioning_percent: f64,
    /// Over-provisioning and geometry as they are.
    #[serde(flatten)]
    pub effective: Effective,
    /// Data on the drive besides the database.
    pub other_data_bytes: u64,
    /// Units overwritten at random before the workload.
    pub aged_units: u64,
    /// Write amplification at the end of ageing.
    pub aged_write_amplification: f64,
    /// Whether it had become steady.
    pub aged_steady: bool,
}

impl WorkloadOutcome {
    pub(crate) fn new(synchronous: Synchronous, profile: &Profile, ageing: &Ageing) -> WorkloadOutcome {
        WorkloadOutcome {
            kind: "",
            pattern: None,
            rows: None,
            operations: None,
            warm_up_operations: None,
            value_bytes: None,
            database: None,
            sql: None,
            synchronous,
            sqlite_cache_kib: SQLITE_CACHE_KIB,
            wal_autocheckpoint_pages: AUTOCHECKPOINT_PAGES,
            page_cache_bytes: PAGE_CACHE_BYTES,
            host_ns_per_statement: HOST_NS_PER_STATEMENT,
            over_provisioning_percent: profile.over_provisioning_percent,
            effective: Effective::of(profile),
            other_data_bytes: ageing.other_data_bytes,
            aged_units: ageing.units_overwritten,
            aged_write_amplification: rounded(ageing.write_amplification),
            aged_steady: ageing.steady,
        }
    }
}

/// The results of one mode.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The mode.
    #[serde(serialize_with = "as_text")]
    pub mode: Mode,
    /// Transactions measured.
    pub transactions: u64,
    /// Virtual time, including the checkpoint and flush at the end.
    pub device_seconds: f64,
    /// Transactions per second of virtual time.
    pub transactions_per_second: f64,
    /// Units that the host wrote.
    pub host_units_written: u64,
    /// Units programmed for any reason.
    pub flash_units_programmed: u64,
    /// Units programmed, by cause.
    pub flash_units: FlashUnits,
    /// Units whose mapping was shared or moved instead of written.
    pub units_remapped: u64,
    /// Blocks erased.
    pub blocks_erased: u64,
    /// Flash writes divided by host writes.
    pub write_amplification: f64,
    /// Flash units that `wal` programs per transaction, divided by those of this mode: how much longer the flash lasts.
    /// `None` if `wal` was not run, or one of them was too short to tell.
    pub lifetime_ratio: Option<f64>,
    /// How far its figures may be from those of a longer run.
    pub uncertainty: Uncertainty,
    /// Latencies of transactions.
    pub latency_us: LatencyUs,
    /// How busy the drive's parts were meanwhile, and the time of commands: sums in nanoseconds.
    pub usage: Usage,
    /// `"ok"`, or what is wrong with the database.
    pub integrity: String,
    /// The latencies as whole nanoseconds.
    #[serde(skip)]
    pub latencies: Histogram<u64>,
}

impl Run {
    /// Computes a run's figures from the drive's counters before and after it.
    pub(crate) fn between(
        before: &Mark,
        after: &Mark,
        mode: Mode,
        latencies: Histogram<u64>,
        uncertainty: Uncertainty,
    ) -> Run {
        let counted = after.smart.counters.since(&before.smart.counters);
        let flash_units = counted.flash_units;
        let transactions = latencies.len();
        let device_seconds = (after.now_ns - before.now_ns) as f64 / 1e9;
        Run {
            mode,
            transactions,
            device_seconds,
            transactions_per_second: rounded(ratio(transactions as f64, device_seconds)),
            host_units_written: counted.host_units_written,
            flash_units_programmed: flash_units.total(),
            flash_units,
            units_remapped: counted.units_shared + counted.units_remapped,
            blocks_erased: counted.blocks_erased,
            write_amplification: rounded(ratio(
                flash_units.total() as f64,
                counted.host_units_written as f64,
            )),
            lifetime_ratio: None,
            uncertainty,
            latency_us: LatencyUs::of(&latencies),
            usage: after.usage.since(&before.usage),
            integrity: INTACT.to_owned(),
            latencies,
        }
    }

    /// Flash units programmed for one transaction.
    pub fn flash_units_per_transaction(&self) -> f64 {
        ratio(self.flash_units_programmed as f64, self.transactions as f64)
    }

    /// Host units written for one transaction.
    pub fn host_units_per_transaction(&self) -> f64 {
        ratio(self.host_units_written as f64, self.transactions as f64)
    }
}

/// Fills in the comparison with the baseline.
pub(crate) fn relate_to_baseline(runs: &mut [Run]) {
    let baseline = runs.iter().find(|run| run.mode == Mode::Wal && run.uncertainty.is_small());
    let baseline = baseline.map(Run::flash_units_per_transaction);
    for run in runs {
        let own = run.flash_units_per_transaction();
        let tells = own > 0.0 && run.uncertainty.is_small();
        run.lifetime_ratio = baseline.filter(|_| tells).map(|baseline| rounded(baseline / own));
    }
}

/// Rounds to three digits after the point: more would be noise.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// 0 for 0 of 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

fn name_only<S: Serializer>(profile: &Profile, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&profile.name)
}

fn synchronous_name<S: Serializer>(synchronous: &Synchronous, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(synchronous.name())
}

fn as_text<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(mode)
}

#[cfg(test)]
pub(crate) mod tests {
    use tantalum::Smart;
    use tantalum_report::histogram;

    use super::*;

    /// A run that programmed this many units.
    pub(crate) fn run(mode: Mode, units: u64) -> Run {
        let before = Mark { smart: Smart::default(), usage: Usage::default(), now_ns: 1_000_000_000 };
        let mut after = Mark { now_ns: 3_000_000_000, ..before };
        after.smart.counters.host_units_written = units / 2;
        after.smart.counters.flash_units.host = units / 2;
        after.smart.counters.flash_units.copyback = units - units / 2;
        after.smart.counters.blocks_erased = units / 100;
        after.usage.flushes_ns = units * 1_000_000;
        after.usage.plane_background_ns = 32_000_000_000;
        let mut latencies = histogram();
        for number in 1..=100 {
            latencies.saturating_record(number * 10_000);
        }
        let uncertainty = Uncertainty { time: Some(0.01), flash: Some(0.01) };
        Run::between(&before, &after, mode, latencies, uncertainty)
    }

    /// A comparison of all modes.
    pub(crate) fn comparison() -> Comparison {
        let profile = Profile::load("tlc-nvme").unwrap();
        let ageing = Ageing {
            other_data_bytes: 1 << 29,
            units_overwritten: 1 << 20,
            write_amplification: 2.5,
            steady: true,
        };
        let mut runs: Vec<Run> =
            (5u64..).zip(Mode::ALL).map(|(number, mode)| run(mode, number * 100)).collect();
        relate_to_baseline(&mut runs);
        Comparison {
            command: "compare sqlite",
            capacity_bytes: profile.capacity_bytes,
            seed: 1,
            workload: WorkloadOutcome::new(Synchronous::Full, &profile, &ageing),
            profile,
            runs,
        }
    }

    #[test]
    fn figures_are_differences_of_counters() {
        let run = run(Mode::Wal, 1000);
        assert_eq!((run.host_units_written, run.flash_units_programmed, run.blocks_erased), (500, 1000, 10));
        assert_eq!((run.device_seconds, run.transactions_per_second), (2.0, 50.0));
        assert_eq!((run.write_amplification, run.flash_units_per_transaction()), (2.0, 10.0));
    }

    #[test]
    fn lifetime_is_relative_to_wal() {
        let mut runs = [run(Mode::SwWal, 500), run(Mode::Wal, 1000)];
        relate_to_baseline(&mut runs);
        assert_eq!((runs[0].lifetime_ratio, runs[1].lifetime_ratio), (Some(2.0), Some(1.0)));
        let mut alone = [run(Mode::SwWal, 500)];
        relate_to_baseline(&mut alone);
        assert_eq!(alone[0].lifetime_ratio, None);
    }

    #[test]
    fn json_has_the_promised_fields() {
        let json = serde_json::to_value(comparison()).unwrap();
        let fields =
            |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(fields(&json), ["capacity_bytes", "command", "profile", "runs", "seed", "workload"]);
        assert_eq!(json["profile"], "tlc-nvme");
        let run = &json["runs"][0];
        assert_eq!(
            fields(run),
            [
                "blocks_erased",
                "device_seconds",
                "flash_units",
                "flash_units_programmed",
                "host_units_written",
                "integrity",
                "latency_us",
                "lifetime_ratio",
                "mode",
                "transactions",
                "transactions_per_second",
                "uncertainty",
                "units_remapped",
                "usage",
                "write_amplification",
            ]
        );
        let causes = ["checkpoint", "copyback", "dump", "host", "journal", "padding"];
        assert_eq!(fields(&run["flash_units"]), causes);
        assert_eq!(fields(&run["latency_us"]), ["max", "mean", "p50", "p95", "p99"]);
    }

    #[test]
    fn wrong_contents_make_the_comparison_fail() {
        let mut comparison = comparison();
        assert!(comparison.is_intact());
        comparison.runs[2].integrity = "row 3 is missing".to_owned();
        assert!(!comparison.is_intact());
    }
}
