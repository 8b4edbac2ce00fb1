//! The write cache: units in the drive's DRAM that wait for flash, oldest first.
//!
//! A rewrite of a cached unit replaces it in place (DuraSSD, section 3.1.1). The old copy on flash stays mapped until
//! the new one is programmed (hazard 1). Data wait in the medium's own buffers, so programming them copies nothing.
//!
//! Units of a write that is all or nothing are a *group*: they leave together, on one page or in one batch (hazard 36). A newer
//! write to some of them joins the group. Otherwise a cut could leave the older write without the units that were replaced,
//! although nothing newer is there either.
//!
//! A page has units of one reclaim unit handle, and so has a group. The handle whose oldest unit is oldest goes first, among those
//! with a page of units; what else waits longer, until more of it has come.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::iter;
use std::ops::Range;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;
use tantalum_canaries::guard;
use tantalum_ftl::{Handle, HostUnit, Lpn};
use tantalum_nand::Nanoseconds;

/// Waiting units, and room for those on their way to flash.
#[derive(Clone, Debug)]
pub struct Cache {
    capacity: usize,
    /// Entry numbers, found by logical page.
    index: HashTable<u32>,
    entries: Vec<Option<HostUnit>>,
    free: Vec<u32>,
    /// Entry numbers with their turn; a number whose entry now has another turn is skipped.
    queue: VecDeque<(u32, u64)>,
    turns: Vec<u64>,
    next_turn: u64,
    /// The entry after each one in its group, which is a ring; of a unit alone, the entry itself.
    next_of_group: Vec<u32>,
    /// Units in groups of several.
    grouped: usize,
    hinted: usize,
    /// Units by reclaim unit handle.
    with_handle: [u32; Handle::MOST as usize],
    /// Units on their way to flash, which still hold their buffers: until when, and their number.
    in_flight: VecDeque<(Nanoseconds, u32)>,
    in_flight_units: usize,
    /// When room was last granted.
    room_ns: Nanoseconds,
}

/// How far behind the oldest unit a page is filled from, in places of the queue. If what is there leaves a gap, groups of the
/// same size fill whole pages once as many of them as a page has units are taken.
const FILLED_FROM: usize = 64;

fn hash(lpn: Lpn) -> u64 {
    FxBuildHasher.hash_one(lpn.0)
}

impl Cache {
    /// A cache of `capacity` units; 0 means no cache.
    pub fn new(capacity: usize) -> Cache {
        // a profile may ask for more than this host has; a cache grows with its contents
        let expected = capacity.min(1 << 16);
        Cache {
            capacity,
            index: HashTable::with_capacity(expected),
            entries: Vec::with_capacity(expected),
            free: Vec::new(),
            queue: VecDeque::with_capacity(expected),
            turns: Vec::with_capacity(expected),
            next_turn: 0,
            next_of_group: Vec::with_capacity(expected),
            grouped: 0,
            hinted: 0,
            with_handle: [0; Handle::MOST as usize],
            in_flight: VecDeque::new(),
            in_flight_units: 0,
            room_ns: 0,
        }
    }

