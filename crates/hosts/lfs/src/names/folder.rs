//! A folder in memory: its entries by name and in the order of their places.
//!
//! Invariants, which `assert_invariants` checks:
//! - Each entry is found by its name and by its place.
//! - A block has the slots that its entries do not take.

use std::collections::BTreeMap;

use tantalum_filesystem::{FileId, FileKind};

use super::block::{SLOTS, slots_for};

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NameTarget {
    pub file: FileId,
    pub kind: FileKind,
    /// Its unit of the folder, and its slot there.
    pub place: (u32, usize),
}

/// The entries of one folder.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folder {
    by_name: BTreeMap<Box<[u8]>, NameTarget>,
    by_cookie: BTreeMap<u64, Box<[u8]>>,
    /// Free slots of each unit.
    free: Vec<u16>,
}

impl Folder {
    pub fn get(&self, name: &[u8]) -> Option<NameTarget> {
        self.by_name.get(name).copied()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// Blocks.
    pub fn units(&self) -> u32 {
        self.free.len() as u32
    }

    /// Adds an empty block.
    pub fn add_unit(&mut self) {
        self.free.push(SLOTS as u16 - 1);
    }

    /// Checks the invariants, if assertions of debug builds are on. Free slots are counted only if there are few entries.
    fn assert_invariants(&self) {
        const FEW: usize = 64;
        debug_assert_eq!(self.by_name.len(), self.by_cookie.len(), "entries by name, and by place");
        if cfg!(debug_assertions) && self.by_name.len() <= FEW {
            let free: usize = self.free.iter().map(|free| usize::from(*free)).sum();
            let taken: usize = self.by_name.keys().map(|name| slots_for(name)).sum();
            let all = self.free.len() * (SLOTS - 1);
            debug_assert_eq!(free + taken, all, "{free} slots are free, and {taken} have entries");
        }
    }

    /// Forgets all blocks. There must be no entries.
    pub fn clear(&mut self) {
        assert!(self.is_empty(), "a folder with entries keeps its blocks");
        assert!(
            self.free.iter().all(|free| usize::from(*free) == SLOTS - 1),
            "the blocks of an empty folder have {:?} free slots",
            self.free
        );
        self.free.clear();
    }

    /// Blocks that have at least this many free slots, adjacent or not.
    pub fn units_with(&self, slots: usize) -> impl Iterator<Item = u32> {
        (0..).zip(&self.free).filter(move |(_, free)| usize::from(**free) >= slots).map(|(unit, _)| unit)
    }

    /// Adds an entry. False if the name is taken.
    #[must_use]
    pub fn insert(&mut self, name: &[u8], entry: NameTarget) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        self.free[entry.place.0 as usize] -= slots_for(name) as u16;
        let other = self.by_cookie.insert(cookie(entry.place), name.into());
        assert_eq!(other, None, "{entry:?} takes the place of another entry");
        self.by_name.insert(name.into(), entry);
        self.assert_invariants();
        true
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<NameTarget> {
        let entry = self.by_name.remove(name)?;
        let removed = self.by_cookie.remove(&cookie(entry.place));
        assert_eq!(removed.as_deref(), Some(name), "{entry:?} is in the place of another entry");
        let free = &mut self.free[entry.place.0 as usize];
        *free += slots_for(name) as u16;
        assert!(usize::from(*free) < SLOTS, "{free} slots are free in the block of {entry:?}");
        self.assert_invariants();
        Some(entry)
    }

    /// The entry of that name now names another file.
    pub fn replace(&mut self, name: &[u8], file: FileId, kind: FileKind) {
        let entry = self.by_name.get_mut(name).expect("the name is in the folder");
        (entry.file, entry.kind) = (file, kind);
    }

    /// The entries after a cookie, with their cookies.
    pub fn after(&self, after: u64) -> impl Iterator<Item = (u64, &[u8], NameTarget)> {
        let entries = self.by_cookie.range(after.saturating_add(1)..);
        entries.map(|(cookie, name)| (*cookie, &name[..], self.by_name[name]))
    }
}

/// Where reading continues after an entry: its place, counted from 1.
fn cookie((unit, slot): (u32, usize)) -> u64 {
    u64::from(unit) * SLOTS as u64 + slot as u64
}
