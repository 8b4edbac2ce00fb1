//! A slice of `tantalum crash couch`.

use tantalum_couch::Way;
use tantalum_report::Monitor;
use tantalum_torture::Cuts;
use tantalum_torture::couch::{Settings, run};

fn settings(cuts: Cuts, commits: u64, seeds: u64) -> Settings {
    Settings {
        ways: vec![Way::Share, Way::Original],
        seeds: (0..seeds).into(),
        cuts,
        commits,
        threads: 1,
        host_faults: false,
    }
}

#[test]
fn commits_survive_cuts_at_random() {
    let outcome = run(&settings(Cuts::Random(30), 60, 4), &Monitor::silent()).unwrap();
    assert_eq!(outcome.violations, []);
    assert_eq!(outcome.cuts, 4 * 2 * 30);
    assert!(outcome.second_cuts > 20 && outcome.torn_pages_seen > 20, "{outcome:?}");
}

#[test]
fn commits_survive_a_cut_at_every_operation() {
    let outcome = run(&settings(Cuts::All, 40, 3), &Monitor::silent()).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.cuts > 500, "{outcome:?}");
}

#[test]
fn commits_of_several_threads_survive_cuts() {
    for (threads, cuts) in [(2, Cuts::Random(15)), (4, Cuts::Random(15)), (3, Cuts::All)] {
        let commits = if cuts == Cuts::All { 12 } else { 60 };
        let settings = Settings { threads, ..settings(cuts, commits, 2) };
        let outcome = run(&settings, &Monitor::silent()).unwrap();
        assert_eq!(outcome.violations, [], "{threads} threads");
        assert!(outcome.cuts > 50, "{outcome:?}");
        assert_eq!(run(&settings, &Monitor::silent()).unwrap(), outcome, "a seed repeats");
    }
}

#[test]
fn documents_survive_a_host_that_fails() {
    let settings = Settings { host_faults: true, ..settings(Cuts::Random(10), 40, 3) };
    let outcome = run(&settings, &Monitor::silent()).unwrap();
    assert_eq!(outcome.violations, []);
    assert!(outcome.cuts > 30, "{outcome:?}");
}
