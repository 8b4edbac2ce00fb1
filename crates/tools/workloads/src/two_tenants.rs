//! Two tenants of one drive: a cache that overwrites its units at random, and a log that appends around a ring, and trims the next
//! segment before it writes there.
//!
//! The log leaves whole blocks invalid if nothing else lies in them: by itself it costs no copies. Without placement its units lie
//! among the cache's, and garbage collection moves what the log would soon have overwritten. With a reclaim unit handle for each
//! tenant, the drive keeps them apart. Times are not measured, and the figures do not depend on the machine.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use tantalum::{Command, Device, FdpProfile, Handle, HandleCounters, Isolation, Lpn, Profile, UNIT_BYTES};

use crate::error::WorkloadError;

/// The handle of the cache, and that of the log; what has no handle has the first.
const CACHE: Handle = Handle(1);
const LOG: Handle = Handle(2);

/// Units of one write of the log.
const LOG_UNITS: u32 = 16;

/// Segments of the log's ring.
const SEGMENTS: u32 = 32;

/// How the tenants' data are placed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placed {
    /// Together, as on a drive without handles.
    Together,
    /// With a handle each, until garbage is collected.
    Initially,
    /// With a handle each, always.
    Persistently,
}

/// The load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TwoTenants {
    /// The cache's share of the capacity, percent; the log has the rest.
    pub cache_percent: u32,
    /// The cache's share of the units written, percent.
    pub cache_writes_percent: u32,
    /// How often the capacity is written before the measurement, and as often during it.
    pub rounds: u32,
    /// Seed of the random addresses.
    pub seed: u64,
}

impl Default for TwoTenants {
    /// Half of the drive each, and half of the writes.
    fn default() -> TwoTenants {
        TwoTenants { cache_percent: 50, cache_writes_percent: 50, rounds: 4, seed: 1 }
    }
}

/// What a load cost.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Cost {
    /// Where the data were.
    pub placed: Placed,
    /// Units of data programmed over units that the host wrote.
    pub write_amplification: f64,
    /// The same for the cache; none if the drive does not know.
    pub cache: Option<f64>,
    /// The same for the log.
    pub log: Option<f64>,
    /// Units of a reclaim unit; 0 without placement.
    pub reclaim_unit_units: u64,
}

impl TwoTenants {
    /// Runs the load on a new drive in memory of this profile, whose section `[fdp]` is replaced.
    ///
    /// # Errors
    /// If the drive cannot be made, or what it answers.
    pub fn run(&self, profile: &Profile, placed: Placed) -> Result<Cost, WorkloadError> {
        let with = |isolation| Some(FdpProfile { handles: 3, isolation });
        let fdp = match placed {
            Placed::Together => None,
            Placed::Initially => with(Isolation::Initially),
            Placed::Persistently => with(Isolation::Persistently),
        };
        let profile = Profile { fdp, ..profile.clone() };
        let mut load = Load::new(*self, Device::in_memory(&profile)?);
        load.fill()?;
        load.overwrite()?;
        let (before, handles) = (load.device.smart().counters, load.device.handles());
        load.overwrite()?;
        let done = load.device.smart().counters.since(&before);
        let now = load.device.handles();
        let of_handle = |handle: Handle| -> Option<f64> {
            let counters = |states: &[tantalum::HandleState]| -> Option<HandleCounters> {
                Some(states.get(handle.index())?.counters)
            };
            counters(&now)?.since(&counters(&handles)?).write_amplification()
        };
        let programmed = done.flash_units.host + done.flash_units.copyback;
        Ok(Cost {
            placed,
            write_amplification: programmed as f64 / done.host_units_written.max(1) as f64,
            cache: of_handle(CACHE),
            log: of_handle(LOG),
            reclaim_unit_units: load.device.reclaim_unit_units(),
        })
    }
}

/// A drive under the load.
struct Load {
    settings: TwoTenants,
    device: Device,
    now_ns: u64,
    random: Xoshiro256PlusPlus,
    places: bool,
    /// Units of the cache; those of the log follow.
    cache_units: u32,
    log_units: u32,
    /// Where the log goes on.
    head: u32,
    data: Vec<u8>,
}

