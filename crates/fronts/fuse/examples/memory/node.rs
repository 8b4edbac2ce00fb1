//! A file of a file system in memory.

use std::collections::BTreeMap;
use std::ops::Range;

use tantalum::UNIT_BYTES;
use tantalum_filesystem::{Errno, FileId, FileKind, Metadata, NewFile, Outcome};

const UNIT: u64 = UNIT_BYTES as u64;

/// The largest file.
const MOST_FILE_BYTES: u64 = 1 << 40;

/// A file of any kind.
pub struct Node {
    pub metadata: Metadata,
    /// The written contents of a file.
    pub units: BTreeMap<u64, Box<[u8; UNIT_BYTES]>>,
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// The entries of a folder, by cookie.
    pub entries: BTreeMap<u64, Entry>,
    /// The folder that contains a folder.
    pub parent: FileId,
    pub opens: u32,
}

/// A name in a folder.
pub struct Entry {
    pub name: Vec<u8>,
    pub file: FileId,
}

impl Node {
    pub fn new(new: &NewFile, parent: FileId) -> Node {
        Node {
            // its names are counted as it gets them
            metadata: Metadata { links: 0, ..Metadata::of_new(new) },
            units: BTreeMap::new(),
            target: Vec::new(),
            entries: BTreeMap::new(),
            parent,
            opens: 0,
        }
    }

    pub fn is_folder(&self) -> bool {
        self.metadata.kind == FileKind::Folder
    }

    /// Units that were never written read as zeros, and so does everything after the end of the last.
    pub fn resize(&mut self, size: u64) -> Outcome<()> {
        if size > MOST_FILE_BYTES {
            return Err(Errno::EFBIG);
        }
        self.units.split_off(&size.div_ceil(UNIT));
        if let Some(last) = self.units.get_mut(&(size / UNIT)) {
            last[(size % UNIT) as usize..].fill(0);
        }
        self.metadata.size = size;
        self.metadata.units = self.units.len() as u64;
        Ok(())
    }

    /// Returns the number of bytes.
    pub fn read(&self, offset: u64, data: &mut [u8]) -> usize {
        let bytes = self.metadata.size.saturating_sub(offset).min(data.len() as u64) as usize;
        for (unit, within, place) in parts(offset, bytes) {
            match self.units.get(&unit) {
                Some(held) => data[place].copy_from_slice(&held[within]),
                None => data[place].fill(0),
            }
        }
        bytes
    }

    /// Takes no more than `free_units` that it did not have.
    pub fn write(&mut self, offset: u64, data: &[u8], free_units: u64) -> Outcome<()> {
        let end = offset.checked_add(data.len() as u64).ok_or(Errno::EFBIG)?;
        let new_units = parts(offset, data.len()).filter(|(unit, ..)| !self.units.contains_key(unit));
        if new_units.count() as u64 > free_units {
            return Err(Errno::ENOSPC);
        }
        self.resize(self.metadata.size.max(end))?;
        for (unit, within, place) in parts(offset, data.len()) {
            let held = self.units.entry(unit).or_insert_with(|| Box::new([0; UNIT_BYTES]));
            held[within].copy_from_slice(&data[place]);
        }
        self.metadata.units = self.units.len() as u64;
        Ok(())
    }
}

/// The parts of a range, unit by unit: the unit, where in it, and where in the range.
fn parts(offset: u64, bytes: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let end = offset + bytes as u64;
    (offset / UNIT..end.div_ceil(UNIT)).map(move |unit| {
        let (from, to) = (offset.max(unit * UNIT), end.min((unit + 1) * UNIT));
        let place = |start: u64| (from - start) as usize..(to - start) as usize;
        (unit, place(unit * UNIT), place(offset))
    })
}
