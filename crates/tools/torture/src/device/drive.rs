//! The drives of the torture test: so small that everything happens often.
//!
//! Their map has two chunks (of 1,024 entries, the unit of checkpoints and trims). Commands work on both sides of the
//! border, and the second chunk is so small that at times nothing in it is mapped. Most of the first chunk is cold, and
//! the rest is for records. So there is little more flash than what is mapped, and garbage is collected under pressure.

use std::fmt;
use std::ops::Range;

use tantalum::{
    CacheMode, CacheProfile, Faults, FdpProfile, FirmwareProfile, FlashProfile, FlashScheduling, FtlProfile,
    Isolation, LimitsProfile, LinkProfile, NvmProfile, Plp, PowerProfile, Profile, SpuProfile, UNIT_BYTES,
    VictimPolicy,
};
use tantalum_report::InvalidSetting;

use super::lists::LISTS;
use crate::error::CrashError;
use crate::small_flash::small_flash;

/// Units of the drive: one chunk of the map, and a few more.
pub(crate) const UNITS: u32 = 1024 + 4;
/// Units that direct commands work on.
pub(crate) const DIRECT: Range<u32> = UNITS - 48..UNITS;
/// The first of the units that the log's host works on.
pub(crate) const LOG: u32 = DIRECT.start - 32;
/// Units left for records: for themselves, for what a put takes before what it replaces is freed, and for the indexes
/// in two checkpoints.
const RECORD_UNITS: u32 = 64;
const INDEX_BLOCKS: u32 = 2;

/// Extra blocks for drives whose namespaces have their own logs: those take half of what the layout can spare.
const LOG_BLOCKS: u32 = 32;

/// Bytes that the index of each namespace takes here.
const INDEX_BYTES: u64 = 2048;

/// Non-volatile memory.
const NVM_BYTES: u64 = 448 << 10;

/// Units of the cache, unless the seed asks for more.
const CACHE_UNITS: u32 = 16;

/// Units of an atomic batch.
const ATOMIC_UNITS: u32 = 16;

/// Units of the largest write that is all or nothing, by seed: none besides the unit itself, fewer than a page, as many, or more.
const ATOMIC_WRITE_UNITS: [u32; 7] = [1, 4, 2, 1, 3, 8, 5];

/// Reclaim unit handles, of drives that have some.
const HANDLES: u32 = 4;

/// Units that a capacitor can save.
const DUMP_UNITS: u32 = 72;
const PAGE_BYTES: [u32; 3] = [4096, 8192, 16384];

/// Extra units that commands use on drives that become full. Records fill those that are not mapped.
const BULK_UNITS: u32 = 384;

/// Extra blocks of a drive whose flash fails, so that it lives for a while.
const FAULT_BLOCKS: u32 = 10;

/// Faults of the flash (M6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flash {
    /// None.
    Sound,
    /// Programs and erases fail.
    Wears,
    /// In addition, units become unreadable.
    Loses,
}

/// Where the drive is, which determines how it stops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// In memory; power is cut.
    Memory,
    /// In an image, whose process is killed between two stores to the file.
    Image,
    /// In an image on a host that fails: any call on the file may.
    FailingHost,
}

/// How the host places data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Handles {
    /// It does not: the drive has no reclaim unit handles.
    None,
    /// With handles that are kept apart until garbage is collected.
    Initially,
    /// With handles that are always kept apart.
    Persistently,
}

/// A kind of drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DriveKind {
    /// Bytes of a flash page: 4096, 8192 or 16384.
    pub page_bytes: u32,
    /// Where writes are cached.
    pub cache: CacheMode,
    /// What happens to DRAM.
    pub plp: Plp,
    /// Whether key-value namespaces have their own logs.
    pub own_logs: bool,
    /// Whether DRAM has room only for some of their indexes.
    pub swaps: bool,
    /// Whether its host submits a command before the previous one is done.
    pub queues: bool,
    /// Whether its host asks for more space than there is.
    pub full: bool,
    /// How its flash fails.
    pub flash: Flash,
    /// Where it is.
    pub medium: Medium,
    /// How the flash's operations follow each other.
    pub scheduling: FlashScheduling,
    /// Units of the largest write that is all or nothing.
    pub atomic_write_units: u32,
    /// How the host places data.
    pub handles: Handles,
}

