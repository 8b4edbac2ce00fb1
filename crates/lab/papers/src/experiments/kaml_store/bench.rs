//! A load of some size on a drive, and the results of a run.

use tantalum::{Device, Nanoseconds, Profile, UNIT_BYTES, Usage};
use tantalum_workloads::kaml::Load;

use crate::experiments::Run;
use crate::experiments::binds::Phase;

/// Other data's share of the capacity, overwritten at random until garbage collection is steady.
pub(in crate::experiments) const OTHER_PERCENT: u64 = 40;

/// Measured transactions at scale 1.
pub(in crate::experiments) const TRANSACTIONS: u64 = 20_000;

/// The results of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) per_second: f64,
    pub(super) conflicts: u64,
    /// The time that a transaction of one client waits for the drive.
    pub(super) drive_us: f64,
    pub(super) phase: Phase,
}

impl Measured {
    pub(super) fn between(
        start_ns: Nanoseconds,
        end_ns: Nanoseconds,
        host_ns: Nanoseconds,
        transactions: u64,
        conflicts: u64,
        usage: Usage,
    ) -> Measured {
        let (taken_ns, transactions) = (end_ns - start_ns, transactions as f64);
        Measured {
            per_second: transactions * 1e9 / taken_ns as f64,
            conflicts,
            phase: Phase { usage, elapsed_ns: taken_ns },
            drive_us: taken_ns.saturating_sub(host_ns) as f64 / transactions / 1e3,
        }
    }
}

/// A load of some size, on a drive.
pub(super) struct Bench<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) load: Load,
    pub(super) units: u64,
    /// Only other data; for records.
    pub(super) aged: &'a Device,
}

impl Bench<'_> {
    pub(super) fn transactions(&self) -> u64 {
        self.run.scaled(TRANSACTIONS, 1000)
    }

    /// Bytes of all records.
    pub(super) fn bytes(&self) -> u64 {
        self.load.tables(self.units).iter().map(|table| table.records * table.value_bytes as u64).sum()
    }
}

/// Units of other data.
pub(in crate::experiments) fn other_units(profile: &Profile) -> u32 {
    (profile.capacity_bytes * OTHER_PERCENT / 100 / UNIT_BYTES as u64) as u32
}
