//! Guards of the key-value store, taken out one by one: each must be caught. Prints guard, seeds needed and the promise
//! that was broken. Guards are taken out for the whole process, so one test does all.
//!
//! `cargo test --profile canary -p tantalum-torture --features canaries --test canaries_kv -- --nocapture`

use tantalum_canaries::{Guard, take_out_everywhere};
use tantalum_kv::canaries;
use tantalum_report::Monitor;
use tantalum_torture::Cuts;
use tantalum_torture::kv::{Settings, run};

/// Seeds within which the torture test catches a missing guard.
const MOST_SEEDS: u64 = 20;

/// Tortures the store until a promise is broken.
fn catch(guard: &'static Guard) {
    for seed in 0..MOST_SEEDS {
        let settings = Settings {
            seeds: (seed..seed + 1).into(),
            cuts: Cuts::Random(40),
            commits: 60,
            host_faults: false,
        };
        let out = take_out_everywhere(guard);
        let outcome = run(&settings, &Monitor::silent());
        drop(out);
        if let Some(violation) = outcome.unwrap().violations.first() {
            println!("{guard:?}: {} seeds, {}", seed + 1, violation.promise);
            let outcome = run(&settings, &Monitor::silent()).unwrap();
            assert_eq!(outcome.violations, [], "{guard:?} is back, and seed {seed} still fails");
            return;
        }
    }
    panic!("{guard:?} was taken out, and {MOST_SEEDS} seeds did not notice");
}

#[test]
fn each_missing_guard_is_caught() {
    for guard in [
        &canaries::MarkerBeforeGroups,
        &canaries::LargeInParts,
        &canaries::DescriptionApart,
        &canaries::PartsLeft,
        &canaries::PartsGone,
        &canaries::NodesApart,
        &canaries::NumbersTwice,
        &canaries::VersionsForgotten,
        &canaries::LostSnapshotRead,
        &canaries::StepsRepeated,
        &canaries::PlannedOnOldNodes,
        &canaries::RoomNotAsked,
        &canaries::ReserveTaken,
    ] {
        catch(guard);
    }
}