    /// Changes the capacity; the contents stay.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
    }

    /// Units waiting.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether a page of a hinted log waits.
    pub fn has_hinted(&self) -> bool {
        self.hinted > 0
    }

    fn find(&self, lpn: Lpn) -> Option<u32> {
        let entries = &self.entries;
        let is_lpn = |entry: &u32| entries[*entry as usize].as_ref().is_some_and(|unit| unit.lpn == lpn);
        self.index.find(hash(lpn), is_lpn).copied()
    }

    /// The unit waiting for a logical page.
    #[inline]
    pub fn get(&self, lpn: Lpn) -> Option<&HostUnit> {
        if self.index.is_empty() {
            return None;
        }
        self.entries[self.find(lpn)? as usize].as_ref()
    }

    /// Inserts a unit. Returns the one that it replaces. The unit is read where it is: right after a copy of data a load of
    /// what was just stored in other pieces stalls.
    pub fn insert(&mut self, unit: &HostUnit) -> Option<HostUnit> {
        self.hinted += usize::from(unit.hint.is_some());
        self.with_handle[unit.handle.index()] += 1;
        let Cache { index, entries, .. } = self;
        let lpn_of = |entry: &u32| entries[*entry as usize].as_ref().map(|unit| unit.lpn);
        let is_lpn = |entry: &u32| lpn_of(entry) == Some(unit.lpn);
        let rehash = |entry: &u32| hash(lpn_of(entry).expect("an indexed entry is there"));
        match index.entry(hash(unit.lpn), is_lpn, rehash) {
            Entry::Occupied(found) => {
                let old = entries[*found.get() as usize].replace(*unit).expect("an indexed entry is there");
                self.hinted -= usize::from(old.hint.is_some());
                self.with_handle[old.handle.index()] -= 1;
                Some(old)
            }
            Entry::Vacant(vacant) => {
                let entry = self.free.pop().unwrap_or(entries.len() as u32);
                vacant.insert(entry);
                if entry as usize == entries.len() {
                    entries.push(None);
                    self.turns.push(0);
                    self.next_of_group.push(entry);
                }
                entries[entry as usize] = Some(*unit);
                self.turns[entry as usize] = self.next_turn;
                self.queue.push_back((entry, self.next_turn));
                self.next_turn += 1;
                self.check_counts();
                None
            }
        }
    }

    /// Takes a unit out.
    pub fn remove(&mut self, lpn: Lpn) -> Option<HostUnit> {
        if self.index.is_empty() {
            return None;
        }
        let entries = &self.entries;
        let is_lpn = |entry: &u32| entries[*entry as usize].as_ref().is_some_and(|unit| unit.lpn == lpn);
        let (entry, _) = self.index.find_entry(hash(lpn), is_lpn).ok()?.remove();
        self.free.push(entry);
        if self.next_of_group[entry as usize] != entry {
            self.leave_group(entry);
        }
        let unit = self.entries[entry as usize].take();
        debug_assert!(unit.is_some(), "an indexed entry is there");
        self.hinted -= usize::from(unit.is_some_and(|unit| unit.hint.is_some()));
        if let Some(unit) = unit {
            self.with_handle[unit.handle.index()] -= 1;
        }
        self.check_counts();
        unit
    }

    /// Each entry waits or is free, and only what waits has a hint or is in a group.
    #[inline]
    fn check_counts(&self) {
        let (waiting, free, entries) = (self.len(), self.free.len(), self.entries.len());
        debug_assert!(waiting + free == entries, "{waiting} entries wait, {free} of {entries} are free");
        debug_assert!(
            self.grouped <= waiting,
            "{} units are in groups, of {waiting} that wait",
            self.grouped
        );
        debug_assert!(self.hinted <= waiting, "{} units with hints among {waiting} that wait", self.hinted);
        debug_assert!(
            self.count_with(Handle::DEFAULT) <= waiting,
            "{} units with the first handle among {waiting} that wait",
            self.count_with(Handle::DEFAULT)
        );
    }

    // -- groups -------------------------------------------------------------------------------------------------

    /// Whether units wait that leave together.
    #[inline]
    pub fn has_groups(&self) -> bool {
        self.grouped > 0
    }

    /// Whether a unit waits that leaves together with others.
    pub fn is_grouped(&self, lpn: Lpn) -> bool {
        self.has_groups() && self.find(lpn).is_some_and(|entry| self.is_of_several(entry))
    }

    fn is_of_several(&self, entry: u32) -> bool {
        self.next_of_group[entry as usize] != entry
    }

    /// The entries of a group, beginning with this one.
    fn group(&self, entry: u32) -> impl Iterator<Item = u32> + '_ {
        let after =
            move |before: &u32| Some(self.next_of_group[*before as usize]).filter(|next| *next != entry);
        iter::successors(Some(entry), after)
    }

    fn unit(&self, entry: u32) -> &HostUnit {
        self.entries[entry as usize].as_ref().expect("what is in a group waits")
    }

    /// Units of the group that there would be if these were written as one.
    pub fn joined_units(&self, lpns: Range<u32>) -> usize {
        let waiting =
            lpns.clone().filter_map(|lpn| if self.has_groups() { self.find(Lpn(lpn)) } else { None });
        let others = waiting.map(|entry| {
            let within = |other: &u32| lpns.contains(&self.unit(*other).lpn.0);
            // each group once, by its first unit that is written
            let is_first =
                self.group(entry).filter(within).all(|other| self.unit(other).lpn >= self.unit(entry).lpn);
            if is_first { self.group(entry).filter(|other| !within(other)).count() } else { 0 }
        });
        lpns.len() + others.sum::<usize>()
    }

    /// These units, all of which wait, leave together, and with them the groups that they were in.
    pub fn join(&mut self, lpns: Range<u32>) {
        let waiting = |lpn| self.find(Lpn(lpn)).expect("what joins a group waits");
        let mut before = waiting(lpns.start);
        for lpn in lpns.skip(1) {
            let entry = self.find(Lpn(lpn)).expect("what joins a group waits");
            if self.group(entry).all(|other| other != before) {
                self.grouped +=
                    [before, entry].iter().filter(|joining| !self.is_of_several(**joining)).count();
                // two rings whose next entries are exchanged are one ring
                self.next_of_group.swap(before as usize, entry as usize);
            }
            before = entry;
        }
        self.check_counts();
    }

    fn leave_group(&mut self, entry: u32) {
        let before = self.group(entry).last().expect("a group has the entry itself");
        self.next_of_group[before as usize] = self.next_of_group[entry as usize];
        self.next_of_group[entry as usize] = entry;
        self.grouped -= if self.is_of_several(before) { 1 } else { 2 };
    }

    /// Units that `oldest` returned did not reach flash, and may be in other buffers now.
    pub fn stay(&mut self, units: &[HostUnit]) {
        for unit in units {
            let entry = self.find(unit.lpn).expect("the unit waits");
            self.entries[entry as usize] = Some(*unit);
        }
    }

    /// The oldest waiting units that leave together: whole groups, for one page or for several; they stay until they are
    /// removed. More than a page has none with hints, and is more than `most` units only if the oldest group is. With a `handle`,
    /// they are those of it, of which some wait.
    pub fn oldest(
        &mut self,
        units: &mut Vec<HostUnit>,
        per_page: usize,
        most: usize,
        handle: Option<Handle>,
    ) {
        self.forget_stale_turns();
        let mixes = guard!(HandlesMixed, self.count_with(Handle::DEFAULT) == self.len());
        let handle = if mixes { handle } else { handle.or_else(|| self.handle_to_leave(per_page)) };
        match self.has_groups() {
            false => self.oldest_alone(units, per_page, handle),
            true => self.oldest_groups(units, per_page, most, handle),
        }
    }

    // -- handles ------------------------------------------------------------------------------------------------

    /// How many units wait that have a handle.
    #[inline]
    pub fn count_with(&self, handle: Handle) -> usize {
        self.with_handle[handle.index()] as usize
    }

    /// Whether some of these units are in a group with another handle.
    pub fn leaves_with_other_handle(&self, mut lpns: Range<u32>, handle: Handle) -> bool {
        let has_other = |entry: u32| self.is_of_several(entry) && self.unit(entry).handle != handle;
        self.has_groups() && lpns.any(|lpn| self.find(Lpn(lpn)).is_some_and(has_other))
    }

    /// The handle that is the first to fill a page with its oldest units; if none does, that of the oldest unit.
    fn handle_to_leave(&self, per_page: usize) -> Option<Handle> {
        let mut counts = [0; Handle::MOST as usize];
        let waiting = self.queue.iter().filter(|(entry, turn)| self.has_turn(*entry, *turn));
        let mut handles = waiting.map(|(entry, _)| self.unit(*entry).handle);
        let oldest = handles.next();
        let mut fills_page = |handle: &Handle| {
            counts[handle.index()] += 1;
            counts[handle.index()] == per_page
        };
        oldest.into_iter().chain(handles).find(|handle| fills_page(handle)).or(oldest)
    }

    /// Whether a waiting unit may leave with those of a handle.
    fn goes_with(&self, entry: u32, handle: Option<Handle>) -> bool {
        handle.is_none_or(|handle| self.unit(entry).handle == handle)
    }

    // -- what leaves ----------------------------------------------------------------------------------------------

    /// Fills the last page of the oldest group with others, in the order in which they came. If a gap is left, it takes more
    /// groups.
    fn oldest_groups(
        &mut self,
        units: &mut Vec<HostUnit>,
        per_page: usize,
        most: usize,
        handle: Option<Handle>,
    ) {
        units.clear();
        let mut waiting = (0..).zip(&self.queue).filter(|(_, (entry, turn))| self.has_turn(*entry, *turn));
        let oldest = waiting.find(|(_, (entry, _))| self.goes_with(*entry, handle));
        let (first, oldest) = oldest.map(|(place, (entry, _))| (place, *entry)).expect("a unit waits");
        let needed = self.group(oldest).count().next_multiple_of(per_page);
        self.gather(units, per_page, needed, (first, handle));
        if !units.len().is_multiple_of(per_page) && units.iter().all(|unit| unit.hint.is_none()) {
            self.gather(units, per_page, most.min(needed * per_page), (first, handle));
        }
    }

    /// Adds whole groups of a handle, from the place of the oldest on, until they fill pages. They are no more than `most` units.
    fn gather(
        &self,
        units: &mut Vec<HostUnit>,
        per_page: usize,
        most: usize,
        (first, handle): (usize, Option<Handle>),
    ) {
        for &(entry, turn) in self.queue.iter().skip(first).take(FILLED_FROM) {
            if !self.has_turn(entry, turn) || !self.goes_with(entry, handle) {
                continue;
            }
            let is_taken = |units: &[HostUnit]| units.iter().any(|unit| unit.lpn == self.unit(entry).lpn);
            let is_marked = most > per_page && self.unit(entry).hint.is_some();
            if is_marked || units.len() + self.group(entry).count() > most || is_taken(units) {
                continue;
            }
            units.extend(self.group(entry).map(|entry| *self.unit(entry)));
            if units.len().is_multiple_of(per_page) {
                return;
            }
        }
    }

    /// Whether an entry of the queue is one that waits.
    fn has_turn(&self, entry: u32, turn: u64) -> bool {
        self.entries[entry as usize].is_some() && self.turns[entry as usize] == turn
    }

    /// After this, the front of the queue waits.
    fn forget_stale_turns(&mut self) {
        while let Some(&(entry, turn)) = self.queue.front() {
            if self.has_turn(entry, turn) {
                break;
            }
            self.queue.pop_front();
        }
    }

    /// The oldest waiting units, as many as a page holds, if each leaves alone.
    fn oldest_alone(&self, page: &mut Vec<HostUnit>, limit: usize, handle: Option<Handle>) {
        page.clear();
        for &(entry, turn) in &self.queue {
            if page.len() == limit {
                break;
            }
            if let Some(unit) = self.entries[entry as usize]
                && self.turns[entry as usize] == turn
                && handle.is_none_or(|handle| unit.handle == handle)
            {
                page.push(unit);
            }
        }
        let (found, expected) = (page.len(), limit.min(self.len()));
        debug_assert!(
            found == expected || handle.is_some(),
            "{found} units have a turn, instead of {expected}"
        );
    }

    /// All units waiting, oldest first.
    pub fn drain(&mut self) -> Vec<HostUnit> {
        let queue = std::mem::take(&mut self.queue);
        let units = queue.into_iter().filter(|&(entry, turn)| self.turns[entry as usize] == turn);
        let units: Vec<HostUnit> = units.filter_map(|(entry, _)| self.entries[entry as usize]).collect();
        assert_eq!(units.len(), self.len(), "each waiting unit has one turn");
        self.clear();
        units
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Cache::new(self.capacity);
    }

    /// Units were sent to flash and hold their buffers until they are there.
    pub fn programmed(&mut self, units: u32, done_ns: Nanoseconds) {
        self.in_flight.push_back((done_ns, units));
        self.in_flight_units += units as usize;
    }

    /// When there is room for `units` more, at or after `at_ns`; none if the waiting units leave too little. At most
    /// half of the cache waits if callers program pages whenever it is high. Footprint is granted in the order of the
    /// requests, even when a queue submits both at once.
    pub fn room_ns(&mut self, units: usize, at_ns: Nanoseconds) -> Option<Nanoseconds> {
        let taken = self.len() + units;
        if taken > self.capacity {
            return None;
        }
        let mut room_ns = at_ns.max(self.room_ns);
        while let Some(&(done_ns, done)) = self.in_flight.front()
            && (done_ns <= room_ns || taken + self.in_flight_units > self.capacity)
        {
            room_ns = room_ns.max(done_ns);
            self.in_flight_units -= done as usize;
            self.in_flight.pop_front();
        }
        debug_assert!(
            self.in_flight_units == 0 || !self.in_flight.is_empty(),
            "{} units are counted on their way to flash, but none are",
            self.in_flight_units
        );
        self.room_ns = room_ns;
        debug_assert!(
            taken + self.in_flight_units <= self.capacity,
            "{taken} units wait and {} are on their way to flash, in a cache of {}",
            self.in_flight_units,
            self.capacity
        );
        Some(room_ns)
    }

    /// Whether enough units wait that a page should be programmed.
    pub fn is_high(&self) -> bool {
        self.is_high_before(1)
    }

    /// The same before so many are taken in at once.
    pub fn is_high_before(&self, units: usize) -> bool {
        self.len() + units > self.capacity / 2 + 1
    }
}

