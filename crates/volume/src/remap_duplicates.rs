//! Writes that repeat an earlier one become shares (SHARE, section 2.1): databases write pages twice so that none is
//! torn, and the second copy needs no flash.
//!
//! Invariants:
//! - An entry's bytes are what its unit reads as: whatever else may change the unit takes the entry out first.
//! - A write becomes a share only if all of its bytes are an entry's. The key finds candidates and proves nothing.
//! - The bytes kept are bounded by [`WINDOW_UNITS`]; the oldest go first.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use tantalum::{Command, Lpn, UNIT_BYTES};

/// Units of recent writes that are remembered: 64 MiB.
const WINDOW_UNITS: usize = 16 * 1024;

/// Shares of one unit. More copies of one content than this are no second writes, and the drive keeps a list of each
/// place's owners.
const MOST_SHARES: u8 = 4;

/// Words of a unit that make its key: one in eight of a page's words, and all of its first, where databases have
/// numbers and checksums that change with every write.
const KEY_STEP: usize = 8;
const KEY_HEAD: usize = 8;

/// What was written to a unit.
#[derive(Clone, Debug)]
struct Entry {
    key: u64,
    shares: u8,
    data: Box<[u8; UNIT_BYTES]>,
}

/// Recent writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentWrites {
    by_lpn: FxHashMap<Lpn, Entry>,
    by_key: FxHashMap<u64, Lpn>,
    /// In the order of their writes, with those that are gone.
    order: VecDeque<(Lpn, u64)>,
    pub units_remapped: u64,
    pub units_without_duplicate: u64,
}

impl RecentWrites {
    /// A unit outside `but` that reads as `data`, if one is known. It is taken to be shared then.
    pub fn find(&mut self, data: &[u8; UNIT_BYTES], but: std::ops::Range<u32>) -> Option<Lpn> {
        let lpn = *self.by_key.get(&key_of(data))?;
        let entry = self.by_lpn.get_mut(&lpn)?;
        if *entry.data != *data || but.contains(&lpn.0) {
            return None;
        }
        entry.shares += 1;
        if entry.shares == MOST_SHARES {
            self.forget(lpn);
        }
        Some(lpn)
    }

    /// The unit was written and now reads as `data`.
    pub fn written(&mut self, lpn: Lpn, data: &[u8; UNIT_BYTES]) {
        let mut buffer = self.forget(lpn).map(|entry| entry.data);
        while self.by_lpn.len() >= WINDOW_UNITS || self.order.len() >= 2 * WINDOW_UNITS {
            let Some((oldest, key)) = self.order.pop_front() else { break };
            if self.by_lpn.get(&oldest).is_some_and(|entry| entry.key == key) {
                buffer = self.forget(oldest).map(|entry| entry.data);
            }
        }
        let mut bytes = buffer.unwrap_or_else(|| Box::new([0; UNIT_BYTES]));
        bytes.copy_from_slice(data);
        let key = key_of(data);
        self.by_lpn.insert(lpn, Entry { key, shares: 0, data: bytes });
        self.by_key.insert(key, lpn);
        self.order.push_back((lpn, key));
    }

    fn forget(&mut self, lpn: Lpn) -> Option<Entry> {
        let entry = self.by_lpn.remove(&lpn)?;
        if self.by_key.get(&entry.key) == Some(&lpn) {
            self.by_key.remove(&entry.key);
        }
        Some(entry)
    }

    fn forget_range(&mut self, lpn: Lpn, units: u32) {
        if units as usize > self.by_lpn.len() {
            let range = lpn.0..lpn.0.saturating_add(units);
            let gone: Vec<Lpn> = self.by_lpn.keys().filter(|lpn| range.contains(&lpn.0)).copied().collect();
            gone.into_iter().for_each(|lpn| drop(self.forget(lpn)));
        } else {
            (lpn.0..lpn.0 + units).for_each(|lpn| drop(self.forget(Lpn(lpn))));
        }
    }

