//! Slots: numbered 4 KiB buffers that hold the bytes of staged and of programmed units.
//!
//! A unit's place and its bytes are apart: a place names a slot. A copyback hands the slot on and moves no byte.
//! Each slot in use has exactly one owner: the caller that staged it, or one place on flash, or the record of an
//! erase that may still be undone.

use crate::error::NandError;

/// A 4 KiB buffer of the controller's DRAM, or of a programmed unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot(pub(crate) u32);

/// Slot numbers stay below this; the bit is the mark of places whose bytes have moved on.
pub(crate) const SLOT_LIMIT: u32 = 1 << 31;

impl Slot {
    /// Where the slot lies among the slots; their numbers start at 1.
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.0 as usize - 1
    }
}

/// Which slots are in use. The last one given up is the next one taken: its bytes are likely in the cache.
#[derive(Clone, Default, Debug)]
pub(crate) struct Slots {
    free: Vec<u32>,
    used: Vec<u64>,
    /// Slots above have never been used.
    watermark: u32,
    /// Given up and not free yet, if the image is to survive the loss of the machine.
    kept: Option<Kept>,
}

/// Slots that are free only after two syncs: until the first, what they held may be needed; until the second, it proves
/// that what was synced first is whole.
#[derive(Clone, Default, Debug)]
struct Kept {
    /// Given up since the last sync began.
    since: Vec<u32>,
    /// Given up before it began, and since the one before began.
    begun: Vec<u32>,
    /// Given up before the last sync that ended began.
    ended: Vec<u32>,
}

impl Slots {
    /// Slots of which those that `used` says are in use.
    pub fn rebuild(watermark: u32, used: Vec<u64>) -> Slots {
        let mut slots = Slots { free: Vec::new(), used, watermark, kept: None };
        slots.used.resize(watermark as usize / 64 + 1, 0);
        // Backwards, so that low slots are taken first.
        slots.free = (1..=watermark).rev().filter(|&slot| !slots.is_used(Slot(slot))).collect();
        slots
    }

    /// The highest slot that was ever used.
    pub fn watermark(&self) -> u32 {
        self.watermark
    }

    /// Slots in use.
    pub fn in_use(&self) -> u32 {
        self.watermark
            - self.free.len() as u32
            - self
                .kept
                .as_ref()
                .map_or(0, |kept| (kept.since.len() + kept.begun.len() + kept.ended.len()) as u32)
    }

    fn is_used(&self, slot: Slot) -> bool {
        self.used[slot.0 as usize / 64] & (1 << (slot.0 % 64)) != 0
    }

    pub fn assert_used(&self, slot: Slot) {
        assert!(
            slot.0 <= self.watermark && self.is_used(slot),
            "slot {} is used after it was given up",
            slot.0
        );
    }

    pub fn take(&mut self) -> Result<Slot, NandError> {
        let number = match self.free.pop() {
            Some(number) => number,
            None => self.raise_watermark()?,
        };
        self.used[number as usize / 64] |= 1 << (number % 64);
        Ok(Slot(number))
    }

    fn raise_watermark(&mut self) -> Result<u32, NandError> {
        if self.watermark + 1 == SLOT_LIMIT {
            return Err(NandError::OutOfSlots { slots: self.watermark });
        }
        self.watermark += 1;
        if self.used.len() <= self.watermark as usize / 64 {
            self.used.push(0);
        }
        Ok(self.watermark)
    }

    pub fn release(&mut self, slot: Slot) {
        self.assert_used(slot);
        self.used[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
        match &mut self.kept {
            Some(kept) => kept.since.push(slot.0),
            None => self.free.push(slot.0),
        }
    }

    /// From now on slots that are given up are free only after two syncs.
    pub fn keep(&mut self) {
        self.kept = Some(Kept::default());
    }

    /// A sync begins. What is given up from now on belongs to the next one.
    pub fn sync_begin(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.begun.append(&mut kept.since);
        }
    }

    /// The sync that began is done.
    pub fn sync_end(&mut self) {
        if let Some(kept) = &mut self.kept {
            self.free.append(&mut kept.ended);
            std::mem::swap(&mut kept.begun, &mut kept.ended);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_slot_given_up_is_taken_next() {
        let mut slots = Slots::default();
        let first = slots.take().unwrap();
        let second = slots.take().unwrap();
        slots.release(first);
        assert_eq!(slots.take().unwrap(), first);
        assert_ne!(first, second);
        assert_eq!(slots.watermark(), 2);
    }

    #[test]
    #[should_panic(expected = "slot 1 is used after it was given up")]
    fn giving_a_slot_up_twice_panics() {
        let mut slots = Slots::default();
        let slot = slots.take().unwrap();
        slots.release(slot);
        slots.release(slot);
    }

    #[test]
    fn rebuilt_slots_are_free_but_for_those_in_use() {
        let mut slots = Slots::rebuild(130, vec![1 << 3, 1 << 1]);
        assert_eq!(slots.in_use(), 2);
        let taken: Vec<u32> = (0..129).map(|_| slots.take().unwrap().0).collect();
        assert!(!taken.contains(&3) && !taken.contains(&65));
        assert_eq!(taken[0], 1);
        assert_eq!(taken[128], 131);
    }

    // what was given up during a sync went with the slots of that sync, and was free one sync too early
    #[test]
    fn a_kept_slot_is_free_after_two_syncs_that_began_later() {
        let mut slots = Slots::default();
        slots.keep();
        let [before, during] = [slots.take().unwrap(), slots.take().unwrap()];
        slots.release(before);
        slots.sync_begin();
        slots.release(during);
        slots.sync_end();
        assert_eq!((slots.take().unwrap().0, slots.in_use()), (3, 1));
        slots.sync_begin();
        slots.sync_end();
        assert_eq!(slots.take().unwrap(), before);
        assert_eq!(slots.take().unwrap().0, 4);
        slots.sync_begin();
        slots.sync_end();
        assert_eq!(slots.take().unwrap(), during);
    }
}
