//! One run of a sweep: its settings and its result.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tantalum::Profile;
use tantalum_replay::{Outcome, Pace, Scale, Settings, Synthetic, replay};
use tantalum_report::Monitor;
use tantalum_workloads::bench::{Condition, Pattern};

use crate::error::SweepError;
use crate::reading::{Reading, Unusable};

/// A value in a table.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// Words.
    Text(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Integer(number) => number.fmt(formatter),
            Value::Number(number) => number.fmt(formatter),
            Value::Text(text) => text.fmt(formatter),
        }
    }
}

/// A run, with everything that it needs except the bytes of its trace.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Its place in the grid.
    pub number: u64,
    /// The values of the axes.
    pub axes: BTreeMap<String, Value>,
    /// The seed.
    pub seed: u64,
    /// The drive, as TOML.
    pub profile: String,
    /// The condition before the load: fresh, filled or aged.
    pub condition: String,
    /// The load on the drive.
    pub load: Load,
    /// Requests in flight; `None` for the times of the trace.
    pub queue_depth: Option<u32>,
    /// How much faster than the trace; `None` for 1, or with a queue depth.
    pub speed: Option<f64>,
    /// What to do with addresses: fit, wrap or none.
    pub scale: String,
}

/// A load on a drive.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// A pattern of `tantalum bench`.
    Pattern {
        /// Its name.
        pattern: String,
        /// The number of requests.
        requests: u64,
        /// Bytes of each.
        request_bytes: u64,
    },
    /// A trace.
    Trace {
        /// Its file.
        path: String,
        /// Its length and the checksum of its bytes.
        contents: String,
        /// How it is read.
        #[serde(flatten)]
        reading: Box<Reading>,
    },
}

/// The result of a run: figures by name, in the order of the table's columns.
pub type Row = Vec<(String, Option<Value>)>;

impl Run {
    /// A name derived from everything that determines its figures.
    pub fn id(&self) -> String {
        // its number is its position in a grid, not part of what it is
        let what = Run { number: 0, axes: BTreeMap::new(), ..self.clone() };
        let what = serde_json::to_string(&what).expect("it has string keys only");
        let hash = Sha256::digest(format!("{} {what}", env!("CARGO_PKG_VERSION")));
        short_hex(&hash)
    }

    /// Its axes and seed, in words.
    pub fn about(&self) -> String {
        let values = self.values();
        if values.is_empty() {
            format!("seed {}", self.seed)
        } else {
            format!("{values}, seed {}", self.seed)
        }
    }

    /// Its axes, in words.
    pub(crate) fn values(&self) -> String {
        let values: Vec<String> = self.axes.iter().map(|(key, value)| format!("{key} {value}")).collect();
        values.join(", ")
    }

    /// Its drive.
    pub(crate) fn profile(&self) -> Result<Profile, SweepError> {
        Profile::from_toml(&self.profile, "the run's profile").map_err(|error| SweepError::Profile {
            origin: "run".to_owned(),
            values: self.about(),
            error: Box::new(error),
        })
    }

    /// Executes it. Its figures are the same wherever and whenever this happens.
    pub fn run(&self, monitor: &Monitor) -> Result<Row, SweepError> {
        let outcome = replay(&self.settings()?, monitor)?;
        match outcome.ended_early() {
            Some(tantalum_replay::ReplayError::Interrupted(interrupted)) => Err((*interrupted).into()),
            _ => Ok(figures(&outcome)),
        }
    }

    pub(crate) fn settings(&self) -> Result<Settings, SweepError> {
        let profile = self.profile()?;
        let condition: Condition =
            self.condition.parse().map_err(|expected| wrong("condition", &self.condition, expected))?;
        let scale: Scale = self.scale.parse().map_err(|expected| wrong("scale", &self.scale, expected))?;
        let pace = match (self.queue_depth, self.speed) {
            (Some(queue_depth), _) => Some(Pace::Closed { queue_depth }),
            (None, Some(speed)) => Some(Pace::Open { speed }),
            (None, None) => None,
        };
        Ok(Settings { load: self.load()?, profile, condition, pace, scale, seed: self.seed })
    }

    fn load(&self) -> Result<tantalum_replay::Load, SweepError> {
        Ok(match &self.load {
            Load::Pattern { pattern, requests, request_bytes } => {
                let known: Pattern =
                    pattern.parse().map_err(|expected| wrong("workload", pattern, expected))?;
                let (requests, request_bytes, seed) = (*requests, *request_bytes, self.seed);
                tantalum_replay::Load::Synthetic(Synthetic { pattern: known, requests, request_bytes, seed })
            }
            Load::Trace { path, reading, .. } => {
                let source = reading.source(path.as_ref());
                let unusable = |unusable: Unusable| wrong(unusable.key, &unusable.value, unusable.expected);
                tantalum_replay::Load::Trace(source.map_err(unusable)?)
            }
        })
    }
}

