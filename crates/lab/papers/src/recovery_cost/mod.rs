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
mod outcome;
mod plot;
mod summary;
mod writer;

use tantalum::Effective;
use tantalum_report::Monitor;

use crate::error::ExperimentError;

pub use outcome::{Growth, Interval, Outcome, Recovery, Settings};
pub use plot::write_plots;
pub use summary::of_recovery_cost;

/// Measures both.
pub fn run(settings: &Settings, monitor: &Monitor) -> Result<Outcome, ExperimentError> {
    let drives = settings.drives()?;
    let mut outcome = Outcome {
        command: "recovery-cost",
        profile: settings.profile.name.clone(),
        seed: settings.seed,
        growth: Vec::new(),
        interval_capacity_bytes: settings.profile.capacity_bytes,
        effective: Effective::of(&settings.profile),
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

    use tantalum::Profile;

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
            // with nothing written since, the last checkpoint still describes everything
            let own_checkpoint = if point.written_bytes == 0 { 0 } else { map_units };
            assert!(point.recovery.checkpoint_units >= own_checkpoint, "{point:?}");
            assert!(point.recovery.device_ns >= point.recovery.read_ns, "{point:?}");
        }
        assert!(large.recovery.read_ns > small.recovery.read_ns);
        for (idle, written) in [(small, small_written), (large, large_written)] {
            // pages of one unit; those in flight when power failed may be lost
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
