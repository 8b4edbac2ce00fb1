//! The host's page cache: copies of units of files in memory. A file system writes dirty ones back.
//!
//! Invariants:
//! - A dirty page is in `dirty_by_place` and `dirty_by_age`; no other page is.
//! - A dirty page is never evicted. A file system writes pages back beyond [`PageCache::dirty_limit`], half of the pages; if
//!   all are dirty because the drive takes none of them, the cache grows.
//! - `ends` has each file with pages, and the unit after the last one that was here since the file last had none.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::Range;

use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use tantalum::{TxId, UNIT_BYTES};

use crate::file::FileId;

/// Pages of one allocation.
const CHUNK_PAGES: usize = 256;

/// Pages of the smallest cache.
const LEAST_PAGES: usize = 64;

/// What a page is a copy of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageKey {
    /// The file.
    pub file: FileId,
    /// Its unit.
    pub unit: u32,
    /// The transaction whose version this is; none for the version that everyone sees.
    pub tx: Option<TxId>,
}

impl PageKey {
    /// The version that everyone sees.
    pub fn new(file: FileId, unit: u32) -> PageKey {
        PageKey { file, unit, tx: None }
    }

    fn hash(&self) -> u64 {
        let place = u64::from(self.file.0) << 32 | u64::from(self.unit);
        let key = place ^ self.tx.map_or(0, |tx| tx.0.wrapping_add(1).wrapping_mul(0xd6e8_feb8_6659_fd93));
        // The table takes its bucket from the low bits and its tag from the high ones, so both must depend on all bits.
        let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xe703_7ed1_a0b4_28db;
        product as u64 ^ (product >> 64) as u64
    }
}

impl From<(FileId, u32)> for PageKey {
    fn from((file, unit): (FileId, u32)) -> PageKey {
        PageKey::new(file, unit)
    }
}

/// Where a page is. It stays valid until the page is evicted or removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct FrameId(u32);

#[derive(Clone, Debug)]
struct Frame {
    /// `None` if the frame is free.
    key: Option<PageKey>,
    /// When it became dirty; `None` if it is clean.
    dirty_since: Option<u64>,
    /// Used since the clock's hand last passed.
    referenced: bool,
}

/// Pages in memory.
#[derive(Clone, Debug)]
pub struct PageCache {
    /// The pages' bytes, `CHUNK_PAGES` to a chunk; chunks are allocated when first
    /// needed, and cost what was touched of them.
    chunks: Vec<Box<[u8]>>,
    frames: Vec<Frame>,
    free: Vec<FrameId>,
    /// Pages beyond which clean ones are evicted.
    most_frames: usize,
    index: HashTable<FrameId>,
    hand: usize,
    dirty_by_place: BTreeMap<(FileId, u32), FrameId>,
    dirty_by_age: BTreeMap<u64, FrameId>,
    next_age: u64,
    ends: FxHashMap<FileId, u64>,
}

impl PageCache {
    /// A cache of about `bytes`; at least `LEAST_PAGES` pages.
    pub fn new(bytes: u64) -> PageCache {
        let pages = (bytes / UNIT_BYTES as u64).clamp(LEAST_PAGES as u64, u64::from(u32::MAX));
        PageCache {
            chunks: Vec::new(),
            frames: Vec::new(),
            free: Vec::new(),
            most_frames: pages as usize,
            index: HashTable::new(),
            hand: 0,
            dirty_by_place: BTreeMap::new(),
            dirty_by_age: BTreeMap::new(),
            next_age: 0,
            ends: FxHashMap::default(),
        }
    }

    /// Pages that it can hold.
    pub fn most_pages(&self) -> usize {
        self.most_frames
    }

    /// Dirty pages above which the oldest must be written back.
    pub fn dirty_limit(&self) -> usize {
        self.most_frames / 2
    }

    /// Dirty pages.
    pub fn dirty_pages(&self) -> usize {
        self.dirty_by_age.len()
    }

    fn position(&self, key: &PageKey) -> Option<FrameId> {
        self.index.find(key.hash(), |frame| self.frames[frame.0 as usize].key.as_ref() == Some(key)).copied()
    }