/// The first half of a hash, in hexadecimal.
pub(crate) fn short_hex(hash: &[u8]) -> String {
    hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The error for an unusable value of a run.
fn wrong(key: &str, value: &str, expected: String) -> SweepError {
    let (key, value) = (key.to_owned(), value.to_owned());
    SweepError::Value { origin: "run".to_owned(), key, value, expected }
}

/// A replay's figures, flat.
fn figures(outcome: &Outcome) -> Row {
    let mut row: Row = Vec::new();
    put_totals(&mut row, outcome);
    put_kinds(&mut row, outcome);
    put_drive(&mut row, outcome);
    row
}

pub(crate) fn integer(number: u64) -> Option<Value> {
    Some(Value::Integer(number.try_into().unwrap_or(i64::MAX)))
}

pub(crate) fn number(number: f64) -> Option<Value> {
    Some(Value::Number(number))
}

/// Requests, writes, wear and life.
fn put_totals(row: &mut Row, outcome: &Outcome) {
    let mut put = |name: String, value: Option<Value>| row.push((name, value));
    let requests: u64 = outcome.requests.iter().map(|kind| kind.count).sum();
    put("requests".to_owned(), integer(requests));
    put("seconds".to_owned(), number(outcome.seconds));
    put("requests_per_second".to_owned(), number(requests as f64 / outcome.seconds.max(f64::MIN_POSITIVE)));
    put("write_amplification".to_owned(), outcome.amplification.map(Value::Number));
    put("host_units_written".to_owned(), integer(outcome.counters.host_units_written));
    for (name, units) in outcome.counters.flash_units.each() {
        put(format!("flash_units_{}", name.replace(' ', "_")), integer(units));
    }
    put("blocks_erased".to_owned(), integer(outcome.counters.blocks_erased));
    put("erases_mean_before".to_owned(), number(outcome.wear.mean_before));
    put("erases_mean_after".to_owned(), number(outcome.wear.mean_after));
    put("erases_most_after".to_owned(), integer(outcome.wear.most_after.into()));
    put("life_days".to_owned(), outcome.life.days.map(Value::Number));
    put("drive_writes_per_day".to_owned(), number(outcome.life.drive_writes_per_day));
    put(
        "drive_writes_per_day_allowed".to_owned(),
        outcome.life.allowed_drive_writes_per_day.map(Value::Number),
    );
}

/// The requests of each kind, and their latencies.
fn put_kinds(row: &mut Row, outcome: &Outcome) {
    let mut put = |name: String, value: Option<Value>| row.push((name, value));
    for kind in tantalum_replay::RequestKind::ALL {
        let done = outcome.requests.iter().find(|requests| requests.kind == kind);
        let name = kind.name();
        put(format!("{name}_requests"), integer(done.map_or(0, |done| done.count)));
        put(format!("{name}_bytes"), integer(done.map_or(0, |done| done.bytes)));
        let latency = |of: fn(&tantalum_replay::Requests) -> f64| done.map(|done| Value::Number(of(done)));
        put(format!("{name}_mean_us"), latency(|done| done.latency_us.mean));
        put(format!("{name}_p50_us"), latency(|done| done.latency_us.p50));
        put(format!("{name}_p95_us"), latency(|done| done.latency_us.p95));
        put(format!("{name}_p99_us"), latency(|done| done.latency_us.p99));
        put(format!("{name}_p999_us"), latency(|done| done.p999_us));
        put(format!("{name}_max_us"), latency(|done| done.latency_us.max));
    }
}

/// Unaligned requests, how busy the drive was, and its state before.
fn put_drive(row: &mut Row, outcome: &Outcome) {
    let mut put = |name: String, value: Option<Value>| row.push((name, value));
    put("unaligned_reads".to_owned(), integer(outcome.unaligned.reads));
    put("unaligned_writes".to_owned(), integer(outcome.unaligned.writes));
    for (prefix, figures) in ["busy_percent", "under_way"].into_iter().zip(&outcome.binds) {
        let ours = figures.rows.first().map_or(&[][..], |row| &row.ours);
        for (name, figure) in figures.columns.iter().zip(ours) {
            put(format!("{prefix}_{}", name.replace(' ', "_")), number(*figure));
        }
    }
    put("aged_amplification".to_owned(), outcome.drive.aged_amplification.map(Value::Number));
    put("steady".to_owned(), outcome.drive.steady.map(|steady| Value::Integer(steady.into())));
    put("addresses".to_owned(), Some(Value::Text(outcome.replay.addresses.clone())));
    put("incomplete".to_owned(), outcome.incomplete.clone().map(Value::Text));
}
