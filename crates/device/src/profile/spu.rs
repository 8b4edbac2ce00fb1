//! The processors that run programs in the drive, as Willow has them (thesis, sections 5.1.6 and 5.2).

use serde::{Deserialize, Serialize};

use super::validate::{InvalidField, invalid};

/// The most processors: a set of them is a mask of 64 bits.
const MOST_PROCESSORS: u32 = 64;

/// The most queue pairs: their number takes ten bits of an endpoint's.
const MOST_QUEUE_PAIRS: u32 = 1024;

/// Bytes that one entry of the permission table takes: 768 of them take 20 KB (thesis, section 5.2).
const PERMISSION_ENTRY_BYTES: u32 = 26;

/// The storage processors of a drive, and what connects them. Fields that a profile leaves out are Willow's.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SpuProfile {
    /// How many there are, 1 to 64. Each owns its share of the drive, in stripes of 8 KiB.
    pub count: u32,
    /// Instructions that each executes in a second.
    pub instructions_per_second: u64,
    /// Instruction memory of each, in bytes.
    pub instruction_bytes: u32,
    /// Data memory of each, in bytes; the permission table is in it.
    pub data_bytes: u32,
    /// Entries of each permission table.
    pub permission_entries: u32,
    /// Bytes per second on the ring between them, where one sends at a time.
    pub ring_bytes_per_second: u64,
    /// Bytes per second between ring and host, in each direction.
    pub host_bytes_per_second: u64,
    /// Queue pairs: endpoints that the host may have at once.
    pub queue_pairs: u32,
    /// Instructions after which one call of a handler counts as an endless loop.
    pub handler_instructions: u64,
}

impl Default for SpuProfile {
    /// Willow's prototype (thesis, section 5.2). `handler_instructions` is chosen: 10 ms.
    fn default() -> SpuProfile {
        SpuProfile {
            count: 8,
            instructions_per_second: 125_000_000,
            instruction_bytes: 32 << 10,
            data_bytes: 32 << 10,
            permission_entries: 768,
            ring_bytes_per_second: 3_700_000_000,
            host_bytes_per_second: 2_000_000_000,
            queue_pairs: 1024,
            handler_instructions: 1_250_000,
        }
    }
}

impl SpuProfile {
    pub(super) fn is_default(&self) -> bool {
        *self == SpuProfile::default()
    }

    /// Data memory that the permission table takes, in bytes.
    pub fn table_bytes(&self) -> u32 {
        self.permission_entries * PERMISSION_ENTRY_BYTES
    }

    pub(super) fn validate(&self) -> Result<(), InvalidField> {
        let counts = [
            ("spu.count", u64::from(self.count)),
            ("spu.instructions_per_second", self.instructions_per_second),
            ("spu.permission_entries", self.permission_entries.into()),
            ("spu.ring_bytes_per_second", self.ring_bytes_per_second),
            ("spu.host_bytes_per_second", self.host_bytes_per_second),
            ("spu.queue_pairs", self.queue_pairs.into()),
            ("spu.handler_instructions", self.handler_instructions),
        ];
        if let Some((field, count)) = counts.iter().find(|(_, count)| *count == 0) {
            return Err(invalid(field, count, "it must be at least 1"));
        }
        if self.count > MOST_PROCESSORS {
            return Err(invalid("spu.count", self.count, "it must be at most 64"));
        }
        if self.queue_pairs > MOST_QUEUE_PAIRS {
            return Err(invalid("spu.queue_pairs", self.queue_pairs, "it must be at most 1024"));
        }
        let most = self.data_bytes / PERMISSION_ENTRY_BYTES;
        if self.permission_entries > most {
            let expected = format!("in spu.data_bytes there is room for {most}");
            return Err(invalid("spu.permission_entries", self.permission_entries, expected));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    fn error(section: &str) -> String {
        let text = Profile::load("tlc-nvme").unwrap().to_toml() + "\n[spu]\n" + section;
        Profile::from_toml(&text, "drive.toml").unwrap_err().to_string()
    }

    #[test]
    fn a_profile_without_processors_has_those_of_willow_and_does_not_store_them() {
        let profile = Profile::load("tlc-nvme").unwrap();
        assert_eq!((profile.spu.count, profile.spu.table_bytes()), (8, 19_968));
        assert!(!profile.to_toml().contains("spu"));
    }

    #[test]
    fn impossible_processors_are_rejected_with_the_field() {
        assert!(error("count = 0").contains("spu.count is 0: it must be at least 1"));
        assert!(error("count = 65").contains("spu.count is 65: it must be at most 64"));
        assert!(error("queue_pairs = 1025").contains("spu.queue_pairs is 1025"));
        let table = error("permission_entries = 2000");
        assert!(table.contains("in spu.data_bytes there is room for 1260"), "{table}");
    }

    #[test]
    fn other_processors_are_stored() {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.spu.count = 2;
        assert_eq!(Profile::from_toml(&profile.to_toml(), "drive.toml").unwrap().spu.count, 2);
    }
}
