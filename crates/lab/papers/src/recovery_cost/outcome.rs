//! The settings and results.

use serde::Serialize;
use tantalum::{Effective, Profile};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The drive. Its capacity is that of the drive on which intervals are compared.
    pub profile: Profile,
    /// Capacities of the drives that grow, in bytes.
    pub capacities_bytes: Vec<u64>,
    /// What is written at random since the last checkpoint, in bytes.
    pub written_bytes: Vec<u64>,
    /// The seed of all randomness.
    pub seed: u64,
}

/// The results of one `tantalum recovery-cost`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// `"recovery-cost"`.
    pub command: &'static str,
    /// The profile's name.
    pub profile: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// Recovery as capacity and what was written since the checkpoint grow.
    pub growth: Vec<Growth>,
    /// The drive on which intervals were compared.
    pub interval_capacity_bytes: u64,
    /// Its over-provisioning and geometry as they are.
    #[serde(flatten)]
    pub effective: Effective,
    /// Recovery and the cost of checkpoints, for each interval.
    pub intervals: Vec<Interval>,
}

/// One recovery of a drive that was never full.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Growth {
    /// Logical capacity.
    pub capacity_bytes: u64,
    /// Over-provisioning and geometry as they are.
    #[serde(flatten)]
    pub effective: Effective,
    /// Erase blocks: recovery reads the first page of each.
    pub blocks: u64,
    /// What the host wrote at random since the last checkpoint.
    pub written_bytes: u64,
    /// What recovery did.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// One interval between checkpoints on a full drive that is overwritten at random.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Interval {
    /// Data pages between checkpoints, copies included; `None` for the default.
    pub interval_pages: Option<u64>,
    /// Flash writes divided by host writes.
    pub write_amplification: f64,
    /// Whether garbage collection was steady before measuring.
    pub steady: bool,
    /// Checkpoints taken while measuring.
    pub checkpoints: u64,
    /// Units that the host wrote between two checkpoints.
    pub host_units_per_checkpoint: f64,
    /// Units of checkpoints over units that the host wrote.
    pub checkpoint_share: f64,
    /// What recovery did, after a cut at 95 % of the way to the next checkpoint.
    #[serde(flatten)]
    pub recovery: Recovery,
}

/// What one recovery did.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Recovery {
    /// Pages whose spare areas were read.
    pub pages_scanned: u64,
    /// Pages of checkpoint and journal that were read.
    pub pages_read: u64,
    /// Assertions folded over the checkpoint.
    pub assertions: u64,
    /// Units of the checkpoint at its end.
    pub checkpoint_units: u64,
    /// Device time until everything was read.
    pub read_ns: u64,
    /// Device time until the drive took commands.
    pub device_ns: u64,
    /// Time that it took on this machine.
    pub wall_seconds: f64,
}