#[cfg(test)]
mod tests {
    use tantalum_ftl::{Generation, Hint, Seq};
    use tantalum_nand::{Geometry, Nand, Timing};

    use super::*;

    fn nand() -> Nand {
        let geometry = Geometry {
            channels: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            blocks_per_plane: 8,
            pages_per_block: 8,
            page_bytes: 4096,
        };
        let timing =
            Timing { read_ns: 1, program_ns: 1, erase_ns: 1, channel_bytes_per_second: 1_000_000_000 };
        Nand::in_memory(geometry, timing).unwrap()
    }

    fn unit(nand: &mut Nand, lpn: u32) -> HostUnit {
        let slot = nand.stage(&[lpn as u8; 4096]).unwrap();
        HostUnit::plain(slot, Lpn(lpn), Seq(1))
    }

    /// A page of a hinted log.
    fn log_page(nand: &mut Nand, lpn: u32) -> HostUnit {
        let hint = Hint {
            generation: Generation(1),
            attempt: 0,
            start: 1,
            first: 1,
            slot: 1,
            end: true,
            home: None,
        };
        HostUnit { hint: Some(hint), ..unit(nand, lpn) }
    }

    fn oldest(cache: &mut Cache, limit: usize) -> Vec<u32> {
        let mut page = Vec::new();
        cache.oldest(&mut page, limit, 16, None);
        page.iter().map(|unit| unit.lpn.0).collect()
    }

