//! How much flash each purpose gets, computed once from geometry and configuration.
//!
//! Everything that is not host data is counted here, so that a full drive can still collect garbage, journal,
//! checkpoint, dump and recover (hazard 11 of docs/internals/hazards.md). Bad blocks count as absent: as their number grows, the
//! streams become narrower, down to the minimum that the drive needs to accept writes.

use tantalum_nand::{Geometry, UNIT_BYTES};

use super::VictimPolicy;
use crate::error::LayoutError;
use crate::file_lists::ListsPlan;
use crate::map::OPEN_LOGS;
use crate::placement::{Handle, Isolation, PlacementConfig, STORED_HANDLE_BYTES};
use crate::zones::{ZONE_BYTES, ZonesConfig};

/// When a checkpoint is due, given what recovery would have to read since the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CheckpointInterval {
    /// After this many data pages, including copies. It bounds what recovery reads, but not what checkpoints cost: that
    /// grows with write amplification.
    Pages(u64),
    /// When the host has written this many units for each unit that the checkpoint would take. It bounds the cost of
    /// checkpoints, at that fraction of the host's writes whatever the workload, and with it what recovery reads: this
    /// many times the checkpoint, times write amplification.
    HostUnitsForEachUnit(u64),
}

impl CheckpointInterval {
    /// The default. Checkpoints take 1/64 = 1.6 % of host writes, below the 2 % allowed, on an empty drive as on a full
    /// one; a full drive takes a checkpoint after a sixteenth of its capacity was written. A longer interval saves
    /// little and lengthens recovery in proportion: docs/recovery.md has the figures.
    pub const DEFAULT: CheckpointInterval = CheckpointInterval::HostUnitsForEachUnit(64);
}

/// The configuration of a drive's FTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FtlConfig {
    /// Logical capacity in units, with those for the tails of zones at the end.
    pub logical_units: u32,
    /// How victims are chosen.
    pub victim_policy: VictimPolicy,
    /// Erase-count spread at which cold blocks are moved.
    pub wear_spread: u32,
    /// Units that a capacitor can program after power fails; 0 without a capacitor.
    pub dump_units: u32,
    /// Units that may wait in DRAM that a capacitor protects; 0 without a capacitor.
    pub protected_units: u32,
    /// Units that enter protected DRAM in one step, at most.
    pub units_at_once: u32,
    /// Extra owners that the drive's DRAM holds; beyond that, moving a shared unit costs a read of the spilled table.
    pub shared_owners: u32,
    /// Non-volatile memory for the metadata log, in bytes; with `None` the log is on flash.
    pub nvm_log_bytes: Option<u64>,
    /// Where non-volatile memory has the lists of files, if it has any.
    pub file_lists: Option<ListsPlan>,
    /// When a checkpoint is due.
    pub checkpoint_interval: CheckpointInterval,
    /// DRAM for the indexes of key-value namespaces, in bytes; if all take more, the least recently used are on flash
    /// only. `None` means room for all.
    pub index_dram_bytes: Option<u64>,
    /// The handles with which the host places data; `None` for a drive without placement.
    pub placement: Option<PlacementConfig>,
    /// The zones; `None` for a drive without.
    pub zones: Option<ZonesConfig>,
}

impl FtlConfig {
    /// Whether a capacitor protects DRAM.
    #[inline]
    pub fn has_plp(&self) -> bool {
        self.dump_units > 0
    }

    /// Handles, and so streams of the host: one without placement.
    pub fn handles(&self) -> u32 {
        self.placement.map_or(1, |placement| placement.handles)
    }

    /// Blocks kept for zones.
    pub fn zone_blocks(&self) -> u32 {
        self.zones.map_or(0, |zones| zones.planned_blocks())
    }

    /// Whether copies of different handles are kept apart as well.
    pub fn isolates(&self) -> bool {
        self.placement.is_some_and(|placement| placement.isolation == Isolation::Persistently)
    }

    /// Whether two units may lie in one block, by their handles, wherever the drive puts them.
    pub(crate) fn lane(&self, handle: Handle) -> Handle {
        if self.isolates() { handle } else { Handle::DEFAULT }
    }
}

