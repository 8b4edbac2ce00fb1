//! Guards of the document store, taken out one by one: each must be caught. Prints guard, seeds needed and the promise
//! that was broken. Guards are taken out for one thread, so tests do not meet.
//!
//! `cargo test --profile canary -p tantalum-crash --features canaries --test canaries_couch -- --nocapture`

use tantalum::canary::{Guard, take_out};
use tantalum_couch::Way;
use tantalum_crash::couch::{Settings, run};
use tantalum_crash::sqlite::Cuts;
use tantalum_report::Monitor;

/// Seeds within which the torture catches a guard that is missing.
const MOST_SEEDS: u64 = 20;

/// Tortures a way until a promise is broken.
fn catch(guard: Guard, way: Way) {
    for seed in 0..MOST_SEEDS {
        let settings = Settings {
            ways: vec![way],
            first_seed: seed,
            seeds: 1,
            cuts: Cuts::Random(40),
            commits: 60,
            minutes: None,
        };
        take_out(Some(guard));
        let outcome = run(&settings, &Monitor::silent());
        take_out(None);
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
fn a_header_without_what_it_covers_is_caught() {
    catch(Guard::HeaderAlone, Way::Original);
}

#[test]
fn a_batch_that_is_shared_in_parts_is_caught() {
    catch(Guard::SharedInParts, Way::Share);
}

#[test]
fn a_staging_area_that_starts_anew_too_early_is_caught() {
    catch(Guard::StageReused, Way::Share);
}

#[test]
fn a_document_shared_over_what_a_snapshot_sees_is_caught() {
    catch(Guard::SharedOverSnapshot, Way::Share);
}

#[test]
fn a_compacted_file_that_is_not_durable_when_it_takes_the_name_is_caught() {
    catch(Guard::CompactedNotSynced, Way::Original);
}

#[test]
fn commits_to_a_compacted_file_without_a_durable_name_are_caught() {
    catch(Guard::SwitchNotDurable, Way::Share);
}
