//! How much of its non-volatile memory PebbleSSD uses, as Jin's thesis computes it (section 4.4.5).

use tantalum::{NvmParts, Profile};

/// The drive of the thesis's computation: "512 GB for simpler calculation".
const THESIS_CAPACITY_BYTES: u64 = 512 << 30;

/// Percentages of the memory in use in the thesis: of a conventional drive, with `remap`, and with `fs_write` but without
/// the second map that `remap` needs.
pub const THESIS_PERCENT: [f64; 3] = [35.0, 60.0, 80.0];

/// Bytes in use: by the map alone, with `remap`, with `fs_write`, and with both. The rest of the metadata log is what makes
/// `remap` program no flash.
pub fn in_use(parts: &NvmParts) -> [u64; 4] {
    let &NvmParts { map, log, lists, .. } = parts;
    [map, map + log, map + lists, map + log + lists]
}

/// Percentages of the memory in use, as [`in_use`].
pub fn percent(parts: &NvmParts) -> [f64; 4] {
    in_use(parts).map(|used| used as f64 * 100.0 / parts.bytes as f64)
}

/// A drive of this profile with the capacity of the thesis's computation, 512 GiB. Its memory may be too small for it.
pub fn at_thesis_capacity(profile: &Profile) -> Profile {
    Profile { capacity_bytes: THESIS_CAPACITY_BYTES, ..profile.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percent_of(profile: &Profile) -> [f64; 4] {
        percent(&profile.nvm_parts().unwrap().unwrap())
    }

    #[test]
    fn pebblessd_has_room_for_everything_at_full_size() {
        let [map, remap, lists, both] = percent_of(&Profile::load("pebblessd").unwrap());
        assert!(17.0 < map && map < remap && remap < lists && lists < both && both < 100.0, "{map} {both}");
    }

    #[test]
    fn the_thesis_s_capacity_is_computed_whatever_the_image_has() {
        let profile = Profile { capacity_bytes: 1 << 30, ..Profile::load("pebblessd").unwrap() };
        let [map, remap, lists, _] = percent_of(&at_thesis_capacity(&profile));
        assert!((25.0..25.1).contains(&map), "2^27 entries of 4 bytes in 2 GiB: {map}");
        let [.., with_remap, with_lists] = THESIS_PERCENT;
        assert!((50.0..with_remap).contains(&remap), "{remap}");
        assert!((70.0..with_lists).contains(&lists), "{lists}");
    }
}
