//! What a controller's host is told about reservations (Base, section 5.1.12.1, log page 80h).

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::wire::identify::empty;

/// Notifications that wait to be read; further ones are lost.
const NOTICES: usize = 64;

/// The notifications of a controller (log page 80h).
#[derive(Debug, Default)]
pub struct ReservationNotices {
    /// The oldest first: what has happened, and the namespace.
    waiting: VecDeque<(u8, u32)>,
    /// Entries of the log so far.
    read: u64,
    /// What a host does not want to be told, by namespace.
    masks: FxHashMap<u32, u32>,
}

/// An entry of the log.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct NoticeEntry {
    count: U64,
    kind: u8,
    available: u8,
    reserved: [u8; 2],
    namespace: U32,
    reserved2: [u8; 48],
}

impl ReservationNotices {
    /// Adds one. False if it is not wanted.
    pub fn add(&mut self, namespace: u32, kind: u8) -> bool {
        let is_wanted = self.mask(namespace) >> kind & 1 == 0 && self.waiting.len() < NOTICES;
        if is_wanted {
            self.waiting.push_back((kind, namespace));
        }
        is_wanted
    }

    /// What is not wanted of a namespace: a bit for each kind.
    pub fn mask(&self, namespace: u32) -> u32 {
        self.masks.get(&namespace).copied().unwrap_or(0)
    }

    /// Sets what is not wanted of a namespace.
    pub fn set_mask(&mut self, namespace: u32, mask: u32) {
        self.masks.insert(namespace, mask);
    }

    /// The log page: the oldest, if there is one.
    pub fn page(&self) -> Vec<u8> {
        let mut entry: NoticeEntry = empty();
        if let Some((kind, namespace)) = self.waiting.front() {
            entry.count = (self.read + 1).into();
            (entry.kind, entry.namespace) = (*kind, (*namespace).into());
            entry.available = (self.waiting.len() - 1) as u8;
        }
        entry.as_bytes().to_vec()
    }

    /// The oldest was read. Returns whether there is another one.
    pub fn was_read(&mut self) -> bool {
        self.read += u64::from(self.waiting.pop_front().is_some());
        !self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<NoticeEntry>(), offset_of!(NoticeEntry, namespace)), (64, 12));
    }

    #[test]
    fn notices_are_read_one_after_the_other() {
        let mut notices = ReservationNotices::default();
        notices.set_mask(1, 1 << 2);
        assert_eq!([notices.add(1, 2), notices.add(1, 3), notices.add(2, 2)], [false, true, true]);
        let told = |page: Vec<u8>| (page[0], page[8], page[9], page[12]);
        assert_eq!(told(notices.page()), (1, 3, 1, 1));
        assert!(notices.was_read());
        assert_eq!(told(notices.page()), (2, 2, 0, 2));
        assert!(!notices.was_read() && !notices.was_read());
        assert_eq!(told(notices.page()), (0, 0, 0, 0));
        let added = (0..100).filter(|_| notices.add(1, 1)).count();
        assert_eq!(added, NOTICES);
    }
}
