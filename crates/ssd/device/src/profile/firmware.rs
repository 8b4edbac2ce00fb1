//! The costs of firmware besides decoding commands. Fields that a profile leaves out cost nothing.

use serde::{Deserialize, Serialize};

use super::validate::{InvalidField, invalid};

/// The maximum number of commands at once: the link keeps a time for each.
const MOST_CORES: u32 = 64;

/// The longest time for one command: 1000 s, so that sums of times do not overflow.
const MOST_NS: u64 = 1_000_000_000_000;

/// The firmware of a profile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FirmwareProfile {
    /// Commands that it handles at once, 1 to 64.
    pub cores: u32,
    /// Whether a flush may overlap with other commands. If not, as with SATA's FLUSH CACHE, it begins when all commands
    /// before it are done, and the next one begins when it is done.
    pub queued_flush: bool,
    /// Time of a flush beyond its programs if DRAM is lost with power; in nanoseconds.
    pub flush_ns: u64,
    /// For a read or write of units, which locks their range.
    pub range_ns: u64,
    /// For each record that is put or got.
    pub record_ns: u64,
    /// For a put with a new key.
    pub insert_ns: u64,
}

impl Default for FirmwareProfile {
    fn default() -> FirmwareProfile {
        FirmwareProfile { cores: 1, queued_flush: true, flush_ns: 0, range_ns: 0, record_ns: 0, insert_ns: 0 }
    }
}

impl FirmwareProfile {
    pub(super) fn is_default(&self) -> bool {
        *self == FirmwareProfile::default()
    }

    pub(super) fn validate(&self) -> Result<(), InvalidField> {
        if !(1..=MOST_CORES).contains(&self.cores) {
            return Err(invalid("firmware.cores", self.cores, "it must be from 1 to 64"));
        }
        let times = [
            ("firmware.flush_ns", self.flush_ns),
            ("firmware.range_ns", self.range_ns),
            ("firmware.record_ns", self.record_ns),
            ("firmware.insert_ns", self.insert_ns),
        ];
        validate_times(&times)
    }
}

/// Times of one command, with their fields.
pub(super) fn validate_times(times: &[(&'static str, u64)]) -> Result<(), InvalidField> {
    match times.iter().find(|(_, time_ns)| *time_ns > MOST_NS) {
        Some((field, time_ns)) => Err(invalid(field, time_ns, format!("it must be at most {MOST_NS}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn a_profile_without_firmware_does_not_store_it_and_one_with_it_does() {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        assert!(!profile.to_toml().contains("firmware"));
        profile.firmware.flush_ns = 7;
        let stored = Profile::from_toml(&profile.to_toml(), "drive.toml").unwrap();
        assert_eq!((stored.firmware.flush_ns, stored.firmware.cores), (7, 1));
    }

    #[test]
    fn impossible_firmware_is_rejected_with_the_field() {
        let error = |section: &str| {
            let text = Profile::load("tlc-nvme").unwrap().to_toml() + "\n[firmware]\n" + section;
            Profile::from_toml(&text, "drive.toml").unwrap_err().to_string()
        };
        assert!(error("cores = 0").contains("firmware.cores is 0: it must be from 1 to 64"));
        assert!(error("cores = 65").contains("firmware.cores is 65"));
        assert!(error("flush_ns = 1000000000001").contains("firmware.flush_ns is 1000000000001"));
    }
}
