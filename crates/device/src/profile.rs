//! A drive, as a TOML file.

mod parse;
mod validate;

use serde::{Deserialize, Serialize};

pub use parse::ProfileError;
pub use validate::InvalidField;

/// Everything that makes one drive differ from another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What `--profile` calls it.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Logical capacity in bytes; a multiple of 4 KiB, at least 1 MiB.
    pub capacity_bytes: u64,
    /// Flash beyond the logical capacity, as a share of the logical capacity.
    pub over_provisioning_percent: f64,
    /// The flash.
    pub flash: FlashProfile,
    /// The way to the host.
    pub link: LinkProfile,
    /// The write cache.
    pub cache: CacheProfile,
    /// What happens to DRAM when power goes.
    pub power: PowerProfile,
    /// What the drive does in one step.
    pub limits: LimitsProfile,
    /// How the FTL works.
    pub ftl: FtlProfile,
}

/// The flash of a profile. Blocks per plane follow from capacity and over-provisioning.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashProfile {
    /// Buses between controller and dies.
    pub channels: u32,
    /// Dies on each channel.
    pub dies_per_channel: u32,
    /// Planes in each die.
    pub planes_per_die: u32,
    /// Pages in each block; fewer when the capacity is too small for blocks as large.
    pub pages_per_block: u32,
    /// Data bytes of a page: 4096, 8192 or 16384.
    pub page_bytes: u32,
    /// Reading a page into the plane's register, in nanoseconds.
    pub read_ns: u64,
    /// Programming a page from the register.
    pub program_ns: u64,
    /// Erasing a block.
    pub erase_ns: u64,
    /// Bytes a second between controller and register, for each channel.
    pub channel_bytes_per_second: u64,
    /// Program/erase cycles that a block is rated for.
    pub endurance_cycles: u32,
    /// Blocks that are bad from the factory, of all that capacity and over-provisioning make.
    #[serde(default)]
    pub factory_bad_blocks: u32,
}

/// The link and the firmware of a profile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkProfile {
    /// Bytes a second between host and drive.
    pub bytes_per_second: u64,
    /// Time that each command takes in link protocol and firmware, in nanoseconds.
    pub command_ns: u64,
}

/// Where writes wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheMode {
    /// A write completes when it is on flash.
    Off,
    /// A write completes in DRAM, which is lost with power.
    Volatile,
    /// A write completes in DRAM, which the capacitor dumps (DuraSSD); flush only orders.
    Durable,
}

/// The write cache of a profile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheProfile {
    /// Its kind.
    pub mode: CacheMode,
    /// Its size.
    pub bytes: u64,
}

/// Power-loss protection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Plp {
    /// DRAM is lost.
    None,
    /// A capacitor dumps up to `dump_bytes`.
    Capacitor,
}

/// What happens when power goes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerProfile {
    /// The protection.
    pub plp: Plp,
    /// What the capacitor can dump.
    pub dump_bytes: u64,
}

/// What the drive does in one step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsProfile {
    /// Units in one `write_atomic`.
    pub atomic_units: u32,
    /// Transactions open at once.
    pub open_transactions: u32,
    /// Extra owners of shared units that the drive's DRAM holds; more spill to flash.
    pub shared_owners: u32,
    /// Bytes of the drive's DRAM for the indexes of key-value namespaces; those used longest ago are swapped out to flash
    /// where all take more. Without it there is room for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_dram_bytes: Option<u64>,
}

/// How a victim of garbage collection is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimPolicy {
    /// Fewest valid units.
    Greedy,
    /// Most freed for the work, older blocks first.
    CostBenefit,
}

/// How the FTL of a profile works.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlProfile {
    /// How victims are chosen.
    pub victim_policy: VictimPolicy,
    /// Erase-count spread at which cold blocks are moved (static wear levelling).
    pub wear_spread: u32,
    /// Data pages programmed, copies included, after which a checkpoint is taken. Without it checkpoints take a 64th of
    /// host writes ([`tantalum_ftl::CheckpointInterval::DEFAULT`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_interval_pages: Option<u64>,
}
