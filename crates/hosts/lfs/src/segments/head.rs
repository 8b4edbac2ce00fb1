//! A log head: where it writes, and what waits in its buffer.

use std::collections::VecDeque;

use tantalum::{Lpn, UNIT_BYTES};

use super::list_writer::Listed;

/// A log head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    /// Where it writes.
    pub segment: Option<u32>,
    /// Units of the segment that it has assigned.
    pub used: u32,
    /// The segment after that, chosen with the last unit.
    pub following: Option<u32>,
    /// The full segment whose holes it fills instead.
    pub(super) filling: Option<Filling>,
    /// The place of the buffer's first unit.
    pub(super) first: u32,
    pub(super) buffer: Vec<u8>,
    /// The file for which the drive is to list the buffer's units.
    pub(super) listed: Option<Listed>,
    /// Whether it sent something since the last flush that is not durable by itself.
    pub(super) is_unflushed: bool,
    /// Where the unit that it assigned last says that the next one is.
    pub(super) told: Option<Lpn>,
}

/// A full segment with holes.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    pub segment: u32,
    /// Places not assigned yet.
    pub holes: VecDeque<Lpn>,
}

impl Head {
    pub(super) fn buffered(&self) -> u32 {
        debug_assert!(
            self.buffer.len().is_multiple_of(UNIT_BYTES),
            "the buffer ends within a unit, after {} bytes",
            self.buffer.len()
        );
        (self.buffer.len() / UNIT_BYTES) as u32
    }

    /// Whether a unit follows the buffer's last one.
    pub(super) fn continues(&self, lpn: Lpn, listed: Option<Listed>) -> bool {
        let follows = self.listed.map(|(file, unit)| (file, unit.wrapping_add(self.buffered())));
        self.first + self.buffered() == lpn.0 && follows == listed
    }

    /// Whether the buffer holds any of some units.
    pub(super) fn overlaps(&self, lpn: Lpn, units: u32) -> bool {
        let buffered = self.buffered();
        buffered > 0 && self.first < lpn.0 + units && lpn.0 < self.first + buffered
    }

    /// Whether the next unit takes another segment, given how many units one has.
    pub(super) fn needs_segment(&self, units: u32) -> bool {
        let is_filled = self.filling.as_ref().is_none_or(|filling| filling.holes.is_empty());
        is_filled && self.following.is_none() && (self.segment.is_none() || self.used == units)
    }
}
