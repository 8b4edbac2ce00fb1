//! What a drive tells about itself: the part of `tantalum stat` that is the same for all who use it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tantalum::{Device, Kind, Smart};

use crate::answers::Pacing;

/// All that a drive tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DriveReport {
    /// The image.
    pub image: PathBuf,
    /// Whether programs meet the drive's latencies; none if the image is not in use.
    pub time: Option<Pacing>,
    /// Whether the drive has power: without, every request fails.
    pub has_power: bool,
    /// The drive's profile.
    pub profile: String,
    /// Logical capacity in units of 4 KiB.
    pub capacity_units: u64,
    /// What the profile says a block can be erased.
    pub endurance_cycles: u32,
    /// The drive's own time, in seconds.
    pub device_seconds: f64,
    /// Counters since the drive was made.
    pub smart: Smart,
    /// Flash writes over host writes.
    pub write_amplification: f64,
    /// How long commands took in device time, since the image was opened.
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
    /// How many there were.
    pub count: u64,
    /// The mean.
    pub mean_ns: f64,
    /// The median.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1000 took no longer.
    pub p999_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

impl DriveReport {
    /// What a device tells now; `image` and how it is used are the caller's to know.
    pub fn of(device: &Device, image: PathBuf, time: Option<Pacing>) -> DriveReport {
        let (profile, smart) = (device.profile(), device.smart());
        let latency = |kind| latency(device, kind);
        DriveReport {
            image,
            time,
            has_power: device.has_power(),
            profile: profile.name.clone(),
            capacity_units: device.limits().capacity_units,
            endurance_cycles: profile.flash.endurance_cycles,
            device_seconds: device.time_ns() as f64 / 1e9,
            write_amplification: smart.write_amplification(),
            smart,
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