impl fmt::Display for DriveKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let logs = if self.own_logs { "own" } else { "shared" };
        let indexes = if self.swaps { "swapped" } else { "resident" };
        let host = if self.queues { "queues" } else { "waits" };
        let (plp, cache, page_bytes) = (self.plp_name(), self.cache_name(), self.page_bytes);
        write!(f, "--plp {plp} --cache {cache} --page-bytes {page_bytes}")?;
        write!(f, " --record-logs {logs} --indexes {indexes} --host {host}")?;
        write!(f, " --room {} --flash {}", self.room_name(), self.flash_name())?;
        write!(f, " --scheduling {}", self.scheduling_name())?;
        write!(f, " --atomic-write-units {} --handles {}", self.atomic_write_units, self.handles_name())?;
        match self.medium {
            Medium::Memory => Ok(()),
            Medium::Image => f.write_str(" --medium image"),
            Medium::FailingHost => f.write_str(" --host-faults"),
        }
    }
}

impl DriveKind {
    /// The protection, as the command line calls it.
    pub fn plp_name(&self) -> &'static str {
        match self.plp {
            Plp::None => "none",
            Plp::Capacitor => "capacitor",
            Plp::Nvm => "nvm",
        }
    }

    /// The cache, as the command line calls it.
    pub fn cache_name(&self) -> &'static str {
        match self.cache {
            CacheMode::Off => "off",
            CacheMode::Volatile => "volatile",
            CacheMode::Durable => "durable",
        }
    }

    /// The room, as the command line calls it.
    pub fn room_name(&self) -> &'static str {
        if self.full { "full" } else { "ample" }
    }

    /// The flash, as the command line calls it.
    pub fn flash_name(&self) -> &'static str {
        match self.flash {
            Flash::Sound => "sound",
            Flash::Wears => "wears",
            Flash::Loses => "loses",
        }
    }

    /// The scheduling, as the command line calls it.
    pub fn scheduling_name(&self) -> &'static str {
        match self.scheduling {
            FlashScheduling::Fifo => "fifo",
            FlashScheduling::ReadFirst => "read-first",
            FlashScheduling::Suspend => "suspend",
        }
    }

    /// The handles, as the command line calls them.
    pub fn handles_name(&self) -> &'static str {
        match self.handles {
            Handles::None => "none",
            Handles::Initially => "initially",
            Handles::Persistently => "persistently",
        }
    }

    /// What its profile says of handles.
    pub(crate) fn fdp(&self) -> Option<FdpProfile> {
        let with = |isolation| Some(FdpProfile { handles: HANDLES, isolation });
        match self.handles {
            Handles::None => None,
            Handles::Initially => with(Isolation::Initially),
            Handles::Persistently => with(Isolation::Persistently),
        }
    }

    /// Units that no command uses, with values that never change: garbage collection moves them along.
    pub(crate) fn cold(&self) -> Range<u32> {
        0..self.bulk().start - RECORD_UNITS - INDEX_BLOCKS * self.units_per_block()
    }

    /// Units that are written and trimmed many at a time, so that the drive becomes full.
    pub(crate) fn bulk(&self) -> Range<u32> {
        LOG - if self.full { BULK_UNITS } else { 0 }..LOG
    }

    /// How the flash fails.
    pub(crate) fn faults(&self, seed: u64) -> Faults {
        let (program_failure_ppm, erase_failure_ppm) = match self.flash {
            Flash::Sound => (0, 0),
            Flash::Wears | Flash::Loses => (1_500, 3_000),
        };
        Faults { seed, program_failure_ppm, erase_failure_ppm, ..Faults::default() }
    }

    fn units_per_block(&self) -> u32 {
        8 * self.page_bytes / UNIT_BYTES as u32
    }

    /// Little more flash than the layout requires, so that garbage is always collected under pressure.
    fn over_provisioning_percent(&self) -> f64 {
        let units_per_block = self.units_per_block();
        let dump_blocks = match self.plp {
            Plp::None | Plp::Nvm => 0,
            Plp::Capacitor => DUMP_UNITS.div_ceil(units_per_block) + 1,
        };
        let log_blocks = if self.own_logs { LOG_BLOCKS } else { 0 };
        let fault_blocks = if self.flash == Flash::Sound { 0 } else { FAULT_BLOCKS };
        let handle_blocks = match self.handles {
            Handles::None => 0,
            Handles::Initially => HANDLES - 1,
            // the dump has blocks of its own for each
            Handles::Persistently if self.plp == Plp::Capacitor => 6 * (HANDLES - 1),
            Handles::Persistently => 5 * (HANDLES - 1),
        };
        let blocks = 20 + dump_blocks + log_blocks + fault_blocks + handle_blocks;
        f64::from(blocks * units_per_block) / f64::from(UNITS) * 100.0
    }

    /// Bytes of the cache. With a capacitor, three of six seeds ask for as much as it can dump: that leaves nothing for
    /// the journal and for partly filled pages, so the drive must limit itself.
    fn cache_bytes(&self, seed: u64) -> u64 {
        let all_of_the_dump = self.plp == Plp::Capacitor && seed / 3 % 2 == 1;
        let units = if all_of_the_dump { DUMP_UNITS } else { CACHE_UNITS };
        let least = if self.plp == Plp::Capacitor { 0 } else { 4 * self.atomic_write_units };
        u64::from(units.max(least)) * UNIT_BYTES as u64
    }

    /// Units of the largest write that may be all or nothing: a quarter of the cache, which a capacitor bounds.
    fn most_atomic_write_units(&self) -> u32 {
        let saved = DUMP_UNITS - 16 * self.page_bytes / UNIT_BYTES as u32;
        match self.plp {
            Plp::Capacitor => CACHE_UNITS.min(saved) / 4,
            Plp::None | Plp::Nvm => ATOMIC_UNITS,
        }
    }

    /// Memory that keeps the metadata log: little more than the least, so that the log fills and the drive takes
    /// checkpoints for it; on some seeds several times as much. On half of the seeds a store is as slow as some programs,
    /// so that power is lost in the middle of it at a given time, too.
    fn nvm(&self, seed: u64) -> Option<NvmProfile> {
        let bytes = if seed % 4 == 3 { NVM_BYTES * 4 } else { NVM_BYTES };
        let (latency_ns, bytes_per_second) =
            if seed.is_multiple_of(2) { (500, 2_000_000_000) } else { (20_000, 200_000_000) };
        (self.plp == Plp::Nvm).then_some(NvmProfile { bytes, latency_ns, bytes_per_second, files: LISTS })
    }

    /// DRAM for indexes, if not all fit: for one, or for two of three if namespaces have their own logs.
    fn index_dram_bytes(&self) -> Option<u64> {
        let indexes = if self.own_logs { 2 } else { 1 };
        self.swaps.then_some(indexes * INDEX_BYTES)
    }

    /// The profile. Seeds differ in planes, victim policy, cache size and checkpoint interval.
    pub(crate) fn profile(&self, seed: u64) -> Profile {
        let policy = if seed.is_multiple_of(3) { VictimPolicy::CostBenefit } else { VictimPolicy::Greedy };
        let dump_units = if self.plp == Plp::Capacitor { DUMP_UNITS } else { 0 };
        let checkpoint_interval_pages = match seed % 15 {
            1 | 6 | 11 => Some(12),
            2 => Some(1),
            7 => Some(1_000_000),
            _ => None,
        };
        let suspends = self.scheduling == FlashScheduling::Suspend;
        Profile {
            name: "torture".into(),
            description: "a drive so small that everything happens often".into(),
            capacity_bytes: u64::from(UNITS) * UNIT_BYTES as u64,
            over_provisioning_percent: self.over_provisioning_percent(),
            flash: FlashProfile {
                scheduling: self.scheduling,
                suspend_ns: suspends.then_some(20_000),
                suspensions: suspends.then_some(2),
                ..small_flash(1 + (seed % 2) as u32, 8, self.page_bytes)
            },
            link: LinkProfile { bytes_per_second: 1_000_000_000, command_ns: 5_000 },
            cache: CacheProfile { mode: self.cache, bytes: self.cache_bytes(seed) },
            nvm: self.nvm(seed),
            firmware: FirmwareProfile::default(),
            spu: SpuProfile::default(),
            fdp: self.fdp(),
            zones: None,
            power: PowerProfile { plp: self.plp, dump_bytes: u64::from(dump_units) * UNIT_BYTES as u64 },
            limits: LimitsProfile {
                atomic_units: ATOMIC_UNITS,
                atomic_write_units: self.atomic_write_units,
                open_transactions: 4,
                shared_owners: 8,
                index_dram_bytes: self.index_dram_bytes(),
            },
            ftl: FtlProfile { victim_policy: policy, wear_spread: 8, checkpoint_interval_pages },
        }
    }
}

