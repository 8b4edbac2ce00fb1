//! The processors that run programs in the drive, as Willow has them (thesis, sections 5.1.6 and 5.2). What they do is in the
//! crate `tantalum-spu`; the drive only has to know them because an image keeps its whole profile, and makes their memory.

use serde::{Deserialize, Serialize};
use tantalum_nand::MAX_NVM_LATENCY_NS;

use super::validate::{InvalidField, invalid};

/// The maximum number of processors: a set of them is a mask of 64 bits.
const MOST_PROCESSORS: u32 = 64;

/// The maximum number of queue pairs: their number takes ten bits of an endpoint's number.
const MOST_QUEUE_PAIRS: u32 = 1024;

/// Bytes that one entry of the permission table takes: 768 of them take 20 KB (thesis, section 5.2).
const PERMISSION_ENTRY_BYTES: u32 = 26;

/// Bytes of a stripe: stripes are dealt out to the processors in turn (thesis, section 5.1.2).
pub const STRIPE_BYTES: u64 = 8 << 10;

/// Bytes of each bank of their memory besides its stripes of the drive: how they manage the bank is up to the processors.
pub const BANK_OVERHEAD_BYTES: u64 = (512 << 10) + 512;

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
    /// Bytes per second on the ring between them, on which one sends at a time.
    pub ring_bytes_per_second: u64,
    /// Bytes per second between ring and host, in each direction.
    pub host_bytes_per_second: u64,
    /// Queue pairs: endpoints that the host may have at once.
    pub queue_pairs: u32,
    /// Instructions after which one call of a handler counts as an endless loop.
    pub handler_instructions: u64,
    /// Their own non-volatile memory, with the drive's capacity. Without it they use the drive's flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<SpuMemoryProfile>,
}

/// Byte-addressable memory that keeps its contents, a bank for each processor (thesis, section 5.2: emulated phase-change
/// memory).
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpuMemoryProfile {
    /// Fixed time of a load, in nanoseconds.
    pub load_ns: u64,
    /// Fixed time of a store, in nanoseconds.
    pub store_ns: u64,
    /// Bytes per second of each bank beyond that.
    pub bytes_per_second: u64,
    /// Stores of a line after which start-gap wear levelling moves a line.
    pub gap_stores: u32,
}

impl SpuMemoryProfile {
    fn validate(&self) -> Result<(), InvalidField> {
        for (field, latency_ns) in
            [("spu.memory.load_ns", self.load_ns), ("spu.memory.store_ns", self.store_ns)]
        {
            if latency_ns > MAX_NVM_LATENCY_NS {
                return Err(invalid(field, latency_ns, format!("it must be at most {MAX_NVM_LATENCY_NS}")));
            }
        }
        if self.bytes_per_second == 0 {
            return Err(invalid("spu.memory.bytes_per_second", 0, "it must be at least 1"));
        }
        if self.gap_stores == 0 {
            return Err(invalid("spu.memory.gap_stores", 0, "it must be at least 1"));
        }
        Ok(())
    }
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
            memory: None,
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

    /// Bytes of each bank of their memory, in a drive of this capacity.
    pub fn bank_bytes(&self, capacity_bytes: u64) -> u64 {
        capacity_bytes.div_ceil(STRIPE_BYTES * u64::from(self.count)) * STRIPE_BYTES + BANK_OVERHEAD_BYTES
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
        self.memory.as_ref().map_or(Ok(()), SpuMemoryProfile::validate)
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
    fn memory_of_their_own_is_checked_and_stored() {
        let memory =
            "[spu.memory]\nload_ns = 48\nstore_ns = 150\nbytes_per_second = 1000\ngap_stores = 100\n";
        let with = |from: &str, to: &str| error(&memory.replace(from, to));
        assert!(with("= 48", "= 2000000000").contains("spu.memory.load_ns is 2000000000"));
        assert!(with("= 1000", "= 0").contains("spu.memory.bytes_per_second is 0"));
        assert!(with("= 100\n", "= 0\n").contains("spu.memory.gap_stores is 0"));
        let profile = Profile::load("willow").unwrap();
        assert_eq!(Profile::from_toml(&profile.to_toml(), "drive.toml").unwrap(), profile);
        let both = Profile { nvm: Profile::load("pebblessd").unwrap().nvm, ..profile.clone() };
        assert_eq!(both.validate().unwrap_err().field, "spu.memory");
        let large = Profile { capacity_bytes: 64 << 30, ..profile };
        assert_eq!(large.validate().unwrap_err().field, "capacity_bytes");
    }

    #[test]
    fn other_processors_are_stored() {
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.spu.count = 2;
        assert_eq!(Profile::from_toml(&profile.to_toml(), "drive.toml").unwrap().spu.count, 2);
    }
}
