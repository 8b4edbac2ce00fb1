//! How evenly blocks wear.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Lpn};
use tantalum_report::Figures;

use super::host::Host;
use super::{Run, check, smaller, table};
use crate::error::ExperimentError;

/// The erases by which the most worn block may be ahead of the least worn one, in the profiles of the checks.
const SPREADS: [u32; 3] = [8, 16, 32];

const CAPACITY_BYTES: u64 = 64 << 20;

/// How often the capacity is overwritten.
const OVERWRITINGS: u64 = 60;

/// The spread of erases when all writes go to a tenth of the units, so that the blocks of the others wear only by being levelled.
pub(super) fn figures(run: &Run<'_>) -> Result<Figures, ExperimentError> {
    let mut rows = Vec::new();
    for spread in SPREADS {
        let mut profile = tantalum::Profile::load("femu-2021")?;
        profile.ftl.wear_spread = spread;
        let capacity_bytes = run.scaled(CAPACITY_BYTES, 16 << 20).next_multiple_of(1 << 20);
        let profile = smaller(profile, capacity_bytes)?;
        let units = profile.capacity_units();
        let mut device = Device::in_memory(&profile)?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(run.seed);
        let bar = run.monitor.bar(format!("wear, at most {spread}"), units * (1 + OVERWRITINGS));
        let mut host = Host::new(&mut device);
        let mut in_order = 0..units as u32;
        host.write(units, || Lpn(in_order.next().expect("as many as are written")), &bar)?;
        let hot = units as u32 / 10;
        host.write(units * OVERWRITINGS, || Lpn(random.random_range(0..hot)), &bar)?;
        let smart = device.smart();
        let ours = f64::from(smart.erase_count_max - smart.erase_count_min);
        rows.push((format!("wear_spread = {spread}"), check(f64::from(spread), ours)));
    }
    Ok(table("most erases of a block beyond the least, where nine tenths are never written", "erases", rows))
}
