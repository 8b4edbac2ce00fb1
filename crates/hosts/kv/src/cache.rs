//! Records in memory, within a budget of bytes. A record that was accessed since the clock hand last passed gets a
//! second chance (CLOCK).
//!
//! A record is read into the cache and changed in it only under its lock, so it always equals the drive's.
//!
//! The records are in shards with a lock and a ring each. The budget is that of all shards together, so a value fits no
//! matter how many shards there are; the hand visits a record of one shard, then one of the next.

use std::cell::Cell;
use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::MutexGuard;
use rustc_hash::{FxBuildHasher, FxHashSet};
use tantalum_image::prefetch_lines;

use crate::cache_padded::CachePadded;
use crate::keys::HASHED_KEY_BYTES;
use crate::record::{LEAF_BYTES, Name, Value};
use crate::sharded::Sharded;

/// Memory of a record besides its value.
const OVERHEAD_BYTES: usize = 128;

/// Of the records that only scans read, one in this many is taken into a full cache: those that are read again and again get in, and the
/// others neither cost the time to take them in nor evict what is used (Qureshi et al., Adaptive Insertion Policies, ISCA 2007, section 3.2).
const SCANNED_PER_TAKEN: usize = 8;

/// A ring up to this length is not cleaned up.
const LEAST_RING: usize = 64;

/// Shards of a large cache.
const MOST_SHARDS: usize = 16;

/// A cache has a shard for each of these bytes. With few records in a shard, the hand would come back to one before the
/// others have been visited.
const SHARD_BYTES: usize = 4 << 20;

/// Names that are looked up together at most.
pub(crate) const MOST_AT_ONCE: usize = 16;

/// Consecutive keys that are near each other in a table lie between multiples of this.
const NEAR: u8 = 8;

/// The hash of a name in the table of its shard, which its lowest bits and its highest ones choose a place in. Keys that differ in the
/// last bits of the last byte alone are in one shard and next to each other there: the numbers of values that follow each other in
/// an ordered namespace often are consecutive, and a scan waits for few lines of memory instead of one for each.
fn hash_of((namespace, key): &Name) -> u64 {
    let (mut bytes, length) = ([0; HASHED_KEY_BYTES], key.as_bytes().len());
    bytes[..length].copy_from_slice(key.as_bytes());
    let place = bytes[length - 1] % NEAR;
    bytes[length - 1] -= place;
    FxBuildHasher.hash_one((namespace, bytes)) ^ u64::from(place)
}

struct Cached {
    name: Name,
    value: Value,
    looked_at: Cell<bool>,
}

impl Cached {
    /// The value, which stays when the hand passes next.
    fn look(&self) -> Value {
        if !self.looked_at.get() {
            self.looked_at.set(true);
        }
        self.value.clone()
    }
}

#[derive(Default)]
struct Shard {
    records: HashTable<Cached>,
    /// The order of the hand. Names of missing records are skipped; there are never more of these than of records.
    ring: VecDeque<Name>,
}

pub(crate) struct Cache {
    budget_bytes: usize,
    shards: Sharded<Shard>,
    /// Bytes of all records. A shard is locked while those of its records are added or subtracted.
    bytes: CachePadded<AtomicUsize>,
    /// Visits of the hand.
    visits: AtomicUsize,
    /// Records that scans have read, and that were not here.
    scanned: AtomicUsize,
}

impl Cache {
    pub fn new(budget_bytes: usize) -> Cache {
        let shards = (budget_bytes / SHARD_BYTES).clamp(1, MOST_SHARDS);
        Cache {
            budget_bytes,
            shards: Sharded::new(1 << shards.ilog2()),
            bytes: CachePadded::default(),
            visits: AtomicUsize::new(0),
            scanned: AtomicUsize::new(0),
        }
    }

    pub fn get(&self, name: &Name) -> Option<Value> {
        let hash = hash_of(name);
        let shard = self.shards.of_hash(hash);
        let cached = shard.find(hash, name)?;
        // all lines of a leaf before anything waits for the first: its keys and values lie in several
        if cached.value.len() <= LEAF_BYTES {
            prefetch_lines(cached.value.as_ptr(), cached.value.len());
        }
        Some(cached.look())
    }