/// The selected drives: every kind of each property that is not selected, and the seed's page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DriveChoice {
    /// The protection; `None` for every kind.
    pub plp: Option<Plp>,
    /// The cache; `None` for every kind that goes with the protection.
    pub cache: Option<CacheMode>,
    /// Bytes of a page; `None` for the seed's choice.
    pub page_bytes: Option<u32>,
    /// Whether key-value namespaces have their own logs; `None` for the seed's choice.
    pub own_logs: Option<bool>,
    /// Whether DRAM has room only for some of their indexes; `None` for the seed's choice.
    pub swaps: Option<bool>,
    /// Whether the host submits a command before the previous one is done; `None` for the seed's choice.
    pub queues: Option<bool>,
    /// Whether the host asks for more space than there is; `None` for the seed's choice.
    pub full: Option<bool>,
    /// How flash fails; `None` for flash that does not.
    pub flash: Option<Flash>,
    /// Where the drive is; `None` for memory.
    pub medium: Option<Medium>,
    /// How the flash's operations follow each other; `None` for the seed's choice.
    pub scheduling: Option<FlashScheduling>,
    /// Units of the largest write that is all or nothing; `None` for the seed's choice. At most what the drive's cache allows.
    pub atomic_write_units: Option<u32>,
    /// How the host places data; `None` for the seed's choice.
    pub handles: Option<Handles>,
}