impl Load {
    fn new(settings: TwoTenants, device: Device) -> Load {
        let units = device.limits().capacity_units as u32;
        let cache_units = (u64::from(units) * u64::from(settings.cache_percent) / 100) as u32;
        Load {
            settings,
            places: !device.handles().is_empty(),
            device,
            now_ns: 0,
            random: Xoshiro256PlusPlus::seed_from_u64(settings.seed),
            cache_units,
            log_units: units - cache_units,
            head: 0,
            data: vec![1; LOG_UNITS as usize * UNIT_BYTES],
        }
    }

    fn write(&mut self, lpn: u32, units: u32, handle: Handle) -> Result<(), WorkloadError> {
        let data = &self.data[..units as usize * UNIT_BYTES];
        let handle = self.places.then_some(handle);
        let write = Command::Write { lpn: Lpn(lpn), data, fua: false, handle };
        self.now_ns = self.device.submit(write, self.now_ns)?.done_ns;
        Ok(())
    }

    /// The log writes its next units; at the end of its ring it begins anew.
    fn append(&mut self) -> Result<u32, WorkloadError> {
        let segment = self.log_units.div_ceil(SEGMENTS);
        let units = LOG_UNITS.min(segment - self.head % segment).min(self.log_units - self.head);
        if self.head.is_multiple_of(segment) {
            let trim = Command::Trim {
                lpn: Lpn(self.cache_units + self.head),
                units: segment.min(self.log_units - self.head),
            };
            self.now_ns = self.device.submit(trim, self.now_ns)?.done_ns;
        }
        self.write(self.cache_units + self.head, units, LOG)?;
        self.head = (self.head + units) % self.log_units;
        Ok(units)
    }

    /// Every unit is written once.
    fn fill(&mut self) -> Result<(), WorkloadError> {
        for lpn in 0..self.cache_units {
            self.write(lpn, 1, CACHE)?;
        }
        let mut left = self.log_units;
        while left > 0 {
            left -= self.append()?;
        }
        Ok(())
    }

    /// As many units as the drive has are written, `rounds` times.
    fn overwrite(&mut self) -> Result<(), WorkloadError> {
        let mut left = i64::from(self.cache_units + self.log_units) * i64::from(self.settings.rounds);
        // units that the cache is to write, in hundredths
        let mut due = 0;
        while left > 0 {
            let logged = self.append()?;
            let percent = self.settings.cache_writes_percent;
            due += logged * 100 * percent / (100 - percent.min(99));
            left -= i64::from(logged);
            while due >= 100 {
                let lpn = self.random.random_range(0..self.cache_units);
                self.write(lpn, 1, CACHE)?;
                (due, left) = (due - 100, left - 1);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(placed: Placed) -> Cost {
        let mut profile =
            Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").expect("it is built in") };
        (profile.flash.channels, profile.flash.dies_per_channel, profile.flash.planes_per_die) = (2, 1, 1);
        (profile.flash.pages_per_block, profile.over_provisioning_percent) = (16, 14.0);
        let load = TwoTenants { rounds: 2, ..TwoTenants::default() };
        load.run(&profile, placed).expect("the drive has room")
    }

    /// Every block of the log is invalid as a whole before it is collected.
    #[test]
    fn a_log_with_a_handle_of_its_own_costs_no_copies() {
        let [together, initially, apart] =
            [Placed::Together, Placed::Initially, Placed::Persistently].map(cost);
        println!("{together:?}\n{initially:?}\n{apart:?}");
        assert_eq!((together.cache, together.log), (None, None));
        for placed in [initially, apart] {
            let log = placed.log.expect("the drive counts by handle");
            assert!((0.99..1.1).contains(&log), "{placed:?}");
            assert!(
                placed.write_amplification < together.write_amplification - 0.1,
                "{placed:?}, {together:?}"
            );
            assert!(placed.cache.is_some_and(|cache| cache > log));
        }
    }
}