    #[test]
    fn a_rewrite_keeps_its_turn_and_gives_the_old_buffer_back() {
        let mut nand = nand();
        let mut cache = Cache::new(8);
        for lpn in [5, 6, 7] {
            assert!(cache.insert(&unit(&mut nand, lpn)).is_none());
        }
        assert!(cache.insert(&unit(&mut nand, 5)).is_some());
        assert_eq!(cache.len(), 3);
        assert_eq!(oldest(&mut cache, 2), [5, 6]);
    }

    #[test]
    fn a_removed_unit_that_comes_again_is_the_youngest() {
        let mut nand = nand();
        let mut cache = Cache::new(8);
        for lpn in [5, 6, 7] {
            cache.insert(&unit(&mut nand, lpn));
        }
        cache.remove(Lpn(5)).unwrap();
        cache.insert(&unit(&mut nand, 5));
        assert_eq!(oldest(&mut cache, 9), [6, 7, 5]);
        assert_eq!(cache.drain().iter().map(|unit| unit.lpn.0).collect::<Vec<_>>(), [6, 7, 5]);
    }

    #[test]
    fn units_on_their_way_take_room_until_they_are_on_flash() {
        let mut nand = nand();
        let mut cache = Cache::new(4);
        for lpn in [1, 2] {
            cache.insert(&unit(&mut nand, lpn));
        }
        cache.programmed(2, 500);
        assert_eq!(cache.room_ns(1, 100), Some(500));
        assert_eq!(cache.room_ns(1, 100), Some(500), "a page is flashed as a whole, and nobody passes by");
        assert_eq!(cache.room_ns(1, 600), Some(600), "the room was made");
    }