impl DriveChoice {
    /// Fails if no such drive can exist.
    pub fn validate(&self) -> Result<(), CrashError> {
        if let Some(bytes) = self.page_bytes
            && !PAGE_BYTES.contains(&bytes)
        {
            return Err(InvalidSetting::new(
                "--page-bytes",
                bytes,
                "a page of these drives has 4096, 8192 or 16384 bytes",
            )
            .into());
        }
        if let Some(units) = self.atomic_write_units
            && !(1..=ATOMIC_UNITS).contains(&units)
        {
            let expected = "these drives have 1 to 16";
            return Err(InvalidSetting::new("--atomic-write-units", units, expected).into());
        }
        if self.drives(0).is_empty() {
            return Err(
                InvalidSetting::new("--cache", "durable", "a durable cache needs --plp capacitor").into()
            );
        }
        Ok(())
    }

    /// The protections and caches that go together.
    fn kinds(&self) -> Vec<(Plp, CacheMode)> {
        let kinds = [
            (Plp::None, CacheMode::Volatile),
            (Plp::None, CacheMode::Off),
            (Plp::Capacitor, CacheMode::Durable),
            (Plp::Nvm, CacheMode::Volatile),
            (Plp::Nvm, CacheMode::Off),
        ];
        // a capacitor without a cache, or with a volatile one, exists only on request, and so does memory
        if let Some((plp, cache)) = self.plp.zip(self.cache) {
            let can_be = plp == Plp::Capacitor || cache != CacheMode::Durable;
            return can_be.then_some((plp, cache)).into_iter().collect();
        }
        let is_chosen = |(plp, cache): &(Plp, CacheMode)| {
            self.plp.map_or(*plp != Plp::Nvm, |asked| asked == *plp)
                && self.cache.is_none_or(|asked| asked == *cache)
        };
        kinds.into_iter().filter(is_chosen).collect()
    }

