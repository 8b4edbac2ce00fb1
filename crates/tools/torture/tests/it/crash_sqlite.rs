//! A slice of `tantalum crash sqlite`, of a few seconds. In one test: SQLite's random numbers are the process's.

use tantalum_report::Monitor;
use tantalum_sqlite::Mode;
use tantalum_sqlite::Synchronous;
use tantalum_torture::CrashOutcome;
use tantalum_torture::Cuts;
use tantalum_torture::sqlite::{Settings, run};

fn settings(cuts: Cuts, seeds: u64, transactions: u64) -> Settings {
    Settings {
        modes: Mode::ALL.to_vec(),
        synchronous: vec![Synchronous::Normal, Synchronous::Full],
        seeds: (1..seeds + 1).into(),
        cuts,
        transactions,
        host_faults: false,
    }
}

fn torture(cuts: Cuts, seeds: u64, transactions: u64) -> CrashOutcome {
    run(&settings(cuts, seeds, transactions), &Monitor::silent()).unwrap()
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
    runs_go_on_behind_a_checkpoint();
    hosts_fail();
}

fn hosts_fail() {
    let settings = Settings { host_faults: true, ..settings(Cuts::Random(6), 1, 20) };
    let outcome = run(&settings, &Monitor::silent()).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.cuts > 30, "{outcome:?}");
}

/// Everything in a log was home when the drive took a checkpoint, which then kept nothing of the log. Later
/// transactions in it were brought home by their hints, and were lost with power once the log had started over.
fn runs_go_on_behind_a_checkpoint() {
    for (seed, cuts) in [(500_783, 1), (500_971, 15), (501_139, 20), (501_211, 34), (501_307, 1)] {
        let settings = Settings {
            modes: vec![Mode::SwWal],
            synchronous: vec![Synchronous::Normal],
            seeds: (seed..seed + 1).into(),
            ..settings(Cuts::Random(cuts), 1, 40)
        };
        assert_eq!(run(&settings, &Monitor::silent()).unwrap().violations, [], "seed {seed}");
    }
}
