//! A drive small enough that garbage is collected soon, and that with a capacitor soon has no room, for several tests.

use tantalum::{CacheMode, Plp, Profile, UNIT_BYTES};

/// A small drive with each cache there is: volatile, none, and one with a capacitor.
#[allow(dead_code, reason = "each test file uses some of it")]
pub fn profiles() -> [Profile; 3] {
    let volatile = small_drive("tlc-nvme", 4 << 20, 100.0, Plp::None);
    let mut none = volatile.clone();
    none.cache.mode = CacheMode::Off;
    [volatile, none, small_drive("tlc-nvme", 4 << 20, 100.0, Plp::Capacitor)]
}

/// Two dies of small blocks. With a capacitor there is room for 24 units, and it saves four times as many.
#[allow(dead_code, reason = "each test file uses some of it")]
pub fn small_drive(name: &str, capacity_bytes: u64, over_provisioning_percent: f64, plp: Plp) -> Profile {
    let mut profile = Profile { capacity_bytes, over_provisioning_percent, ..Profile::load(name).unwrap() };
    profile.flash.channels = 2;
    profile.flash.dies_per_channel = 1;
    profile.flash.planes_per_die = 1;
    profile.flash.pages_per_block = 8;
    profile.flash.page_bytes = 8192;
    if plp == Plp::Capacitor {
        profile.cache.mode = CacheMode::Durable;
        profile.cache.bytes = 24 * UNIT_BYTES as u64;
        profile.power.plp = plp;
        profile.power.dump_bytes = 96 * UNIT_BYTES as u64;
    }
    profile
}
