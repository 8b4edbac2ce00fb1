//! The page cache: copies of units of files in memory.
//!
//! Invariant: a dirty page is never evicted. Whoever makes pages dirty writes some back beyond [`Pages::dirty_limit`].

use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;
use tantalum::UNIT_BYTES;
use tantalum_filesystem::FileId;

use crate::bytes::Page;

/// Pages of the smallest cache.
const LEAST_PAGES: usize = 64;

/// A unit of a file.
pub(crate) type PageKey = (FileId, u32);

#[derive(Debug)]
struct CachedPage {
    data: Box<Page>,
    is_dirty: bool,
    /// Used since the eviction last passed.
    is_used: bool,
}

/// Pages in memory.
#[derive(Debug)]
pub(crate) struct Pages {
    pages: FxHashMap<PageKey, CachedPage>,
    dirty: BTreeSet<PageKey>,
    /// For each file with pages, the unit after the last one that was in the cache since the file last had none.
    ends: FxHashMap<FileId, u64>,
    /// All pages, and keys of dropped ones, in the order in which eviction examines them.
    ring: VecDeque<PageKey>,
    most: usize,
}

impl Pages {
    /// A cache of about `bytes`.
    pub fn new(bytes: u64) -> Pages {
        let most = ((bytes / UNIT_BYTES as u64) as usize).max(LEAST_PAGES);
        Pages {
            pages: FxHashMap::default(),
            dirty: BTreeSet::new(),
            ends: FxHashMap::default(),
            ring: VecDeque::new(),
            most,
        }
    }

    /// Dirty pages beyond which some must be written back.
    pub fn dirty_limit(&self) -> usize {
        self.most / 2
    }

    pub fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    pub fn contains(&self, key: PageKey) -> bool {
        self.pages.contains_key(&key)
    }

    pub fn is_dirty(&self, key: PageKey) -> bool {
        self.pages.get(&key).is_some_and(|page| page.is_dirty)
    }

    /// The page of a unit, if there is one.
    pub fn find(&mut self, key: PageKey) -> Option<&Page> {
        let page = self.pages.get_mut(&key)?;
        page.is_used = true;
        Some(&page.data)
    }

    /// The page of a unit, mutable; it is dirty from now on.
    pub fn change(&mut self, key: PageKey) -> Option<&mut Page> {
        let page = self.pages.get_mut(&key)?;
        page.is_used = true;
        if !page.is_dirty {
            page.is_dirty = true;
            self.dirty.insert(key);
        }
        Some(&mut page.data)
    }

    /// Adds a clean page. There must be none of that unit.
    pub fn insert(&mut self, key: PageKey, data: Box<Page>) {
        self.evict();
        let replaced = self.pages.insert(key, CachedPage { data, is_dirty: false, is_used: true });
        assert!(replaced.is_none(), "unit {} of file {} has a page already", key.1, key.0);
        let end = self.ends.entry(key.0).or_default();
        *end = (*end).max(u64::from(key.1) + 1);
        self.ring.push_back(key);
    }

    /// Makes room for a page, unless too many are dirty.
    fn evict(&mut self) {
        let mut looks = 2 * self.ring.len();
        while looks > 0 && self.pages.len() >= self.most {
            looks -= 1;
            let Some(key) = self.ring.pop_front() else { return };
            let Some(page) = self.pages.get_mut(&key) else { continue };
            if page.is_dirty || std::mem::take(&mut page.is_used) {
                self.ring.push_back(key);
            } else {
                self.pages.remove(&key);
            }
        }
    }

    /// The page now equals what the drive holds.
    pub fn mark_clean(&mut self, key: PageKey) {
        if let Some(page) = self.pages.get_mut(&key) {
            page.is_dirty = false;
        }
        self.dirty.remove(&key);
    }

