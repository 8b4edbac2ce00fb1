//! A folder in memory: its entries by name and in the order of their places.

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

    /// Forgets all blocks. There must be no entries.
    pub fn clear(&mut self) {
        assert!(self.is_empty(), "a folder with entries keeps its blocks");
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
        self.by_cookie.insert(cookie(entry.place), name.into());
        self.by_name.insert(name.into(), entry);
        true
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<NameTarget> {
        let entry = self.by_name.remove(name)?;
        self.by_cookie.remove(&cookie(entry.place));
        self.free[entry.place.0 as usize] += slots_for(name) as u16;
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