    /// Whether there is a page for `key`.
    pub fn contains(&self, key: impl Into<PageKey>) -> bool {
        self.position(&key.into()).is_some()
    }

    /// Whether there is a page for `key` that differs from what the drive holds.
    pub fn is_dirty(&self, key: impl Into<PageKey>) -> bool {
        self.position(&key.into()).is_some_and(|frame| self.frames[frame.0 as usize].dirty_since.is_some())
    }

    /// The page of `key`, if there is one.
    pub fn find(&mut self, key: impl Into<PageKey>) -> Option<FrameId> {
        let frame = self.position(&key.into())?;
        self.frames[frame.0 as usize].referenced = true;
        Some(frame)
    }

    /// A page for `key`: the existing one, or else a new, clean one with arbitrary contents.
    pub fn find_or_insert(&mut self, key: PageKey) -> FrameId {
        self.find(key).unwrap_or_else(|| self.insert(key))
    }

    /// A new, clean page with arbitrary contents. There must be none for `key`.
    pub fn insert(&mut self, key: impl Into<PageKey>) -> FrameId {
        let key = key.into();
        debug_assert!(!self.contains(key), "{key:?} has a page already");
        let frame = self.free.pop().unwrap_or_else(|| self.new_frame());
        let end = self.ends.entry(key.file).or_default();
        *end = (*end).max(u64::from(key.unit) + 1);
        self.frames[frame.0 as usize] = Frame { key: Some(key), dirty_since: None, referenced: true };
        self.put_in_index(frame, key);
        frame
    }

    fn put_in_index(&mut self, frame: FrameId, key: PageKey) {
        let frames = &self.frames;
        let hash_of =
            |frame: &FrameId| frames[frame.0 as usize].key.expect("indexed frames have keys").hash();
        self.index.insert_unique(key.hash(), frame, hash_of);
    }

    fn take_from_index(&mut self, frame: FrameId, key: PageKey) {
        let entry = self.index.find_entry(key.hash(), |&other| other == frame);
        entry.expect("a page with a key is in the index").remove();
    }

    fn new_frame(&mut self) -> FrameId {
        if self.frames.len() < self.most_frames {
            return self.grow();
        }
        self.evict().unwrap_or_else(|| self.grow())
    }

    fn grow(&mut self) -> FrameId {
        let frame = self.frames.len();
        if frame.is_multiple_of(CHUNK_PAGES) {
            self.chunks.push(vec![0; CHUNK_PAGES * UNIT_BYTES].into_boxed_slice());
        }
        self.frames.push(Frame { key: None, dirty_since: None, referenced: false });
        FrameId(frame as u32)
    }

    /// Takes the frame of a clean page: the first under the clock's hand that was not used since its last turn. None if all
    /// pages are dirty.
    fn evict(&mut self) -> Option<FrameId> {
        for _ in 0..2 * self.frames.len() {
            let frame = FrameId(self.hand as u32);
            self.hand = (self.hand + 1) % self.frames.len();
            let entry = &mut self.frames[frame.0 as usize];
            if entry.dirty_since.is_some() || std::mem::take(&mut entry.referenced) {
                continue;
            }
            let key = entry.key.take().expect("no frame is free when one is evicted");
            self.take_from_index(frame, key);
            return Some(frame);
        }
        None
    }

    /// The bytes of a page.
    pub fn data(&self, frame: FrameId) -> &[u8; UNIT_BYTES] {
        let (chunk, page) = (frame.0 as usize / CHUNK_PAGES, frame.0 as usize % CHUNK_PAGES);
        self.chunks[chunk][page * UNIT_BYTES..].first_chunk().expect("a page is a unit")
    }

    /// The bytes of a page, mutable.
    pub fn data_mut(&mut self, frame: FrameId) -> &mut [u8; UNIT_BYTES] {
        let (chunk, page) = (frame.0 as usize / CHUNK_PAGES, frame.0 as usize % CHUNK_PAGES);
        self.chunks[chunk][page * UNIT_BYTES..].first_chunk_mut().expect("a page is a unit")
    }

