//! What to test, and for how long.

use crate::program::Cuts;
use crate::seeds::Seeds;

/// What to test, and for how long.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// The seeds.
    pub seeds: Seeds,
    /// When power is cut.
    pub cuts: Cuts,
    /// The maximum number of commits before a random cut, or the commits of the run that is cut at every flash
    /// operation.
    pub commits: u64,
    /// Whether the host fails, as often as `cuts` says, instead of the power.
    pub host_faults: bool,
}