    /// Drops the pages of some units of a file, clean or dirty.
    pub fn remove(&mut self, file: FileId, units: std::ops::Range<u64>) {
        let end = self.ends.get(&file).copied().unwrap_or_default();
        if units.end >= end && units.start == 0 {
            self.ends.remove(&file);
        }
        let units = units.start..units.end.min(end);
        if units.end.saturating_sub(units.start) <= self.pages.len() as u64 {
            for unit in units {
                self.remove_one((file, unit as u32));
            }
            return;
        }
        let is_meant = |key: &&PageKey| key.0 == file && units.contains(&u64::from(key.1));
        let keys: Vec<PageKey> = self.pages.keys().filter(is_meant).copied().collect();
        keys.into_iter().for_each(|key| self.remove_one(key));
    }

    fn remove_one(&mut self, key: PageKey) {
        if self.pages.remove(&key).is_some() {
            self.dirty.remove(&key);
            // Otherwise a file that is repeatedly created and removed would fill the ring.
            if self.ring.len() > 2 * self.pages.len() + LEAST_PAGES {
                let pages = &self.pages;
                let mut seen = BTreeSet::new();
                self.ring.retain(|key| pages.contains_key(key) && seen.insert(*key));
            }
        }
    }

    /// The dirty units of a file at or after `from`, at most `most`, in order.
    pub fn dirty_units(&self, file: FileId, from: u32, most: usize) -> Vec<u32> {
        self.dirty.range((file, from)..=(file, u32::MAX)).take(most).map(|key| key.1).collect()
    }

    /// The last dirty unit of a file.
    pub fn last_dirty_unit(&self, file: FileId) -> Option<u32> {
        self.dirty.range((file, 0)..=(file, u32::MAX)).next_back().map(|key| key.1)
    }

    /// The first file at or after `from` that has dirty pages.
    pub fn next_dirty_file(&self, from: FileId) -> Option<FileId> {
        self.dirty.range((from, 0)..).next().map(|key| key.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::zeros;

    const FILE: FileId = FileId(5);

    #[test]
    fn clean_pages_make_room_and_dirty_ones_stay() {
        let mut pages = Pages::new(0);
        for unit in 0..1000 {
            pages.insert((FILE, unit), zeros());
            if unit < 10 {
                pages.change((FILE, unit)).unwrap()[0] = unit as u8;
            }
        }
        assert!(pages.pages.len() <= LEAST_PAGES && pages.ring.len() <= LEAST_PAGES + 1);
        assert_eq!(pages.dirty_units(FILE, 0, 99), Vec::from_iter(0..10));
        assert_eq!(pages.find((FILE, 7)).unwrap()[0], 7);
        pages.mark_clean((FILE, 7));
        pages.remove(FILE, 0..1 << 40);
        assert_eq!((pages.dirty_pages(), pages.pages.len(), pages.next_dirty_file(FileId(0))), (0, 0, None));
    }

    #[test]
    fn pages_of_a_file_are_dropped_wherever_they_are() {
        let mut pages = Pages::new(1 << 20);
        for unit in [0, 1, 2, 70, u32::MAX] {
            pages.insert((FILE, unit), zeros());
            pages.insert((FileId(6), unit), zeros());
        }
        pages.remove(FILE, 1..3);
        assert_eq!(pages.pages.len(), 8);
        pages.remove(FILE, 3..1 << 32);
        assert!(pages.contains((FILE, 0)) && pages.pages.len() == 6);
        pages.remove(FILE, 0..1 << 32);
        assert!(pages.pages.len() == 5 && pages.ends.len() == 1);
        pages.insert((FILE, 9), zeros());
        pages.remove(FILE, 0..9);
        assert!(pages.contains((FILE, 9)));
        pages.remove(FILE, 9..10);
        assert!(!pages.contains((FILE, 9)));
    }

    #[test]
    fn keys_of_dropped_pages_do_not_pile_up() {
        let mut pages = Pages::new(0);
        for _ in 0..10_000 {
            pages.insert((FILE, 3), zeros());
            pages.remove(FILE, 3..4);
        }
        assert!(pages.ring.len() <= LEAST_PAGES + 1);
    }
}