    /// The page now differs from what the drive holds.
    pub fn mark_dirty(&mut self, frame: FrameId) {
        let entry = &mut self.frames[frame.0 as usize];
        if entry.dirty_since.is_some() {
            return;
        }
        let key = entry.key.expect("a dirty page has a key");
        assert_eq!(key.tx, None, "a transaction's pages are written through");
        entry.dirty_since = Some(self.next_age);
        self.dirty_by_age.insert(self.next_age, frame);
        self.dirty_by_place.insert((key.file, key.unit), frame);
        self.next_age += 1;
        debug_assert_eq!(
            self.dirty_by_age.len(),
            self.dirty_by_place.len(),
            "a page is dirty in both or none"
        );
    }

    /// The page now equals what the drive holds.
    pub fn mark_clean(&mut self, frame: FrameId) {
        let entry = &mut self.frames[frame.0 as usize];
        if let Some(age) = entry.dirty_since.take() {
            let key = entry.key.expect("a dirty page has a key");
            self.dirty_by_age.remove(&age);
            self.dirty_by_place.remove(&(key.file, key.unit));
            debug_assert_eq!(
                self.dirty_by_age.len(),
                self.dirty_by_place.len(),
                "a page is dirty in both or none"
            );
        }
    }

    /// Drops a page, clean or dirty.
    pub fn remove(&mut self, key: impl Into<PageKey>) {
        let key = key.into();
        if let Some(frame) = self.position(&key) {
            self.mark_clean(frame);
            self.take_from_index(frame, key);
            self.frames[frame.0 as usize].key = None;
            self.free.push(frame);
        }
    }

    /// Drops all pages of `file` in `units`, except those of transactions.
    pub fn remove_units(&mut self, file: FileId, units: Range<impl Into<u64>>) {
        let units = units.start.into()..units.end.into();
        let end = self.ends.get(&file).copied().unwrap_or_default();
        if units.end >= end && units.start == 0 {
            self.ends.remove(&file);
        }
        let units = units.start..units.end.min(end);
        if units.end.saturating_sub(units.start) <= self.frames.len() as u64 {
            for unit in units {
                self.remove(PageKey::new(file, unit as u32));
            }
            return;
        }
        let is_meant =
            |key: &PageKey| key.file == file && key.tx.is_none() && units.contains(&u64::from(key.unit));
        let keys: Vec<PageKey> = self.frames.iter().filter_map(|f| f.key.filter(is_meant)).collect();
        for key in keys {
            self.remove(key);
        }
    }

    /// Drops the clean pages of `file` in `units`, except those of transactions.
    pub fn remove_clean_units(&mut self, file: FileId, units: Range<u32>) {
        for unit in units {
            let key = PageKey::new(file, unit);
            if !self.is_dirty(key) {
                self.remove(key);
            }
        }
    }

    /// The transaction's version of a unit becomes the one that everyone sees. If there is no page of that version, no
    /// page is left.
    pub fn publish(&mut self, key: PageKey) {
        let public = PageKey::new(key.file, key.unit);
        self.remove(public);
        if let Some(frame) = self.position(&key) {
            self.take_from_index(frame, key);
            self.frames[frame.0 as usize].key = Some(public);
            self.put_in_index(frame, public);
        }
    }

    /// The dirty pages of `file` from `unit` on, in order.
    pub fn dirty_from(&self, file: FileId, unit: u32) -> impl Iterator<Item = (u32, FrameId)> {
        let range = (Included((file, unit)), Included((file, u32::MAX)));
        self.dirty_by_place.range(range).map(|(&(_, unit), &frame)| (unit, frame))
    }

    /// The first `most` dirty units of `file` from `unit` on, in order.
    pub fn dirty_units(&self, file: FileId, unit: u32, most: usize) -> Vec<u32> {
        self.dirty_from(file, unit).take(most).map(|(unit, _)| unit).collect()
    }

    /// The last dirty unit of `file`.
    pub fn last_dirty_unit(&self, file: FileId) -> Option<u32> {
        self.dirty_by_place.range((file, 0)..=(file, u32::MAX)).next_back().map(|((_, unit), _)| *unit)
    }

