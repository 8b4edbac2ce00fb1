//! Slots: numbered 4 KiB buffers that hold the bytes of staged and programmed units.
//!
//! A unit's place and its bytes are separate: a place names a slot. A copyback passes the slot on and moves no byte.
//! Each slot in use has exactly one owner: the caller that staged it, one place on flash, or the record of an erase that
//! may still be undone.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::NandError;

/// A 4 KiB buffer of the controller's DRAM, or of a programmed unit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Slot(pub u32);

/// Slot numbers stay below this; the bit marks places whose bytes have moved on.
pub const SLOT_LIMIT: u32 = 1 << 31;

impl Slot {
    /// The slot's position; numbers start at 1.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize - 1
    }
}

/// Which slots are in use. The lowest free slot is taken next. Units written one after another are then mostly adjacent
/// in the image, even after earlier contents were erased, and the image stays as small as possible.
#[derive(Clone, Default, Debug)]
pub struct Slots {
    used: Vec<u64>,
    in_use: u32,
    /// Slots in use, and slots that were released but are not free yet.
    taken: Taken,
    /// Slots above this have never been used.
    watermark: u32,
    /// Released but not free yet, if the image should survive the loss of the machine.
    kept: Option<Kept>,
    /// Released but not free yet because somebody may still read them, oldest first.
    leased: VecDeque<Leased>,
    /// Free slots that may take space of the host's disk, if that space can be given back.
    idle: Option<Idle>,
    limit: Limit,
}

/// Numbers from this one on are not taken.
#[derive(Clone, Copy, Debug)]
struct Limit(u32);

impl Default for Limit {
    fn default() -> Limit {
        Limit(SLOT_LIMIT)
    }
}

