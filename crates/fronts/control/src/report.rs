//! Statistics of a drive: the part of `tantalum stat` that does not depend on how the drive is used.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tantalum::{Device, HandleCounters, HandleState, Kind, Smart, Usage};

use tantalum_drive::Pacing;

use crate::zones::ZonesReport;

/// The drive's part of a report.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DriveReport {
    /// The image.
    #[serde(with = "crate::path")]
    pub image: PathBuf,
    /// Whether programs see the drive's latencies; none if the image is not in use.
    pub time: Option<Pacing>,
    /// Whether the drive has power. Without power every request fails.
    pub has_power: bool,
    /// The drive's profile.
    pub profile: String,
    /// Logical capacity in units of 4 KiB.
    pub capacity_units: u64,
    /// Units that are mapped: written, and not trimmed since.
    pub mapped_units: u64,
    /// The profile's rated erase cycles of a block.
    pub endurance_cycles: u32,
    /// The drive's own time, in seconds.
    pub device_seconds: f64,
    /// Counters since the drive was created.
    pub smart: Smart,
    /// Flash writes divided by host writes.
    pub write_amplification: f64,
    /// How busy the drive's parts were and how long commands waited, since the image was opened.
    pub usage: Usage,
    /// Latencies of commands in device time, since the image was opened.
    pub latency: Latencies,
    /// Its reclaim unit handles; empty without power, and on a drive without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<HandleReport>,
    /// Its zones; none without power, and on a drive without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZonesReport>,
}

/// A reclaim unit handle. Units are of 4 KiB, and counted since the drive was created.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct HandleReport {
    /// Which one.
    pub handle: u8,
    /// Units that still fit in its reclaim unit.
    pub writable_units: u64,
    /// Units that the host wrote with it.
    pub host_units_written: u64,
    /// Of these, units that were programmed.
    pub flash_host_units: u64,
    /// Units that were moved.
    pub flash_copies: u64,
    /// Units programmed for it over units that the host wrote; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
}

impl HandleReport {
    /// The handles of a device, in order.
    pub fn all(device: &Device) -> Vec<HandleReport> {
        device.handles().iter().map(HandleReport::of).collect()
    }

    fn of(HandleState { handle, writable_units, counters }: &HandleState) -> HandleReport {
        HandleReport {
            handle: handle.0,
            writable_units: *writable_units,
            host_units_written: counters.host_units_written,
            flash_host_units: counters.flash_host_units,
            flash_copies: counters.flash_copies,
            write_amplification: counters.write_amplification(),
        }
    }

    /// The counters alone.
    pub fn counters(&self) -> HandleCounters {
        HandleCounters {
            host_units_written: self.host_units_written,
            flash_host_units: self.flash_host_units,
            flash_copies: self.flash_copies,
        }
    }
}

/// Latencies of commands, by kind.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// Reads.
    pub read: Latency,
    /// Writes.
    pub write: Latency,
    /// Flushes.
    pub flush: Latency,
    /// Share, trim, atomic writes, commits.
    pub map: Latency,
}

/// Latencies of one kind of commands, in nanoseconds of device time.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Number of commands.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The 99.9th percentile.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl DriveReport {
    /// The report of a device now; the caller supplies `image` and how it is used.
    pub fn of(device: &Device, image: PathBuf, time: Option<Pacing>) -> DriveReport {
        let (profile, smart) = (device.profile(), device.smart());
        let latency = |kind| latency(device, kind);
        DriveReport {
            image,
            time,
            has_power: device.has_power(),
            profile: profile.name.clone(),
            capacity_units: device.limits().capacity_units,
            mapped_units: device.mapped_units(),
            endurance_cycles: profile.flash.endurance_cycles,
            device_seconds: device.time_ns() as f64 / 1e9,
            write_amplification: smart.write_amplification(),
            smart,
            usage: device.usage(),
            latency: Latencies {
                read: latency(Kind::Read),
                write: latency(Kind::Write),
                flush: latency(Kind::Flush),
                map: latency(Kind::Map),
            },
            handles: HandleReport::all(device),
            zones: ZonesReport::of(device),
        }
    }
}

fn latency(device: &Device, kind: Kind) -> Latency {
    let histogram = device.latencies().of(kind);
    Latency {
        count: histogram.len(),
        mean_ns: histogram.mean(),
        p50_ns: histogram.value_at_quantile(0.5),
        p99_ns: histogram.value_at_quantile(0.99),
        p999_ns: histogram.value_at_quantile(0.999),
        max_ns: histogram.max(),
    }
}
