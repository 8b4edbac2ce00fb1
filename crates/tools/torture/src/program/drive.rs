//! The drive and the volume of the test: small enough that a short life includes garbage collection, checkpoints and every
//! limit.

use rand::{Rng, SeedableRng};
use tantalum::{
    CacheMode, CacheProfile, Device, FirmwareProfile, FtlProfile, LimitsProfile, LinkProfile, Plp,
    PowerProfile, Profile, SpuProfile, UNIT_BYTES, VictimPolicy,
};
use tantalum_volume::Volume;

use crate::error::CrashError;
use crate::small_flash::small_flash;

/// Other data, which garbage collection has to move.
pub(crate) const OTHER_DATA: &str = "other-data";

const UNIT: u64 = UNIT_BYTES as u64;

/// A drive of 4096 units. One in four has a capacitor.
pub(crate) fn profile(name: &str, page_bytes: u32, seed: u64) -> Profile {
    let has_capacitor = seed % 4 == 3;
    let (mode, plp, dump_bytes) = match has_capacitor {
        true => (CacheMode::Durable, Plp::Capacitor, 128 * UNIT),
        false => (CacheMode::Volatile, Plp::None, 0),
    };
    Profile {
        name: name.into(),
        description: "a drive so small that everything happens often".into(),
        capacity_bytes: 16 << 20,
        over_provisioning_percent: 40.0,
        flash: small_flash(2, 16, page_bytes),
        link: LinkProfile { bytes_per_second: 1_000_000_000, command_ns: 5_000 },
        cache: CacheProfile { mode, bytes: 48 * UNIT },
        nvm: None,
        firmware: FirmwareProfile::default(),
        spu: SpuProfile::default(),
        fdp: None,
        zones: None,
        power: PowerProfile { plp, dump_bytes },
        limits: LimitsProfile {
            atomic_units: 16,
            atomic_write_units: 1,
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

/// A volume on such a drive, which is new, with this many units of [`OTHER_DATA`].
pub(crate) fn volume(device: Device, cache_bytes: u64, units: u64, seed: u64) -> Result<Volume, CrashError> {
    let mut volume = Volume::format(device, cache_bytes)?;
    let other = volume.create(OTHER_DATA)?;
    let mut unit = [0; UNIT_BYTES];
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
    for index in 0..units {
        random.fill_bytes(&mut unit);
        volume.write(other, index * UNIT, &unit)?;
    }
    volume.sync_all()?;
    Ok(volume)
}