    #[test]
    fn so_many_units_wait_for_as_much_room() {
        let mut nand = nand();
        let mut cache = Cache::new(8);
        cache.insert(&unit(&mut nand, 1));
        for done_ns in [300, 500, 400] {
            cache.programmed(2, done_ns);
        }
        assert_eq!(cache.room_ns(8, 100), None, "there never is");
        assert_eq!(cache.room_ns(1, 100), Some(100));
        assert_eq!(cache.room_ns(2, 100), Some(300));
        assert_eq!(cache.room_ns(7, 100), Some(500));
    }

    #[test]
    fn half_of_the_cache_may_wait() {
        let mut nand = nand();
        let mut cache = Cache::new(9);
        for lpn in 0..4 {
            cache.insert(&unit(&mut nand, lpn));
            assert!(!cache.is_high(), "{} wait", cache.len());
        }
        cache.insert(&unit(&mut nand, 4));
        assert!(cache.is_high());
        cache.set_capacity(6);
        assert!(cache.is_high(), "more than half wait when it becomes smaller");
        cache.set_capacity(10);
        assert!(!cache.is_high());
    }

    #[test]
    fn it_is_known_whether_a_page_of_a_log_waits() {
        let mut nand = nand();
        let mut cache = Cache::new(8);
        let page = log_page(&mut nand, 5);
        assert!(!cache.has_hinted());
        cache.insert(&page);
        assert!(cache.has_hinted());
        cache.insert(&unit(&mut nand, 5));
        assert!(!cache.has_hinted(), "another unit replaced it");
        cache.insert(&page);
        cache.insert(&unit(&mut nand, 6));
        cache.remove(Lpn(5)).unwrap();
        assert!(!cache.has_hinted());
        cache.clear();
        assert_eq!((cache.len(), cache.has_hinted()), (0, false));
    }

