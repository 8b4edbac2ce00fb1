//! Power is cut at every flash operation of short programs.

mod common;

use common::KINDS;
use common::cuts::{every_cut_of, every_cut_of_a_large_checkpoint};
use tantalum_lfs::Cleaning;

#[test]
fn every_cut_of_short_programs_leaves_what_was_synced() {
    let programs = [(1, Cleaning::Copy), (2, Cleaning::Remap), (3, Cleaning::Copy), (4, Cleaning::Remap)];
    for kind in KINDS {
        let cuts: u32 =
            programs.into_iter().map(|(seed, cleaning)| every_cut_of(kind, seed, 60, cleaning)).sum();
        assert!(cuts > 20, "only {cuts} cuts happened");
    }
}

#[test]
fn every_cut_of_a_checkpoint_of_several_units_leaves_one_of_two() {
    for kind in KINDS {
        let cuts = every_cut_of_a_large_checkpoint(kind);
        assert!(cuts > 2, "only {cuts} cuts happened");
    }
}
