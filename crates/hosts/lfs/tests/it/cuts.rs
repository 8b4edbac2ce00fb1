//! Power is cut at every flash operation of short programs.

use crate::common;

use common::KINDS;
use common::cuts::{every_cut_of, every_cut_of_a_large_checkpoint, every_cut_while_a_list_becomes_void};
use tantalum_lfs::{Cleaning, Indexing};

#[test]
fn every_cut_of_short_programs_leaves_what_was_synced() {
    let programs = [(1, Cleaning::Copy), (2, Cleaning::Remap), (3, Cleaning::Copy), (4, Cleaning::Remap)];
    for kind in KINDS {
        for indexing in [Indexing::Conventional, Indexing::Appended] {
            let every_cut = |(seed, cleaning)| every_cut_of(kind, seed, 60, cleaning, indexing);
            let cuts: u32 = programs.into_iter().map(every_cut).sum();
            assert!(cuts > 20, "only {cuts} cuts happened");
        }
    }
}

#[test]
fn every_cut_of_short_programs_with_lists_leaves_what_was_synced() {
    let programs = [(5, Cleaning::Copy), (6, Cleaning::Remap), (7, Cleaning::Copy), (8, Cleaning::Remap)];
    for kind in KINDS {
        let every_cut = |(seed, cleaning)| every_cut_of(kind, seed, 60, cleaning, Indexing::Nvm);
        let cuts: u32 = programs.into_iter().map(every_cut).sum();
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

#[test]
fn every_cut_while_a_list_becomes_void_leaves_what_the_checkpoint_has() {
    for kind in KINDS {
        let cuts = every_cut_while_a_list_becomes_void(kind);
        assert!(cuts > 2, "only {cuts} cuts happened");
    }
}
