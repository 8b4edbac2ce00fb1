//! The capacity that a comparison would need, once a drive has turned out to be too small.

use tantalum::Profile;
use tantalum_workloads::ageing::left_free;
use tantalum_workloads::capacity::smallest_capacity;
use tantalum_workloads::memory;

use crate::error::ExperimentError;

/// Units that stay free in addition to what the statements add: room for a log and a journal.
const LOG_UNITS: u64 = 4096;

/// Tries something on drives that double in size, until it fits. `None` if it fails for another reason, or this machine
/// has too little memory.
pub(super) fn on_larger<T>(
    profile: &Profile,
    attempt: impl Fn(&Profile) -> Result<T, ExperimentError>,
) -> Option<T> {
    let mut profile = profile.clone();
    loop {
        memory::require(profile.capacity_bytes).ok()?;
        match attempt(&profile) {
            Ok(done) => return Some(done),
            Err(error) if error.is_full() => {
                profile.capacity_bytes = profile.capacity_bytes.checked_mul(2)?;
            }
            Err(_) => return None,
        }
    }
}

/// The smallest capacity in bytes for comparing a database that uses `used_units` and grows by `growth_units`: the free
/// space on the aged drive must hold the growth twice, in the database and in a log.
pub(super) fn smallest_capacity_for(used_units: u64, growth_units: u64) -> Option<u64> {
    let needed = growth_units * 2 + LOG_UNITS;
    smallest_capacity(used_units, |capacity_units| match left_free(capacity_units) {
        free if free >= needed => free,
        _ => capacity_units,
    })
}
