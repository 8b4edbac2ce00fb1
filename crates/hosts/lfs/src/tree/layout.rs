//! The layout of the drive: superblocks, two anchors, segments. The drive's capacity determines all of it.

use tantalum::Lpn;

use super::summary::MOST_ENTRIES;
use super::super_root::MOST_BRANCHES;
use super::table::{BRANCH_POINTERS, LEAF_ENTRIES};
use crate::error::{LfsError, Result};

/// The smallest drive, in units.
const LEAST_UNITS: u64 = 2048;

/// The largest: the super root names all branches of the table.
const MOST_UNITS: u64 = 1 << 27;

/// Where the two anchors are.
pub(super) const ANCHORS: [Lpn; 2] = [Lpn(2), Lpn(3)];

/// Where the first segment begins.
pub(super) const SEGMENTS: Lpn = Lpn(4);

/// What follows from the capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    pub units: u64,
    pub segment_units: u32,
    pub segment_count: u32,
    /// Virtual unit numbers, starting with 1. There are more than units that can live, because one that was given up is
    /// not reused before the next checkpoint.
    pub numbers: u32,
    /// Leaves of the table.
    pub leaves: u32,
    /// Branches of the table.
    pub branches: u32,
    /// Units of a segment that can live: the others are summaries.
    pub payload: u32,
    /// Units that files and their trees may use.
    pub capacity: u64,
}

impl Layout {
    pub fn plan(units: u64) -> Result<Layout> {
        if !(LEAST_UNITS..=MOST_UNITS).contains(&units) {
            return Err(LfsError::WrongSize { units, least: LEAST_UNITS, most: MOST_UNITS });
        }
        let segment_units = crate::segments::segment_units(units);
        let segment_count = ((units - u64::from(SEGMENTS.0)) / u64::from(segment_units)) as u32;
        let numbers = (units + units / 4) as u32;
        let leaves = (numbers + segment_count).div_ceil(LEAF_ENTRIES);
        let branches = leaves.div_ceil(BRANCH_POINTERS);
        assert!(branches as usize <= MOST_BRANCHES, "the super root names all branches");
        let payload = segment_units - segment_units.div_ceil(MOST_ENTRIES as u32 + 1);
        let for_cleaning = (segment_count / 16).max(crate::cleaner::LEAST_RESERVE);
        let capacity = u64::from(segment_count - for_cleaning) * u64::from(payload);
        let capacity = capacity - u64::from(leaves + branches);
        Ok(Layout { units, segment_units, segment_count, numbers, leaves, branches, payload, capacity })
    }

    /// The entry of the table for a segment, after those of all numbers.
    pub fn entry_of_segment(&self, segment: u32) -> u32 {
        self.numbers + segment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_fit_and_most_of_the_drive_is_for_files() {
        for units in [2048, 5000, 16 << 10, 256 << 10, 25 << 20, MOST_UNITS] {
            let layout = Layout::plan(units).unwrap();
            let end =
                u64::from(SEGMENTS.0) + u64::from(layout.segment_count) * u64::from(layout.segment_units);
            assert!(end <= units && layout.capacity > units / 2, "{layout:?}");
        }
        assert!(Layout::plan(LEAST_UNITS - 1).is_err() && Layout::plan(MOST_UNITS + 1).is_err());
    }
}
