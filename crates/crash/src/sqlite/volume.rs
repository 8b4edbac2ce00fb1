//! The drive and the volume of the test: so small that garbage is collected, checkpoints are taken and every limit is
//! reached within a few hundred transactions.

use rand::{Rng, SeedableRng};
use rusqlite::Connection;
use tantalum::{
    CacheMode, CacheProfile, Device, FtlProfile, LimitsProfile, LinkProfile, Plp, PowerProfile, Profile,
    UNIT_BYTES, VictimPolicy,
};
use tantalum_sqlite::{Drive, Mode};
use tantalum_volume::Volume;

use super::Random;
use super::contents;
use crate::error::CrashError;
use crate::small_flash::small_flash;

/// The database.
pub(super) const DATABASE: &str = "app.db";

/// Other data, which garbage collection has to move.
pub(super) const OTHER_DATA: &str = "other-data";

/// Units of [`OTHER_DATA`], of the volume's 4096.
pub(super) const OTHER_UNITS: u64 = 2200;

/// The host's page cache: 128 pages, so that dirty ones are written back before their sync.
pub(super) const CACHE_BYTES: u64 = 128 * UNIT_BYTES as u64;

const CAPACITY_BYTES: u64 = 16 << 20;

/// One volume in four is on a drive with a capacitor.
fn has_capacitor(seed: u64) -> bool {
    seed % 4 == 3
}

fn profile(seed: u64) -> Profile {
    let cache_bytes = 48 * UNIT_BYTES as u64;
    let dump_bytes = if has_capacitor(seed) { 128 * UNIT_BYTES as u64 } else { 0 };
    Profile {
        name: "crash-sqlite".into(),
        description: "a drive so small that everything happens often".into(),
        capacity_bytes: CAPACITY_BYTES,
        over_provisioning_percent: 40.0,
        flash: small_flash(2, 16, 16384),
        link: LinkProfile { bytes_per_second: 1_000_000_000, command_ns: 5_000 },
        cache: CacheProfile {
            mode: if has_capacitor(seed) { CacheMode::Durable } else { CacheMode::Volatile },
            bytes: cache_bytes,
        },
        nvm: None,
        power: PowerProfile { plp: if has_capacitor(seed) { Plp::Capacitor } else { Plp::None }, dump_bytes },
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

/// The database's page size: mostly one unit, sometimes two, sometimes less than one.
fn page_bytes(seed: u64) -> u32 {
    [4096, 8192, 4096, 4096, 1024, 4096][(seed % 6) as usize]
}

/// A volume with other data and the empty tables.
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
    let drive = Drive::new(volume, Mode::Rollback, Some(seed));
    let connection = drive.open(DATABASE).map_err(CrashError::sqlite("opening a new database"))?;
    make_tables(&connection, seed).map_err(CrashError::sqlite("making the tables"))?;
    drop(connection);
    drive.into_volume().map_err(|(_, error)| error.into())
}

fn make_tables(connection: &Connection, seed: u64) -> rusqlite::Result<()> {
    connection.pragma_update(None, "page_size", page_bytes(seed))?;
    if !seed.is_multiple_of(2) {
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
    }
    // EXTRA, because the rest of the test starts from these tables.
    connection.pragma_update(None, "synchronous", "extra")?;
    contents::create(connection)
}