/// The plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The fewest good blocks with which the drive accepts writes: the logical capacity, and what is needed in
    /// addition.
    pub least_blocks: u32,
    /// Bytes of the largest checkpoint, without indexes of key-value namespaces.
    pub checkpoint_bytes: u64,
    /// Blocks that it fills; 0 if it is stored in memory.
    pub checkpoint_blocks: u32,
    /// Journal blocks after which a checkpoint is taken.
    pub journal_blocks: u32,
    /// Blocks kept erased for a dump.
    pub dump_blocks: u32,
    /// Handles of the host, each with a stream of its own; 0 without placement, where there is one stream.
    pub handles: u32,
    /// Whether the copies of each handle have a stream of their own.
    pub isolates: bool,
    /// Planes on which each stream of the host keeps a block open: the blocks of a reclaim unit.
    pub host_width: u32,
    /// Planes on which each stream of copies keeps a block open.
    pub collect_width: u32,
    /// Blocks that the logs of key-value namespaces may take in addition: their open blocks, and one in reserve for
    /// each namespace. Half of what is left for them; the other half lets garbage accumulate.
    pub log_blocks: u32,
    /// Total owners beyond the first that all shared units may have.
    pub extra_owners_limit: u32,
    /// Maximum number of living hints.
    pub hints_limit: u32,
    /// Units that open transactions may hold in total.
    pub transaction_units_limit: u32,
}

/// Journal blocks that are always kept available.
pub const JOURNAL_RESERVE_BLOCKS: u32 = 2;

/// Maximum bytes that a claim's owner, a hint with its attempt, an open log, and the fixed part take in a checkpoint.
const OWNER_BYTES: u64 = 20;
const HINT_BYTES: u64 = 72;
const LOG_BYTES: u64 = 24;
const FIXED_BYTES: u64 = 64 * 1024;

/// Units that open transactions may hold in total if the log is in memory: a commit of all of them must fit in it.
const NVM_TRANSACTION_UNITS: u32 = 1 << 16;

/// Owners beyond the first, if checkpoints are in memory: the two places for checkpoints must leave room there
/// (PebbleSSD's maps take 60 % of it, section 4.4.5 of the thesis).
const NVM_OWNERS: u32 = 1 << 20;

/// Living hints, if checkpoints are in memory.
const NVM_HINTS: u32 = 1 << 16;

/// Bytes of the whole L2P in a checkpoint: chunks of 1,024 entries of four bytes, each with its number.
pub fn map_bytes(logical_units: u32) -> u64 {
    u64::from(logical_units).div_ceil(1024) * (4096 + 4)
}

impl Layout {
    /// Plans a new drive with `bad_blocks` bad blocks, or explains why there is too little flash.
    pub fn plan(geometry: &Geometry, config: &FtlConfig, bad_blocks: u32) -> Result<Layout, LayoutError> {
        geometry.validate()?;
        let good_blocks = geometry.blocks().saturating_sub(bad_blocks);
        let logical_blocks = config.logical_units.div_ceil(geometry.units_per_block());
        let layout = Layout::with_good_blocks(geometry, config, good_blocks);
        if good_blocks >= layout.least_blocks {
            return Ok(layout);
        }
        let needed_blocks = layout.least_blocks - logical_blocks;
        let (physical_blocks, handles) = (good_blocks, layout.handles);
        let without =
            Layout::with_good_blocks(geometry, &FtlConfig { placement: None, ..*config }, good_blocks);
        Err(match layout.least_blocks - without.least_blocks {
            handle_blocks if handle_blocks > 0 && good_blocks >= without.least_blocks => {
                LayoutError::TooLittleForHandles {
                    physical_blocks,
                    logical_blocks,
                    needed_blocks,
                    handles,
                    handle_blocks,
                }
            }
            _ => LayoutError::TooLittleFlash { physical_blocks, logical_blocks, needed_blocks },
        })
    }

