//! A slice of `tantalum crash sqlite`, of a few seconds. In one test: SQLite's random numbers are the process's.

use tantalum_lab::crash::CrashOutcome;
use tantalum_lab::crash::sqlite::{Cuts, Settings, run};
use tantalum_lab::{Monitor, Synchronous};
use tantalum_sqlite::Mode;

fn torture(cuts: Cuts, seeds: u64, transactions: u64) -> CrashOutcome {
    let settings = Settings {
        modes: Mode::ALL.to_vec(),
        synchronous: vec![Synchronous::Normal, Synchronous::Full],
        first_seed: 1,
        seeds,
        cuts,
        transactions,
        minutes: None,
    };
    run(&settings, &Monitor::silent()).unwrap()
}

#[test]
fn every_mode_keeps_its_promises_through_power_cuts() {
    let random = torture(Cuts::Random(30), 2, 30);
    let all = torture(Cuts::All, 1, 6);
    for outcome in [&random, &all] {
        println!("{outcome:?}");
        assert_eq!(outcome.violations, []);
        assert_eq!(outcome.dirty_recoveries, outcome.cuts);
        assert!(
            outcome.second_cuts > 0 && outcome.torn_pages_seen > 0 && outcome.promises_checked > outcome.cuts
        );
    }
    assert_eq!(random.cuts, 2 * 12 * 30, "every life is cut");
    assert_eq!(torture(Cuts::Random(30), 2, 30), random, "a seed gives the same run");
}
