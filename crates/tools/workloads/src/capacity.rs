//! The capacity that would do, for messages about drives that are too small.

use tantalum::{Device, LayoutError, Profile, UNIT_BYTES};
use tantalum_volume::Volume;

const MIB: u64 = 1 << 20;
const UNITS_PER_MIB: u64 = MIB / UNIT_BYTES as u64;

/// The least units of other data on an aged drive.
const LEAST_OTHER_UNITS: u64 = UNITS_PER_MIB;

/// No larger capacity is suggested: 64 TiB.
const MOST_MIB: u64 = 1 << 26;

/// The largest capacity tried when searching for enough flash: 64 GiB.
const MOST_FLASH_MIB: u64 = 1 << 16;

/// Units that files and the volume itself take.
pub fn units_in_use(volume: &Volume) -> u64 {
    volume.device().limits().capacity_units - volume.free_units()
}

/// The smallest capacity in bytes, in whole MiB, of a drive that can be aged: besides the units in use, it has the share
/// of its capacity that must stay free, and room for other data.
pub fn smallest_capacity(used_units: u64, free_of: impl Fn(u64) -> u64) -> Option<u64> {
    let would_do = |mib: u64| {
        let capacity_units = mib * UNITS_PER_MIB;
        used_units + free_of(capacity_units) + LEAST_OTHER_UNITS <= capacity_units
    };
    least_mib(0, 1, MOST_MIB, would_do)
}

/// The smallest capacity in bytes, in whole MiB above the profile's, for which its flash can be laid out, which it could not
/// because of `error`. `None` if there is none up to 64 GiB, or if another capacity is not what it needs.
pub fn sufficient_flash(profile: &Profile, error: &LayoutError) -> Option<u64> {
    if !matches!(error, LayoutError::TooLittleFlash { .. } | LayoutError::TooLittleForHandles { .. }) {
        return None;
    }
    let would_do =
        |mib: u64| Device::check_profile(&Profile { capacity_bytes: mib * MIB, ..profile.clone() }).is_ok();
    let below = profile.capacity_bytes / MIB;
    least_mib(below, (below + 1).next_power_of_two(), MOST_FLASH_MIB, would_do)
}

/// The bytes of the fewest MiB that would do: more than `below`, found by doubling `above` up to `most`, then by halving.
fn least_mib(mut below: u64, mut above: u64, most: u64, would_do: impl Fn(u64) -> bool) -> Option<u64> {
    while !would_do(above) {
        (below, above) = (above, above * 2);
        if above > most {
            return None;
        }
    }
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if would_do(middle) { above = middle } else { below = middle }
    }
    Some(above * MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_capacity_that_leaves_enough_free_is_found() {
        // 10,000 in use, 8,192 free, 256 of other data: 18,448 units are 72.06 MiB
        assert_eq!(smallest_capacity(10_000, |_| 8192), Some(73 * MIB));
        // a tenth free: 111,395 units are 435.1 MiB
        assert_eq!(smallest_capacity(100_000, |capacity| capacity / 10), Some(436 * MIB));
        assert_eq!(smallest_capacity(1, |capacity| capacity), None);
    }
}
