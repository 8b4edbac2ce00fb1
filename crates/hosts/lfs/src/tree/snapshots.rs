//! Snapshots: creating one, and giving up what only a deleted one saw.

use tantalum_filesystem::Timestamp;

use super::Tree;
use super::super_root::{Frozen, MOST_SNAPSHOTS};
use super::table::LEAF_ENTRIES;
use super::translation::Number;
use crate::error::{LfsError, Result};
use crate::index::Snapshot;
use crate::segments::Log;

impl Tree {
    pub(super) fn readable_snapshots(&self) -> Vec<Snapshot> {
        self.snapshots.iter().filter(|one| !one.is_going).map(|one| one.snapshot).collect()
    }

    /// A snapshot of the present, which the last checkpoint has. Space is promised for a copy of every node; `ENOSPC` if
    /// there is none.
    pub(super) fn freeze(&mut self, log: &mut Log, now: Timestamp) -> Result<u32> {
        if self.snapshots.len() == MOST_SNAPSHOTS {
            return Err(LfsError::TooManySnapshots { most: MOST_SNAPSHOTS });
        }
        let (nodes, table) = (self.nodes.changed().len(), self.table.changed_count());
        assert_eq!(
            (nodes, table),
            (0, 0),
            "a snapshot sees nodes and a table that no checkpoint has written"
        );
        log.segments.reserve_many(u64::from(self.node_count.saturating_sub(self.shared_nodes)))?;
        self.shared_nodes = self.node_count;
        let number = self.epoch;
        let snapshot = Snapshot { number, files: self.files, created: now };
        self.snapshots.push(Frozen { snapshot, root: self.files_root, is_going: false });
        self.epoch += 1;
        Ok(number)
    }

    /// After the next checkpoint, a snapshot can no longer be read.
    pub(super) fn mark_going(&mut self, number: u32) -> Result<()> {
        let one = self.snapshots.iter_mut().find(|one| one.snapshot.number == number);
        match one {
            Some(one) => one.is_going = true,
            None => return Err(LfsError::NoSnapshot { number }),
        }
        Ok(())
    }

    /// Gives up what only snapshots being deleted see, starting at a number, as much as one checkpoint may write. Nothing
    /// is dirty. Returns where to continue; `None` at the end, when those snapshots are gone.
    pub(super) fn thaw_some(&mut self, log: &mut Log, from: u32) -> Result<Option<u32>> {
        if !self.snapshots.iter().any(|one| one.is_going) {
            return Ok(None);
        }
        let left = self.nodes.changed();
        assert!(left.is_empty(), "snapshots are given up from number {from} on while nodes {left:?} differ");
        let mut number = from.max(1);
        while number < self.layout.numbers {
            self.thaw(log, Number(number))?;
            number += 1;
            if !number.is_multiple_of(LEAF_ENTRIES) {
                continue;
            }
            if self.table.changed_count() as u32 >= log.segments.units() {
                return Ok(Some(number));
            }
            self.table.forget_some();
        }
        self.snapshots.retain(|one| !one.is_going);
        self.count_shared_nodes(log)?;
        Ok(None)
    }

    fn thaw(&mut self, log: &mut Log, number: Number) -> Result<()> {
        let Some(unit) = self.find_translation(log, number)?.filter(|unit| unit.death.is_some()) else {
            return Ok(());
        };
        let is_seen = self.snapshots.iter().any(|one| !one.is_going && unit.is_seen_by(one.snapshot.number));
        if is_seen { Ok(()) } else { self.erase(log, number, unit) }
    }

    /// Fewer nodes may now be shared, for whose copies space was promised.
    fn count_shared_nodes(&mut self, log: &mut Log) -> Result<()> {
        let mut shared = 0;
        if let Some(newest) = self.snapshots.iter().map(|one| one.snapshot.number).max() {
            for number in 1..self.layout.numbers {
                if number.is_multiple_of(LEAF_ENTRIES) {
                    self.table.forget_some();
                }
                let unit = self.find_translation(log, Number(number))?;
                shared += u32::from(
                    unit.is_some_and(|unit| unit.is_node && unit.death.is_none() && unit.birth <= newest),
                );
            }
        }
        log.segments.unreserve_many(u64::from(self.shared_nodes.saturating_sub(shared)));
        self.shared_nodes = shared;
        Ok(())
    }
}
