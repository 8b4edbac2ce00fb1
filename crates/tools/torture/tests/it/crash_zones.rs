//! A slice of `tantalum crash zones`: zones keep what was promised.
//!
//! A failure prints the command line that reproduces it. `SEEDS=n cargo test --release -p tantalum-torture --test it crash_zones` runs
//! more seeds.

use tantalum_report::Monitor;
use tantalum_torture::device::{Cuts, Flash};
use tantalum_torture::zones::{Plan, Settings, ZoneDrives, ZonesCrash, torture};

fn check(seeds: u64, cuts: u64, drives: ZoneDrives) -> ZonesCrash {
    let seeds = std::env::var("SEEDS").ok().and_then(|number| number.parse().ok()).unwrap_or(seeds);
    let plan = Plan { cuts: Cuts::Random(cuts), second_cut: true, ..Plan::default() };
    let settings = Settings { seeds: (0..seeds).into(), drives, plan, threads: 1, first_only: false };
    let crash = torture(&settings, &Monitor::silent()).unwrap();
    let outcome = &crash.outcome;
    for violation in &outcome.violations {
        println!("{}: {}\n  {}", violation.promise, violation.detail, violation.replay);
    }
    println!("{crash:#?}");
    assert!(outcome.violations.is_empty(), "{} promises were broken", outcome.violations.len());
    crash
}

#[test]
fn zones_keep_what_was_promised_through_cuts() {
    let sound = ZoneDrives { flash: Some(Flash::Sound), ..ZoneDrives::default() };
    let ZonesCrash { outcome, zones, reached } = check(8, 40, sound);
    assert!(outcome.second_cuts.min(outcome.torn_pages_seen) > 100, "{outcome:?}");
    assert!(zones.full.min(zones.resets).min(zones.refused) > 300, "{zones:?}");
    assert!(zones.cut_short > 100 && zones.reset_undone > 0 && zones.moved > 1000, "{zones:?}");
    assert!(reached.collections.min(reached.checkpoints) > 100, "{reached:?}");
}

#[test]
fn zones_keep_what_was_promised_while_flash_wears_out() {
    check(4, 30, ZoneDrives { flash: Some(Flash::Wears), ..ZoneDrives::default() });
}

#[test]
fn zones_keep_what_was_promised_while_pages_become_unreadable() {
    let crash = check(4, 30, ZoneDrives { flash: Some(Flash::Loses), ..ZoneDrives::default() });
    assert!(crash.zones.lost > 100, "{:?}", crash.zones);
}
