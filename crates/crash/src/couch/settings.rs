//! What to test, and for how long.

use tantalum_couch::Way;

use crate::program::Cuts;

/// The name of a way of updating on the command line.
pub fn way_name(way: Way) -> &'static str {
    match way {
        Way::Share => "share",
        Way::Original => "original",
    }
}

/// Threads at most.
pub const MOST_THREADS: u64 = 6;

/// What to test, and for how long.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// How the store updates.
    pub ways: Vec<Way>,
    /// The first seed.
    pub first_seed: u64,
    /// Number of consecutive seeds.
    pub seeds: u64,
    /// When power is cut.
    pub cuts: Cuts,
    /// The maximum number of commits before a random cut, or the commits of the run that is cut at every flash
    /// operation.
    pub commits: u64,
    /// Threads that use the store, 1 to [`MOST_THREADS`], in turns that the seed draws.
    pub threads: u64,
    /// Continues with fresh seeds for this many minutes instead of `seeds`.
    pub minutes: Option<u64>,
    /// Whether the host fails, as often as `cuts` says, instead of the power.
    pub host_faults: bool,
}
