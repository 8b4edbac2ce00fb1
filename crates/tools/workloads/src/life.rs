//! How long a drive lasts at the rate at which it was written.

use serde::Serialize;
use tantalum::{Counters, Profile, UNIT_BYTES};
use tantalum_report::{DAYS_PER_YEAR, WARRANTY_YEARS, figure_text, terabytes};

const SECONDS_PER_DAY: f64 = 86_400.0;

/// Days of a year on average, with leap years.
const DAYS_PER_MEAN_YEAR: f64 = 365.25;

/// The drive's lifetime.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Life {
    /// Days until its rated erases are used up at this rate; `None` if nothing was written to flash.
    pub days: Option<f64>,
    /// Drive writes per day: how often the drive's capacity is written each day at this rate.
    pub drive_writes_per_day: f64,
    /// How often a day its capacity may be written like this for five years; `None` if nothing was written to flash.
    pub allowed_drive_writes_per_day: Option<f64>,
    /// Bytes that can still go to its flash.
    pub flash_bytes_left: f64,
    /// Bytes that hosts may still write like this (TBW); `None` if nothing was written to flash.
    pub host_bytes_left: Option<f64>,
}

impl Life {
    /// At the rate of these counters in this many seconds, for a drive with this mean erase count.
    pub fn of(profile: &Profile, erased: f64, counters: &Counters, seconds: f64) -> Life {
        let physical_units = profile.geometry().map_or(0, |geometry| u64::from(geometry.units()));
        let cycles = (f64::from(profile.flash.endurance_cycles) - erased).max(0.0);
        let flash_bytes_left = unit_bytes(physical_units) as f64 * cycles;
        let days = seconds / SECONDS_PER_DAY;
        let flash_bytes = unit_bytes(counters.flash_units.total()) as f64;
        let drive_bytes = unit_bytes(counters.host_units_written) as f64;
        let capacity = profile.capacity_bytes as f64;
        let writes_flash = flash_bytes > 0.0 && days > 0.0;
        let host_bytes_left = writes_flash.then(|| flash_bytes_left * (drive_bytes / flash_bytes));
        Life {
            days: writes_flash.then(|| flash_bytes_left / (flash_bytes / days)),
            drive_writes_per_day: if days > 0.0 { drive_bytes / days / capacity } else { 0.0 },
            allowed_drive_writes_per_day: host_bytes_left
                .map(|left| left / (capacity * WARRANTY_YEARS * DAYS_PER_YEAR)),
            flash_bytes_left,
            host_bytes_left,
        }
    }

    /// The days as text, and the years if they are many.
    pub fn days_text(&self) -> String {
        match self.days {
            None => "unlimited: nothing went to flash".to_owned(),
            Some(days) if days >= 2.0 * DAYS_PER_MEAN_YEAR => {
                format!("{} days ({} years)", figure_text(days), figure_text(days / DAYS_PER_MEAN_YEAR))
            }
            Some(days) => format!("{} days", figure_text(days)),
        }
    }

    /// As text: names and values.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = vec![
            ("life at this rate", self.days_text()),
            ("drive writes per day", figure_text(self.drive_writes_per_day)),
        ];
        lines.extend(
            self.allowed_drive_writes_per_day.map(|allowed| ("allowed for five years", figure_text(allowed))),
        );
        lines.extend(self.host_bytes_left.map(|left| ("may still be written", terabytes(left))));
        lines
    }
}

/// The bytes of a number of units.
pub fn unit_bytes(units: u64) -> u64 {
    units * UNIT_BYTES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_what_is_left_of_the_flash_at_this_rate() {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = 1 << 30;
        let mut counters = Counters { host_units_written: 1 << 18, ..Counters::default() };
        counters.flash_units.host = 1 << 19;
        // the whole drive in half a day, and twice that to flash
        let life = Life::of(&profile, 0.0, &counters, SECONDS_PER_DAY / 2.0);
        assert_eq!(life.drive_writes_per_day, 2.0);
        let physical = unit_bytes(profile.geometry().unwrap().units().into()) as f64;
        assert_eq!(life.flash_bytes_left, physical * 3000.0);
        assert_eq!(life.days, Some(physical * 3000.0 / (4.0 * (1u64 << 30) as f64)));
        assert_eq!(life.host_bytes_left, Some(physical * 1500.0));
        let half = Life::of(&profile, 1500.0, &counters, SECONDS_PER_DAY / 2.0);
        assert_eq!(half.days, life.days.map(|days| days / 2.0));
        let idle = Life::of(&profile, 0.0, &Counters::default(), 1.0);
        assert_eq!((idle.days, idle.allowed_drive_writes_per_day, idle.host_bytes_left), (None, None, None));
    }
}
