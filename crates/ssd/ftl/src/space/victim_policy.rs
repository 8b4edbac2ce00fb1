//! How garbage collection chooses a victim: the one list of policies, for the FTL and for profiles. What each of them does is
//! `choose_victim` in `collect/victims.rs`.

use serde::{Deserialize, Serialize};

/// How garbage collection chooses a victim. Profiles call them `greedy` and `cost-benefit`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// Fewest valid units.
    Greedy,
    /// Most space freed for the work, older blocks first.
    CostBenefit,
}
