//! What both kinds of index have in common: segments, log heads, and the accounting of space.

mod fillable_holes;
mod head;
mod holes;
mod list_writer;
mod log;
mod log_lists;
mod overwriting;
mod run;
mod table;

pub(crate) use list_writer::ListNumber;
pub(crate) use log::{BUFFER_UNITS, Log};
pub(crate) use run::Run;

/// Segments that a drive should have, so that heads and reserves are small against them.
const ENOUGH_SEGMENTS: u64 = 128;

/// Units of a segment of a drive: 2 MiB, unless the drive is small.
pub(crate) fn segment_units(drive_units: u64) -> u32 {
    let mut units = 512;
    while drive_units / u64::from(units) < ENOUGH_SEGMENTS && units > 16 {
        units /= 2;
    }
    units
}
pub(crate) use table::{Segments, State};
