//! The permission table of one processor: extents by process. It is bounded, and evicts the least recently used entry.
//!
//! Invariants: entries of a process do not overlap; there are never more than the limit; eviction only removes rights.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{BitOr, Range};

use crate::names::ProcessId;

/// Rights of a process to a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rights(u8);

impl Rights {
    /// None.
    pub const NONE: Rights = Rights(0);
    /// Read it.
    pub const READ: Rights = Rights(1);
    /// Write it.
    pub const WRITE: Rights = Rights(2);

    /// Rights as programs encode them: 1 to read, 2 to write; other bits are invalid.
    pub fn from_bits(bits: u32) -> Option<Rights> {
        (bits <= 3).then_some(Rights(bits as u8))
    }

    /// Whether these include all of `other`.
    pub fn allow(self, other: Rights) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct GrantedRange {
    end: u64,
    rights: Rights,
    used: u64,
}

/// The table.
#[derive(Debug)]
pub(crate) struct PermissionTable {
    entries: BTreeMap<(ProcessId, u64), GrantedRange>,
    limit: usize,
    uses: u64,
    /// How often rights were revoked. Evictions do not count: the driver grants evicted rights again.
    pub revocations: u32,
    /// How many entries were evicted.
    pub evicted: u64,
}

impl PermissionTable {
    pub fn new(limit: usize) -> PermissionTable {
        PermissionTable { entries: BTreeMap::new(), limit, uses: 0, revocations: 0, evicted: 0 }
    }

    /// Whether a process has these rights to the whole range, and how many entries the search visited.
    pub fn check(&mut self, process: ProcessId, range: &Range<u64>, rights: Rights) -> (bool, u64) {
        let depth = u64::from(usize::BITS - self.entries.len().leading_zeros());
        let (mut at, mut looked) = (range.start, 0);
        while at < range.end {
            looked += depth;
            self.uses += 1;
            let found = self.entries.range_mut((process, 0)..=(process, at)).next_back();
            match found {
                Some((_, entry)) if entry.end > at && entry.rights.allow(rights) => {
                    entry.used = self.uses;
                    at = entry.end;
                }
                _ => return (false, looked),
            }
        }
        (true, looked)
    }

    /// Replaces a process's rights to a range.
    pub fn install(&mut self, process: ProcessId, range: Range<u64>, rights: Rights) {
        self.remove(process, &range);
        if !rights.allow(Rights::READ | Rights::WRITE) {
            self.revocations = self.revocations.wrapping_add(1);
        }
        if rights != Rights::NONE && !range.is_empty() {
            self.uses += 1;
            let entry = GrantedRange { end: range.end, rights, used: self.uses };
            self.insert((process, range.start), entry);
        }
    }

    /// The processes that have rights to a part of a range.
    pub fn holders(&self, range: &Range<u64>) -> BTreeSet<ProcessId> {
        let overlaps =
            |(key, entry): &(&(ProcessId, u64), &GrantedRange)| key.1 < range.end && range.start < entry.end;
        self.entries.iter().filter(overlaps).map(|(key, _)| key.0).collect()
    }

    /// Removes all rights to a range.
    pub fn remove_range(&mut self, range: &Range<u64>) {
        for process in self.holders(range) {
            self.install(process, range.clone(), Rights::NONE);
        }
    }

    /// Removes all rights of a process.
    pub fn remove_process(&mut self, process: ProcessId) {
        self.revocations = self.revocations.wrapping_add(1);
        self.entries.retain(|(whose, _), _| *whose != process);
    }

    fn remove(&mut self, process: ProcessId, range: &Range<u64>) {
        let overlapping = self.entries.range((process, 0)..(process, range.end));
        let hit: Vec<_> = overlapping
            .filter(|(_, entry)| entry.end > range.start)
            .map(|(&key, &entry)| (key, entry))
            .collect();
        for (key, entry) in hit {
            self.entries.remove(&key);
            if key.1 < range.start {
                self.insert(key, GrantedRange { end: range.start, ..entry });
            }
            if entry.end > range.end {
                self.insert((process, range.end), entry);
            }
        }
    }

