//! The drive and the volume that the torture works on: small, so that garbage is collected and checkpoints are taken all
//! the time.

use rand::{Rng, SeedableRng};
use tantalum::{
    CacheMode, CacheProfile, Device, FtlProfile, LimitsProfile, LinkProfile, Plp, PowerProfile, Profile,
    UNIT_BYTES, VictimPolicy,
};
use tantalum_volume::Volume;

use super::Random;
use crate::error::CrashError;
use crate::small_flash::small_flash;

/// Data that are not the store's: what garbage collection has to move.
pub(super) const OTHER_DATA: &str = "other-data";

/// Units of [`OTHER_DATA`], of the volume's 4096.
pub(super) const OTHER_UNITS: u64 = 2000;

/// The host's page cache.
pub(super) const CACHE_BYTES: u64 = 64 * UNIT_BYTES as u64;

/// One volume in four is on a drive with a capacitor.
fn profile(seed: u64) -> Profile {
    let has_capacitor = seed % 4 == 3;
    let unit_bytes = UNIT_BYTES as u64;
    let (mode, plp, dump_bytes) = match has_capacitor {
        true => (CacheMode::Durable, Plp::Capacitor, 128 * unit_bytes),
        false => (CacheMode::Volatile, Plp::None, 0),
    };
    Profile {
        name: "crash-couch".into(),
        description: "a drive so small that everything happens often".into(),
        capacity_bytes: 16 << 20,
        over_provisioning_percent: 40.0,
        flash: small_flash(2, 16, [16384, 8192, 4096][(seed % 3) as usize]),
        link: LinkProfile { bytes_per_second: 1_000_000_000, command_ns: 5_000 },
        cache: CacheProfile { mode, bytes: 48 * unit_bytes },
        nvm: None,
        power: PowerProfile { plp, dump_bytes },
        limits: LimitsProfile {
            atomic_units: 16,
            open_transactions: 4,
            shared_owners: 64,
            index_dram_bytes: None,
        },
        ftl: FtlProfile {
            victim_policy: VictimPolicy::Greedy,
            wear_spread: 8,
            checkpoint_interval_pages: None,
        },
    }
}

/// A volume with other data.
pub(super) fn prepare(seed: u64) -> Result<Volume, CrashError> {
    let mut volume = Volume::format(Device::in_memory(&profile(seed))?, CACHE_BYTES)?;
    let other = volume.create(OTHER_DATA)?;
    let mut unit = [0; UNIT_BYTES];
    let mut random = Random::seed_from_u64(seed);
    for index in 0..OTHER_UNITS {
        random.fill_bytes(&mut unit);
        volume.write(other, index * UNIT_BYTES as u64, &unit)?;
    }
    volume.sync_all()?;
    Ok(volume)
}
