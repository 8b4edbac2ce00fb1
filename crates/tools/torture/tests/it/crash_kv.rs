//! A slice of `tantalum crash kv`.

use tantalum_report::Monitor;
use tantalum_torture::Cuts;
use tantalum_torture::kv::{Settings, run};

fn settings(cuts: Cuts, commits: u64, seeds: u64) -> Settings {
    Settings { seeds: (0..seeds).into(), cuts, commits, host_faults: false }
}

#[test]
fn transactions_survive_cuts_at_random() {
    let outcome = run(&settings(Cuts::Random(30), 60, 8), &Monitor::silent()).unwrap();
    assert_eq!(outcome.violations, []);
    assert_eq!(outcome.cuts, 8 * 30);
    assert!(outcome.second_cuts > 20 && outcome.torn_pages_seen > 20, "{outcome:?}");
}

#[test]
fn transactions_survive_a_cut_at_every_operation() {
    let outcome = run(&settings(Cuts::All, 20, 3), &Monitor::silent()).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.cuts > 200, "{outcome:?}");
}

#[test]
fn transactions_survive_a_host_that_fails() {
    let settings = Settings { host_faults: true, ..settings(Cuts::Random(12), 40, 6) };
    let outcome = run(&settings, &Monitor::silent()).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.cuts > 40 && outcome.second_cuts > 20, "{outcome:?}");
}