    /// The plan for this many good blocks, even if they are fewer than [`Layout::least_blocks`].
    pub fn with_good_blocks(geometry: &Geometry, config: &FtlConfig, good_blocks: u32) -> Layout {
        let units_per_block = geometry.units_per_block();
        let block_bytes = block_bytes(geometry);
        let logical = config.logical_units;
        let on_flash = config.nvm_log_bytes.is_none();
        let extra_owners_limit = (logical / 8).clamp(256, if on_flash { u32::MAX } else { NVM_OWNERS });
        let hints_limit = (logical / 32).clamp(256, if on_flash { 1 << 20 } else { NVM_HINTS });
        let checkpoint_bytes = checkpoint_bytes(geometry, logical, extra_owners_limit, hints_limit)
            + placement_bytes(geometry, config)
            + zone_bytes(config);
        let checkpoint_blocks = if on_flash { checkpoint_bytes.div_ceil(block_bytes) as u32 } else { 0 };
        let journal_reserve = if on_flash { JOURNAL_RESERVE_BLOCKS } else { 0 };
        // one more for the journal page and for partly filled pages; blocks of their own for units that are kept apart
        let lanes = if config.isolates() { config.handles() } else { 1 };
        let dump_blocks = match config.dump_units {
            0 => 0,
            units => units.div_ceil(units_per_block) + lanes,
        };
        let logical_blocks = logical.div_ceil(units_per_block);
        let fixed = 2 * checkpoint_blocks + journal_reserve + dump_blocks;
        let zone_blocks = config.zone_blocks();
        // the minimum: one open block for each stream, a victim, and some slack in which garbage can accumulate
        let slack = (logical_blocks / 50).max(2);
        let more = config.handles() - 1;
        let least = fixed + slack + 5 + more * handle_blocks(config);
        let spare = good_blocks.saturating_sub(logical_blocks + zone_blocks);
        let handle_slack = if config.isolates() { more * HANDLE_SLACK } else { 0 };
        let for_streams = spare.saturating_sub(fixed + slack + 3 + handle_slack);
        // open blocks and the reserve take half of it
        let widths = if config.isolates() { 3 * more + 4 } else { 2 * more + 4 };
        let width = (for_streams / widths).clamp(1, geometry.planes());
        let journal_blocks = (8 * checkpoint_blocks).min(spare / 12).max(journal_reserve);
        Layout {
            least_blocks: logical_blocks + zone_blocks + least,
            checkpoint_bytes,
            checkpoint_blocks,
            journal_blocks,
            dump_blocks,
            handles: config.placement.map_or(0, |placement| placement.handles),
            isolates: config.isolates(),
            host_width: width,
            collect_width: width.div_ceil(2),
            log_blocks: for_streams.saturating_sub(widths * width + journal_blocks) / 2,
            extra_owners_limit,
            hints_limit,
            transaction_units_limit: match on_flash {
                true => slack * units_per_block / 2,
                false => (slack * units_per_block / 2).min(NVM_TRANSACTION_UNITS),
            },
        }
    }
}

/// Blocks of garbage that a handle may have that is kept apart and that collecting does not gain: less than a block, and what
/// fills pages up.
const HANDLE_SLACK: u32 = 2;

/// Blocks that each handle but the first takes at least: an open one for the host; if handles are kept apart, another one for
/// copies, one in reserve for these, and its garbage.
fn handle_blocks(config: &FtlConfig) -> u32 {
    if config.isolates() { 3 + HANDLE_SLACK } else { 1 }
}

/// The most bytes of a checkpoint that placement takes: the counters of the handles, and the open blocks of their streams.
fn placement_bytes(geometry: &Geometry, config: &FtlConfig) -> u64 {
    let open_blocks = 2 * u64::from(geometry.planes()) * size_of::<u64>() as u64;
    config.placement.map_or(0, |placement| u64::from(placement.handles) * (STORED_HANDLE_BYTES + open_blocks))
}

/// The bytes of a checkpoint that zones take.
fn zone_bytes(config: &FtlConfig) -> u64 {
    let (zone, column) = ZONE_BYTES;
    config.zones.map_or(0, |zones| u64::from(zones.count) * zone + u64::from(zones.blocks()) * column)
}

fn block_bytes(geometry: &Geometry) -> u64 {
    u64::from(geometry.units_per_block()) * UNIT_BYTES as u64
}

