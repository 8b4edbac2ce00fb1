//! Slots of the inode table, and how the table grows.
//!
//! Invariant: a unit becomes part of the table only when it is durably zero, so that a slot never shows what some file
//! held there.

use std::collections::BTreeSet;

use zerocopy::IntoBytes;

use crate::error::VolumeError;
use crate::superblock::SUPERBLOCK;
use crate::volume::Volume;

/// The table grows by a quarter, within these bounds.
const GROWTH_UNITS: std::ops::RangeInclusive<u32> = 32..=4096;

/// Slots reserved for existing inodes: without them files on a full volume could not be truncated.
const RESERVED_SLOTS: usize = 8;

/// A slot is free again.
pub(crate) fn free_slot(free_slots: &mut BTreeSet<u32>, slot: u32) {
    assert!(free_slots.insert(slot), "slot {slot} of the inode table is free already");
}

impl Volume {
    /// A slot for a new file or link. Leaves some for the continuations of existing files.
    pub(crate) fn take_slot_for_name(&mut self) -> Result<u32, VolumeError> {
        self.ensure_free_slots(1 + RESERVED_SLOTS + self.most_continuations)?;
        Ok(self.free_slots.pop_first().expect("there are free slots"))
    }

    /// A slot for a continuation.
    pub(crate) fn take_slot(&mut self) -> Result<u32, VolumeError> {
        self.ensure_free_slots(1)?;
        Ok(self.free_slots.pop_first().expect("there is a free slot"))
    }

    /// Ensures that this many slots are free: those of removed files, or new ones.
    pub(crate) fn ensure_free_slots(&mut self, slots: usize) -> Result<(), VolumeError> {
        if self.free_slots.len() < slots && !self.removed.is_empty() {
            self.drive.check()?;
            self.commit_names()?;
        }
        while self.free_slots.len() < slots {
            self.grow_table()?;
        }
        Ok(())
    }

    fn grow_table(&mut self) -> Result<(), VolumeError> {
        let slots = self.superblock.table_units();
        let units = (slots / 4).clamp(*GROWTH_UNITS.start(), *GROWTH_UNITS.end());
        if !self.superblock.can_grow() {
            return Err(VolumeError::TableFull { slots });
        }
        let piece = self.space.allocate_apart(units).ok_or(VolumeError::TableFull { slots })?;
        let mut grown = self.superblock.clone();
        let new_slots = grown.grow(piece);
        let written =
            self.drive.flush().and_then(|()| self.drive.write_atomic(&[(SUPERBLOCK, grown.as_bytes())]));
        if let Err(error) = written {
            self.space.release(piece);
            return Err(error);
        }
        self.superblock = grown;
        debug_assert_eq!(
            self.superblock.slot_lpn(new_slots.start),
            piece.lpn,
            "where the table's new piece is"
        );
        new_slots.for_each(|slot| free_slot(&mut self.free_slots, slot));
        Ok(())
    }
}
