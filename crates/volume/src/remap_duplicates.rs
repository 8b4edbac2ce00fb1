//! Writes that repeat an earlier one become shares (SHARE, section 2.1): databases write pages twice so that none is
//! torn, and the second copy needs no flash.
//!
//! Remembered is a number made of the bytes, and where they were written. It finds a candidate and proves nothing: a
//! write becomes a share only if all of its bytes are what the candidate's unit reads as at that moment
//! ([`tantalum::Device::holds`]). So nothing need be forgotten when a unit changes, by whatever command.

use std::ops::Range;

use tantalum::{Lpn, UNIT_BYTES};

/// Writes whose numbers end alike are remembered together, as many as this; the oldest goes first.
const BUCKET_ENTRIES: usize = 4;

/// With four entries each, some 16,000 recent writes are remembered: 64 MiB of data in 256 KiB.
const BUCKETS: usize = 4 * 1024;

/// Shares of one unit. More copies of one content than this are no second writes, and the drive keeps a list of each
/// place's owners.
const MOST_SHARES: u32 = 4;

/// Words of a unit that make its key: its first, where databases have numbers and checksums that change with every
/// write, its last, and a few between.
const KEY_STEP: usize = 36;
const KEY_HEAD: usize = 8;

/// A number that is the same for the same bytes, and seldom for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Key(u64);

/// A write.
#[derive(Clone, Copy, Debug)]
struct Entry {
    key: Key,
    lpn: Lpn,
    shares: u32,
}

/// No write: it is not to be shared any more.
const NONE: Entry = Entry { key: Key(0), lpn: Lpn(0), shares: MOST_SHARES };

/// Writes remembered together, the newest first, in one line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([Entry; BUCKET_ENTRIES]);

/// Recent writes.
#[derive(Clone, Debug)]
pub(crate) struct RecentWrites {
    buckets: Box<[Bucket]>,
    pub units_remapped: u64,
    pub units_without_duplicate: u64,
}

impl Default for RecentWrites {
    fn default() -> RecentWrites {
        let buckets = vec![Bucket([NONE; BUCKET_ENTRIES]); BUCKETS].into_boxed_slice();
        RecentWrites { buckets, units_remapped: 0, units_without_duplicate: 0 }
    }
}

impl RecentWrites {
    /// Bytes with this key are to be written to `lpn`, with others to all of `together`. The unit outside that they were
    /// written to last, if `is_equal` says that it holds the same: it is taken to be shared then. Otherwise they are
    /// remembered; should the write fail, they are not found equal later.
    pub fn find_or_remember(
        &mut self,
        key: Key,
        lpn: Lpn,
        together: &Range<u32>,
        is_equal: impl FnOnce(Lpn) -> bool,
    ) -> Option<Lpn> {
        let Bucket(entries) = &mut self.buckets[key.0 as usize % BUCKETS];
        let known = entries.iter().position(|entry| entry.key == key);
        if let Some(entry) = known.map(|place| &mut entries[place])
            && entry.shares < MOST_SHARES
            && !together.contains(&entry.lpn.0)
            && is_equal(entry.lpn)
        {
            entry.shares += 1;
            return Some(entry.lpn);
        }
        entries[..=known.unwrap_or(BUCKET_ENTRIES - 1)].rotate_right(1);
        entries[0] = Entry { key, lpn, shares: 0 };
        None
    }
}

impl Key {
    /// Bytes in four lanes, as each step waits for the one before it.
    pub fn of(data: &[u8; UNIT_BYTES]) -> Key {
        let (words, _) = data.as_chunks::<8>();
        let mut lanes = [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 1];
        let (head, rest) = words.split_at(KEY_HEAD);
        let sample = rest.iter().skip(KEY_STEP - 1).step_by(KEY_STEP);
        for (index, word) in head.iter().chain(sample).enumerate() {
            let lane = &mut lanes[index % 4];
            *lane = mixed(*lane ^ u64::from_le_bytes(*word));
        }
        Key(lanes.into_iter().fold(0, |key, lane| mixed(key ^ lane)))
    }
}

fn mixed(word: u64) -> u64 {
    let product = u128::from(word).wrapping_mul(0xe703_7ed1_a0b4_28db_2d35_8dcc_aa6c_78a5);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(stamp: u64) -> [u8; UNIT_BYTES] {
        let mut page = [0; UNIT_BYTES];
        page[..8].copy_from_slice(&stamp.to_le_bytes());
        page
    }

    /// Looks up bytes that are to be written to a unit, whatever it holds.
    fn find(recent: &mut RecentWrites, key: Key, lpn: u32) -> Option<Lpn> {
        recent.find_or_remember(key, Lpn(lpn), &(lpn..lpn + 1), |_| true)
    }

    #[test]
    fn the_unit_written_last_is_found_unless_it_is_written_too_or_not_equal() {
        let mut recent = RecentWrites::default();
        let key = Key::of(&page(1));
        assert_eq!(find(&mut recent, key, 4), None);
        assert_eq!(find(&mut recent, key, 5), Some(Lpn(4)));
        assert_eq!(recent.find_or_remember(key, Lpn(6), &(6..7), |lpn| lpn != Lpn(4)), None);
        assert_eq!(find(&mut recent, key, 7), Some(Lpn(6)));
        assert_eq!(recent.find_or_remember(key, Lpn(8), &(3..9), |_| true), None);
        assert_eq!(find(&mut recent, key, 9), Some(Lpn(8)));
        assert_eq!(find(&mut recent, Key::of(&page(2)), 10), None);
    }

    #[test]
    fn the_oldest_of_a_bucket_is_forgotten() {
        let mut recent = RecentWrites::default();
        let key = |number: u32| Key(u64::from(number) * BUCKETS as u64 + 3);
        (1..=5).for_each(|number| assert_eq!(find(&mut recent, key(number), number), None));
        let found: Vec<Option<Lpn>> = (2..=5).map(|number| find(&mut recent, key(number), 9)).collect();
        assert_eq!(found, [2, 3, 4, 5].map(|lpn| Some(Lpn(lpn))));
        assert_eq!(find(&mut recent, key(1), 9), None, "the first of five is forgotten");
    }

    #[test]
    fn keys_tell_what_they_look_at_apart() {
        let keys: std::collections::HashSet<u64> =
            (0..100_000).map(|stamp| Key::of(&page(stamp)).0).collect();
        assert_eq!(keys.len(), 100_000);
        let buckets: std::collections::HashSet<u64> = keys.iter().map(|key| key % BUCKETS as u64).collect();
        assert!(buckets.len() > BUCKETS * 99 / 100, "keys fill {} of {BUCKETS} buckets", buckets.len());
    }

    #[test]
    fn a_unit_that_was_shared_often_is_no_candidate() {
        let mut recent = RecentWrites::default();
        let key = Key::of(&page(1));
        let found: Vec<Option<Lpn>> = (0..7).map(|lpn| find(&mut recent, key, lpn)).collect();
        assert_eq!(found, [None, Some(0), Some(0), Some(0), Some(0), None, Some(5)].map(|lpn| lpn.map(Lpn)));
    }
}
