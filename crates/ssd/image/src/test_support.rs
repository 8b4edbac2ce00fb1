//! Shared by the tests: a tiny drive.

use crate::geometry::Geometry;

/// Two channels of one die of two planes of three blocks of four pages of two units.
pub const GEOMETRY: Geometry = Geometry {
    channels: 2,
    dies_per_channel: 1,
    planes_per_die: 2,
    blocks_per_plane: 3,
    pages_per_block: 4,
    page_bytes: 8192,
};