    /// The same for several names, for each of which `found` is called in order. An access to a lock or to a count of references
    /// waits for all accesses to memory before it, so all are looked up, and their values asked for, between the locks and the
    /// counts: then the waits for them overlap.
    pub fn get_all(&self, names: &[Name], mut found: impl FnMut(Option<Value>)) {
        assert!(names.len() <= MOST_AT_ONCE, "{} names at once", names.len());
        let mut hashes = [0; MOST_AT_ONCE];
        let mut wanted = 0_u32;
        for (hash, name) in hashes.iter_mut().zip(names) {
            *hash = hash_of(name);
            wanted |= 1 << self.shards.number_of_hash(*hash);
        }
        let mut shards: [Option<MutexGuard<'_, Shard>>; MOST_SHARDS] = [const { None }; MOST_SHARDS];
        while wanted != 0 {
            let number = wanted.trailing_zeros() as usize;
            shards[number] = Some(self.shards.at(number));
            wanted &= wanted - 1;
        }
        let mut all: [Option<&Cached>; MOST_AT_ONCE] = [None; MOST_AT_ONCE];
        for ((cached, hash), name) in all.iter_mut().zip(hashes).zip(names) {
            let shard = shards[self.shards.number_of_hash(hash)].as_ref();
            *cached = shard.and_then(|shard| shard.find(hash, name));
            if let Some(cached) = cached {
                prefetch_lines(cached.value.as_ptr(), 1);
            }
        }
        all[..names.len()].iter().for_each(|cached| found(cached.map(Cached::look)));
    }

    /// A scan has read a record that is not here. It is taken in if there is room, and now and then.
    pub fn scanned(&self, name: Name, value: &Value) {
        let has_room = self.bytes() + cost(value) <= self.budget_bytes;
        if has_room || self.scanned.fetch_add(1, Ordering::Relaxed).is_multiple_of(SCANNED_PER_TAKEN) {
            self.put(name, value.clone());
        }
    }

    pub fn put(&self, name: Name, value: Value) {
        // otherwise a large value might be evicted at once, because its shard has few others
        let kept = (cost(&value) <= self.budget_bytes).then_some(name);
        let hash = hash_of(&name);
        let mut shard = self.shards.of_hash(hash);
        self.bytes.fetch_add(cost(&value), Ordering::Relaxed);
        let cached = Cached { name, value, looked_at: Cell::new(false) };
        match shard.put(hash, cached) {
            Some(old) => self.subtract(cost(&old.value)),
            None => shard.ring.push_back(name),
        }
        shard.assert_ring();
        drop(shard);
        while self.bytes() > self.budget_bytes {
            self.visit(kept);
        }
    }

    pub fn remove(&self, name: &Name) {
        let hash = hash_of(name);
        let mut shard = self.shards.of_hash(hash);
        if let Some(old) = shard.remove(hash, name) {
            self.subtract(cost(&old.value));
            if shard.ring.len() > 2 * shard.records.len() + LEAST_RING {
                shard.tidy();
            }
            shard.assert_ring();
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn subtract(&self, bytes: usize) {
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "{bytes} bytes leave a cache of {before}");
    }

    /// Moves the hand to the next record of the next shard, which is evicted unless it was looked at or is to be kept.
    fn visit(&self, kept: Option<Name>) {
        let number = self.visits.fetch_add(1, Ordering::Relaxed) % self.shards.count();
        let mut shard = self.shards.at(number);
        if let Some(evicted) = shard.visit(kept) {
            self.subtract(cost(&evicted));
        }
    }
}

impl Shard {
    fn find(&self, hash: u64, name: &Name) -> Option<&Cached> {
        self.records.find(hash, |cached| cached.name == *name)
    }

    /// Adds a record; returns the one that it replaces.
    fn put(&mut self, hash: u64, new: Cached) -> Option<Cached> {
        let is_same = |cached: &Cached| cached.name == new.name;
        match self.records.entry(hash, is_same, |cached| hash_of(&cached.name)) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(entry.get_mut(), new)),
            Entry::Vacant(entry) => {
                entry.insert(new);
                None
            }
        }
    }

    fn remove(&mut self, hash: u64, name: &Name) -> Option<Cached> {
        let found = self.records.find_entry(hash, |cached| cached.name == *name);
        found.ok().map(|entry| entry.remove().0)
    }

