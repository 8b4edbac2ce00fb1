//! What to test, and for how long.

use tantalum_couch::Way;

use crate::program::Cuts;
use crate::seeds::Seeds;

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
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// How the store updates.
    pub ways: Vec<Way>,
    /// The seeds.
    pub seeds: Seeds,
    /// When power is cut.
    pub cuts: Cuts,
    /// The maximum number of commits before a random cut, or the commits of the run that is cut at every flash
    /// operation.
    pub commits: u64,
    /// Threads that use the store, 1 to [`MOST_THREADS`], in turns that the seed draws.
    pub threads: u64,
    /// Whether the host fails, as often as `cuts` says, instead of the power.
    pub host_faults: bool,
}
