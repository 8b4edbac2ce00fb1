//! The counts of each kind of drive in the tortures of a drive.

use serde::Serialize;

use crate::device::Reached;
use crate::device::tally::Tally;

/// The counts of one kind of drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DriveCounts {
    /// Power-loss protection: `none`, `capacitor` or `nvm`.
    pub plp: &'static str,
    /// Cache: `off`, `volatile` or `durable`.
    pub cache: &'static str,
    /// Bytes of a flash page; `None` if drives with different ones are counted together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_bytes: Option<u32>,
    /// Power cuts while the drive worked.
    pub cuts: u64,
    /// Power cuts during recovery.
    pub second_cuts: u64,
    /// Broken promises.
    pub violations: u64,
    /// What the drives went through between cuts; with several clients, `commands` are their turns.
    pub reached: Reached,
}

/// Adds what was counted on a drive of this kind, by power-loss protection, cache and size of pages.
pub(crate) fn add(
    drives: &mut Vec<DriveCounts>,
    (plp, cache, page_bytes): (&'static str, &'static str, Option<u32>),
    tally: &Tally,
    is_violated: bool,
) {
    let known =
        |counts: &DriveCounts| (counts.plp, counts.cache, counts.page_bytes) == (plp, cache, page_bytes);
    let place = drives.iter().position(known).unwrap_or(drives.len());
    if place == drives.len() {
        let (cuts, second_cuts, violations, reached) = (0, 0, 0, Reached::default());
        drives.push(DriveCounts { plp, cache, page_bytes, cuts, second_cuts, violations, reached });
    }
    let counts = &mut drives[place];
    counts.cuts += tally.cuts;
    counts.second_cuts += tally.second_cuts;
    counts.violations += u64::from(is_violated);
    counts.reached.add(&tally.reached);
}
