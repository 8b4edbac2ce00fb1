//! Random programs compared with a model: remounts, crashes of the host, power cuts, cuts of recovery, a nearly full
//! drive. `LFS_SEED=17 cargo test --release -p tantalum-lfs --test it oracle` runs one seed again.

use crate::common;

use common::SOUND;
use common::run::{Plan, SNAPSHOT_ODDS, Totals, run_seeds};
use tantalum::Faults;
use tantalum_lfs::{Cleaning, Indexing, LfsKind};

const ROOMY: Plan = Plan {
    kind: LfsKind::Nat,
    capacity_mib: 32,
    cache_bytes: 1 << 20,
    cleaning: Cleaning::Copy,
    indexing: Indexing::Conventional,
    cut_within: None,
    most_bytes: 400_000,
    left_units: None,
    faults: SOUND,
    snapshot_odds: SNAPSHOT_ODDS,
};

/// Whether snapshots were compared, or units written in place.
fn did_what_is_its_own(kind: LfsKind, totals: &Totals) -> bool {
    match kind {
        LfsKind::Nat => totals.units_in_place > 30,
        LfsKind::Tree => totals.compared > 10 && totals.units_in_place == 0,
    }
}

/// Every third seed appends what others write in place.
fn conventional(seed: u64) -> Indexing {
    if seed % 3 == 2 { Indexing::Appended } else { Indexing::Conventional }
}

fn cleaning(seed: u64) -> Cleaning {
    if seed.is_multiple_of(2) { Cleaning::Copy } else { Cleaning::Remap }
}

fn crashes_of_the_host_and_remounts_agree_with_the_model(kind: LfsKind) {
    let totals = run_seeds(kind, 20, 400, |seed| Plan {
        cleaning: cleaning(seed),
        indexing: conventional(seed),
        ..ROOMY
    });
    assert!(totals.crashes > 20 && did_what_is_its_own(kind, &totals), "{totals:?}");
}

fn power_cuts_in_any_operation_agree_with_the_model(kind: LfsKind) {
    let plan =
        |seed| Plan { cleaning: cleaning(seed), indexing: conventional(seed), cut_within: Some(30), ..ROOMY };
    let totals = run_seeds(kind, 30, 300, plan);
    assert!(
        totals.crashes > 300 && totals.second_cuts > 20 && did_what_is_its_own(kind, &totals),
        "{totals:?}"
    );
}

fn a_nearly_full_drive_is_cleaned_and_loses_nothing(kind: LfsKind) {
    let plan = |seed| Plan {
        kind: LfsKind::Nat,
        capacity_mib: 8,
        cache_bytes: 0,
        cleaning: cleaning(seed),
        indexing: conventional(seed),
        cut_within: (seed % 4 > 1).then_some(300),
        most_bytes: 400_000,
        left_units: Some(137),
        faults: SOUND,
        snapshot_odds: SNAPSHOT_ODDS,
    };
    let totals = run_seeds(kind, 8, 300, plan);
    assert!(totals.refusals > 1 && did_what_is_its_own(kind, &totals), "{totals:?}");
    assert!(kind == LfsKind::Tree || totals.filled_units > 100, "{totals:?}");
}

fn power_cuts_of_a_file_system_with_lists_agree_with_the_model(kind: LfsKind) {
    let plan = |seed| Plan {
        cleaning: cleaning(seed),
        indexing: Indexing::Nvm,
        cut_within: (seed % 5 > 0).then_some(60),
        ..ROOMY
    };
    let total = run_seeds(kind, 40, 400, plan);
    println!("{total:?}");
    assert!(total.crashes > 300 && total.second_cuts > 20 && total.listed_syncs > 200, "{total:?}");
    assert!(total.refused_lists > 0 && total.units_in_place == 0, "{total:?}");
    assert!(kind == LfsKind::Nat || total.compared > 10, "{total:?}");
}

fn a_nearly_full_drive_with_lists_is_cleaned_and_loses_nothing(kind: LfsKind) {
    let plan = |seed| Plan {
        kind,
        capacity_mib: 8,
        cache_bytes: 0,
        cleaning: cleaning(seed),
        indexing: Indexing::Nvm,
        cut_within: (seed % 4 > 1).then_some(300),
        most_bytes: 400_000,
        left_units: Some(137),
        faults: SOUND,
        snapshot_odds: SNAPSHOT_ODDS,
    };
    let total = run_seeds(kind, 8, 300, plan);
    assert!(total.refusals > 1 && total.listed_syncs > 20, "{total:?}");
    assert!(kind == LfsKind::Tree || total.filled_units > 100, "{total:?}");
}

/// Programs and erases that fail are the drive's business, as long as it has spare blocks.
fn cuts_of_a_drive_whose_flash_fails_agree_with_the_model(kind: LfsKind) {
    let plan = |seed| Plan {
        cleaning: cleaning(seed),
        indexing: if seed % 3 == 0 { Indexing::Conventional } else { Indexing::Nvm },
        cut_within: (seed % 5 > 0).then_some(60),
        faults: Faults { seed, program_failure_ppm: 3_000, erase_failure_ppm: 10_000, ..SOUND },
        ..ROOMY
    };
    let total = run_seeds(kind, 20, 300, plan);
    println!("{total:?}");
    assert!(total.crashes > 150 && total.second_cuts > 10 && total.bad_blocks > 20, "{total:?}");
}