/// While it lives, no released slot is reused: its old contents can still be read.
#[derive(Clone, Debug)]
pub struct Lease(#[expect(dead_code, reason = "it is there to be counted")] Arc<()>);

/// Slots released while leases may have been alive, those of this entry or of earlier ones.
#[derive(Clone, Default, Debug)]
struct Leased {
    lease: Arc<()>,
    given_up: Vec<Slot>,
}

/// Slots that become free only after two syncs: until the first, their contents may be needed; until the second, they
/// prove that the first sync is complete.
#[derive(Clone, Default, Debug)]
struct Kept {
    /// Released since the last sync began.
    since: Vec<Slot>,
    /// Released before the last sync began, and after the one before it began.
    begun: Vec<Slot>,
    /// Released before the last completed sync began.
    ended: Vec<Slot>,
}

impl Slots {
    /// Slots, with those in use that `used` lists.
    pub fn rebuild(watermark: u32, used: Vec<u64>) -> Slots {
        let mut slots = Slots { watermark, ..Slots::default() };
        for (word, mut bits) in (0..).zip(used) {
            while bits != 0 {
                slots.mark_used(Slot(word * 64 + bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
        slots
    }

    /// The highest slot ever used.
    pub fn watermark(&self) -> u32 {
        self.watermark
    }

    /// Slots in use.
    #[inline]
    pub fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Whether a slot has an owner.
    #[inline]
    pub fn is_used(&self, slot: Slot) -> bool {
        let word = self.used.get(slot.0 as usize / 64);
        word.is_some_and(|word| word & (1 << (slot.0 % 64)) != 0)
    }

    /// Slots that were used and have no owner.
    pub fn unused(&self) -> impl Iterator<Item = Slot> + '_ {
        (1..=self.watermark).map(Slot).filter(|slot| !self.is_used(*slot))
    }

    /// # Panics
    /// If a slot has no owner.
    #[inline]
    pub fn assert_used(&self, slot: Slot) {
        assert!(self.is_used(slot), "slot {} is used after it was freed", slot.0);
    }

    /// Lets a test refuse every slot, or no longer. The limit is compared anyway, so that this costs nothing.
    pub fn refuse_all(&mut self, refuses: bool) {
        self.limit = if refuses { Limit(0) } else { Limit::default() };
    }

    /// Whether every slot is refused.
    pub fn refuses_all(&self) -> bool {
        self.limit.0 == 0
    }

    /// Takes the lowest free slot.
    #[inline]
    pub fn take(&mut self) -> Result<Slot, NandError> {
        let slot = Slot(self.taken.lowest_free() as u32 + 1);
        if slot.0 >= self.limit.0 {
            return Err(NandError::OutOfSlots { slots: self.watermark });
        }
        debug_assert!(
            slot.0 <= self.watermark + 1,
            "slot {} is the lowest free one, but none above {} was ever used",
            slot.0,
            self.watermark
        );
        self.mark_used(slot);
        self.watermark = self.watermark.max(slot.0);
        Ok(slot)
    }

    fn mark_used(&mut self, slot: Slot) {
        debug_assert!(!self.is_used(slot), "slot {} has an owner already", slot.0);
        let word = slot.0 as usize / 64;
        if self.used.len() <= word {
            self.used.resize(word + 1, 0);
        }
        self.used[word] |= 1 << (slot.0 % 64);
        self.in_use += 1;
        self.taken.set(slot.index());
        if let Some(idle) = &mut self.idle {
            idle.remove(slot);
        }
    }

    /// A slot has no owner any more.
    #[inline]
    pub fn release(&mut self, slot: Slot) {
        self.assert_used(slot);
        self.used[slot.0 as usize / 64] &= !(1 << (slot.0 % 64));
        self.in_use -= 1;
        match &mut self.kept {
            Some(kept) => kept.since.push(slot),
            None => self.free(slot),
        }
    }

    /// Releases every slot in use except those that `stay`, a bit for each number.
    pub fn retain(&mut self, stay: &[u64]) {
        for word in 0..self.used.len() {
            let mut gone = self.used[word] & !stay.get(word).copied().unwrap_or(0);
            while gone != 0 {
                self.release(Slot(word as u32 * 64 + gone.trailing_zeros()));
                gone &= gone - 1;
            }
        }
        debug_assert!(
            self.used.iter().map(|word| word.count_ones()).sum::<u32>() == self.in_use,
            "{} slots are counted, but not as many are in use",
            self.in_use
        );
    }

    /// A slot may be reused once all leases that exist now have ended.
    fn free(&mut self, slot: Slot) {
        debug_assert!(!self.is_used(slot), "slot {} becomes free, but is in use", slot.0);
        self.end_leases();
        match self.leased.back_mut() {
            Some(leased) => leased.given_up.push(slot),
            None => become_free(slot, &mut self.taken, &mut self.idle),
        }
    }

    /// Slots released from now on are not reused while the lease lives.
    pub fn lease(&mut self) -> Lease {
        self.end_leases();
        // what was released earlier need not wait for it
        if self.leased.back().is_none_or(|leased| !leased.given_up.is_empty()) {
            self.leased.push_back(Leased::default());
        }
        Lease(self.leased.back().expect("one was there or was put there").lease.clone())
    }

    fn end_leases(&mut self) {
        while let Some(leased) = self.leased.front_mut()
            && Arc::get_mut(&mut leased.lease).is_some()
        {
            let given_up = std::mem::take(&mut leased.given_up);
            self.leased.pop_front();
            given_up.into_iter().for_each(|slot| become_free(slot, &mut self.taken, &mut self.idle));
        }
    }

    /// From now on released slots become free only after two syncs.
    pub fn keep(&mut self) {
        self.kept = Some(Kept::default());
    }

    /// A sync begins. Slots released from now on belong to the next one.
    pub fn sync_begin(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.begun.append(&mut kept.since);
        }
    }

    /// The sync that began is done.
    pub fn sync_end(&mut self) {
        if let Some(kept) = &mut self.kept {
            let ended = std::mem::replace(&mut kept.ended, std::mem::take(&mut kept.begun));
            ended.into_iter().for_each(|slot| self.free(slot));
        }
    }

    /// Slots that were released and become free after syncs.
    pub fn waiting(&self) -> u32 {
        self.kept.as_ref().map_or(0, |kept| kept.since.len() + kept.begun.len() + kept.ended.len()) as u32
    }

    /// Everything is durable in place: no released slot is needed any more.
    pub fn settle(&mut self) {
        if let Some(kept) = self.kept.replace(Kept::default()) {
            let all = [kept.ended, kept.begun, kept.since].into_iter().flatten();
            all.for_each(|slot| self.free(slot));
        }
    }

    // -- space of the host's disk -------------------------------------------------------------------------------

    /// From now on it is known which free slots take space of the host's disk. Of those that are free now, the first
    /// `on_disk` slots may have some that do.
    pub fn watch_idle(&mut self, on_disk: u32) {
        assert!(self.waiting() == 0 && self.leased.is_empty(), "released slots are not free yet");
        let last = (on_disk / 64, u64::MAX >> (63 - on_disk % 64));
        let free = |word: u32| {
            let used = self.used.get(word as usize).copied().unwrap_or(0);
            // there is no slot 0
            !used & if word == last.0 { last.1 } else { u64::MAX } & !u64::from(word == 0)
        };
        let bits: Vec<u64> = (0..=last.0).map(free).collect();
        let count = bits.iter().map(|word| word.count_ones()).sum();
        let end = bits.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        self.idle = Some(Idle { bits, count, end });
    }

    /// Free slots that may take space of the host's disk.
    pub fn idle(&self) -> u32 {
        self.idle.as_ref().map_or(0, |idle| idle.count)
    }

    /// The highest of them that are side by side, at most this many: those that are taken last.
    pub fn highest_idle(&self, most: u32) -> Option<(Slot, u32)> {
        let run = self.idle.as_ref()?.highest_run(most);
        debug_assert!(
            run.is_none_or(
                |(first, count)| (0..count).all(|next| !self.taken.has(first.index() + next as usize))
            ),
            "slots of {run:?} are not free"
        );
        run
    }

    /// The host has the space of these again.
    pub fn given_back(&mut self, (first, count): (Slot, u32)) {
        if let Some(idle) = &mut self.idle {
            (first.0..first.0 + count).for_each(|slot| idle.remove(Slot(slot)));
        }
    }
}

/// A slot may be reused.
#[inline]
fn become_free(slot: Slot, taken: &mut Taken, idle: &mut Option<Idle>) {
    taken.clear(slot.index());
    if let Some(idle) = idle {
        idle.add(slot);
    }
}

/// Free slots that may take space of the host's disk: a bit for each number.
#[derive(Clone, Default, Debug)]
struct Idle {
    bits: Vec<u64>,
    count: u32,
    /// No word from this one on has a bit.
    end: usize,
}

impl Idle {
    fn add(&mut self, slot: Slot) {
        let (word, bit) = (slot.0 as usize / 64, 1 << (slot.0 % 64));
        if self.bits.len() <= word {
            self.bits.resize(word + 1, 0);
        }
        self.count += u32::from(self.bits[word] & bit == 0);
        self.bits[word] |= bit;
        self.end = self.end.max(word + 1);
    }

    #[inline]
    fn remove(&mut self, slot: Slot) {
        let (word, bit) = (slot.0 as usize / 64, 1 << (slot.0 % 64));
        if let Some(bits) = self.bits.get_mut(word)
            && *bits & bit != 0
        {
            *bits &= !bit;
            self.count -= 1;
            if word + 1 == self.end {
                self.end =
                    self.bits[..self.end].iter().rposition(|bits| *bits != 0).map_or(0, |last| last + 1);
            }
        }
    }

    fn has(&self, number: u32) -> bool {
        self.bits.get(number as usize / 64).is_some_and(|bits| bits & (1 << (number % 64)) != 0)
    }

    fn highest_run(&self, most: u32) -> Option<(Slot, u32)> {
        let word = self.end.checked_sub(1).filter(|_| most > 0)?;
        let last = word as u32 * 64 + 63 - self.bits[word].leading_zeros();
        let mut first = last;
        while last - first + 1 < most && first > 0 && self.has(first - 1) {
            first -= 1;
        }
        Some((Slot(first), last - first + 1))
    }
}

/// Levels of [`Taken`]: enough for [`SLOT_LIMIT`] slots.
const LEVELS: usize = 6;

/// A set of numbers that knows its lowest missing number.
///
/// Level 0 has a bit for each number; each higher level has a bit for each word below, set if all of the word's bits are.
/// So the lowest missing number is found in a few steps, whatever the size of the set.
#[derive(Clone, Default, Debug)]
struct Taken([Vec<u64>; LEVELS]);

impl Taken {
    fn lowest_free(&self) -> usize {
        self.0.iter().rev().fold(0, |index, level| {
            index * 64 + level.get(index).map_or(0, |word| word.trailing_ones() as usize)
        })
    }

    fn has(&self, index: usize) -> bool {
        self.0[0].get(index / 64).is_some_and(|word| word & (1 << (index % 64)) != 0)
    }

    fn set(&mut self, mut index: usize) {
        debug_assert!(!self.has(index), "number {index} is in the set already");
        for level in &mut self.0 {
            let word = index / 64;
            if level.len() <= word {
                level.resize(word + 1, 0);
            }
            level[word] |= 1 << (index % 64);
            if level[word] != u64::MAX {
                break;
            }
            index = word;
        }
    }

    fn clear(&mut self, mut index: usize) {
        debug_assert!(self.has(index), "number {index} is not in the set");
        for level in &mut self.0 {
            let word = &mut level[index / 64];
            let was_full = *word == u64::MAX;
            *word &= !(1 << (index % 64));
            if !was_full {
                break;
            }
            index /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_taken_next() {
        let mut slots = Slots::default();
        let taken: Vec<Slot> = (0..10_000).map(|_| slots.take().unwrap()).collect();
        assert_eq!(taken, (1..=10_000).map(Slot).collect::<Vec<_>>());
        for number in [9000, 64, 65, 4097, 4096] {
            slots.release(Slot(number));
        }
        assert_eq!((slots.in_use(), slots.watermark()), (9995, 10_000));
        let again: Vec<u32> = (0..6).map(|_| slots.take().unwrap().0).collect();
        assert_eq!(again, [64, 65, 4096, 4097, 9000, 10_001]);
        assert_eq!((slots.in_use(), slots.watermark()), (10_001, 10_001));
    }

    /// Seeded: any order of taking and giving up, compared with a set.
    #[test]
    fn no_slot_has_two_owners() {
        let (mut slots, mut used) = (Slots::default(), std::collections::BTreeSet::new());
        let mut random = 7_u64;
        for step in 0..200_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let drawn = (random >> 33) as u32;
            // More are taken at first, and more given up later.
            if drawn % 8 < if step < 100_000 { 5 } else { 3 } {
                let slot = slots.take().unwrap().0;
                // Each step would take too long.
                let is_lowest = step % 1000 != 0 || (1..slot).all(|lower| used.contains(&lower));
                assert!(used.insert(slot) && is_lowest, "slot {slot}, step {step}");
            } else if let Some(&slot) = used.range(drawn % 30_000..).next() {
                used.remove(&slot);
                slots.release(Slot(slot));
            }
            assert_eq!(slots.in_use() as usize, used.len());
        }
    }

    #[test]
    #[should_panic(expected = "slot 1 is used after it was freed")]
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

    // slots given up during a sync were counted with those of that sync, and became free one sync too early
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

    #[test]
    fn a_slot_given_up_under_a_lease_is_taken_again_when_that_and_all_before_are_gone() {
        let mut slots = Slots::default();
        let [a, b, c, d] = [0; 4].map(|_| slots.take().unwrap());
        slots.release(a);
        assert_eq!(slots.take().unwrap(), a, "nobody reads");
        let first = slots.lease();
        slots.release(a);
        let second = slots.lease();
        slots.release(b);
        drop(second);
        assert_eq!(slots.take().unwrap().0, 5, "the first lease was there when both were given up");
        drop(first);
        slots.release(c);
        assert_eq!([slots.take().unwrap(), slots.take().unwrap(), slots.take().unwrap()], [a, b, c]);
        let third = slots.lease();
        slots.release(d);
        let fourth = slots.lease();
        drop(third);
        slots.release(c);
        assert_eq!(slots.take().unwrap(), d, "the fourth lease came later");
        assert_eq!(slots.take().unwrap().0, 6);
        drop(fourth);
    }

    #[test]
    fn free_slots_are_idle_until_they_are_given_back_or_taken_highest_first() {
        let mut slots = Slots::default();
        slots.watch_idle(0);
        slots.keep();
        let taken: Vec<Slot> = (0..200).map(|_| slots.take().unwrap()).collect();
        assert_eq!((slots.idle(), slots.highest_idle(9)), (0, None), "what was never used takes no space");
        taken[60..150].iter().chain(&taken[190..195]).for_each(|slot| slots.release(*slot));
        assert_eq!(slots.idle(), 0, "what it held may be needed");
        for _ in 0..2 {
            slots.sync_begin();
            assert_eq!(slots.idle(), 0);
            slots.sync_end();
        }
        assert_eq!((slots.idle(), slots.highest_idle(9)), (95, Some((Slot(191), 5))));
        slots.given_back((Slot(191), 5));
        assert_eq!((slots.idle(), slots.highest_idle(7)), (90, Some((Slot(144), 7))));
        slots.given_back((Slot(144), 7));
        assert_eq!(slots.highest_idle(u32::MAX), Some((Slot(61), 83)));
        assert_eq!((slots.take().unwrap(), slots.idle()), (Slot(61), 82));
        // one that was given back takes no space until it is used again
        let last = (0..82 + 7).map(|_| slots.take().unwrap()).last().unwrap();
        assert_eq!((last, slots.idle(), slots.highest_idle(9)), (Slot(150), 0, None));
        slots.release(last);
        slots.settle();
        assert_eq!(slots.highest_idle(9), Some((last, 1)));
    }

    #[test]
    fn what_somebody_still_reads_is_not_idle() {
        let mut slots = Slots::default();
        slots.watch_idle(0);
        let slot = slots.take().unwrap();
        let lease = slots.lease();
        slots.release(slot);
        assert_eq!(slots.idle(), 0);
        drop(lease);
        slots.end_leases();
        assert_eq!(slots.highest_idle(9), Some((slot, 1)));
    }

    #[test]
    fn of_a_file_all_free_slots_may_be_idle() {
        let mut slots = Slots::rebuild(70, vec![1 << 3, 1 << 1]);
        slots.watch_idle(80);
        assert_eq!((slots.idle(), slots.highest_idle(u32::MAX)), (78, Some((Slot(66), 15))));
    }

    #[test]
    fn what_does_not_stay_is_given_up() {
        let mut slots = Slots::default();
        (0..130).for_each(|_| assert!(slots.take().is_ok()));
        let lease = slots.lease();
        slots.retain(&[!(1 << 5), u64::MAX]);
        assert_eq!((slots.in_use(), slots.take().unwrap().0), (126, 131));
        drop(lease);
        let _lease = slots.lease();
        let taken: Vec<u32> = (0..4).map(|_| slots.take().unwrap().0).collect();
        assert_eq!(taken, [5, 128, 129, 130]);
    }
}
