//! Flash so small that everything happens often, for the torture tests.

use tantalum::{FlashProfile, FlashScheduling};

/// Two dies on two channels, with times that do not matter for the tests.
pub(super) fn small_flash(planes_per_die: u32, pages_per_block: u32, page_bytes: u32) -> FlashProfile {
    FlashProfile {
        channels: 2,
        dies_per_channel: 1,
        planes_per_die,
        pages_per_block,
        page_bytes,
        read_ns: 50_000,
        program_ns: 500_000,
        erase_ns: 3_000_000,
        channel_bytes_per_second: 400_000_000,
        scheduling: FlashScheduling::default(),
        suspend_ns: None,
        suspensions: None,
        endurance_cycles: 3000,
        factory_bad_blocks: 0,
    }
}