    /// Rewrites with other handles, units that leave, and a cache that becomes empty.
    #[test]
    fn units_are_counted_by_their_handle() {
        let mut nand = nand();
        let mut cache = Cache::new(8);
        let mut expected = std::collections::BTreeMap::new();
        for step in 0_u32..400 {
            let (lpn, handle) = (step * 7 % 13, Handle((step * step % 5) as u8));
            if step % 3 == 2 {
                assert_eq!(cache.remove(Lpn(lpn)).is_some(), expected.remove(&lpn).is_some());
            } else {
                let old = cache.insert(&HostUnit { handle, ..unit(&mut nand, lpn) });
                assert_eq!(old.map(|old| old.handle), expected.insert(lpn, handle));
            }
            for handle in (0..6).map(Handle) {
                let count = expected.values().filter(|there| **there == handle).count();
                assert_eq!(cache.count_with(handle), count, "handle {handle} after step {step}");
            }
        }
        assert!(cache.count_with(Handle(1)) > 0);
        cache.clear();
        assert_eq!(cache.count_with(Handle(1)), 0);
    }

    /// A cache with units of one byte each, of which these are groups: the first unit of each, and the one after the last.
    fn with_groups(nand: &mut Nand, waiting: &[u32], groups: &[(u32, u32)]) -> Cache {
        let mut cache = Cache::new(64);
        for lpn in waiting {
            cache.insert(&unit(nand, *lpn));
        }
        groups.iter().for_each(|(first, end)| cache.join(*first..*end));
        cache
    }

