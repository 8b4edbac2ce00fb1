//! The tests of the file system can fail: taking out any of its guards is noticed.
//!
//! `cargo test --profile canary -p tantalum-lfs --features canaries --test canaries -- --nocapture` prints the seeds.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::cuts::{
    every_cut_of_a_large_checkpoint, every_cut_while_a_list_becomes_void, lists_over_several_segments,
};
use common::holes::{every_cut_of_a_mount_that_needs_room, holes_are_filled_until_power_goes};
use common::run::{Plan, Run, SNAPSHOT_ODDS};
use common::{KINDS, SOUND};
use tantalum_canaries::{Guard, take_out};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, canaries};

const CUTS: Plan = Plan {
    kind: LfsKind::Nat,
    capacity_mib: 32,
    cache_bytes: 1 << 20,
    cleaning: Cleaning::Copy,
    indexing: Indexing::Conventional,
    cut_within: Some(30),
    most_bytes: 400_000,
    left_units: None,
    faults: SOUND,
    snapshot_odds: SNAPSHOT_ODDS,
};

const FULL: Plan = Plan { capacity_mib: 8, cache_bytes: 0, cut_within: None, left_units: Some(137), ..CUTS };

/// The first seed with which a run panics.
fn first_failure(guard: &'static Guard, seeds: u64, work: impl Fn(u64)) {
    std::panic::set_hook(Box::new(|_| {}));
    let out = take_out(guard);
    let failure = |seed: u64| {
        let panic = catch_unwind(AssertUnwindSafe(|| work(seed))).err()?;
        let why = panic.downcast::<String>().map_or_else(|_| "a panic".into(), |why| *why);
        Some(format!("seed {seed}, {}", why.lines().next().unwrap_or_default()))
    };
    let found = (0..seeds).find_map(failure);
    drop(out);
    println!("{guard:?}: {}", found.as_deref().unwrap_or("not noticed"));
    assert!(found.is_some(), "nothing noticed within {seeds} seeds that {guard:?} was taken out");
}

fn run(plan: Plan, seed: u64) {
    let mut run = Run::new(seed, plan);
    (0..300).for_each(|_| run.step());
    run.finish();
}

#[test]
fn a_checkpoint_before_what_it_names_is_noticed() {
    first_failure(&canaries::PackBeforeTables, 40, |seed| run(CUTS, seed));
}

#[test]
fn a_checkpoint_over_its_predecessor_is_noticed() {
    first_failure(&canaries::PackInPlace, 1, |_| {
        every_cut_of_a_large_checkpoint(LfsKind::Nat);
    });
}

#[test]
fn a_node_before_its_data_is_noticed() {
    first_failure(&canaries::NodeBeforeData, 40, |seed| run(CUTS, seed));
}

#[test]
fn a_move_of_what_is_elsewhere_is_noticed() {
    first_failure(&canaries::StaleMove, 40, |seed| run(Plan { cleaning: Cleaning::Remap, ..FULL }, seed));
}

#[test]
fn a_sync_before_what_it_wrote_in_place_is_durable_is_noticed() {
    first_failure(&canaries::OverwriteNotFlushed, 40, |seed| run(CUTS, seed));
}

#[test]
fn a_unit_that_is_appended_behind_its_overwrite_is_noticed() {
    first_failure(&canaries::OverwriteBeforeAppend, 40, |seed| run(FULL, seed));
}

#[test]
fn a_hole_that_the_last_checkpoint_names_is_noticed() {
    first_failure(&canaries::HoleStillNamed, 250, |cut| {
        holes_are_filled_until_power_goes(Cleaning::Copy, Indexing::Appended, cut + 1);
    });
}

#[test]
fn a_mount_that_fills_holes_before_its_checkpoint_is_noticed() {
    first_failure(&canaries::HolesInRecovery, 300, |shift| {
        every_cut_of_a_mount_that_needs_room(shift);
    });
}

const LISTS: Plan = Plan { indexing: Indexing::Nvm, cut_within: Some(60), ..CUTS };

#[test]
fn lists_cleared_before_their_checkpoint_are_noticed() {
    first_failure(&canaries::ListsClearedEarly, 40, |seed| run(LISTS, seed));
}

#[test]
fn lists_that_a_checkpoint_made_void_and_recovery_follows_are_noticed() {
    for kind in KINDS {
        first_failure(&canaries::VoidListsFollowed, 1, |_| {
            every_cut_while_a_list_becomes_void(kind);
        });
    }
}

#[test]
fn a_list_older_than_the_nodes_of_its_file_is_noticed() {
    first_failure(&canaries::ListBehindNodes, 40, |seed| run(LISTS, seed));
}

const TREE_CUTS: Plan = Plan { kind: LfsKind::Tree, ..CUTS };

const TREE_FULL: Plan = Plan { kind: LfsKind::Tree, cleaning: Cleaning::Remap, ..FULL };

const TREE_LISTS: Plan = Plan { kind: LfsKind::Tree, ..LISTS };

#[test]
fn lists_of_trees_cleared_before_their_checkpoint_are_noticed() {
    first_failure(&canaries::ListsClearedEarly, 40, |seed| run(TREE_LISTS, seed));
}

#[test]
fn a_listed_unit_behind_a_summary_that_is_not_durable_is_noticed() {
    first_failure(&canaries::ListBeforeSummary, 1, |_| lists_over_several_segments(LfsKind::Tree));
}

#[test]
fn a_listed_unit_whose_number_recovery_changes_is_noticed() {
    first_failure(&canaries::NamedNumber, 1, |_| lists_over_several_segments(LfsKind::Tree));
}

#[test]
fn an_anchor_before_its_super_root_is_noticed() {
    first_failure(&canaries::AnchorBeforeSuperRoot, 40, |seed| run(TREE_CUTS, seed));
}

#[test]
fn a_partial_segment_that_is_not_whole_is_noticed() {
    first_failure(&canaries::PartialUnchecked, 40, |seed| run(TREE_CUTS, seed));
}

#[test]
fn a_summary_of_moves_that_are_not_durable_is_noticed() {
    let plan = Plan { cut_within: Some(40), ..TREE_FULL };
    first_failure(&canaries::SummaryBeforeMoves, 40, |seed| run(plan, seed));
}

#[test]
fn a_snapshot_whose_units_are_given_up_is_noticed() {
    first_failure(&canaries::SnapshotHolds, 40, |seed| run(Plan { cut_within: None, ..TREE_CUTS }, seed));
}

#[test]
fn a_move_in_trees_of_what_is_elsewhere_is_noticed() {
    first_failure(&canaries::StaleMove, 40, |seed| run(TREE_FULL, seed));
}
