//! The write cache: units in the drive's DRAM that wait for flash, oldest first.
//!
//! A rewrite of a cached unit replaces it in place (DuraSSD, section 3.1.1). The old copy on flash stays mapped until
//! the new one is programmed (hazard 1). Data wait in the medium's own buffers, so programming them copies nothing.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;
use tantalum_ftl::{HostUnit, Lpn};
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
    hinted: usize,
    /// Units on their way to flash, which still hold their buffers: until when, and their number.
    in_flight: VecDeque<(Nanoseconds, u32)>,
    in_flight_units: usize,
    /// When room was last granted.
    room_ns: Nanoseconds,
}

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
            hinted: 0,
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
        let Cache { index, entries, .. } = self;
        let lpn_of = |entry: &u32| entries[*entry as usize].as_ref().map(|unit| unit.lpn);
        let is_lpn = |entry: &u32| lpn_of(entry) == Some(unit.lpn);
        let rehash = |entry: &u32| hash(lpn_of(entry).expect("an indexed entry is there"));
        match index.entry(hash(unit.lpn), is_lpn, rehash) {
            Entry::Occupied(found) => {
                let old = entries[*found.get() as usize].replace(*unit).expect("an indexed entry is there");
                self.hinted -= usize::from(old.hint.is_some());
                Some(old)
            }
            Entry::Vacant(vacant) => {
                let entry = self.free.pop().unwrap_or(entries.len() as u32);
                vacant.insert(entry);
                if entry as usize == entries.len() {
                    entries.push(None);
                    self.turns.push(0);
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
        let unit = self.entries[entry as usize].take();
        debug_assert!(unit.is_some(), "an indexed entry is there");
        self.hinted -= usize::from(unit.is_some_and(|unit| unit.hint.is_some()));
        self.check_counts();
        unit
    }

    /// Each entry waits or is free, and only what waits has a hint.
    #[inline]
    fn check_counts(&self) {
        let (waiting, free, entries) = (self.len(), self.free.len(), self.entries.len());
        debug_assert!(waiting + free == entries, "{waiting} entries wait, {free} of {entries} are free");
        debug_assert!(self.hinted <= waiting, "{} units with hints among {waiting} that wait", self.hinted);
    }

    /// The oldest waiting units, as many as `page` holds; they stay until they are removed.
    pub fn oldest(&mut self, page: &mut Vec<HostUnit>, limit: usize) {
        page.clear();
        while let Some(&(entry, turn)) = self.queue.front() {
            if self.entries[entry as usize].is_some() && self.turns[entry as usize] == turn {
                break;
            }
            self.queue.pop_front();
        }
        for &(entry, turn) in &self.queue {
            if page.len() == limit {
                break;
            }
            if let Some(unit) = self.entries[entry as usize]
                && self.turns[entry as usize] == turn
            {
                page.push(unit);
            }
        }
        let (found, expected) = (page.len(), limit.min(self.len()));
        debug_assert!(found == expected, "{found} units have a turn, instead of {expected}");
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
        self.len() > self.capacity / 2
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
        HostUnit { slot, lpn: Lpn(lpn), version: Seq(1), metadata: [0; 24], hint: None }
    }

    fn oldest(cache: &mut Cache, limit: usize) -> Vec<u32> {
        let mut page = Vec::new();
        cache.oldest(&mut page, limit);
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
        let hint = Hint {
            generation: Generation(1),
            attempt: 0,
            start: 1,
            first: 1,
            slot: 1,
            end: true,
            home: None,
        };
        let page = HostUnit { hint: Some(hint), ..unit(&mut nand, 5) };
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
}
