//! Virtual numbers: what files and nodes point to. The table says where the unit of a number is, so a unit can move
//! without changing what points to it, in the present and in any snapshot.
//!
//! The entry of a number also has its lifetime in epochs; each snapshot ends an epoch: a snapshot `s` sees units with
//! `birth <= s < death`. A unit that the present gives up stays, dead, while a snapshot sees it.
//!
//! Invariants:
//! - The present never changes a unit that a snapshot sees: it takes another number.
//! - A number that was given up is not reused before the next checkpoint, because the log after the last one may still
//!   be applied.

use tantalum::Lpn;
use tantalum_canaries::guard;
use tantalum_filesystem::Errno;

use super::Tree;
use crate::error::{Damage, LfsError, Result, refuse};
use crate::segments::Log;

/// A virtual unit number; 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Number(pub u32);

/// The place of a node that was never written.
const NEW: u32 = u32::MAX;

/// The death of a unit of the present.
const NEVER: u32 = u32::MAX;

/// Set in the birth of a node.
const NODE: u32 = 1 << 31;

/// The entry of a number that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Translation {
    /// Where the unit is; `None` if it is a node that is only in memory.
    pub place: Option<Lpn>,
    pub is_node: bool,
    /// The epoch in which it was made.
    pub birth: u32,
    /// The epoch in which the present gave it up.
    pub death: Option<u32>,
}

impl Translation {
    fn words(self) -> [u32; 3] {
        debug_assert!(
            self.birth < NODE && !matches!(self.place, Some(Lpn(0 | NEW))),
            "the table cannot hold {self:?}"
        );
        let birth = self.birth | if self.is_node { NODE } else { 0 };
        [self.place.map_or(NEW, |lpn| lpn.0), birth, self.death.unwrap_or(NEVER)]
    }

    fn of([place, birth, death]: [u32; 3]) -> Option<Translation> {
        (place != 0).then(|| Translation {
            place: (place != NEW).then_some(Lpn(place)),
            is_node: birth & NODE != 0,
            birth: birth & !NODE,
            death: (death != NEVER).then_some(death),
        })
    }
}

impl Translation {
    /// Whether a snapshot sees it.
    pub fn is_seen_by(&self, snapshot: u32) -> bool {
        self.birth <= snapshot && self.death.is_none_or(|death| snapshot < death)
    }
}

impl Tree {
    /// The entry of a number; `None` if it is not in use.
    pub(super) fn find_translation(&mut self, log: &mut Log, number: Number) -> Result<Option<Translation>> {
        if number.0 == 0 || number.0 >= self.layout.numbers {
            return Ok(None);
        }
        Ok(Translation::of(self.table.get(log, number.0)?))
    }

    /// The entry of a number that is in use.
    pub(super) fn translation(&mut self, log: &mut Log, number: Number) -> Result<Translation> {
        self.find_translation(log, number)?.ok_or_else(|| self.bad_number(number))
    }

    /// The place of a unit that the drive holds.
    pub(super) fn place_of(&mut self, log: &mut Log, number: Number) -> Result<Lpn> {
        let place = self.translation(log, number)?.place;
        place.filter(|lpn| log.segments.find(*lpn).is_some()).ok_or_else(|| self.bad_number(number))
    }

    fn bad_number(&self, number: Number) -> LfsError {
        let damage = Damage::NoUnit { number: number.0 };
        LfsError::Damaged { lpn: Lpn(self.table.branches()[0]), damage }
    }

    fn set(&mut self, log: &mut Log, number: Number, translation: Translation) -> Result<()> {
        self.table.set(log, number.0, translation.words())
    }

    /// A number that is not in use.
    pub(super) fn free_number(&mut self, log: &mut Log) -> Result<Number> {
        let numbers = self.layout.numbers;
        for _ in 0..numbers {
            self.last_number = if self.last_number + 1 >= numbers { 1 } else { self.last_number + 1 };
            let [place, _, given_up] = self.table.get(log, self.last_number)?;
            if place == 0 && given_up != self.interval() && !self.claimed.contains(&self.last_number) {
                return Ok(Number(self.last_number));
            }
        }
        refuse(Errno::ENOSPC)
    }

    /// Marks entries that were given up since the last checkpoint.
    fn interval(&self) -> u32 {
        // 0 is the mark of a number that was never used.
        (self.number as u32).wrapping_add(1).max(1)
    }

    /// A number is in use for a node that is in memory only.
    pub(super) fn use_for_node(&mut self, log: &mut Log, number: Number) -> Result<()> {
        debug_assert_eq!(
            self.find_translation(log, number),
            Ok(None),
            "number {number:?} is issued for a node, and is in use"
        );
        let new = Translation { place: None, is_node: true, birth: self.epoch, death: None };
        self.set(log, number, new)
    }

    /// The unit of a number is now at `lpn`, moved or with other contents. If the number was not in use, it now is, for
    /// contents.
    pub(super) fn relocate(&mut self, log: &mut Log, number: Number, lpn: Lpn) -> Result<()> {
        let content = Translation { place: None, is_node: false, birth: self.epoch, death: None };
        let old = self.find_translation(log, number)?;
        log.segments.add(lpn)?;
        if let Some(place) = old.and_then(|old| old.place) {
            log.segments.release(place)?;
        }
        self.set(log, number, Translation { place: Some(lpn), ..old.unwrap_or(content) })
    }

    /// The present gives a unit up. If no snapshot sees it, it is gone; otherwise it stays. A promise for a node in
    /// memory is not taken back. Returns whether it stays.
    pub(super) fn give_up(&mut self, log: &mut Log, number: Number) -> Result<bool> {
        let unit = self.translation(log, number)?;
        let dead = Translation { death: Some(self.epoch), ..unit };
        if guard!(SnapshotHolds, self.is_seen(&dead)) {
            self.set(log, number, dead)?;
            return Ok(true);
        }
        self.erase(log, number, unit)?;
        Ok(false)
    }

    /// A unit that nothing sees is gone.
    pub(super) fn erase(&mut self, log: &mut Log, number: Number, unit: Translation) -> Result<()> {
        match unit.place {
            Some(place) => {
                log.segments.release(place)?;
                self.quarantined += 1;
                self.table.set(log, number.0, [0, 0, self.interval()])
            }
            // The log does not know the number.
            None => self.table.set(log, number.0, [0; 3]),
        }
    }

    /// Whether a snapshot sees a unit that the present gave up, or would if the present did.
    pub(super) fn is_seen(&self, unit: &Translation) -> bool {
        self.snapshots.iter().any(|one| unit.is_seen_by(one.snapshot.number))
    }

    /// Whether a snapshot sees a unit of the present, so that it must not change.
    pub(super) fn is_shared(&mut self, log: &mut Log, number: Number) -> Result<bool> {
        if self.snapshots.is_empty() {
            return Ok(false);
        }
        let unit = self.translation(log, number)?;
        Ok(self.is_seen(&unit))
    }
}
