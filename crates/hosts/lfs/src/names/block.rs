//! A block of a folder: one unit with entries.
//!
//! Layout: 128 slots of 32 bytes. The first has a checksum and a magic number (4 each). An entry takes adjacent slots:
//! file (4), kind, length of the name (1 each), name. A slot whose file is 0 is free. An entry never moves, so its
//! place is a cookie that stays valid.

use tantalum::UNIT_BYTES;
use tantalum_filesystem::{FileId, FileKind};

use crate::bytes::{Page, get32, put32, seal, verify};
use crate::inode::{kind_byte, kind_of};

const SLOT_BYTES: usize = 32;

/// Slots of a block, including the first, which holds no entry.
pub(super) const SLOTS: usize = UNIT_BYTES / SLOT_BYTES;

const MAGIC: u32 = 0x444c_4f46;

/// Bytes of an entry before its name.
const HEADER_BYTES: usize = 6;

/// Slots that an entry takes.
pub(super) fn slots_for(name: &[u8]) -> usize {
    (HEADER_BYTES + name.len()).div_ceil(SLOT_BYTES)
}

/// An entry of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BlockEntry<'a> {
    pub slot: usize,
    pub file: FileId,
    pub kind: FileKind,
    pub name: &'a [u8],
}

/// Whether a block is intact. A block of zeros is empty.
pub(crate) fn is_whole(page: &Page) -> bool {
    page.iter().all(|byte| *byte == 0) || (verify(page).is_ok() && get32(page, 4) == MAGIC)
}

/// The entries of a block, in order, up to the first invalid one.
pub(crate) fn entries_of(page: &Page) -> impl Iterator<Item = BlockEntry<'_>> {
    let mut slot = 1;
    std::iter::from_fn(move || {
        while slot < SLOTS {
            let bytes = &page[slot * SLOT_BYTES..];
            let file = get32(bytes, 0);
            if file == 0 {
                slot += 1;
                continue;
            }
            let name = bytes.get(HEADER_BYTES..HEADER_BYTES + usize::from(bytes[5]))?;
            let entry = BlockEntry { slot, file: FileId(file), kind: kind_of(bytes[4])?, name };
            slot += slots_for(name);
            return Some(entry);
        }
        None
    })
}

/// The first of `wanted` adjacent free slots.
pub(super) fn find_free(page: &Page, wanted: usize) -> Option<usize> {
    let mut from = 1;
    for entry in entries_of(page) {
        if entry.slot - from >= wanted {
            return Some(from);
        }
        from = entry.slot + slots_for(entry.name);
    }
    (SLOTS - from >= wanted).then_some(from)
}

/// Puts an entry into free slots.
pub(super) fn put(page: &mut Page, slot: usize, name: &[u8], file: FileId, kind: FileKind) {
    let bytes = &mut page[slot * SLOT_BYTES..(slot + slots_for(name)) * SLOT_BYTES];
    bytes.fill(0);
    put32(bytes, 0, file.0);
    bytes[4] = kind_byte(kind);
    bytes[5] = name.len() as u8;
    bytes[HEADER_BYTES..HEADER_BYTES + name.len()].copy_from_slice(name);
    complete(page);
}

/// Removes an entry.
pub(super) fn remove(page: &mut Page, slot: usize, name: &[u8]) {
    page[slot * SLOT_BYTES..(slot + slots_for(name)) * SLOT_BYTES].fill(0);
    complete(page);
}

fn complete(page: &mut Page) {
    put32(page, 4, MAGIC);
    seal(page);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::zeros;

    #[test]
    fn entries_fill_gaps_and_stay_where_they_are() {
        let mut page = zeros();
        let long = [b'x'; 255];
        for (number, name) in [&b"a"[..], &long, b"c"].into_iter().enumerate() {
            let slot = find_free(&page, slots_for(name)).unwrap();
            put(&mut page, slot, name, FileId(number as u32 + 1), FileKind::File);
        }
        let slots = |page: &Page| entries_of(page).map(|entry| entry.slot).collect::<Vec<_>>();
        assert_eq!((slots(&page), slots_for(&long)), (vec![1, 2, 11], 9));
        remove(&mut page, 2, &long);
        assert_eq!(
            (slots(&page), find_free(&page, 9), find_free(&page, 10)),
            (vec![1, 11], Some(2), Some(12))
        );
        assert!(is_whole(&page) && is_whole(&zeros()));
        page[40] ^= 1;
        assert!(!is_whole(&page));
    }

    #[test]
    fn nonsense_ends_the_entries() {
        let mut page = zeros();
        page[32..].fill(0xff);
        assert_eq!(entries_of(&page).count(), 0);
        put32(&mut page[..], 127 * 32, 9);
        (page[127 * 32 + 4], page[127 * 32 + 5]) = (1, 200);
        page[32..127 * 32].fill(0);
        assert_eq!(entries_of(&page).count(), 0);
    }
}