    /// Removes pages until nothing waits. Returns the units of each step.
    fn leave(cache: &mut Cache, per_page: usize) -> Vec<Vec<u32>> {
        let mut steps = Vec::new();
        while cache.len() > 0 {
            let step = oldest(cache, per_page);
            for lpn in &step {
                cache.remove(Lpn(*lpn)).unwrap();
            }
            steps.push(step);
        }
        steps
    }

    #[test]
    fn units_of_a_group_leave_together_and_others_fill_the_page() {
        let mut nand = nand();
        let mut cache = with_groups(&mut nand, &[1, 2, 3, 9, 20, 21], &[(1, 4), (20, 22)]);
        assert!(cache.has_groups() && cache.is_grouped(Lpn(3)) && !cache.is_grouped(Lpn(9)));
        assert_eq!(leave(&mut cache, 4), [vec![1, 2, 3, 9], vec![20, 21]]);
        assert!(!cache.has_groups());
    }

    #[test]
    fn a_group_larger_than_a_page_takes_several_and_fills_the_last() {
        let mut nand = nand();
        let mut cache = with_groups(&mut nand, &[1, 2, 3, 4, 5, 8, 9, 20], &[(1, 6), (8, 10)]);
        assert_eq!(leave(&mut cache, 4), [[1, 2, 3, 4, 5, 8, 9, 20]]);
        let mut cache = with_groups(&mut nand, &[20, 1, 2, 3], &[(1, 4)]);
        assert_eq!(leave(&mut cache, 2), [[20, 1, 2, 3]], "they fill two pages together");
    }

    /// Three units leave a gap of one on each page of four, until four of them fill three pages.
    #[test]
    fn groups_that_leave_a_gap_leave_together() {
        let mut nand = nand();
        let lpns: Vec<u32> = (0..18).collect();
        let groups: Vec<(u32, u32)> = (0..18).step_by(3).map(|first| (first, first + 3)).collect();
        let mut cache = with_groups(&mut nand, &lpns, &groups);
        let sizes: Vec<usize> = leave(&mut cache, 4).iter().map(Vec::len).collect();
        assert_eq!(sizes, [12, 6]);
    }

    /// A mark has no room for a hint as well.
    #[test]
    fn pages_of_logs_leave_on_a_page_and_not_in_a_batch() {
        let mut nand = nand();
        let mut cache = with_groups(&mut nand, &[1, 2, 3, 4, 5, 6], &[(1, 4), (4, 7)]);
        cache.insert(&log_page(&mut nand, 9));
        assert_eq!(leave(&mut cache, 2), [vec![1, 2, 3, 4, 5, 6], vec![9]]);
        let mut cache = with_groups(&mut nand, &[1, 2, 3], &[(1, 4)]);
        cache.insert(&log_page(&mut nand, 9));
        assert_eq!(leave(&mut cache, 4), [[1, 2, 3, 9]]);
    }

    #[test]
    fn what_overlaps_a_group_joins_it() {
        let mut nand = nand();
        let mut cache = with_groups(&mut nand, &[1, 2, 3, 4, 6, 7, 8], &[(1, 4), (6, 9)]);
        assert_eq!(cache.joined_units(3..5), 4, "two others of the first group");
        assert_eq!(cache.joined_units(2..8), 8, "and one of the second");
        assert_eq!(cache.joined_units(9..11), 2);
        cache.insert(&unit(&mut nand, 5));
        cache.join(3..7);
        assert_eq!(cache.joined_units(8..9), 8, "each is one with all others");
        cache.join(1..9);
        assert_eq!(cache.joined_units(8..9), 8);
        for (left, lpn) in [(7, 4), (6, 1), (5, 8), (4, 3)] {
            cache.remove(Lpn(lpn)).unwrap();
            assert_eq!(cache.joined_units(5..6), left);
        }
        cache.remove(Lpn(2)).unwrap();
        cache.remove(Lpn(6)).unwrap();
        assert!(cache.is_grouped(Lpn(5)) && cache.is_grouped(Lpn(7)));
        cache.remove(Lpn(7)).unwrap();
        assert!(!cache.has_groups(), "the last one is alone");
    }
}
