//! Power is lost at random points of a random command mix, and the drive is compared with an oracle that knows
//! what each promise (D1 to D5) allows.
//!
//! A failure names its seed; `SEED=n cargo test --release -p tantalum --test power_loss` runs that one alone, and
//! `SEEDS=n` runs as many of each plan.

mod oracle;

use oracle::{Plan, run};
use tantalum::{CacheMode, Plp};

/// Seeds of one plan; `SEED` in the environment picks one.
fn seeds(count: u64) -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|number| number.parse().ok());
    match number("SEED") {
        Some(seed) => vec![seed],
        None => (0..number("SEEDS").unwrap_or(count)).collect(),
    }
}

fn check(plan: Plan, runs: u64, cuts_wanted: u64) {
    let (mut cuts, mut dirty, mut torn, mut second) = (0, 0, 0, 0);
    for seed in seeds(runs) {
        let seen = run(seed, &plan);
        cuts += seen.cuts;
        dirty += seen.dirty_recoveries;
        torn += seen.torn_pages;
        second += seen.second_cuts;
    }
    if std::env::var("SEED").is_err() {
        assert!(cuts >= cuts_wanted, "only {cuts} cuts of {cuts_wanted}");
        assert!(dirty * 10 >= cuts * 9, "only {dirty} of {cuts} recoveries were dirty");
        assert!(torn > 0 && second > 0, "{torn} torn pages and {second} second cuts were seen");
    }
}

#[test]
fn volatile_cache_keeps_its_promises_over_random_cuts() {
    check(Plan::new(4096, CacheMode::Volatile, Plp::None), 60, 600);
}

#[test]
fn four_units_in_a_page_keep_their_promises_over_random_cuts() {
    check(Plan::new(16384, CacheMode::Volatile, Plp::None), 60, 600);
}

#[test]
fn no_cache_keeps_its_promises_over_random_cuts() {
    check(Plan::new(8192, CacheMode::Off, Plp::None), 40, 400);
}

#[test]
fn a_capacitor_makes_every_acknowledged_command_durable() {
    check(Plan::new(8192, CacheMode::Durable, Plp::Capacitor), 60, 600);
}

/// A deferred share waited in the journal buffer when garbage collection moved one of its units: the copy named the
/// new owner, and a cut before the journal page left one unit of the share done and the others not.
#[test]
fn a_copyback_does_not_make_part_of_a_deferred_share_durable() {
    run(232, &Plan::new(8192, CacheMode::Off, Plp::None));
}
