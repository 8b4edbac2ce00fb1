//! A slice of `tantalum crash device`: the drive keeps its promises (D1 to D5) when power is cut.
//!
//! A failure prints the command line that reproduces it. `SEEDS=n cargo test --release -p tantalum-torture --test it
//! power_loss` runs more seeds.

use std::ops::Range;

use tantalum::{CacheMode, Plp};
use tantalum_report::Monitor;
use tantalum_torture::device::{
    Cuts, DeviceCrash, DriveChoice, Flash, Handles, Medium, Plan, Settings, torture,
};

fn seeds(usual: u64) -> u64 {
    std::env::var("SEEDS").ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

fn drive(page_bytes: u32, cache: CacheMode, plp: Plp) -> DriveChoice {
    DriveChoice {
        plp: Some(plp),
        cache: Some(cache),
        page_bytes: Some(page_bytes),
        own_logs: None,
        swaps: None,
        queues: None,
        full: None,
        flash: None,
        medium: None,
        scheduling: None,
        atomic_write_units: None,
        handles: None,
    }
}

fn settings(seeds: Range<u64>, drives: DriveChoice, plan: Plan) -> Settings {
    Settings { seeds: seeds.into(), drives, plan, threads: 1, first_only: false }
}

fn random(drives: DriveChoice) -> Settings {
    let plan = Plan { cuts: Cuts::Random(30), second_cut: true, ..Plan::default() };
    settings(0..seeds(20), drives, plan)
}

/// As [`check`], for drives whose metadata log is in memory, so that it programs no flash.
fn check_nvm(settings: &Settings) -> DeviceCrash {
    let crash = check_outcome(settings);
    let reached = &crash.reached;
    assert!(reached.collections.min(reached.checkpoints).min(reached.blocks_erased) > 0, "{reached:?}");
    assert_eq!(reached.journal_pages, 0, "{reached:?}");
    crash
}

/// Nothing is broken, and the torture test reached the cases it is meant for.
fn check(settings: &Settings) -> DeviceCrash {
    let crash = check_outcome(settings);
    let reached = &crash.reached;
    let least = reached.collections.min(reached.checkpoints).min(reached.journal_pages);
    assert!(least.min(reached.blocks_erased) > 0, "{reached:?}");
    crash
}

fn check_outcome(settings: &Settings) -> DeviceCrash {
    let crash = torture(settings, &Monitor::silent()).unwrap();
    let outcome = &crash.outcome;
    for violation in &outcome.violations {
        println!("{}: {}\n  {}", violation.promise, violation.detail, violation.replay);
    }
    assert!(outcome.violations.is_empty(), "{} promises were broken", outcome.violations.len());
    assert_eq!(outcome.dirty_recoveries, outcome.cuts);
    assert!(outcome.cuts > 0 && outcome.torn_pages_seen > 0, "{outcome:?}");
    assert!(!settings.plan.second_cut || outcome.second_cuts > 0, "{outcome:?}");
    crash
}

#[test]
fn a_log_in_memory_keeps_its_promises_over_random_cuts() {
    check_nvm(&random(drive(4096, CacheMode::Volatile, Plp::Nvm)));
    check_nvm(&random(drive(16384, CacheMode::Off, Plp::Nvm)));
}

#[test]
fn a_log_in_memory_survives_every_cut_of_some_commands_and_of_their_recoveries() {
    let plan = Plan { second_cut: true, commands: 4, ..Plan::default() };
    let drives = DriveChoice { plp: Some(Plp::Nvm), ..DriveChoice::default() };
    let crash = check_nvm(&settings(0..seeds(3), drives, plan));
    assert_eq!(crash.drives.len(), 6, "two kinds of drives, three sizes of pages");
}

#[test]
fn a_log_in_memory_survives_failing_flash_full_drives_and_swapped_indexes() {
    let nvm = DriveChoice { plp: Some(Plp::Nvm), swaps: Some(true), ..DriveChoice::default() };
    check_nvm(&Settings {
        seeds: (0..seeds(6)).into(),
        ..random(DriveChoice { flash: Some(Flash::Loses), ..nvm })
    });
    let crash = check_nvm(&Settings {
        seeds: (0..seeds(6)).into(),
        ..random(DriveChoice { full: Some(true), ..nvm })
    });
    assert!(crash.reached.refused > 100, "{:?}", crash.reached);
}

#[test]
fn a_log_in_the_memory_of_an_image_survives_the_end_of_its_process_between_any_two_stores() {
    let drives = DriveChoice { plp: Some(Plp::Nvm), medium: Some(Medium::Image), ..DriveChoice::default() };
    let crash =
        torture(&Settings { seeds: (0..seeds(7)).into(), ..random(drives) }, &Monitor::silent()).unwrap();
    let outcome = &crash.outcome;
    assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
    assert_eq!(outcome.dirty_recoveries, outcome.cuts);
    assert!(outcome.cuts.min(outcome.second_cuts) > 30 && crash.reached.collections > 300, "{crash:?}");
}

#[test]
fn volatile_cache_keeps_its_promises_over_random_cuts() {
    let crash = check(&random(drive(4096, CacheMode::Volatile, Plp::None)));
    assert_eq!(crash.outcome.cuts + crash.shutdown_cuts, seeds(20) * 30);
}

#[test]
fn four_units_in_a_page_keep_their_promises_over_random_cuts() {
    check(&random(drive(16384, CacheMode::Volatile, Plp::None)));
}

#[test]
fn no_cache_keeps_its_promises_over_random_cuts() {
    check(&random(drive(8192, CacheMode::Off, Plp::None)));
}

#[test]
fn a_capacitor_makes_every_acknowledged_command_durable() {
    check(&random(drive(8192, CacheMode::Durable, Plp::Capacitor)));
}

#[test]
fn drives_that_become_full_refuse_without_a_change() {
    let drives = DriveChoice { full: Some(true), ..DriveChoice::default() };
    let crash = check(&Settings { seeds: (0..seeds(6)).into(), ..random(drives) });
    assert!(crash.reached.refused > 100, "{:?}", crash.reached);
}

#[test]
fn flash_may_fail_between_cuts_until_it_is_worn_out() {
    let drives = DriveChoice { flash: Some(Flash::Loses), ..DriveChoice::default() };
    check(&Settings { seeds: (0..seeds(6)).into(), ..random(drives) });
}

/// Killing a process tears nothing: what it had issued is done.
#[test]
fn an_image_survives_the_end_of_its_process_between_any_two_stores() {
    let drives = DriveChoice { medium: Some(Medium::Image), ..DriveChoice::default() };
    let crash =
        torture(&Settings { seeds: (0..seeds(7)).into(), ..random(drives) }, &Monitor::silent()).unwrap();
    let outcome = &crash.outcome;
    assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
    assert_eq!(outcome.dirty_recoveries, outcome.cuts);
    assert!(outcome.cuts.min(outcome.second_cuts) > 50 && crash.reached.collections > 500, "{crash:?}");
}

#[test]
fn every_cut_of_some_commands_and_of_their_recoveries_is_survived() {
    let plan = Plan { second_cut: true, commands: 4, ..Plan::default() };
    let drives = DriveChoice::default();
    let crash = check(&settings(0..seeds(3), drives, plan));
    assert_eq!(crash.drives.len(), 9, "three kinds of drives, three sizes of pages");
}

#[test]
fn cuts_in_clean_shutdowns_are_survived() {
    let weights = "write=10,trim=0,share=0,remap=0,transaction=5,log=10,reopen=30".parse().unwrap();
    let plan = Plan { weights, commands: 8, age: 100, second_cut: true, ..Plan::default() };
    let drives = DriveChoice::default();
    let crash = check(&settings(0..seeds(3), drives, plan));
    assert!(crash.shutdown_cuts > 0, "{crash:?}");
}

#[test]
fn what_is_found_depends_on_the_seed_and_not_on_the_threads() {
    let plan = Plan { commands: 3, age: 200, second_cut: true, ..Plan::default() };
    let one = settings(5..7, DriveChoice::default(), plan);
    let two = Settings { threads: 2, ..one.clone() };
    let torture = |settings| torture(settings, &Monitor::silent()).unwrap();
    assert_eq!(torture(&one), torture(&two));
}

/// Seeds of one drive with the commands that a failure needs.
fn focused(seeds: u64, drives: DriveChoice, weights: &str) -> Settings {
    let weights = weights.parse().unwrap();
    let plan = Plan { cuts: Cuts::Random(20), second_cut: true, weights, ..Plan::default() };
    // what noticed a failure once did so with other writes
    let atomic_write_units = drives.atomic_write_units.or(Some(1));
    let handles = drives.handles.or(Some(Handles::None));
    settings(0..seeds, DriveChoice { atomic_write_units, handles, ..drives }, plan)
}

/// The checkpoint of a clean shutdown erased a block with members of an atomic batch, and the journal's record of that
/// was newer than the checkpoint: recovery took the drive for one that was not shut down. 4 of these seeds noticed it.
#[test]
fn a_shutdown_whose_checkpoint_erases_part_of_a_batch_is_found_clean() {
    let drives = DriveChoice { page_bytes: Some(16384), ..DriveChoice::default() };
    check(&focused(23, drives, "atomic=30,reopen=5,log=60"));
}

/// A deferred share waited in the journal buffer when garbage collection moved one of its units: the copy named the
/// new owner, and a cut before the journal page left one unit of the share done and the others not. 3 of these seeds
/// notice it when the journal is not flushed before such a copy (`CopyBeforeJournal`).
#[test]
fn a_copyback_does_not_make_part_of_a_deferred_share_durable() {
    let weights = "write=100,share=40,log=10,reopen=0,flush=1,atomic=0,batch=0,remap=0,transaction=0,trim=2";
    check(&focused(50, drive(8192, CacheMode::Off, Plp::None), weights));
}

/// A `put` that waited for room programmed and erased from then on. A journal page that it wrote for an erase let the drive
/// forget pages of records that would be on flash by that time, and were not when power failed earlier. 2 of these seeds
/// noticed it.
#[test]
fn records_on_their_way_are_dumped_while_a_put_waits_for_room() {
    let weights = "put=60,trim=60,write=40,log=0,transaction=0,share=0,remap=0,atomic=0,batch=0,namespace=0";
    check(&focused(9, drive(4096, CacheMode::Durable, Plp::Capacitor), weights));
}

/// Any call on the image's file may fail, once or from then on.
#[test]
fn a_drive_keeps_its_promises_when_its_host_fails() {
    for (cache, plp) in [(CacheMode::Volatile, Plp::None), (CacheMode::Durable, Plp::Capacitor)] {
        let drives = DriveChoice { medium: Some(Medium::FailingHost), ..drive(4096, cache, plp) };
        let plan = Plan { cuts: Cuts::Random(20), second_cut: true, ..Plan::default() };
        let crash = torture(&settings(0..seeds(6), drives, plan), &Monitor::silent()).unwrap();
        for violation in &crash.outcome.violations {
            println!("{}: {}\n  {}", violation.promise, violation.detail, violation.replay);
        }
        assert!(crash.outcome.violations.is_empty());
        assert!(crash.outcome.cuts > 50 && crash.outcome.second_cuts > 5, "{:?}", crash.outcome);
    }
}

/// Writes of up to four units, wherever they lie and whatever overlaps them, are there or not; larger ones may be there in part.
#[test]
fn writes_of_the_size_that_is_all_or_nothing_are_and_larger_ones_are_torn() {
    let weights = "write=100,fua=10,trim=10,share=10,remap=5,log=10,put=4,delete=2";
    for medium in [Medium::Memory, Medium::Image] {
        let drives =
            DriveChoice { atomic_write_units: Some(4), medium: Some(medium), ..DriveChoice::default() };
        let crash = torture(&focused(seeds(6), drives, weights), &Monitor::silent()).unwrap();
        for violation in &crash.outcome.violations {
            println!("{}: {}\n  {}", violation.promise, violation.detail, violation.replay);
        }
        assert!(crash.outcome.violations.is_empty(), "with {medium:?}");
        let reached = &crash.reached;
        println!("{medium:?}: {} cuts, {reached:?}", crash.outcome.cuts);
        assert!(reached.atomic_writes > 1000 && reached.writes_in_part > 10, "{reached:?}");
    }
}

/// With everything else at once. Where handles are always kept apart, the maps are audited after each command.
#[test]
fn data_placed_with_handles_stay_where_that_was_promised() {
    for handles in [Handles::Initially, Handles::Persistently] {
        let placed = DriveChoice { handles: Some(handles), ..DriveChoice::default() };
        let full = DriveChoice { full: Some(true), ..placed };
        for drives in [placed, full, DriveChoice { flash: Some(Flash::Loses), ..placed }] {
            let crash = check(&Settings { seeds: (0..seeds(4)).into(), ..random(drives) });
            assert!(crash.reached.reclaim_units_updated > 100, "{:?}", crash.reached);
        }
    }
}
