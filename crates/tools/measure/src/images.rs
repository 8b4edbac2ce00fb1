//! Images of data pages in logs: what a program writes a second time so that a power cut cannot tear its pages.
//!
//! A unit of data (4 KiB at a multiple of that in a data file) that a log holds at any offset, with the same bytes, is an
//! image: of the page's old contents, as in a rollback journal, or of its new contents, as in a write-ahead log or a
//! doublewrite buffer. Units are compared by a rolling hash of 64 bits. Units of zeros are not counted. Images of other
//! lengths are found by a log's format (`postgres_wal.rs`).

use std::collections::HashSet;
use std::ops::Range;

use tantalum::UNIT_BYTES;

/// An odd multiplier of a polynomial hash modulo 2^64, whose bits are well mixed before (Knuth's, for 64 bits).
const FACTOR: u64 = 6_364_136_223_846_793_005;

/// The weight of a byte. With plain bytes, the low bits of the hash would depend on few of them.
const fn value(byte: u8) -> u64 {
    let mixed = (byte as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

const VALUES: [u64; 256] = {
    let mut values = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = value(byte as u8);
        byte += 1;
    }
    values
};

/// The factor of the byte that leaves the window.
const LEAVING: u64 = {
    let mut power: u64 = 1;
    let mut at = 0;
    while at < UNIT_BYTES {
        power = power.wrapping_mul(FACTOR);
        at += 1;
    }
    power
};

fn hash(unit: &[u8]) -> u64 {
    unit.iter().fold(0, |hash: u64, byte| hash.wrapping_mul(FACTOR).wrapping_add(VALUES[usize::from(*byte)]))
}

/// The whole units in what was written to a file at an offset: their numbers, with the hash of each, or none for zeros.
pub(crate) fn whole_units(offset: u64, data: &[u8]) -> impl Iterator<Item = (u64, Option<u64>)> {
    let unit = UNIT_BYTES as u64;
    let skipped = (offset.next_multiple_of(unit) - offset) as usize;
    let units = data.get(skipped..).unwrap_or_default().chunks_exact(UNIT_BYTES);
    let hash_of = |unit: &[u8]| unit.iter().any(|byte| *byte != 0).then(|| hash(unit));
    (offset.div_ceil(unit)..).zip(units.map(hash_of))
}

/// The contents written to data files.
#[derive(Debug, Default)]
pub(crate) struct Images {
    units: HashSet<u64>,
}

impl Images {
    /// Records a unit written to a data file, by its hash.
    pub fn note(&mut self, hash: u64) {
        self.units.insert(hash);
    }

    /// Where images are in the data written to a log. They do not overlap.
    pub fn find(&self, data: &[u8]) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        let mut start = 0;
        let mut window = match data.get(..UNIT_BYTES) {
            Some(first) => hash(first),
            None => return found,
        };
        loop {
            if self.units.contains(&window) {
                found.push(start..start + UNIT_BYTES);
                start += UNIT_BYTES;
                match data.get(start..start + UNIT_BYTES) {
                    Some(next) => window = hash(next),
                    None => return found,
                }
                continue;
            }
            let Some(entering) = data.get(start + UNIT_BYTES) else { return found };
            let leaving = VALUES[usize::from(data[start])].wrapping_mul(LEAVING);
            window = window
                .wrapping_mul(FACTOR)
                .wrapping_add(VALUES[usize::from(*entering)])
                .wrapping_sub(leaving);
            start += 1;
        }
    }
}

/// A log from which the images are left out: what remains moves together.
#[derive(Debug, Default)]
pub(crate) struct ShorterLog {
    /// Ranges left out, in order: start, bytes, and the bytes left out before it.
    left_out: Vec<(u64, u64, u64)>,
    /// Whether an image was left out since the last sync.
    skipped: bool,
    /// Whether anything else was done since the last sync.
    changed: bool,
}

impl ShorterLog {
    /// The new position of an offset, after what was left out before it.
    pub fn place(&self, offset: u64) -> u64 {
        let at = self.left_out.partition_point(|(start, ..)| *start < offset);
        let Some((start, bytes, before)) = at.checked_sub(1).map(|at| self.left_out[at]) else {
            return offset;
        };
        let within = (offset - start).min(bytes);
        offset - before - within
    }

    /// What remains of a write without its images, at its new place. Nothing remains of a lone image.
    pub fn write(&mut self, offset: u64, data: &[u8], images: &[Range<usize>]) -> (u64, Vec<u8>) {
        let end = offset + data.len() as u64;
        let new: Vec<(u64, u64)> =
            images.iter().map(|image| (offset + image.start as u64, image.len() as u64)).collect();
        let from = self.left_out.partition_point(|(start, bytes, _)| start + bytes <= offset);
        let to = self.left_out.partition_point(|(start, ..)| *start < end).max(from);
        let old = self.left_out[from..to].iter().map(|(start, bytes, _)| (*start, *bytes));
        let is_same = old.eq(new.iter().copied());
        if !is_same {
            self.left_out.splice(from..to, new.iter().map(|(start, bytes)| (*start, *bytes, 0)));
            let mut before = from.checked_sub(1).map_or(0, |at| self.left_out[at].1 + self.left_out[at].2);
            for range in &mut self.left_out[from..] {
                range.2 = before;
                before += range.1;
            }
        }
        let mut kept = Vec::with_capacity(data.len());
        let mut rest = 0;
        for image in images {
            kept.extend_from_slice(&data[rest..image.start]);
            rest = image.end;
        }
        kept.extend_from_slice(&data[rest..]);
        self.skipped |= !images.is_empty();
        self.changed |= !kept.is_empty();
        (self.place(offset), kept)
    }

