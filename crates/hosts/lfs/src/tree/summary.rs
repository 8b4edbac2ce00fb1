//! The summary of a partial segment: describes its units, and shows whether they are all there. It is the partial
//! segment's last unit, and the last unit of a full segment is a summary, so that a reader can walk back from there.
//!
//! Layout, little-endian: checksum of everything after it up to the last entry (4), magic (8), checksum of the summary before it in the log,
//! place of the partial segment's first unit, number of units before the summary, place of the next partial segment,
//! checksum of the units that were written with it, whether the last of them is a super root, the file that was synced
//! (4 each), 4 zeros; from 40 on 16 bytes for each unit: kind, whether it was durable before (1 each), 2 zeros, and
//! three words: virtual number or number in the table, file, unit.

use tantalum::{Lpn, UNIT_BYTES};
use tantalum_filesystem::FileId;

use super::translation::Number;
use crate::bytes::{Page, get32, put32, seal, verify, zeros};
use crate::counters::WrittenCounters;

const MAGIC: [u8; 8] = *b"TANTPART";
const ENTRIES_AT: usize = 40;
const ENTRY_BYTES: usize = 16;

/// The maximum number of units that one summary describes.
pub(super) const MOST_ENTRIES: usize = (UNIT_BYTES - ENTRIES_AT) / ENTRY_BYTES;

/// What a unit of the log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    /// New contents of a unit of a file.
    Content { file: FileId, unit: u32, number: Number },
    /// Contents of a unit of a file that the cleaner moved.
    Moved { file: FileId, unit: u32, number: Number },
    /// A node, or contents that only a snapshot is known to have.
    Unit(Number),
    /// A unit of the table.
    Table(u32),
    /// The inode of a synced file. It never counts as live: the next checkpoint has it in the file's tree.
    Inode(FileId),
    /// Files without names, for the super root after it.
    Orphans,
    /// A super root.
    SuperRoot,
    /// Nothing that counts.
    Nothing,
}

impl What {
    fn words(self) -> (u8, [u32; 3]) {
        match self {
            What::Content { file, unit, number } => (1, [number.0, file.0, unit]),
            What::Moved { file, unit, number } => (2, [number.0, file.0, unit]),
            What::Unit(number) => (3, [number.0, 0, 0]),
            What::Table(number) => (4, [number, 0, 0]),
            What::Inode(file) => (5, [0, file.0, 0]),
            What::Orphans => (6, [0; 3]),
            What::SuperRoot => (7, [0; 3]),
            What::Nothing => (8, [0; 3]),
        }
    }

    /// Where units of this kind are counted.
    pub fn counter(self, written: &mut WrittenCounters) -> &mut u64 {
        match self {
            What::Content { .. } | What::Moved { .. } => &mut written.contents,
            What::Unit(_) | What::Inode(_) => &mut written.nodes,
            What::Table(_) => &mut written.tables,
            What::Orphans | What::SuperRoot | What::Nothing => &mut written.roots,
        }
    }

    fn of(kind: u8, [number, file, unit]: [u32; 3]) -> Option<What> {
        let (virtual_number, file) = (Number(number), FileId(file));
        Some(match kind {
            1 => What::Content { file, unit, number: virtual_number },
            2 => What::Moved { file, unit, number: virtual_number },
            3 => What::Unit(virtual_number),
            4 => What::Table(number),
            5 => What::Inode(file),
            6 => What::Orphans,
            7 => What::SuperRoot,
            8 => What::Nothing,
            _ => return None,
        })
    }
}

/// Where so many entries end: most syncs are described by a few, and a checksum takes its time.
fn end_of(entries: usize) -> usize {
    ENTRIES_AT + entries * ENTRY_BYTES
}

/// A unit of a partial segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SummaryEntry {
    pub what: What,
    /// It was durable before the summary was written, whose checksum does not cover it: the drive moved it there, or a
    /// mount found it in a list.
    pub is_unchecked: bool,
}

/// A summary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Summary {
    /// The checksum of the summary before it in the log.
    pub previous: u32,
    pub start: Lpn,
    pub next: Lpn,
    /// The checksum of the units that were written with it.
    pub checksum: u32,
    /// All changes of this file up to here count together.
    pub synced: Option<FileId>,
    pub entries: Vec<SummaryEntry>,
}