/// Files large enough that inodes do not point to all of their units.
fn power_cuts_of_files_of_several_levels_agree_with_the_model(kind: LfsKind) {
    let plan = |seed| Plan {
        capacity_mib: 64,
        cleaning: cleaning(seed),
        indexing: if seed % 4 < 2 { Indexing::Conventional } else { Indexing::Nvm },
        cut_within: Some(60),
        most_bytes: 3_500_000,
        ..ROOMY
    };
    let totals = run_seeds(kind, 8, 150, plan);
    assert!(totals.crashes > 20 && did_what_is_its_own(kind, &totals), "{totals:?}");
}

/// Each snapshot is read again after every cut. Every fourth drive is nearly full.
fn snapshots_stay_what_they_were_whatever_is_cut() {
    let plan = |seed| Plan {
        capacity_mib: 16,
        cache_bytes: 0,
        cleaning: cleaning(seed),
        indexing: if seed % 3 == 0 { Indexing::Nvm } else { Indexing::Conventional },
        cut_within: Some(40),
        left_units: (seed % 4 == 0).then_some(800),
        snapshot_odds: 0.25,
        ..ROOMY
    };
    let totals = run_seeds(LfsKind::Tree, 4, 120, plan);
    println!("{totals:?}");
    assert!(totals.compared > 100 && totals.second_cuts > 10, "{totals:?}");
    assert!(totals.cut_creations > 3 && totals.cut_deletions > 3, "{totals:?}");
}

mod nat {
    use tantalum_lfs::LfsKind;

    #[test]
    fn crashes_of_the_host_and_remounts_agree_with_the_model() {
        super::crashes_of_the_host_and_remounts_agree_with_the_model(LfsKind::Nat);
    }

    #[test]
    fn power_cuts_in_any_operation_agree_with_the_model() {
        super::power_cuts_in_any_operation_agree_with_the_model(LfsKind::Nat);
    }

    #[test]
    fn a_nearly_full_drive_is_cleaned_and_loses_nothing() {
        super::a_nearly_full_drive_is_cleaned_and_loses_nothing(LfsKind::Nat);
    }

    #[test]
    fn power_cuts_of_a_file_system_with_lists_agree_with_the_model() {
        super::power_cuts_of_a_file_system_with_lists_agree_with_the_model(LfsKind::Nat);
    }

    #[test]
    fn a_nearly_full_drive_with_lists_is_cleaned_and_loses_nothing() {
        super::a_nearly_full_drive_with_lists_is_cleaned_and_loses_nothing(LfsKind::Nat);
    }

    #[test]
    fn cuts_of_a_drive_whose_flash_fails_agree_with_the_model() {
        super::cuts_of_a_drive_whose_flash_fails_agree_with_the_model(LfsKind::Nat);
    }

    #[test]
    fn power_cuts_of_files_of_several_levels_agree_with_the_model() {
        super::power_cuts_of_files_of_several_levels_agree_with_the_model(LfsKind::Nat);
    }
}

mod tree {
    use tantalum_lfs::LfsKind;

    #[test]
    fn crashes_of_the_host_and_remounts_agree_with_the_model() {
        super::crashes_of_the_host_and_remounts_agree_with_the_model(LfsKind::Tree);
    }

    #[test]
    fn power_cuts_in_any_operation_agree_with_the_model() {
        super::power_cuts_in_any_operation_agree_with_the_model(LfsKind::Tree);
    }

    #[test]
    fn a_nearly_full_drive_is_cleaned_and_loses_nothing() {
        super::a_nearly_full_drive_is_cleaned_and_loses_nothing(LfsKind::Tree);
    }

    #[test]
    fn power_cuts_of_a_file_system_with_lists_agree_with_the_model() {
        super::power_cuts_of_a_file_system_with_lists_agree_with_the_model(LfsKind::Tree);
    }

    #[test]
    fn a_nearly_full_drive_with_lists_is_cleaned_and_loses_nothing() {
        super::a_nearly_full_drive_with_lists_is_cleaned_and_loses_nothing(LfsKind::Tree);
    }

    #[test]
    fn cuts_of_a_drive_whose_flash_fails_agree_with_the_model() {
        super::cuts_of_a_drive_whose_flash_fails_agree_with_the_model(LfsKind::Tree);
    }

    #[test]
    fn power_cuts_of_files_of_several_levels_agree_with_the_model() {
        super::power_cuts_of_files_of_several_levels_agree_with_the_model(LfsKind::Tree);
    }

    #[test]
    fn snapshots_stay_what_they_were_whatever_is_cut() {
        super::snapshots_stay_what_they_were_whatever_is_cut();
    }
}
