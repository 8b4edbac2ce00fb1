//! Drives in a known condition, for measuring.

use std::str::FromStr;

use serde::Serialize;
use tantalum::{Device, Profile};
use tantalum_report::Monitor;

use super::{Host, Pattern, flash_bytes};
use crate::error::WorkloadError;
use crate::memory;

/// How much of a drive is used before it is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// Nothing was ever written.
    #[default]
    Fresh,
    /// Every unit was written once, in order.
    Filled,
    /// Then they were overwritten at random until garbage collection was steady.
    Aged,
}

impl Condition {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Condition::Fresh => "fresh",
            Condition::Filled => "filled",
            Condition::Aged => "aged",
        }
    }
}

impl FromStr for Condition {
    type Err = String;

    fn from_str(name: &str) -> Result<Condition, String> {
        let known = [Condition::Fresh, Condition::Filled, Condition::Aged];
        let found = known.into_iter().find(|condition| condition.name() == name);
        found.ok_or_else(|| "use one of fresh, filled, aged".to_owned())
    }
}

/// A new drive in this condition, in memory. Each unit that is written begins with its own number. For an aged drive,
/// also returns its write amplification, and whether that had become steady.
pub fn conditioned(
    profile: &Profile,
    condition: Condition,
    seed: u64,
    monitor: &Monitor,
) -> Result<(Device, Option<(f64, bool)>), WorkloadError> {
    memory::require(flash_bytes(profile))?;
    let device = Device::in_memory(profile)?;
    let pattern = match condition {
        Condition::Fresh => return Ok((device, None)),
        Condition::Filled => Pattern::SeqWrite,
        Condition::Aged => Pattern::RandWrite,
    };
    let mut host = Host::new(device, seed);
    let overwritten = host.precondition(pattern, monitor)?;
    Ok((host.flushed()?, overwritten.map(|state| (state.write_amplification(), state.is_steady()))))
}
