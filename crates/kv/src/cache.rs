//! Records in memory, within a budget of bytes. A record that was accessed since the clock hand last passed gets a
//! second chance (CLOCK).
//!
//! A record is read into the cache and changed in it only under its lock, so it always equals the drive's.

use std::collections::VecDeque;

use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::{Name, Value};

/// Memory of a record besides its value.
const OVERHEAD_BYTES: usize = 128;

/// A ring up to this length is not cleaned up.
const LEAST_RING: usize = 64;

struct Cached {
    value: Value,
    looked_at: bool,
}

#[derive(Default)]
struct Records {
    records: FxHashMap<Name, Cached>,
    /// The order of the hand. Names of missing records are skipped; there are never more of these than of records.
    ring: VecDeque<Name>,
    bytes: usize,
}

pub(crate) struct Cache {
    budget_bytes: usize,
    records: Mutex<Records>,
}

impl Cache {
    pub fn new(budget_bytes: usize) -> Cache {
        Cache { budget_bytes, records: Mutex::default() }
    }

    pub fn get(&self, name: &Name) -> Option<Value> {
        let mut records = self.records.lock();
        let cached = records.records.get_mut(name)?;
        cached.looked_at = true;
        Some(cached.value.clone())
    }

    pub fn put(&self, name: Name, value: Value) {
        let mut records = self.records.lock();
        let records = &mut *records;
        records.bytes += cost(&value);
        match records.records.insert(name, Cached { value, looked_at: false }) {
            Some(old) => records.bytes -= cost(&old.value),
            None => records.ring.push_back(name),
        }
        while records.bytes > self.budget_bytes {
            records.evict();
        }
    }

    pub fn remove(&self, name: &Name) {
        let mut records = self.records.lock();
        if let Some(old) = records.records.remove(name) {
            records.bytes -= cost(&old.value);
            if records.ring.len() > 2 * records.records.len() + LEAST_RING {
                records.tidy();
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.records.lock().bytes
    }
}

impl Records {
    fn evict(&mut self) {
        let name = self.ring.pop_front().expect("bytes are those of records, and each is in the ring");
        let Some(cached) = self.records.get_mut(&name) else { return };
        if std::mem::take(&mut cached.looked_at) {
            self.ring.push_back(name);
        } else {
            self.bytes -= cost(&cached.value);
            self.records.remove(&name);
        }
    }

    /// Removes missing records and duplicates from the ring.
    fn tidy(&mut self) {
        let mut seen = FxHashSet::default();
        self.ring.retain(|name| self.records.contains_key(name) && seen.insert(*name));
    }
}

fn cost(value: &Value) -> usize {
    value.len() + OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
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
        assert!(cache.records.lock().ring.len() <= LEAST_RING + 1);
    }
}
