//! Walking the nodes of a file: to one unit, over a range, over everything.

use std::ops::Range;

use tantalum_filesystem::FileId;

use super::Nat;
use super::node::{Level, OF_FOLDER, Pointer, decode_pointer, pointer_to, reach};
use crate::error::Result;
use crate::index::BlockPointer;
use crate::segments::Log;

/// A pointer to a unit: its node and its index there.
pub(super) type Spot = (u32, usize);

impl Nat {
    /// The pointer to a unit of a file. Without `create`, none if a node on the way is missing.
    pub(super) fn find(
        &mut self,
        log: &mut Log,
        file: FileId,
        unit: u32,
        create: bool,
    ) -> Result<Option<Spot>> {
        let (mut number, mut level, mut first) = (file.0, Level::Inode, 0);
        loop {
            let pointer = pointer_to(level, first, u64::from(unit));
            let Some(child) = pointer.child else { return Ok(Some((number, pointer.index))) };
            let node = self.node(log, number)?;
            let mut next = node.pointer(pointer.index);
            let is_folder = node.flags() & OF_FOLDER != 0;
            if next == 0 {
                if !create {
                    return Ok(None);
                }
                next = self.new_node(log, Some(file), pointer.first as u32, child, is_folder)?;
                self.node_mut(log, number)?.set_pointer(pointer.index, next);
            }
            (number, level, first) = (next, child, pointer.first);
        }
    }

    /// Turns a range of a file's units into holes. Returns how many were not holes.
    pub(super) fn clear_range(&mut self, log: &mut Log, file: FileId, units: Range<u64>) -> Result<u64> {
        self.clear_node(log, file, file.0, Level::Inode, 0, &units)
    }

    fn clear_node(
        &mut self,
        log: &mut Log,
        file: FileId,
        number: u32,
        level: Level,
        first: u64,
        units: &Range<u64>,
    ) -> Result<u64> {
        let mut given_up = 0;
        let mut unit = units.start.max(first);
        let end = units.end.min(first + reach(level));
        while let Some((pointer, value)) = self.next_pointer(log, number, level, first, unit..end)? {
            unit = pointer.first + pointer.units;
            let Some(child) = pointer.child else {
                match decode_pointer(value) {
                    BlockPointer::At(lpn) => log.segments.release(lpn)?,
                    _ => log.segments.unreserve(),
                }
                self.node_mut(log, number)?.set_pointer(pointer.index, 0);
                given_up += 1;
                continue;
            };
            given_up += self.clear_node(log, file, value, child, pointer.first, units)?;
            if self.node(log, value)?.is_empty() {
                self.node_mut(log, number)?.set_pointer(pointer.index, 0);
                self.free_node(log, value)?;
                self.lost_nodes.insert(file);
            }
        }
        Ok(given_up)
    }

    /// The first unit of a file at or after `from` that is not a hole.
    pub(super) fn next_used_unit(&mut self, log: &mut Log, file: FileId, from: u64) -> Result<Option<u64>> {
        self.next_used_in(log, file.0, Level::Inode, 0, from)
    }

    fn next_used_in(
        &mut self,
        log: &mut Log,
        number: u32,
        level: Level,
        first: u64,
        from: u64,
    ) -> Result<Option<u64>> {
        let mut unit = from.max(first);
        let end = (first + reach(level)).min(1 << 32);
        while let Some((pointer, value)) = self.next_pointer(log, number, level, first, unit..end)? {
            let found = match pointer.child {
                None => Some(pointer.first),
                Some(child) => self.next_used_in(log, value, child, pointer.first, unit)?,
            };
            if found.is_some() {
                return Ok(found);
            }
            unit = pointer.first + pointer.units;
        }
        Ok(None)
    }

    /// The first pointer of a node in use, among those that reach a range of units.
    fn next_pointer(
        &mut self,
        log: &mut Log,
        number: u32,
        level: Level,
        first: u64,
        units: Range<u64>,
    ) -> Result<Option<(Pointer, u32)>> {
        let node = self.node(log, number)?;
        let mut unit = units.start;
        while unit < units.end {
            let pointer = pointer_to(level, first, unit);
            let value = node.pointer(pointer.index);
            if value != 0 {
                return Ok(Some((pointer, value)));
            }
            unit = pointer.first + pointer.units;
        }
        Ok(None)
    }
}
