//! Lists of what `fs_write` wrote to each file, in non-volatile memory (Jin's thesis, section 4.2.2).
//!
//! A file system writes data with `fs_write` and defers its index: after a cut, the file's list says which unit holds
//! which part of the file. An entry is added when its data are durable. It stays until its list is cleared, or until its
//! unit is written by another `fs_write`, which moves it to the end of that file's list. Nothing else touches it: a list
//! says what `fs_write` wrote, not what a unit holds now.
//!
//! The lists are part of the drive, although only some file systems use them: hosts reach them by commands, they become durable
//! after the data that they name, and recovery reads them before a host can ask.
//!
//! | where | words of 8 bytes |
//! |---|---|
//! | first | 1 while all lists are being cleared, else 0 |
//! | then, for each file | its number and the first unit of its list; 0 if free |
//! | then, for each unit | its offset in the file, and the next unit of the list |
//!
//! A word is stored atomically, and stores follow each other. So every change takes effect with one word:
//!
//! - **Appending**: the units' own words are linked to each other first, and then the last word of the list, or the file's,
//!   names the first of them (hazard 24 of docs/internals/hazards.md). All of them are in the list, or none. Units that are already
//!   in a list leave it first, since their data are already new.
//! - **Clearing a list**: the file's word.
//! - **Clearing all**: the first word. Then the files' words are cleared; after a cut, recovery finishes this (hazard
//!   17).

use std::collections::BTreeMap;

use tantalum_canaries::guard;
use tantalum_nand::{Nand, NandError, Nanoseconds, WORD_BYTES};

use crate::error::{Damage, FtlError};
use crate::types::{FileEntry, FileId, HashMap, Lpn};

/// Where the lists are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListsPlan {
    /// The first byte.
    pub at: u64,
    /// Files that may have a list.
    pub files: u32,
    /// Units of the drive.
    pub units: u32,
}

/// Why an `fs_write` is refused. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListRefusal {
    /// The drive has no lists.
    #[error("this drive keeps no lists of files: its profile has no nvm.files")]
    NoLists,
    /// Not a valid file number.
    #[error("0 is not a file's number; files are numbered from 1")]
    NoFile,
    /// The file would be too long.
    #[error("{units} units at offset {offset} end beyond the largest file, of 4294967295 units")]
    Offset {
        /// Where in the file.
        offset: u32,
        /// How many units.
        units: u32,
    },
    /// Too many files have lists.
    #[error("{limit} files have lists, as many as the drive keeps; clear one")]
    TooManyFiles {
        /// The limit.
        limit: u32,
    },
}

/// No unit.
const NONE: u32 = u32::MAX;

/// Value of the first word: all lists are being cleared.
const CLEARING: u64 = 1;

impl ListsPlan {
    /// Bytes of the lists of a drive.
    pub fn bytes(files: u32, units: u32) -> u64 {
        (1 + u64::from(files) + u64::from(units)) * WORD_BYTES
    }

    fn file_at(&self, slot: u32) -> u64 {
        self.at + (1 + u64::from(slot)) * WORD_BYTES
    }

    fn unit_at(&self, unit: u32) -> u64 {
        self.at + (1 + u64::from(self.files) + u64::from(unit)) * WORD_BYTES
    }
}

