//! The places of recent writes, by checksum: candidates for a share.
//!
//! The checksum of the bytes is remembered, and where they were written. This finds a candidate but proves nothing: a
//! write becomes a share only if all of its bytes equal the candidate's unit at that moment
//! ([`tantalum::Device::holds`]). So nothing has to be forgotten when a command changes a unit.

use std::ops::Range;

use tantalum::Lpn;
use tantalum_image::prefetch_lines;

/// This many writes whose checksums have the same last bits are remembered together; the oldest is dropped first.
const BUCKET_ENTRIES: usize = 4;

/// With four entries each, some 16,000 recent writes are remembered: 64 MiB of data in 256 KiB.
const BUCKETS: usize = 4 * 1024;

/// Shares of one unit. More copies of the same contents are not second writes, and the drive keeps a list of each
/// place's owners.
const MOST_SHARES: u32 = 4;

/// A write.
#[derive(Clone, Copy, Debug)]
struct Entry {
    checksum: u32,
    lpn: Lpn,
    shares: u32,
}

/// No write: the unit must not be shared any more.
const NONE: Entry = Entry { checksum: 0, lpn: Lpn(0), shares: MOST_SHARES };

/// Writes remembered together, newest first, in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Bucket([Entry; BUCKET_ENTRIES]);

/// Recent writes.
#[derive(Clone, Debug)]
pub(crate) struct RecentWrites {
    buckets: Box<[Bucket]>,
}

impl Default for RecentWrites {
    fn default() -> RecentWrites {
        let buckets = vec![Bucket([NONE; BUCKET_ENTRIES]); BUCKETS].into_boxed_slice();
        RecentWrites { buckets }
    }
}

impl RecentWrites {
    /// Bytes with this checksum will soon be looked for.
    #[inline]
    pub fn prefetch(&self, checksum: u32) {
        let bucket: *const Bucket = &self.buckets[checksum as usize % BUCKETS];
        prefetch_lines(bucket.cast(), size_of::<Bucket>());
    }

    /// Bytes with this checksum are about to be written to `lpn`, as part of a write to all of `together`. Returns the
    /// last unit outside `together` to which such bytes were written, if `is_equal` says that it holds the same; it
    /// then counts as shared. Otherwise the bytes are remembered; if the write fails, they will not be found equal
    /// later.
    pub fn find_or_remember(
        &mut self,
        checksum: u32,
        lpn: Lpn,
        together: &Range<u32>,
        is_equal: impl FnOnce(Lpn) -> bool,
    ) -> Option<Lpn> {
        let Bucket(entries) = &mut self.buckets[checksum as usize % BUCKETS];
        let known = entries.iter().position(|entry| entry.checksum == checksum);
        if let Some(entry) = known.map(|place| &mut entries[place])
            && entry.shares < MOST_SHARES
            && !together.contains(&entry.lpn.0)
            && is_equal(entry.lpn)
        {
            entry.shares += 1;
            return Some(entry.lpn);
        }
        entries[..=known.unwrap_or(BUCKET_ENTRIES - 1)].rotate_right(1);
        entries[0] = Entry { checksum, lpn, shares: 0 };
        let same = entries.iter().filter(|entry| entry.checksum == checksum).count();
        debug_assert!(same == 1 || checksum == NONE.checksum, "checksum {checksum:#x} is there {same} times");
        None
    }
}

#[cfg(test)]
mod tests {
    use tantalum::UNIT_BYTES;
    use tantalum_image::checksum_of;

    use super::*;

    /// Looks up bytes that are about to be written to a unit, whatever it holds.
    fn find(recent: &mut RecentWrites, checksum: u32, lpn: u32) -> Option<Lpn> {
        recent.find_or_remember(checksum, Lpn(lpn), &(lpn..lpn + 1), |_| true)
    }

    #[test]
    fn the_unit_written_last_is_found_unless_it_is_written_too_or_not_equal() {
        let mut recent = RecentWrites::default();
        assert_eq!(find(&mut recent, 1, 4), None);
        assert_eq!(find(&mut recent, 1, 5), Some(Lpn(4)));
        assert_eq!(recent.find_or_remember(1, Lpn(6), &(6..7), |lpn| lpn != Lpn(4)), None);
        assert_eq!(find(&mut recent, 1, 7), Some(Lpn(6)));
        assert_eq!(recent.find_or_remember(1, Lpn(8), &(3..9), |_| true), None);
        assert_eq!(find(&mut recent, 1, 9), Some(Lpn(8)));
        assert_eq!(find(&mut recent, 2, 10), None);
    }

    #[test]
    fn the_oldest_of_a_bucket_is_forgotten() {
        let mut recent = RecentWrites::default();
        let checksum = |number: u32| number * BUCKETS as u32 + 3;
        (1..=5).for_each(|number| assert_eq!(find(&mut recent, checksum(number), number), None));
        let found: Vec<Option<Lpn>> = (2..=5).map(|number| find(&mut recent, checksum(number), 9)).collect();
        assert_eq!(found, [2, 3, 4, 5].map(|lpn| Some(Lpn(lpn))));
        assert_eq!(find(&mut recent, checksum(1), 9), None, "the first of five is forgotten");
    }

    #[test]
    fn units_that_differ_a_little_are_spread_over_the_buckets() {
        let mut unit = [0; UNIT_BYTES];
        let buckets: std::collections::HashSet<u32> = (0..100_000_u32)
            .map(|stamp| {
                unit[..4].copy_from_slice(&stamp.to_le_bytes());
                checksum_of(&unit) % BUCKETS as u32
            })
            .collect();
        assert!(buckets.len() > BUCKETS * 99 / 100, "checksums fill {} of {BUCKETS} buckets", buckets.len());
    }

    #[test]
    fn a_unit_that_was_shared_often_is_no_candidate() {
        let mut recent = RecentWrites::default();
        let found: Vec<Option<Lpn>> = (0..7).map(|lpn| find(&mut recent, 1, lpn)).collect();
        assert_eq!(found, [None, Some(0), Some(0), Some(0), Some(0), None, Some(5)].map(|lpn| lpn.map(Lpn)));
    }
}
