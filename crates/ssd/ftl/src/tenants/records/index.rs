//! The index of a namespace: finds the record of a key by the key's hash.
//!
//! Invariants:
//! - Entries are in the order of their hashes, each at or after its home, which grows with the hash, and no free slot
//!   is between an entry and its home (linear probing in order).
//! - So a scan from any hash visits all greater hashes in an order that growing does not change.
//! - Among the slots from a hash's home onwards, those with lesser hashes come first. So a hash is found with few
//!   probes even where entries crowd, as they do when records are put in the order of their hashes (the order in which
//!   keys are listed) while the index grows.
//!
//! An entry has 16 bytes: with a load factor of 75 % a record takes 21 bytes of the drive's DRAM. It has the length of
//! the key but not the key: keys of up to eight bytes follow from their hash, longer ones are stored with the record.

use tantalum_nand::{Array, Ppn};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::record::RecordPlace;
use crate::key::{Key, NamespaceAttributes};

/// One record's entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub hash: u64,
    pub place: RecordPlace,
    /// Segments of the value beyond the first; they have entries of their own.
    pub continuations: u16,
    /// Bytes of the key; 0 for the entry of a later segment.
    pub key_length: u8,
}

/// An entry as it is stored: the hash, and the rest in one number that is never 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Slot {
    hash: u64,
    rest: u64,
}

const FREE: Slot = Slot { hash: 0, rest: 0 };

impl Entry {
    /// The entry of a segment of a key's value.
    pub fn of(key: &Key, segment: u16, continuations: u16, place: RecordPlace) -> Entry {
        let hash = key.segment_hash(segment);
        match segment {
            0 => Entry { hash, place, continuations, key_length: key.length() },
            _ => Entry { hash, place, continuations: 0, key_length: 0 },
        }
    }

    /// The place, the segments and the length of the key in one number; never 0.
    pub fn pack(&self) -> u64 {
        debug_assert!(
            self.place.chunk < 64
                && (1..=64).contains(&self.place.chunks)
                && self.continuations < 1 << 10
                && self.key_length < 1 << 5,
            "{self:?} does not fit in an entry"
        );
        u64::from(self.place.ppn.0 + 1)
            | u64::from(self.place.chunk) << 32
            | u64::from(self.place.chunks - 1) << 38
            | u64::from(self.continuations) << 44
            | u64::from(self.key_length) << 54
    }

    /// The entry with this hash and this number.
    pub fn unpack(hash: u64, rest: u64) -> Entry {
        let bits = |at: u32, count: u32| rest >> at & ((1 << count) - 1);
        Entry {
            hash,
            place: RecordPlace {
                ppn: Ppn((rest as u32).wrapping_sub(1)),
                chunk: bits(32, 6) as u8,
                chunks: bits(38, 6) as u8 + 1,
            },
            continuations: bits(44, 10) as u16,
            key_length: bits(54, 5) as u8,
        }
    }
}

/// The table.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    /// Random places of it are touched until it is full.
    slots: Array<Slot>,
    /// Homes; there are a few more slots for entries pushed beyond the last one.
    homes: u64,
    entries: u64,
    /// Homes for the expected records, which may exceed those that exist.
    expected_homes: u64,
    load_factor_percent: u8,
}

const LEAST_HOMES: u64 = 64;
const BEYOND: u64 = 64;
/// Slots from a hash's home on that are asked for before its probes: two lines of the processor's cache.
const PROBED: usize = 8;
/// Without records, an index is not sized for more than this: 1 GiB at a load factor of 75 %.
const MOST_RECORDS_AT_ONCE: u64 = 50_000_000;

impl Index {
    /// An empty index with room for the expected records.
    pub fn new(attributes: &NamespaceAttributes) -> Index {
        Index::with_room(attributes, 0)
    }

    /// An empty index with room for the expected records and at least this many entries.
    fn with_room(attributes: &NamespaceAttributes, entries: u64) -> Index {
        let mut index = Index {
            slots: Array::default(),
            homes: 0,
            entries: 0,
            expected_homes: 0,
            load_factor_percent: attributes.load_factor_percent,
        };
        index.expected_homes = index.homes_for(attributes.expected_records);
        let at_once = attributes.expected_records.min(MOST_RECORDS_AT_ONCE);
        index.resize(index.homes_for(entries.max(at_once)));
        index
    }

