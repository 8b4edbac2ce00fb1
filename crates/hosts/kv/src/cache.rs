//! Records in memory, within a budget of bytes. A record that was accessed since the clock hand last passed gets a
//! second chance (CLOCK).
//!
//! A record is read into the cache and changed in it only under its lock, so it always equals the drive's.
//!
//! The records are in shards with a lock and a ring each. The budget is that of all shards together, so a value fits no
//! matter how many shards there are; the hand visits a record of one shard, then one of the next.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::{FxHashMap, FxHashSet};
use tantalum_image::prefetch_lines;

use crate::cache_padded::CachePadded;
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

struct Cached {
    value: Value,
    looked_at: bool,
}

#[derive(Default)]
struct Shard {
    records: FxHashMap<Name, Cached>,
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
        let mut shard = self.shards.of(name);
        let cached = shard.records.get_mut(name)?;
        // all lines of a leaf before anything waits for the first: its keys and values lie in several
        if cached.value.len() <= LEAF_BYTES {
            prefetch_lines(cached.value.as_ptr(), cached.value.len());
        }
        if !cached.looked_at {
            cached.looked_at = true;
        }
        Some(cached.value.clone())
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
        let mut shard = self.shards.of(&name);
        self.bytes.fetch_add(cost(&value), Ordering::Relaxed);
        match shard.records.insert(name, Cached { value, looked_at: false }) {
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
        let mut shard = self.shards.of(name);
        if let Some(old) = shard.records.remove(name) {
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
    /// Visits the next record; returns its value if it is evicted.
    fn visit(&mut self, kept: Option<Name>) -> Option<Value> {
        let name = self.ring.pop_front()?;
        let cached = self.records.get_mut(&name)?;
        if std::mem::take(&mut cached.looked_at) || Some(name) == kept {
            self.ring.push_back(name);
            return None;
        }
        self.records.remove(&name).map(|evicted| evicted.value)
    }

    /// Removes missing records and duplicates from the ring.
    fn tidy(&mut self) {
        let mut seen = FxHashSet::default();
        self.ring.retain(|name| self.records.contains_key(name) && seen.insert(*name));
        assert_eq!(self.ring.len(), self.records.len(), "names in a tidy ring, and records");
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
        assert!(cache.shards.of(&name(1)).ring.len() <= LEAST_RING + 1);
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

    fn numbered(number: u32) -> Name {
        (NamespaceId(1), Key::new(&number.to_be_bytes()).unwrap())
    }

    fn counted(cache: &Cache) -> usize {
        let shards = cache.shards.all();
        shards.iter().flat_map(|shard| shard.records.values()).map(|cached| cost(&cached.value)).sum()
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
