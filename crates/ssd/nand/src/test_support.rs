//! Shared by the tests: a tiny drive, seeded randomness, recognisable data.

use crate::nand::Nand;
use crate::operations::Source;
use tantalum_image::Timing;
use tantalum_image::{Geometry, PageId, Ppn, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare};

/// Two channels of one die of two planes of three blocks of four pages of two units.
pub const GEOMETRY: Geometry = Geometry {
    channels: 2,
    dies_per_channel: 1,
    planes_per_die: 2,
    blocks_per_plane: 3,
    pages_per_block: 4,
    page_bytes: 8192,
};

/// One unit takes 10 ns on a channel.
pub const TIMING: Timing =
    Timing { read_ns: 100, program_ns: 1_000, erase_ns: 10_000, channel_bytes_per_second: 409_600_000_000 };

pub fn nand() -> Nand {
    Nand::in_memory(GEOMETRY, TIMING).unwrap()
}

/// A unit of data that contains its tag.
pub fn data(tag: u64) -> Vec<u8> {
    tag.to_le_bytes().repeat(UNIT_BYTES / 8)
}

/// A spare area that contains its tag.
pub fn spare(tag: u64) -> UnitSpare {
    let mut spare = [0x33; UNIT_SPARE_BYTES];
    spare[..8].copy_from_slice(&tag.to_le_bytes());
    spare
}

/// Programs a page with units of two tags, issued at `at_ns`.
pub fn program(nand: &mut Nand, page: u32, tags: [u64; 2], at_ns: u64) -> u64 {
    let sources = tags.map(|tag| Source::Staged(nand.stage(&data(tag)).unwrap()));
    nand.program(PageId(page), &sources, &tags.map(spare), at_ns).unwrap()
}

/// The tag that a unit reads as.
pub fn read_tag(nand: &mut Nand, ppn: u32) -> u64 {
    let mut bytes = data(0);
    nand.read(Ppn(ppn), &mut bytes, 0).unwrap();
    let tag = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    assert!(bytes == data(tag), "unit {ppn} is whole, with tag {tag}");
    tag
}
