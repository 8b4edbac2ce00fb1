//! Random programs beside a model: remounts, crashes of the host, power cuts, cuts of recovery, a drive that is nearly
//! full. `LFS_SEED=17 cargo test --release -p tantalum-lfs --test oracle` runs one seed again.

mod common;

use common::run::{Plan, Total, run_seeds};
use tantalum_lfs::{Cleaning, Indexing};

const ROOMY: Plan = Plan {
    capacity_mib: 32,
    cache_bytes: 1 << 20,
    cleaning: Cleaning::Copy,
    indexing: Indexing::Conventional,
    cut_within: None,
    most_bytes: 400_000,
    ballast_units: 0,
};

fn cleaning(seed: u64) -> Cleaning {
    if seed.is_multiple_of(2) { Cleaning::Copy } else { Cleaning::Remap }
}

#[test]
fn crashes_of_the_host_and_remounts_agree_with_the_model() {
    let Total { crashes, .. } = run_seeds(20, 400, |seed| Plan { cleaning: cleaning(seed), ..ROOMY });
    assert!(crashes > 20, "only {crashes} crashes happened");
}

#[test]
fn power_cuts_in_any_operation_agree_with_the_model() {
    let plan = |seed| Plan { cleaning: cleaning(seed), cut_within: Some(30), ..ROOMY };
    let Total { crashes, second_cuts, .. } = run_seeds(30, 300, plan);
    assert!(
        crashes > 300 && second_cuts > 20,
        "only {crashes} crashes and {second_cuts} second cuts happened"
    );
}

#[test]
fn a_nearly_full_drive_is_cleaned_and_loses_nothing() {
    let plan = |seed| Plan {
        capacity_mib: 8,
        cache_bytes: 0,
        cleaning: cleaning(seed),
        indexing: Indexing::Conventional,
        cut_within: (seed % 4 > 1).then_some(300),
        most_bytes: 400_000,
        ballast_units: 1380,
    };
    let Total { refusals, .. } = run_seeds(8, 300, plan);
    assert!(refusals > 1, "only {refusals} operations found no space");
}

#[test]
fn power_cuts_of_a_file_system_with_lists_agree_with_the_model() {
    let plan = |seed| Plan {
        cleaning: cleaning(seed),
        indexing: Indexing::Nvm,
        cut_within: (seed % 5 > 0).then_some(60),
        ..ROOMY
    };
    let total = run_seeds(40, 400, plan);
    println!("{total:?}");
    assert!(total.crashes > 300 && total.second_cuts > 20 && total.listed_syncs > 200, "{total:?}");
    assert!(total.refused_lists > 0, "{total:?}");
}

#[test]
fn a_nearly_full_drive_with_lists_is_cleaned_and_loses_nothing() {
    let plan = |seed| Plan {
        capacity_mib: 8,
        cache_bytes: 0,
        cleaning: cleaning(seed),
        indexing: Indexing::Nvm,
        cut_within: (seed % 4 > 1).then_some(300),
        most_bytes: 400_000,
        ballast_units: 1380,
    };
    let total = run_seeds(8, 300, plan);
    assert!(total.refusals > 1 && total.listed_syncs > 20, "{total:?}");
}
