//! Places for contents: sequential in free segments, or in the holes of full ones when free segments run short. Nodes
//! are always sequential, because a mount follows their chain from segment to segment.

use std::collections::{BTreeSet, VecDeque};

use tantalum::Lpn;

use super::Nat;
use crate::error::Result;
use crate::index::Index;
use crate::segments::Log;

/// Free segments kept in reserve: for what a checkpoint may write, and a segment begun by each head.
pub(super) const LEAST_FREE: u32 = 12;

/// The number of free segments at which contents begin to go into holes: those in reserve, and the same number again for
/// nodes and for what the cleaner moves.
const SHORT: u32 = 2 * LEAST_FREE;

/// Whether free segments are scarce.
pub(super) fn is_short(log: &Log) -> bool {
    log.segments.free_segments() <= SHORT
}

impl Nat {
    /// A place for contents. A head first uses up the segment that it has.
    pub(super) fn place_for_contents(&mut self, log: &mut Log, head: usize) -> Result<Lpn> {
        if let Some(hole) = log.allocate_hole(head) {
            return Ok(hole);
        }
        while log.needs_segment(head) && is_short(log) {
            let Some(segment) = log.segments.next_to_fill() else { break };
            let holes = self.holes_of(log, segment)?;
            if !holes.is_empty() {
                log.begin_filling(head, segment, holes);
            }
        }
        match log.allocate_hole(head) {
            Some(hole) => Ok(hole),
            None => log.place(head),
        }
    }

    fn holes_of(&mut self, log: &mut Log, segment: u32) -> Result<VecDeque<Lpn>> {
        let mut living = BTreeSet::new();
        for resident in self.residents(log, segment)? {
            if self.lives_at(log, &resident)? {
                living.insert(resident.lpn);
            }
        }
        Ok(log.segments.holes_beside(segment, &living))
    }
}