fn word(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

/// A list, as DRAM has it.
#[derive(Clone, Copy, Debug)]
struct List {
    slot: u32,
    first: u32,
    last: u32,
    units: u32,
}

/// An entry, as DRAM has it.
#[derive(Clone, Copy, Debug)]
struct Entry {
    file: FileId,
    offset: u32,
    previous: u32,
    next: u32,
}

/// The lists of a running drive: a copy of what memory has, with back links from each entry.
#[derive(Clone, Debug)]
pub(crate) struct FileLists {
    plan: ListsPlan,
    lists: BTreeMap<FileId, List>,
    entries: HashMap<u32, Entry>,
    free: Vec<u32>,
}

/// Words to be stored, by place.
pub(crate) type Words = BTreeMap<u64, u64>;

impl FileLists {
    /// Files that may have a list.
    pub fn limit(&self) -> u32 {
        self.plan.files
    }

    /// Files that have one.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Without any list, as on a new drive.
    pub fn empty(plan: ListsPlan) -> FileLists {
        let free = (0..plan.files).rev().collect();
        FileLists { plan, lists: BTreeMap::new(), entries: HashMap::default(), free }
    }

    /// Reads the lists. Returns them with the time at which that is done. A clearing that a cut interrupted is
    /// finished.
    pub fn read(
        nand: &mut Nand,
        plan: ListsPlan,
        at_ns: Nanoseconds,
    ) -> Result<(FileLists, Nanoseconds), FtlError> {
        let mut lists = FileLists::empty(plan);
        let mut head = vec![0; (1 + plan.files as usize) * WORD_BYTES as usize];
        let mut done_ns = nand.nvm_load(plan.at, &mut head, at_ns)?;
        let words: Vec<u64> = head.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        if words[0] == CLEARING {
            let slots = (0..plan.files).zip(&words[1..]).filter(|(_, word)| **word != 0);
            lists.end_clearing(nand, slots.map(|(slot, _)| slot), done_ns)?;
            return Ok((lists, nand.nvm_done_ns()));
        }
        lists.free.clear();
        for (slot, &word) in (0..plan.files).zip(&words[1..]).rev() {
            let (file, first) = halves(word);
            match file {
                0 => lists.free.push(slot),
                _ => done_ns = lists.read_list(nand, FileId(file), slot, first, done_ns)?,
            }
        }
        Ok((lists, done_ns))
    }

    fn read_list(
        &mut self,
        nand: &Nand,
        file: FileId,
        slot: u32,
        first: u32,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let damaged = || FtlError::from(Damage::FileList { file });
        let (mut previous, mut unit, mut units, mut done_ns) = (NONE, first, 0, at_ns);
        while unit != NONE || units == 0 {
            if unit >= self.plan.units {
                return Err(damaged());
            }
            let mut bytes = [0; WORD_BYTES as usize];
            done_ns = nand.nvm_load(self.plan.unit_at(unit), &mut bytes, done_ns)?;
            let (offset, next) = halves(u64::from_le_bytes(bytes));
            if self.entries.insert(unit, Entry { file, offset, previous, next }).is_some() {
                return Err(damaged());
            }
            (previous, unit) = (unit, next);
            units += 1;
        }
        match self.lists.insert(file, List { slot, first, last: previous, units }) {
            None => Ok(done_ns),
            Some(_) => Err(damaged()),
        }
    }

    /// The files that have lists, in the order of their numbers.
    pub fn files(&self) -> impl Iterator<Item = FileId> {
        self.lists.keys().copied()
    }

    /// A file's list, in the order of appending; empty if it has none.
    pub fn list(&self, file: FileId) -> impl Iterator<Item = FileEntry> {
        let mut unit = self.lists.get(&file).map_or(NONE, |list| list.first);
        std::iter::from_fn(move || {
            let Entry { offset, next, .. } = *self.entries.get(&unit)?;
            let lpn = Lpn(std::mem::replace(&mut unit, next));
            Some(FileEntry { lpn, offset })
        })
    }

    /// Entries of all lists.
    pub fn units(&self) -> usize {
        self.entries.len()
    }

    /// Whether units can be appended.
    pub fn check(&self, file: FileId, offset: u32, units: u32) -> Result<(), ListRefusal> {
        if file.0 == 0 {
            return Err(ListRefusal::NoFile);
        }
        if offset.checked_add(units).is_none() {
            return Err(ListRefusal::Offset { offset, units });
        }
        if self.free.is_empty() && !self.lists.contains_key(&file) {
            return Err(ListRefusal::TooManyFiles { limit: self.plan.files });
        }
        Ok(())
    }

    /// Takes a unit out of the list that it is in, if any.
    fn unlink(&mut self, unit: u32, words: &mut Words) {
        let Some(Entry { file, previous, next, .. }) = self.entries.remove(&unit) else { return };
        let list = self.lists.get_mut(&file).expect("an entry is in a list");
        list.units -= 1;
        if next == NONE {
            list.last = previous;
        } else {
            self.entries.get_mut(&next).expect("it follows").previous = previous;
        }
        if previous != NONE {
            let before = self.entries.get_mut(&previous).expect("it is before");
            before.next = next;
            words.insert(self.plan.unit_at(previous), word(before.offset, next));
        } else if next != NONE {
            list.first = next;
            words.insert(self.plan.file_at(list.slot), word(file.0, next));
        } else {
            let List { slot, units, .. } = self.lists.remove(&file).expect("it was there");
            debug_assert_eq!(units, 0, "the list of file {} lost its last entry", file.0);
            self.free.push(slot);
            words.insert(self.plan.file_at(slot), 0);
        }
    }

    /// Puts units, which are in no list, at the end of a file's list. Returns their own words, and the one that links
    /// them.
    fn link(&mut self, file: FileId, first: u32, units: u32, offset: u32) -> (Words, Words) {
        debug_assert_ne!(units, 0, "no unit is linked to the list of file {}", file.0);
        let mut own = Words::new();
        let end = first + units;
        let before = self.lists.get(&file).map_or(NONE, |list| list.last);
        for unit in first..end {
            let offset = offset + (unit - first);
            let next = if unit + 1 < end { unit + 1 } else { NONE };
            let previous = if unit == first { before } else { unit - 1 };
            self.entries.insert(unit, Entry { file, offset, previous, next });
            own.insert(self.plan.unit_at(unit), word(offset, next));
        }
        let last = end - 1;
        let linking = match self.lists.get_mut(&file) {
            Some(list) => {
                (list.last, list.units) = (last, list.units + units);
                let tail = self.entries.get_mut(&before).expect("a list has a last entry");
                tail.next = first;
                (self.plan.unit_at(before), word(tail.offset, first))
            }
            None => {
                let slot = self.free.pop().expect("it was checked that there is one");
                self.lists.insert(file, List { slot, first, last, units });
                (self.plan.file_at(slot), word(file.0, first))
            }
        };
        (own, Words::from([linking]))
    }

    /// Appends units whose data are durable at `at_ns`. Returns when they are in the list.
    pub fn append(
        &mut self,
        nand: &mut Nand,
        file: FileId,
        first: Lpn,
        units: u32,
        offset: u32,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        let mut unlinked = Words::new();
        (first.0..first.0 + units).for_each(|unit| self.unlink(unit, &mut unlinked));
        let (own, linking) = self.link(file, first.0, units, offset);
        let mut done_ns = at_ns;
        if !unlinked.is_empty() {
            // the list that a unit was in must not lead into the new one
            done_ns = store(nand, &unlinked, done_ns)?;
        }
        guard!(ListLinkedEarly(nand, own, linking, done_ns), {
            done_ns = store(nand, &own, done_ns)?;
            store(nand, &linking, done_ns)
        })
    }

    /// Clears a file's list.
    pub fn clear(
        &mut self,
        nand: &mut Nand,
        file: FileId,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, NandError> {
        let Some(list) = self.lists.remove(&file) else {
            // what cleared it may still be on its way
            return Ok(at_ns.max(nand.nvm_done_ns()));
        };
        let (mut unit, mut cleared) = (list.first, 0);
        while let Some(entry) = self.entries.remove(&unit) {
            debug_assert_eq!(entry.file, file, "unit {unit} is in the list of another file");
            (unit, cleared) = (entry.next, cleared + 1);
        }
        debug_assert_eq!(cleared, list.units, "entries in the list of file {}", file.0);
        self.free.push(list.slot);
        store(nand, &Words::from([(self.plan.file_at(list.slot), 0)]), at_ns)
    }

    /// Clears all lists.
    pub fn clear_all(&mut self, nand: &mut Nand, at_ns: Nanoseconds) -> Result<Nanoseconds, NandError> {
        if self.lists.is_empty() {
            return Ok(at_ns.max(nand.nvm_done_ns()));
        }
        let slots: Vec<u32> = std::mem::take(&mut self.lists).into_values().map(|list| list.slot).collect();
        self.entries.clear();
        self.free.extend(&slots);
        debug_assert_eq!(self.free.len(), self.plan.files as usize, "places for lists once all are cleared");
        let files = slots.iter().map(|slot| self.plan.file_at(*slot));
        guard!(ListsClearedInParts(nand, files, at_ns), {
            let done_ns = store(nand, &Words::from([(self.plan.at, CLEARING)]), at_ns)?;
            self.end_clearing(nand, slots.into_iter(), done_ns)?;
            Ok(done_ns)
        })
    }

    /// Clears the words of files, after the first word says that all are cleared.
    fn end_clearing(
        &self,
        nand: &mut Nand,
        slots: impl Iterator<Item = u32>,
        at_ns: Nanoseconds,
    ) -> Result<(), NandError> {
        let cleared: Words = slots.map(|slot| (self.plan.file_at(slot), 0)).collect();
        let cleared_ns = store(nand, &cleared, at_ns)?;
        store(nand, &Words::from([(self.plan.at, 0)]), cleared_ns).map(drop)
    }
}

pub(crate) fn store(nand: &mut Nand, words: &Words, at_ns: Nanoseconds) -> Result<Nanoseconds, NandError> {
    let bytes: Vec<(u64, [u8; 8])> = words.iter().map(|(at, word)| (*at, word.to_le_bytes())).collect();
    let parts: Vec<(u64, &[u8])> = bytes.iter().map(|(at, word)| (*at, &word[..])).collect();
    nand.nvm_store(&parts, at_ns)
}

#[cfg(test)]
#[path = "file_lists_tests.rs"]
mod tests;