    /// The page that has been dirty the longest.
    pub fn oldest_dirty(&self) -> Option<(FileId, u32)> {
        let (_, frame) = self.dirty_by_age.first_key_value()?;
        self.frames[frame.0 as usize].key.map(|key| (key.file, key.unit))
    }

    /// The first file after `after` that has dirty pages.
    pub fn next_dirty_file(&self, after: Option<FileId>) -> Option<FileId> {
        let from = after.map_or(Unbounded, |file| Excluded((file, u32::MAX)));
        self.dirty_by_place.range((from, Unbounded)).next().map(|((file, _), _)| *file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId(5);
    const OTHER: FileId = FileId(6);

    fn pages(cache: &PageCache) -> usize {
        cache.frames.iter().filter(|frame| frame.key.is_some()).count()
    }

    #[test]
    fn clean_pages_make_room_and_dirty_ones_stay() {
        let mut cache = PageCache::new(0);
        for unit in 0..1000 {
            let frame = cache.insert((FILE, unit));
            if unit < 10 {
                cache.data_mut(frame)[0] = unit as u8;
                cache.mark_dirty(frame);
            }
        }
        assert_eq!(pages(&cache), LEAST_PAGES);
        assert_eq!(cache.dirty_units(FILE, 0, 99), Vec::from_iter(0..10));
        assert_eq!((cache.dirty_units(FILE, 7, 2), cache.last_dirty_unit(FILE)), (vec![7, 8], Some(9)));
        let frame = cache.find((FILE, 7)).unwrap();
        assert_eq!(cache.data(frame)[0], 7);
        cache.mark_clean(frame);
        assert_eq!(cache.dirty_pages(), 9);
        cache.remove_units(FILE, 0..1_u64 << 40);
        assert_eq!((cache.dirty_pages(), pages(&cache), cache.next_dirty_file(None)), (0, 0, None));
    }

    /// A drive that takes nothing must not make its file system panic, or lose a page.
    #[test]
    fn the_cache_grows_when_all_pages_are_dirty() {
        let mut cache = PageCache::new(0);
        for unit in 0..1000 {
            let frame = cache.insert((FILE, unit));
            *cache.data_mut(frame) = [unit as u8; UNIT_BYTES];
            cache.mark_dirty(frame);
        }
        for unit in 0..1000 {
            let frame = cache.find((FILE, unit)).unwrap();
            assert_eq!(*cache.data(frame), [unit as u8; UNIT_BYTES]);
        }
        assert_eq!(cache.oldest_dirty(), Some((FILE, 0)));
    }

    #[test]
    fn pages_of_a_file_are_dropped_wherever_they_are() {
        let mut cache = PageCache::new(1 << 20);
        for unit in [0, 1, 2, 70, u32::MAX] {
            cache.insert((FILE, unit));
            cache.insert((OTHER, unit));
        }
        cache.remove_units(FILE, 1..3_u64);
        assert_eq!(pages(&cache), 8);
        cache.remove_units(FILE, 3..1_u64 << 32);
        assert!(cache.contains((FILE, 0)) && pages(&cache) == 6);
        cache.remove_units(FILE, 0..1_u64 << 32);
        assert!(pages(&cache) == 5 && cache.ends.len() == 1);
        cache.insert((FILE, 9));
        cache.remove_units(FILE, 0..9_u64);
        assert!(cache.contains((FILE, 9)));
        cache.remove_units(FILE, 9..10_u64);
        assert!(!cache.contains((FILE, 9)));
    }

    /// The version of a transaction is seen by nobody else, until it is the one that everyone sees.
    #[test]
    fn a_transactions_page_is_published() {
        let mut cache = PageCache::new(0);
        let own = PageKey { file: FILE, unit: 3, tx: Some(TxId(1)) };
        let (old, new) = (cache.insert((FILE, 3)), cache.insert(own));
        (cache.data_mut(old)[0], cache.data_mut(new)[0]) = (1, 2);
        cache.publish(own);
        let frame = cache.find((FILE, 3)).unwrap();
        assert_eq!((cache.data(frame)[0], cache.contains(own), pages(&cache)), (2, false, 1));
    }
}