    /// Visits the next record; returns its value if it is evicted.
    fn visit(&mut self, kept: Option<Name>) -> Option<Value> {
        let name = self.ring.pop_front()?;
        let hash = hash_of(&name);
        let cached = self.find(hash, &name)?;
        if cached.looked_at.take() || Some(name) == kept {
            self.ring.push_back(name);
            return None;
        }
        self.remove(hash, &name).map(|evicted| evicted.value)
    }

    /// Removes missing records and duplicates from the ring.
    fn tidy(&mut self) {
        let mut seen = FxHashSet::default();
        let Shard { records, ring } = self;
        let is_there = |name: &Name| records.find(hash_of(name), |cached| cached.name == *name).is_some();
        ring.retain(|name| is_there(name) && seen.insert(*name));
        assert_eq!(ring.len(), records.len(), "names in a tidy ring, and records");
    }

    /// The hand comes to every record, and past few others.
    fn assert_ring(&self) {
        let (names, records) = (self.ring.len(), self.records.len());
        assert!(records <= names, "the hand passes {names} names, of {records} records");
    }
}

fn cost(value: &Value) -> usize {
    value.len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use tantalum::{Key, NamespaceId};

    use super::*;

    fn name(number: u8) -> Name {
        (NamespaceId(1), Key::new(&[number]).unwrap())
    }

    #[test]
    fn the_budget_is_kept_and_what_is_used_stays() {
        let cache = Cache::new(10 * (100 + OVERHEAD_BYTES));
        for number in 0..100 {
            cache.put(name(number), vec![number; 100].into());
            assert!(cache.bytes() <= 10 * (100 + OVERHEAD_BYTES));
            assert_eq!(cache.get(&name(0)).map(|value| value[0]), Some(0));
        }
        assert_eq!(cache.get(&name(1)), None);
        cache.put(name(0), vec![7; 1].into());
        assert_eq!(cache.get(&name(0)).unwrap()[..], [7]);
        cache.remove(&name(0));
        cache.remove(&name(0));
        assert_eq!(cache.get(&name(0)), None);
        cache.put(name(3), vec![0; 5000].into());
        assert_eq!(cache.bytes(), 0, "what is larger than the budget is not kept");
    }

    #[test]
    fn records_that_come_and_go_do_not_lengthen_the_ring() {
        let cache = Cache::new(1 << 20);
        for _ in 0..10_000 {
            cache.put(name(1), vec![0; 10].into());
            cache.remove(&name(1));
        }
        assert!(cache.shards.of_hash(hash_of(&name(1))).ring.len() <= LEAST_RING + 1);
    }

    /// Reads a record as a store does; returns whether it was there.
    fn read(cache: &Cache, number: u32, is_scan: bool) -> bool {
        let (name, value) = (numbered(number), Value::from(&[0; 100][..]));
        match cache.get(&name) {
            Some(_) => return true,
            None if is_scan => cache.scanned(name, &value),
            None => cache.put(name, value),
        }
        false
    }

    /// Each scan reads four times the budget.
    #[test]
    fn scans_do_not_evict_what_is_used_and_what_they_read_often_gets_in() {
        let cache = Cache::new(1000 * (100 + OVERHEAD_BYTES));
        let count = |numbers: std::ops::Range<u32>, is_scan| {
            numbers.filter(|number| read(&cache, *number, is_scan)).count()
        };
        assert_eq!((count(0..400, false), count(0..400, false)), (0, 400));
        for _ in 0..20 {
            count(1000..5000, true);
            assert_eq!(count(0..400, false), 400, "a scan has evicted what is used");
        }
        assert!((0..100).any(|_| count(10_000..10_300, true) > 290), "what scans read often stays out");
        let empty = Cache::new(1000 * (100 + OVERHEAD_BYTES));
        (0..1000).for_each(|number| assert!(!read(&empty, number, true)));
        assert!((0..1000).all(|number| read(&empty, number, true)), "there is room");
    }

    /// Those that are there are found in any shard, in the order in which they were asked for, and stay like others that are read.
    #[test]
    fn names_that_are_looked_up_together_are_found_as_one_by_one() {
        let cache = Cache::new(MOST_SHARDS * SHARD_BYTES);
        (0..1000).for_each(|number| cache.put(numbered(number), number.to_be_bytes()[..].into()));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for count in (0..=MOST_AT_ONCE).cycle().take(200) {
            let names: Vec<Name> = (0..count).map(|_| numbered(random.random_range(0..2000))).collect();
            let mut found = Vec::new();
            cache.get_all(&names, |value| found.push(value));
            let expected: Vec<Option<Value>> = names.iter().map(|name| cache.get(name)).collect();
            assert_eq!(found, expected);
        }
        let small = Cache::new(4 * (100 + OVERHEAD_BYTES));
        (0..4).for_each(|number| small.put(name(number), vec![number; 100].into()));
        small.get_all(&[name(0), name(2)], |value| assert!(value.is_some()));
        (4..6).for_each(|number| small.put(name(number), vec![number; 100].into()));
        let left: Vec<u8> = (0..6).filter(|number| small.get(&name(*number)).is_some()).collect();
        assert_eq!(left, [0, 2, 4, 5]);
    }

    #[test]
    fn consecutive_keys_lie_near_each_other_and_all_are_spread() {
        let places = |make: fn(u64) -> [u8; 8]| {
            let of = |number: u64| hash_of(&(NamespaceId(1), Key::new(&make(number)).unwrap()));
            (0..16_000).map(of).collect::<Vec<u64>>()
        };
        for near in places(u64::to_be_bytes).chunks(NEAR.into()) {
            assert!(near.iter().all(|hash| hash / u64::from(NEAR) == near[0] / u64::from(NEAR)), "{near:?}");
        }
        for all in [places(u64::to_be_bytes), places(u64::to_le_bytes)] {
            let mut counts = vec![0; 256];
            all.iter().for_each(|hash| counts[*hash as usize % 256] += 1);
            assert!(counts.iter().all(|count| (20..130).contains(count)), "{counts:?}");
            assert_eq!(all.iter().collect::<FxHashSet<_>>().len(), all.len());
        }
    }

    fn numbered(number: u32) -> Name {
        (NamespaceId(1), Key::new(&number.to_be_bytes()).unwrap())
    }

    fn counted(cache: &Cache) -> usize {
        let shards = cache.shards.all();
        shards.iter().flat_map(|shard| shard.records.iter()).map(|cached| cost(&cached.value)).sum()
    }

    #[test]
    fn the_budget_is_that_of_all_shards_together_and_is_used() {
        let budget = MOST_SHARDS * SHARD_BYTES;
        let cache = Cache::new(budget);
        assert_eq!(cache.shards.count(), MOST_SHARDS);
        let records = (2 * budget / (4000 + OVERHEAD_BYTES)) as u32;
        for number in 0..records {
            cache.put(numbered(number), vec![0; 4000].into());
            assert!(cache.bytes() <= budget);
        }
        assert_eq!(cache.bytes(), counted(&cache));
        assert!(cache.bytes() > budget - 4000 - OVERHEAD_BYTES);
        assert!(cache.shards.all().iter().all(|shard| shard.records.len() > records as usize / 50));
        let newest =
            (records - records / 4..records).filter(|number| cache.get(&numbered(*number)).is_some());
        assert!(newest.count() > records as usize / 5, "the oldest are evicted first");
        cache.put(name(1), vec![0; budget - OVERHEAD_BYTES].into());
        assert!(
            cache.bytes() == budget && cache.get(&name(1)).is_some(),
            "a value may fill all shards' budget"
        );
    }

    #[test]
    fn a_small_cache_has_one_shard_and_none_has_more_than_its_budget_allows() {
        for (budget, shards) in
            [(0, 1), (1, 1), (2 * SHARD_BYTES - 1, 1), (2 * SHARD_BYTES, 2), (1 << 40, 16)]
        {
            assert_eq!(Cache::new(budget).shards.count(), shards, "{budget} bytes");
        }
    }

    #[test]
    fn the_budget_is_kept_while_threads_put_and_remove() {
        let budget = 4 * SHARD_BYTES;
        let cache = Cache::new(budget);
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                    for _ in 0..20_000 {
                        let name = numbered(random.random_range(0..8000));
                        match random.random_range(0..4) {
                            0 => cache.remove(&name),
                            1 => drop(cache.get(&name)),
                            _ => cache.put(name, vec![0; random.random_range(0..8000)].into()),
                        }
                    }
                });
            }
        });
        assert_eq!(cache.bytes(), counted(&cache));
        assert!(cache.bytes() <= budget);
    }
}
