//! `tantalum recovery-cost`: recovery time after a power cut, and the cost of keeping it short.
//!
//! Two experiments, in virtual time:
//! - *Growth*: drives of several capacities, whose maps are as large as possible, lose power after a given amount was
//!   written since the last checkpoint. Each chunk of the map has one mapped unit, so that a drive of 1 TiB fits in
//!   memory with a checkpoint as large as that of a full drive.
//! - *Intervals*: one full drive in steady state is overwritten at random with each checkpoint interval, and loses
//!   power shortly before the next checkpoint. The cost of checkpoints is compared with recovery time.

mod growth;
mod interval;
mod plot;
mod summary;
mod writer;

use serde::Serialize;
use tantalum::Profile;
use tantalum_report::Monitor;

use crate::error::ExperimentError;

pub use plot::write_plots;
pub(crate) use summary::interval_name;
pub use summary::of_recovery_cost;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The drive. Its capacity is that of the drive on which intervals are compared.
    pub profile: Profile,
    /// Capacities of the drives that grow, in bytes.
    pub capacities_bytes: Vec<u64>,
    /// What is written at random since the last checkpoint, in bytes.
    pub written_bytes: Vec<u64>,
    /// Where all randomness comes from.
    pub seed: u64,
}

/// What one `tantalum recovery-cost` found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// `"recovery-cost"`.
    pub command: &'static str,
    /// The profile's name.
    pub profile: String,
    /// Where all randomness came from.
    pub seed: u64,
    /// Recovery as capacity and what was written since the checkpoint grow.
    pub growth: Vec<Growth>,
    /// The drive on which intervals were compared.
    pub interval_capacity_bytes: u64,
    /// Recovery and the cost of checkpoints, for each interval.
    pub intervals: Vec<Interval>,
}

/// One recovery of a drive that was never full.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Growth {
    /// Logical capacity.
    pub capacity_bytes: u64,
    /// Erase blocks: recovery reads the first page of each.
    pub blocks: u64,
    /// What the host wrote at random since the last checkpoint.
    pub written_bytes: u64,
    /// What recovery did.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// One interval between checkpoints on a full drive that is overwritten at random.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Interval {
    /// Data pages between checkpoints, copies included; none for what drives do unless they are told otherwise.
    pub interval_pages: Option<u64>,
    /// Flash writes divided by host writes.
    pub write_amplification: f64,
    /// Whether garbage collection was steady before measuring.
    pub steady: bool,
    /// Checkpoints taken while measuring.
    pub checkpoints: u64,
    /// Units that the host wrote from one to the next.
    pub host_units_per_checkpoint: f64,
    /// Units of checkpoints over units that the host wrote.
    pub checkpoint_share: f64,
    /// What recovery did, after a cut at 95 % of the way to the next checkpoint.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// What one recovery did.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Recovery {
    /// Pages whose spare areas were read.
    pub pages_scanned: u64,
    /// Pages of checkpoint and journal that were read.
    pub pages_read: u64,
    /// Assertions folded over the checkpoint.
    pub assertions: u64,
    /// Units of the checkpoint at its end.
    pub checkpoint_units: u64,
    /// Device time until everything was read.
    pub read_ns: u64,
    /// Device time until the drive took commands.
    pub device_ns: u64,
    /// Time that it took on this machine.
    pub wall_seconds: f64,
}

/// Measures both.
pub fn run(settings: &Settings, monitor: &Monitor) -> Result<Outcome, ExperimentError> {
    let drives = growth::drives(settings)?;
    let mut outcome = Outcome {
        command: "recovery-cost",
        profile: settings.profile.name.clone(),
        seed: settings.seed,
        growth: Vec::new(),
        interval_capacity_bytes: settings.profile.capacity_bytes,
        intervals: interval::measure(settings, monitor)?,
    };
    for profile in &drives {
        for &written_bytes in &settings.written_bytes {
            outcome.growth.push(growth::measure(profile, written_bytes, settings.seed, monitor)?);
        }
    }
    Ok(outcome)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::LazyLock;

    use super::*;

    fn settings() -> Settings {
        Settings {
            profile: Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() },
            capacities_bytes: vec![64 << 20, 4 << 30],
            written_bytes: vec![0, 4 << 20],
            seed: 1,
        }
    }

    pub(crate) fn outcome() -> &'static Outcome {
        static OUTCOME: LazyLock<Outcome> = LazyLock::new(|| run(&settings(), &Monitor::silent()).unwrap());
        &OUTCOME
    }

    #[test]
    fn recovery_reads_a_page_of_every_block_the_checkpoint_and_what_was_written_since() {
        let outcome = outcome();
        let [small, small_written, large, large_written] = &outcome.growth[..] else {
            panic!("two capacities and two amounts make four recoveries: {outcome:?}");
        };
        for point in &outcome.growth {
            assert!(point.recovery.pages_scanned >= point.blocks, "{point:?}");
            let map_units = point.capacity_bytes / 4096 / 1024;
            assert!(point.recovery.pages_read >= map_units, "{point:?}");
            // with nothing written since, the last checkpoint still tells all
            let own_checkpoint = if point.written_bytes == 0 { 0 } else { map_units };
            assert!(point.recovery.checkpoint_units >= own_checkpoint, "{point:?}");
            assert!(point.recovery.device_ns >= point.recovery.read_ns, "{point:?}");
        }
        assert!(large.recovery.read_ns > small.recovery.read_ns);
        for (idle, written) in [(small, small_written), (large, large_written)] {
            // pages of one unit; those under way when power went may be lost
            let more = written.recovery.pages_scanned - idle.recovery.pages_scanned;
            assert!((900..1400).contains(&more), "1,024 units took {more} pages more");
            assert!((900..=1024).contains(&written.recovery.assertions), "{written:?}");
        }
    }

    #[test]
    fn the_default_interval_costs_less_than_2_percent_of_host_writes() {
        let outcome = outcome();
        let default = outcome.intervals.iter().find(|interval| interval.interval_pages.is_none()).unwrap();
        assert!(default.checkpoints > 4 && default.steady, "{default:?}");
        assert!(default.checkpoint_share < 0.02, "{default:?}");
    }

    #[test]
    fn a_longer_interval_costs_less_and_makes_recovery_longer() {
        let outcome = outcome();
        let fixed: Vec<&Interval> =
            outcome.intervals.iter().filter(|interval| interval.interval_pages.is_some()).collect();
        for two in fixed.windows(2) {
            assert!(two[0].interval_pages < two[1].interval_pages);
            assert!(two[0].checkpoint_share > two[1].checkpoint_share, "{two:?}");
            assert!(two[0].recovery.pages_scanned < two[1].recovery.pages_scanned, "{two:?}");
        }
    }

    #[test]
    fn an_impossible_capacity_names_its_option() {
        let settings = Settings { capacities_bytes: vec![1000], ..settings() };
        let error = run(&settings, &Monitor::silent()).unwrap_err().to_string();
        assert!(error.starts_with("--capacities 1000: it must be a multiple of 4 KiB"), "{error}");
    }
}