/// The most bytes of a checkpoint: the map, owners beyond the first, hints, logs, and a bit for each block.
fn checkpoint_bytes(geometry: &Geometry, logical: u32, owners: u32, hints: u32) -> u64 {
    map_bytes(logical)
        + u64::from(owners) * OWNER_BYTES
        + u64::from(hints) * HINT_BYTES
        + OPEN_LOGS as u64 * LOG_BYTES
        + FIXED_BYTES.min(block_bytes(geometry))
        + u64::from(geometry.blocks()) / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::CONFIG;

    /// Blocks of 256 units, 1 MiB.
    const GEOMETRY: Geometry = Geometry {
        channels: 4,
        dies_per_channel: 1,
        planes_per_die: 1,
        blocks_per_plane: 1000,
        pages_per_block: 64,
        page_bytes: 4 * UNIT_BYTES as u32,
    };

    /// 3,125 blocks, 782 chunks of the map.
    const LOGICAL: FtlConfig = FtlConfig { logical_units: 800_000, ..CONFIG };

    /// With a capacitor that fills three blocks.
    const DUMPS: FtlConfig = FtlConfig { dump_units: 600, ..LOGICAL };

    #[test]
    fn all_that_is_not_the_hosts_data_has_its_blocks() {
        let expected = Layout {
            least_blocks: 3125 + 2 * 7 + 2 + 62 + 5,
            checkpoint_bytes: 782 * 4100 + 100_000 * 20 + 25_000 * 72 + 256 * 24 + 65_536 + 500,
            checkpoint_blocks: 7,
            journal_blocks: 8 * 7,
            dump_blocks: 0,
            handles: 0,
            isolates: false,
            host_width: 4,
            collect_width: 2,
            // 875 blocks beyond the logical ones, less 81, the streams' 16 and the journal's 56
            log_blocks: (875 - 81 - 16 - 56) / 2,
            extra_owners_limit: 100_000,
            hints_limit: 25_000,
            transaction_units_limit: 62 * 256 / 2,
        };
        assert_eq!(Layout::plan(&GEOMETRY, &LOGICAL, 0), Ok(expected));
    }

    /// The fewer good blocks there are, the shorter the journal and the narrower the streams.
    #[test]
    fn what_a_dump_takes_is_planned_and_the_rest_follows_the_good_blocks() {
        let plan = |good_blocks| {
            let plan = Layout::with_good_blocks(&GEOMETRY, &DUMPS, good_blocks);
            assert_eq!((plan.dump_blocks, plan.least_blocks), (4, 3125 + 2 * 7 + 2 + 4 + 62 + 5));
            (plan.journal_blocks, plan.host_width, plan.collect_width, plan.log_blocks)
        };
        assert_eq!(plan(3125 + 300), (300 / 12, 4, 2, (300 - 85 - 16 - 25) / 2));
        assert_eq!(plan(3125 + 85 + 9), (94 / 12, 2, 1, 0));
        assert_eq!(plan(3125), (2, 1, 1, 0));
    }

    #[test]
    fn a_log_in_memory_takes_no_blocks_and_bounds_transactions() {
        let in_memory = FtlConfig { nvm_log_bytes: Some(1 << 20), ..LOGICAL };
        let plan = Layout::plan(&GEOMETRY, &in_memory, 0).unwrap();
        assert_eq!((plan.checkpoint_blocks, plan.journal_blocks, plan.least_blocks), (0, 0, 3125 + 62 + 5));
        assert_eq!(plan.transaction_units_limit, 62 * 256 / 2);
        let large = Geometry { pages_per_block: 1024, ..GEOMETRY };
        let plan = Layout::plan(&large, &FtlConfig { logical_units: 13_107_200, ..in_memory }, 0).unwrap();
        assert_eq!(plan.transaction_units_limit, NVM_TRANSACTION_UNITS, "less than 64 * 4096 / 2");
    }

    #[test]
    fn bad_blocks_count_as_absent() {
        let least = Layout::plan(&GEOMETRY, &LOGICAL, 0).unwrap().least_blocks;
        assert!(Layout::plan(&GEOMETRY, &LOGICAL, 4000 - least).is_ok());
        let refused = Layout::plan(&GEOMETRY, &LOGICAL, 4001 - least);
        let (physical_blocks, logical_blocks) = (least - 1, 3125);
        let needed_blocks = least - logical_blocks;
        let expected = LayoutError::TooLittleFlash { physical_blocks, logical_blocks, needed_blocks };
        assert_eq!(refused, Err(expected));
    }
}