impl Summary {
    /// The summary as a unit, and its own checksum.
    pub fn encode(&self) -> (Box<Page>, u32) {
        let mut page = zeros();
        let bytes = &mut page[..];
        bytes[4..12].copy_from_slice(&MAGIC);
        let has_super_root = self.has_super_root();
        let super_roots = self.entries.iter().filter(|entry| entry.what == What::SuperRoot).count();
        assert_eq!(
            super_roots,
            usize::from(has_super_root),
            "a super root is not the last of {} units from {} on",
            self.entries.len(),
            self.start
        );
        let synced = self.synced.map_or(0, |file| file.0);
        let count = self.entries.len() as u32;
        assert!(
            count as usize <= MOST_ENTRIES,
            "a summary describes {count} units from {} on, and has room for {MOST_ENTRIES}",
            self.start
        );
        assert_ne!(self.synced, Some(FileId(0)), "a summary cannot name file 0, which stands for none");
        let words = [
            self.previous,
            self.start.0,
            count,
            self.next.0,
            self.checksum,
            u32::from(has_super_root),
            synced,
        ];
        for (index, word) in words.into_iter().enumerate() {
            put32(bytes, 12 + 4 * index, word);
        }
        for (entry, at) in self.entries.iter().zip((ENTRIES_AT..).step_by(ENTRY_BYTES)) {
            let (kind, words) = entry.what.words();
            (bytes[at], bytes[at + 1]) = (kind, u8::from(entry.is_unchecked));
            (0..3).for_each(|word| put32(bytes, at + 4 + 4 * word, words[word]));
        }
        seal(&mut bytes[..end_of(self.entries.len())]);
        let checksum = get32(bytes, 0);
        (page, checksum)
    }

    /// The summary in a unit and its own checksum, if there is a whole one.
    pub fn decode(page: &Page) -> Option<(Summary, u32)> {
        let count = get32(page, 20) as usize;
        if page[4..12] != MAGIC || count > MOST_ENTRIES || verify(&page[..end_of(count)]).is_err() {
            return None;
        }
        let entry = |index: usize| {
            let at = ENTRIES_AT + index * ENTRY_BYTES;
            let words = std::array::from_fn(|word| get32(page, at + 4 + 4 * word));
            Some(SummaryEntry { what: What::of(page[at], words)?, is_unchecked: page[at + 1] == 1 })
        };
        let summary = Summary {
            previous: get32(page, 12),
            start: Lpn(get32(page, 16)),
            next: Lpn(get32(page, 24)),
            checksum: get32(page, 28),
            synced: Some(FileId(get32(page, 36))).filter(|file| file.0 != 0),
            entries: (0..count).map(entry).collect::<Option<_>>()?,
        };
        Some((summary, get32(page, 0)))
    }

    /// The summary in a unit at `lpn`, if it describes the units just before that.
    pub fn at(lpn: Lpn, page: &Page) -> Option<(Summary, u32)> {
        Summary::decode(page).filter(|(summary, _)| summary.place() == u64::from(lpn.0))
    }

    /// The place behind the units that it describes.
    pub fn place(&self) -> u64 {
        u64::from(self.start.0) + self.entries.len() as u64
    }

    pub fn has_super_root(&self) -> bool {
        self.entries.last().is_some_and(|entry| entry.what == What::SuperRoot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_reads_back_whole_or_not_at_all() {
        let kinds = [
            What::Content { file: FileId(3), unit: 4, number: Number(5) },
            What::Moved { file: FileId(6), unit: u32::MAX, number: Number(8) },
            What::Unit(Number(9)),
            What::Table(10),
            What::Inode(FileId(11)),
            What::Orphans,
            What::Nothing,
            What::SuperRoot,
        ];
        let entries: Vec<SummaryEntry> =
            kinds.map(|what| SummaryEntry { what, is_unchecked: what == kinds[2] }).into();
        let summary = Summary {
            previous: 77,
            start: Lpn(100),
            next: Lpn(109),
            checksum: 99,
            synced: Some(FileId(12)),
            entries,
        };
        let (mut page, checksum) = summary.encode();
        assert!(summary.has_super_root());
        assert_eq!(
            page[4..40],
            *b"TANTPART\x4d\0\0\0\x64\0\0\0\x08\0\0\0\x6d\0\0\0\x63\0\0\0\x01\0\0\0\x0c\0\0\0"
        );
        assert_eq!(page[40..56], *b"\x01\0\0\0\x05\0\0\0\x03\0\0\0\x04\0\0\0");
        assert_eq!(Summary::at(Lpn(108), &page), Some((summary, checksum)));
        assert_eq!((Summary::at(Lpn(107), &page), Summary::decode(&[0; UNIT_BYTES])), (None, None));
        for byte in [0, 20, 40, 40 + 8 * 16 - 1] {
            page[byte] ^= 1;
            assert_eq!(Summary::decode(&page), None, "byte {byte}");
            page[byte] ^= 1;
        }
    }
}