    /// Forgets all units that the command may change.
    pub fn before(&mut self, command: &Command<'_>) {
        if self.by_lpn.is_empty() {
            return;
        }
        match command {
            Command::Read { .. }
            | Command::ReadWithMetadata { .. }
            | Command::TxRead { .. }
            | Command::Flush
            | Command::Begin
            | Command::Abort { .. }
            | Command::BeginLog
            // Records are no units.
            | Command::CreateNamespace { .. }
            | Command::DeleteNamespace { .. }
            | Command::KvPut { .. }
            | Command::KvGet { .. }
            | Command::KvExists { .. }
            | Command::KvDelete { .. }
            | Command::KvList { .. }
            // Changes nothing that others see before the commit.
            | Command::TxWrite { .. } => {}
            Command::Write { lpn, data, .. } => self.forget_range(*lpn, (data.len() / UNIT_BYTES) as u32),
            Command::WriteWithMetadata { lpn, .. } => drop(self.forget(*lpn)),
            // A page of a log may be brought home, and which ones are is the drive's.
            Command::WriteHinted { .. } | Command::Commit { .. } => self.clear(),
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                self.forget_range(*lpn, *units);
            }
            Command::Share { ranges, .. } => {
                ranges.iter().for_each(|range| self.forget_range(range.dst, range.units));
            }
            Command::Remap { src, dst, units } => {
                self.forget_range(*src, *units);
                self.forget_range(*dst, *units);
            }
            Command::WriteAtomic { writes } => writes.iter().for_each(|(lpn, _)| drop(self.forget(*lpn))),
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_lpn.clear();
        self.by_key.clear();
        self.order.clear();
    }
}

/// A number that is the same for the same bytes, and seldom for others.
fn key_of(data: &[u8; UNIT_BYTES]) -> u64 {
    let (words, _) = data.as_chunks::<8>();
    let head = words[..KEY_HEAD].iter();
    let sample = words[KEY_HEAD..].iter().skip(KEY_STEP - 1).step_by(KEY_STEP);
    let mut key = 0x9e37_79b9_7f4a_7c15_u64;
    for word in head.chain(sample) {
        let product = u128::from(key ^ u64::from_le_bytes(*word)) * 0xe703_7ed1_a0b4_28db_2d35_8dcc_aa6c_78a5;
        key = product as u64 ^ (product >> 64) as u64;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(stamp: u64) -> [u8; UNIT_BYTES] {
        let mut page = [0; UNIT_BYTES];
        page[..8].copy_from_slice(&stamp.to_le_bytes());
        page
    }

    #[test]
    fn what_was_written_is_found_until_its_unit_changes() {
        let mut recent = RecentWrites::default();
        recent.written(Lpn(5), &page(1));
        assert_eq!(recent.find(&page(1), 0..0), Some(Lpn(5)));
        assert_eq!(recent.find(&page(1), 5..6), None);
        assert_eq!(recent.find(&page(2), 0..0), None);
        recent.written(Lpn(5), &page(2));
        assert_eq!(recent.find(&page(1), 0..0), None);
        recent.before(&Command::Trim { lpn: Lpn(0), units: 6 });
        assert_eq!(recent.find(&page(2), 0..0), None);
    }

    /// Bytes that the key does not look at: two pages with one key must not be taken for each other.
    #[test]
    fn one_key_is_no_proof() {
        let mut recent = RecentWrites::default();
        let mut other = page(1);
        other[8 * (KEY_HEAD + 1)] = 1;
        assert_eq!(key_of(&other), key_of(&page(1)));
        recent.written(Lpn(5), &page(1));
        assert_eq!(recent.find(&other, 0..0), None);
    }

    #[test]
    fn the_oldest_are_forgotten_and_memory_is_bounded() {
        let mut recent = RecentWrites::default();
        for i in 0..3 * WINDOW_UNITS as u32 {
            recent.written(Lpn(i % (WINDOW_UNITS as u32 + 100)), &page(u64::from(i)));
            assert!(recent.by_lpn.len() <= WINDOW_UNITS && recent.order.len() <= 2 * WINDOW_UNITS);
        }
        assert_eq!(recent.by_key.len(), recent.by_lpn.len());
        let last = 3 * WINDOW_UNITS as u64 - 1;
        assert!(recent.find(&page(last), 0..0).is_some());
    }

    #[test]
    fn a_unit_that_was_shared_often_is_no_candidate() {
        let mut recent = RecentWrites::default();
        recent.written(Lpn(5), &page(1));
        for _ in 0..MOST_SHARES {
            assert!(recent.find(&page(1), 0..0).is_some());
        }
        assert_eq!(recent.find(&page(1), 0..0), None);
    }
}