    /// The drives of a seed.
    pub(crate) fn drives(&self, seed: u64) -> Vec<DriveKind> {
        let page_bytes = self.page_bytes.unwrap_or(PAGE_BYTES[(seed % 3) as usize]);
        let own_logs = self.own_logs.unwrap_or((2..4).contains(&(seed % 5)));
        let swaps = self.swaps.unwrap_or((1..3).contains(&(seed % 4)));
        let queues = self.queues.unwrap_or((3..6).contains(&(seed % 7)));
        let full = self.full.unwrap_or(seed % 11 == 4);
        let flash = self.flash.unwrap_or(Flash::Sound);
        let medium = self.medium.unwrap_or(Medium::Memory);
        let schedulings = [FlashScheduling::Fifo, FlashScheduling::ReadFirst, FlashScheduling::Suspend];
        let scheduling = self.scheduling.unwrap_or(schedulings[(seed / 2 % 3) as usize]);
        let atomic_write_units = self.atomic_write_units.unwrap_or(ATOMIC_WRITE_UNITS[(seed % 7) as usize]);
        let handles = self.handles.unwrap_or(match seed % 8 {
            3 => Handles::Initially,
            1 | 6 => Handles::Persistently,
            _ => Handles::None,
        });
        let kind = |(plp, cache)| DriveKind {
            page_bytes,
            cache,
            plp,
            own_logs,
            swaps,
            queues,
            full,
            flash,
            medium,
            scheduling,
            atomic_write_units,
            handles,
        };
        let bounded = |kind: DriveKind| DriveKind {
            atomic_write_units: atomic_write_units.min(kind.most_atomic_write_units()),
            ..kind
        };
        self.kinds().into_iter().map(kind).map(bounded).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_drive_that_can_be_chosen_can_be_made() {
        for plp in [Plp::None, Plp::Capacitor, Plp::Nvm] {
            for cache in [CacheMode::Off, CacheMode::Volatile, CacheMode::Durable] {
                for page_bytes in PAGE_BYTES {
                    let choice = DriveChoice {
                        plp: Some(plp),
                        cache: Some(cache),
                        page_bytes: Some(page_bytes),
                        own_logs: Some(true),
                        swaps: Some(true),
                        queues: Some(true),
                        full: Some(true),
                        flash: Some(Flash::Loses),
                        medium: None,
                        scheduling: Some(FlashScheduling::Suspend),
                        atomic_write_units: Some(ATOMIC_UNITS),
                        handles: Some(Handles::Persistently),
                    };
                    assert_eq!(
                        choice.validate().is_ok(),
                        plp == Plp::Capacitor || cache != CacheMode::Durable,
                        "{choice:?}"
                    );
                    for drive in choice.drives(1) {
                        let device = tantalum::Device::in_memory(&drive.profile(1)).unwrap();
                        assert_eq!(device.limits().capacity_units, u64::from(UNITS), "{drive}");
                    }
                }
            }
        }
    }
}