    fn insert(&mut self, key: (ProcessId, u64), entry: GrantedRange) {
        debug_assert!(self.is_free(key.0, &(key.1..entry.end)), "{key:?} to {} overlaps others", entry.end);
        self.entries.insert(key, entry);
        if self.entries.len() > self.limit {
            let eldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let (&eldest, _) = eldest.expect("a table over its limit has entries");
            self.entries.remove(&eldest);
            self.evicted += 1;
        }
        assert!(self.entries.len() <= self.limit, "{} entries of {}", self.entries.len(), self.limit);
    }

    /// Whether no entry of a process overlaps a range.
    fn is_free(&self, process: ProcessId, range: &Range<u64>) -> bool {
        let before = self.entries.range((process, 0)..(process, range.end)).next_back();
        before.is_none_or(|(_, entry)| entry.end <= range.start)
    }

    /// The extent of a process that contains an address, with its rights.
    pub fn extent(&self, process: ProcessId, address: u64) -> Option<(Range<u64>, Rights)> {
        let (key, entry) = self.entries.range((process, 0)..=(process, address)).next_back()?;
        (entry.end > address).then_some((key.1..entry.end, entry.rights))
    }

    /// Whether any process has rights to a part of a range.
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.entries.iter().any(|((_, start), entry)| *start < range.end && entry.end > range.start)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use tantalum_image::SplitMix64;

    use super::*;

    const RW: Rights = Rights(3);

    #[test]
    fn rights_end_where_the_extent_ends_and_at_the_process() {
        let (alice, bob) = (ProcessId::user(1), ProcessId::user(2));
        let mut table = PermissionTable::new(8);
        table.install(alice, 100..200, Rights::READ);
        table.install(alice, 200..300, RW);
        assert!(table.check(alice, &(150..250), Rights::READ).0);
        assert!(!table.check(alice, &(150..250), Rights::WRITE).0);
        assert!(!table.check(alice, &(250..301), Rights::READ).0);
        assert!(!table.check(alice, &(99..101), Rights::READ).0);
        assert!(!table.check(bob, &(150..160), Rights::READ).0);
        table.install(alice, 120..130, Rights::NONE);
        assert!(!table.check(alice, &(110..140), Rights::READ).0);
        assert!(table.check(alice, &(130..200), Rights::READ).0);
    }

    #[test]
    fn a_full_table_evicts_what_was_not_used_for_longest() {
        let process = ProcessId::user(1);
        let mut table = PermissionTable::new(2);
        table.install(process, 0..10, RW);
        table.install(process, 20..30, RW);
        assert!(table.check(process, &(0..10), RW).0);
        table.install(process, 40..50, RW);
        assert_eq!((table.len(), table.evicted), (2, 1));
        assert!(table.check(process, &(0..10), RW).0 && !table.check(process, &(20..30), RW).0);
    }

    /// The table compared with a map of every byte, for random grants and queries.
    #[test]
    fn a_table_that_has_room_agrees_with_a_map_of_every_byte() {
        let mut random = SplitMix64(18);
        let processes = [1, 2].map(ProcessId::user);
        for _ in 0..200 {
            let mut table = PermissionTable::new(64);
            let mut bytes = [[Rights::NONE; 64]; 2];
            for _ in 0..20 {
                let who = random.below(2) as usize;
                let start = random.below(64);
                let range = start..start + random.below(65 - start);
                let rights = Rights(random.below(4) as u8);
                bytes[who][range.start as usize..range.end as usize].fill(rights);
                table.install(processes[who], range, rights);
                let (start, wanted) = (random.below(64), Rights(1 + random.below(3) as u8));
                let range = start..start + 1 + random.below(64 - start);
                let allowed =
                    bytes[who][range.start as usize..range.end as usize].iter().all(|has| has.allow(wanted));
                assert_eq!(table.check(processes[who], &range, wanted).0, allowed, "{range:?} {wanted:?}");
            }
        }
    }
}