    fn homes_for(&self, entries: u64) -> u64 {
        (entries * 100).div_ceil(self.load_factor_percent.into()).max(LEAST_HOMES)
    }

    /// Whether this many homes are enough for this many entries.
    fn suffice(&self, homes: u64, entries: u64) -> bool {
        entries * 100 <= homes * u64::from(self.load_factor_percent)
    }

    /// Makes room for as many more entries as soon follow: as much as adding them would make, in one step. If they come in the
    /// order of their hashes, an index that grows meanwhile crowds those that have come.
    pub fn reserve(&mut self, more: u64) {
        let mut homes = self.homes;
        while !self.suffice(homes, self.entries + more) {
            // twice as many, or enough for the expected records if that is less
            let expects_more = homes < self.expected_homes;
            homes = if expects_more { (homes * 2).min(self.expected_homes) } else { homes * 2 };
        }
        if homes > self.homes {
            self.resize(homes);
        }
    }

    fn resize(&mut self, homes: u64) {
        let old = std::mem::take(&mut self.slots);
        self.homes = homes;
        self.slots = Array::to_fill((homes + BEYOND) as usize);
        self.place(old.iter().filter(|slot| slot.rest != 0).copied());
    }

    /// Fills an empty table with slots in the order of their hashes.
    fn place(&mut self, slots: impl Iterator<Item = Slot>) {
        let mut next = 0;
        for slot in slots {
            let at = self.home(slot.hash).max(next);
            if at >= self.slots.len() {
                self.extend_to(at);
            }
            self.slots[at] = slot;
            next = at + 1;
        }
    }

    /// An index of this many entries, in the order of their hashes, with room for the expected records, or for as many of them
    /// as soon follow.
    pub fn of(
        attributes: &NamespaceAttributes,
        count: u64,
        entries: impl Iterator<Item = Entry>,
        soon: u64,
    ) -> Index {
        let mut index =
            Index::with_room(attributes, count.max((count + soon).min(attributes.expected_records)));
        index.entries = count;
        index.place(entries.map(|entry| Slot { hash: entry.hash, rest: entry.pack() }));
        debug_assert!(index.from(0).is_sorted_by_key(|entry| entry.hash), "entries came in another order");
        index
    }

    /// Makes room for an entry at this place, and for some more.
    #[cold]
    fn extend_to(&mut self, at: usize) {
        self.slots.extend(at + (BEYOND as usize).max(at / 64));
    }

