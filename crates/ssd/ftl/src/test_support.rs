//! A small drive for tests.

use tantalum_nand::{Geometry, Timing};

use crate::space::{CheckpointInterval, FtlConfig, VictimPolicy};

pub const GEOMETRY: Geometry = Geometry {
    channels: 2,
    dies_per_channel: 1,
    planes_per_die: 1,
    blocks_per_plane: 32,
    pages_per_block: 4,
    page_bytes: 8192,
};
pub const TIMING: Timing = Timing {
    read_ns: 50_000,
    program_ns: 500_000,
    erase_ns: 3_000_000,
    channel_bytes_per_second: 400_000_000,
};
pub const CONFIG: FtlConfig = FtlConfig {
    protected_units: 0,
    units_at_once: 1,
    logical_units: 128,
    victim_policy: VictimPolicy::Greedy,
    wear_spread: 8,
    dump_units: 0,
    shared_owners: 8,
    checkpoint_interval: CheckpointInterval::DEFAULT,
    index_dram_bytes: None,
    nvm_log_bytes: None,
    file_lists: None,
    placement: None,
    zones: None,
};
