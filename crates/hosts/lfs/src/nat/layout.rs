//! The layout of the drive: superblocks, two checkpoint packs, segment table, node address table, summaries, segments.
//! The drive's capacity determines all of it.

use tantalum::{Lpn, UNIT_BYTES};

use super::heads::HEADS;
use super::summary::summary_bytes;
use super::table::entries_per_unit;
use crate::error::{LfsError, Result};
use crate::index::MOST_ORPHANS;

/// The smallest drive, in units.
const LEAST_UNITS: u64 = 2048;

/// The largest: a place has 32 bits, and two values are special.
pub(super) const MOST_UNITS: u64 = u32::MAX as u64 - 1;

/// Where the positions of heads begin in a pack.
pub(super) const HEADS_AT: usize = 56;

/// Bytes of a pack besides the places of tables and the orphans.
pub(super) const FIXED_PACK_BYTES: usize = HEADS_AT + 12 * HEADS + 12;

/// Words of an entry of the segment table.
pub(super) const SEGMENT_WORDS: usize = 3;

/// Words of an entry of the node address table.
pub(super) const NODE_WORDS: usize = 2;

/// The areas of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub packs: [Lpn; 2],
    pub pack_units: u32,
    /// The segment table: twice this many units.
    pub segment_table: Lpn,
    pub segment_table_units: u32,
    /// The node address table: twice this many units.
    pub node_table: Lpn,
    pub node_table_units: u32,
    /// Node numbers, starting with 1.
    pub nodes: u32,
    /// One summary for each segment.
    pub summaries: Lpn,
    pub segments: Lpn,
    pub segment_units: u32,
    pub segment_count: u32,
    /// Units that files and their nodes may use.
    pub capacity: u64,
}

impl Layout {
    pub fn plan(units: u64) -> Result<Layout> {
        if !(LEAST_UNITS..=MOST_UNITS).contains(&units) {
            return Err(LfsError::WrongSize { units, least: LEAST_UNITS, most: MOST_UNITS });
        }
        let segment_units = crate::segments::segment_units(units);
        // Half of all units may be nodes: a file with one unit has one node.
        let nodes = (units / 2) as u32;
        let node_table_units = nodes.div_ceil(entries_per_unit(NODE_WORDS) as u32);
        let mut segment_count = (units / u64::from(segment_units)) as u32;
        loop {
            let segment_table_units = segment_count.div_ceil(entries_per_unit(SEGMENT_WORDS) as u32);
            let pack_units = pack_units(segment_table_units + node_table_units);
            let packs = [Lpn(2), Lpn(2 + pack_units)];
            let segment_table = Lpn(2 + 2 * pack_units);
            let node_table = Lpn(segment_table.0 + 2 * segment_table_units);
            let summaries = Lpn(node_table.0 + 2 * node_table_units);
            let segments = Lpn(summaries.0 + segment_count);
            let end = u64::from(segments.0) + u64::from(segment_count) * u64::from(segment_units);
            if end > units {
                segment_count -= 1;
                continue;
            }
            let entries = u64::from(node_table_units) * entries_per_unit(NODE_WORDS) as u64;
            assert!(u64::from(nodes) <= entries, "{nodes} nodes have {entries} entries in their table");
            let end = summary_bytes(segment_units);
            assert!(end <= UNIT_BYTES, "a summary of {segment_units} units takes {end} bytes");
            let for_cleaning = (segment_count / 16).max(crate::cleaner::LEAST_RESERVE);
            let capacity = u64::from(segment_count - for_cleaning) * u64::from(segment_units);
            return Ok(Layout {
                packs,
                pack_units,
                segment_table,
                segment_table_units,
                node_table,
                node_table_units,
                nodes,
                summaries,
                segments,
                segment_units,
                segment_count,
                capacity,
            });
        }
    }
}

/// Units of a pack, by the number of units of tables.
fn pack_units(table_units: u32) -> u32 {
    let bits = table_units.div_ceil(8) as usize + 2;
    (FIXED_PACK_BYTES + bits + 4 * MOST_ORPHANS).div_ceil(UNIT_BYTES) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_fit_and_do_not_overlap() {
        for units in [2048, 5000, 16 << 10, 256 << 10, 25 << 20, MOST_UNITS] {
            let layout = Layout::plan(units).unwrap();
            let starts = [
                layout.packs[0],
                layout.packs[1],
                layout.segment_table,
                layout.node_table,
                layout.summaries,
                layout.segments,
            ];
            assert!(starts.is_sorted(), "{layout:?}");
            let end = u64::from(layout.segments.0)
                + u64::from(layout.segment_count) * u64::from(layout.segment_units);
            assert!(end <= units && layout.capacity > units / 2, "{layout:?}");
        }
        assert!(Layout::plan(LEAST_UNITS - 1).is_err() && Layout::plan(MOST_UNITS + 1).is_err());
    }
}