    /// Number of entries, including those of later segments.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// Bytes of DRAM.
    pub fn dram_bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * u128::from(self.homes)) >> 64) as usize
    }

    /// Asks for the slots that the probes for a hash mostly need, so that the misses of several hashes overlap: of the
    /// processor's caches, and of its TLB.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.slots.prefetch(self.home(hash), PROBED);
    }

    /// The entries from a hash on, in the order of hashes.
    pub fn from(&self, hash: u64) -> impl Iterator<Item = Entry> + '_ {
        let slots = &self.slots[self.first(hash).min(self.slots.len())..];
        let filled = slots.iter().filter(|slot| slot.rest != 0);
        filled.map(|slot| Entry::unpack(slot.hash, slot.rest))
    }

    /// The first slot at or after a hash's home that has no entry with a lesser hash: its entries start there, if there
    /// are any. The probes go out in growing steps, and then bisect.
    #[inline]
    fn first(&self, hash: u64) -> usize {
        let is_less = |at: usize| self.slots.get(at).is_some_and(|slot| slot.rest != 0 && slot.hash < hash);
        let (mut less, mut step) = (self.home(hash), 1);
        if !is_less(less) {
            return less;
        }
        while is_less(less + step) {
            less += step;
            step *= 2;
        }
        let mut not_less = less + step;
        while not_less - less > 1 {
            let middle = less.midpoint(not_less);
            if is_less(middle) { less = middle } else { not_less = middle }
        }
        not_less
    }

    /// The entries with this hash.
    #[inline]
    pub fn with_hash(&self, hash: u64) -> impl Iterator<Item = Entry> + '_ {
        let slots = self.slots[self.first(hash).min(self.slots.len())..].iter();
        slots
            .take_while(move |slot| slot.rest != 0 && slot.hash == hash)
            .map(|slot| Entry::unpack(slot.hash, slot.rest))
    }

    /// Whether an entry with this hash names this place.
    pub fn names(&self, hash: u64, place: RecordPlace) -> bool {
        self.with_hash(hash).any(|entry| entry.place == place)
    }

    /// Adds an entry.
    pub fn insert(&mut self, entry: Entry) {
        if !self.suffice(self.homes, self.entries + 1) {
            self.reserve(1);
        }
        let mut at = self.first(entry.hash);
        while at < self.slots.len() && self.slots[at].rest != 0 && self.slots[at].hash == entry.hash {
            at += 1;
        }
        let mut end = at;
        while end < self.slots.len() && self.slots[end].rest != 0 {
            end += 1;
        }
        if end == self.slots.len() {
            self.extend_to(end);
        }
        self.slots.copy_within(at..end, at + 1);
        self.slots[at] = Slot { hash: entry.hash, rest: entry.pack() };
        self.entries += 1;
        debug_assert!(self.is_in_order(at), "entry {at} of hash {:x} is out of order", entry.hash);
    }

    /// Whether an entry is at or after its home, and between lesser and greater hashes with no free slot before it.
    fn is_in_order(&self, at: usize) -> bool {
        let (hash, home) = (self.slots[at].hash, self.home(self.slots[at].hash));
        let filled = |at: usize| self.slots.get(at).filter(|slot| slot.rest != 0);
        let before = at == home || filled(at - 1).is_some_and(|slot| slot.hash <= hash);
        home <= at && before && filled(at + 1).is_none_or(|slot| slot.hash >= hash)
    }

    fn position(&self, hash: u64, place: RecordPlace) -> usize {
        let first = self.first(hash);
        let found = self.slots[first..]
            .iter()
            .take_while(|slot| slot.rest != 0 && slot.hash == hash)
            .position(|slot| Entry::unpack(hash, slot.rest).place == place);
        first + found.unwrap_or_else(|| panic!("no entry of hash {hash:x} names {place:?}"))
    }

    /// Removes the entry with this hash that names this place.
    pub fn remove(&mut self, hash: u64, place: RecordPlace) {
        let at = self.position(hash, place);
        let mut end = at + 1;
        while end < self.slots.len() && self.slots[end].rest != 0 && self.home(self.slots[end].hash) < end {
            end += 1;
        }
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = FREE;
        self.entries -= 1;
        debug_assert!(self.slots[at].rest == 0 || self.is_in_order(at), "entry {at} lost its order");
    }

    /// A record was copied.
    pub fn relocate(&mut self, hash: u64, from: RecordPlace, to: RecordPlace) {
        let at = self.position(hash, from);
        let entry = Entry { place: to, ..Entry::unpack(hash, self.slots[at].rest) };
        self.slots[at].rest = entry.pack();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn index(load_factor_percent: u8) -> Index {
        Index::new(&NamespaceAttributes { load_factor_percent, ..NamespaceAttributes::default() })
    }

    fn entry(hash: u64, ppn: u32) -> Entry {
        let place = RecordPlace { ppn: Ppn(ppn), chunk: 63, chunks: 1 };
        Entry { hash, place, continuations: 1023, key_length: 16 }
    }

    #[test]
    fn an_entry_round_trips() {
        for entry in [
            entry(7, u32::MAX - 1),
            Entry {
                place: RecordPlace { ppn: Ppn(0), chunk: 0, chunks: 64 },
                continuations: 0,
                key_length: 0,
                ..entry(0, 0)
            },
        ] {
            assert_eq!(Entry::unpack(entry.hash, entry.pack()), entry);
            assert_ne!(entry.pack(), 0);
        }
        assert_eq!(size_of::<Slot>(), 16);
    }

    #[test]
    fn an_index_grows_no_larger_than_the_expected_records_take() {
        let attributes = NamespaceAttributes { expected_records: 10_000, ..NamespaceAttributes::default() };
        let mut index = index(75);
        index.expected_homes = Index::new(&attributes).homes;
        let mut insert = |number: u64| {
            index.insert(entry(number << 40, number as u32));
            index.homes
        };
        assert!((0..9_999).all(|number| insert(number) <= 13_334));
        assert_eq!(insert(9_999), 13_334);
        assert_eq!((10_000..10_010).map(insert).max(), Some(2 * 13_334), "more came than were expected");
    }

    #[test]
    fn an_index_with_room_for_more_entries_is_as_large_as_when_they_were_added() {
        for (expected_records, more) in [(0, 0), (0, 1), (0, 700), (10_000, 700), (10_000, 9_000), (300, 700)]
        {
            let attributes = NamespaceAttributes { expected_records, ..NamespaceAttributes::default() };
            let (mut one_by_one, mut reserved) = (index(75), index(75));
            one_by_one.expected_homes = Index::new(&attributes).homes;
            reserved.expected_homes = one_by_one.expected_homes;
            let add = |index: &mut Index, number: u64| index.insert(entry(number << 50, number as u32));
            (0..100).for_each(|number| add(&mut one_by_one, number));
            (0..100).for_each(|number| add(&mut reserved, number));
            reserved.reserve(more);
            let homes = reserved.homes;
            (100..100 + more).for_each(|number| add(&mut one_by_one, number));
            (100..100 + more).for_each(|number| add(&mut reserved, number));
            assert_eq!((reserved.homes, homes), (one_by_one.homes, one_by_one.homes), "{more} more");
            assert!(reserved.from(0).eq(one_by_one.from(0)));
        }
    }

    /// Half a million records in the order of their hashes, in an index that was not sized for them: each is found with
    /// few probes. Probing every slot after the home would take minutes.
    #[test]
    fn records_may_come_in_the_order_of_their_hashes() {
        const ENTRIES: u64 = 500_000;
        let hash = |number: u64| number * (u64::MAX / ENTRIES);
        let mut index = index(75);
        for number in 0..ENTRIES {
            assert_eq!(index.with_hash(hash(number)).count(), 0);
            index.insert(entry(hash(number), number as u32));
            index.relocate(hash(number), entry(0, number as u32).place, entry(0, 7).place);
        }
        assert!((0..ENTRIES).all(|number| index.names(hash(number), entry(0, 7).place)));
        assert!(index.from(0).map(|entry| entry.hash).eq((0..ENTRIES).map(hash)));
    }

    /// Compared with a set, for hashes that crowd together at both ends, with collisions, and for every load factor.
    #[test]
    fn random_work_keeps_all_entries_in_order() {
        for load in [10, 50, 75, 95] {
            let mut state = u64::from(load);
            let mut next = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                state >> 33
            };
            let (mut index, mut model) = (index(load), BTreeSet::new());
            for _ in 0..20_000 {
                let ppn = next() as u32 % 500;
                let hash = match next() % 4 {
                    0 => u64::MAX - next() % 8,
                    1 => next() % 8,
                    _ => (u64::from(ppn) % 50).wrapping_mul(0x0123_4567_89ab_cdef),
                };
                if model.contains(&(hash, ppn)) {
                    index.remove(hash, entry(hash, ppn).place);
                    model.remove(&(hash, ppn));
                } else {
                    index.insert(entry(hash, ppn));
                    model.insert((hash, ppn));
                }
                assert!(index.names(hash, entry(hash, ppn).place) == model.contains(&(hash, ppn)));
                assert_eq!(index.len(), model.len() as u64);
            }
            let all: Vec<u64> = index.from(0).map(|entry| entry.hash).collect();
            assert_eq!(all, model.iter().map(|entry| entry.0).collect::<Vec<_>>());
            let late: Vec<u64> = index.from(1 << 63).map(|entry| entry.hash).collect();
            assert_eq!(late, all.iter().copied().filter(|hash| *hash >= 1 << 63).collect::<Vec<_>>());
        }
    }

    /// Hashes that crowd at the upper end fill the table to its last slot, and are removed from there.
    #[test]
    fn entries_may_fill_the_last_slot_of_the_table() {
        let mut index = index(95);
        let hash = |number: u64| u64::MAX - 200 + number;
        for number in 0..110 {
            index.insert(entry(hash(number), number as u32));
            if index.slots.last() != Some(&FREE) {
                // its entry is removed and added again, with nothing behind it
                index.remove(hash(number), entry(0, number as u32).place);
                assert_eq!(index.slots.last(), Some(&FREE));
                index.insert(entry(hash(number), number as u32));
            }
            assert!(index.from(0).map(|entry| entry.hash).eq((0..=number).map(hash)));
        }
        for number in 0..110 {
            index.remove(hash(number), entry(0, number as u32).place);
            assert!(index.from(0).map(|entry| entry.hash).eq((number + 1..110).map(hash)));
        }
    }
}
