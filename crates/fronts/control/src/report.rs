//! Statistics of a drive: the part of `tantalum stat` that does not depend on how the drive is used.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tantalum::{Device, Kind, Smart, Usage};

use tantalum_drive::Pacing;

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
