//! A drive described by a TOML file.

mod cache;
mod firmware;
mod parse;
mod spu;
mod validate;

use serde::{Deserialize, Serialize};

pub use firmware::FirmwareProfile;
pub use parse::ProfileError;
pub use spu::{BANK_OVERHEAD_BYTES, STRIPE_BYTES, SpuMemoryProfile, SpuProfile};
pub use tantalum_ftl::{Isolation, VictimPolicy};
pub use validate::InvalidField;

/// Everything that makes one drive differ from another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What `--profile` calls it.
    pub name: String,
    /// One line of description.
    pub description: String,
    /// Logical capacity in bytes; a multiple of 4 KiB, at least 1 MiB.
    pub capacity_bytes: u64,
    /// Flash beyond the logical capacity, as a percentage of it.
    pub over_provisioning_percent: f64,
    /// The flash.
    pub flash: FlashProfile,
    /// The link to the host.
    pub link: LinkProfile,
    /// The write cache.
    pub cache: CacheProfile,
    /// What happens to DRAM when power fails.
    pub power: PowerProfile,
    /// Byte-addressable memory that keeps its contents, of drives that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvm: Option<NvmProfile>,
    /// The drive's limits for one step.
    pub limits: LimitsProfile,
    /// The FTL's settings.
    pub ftl: FtlProfile,
    /// The handles with which the host places data, of drives that have some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fdp: Option<FdpProfile>,
    /// Zones that the host fills in order, beside the capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zones: Option<ZonesProfile>,
    /// The firmware's times besides the link's.
    #[serde(default, skip_serializing_if = "FirmwareProfile::is_default")]
    pub firmware: FirmwareProfile,
    /// The processors for programs in the drive.
    #[serde(default, skip_serializing_if = "SpuProfile::is_default")]
    pub spu: SpuProfile,
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
    /// Pages in each block; fewer if the capacity is too small for blocks of this size.
    pub pages_per_block: u32,
    /// Data bytes of a page: 4096, 8192 or 16384.
    pub page_bytes: u32,
    /// Reading a page into the plane's register, in nanoseconds.
    pub read_ns: u64,
    /// Programming a page from the register.
    pub program_ns: u64,
    /// Erasing a block.
    pub erase_ns: u64,
    /// Bytes per second between controller and register, for each channel.
    pub channel_bytes_per_second: u64,
    /// How the operations of a plane follow each other.
    #[serde(default)]
    pub scheduling: FlashScheduling,
    /// What an interruption costs a program or erase, in nanoseconds; only with `suspend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend_ns: Option<u64>,
    /// How often a program or erase can be interrupted; only with `suspend`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspensions: Option<u32>,
    /// Rated program/erase cycles of a block.
    pub endurance_cycles: u32,
    /// Number of blocks that are bad from the factory, among those that make up capacity and over-provisioning.
    #[serde(default)]
    pub factory_bad_blocks: u32,
}

/// How the operations of a plane follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlashScheduling {
    /// First come, first served.
    #[default]
    Fifo,
    /// A read goes ahead of programs and erases that have not begun, and programs for hosts go ahead of those of
    /// garbage collection.
    ReadFirst,
    /// A read also interrupts a program or erase that has begun.
    Suspend,
}

/// The link and the firmware of a profile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkProfile {
    /// Bytes per second between host and drive.
    pub bytes_per_second: u64,
    /// Time of link protocol and firmware for each command, in nanoseconds.
    pub command_ns: u64,
}

/// Where writes are cached.
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
    /// Where writes are cached.
    pub mode: CacheMode,
    /// The size in bytes.
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
    /// DRAM is lost. The journal and the checkpoints are in non-volatile memory instead of on flash.
    Nvm,
}

/// What happens when power fails.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerProfile {
    /// The protection.
    pub plp: Plp,
    /// Bytes that the capacitor can dump.
    pub dump_bytes: u64,
}

/// Byte-addressable memory that keeps its contents (NVM; Jin's thesis, chapter 4, calls it BAM).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmProfile {
    /// The size in bytes.
    pub bytes: u64,
    /// Fixed time of an access, in nanoseconds.
    pub latency_ns: u64,
    /// Bytes per second beyond that.
    pub bytes_per_second: u64,
    /// Files that may have a list of what `fs_write` wrote to them; 0 for a drive without such lists.
    #[serde(default)]
    pub files: u32,
}

/// The drive's limits for one step.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsProfile {
    /// Units in one `write_atomic`.
    pub atomic_units: u32,
    /// Units of the largest write that is all or nothing, wherever it lies.
    #[serde(default = "one_unit", skip_serializing_if = "is_one_unit")]
    pub atomic_write_units: u32,
    /// Transactions open at once.
    pub open_transactions: u32,
    /// Extra owners of shared units that the drive's DRAM holds; further ones spill to flash.
    pub shared_owners: u32,
    /// DRAM for the indexes of key-value namespaces, in bytes; beyond it, the least recently used indexes are swapped
    /// out to flash. By default there is room for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_dram_bytes: Option<u64>,
}

/// A unit is never torn.
fn one_unit() -> u32 {
    1
}

fn is_one_unit(units: &u32) -> bool {
    *units == 1
}

/// Placement by the host (flexible data placement, NVMe TP4146).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FdpProfile {
    /// Reclaim unit handles, 1 to 128.
    pub handles: u32,
    /// How far what is written with different handles is kept apart.
    pub isolation: Isolation,
}

/// Zones: blocks that the host fills in order (NVMe's zoned namespaces).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonesProfile {
    /// Number of zones.
    pub count: u32,
    /// Blocks of a zone, each on a plane of its own.
    pub planes: u32,
    /// Zones that may be open at once.
    pub max_open: u32,
    /// Zones that may be active at once: open, or closed with data.
    pub max_active: u32,
}

/// The FTL's settings in a profile.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FtlProfile {
    /// How victims are chosen.
    pub victim_policy: VictimPolicy,
    /// Erase-count spread at which cold blocks are moved (static wear levelling).
    pub wear_spread: u32,
    /// Data pages programmed, including copies, after which a checkpoint is taken. By default checkpoints take a 64th
    /// of host writes ([`tantalum_ftl::CheckpointInterval::DEFAULT`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_interval_pages: Option<u64>,
}
