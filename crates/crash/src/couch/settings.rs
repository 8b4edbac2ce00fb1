//! What is tortured, and how long.

use tantalum_couch::Way;

use crate::program::Cuts;

/// What a way is called on the command line.
pub fn way_name(way: Way) -> &'static str {
    match way {
        Way::Share => "share",
        Way::Original => "original",
    }
}

/// What is tortured, and how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How the store updates.
    pub ways: Vec<Way>,
    /// The first seed.
    pub first_seed: u64,
    /// How many seeds, one after another.
    pub seeds: u64,
    /// When power is cut.
    pub cuts: Cuts,
    /// Commits before a random cut, at most; or in the workload of which every flash operation is cut.
    pub commits: u64,
    /// Takes fresh seeds for this long, instead of `seeds`.
    pub minutes: Option<u64>,
}
