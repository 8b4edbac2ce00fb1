//! The inode table: which slots are free, which hold what was removed, and how the table grows.
//!
//! Invariants:
//! - A unit becomes part of the table only when it is durably zero, so that a slot never shows what some file held there.
//! - A slot is free only when nothing durable needs it: the slots of what the drive knows, and units that its inode names,
//!   wait in `removed` until the drive knows the removal.

use std::collections::BTreeSet;

use tantalum::{Command, Lpn};
use zerocopy::IntoBytes;

use crate::drive::VolumeClient;
use crate::error::VolumeError;
use crate::extents::LpnRange;
use crate::space::Space;
use crate::superblock::{SUPERBLOCK, Superblock};

/// The table grows by a quarter, within these bounds.
const GROWTH_UNITS: std::ops::RangeInclusive<u32> = 32..=4096;

/// Slots reserved for existing inodes: without them files on a full volume could not be truncated.
const RESERVED_SLOTS: usize = 8;

/// The inode table.
#[derive(Clone)]
pub(crate) struct InodeTable {
    superblock: Superblock,
    /// Slots that hold nothing.
    free: BTreeSet<u32>,
    /// What the drive knows and was removed since names were last made durable.
    removed: Vec<Removed>,
    /// Continuations of the file that has, or had, the most.
    most_continuations: usize,
}

/// A slot whose file or link is gone.
#[derive(Clone)]
pub(crate) struct Removed {
    pub slot: u32,
    pub continuations: Vec<u32>,
    /// Units that it gave up, which its inode may still name.
    pub freed: Vec<LpnRange>,
}

impl Removed {
    /// The slot of a link.
    pub fn of_link(slot: u32) -> Removed {
        Removed { slot, continuations: Vec::new(), freed: Vec::new() }
    }
}

impl InodeTable {
    /// A table of free slots.
    pub fn new(superblock: Superblock) -> InodeTable {
        let free = (0..superblock.table_units()).collect();
        InodeTable { superblock, free, removed: Vec::new(), most_continuations: 0 }
    }

    /// The position of a slot.
    pub fn lpn(&self, slot: u32) -> Lpn {
        self.superblock.slot_lpn(slot)
    }

    /// The pieces of the table.
    pub fn pieces(&self) -> impl Iterator<Item = LpnRange> {
        self.superblock.pieces()
    }

    /// Its slots.
    pub fn slots(&self) -> u32 {
        self.superblock.table_units()
    }

    /// Whether the volume was not unmounted.
    pub fn in_use(&self) -> bool {
        self.superblock.in_use()
    }

    /// Says durably whether the volume is in use.
    pub fn set_in_use(&mut self, in_use: bool, drive: &mut VolumeClient) -> Result<(), VolumeError> {
        self.superblock.set_in_use(in_use);
        let data = self.superblock.as_bytes();
        drive.submit(Command::Write { lpn: SUPERBLOCK, data, fua: false, handle: None })?;
        drive.flush()
    }

    // -- slots ----------------------------------------------------------------------------------------------------

    /// Slots that must be free before one may be taken for a new file or link: some are left for the continuations of
    /// existing files.
    pub fn slots_before_name(&self) -> usize {
        1 + RESERVED_SLOTS + self.most_continuations
    }

    /// Free slots.
    pub fn free_slots(&self) -> &BTreeSet<u32> {
        &self.free
    }

    /// Takes a free slot. There must be one.
    pub fn take(&mut self) -> u32 {
        self.free.pop_first().expect("there is a free slot")
    }

    /// A slot of the table holds something.
    pub fn claim(&mut self, slot: u32) {
        assert!(self.free.remove(&slot), "two units were read from slot {slot} of the table");
    }

    /// A slot is free again.
    pub fn free(&mut self, slot: u32) {
        debug_assert!(slot < self.slots(), "slot {slot} is beyond the table's {} units", self.slots());
        assert!(self.free.insert(slot), "slot {slot} of the inode table is free already");
    }

    /// A file has this many continuations.
    pub fn note_continuations(&mut self, continuations: usize) {
        self.most_continuations = self.most_continuations.max(continuations);
    }

    /// Continuations of the file that has, or had, the most.
    pub fn most_continuations(&self) -> usize {
        self.most_continuations
    }

    /// Adds a piece of free space to the table.
    pub fn grow(&mut self, space: &mut Space, drive: &mut VolumeClient) -> Result<(), VolumeError> {
        let slots = self.slots();
        let units = (slots / 4).clamp(*GROWTH_UNITS.start(), *GROWTH_UNITS.end());
        if !self.superblock.can_grow() {
            return Err(VolumeError::TableFull { slots });
        }
        let piece = space.allocate_apart(units).ok_or(VolumeError::TableFull { slots })?;
        let mut grown = self.superblock.clone();
        let new_slots = grown.grow(piece);
        let written = drive.flush().and_then(|()| drive.write_atomic(&[(SUPERBLOCK, grown.as_bytes())]));
        if let Err(error) = written {
            space.release(piece);
            return Err(error);
        }
        self.superblock = grown;
        debug_assert_eq!(self.lpn(new_slots.start), piece.lpn, "where the table's new piece is");
        new_slots.for_each(|slot| self.free(slot));
        Ok(())
    }

    // -- what was removed -------------------------------------------------------------------------------------------

    /// A file or link is gone. Its slots are free at once if the drive did not know it.
    pub fn remove(&mut self, removed: Removed, is_stored: bool, space: &mut Space) {
        debug_assert!(!self.free.contains(&removed.slot), "free slot {} is removed", removed.slot);
        if is_stored {
            self.removed.push(removed);
        } else {
            self.release(removed, space);
        }
    }

    /// Units of a file that lost its last name before. Its inode may still be durable until the last removal is.
    pub fn give_up_with_removals(&mut self, mut freed: Vec<LpnRange>, space: &mut Space) {
        match self.removed.last_mut() {
            Some(removed) => removed.freed.append(&mut freed),
            None => space.give_up(freed),
        }
    }

    /// What the drive knows and was removed since names were last made durable.
    pub fn removed(&self) -> &[Removed] {
        &self.removed
    }

    /// Units that are to be zeroed, as the drive knows what was removed from them.
    pub fn removed_units(&self) -> impl Iterator<Item = Lpn> {
        self.removed.iter().map(|removed| self.lpn(removed.slot))
    }

    /// The drive knows what was removed.
    pub fn removals_are_durable(&mut self, space: &mut Space) {
        let mut removed = std::mem::take(&mut self.removed);
        removed.drain(..).for_each(|removed| self.release(removed, space));
        self.removed = removed;
    }

    fn release(&mut self, removed: Removed, space: &mut Space) {
        self.free(removed.slot);
        removed.continuations.into_iter().for_each(|slot| self.free(slot));
        space.give_up(removed.freed);
    }
}