    /// Something was left out.
    pub fn skipped(&mut self) {
        self.skipped = true;
    }

    /// The log was changed in another way.
    pub fn changed(&mut self) {
        self.changed = true;
    }

    /// Whether a sync has nothing to do, because everything written before it was left out.
    pub fn sync_is_idle(&mut self) -> bool {
        let (skipped, changed) = (std::mem::take(&mut self.skipped), std::mem::take(&mut self.changed));
        skipped && !changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A unit that differs from those of other seeds nearly everywhere.
    fn unit(seed: u64) -> Vec<u8> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let byte = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        std::iter::repeat_with(byte).take(UNIT_BYTES).collect()
    }

    fn one(image: Range<usize>) -> Vec<Range<usize>> {
        Vec::from_iter([image])
    }

    fn note(images: &mut Images, offset: u64, data: &[u8]) {
        whole_units(offset, data).filter_map(|(_, hash)| hash).for_each(|hash| images.note(hash));
    }

    #[test]
    fn images_are_found_at_any_offset_and_only_those() {
        let mut images = Images::default();
        note(&mut images, 8192, &[unit(1), unit(2)].concat());
        // not aligned to units in the file: it contains one whole unit
        note(&mut images, 100, &[&vec![7; UNIT_BYTES - 100][..], &unit(3), &[1, 2]].concat());
        let log = [&[9; 24][..], &unit(1), &[8; 24], &unit(4), &unit(3), &unit(2)[1..], &unit(2)].concat();
        let unit = UNIT_BYTES;
        let found = [24, 48 + 2 * unit, 48 + 4 * unit - 1].map(|start| start..start + unit);
        assert_eq!(images.find(&log), found);
        assert!(images.find(&log[..unit]).is_empty());
    }

    #[test]
    fn zeros_are_no_image() {
        let mut images = Images::default();
        note(&mut images, 0, &[0; 3 * UNIT_BYTES]);
        assert!(images.find(&[0; 2 * UNIT_BYTES]).is_empty());
    }

    #[test]
    fn a_log_without_images_is_shorter_and_stays_so_when_it_starts_over() {
        let mut log = ShorterLog::default();
        let frame = [&[1; 24][..], &[2; UNIT_BYTES]].concat();
        let bytes = frame.len() as u64;
        for life in 0..3 {
            for number in 0..100 {
                let (place, kept) = log.write(32 + number * bytes, &frame, &one(24..24 + UNIT_BYTES));
                assert_eq!((place, kept.len()), (32 + number * 24, 24), "life {life}, frame {number}");
            }
        }
        assert_eq!(log.left_out.len(), 100);
        assert_eq!(log.place(32 + 100 * bytes), 32 + 100 * 24);
        // a write without an image in the place of one
        let (place, kept) = log.write(32, &frame, &[]);
        assert_eq!((place, kept.len(), log.left_out.len()), (32, frame.len(), 99));
        assert_eq!(log.place(32 + 2 * bytes), 32 + bytes + 24);
    }

    /// A page of a log is written again when more of it is known: what is left out there may grow.
    #[test]
    fn what_is_left_out_of_a_place_may_have_another_length_later() {
        let mut log = ShorterLog::default();
        let page = [3; 8192];
        assert_eq!(log.write(0, &page, &[100..300, 4000..8192]), (0, vec![3; 3800]));
        assert_eq!(log.write(8192, &page, &one(0..10)), (3800, vec![3; 8182]));
        assert_eq!(log.write(0, &page, &one(100..200)), (0, vec![3; 8092]));
        assert_eq!((log.place(150), log.place(8192), log.place(8200)), (100, 8092, 8092));
        assert_eq!(log.place(2 * 8192), 2 * 8192 - 110);
    }

    #[test]
    fn a_sync_of_images_alone_is_idle() {
        let mut log = ShorterLog::default();
        assert!(!log.sync_is_idle(), "nothing was left out");
        log.write(0, &[2; UNIT_BYTES], &one(0..UNIT_BYTES));
        assert!(log.sync_is_idle());
        assert!(!log.sync_is_idle());
        log.write(0, &[2; UNIT_BYTES + 1], &one(0..UNIT_BYTES));
        log.write(9000, &[2; UNIT_BYTES], &one(0..UNIT_BYTES));
        assert!(!log.sync_is_idle());
    }
}
