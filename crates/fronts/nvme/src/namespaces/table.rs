//! The table of block namespaces: which units each has, its format, and to which hosts it is attached.

use std::ops::Range;

use tantalum::UNIT_BYTES;

use super::BLOCK_NAMESPACE;
use super::handles::{DriveHandles, Handles};
use crate::blocks::{BlockSpace, SECTOR_BYTES};
use crate::failure::Failure;

/// Maximum number of block namespaces.
pub const SLOTS: usize = 32;
/// Hosts of which a namespace remembers that it is attached, or not.
pub const HOSTS: usize = 16;

/// Bytes of a block by format (`LBAF`).
pub const FORMATS: [u32; 2] = [4096, 512];

/// A host's identifier.
pub type HostId = [u8; 16];

/// What is still to be done with a namespace, also after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pending {
    /// Nothing.
    #[default]
    Nothing,
    /// Its units are deallocated, and it is gone.
    Delete,
    /// Its units are deallocated, and it has blocks of this format; with an erase of all that is old on flash.
    Format {
        /// The index in [`FORMATS`].
        format: u8,
        /// Whether old data are erased.
        erases: bool,
    },
}

/// The hosts to whose controllers a namespace is attached, also to those that they create later.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attached {
    /// Whether it is attached to hosts that are not listed.
    pub others: bool,
    /// For these it is the other way round; at most 16.
    pub except: Vec<HostId>,
}

/// A block namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number (`NSID`).
    pub number: u32,
    /// The first unit of the drive that it has.
    pub first: u32,
    /// How many.
    pub units: u32,
    /// The index of its format in [`FORMATS`].
    pub format: u8,
    /// Whether several controllers may have it at once (`NMIC`).
    pub is_shared: bool,
    /// The number of its creation, which distinguishes it from others that had its number; 0 for what a drive begins with.
    pub made: u32,
    /// Where it is attached.
    pub attached: Attached,
    /// Its reclaim unit handles.
    pub handles: Handles,
    /// What is still to be done with it.
    pub pending: Pending,
}

/// What a host asks of a new namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewNamespace {
    /// Blocks (`NSZE`).
    pub blocks: u64,
    /// The index of its format in [`FORMATS`].
    pub format: u8,
    /// Whether several controllers may have it at once.
    pub is_shared: bool,
    /// The drive's reclaim unit handles by placement handle; without, the drive chooses one if it has any.
    pub handles: Option<Vec<u16>>,
}

/// What became of the last Sanitize.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SanitizeState {
    /// There was none.
    #[default]
    Never,
    /// It is under way: nothing else is done with the drive.
    Running,
    /// It is complete.
    Done,
    /// It has failed: old data may be left, and hosts get at nothing.
    Failed,
}

/// The last Sanitize of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sanitize {
    /// What became of it.
    pub state: SanitizeState,
    /// Its dword 10.
    pub dword: u32,
}

impl Sanitize {
    /// Refuses what is not done during a Sanitize, nor after one that failed.
    pub fn check(&self) -> Result<(), Failure> {
        match self.state {
            SanitizeState::Running => Err(Failure::SANITIZE_IN_PROGRESS),
            SanitizeState::Failed => Err(Failure::SANITIZE_FAILED),
            SanitizeState::Never | SanitizeState::Done => Ok(()),
        }
    }
}

/// The block namespaces of a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Units of the drive.
    pub drive_units: u32,
    /// Namespaces created so far.
    pub made: u32,
    /// The last Sanitize.
    pub sanitize: Sanitize,
    /// The drive's reclaim unit handles.
    pub handles: DriveHandles,
    slots: [Option<Entry>; SLOTS],
}

impl Attached {
    /// Whether a host has it.
    pub fn has(&self, host: &HostId) -> bool {
        self.except.contains(host) != self.others
    }

    /// Attaches or detaches it. False if there is no place to remember that.
    pub fn set(&mut self, host: &HostId, is_attached: bool) -> bool {
        if self.has(host) == is_attached {
            return true;
        }
        match self.except.iter().position(|listed| listed == host) {
            Some(at) => drop(self.except.remove(at)),
            None if self.except.len() < HOSTS => self.except.push(*host),
            None => return false,
        }
        true
    }
}

impl Entry {
    /// Its blocks.
    pub fn space(&self) -> BlockSpace {
        BlockSpace::within(FORMATS[usize::from(self.format)], self.first, self.units)
    }

    /// The drive's sectors of 512 bytes that it has.
    pub fn sectors(&self) -> Range<u64> {
        let per_unit = (UNIT_BYTES / SECTOR_BYTES) as u64;
        u64::from(self.first) * per_unit..(u64::from(self.first) + u64::from(self.units)) * per_unit
    }

    /// Whether commands may use it.
    pub fn is_usable(&self) -> bool {
        self.pending == Pending::Nothing
    }

    /// Whether old data are to be erased from flash.
    pub fn erases(&self) -> bool {
        matches!(self.pending, Pending::Format { erases: true, .. })
    }

    /// What distinguishes it from every other namespace of the drive, also from earlier ones with its number.
    pub fn identity(&self) -> u64 {
        u64::from(self.made) << 32 | u64::from(self.number)
    }
}

impl Table {
    /// Namespace 1 has everything.
    pub fn undivided(drive_units: u32, format: u8) -> Table {
        let mut slots = [const { None }; SLOTS];
        slots[0] = Some(Entry {
            number: BLOCK_NAMESPACE,
            first: 0,
            units: drive_units,
            format,
            is_shared: true,
            made: 0,
            attached: Attached { others: true, except: Vec::new() },
            handles: Handles::default(),
            pending: Pending::Nothing,
        });
        Table { slots, ..Table::empty(drive_units, 0) }
    }

    /// A table without namespaces.
    pub fn empty(drive_units: u32, made: u32) -> Table {
        let (sanitize, handles) = (Sanitize::default(), DriveHandles::new(0));
        Table { drive_units, made, sanitize, handles, slots: [const { None }; SLOTS] }
    }

    /// All entries with their slots.
    pub fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        self.slots.iter().enumerate().filter_map(|(slot, entry)| Some((slot, entry.as_ref()?)))
    }

    /// The entry of a slot.
    pub fn entry(&self, slot: usize) -> Option<&Entry> {
        self.slots.get(slot)?.as_ref()
    }

    /// The entry of a slot, to change it.
    pub fn entry_mut(&mut self, slot: usize) -> Option<&mut Entry> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Changes each entry.
    pub fn for_each(&mut self, change: impl Fn(&mut Entry)) {
        self.slots.iter_mut().flatten().for_each(change);
    }

    /// Puts an entry into a slot, or empties it.
    pub fn set(&mut self, slot: usize, entry: Option<Entry>) {
        self.slots[slot] = entry;
    }

    /// The slot and entry of the namespace with this number that nobody is deleting.
    pub fn find(&self, number: u32) -> Option<(usize, &Entry)> {
        self.entries().find(|(_, entry)| entry.number == number && entry.pending != Pending::Delete)
    }

    /// The largest number of units that a new namespace can have: it has them in one piece.
    pub fn largest_free(&self) -> u32 {
        self.gaps().into_iter().map(|(_, units)| units).max().unwrap_or(0)
    }

    /// Units that no namespace has.
    pub fn free(&self) -> u32 {
        self.gaps().into_iter().map(|(_, units)| units).sum()
    }

    /// Adds a namespace with this number. Returns its slot.
    ///
    /// # Errors
    /// A size of nothing, an unknown format, no slot, handles that it cannot have, or no piece that is large enough.
    pub fn add(&mut self, new: &NewNamespace, number: u32) -> Result<usize, Failure> {
        let block_bytes = FORMATS.get(usize::from(new.format)).ok_or(Failure::INVALID_FORMAT)?;
        let bytes = u128::from(new.blocks) * u128::from(*block_bytes);
        let units = bytes.div_ceil(UNIT_BYTES as u128);
        if units == 0 || !bytes.is_multiple_of(UNIT_BYTES as u128) {
            return Err(Failure::INVALID_FIELD);
        }
        let slot = self.slots.iter().position(Option::is_none).ok_or(Failure::NO_NAMESPACE_ID)?;
        let handles = self.handles_for(new.handles.as_deref(), new.format)?;
        let fitting = self.gaps().into_iter().filter(|(_, free)| u128::from(*free) >= units);
        let (first, _) = fitting.min_by_key(|(_, free)| *free).ok_or(Failure::INSUFFICIENT_CAPACITY)?;
        // one more would be the number of none
        let made = self.made.checked_add(1).filter(|made| *made < u32::MAX);
        self.made = made.ok_or(Failure::NO_NAMESPACE_ID)?;
        self.slots[slot] = Some(Entry {
            number,
            first,
            units: units as u32,
            format: new.format,
            is_shared: new.is_shared,
            made: self.made,
            attached: Attached::default(),
            handles,
            pending: Pending::Nothing,
        });
        Ok(slot)
    }

    /// Pieces that no namespace has: their first unit, and how many.
    fn gaps(&self) -> Vec<(u32, u32)> {
        let mut used: Vec<(u32, u32)> = self.entries().map(|(_, entry)| (entry.first, entry.units)).collect();
        used.sort_unstable();
        let (mut gaps, mut from) = (Vec::new(), 0);
        for (first, units) in used.into_iter().chain([(self.drive_units, 0)]) {
            if first > from {
                gaps.push((from, first - from));
            }
            from = first + units;
        }
        gaps
    }

    /// Whether a drive can have it: no unit belongs to two namespaces, and no number to two.
    pub fn is_sound(&self) -> bool {
        let mut used: Vec<(u32, u32)> = self.entries().map(|(_, entry)| (entry.first, entry.units)).collect();
        used.sort_unstable();
        let mut from = 0_u64;
        let is_apart = used.iter().all(|&(first, units)| {
            let follows = u64::from(first) >= from && units > 0;
            from = u64::from(first) + u64::from(units);
            follows
        });
        let is_once = |number: u32| self.entries().filter(|(_, entry)| entry.number == number).count() == 1;
        let is_possible = |entry: &Entry| {
            let format = match entry.pending {
                Pending::Format { format, .. } => format.max(entry.format),
                Pending::Nothing | Pending::Delete => entry.format,
            };
            usize::from(format) < FORMATS.len() && entry.number != 0 && is_once(entry.number)
        };
        let is_counted = self.made < u32::MAX && self.entries().all(|(_, entry)| entry.made <= self.made);
        is_apart
            && is_counted
            && self.has_sound_handles()
            && from <= self.drive_units.into()
            && self.entries().all(|(_, entry)| is_possible(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn new(units: u64) -> NewNamespace {
        NewNamespace { blocks: units, format: 0, is_shared: true, handles: None }
    }

    #[test]
    fn a_new_namespace_gets_the_smallest_piece_that_is_large_enough() {
        let mut table = Table::empty(100, 0);
        let slots: Vec<usize> = [10, 30, 10, 20, 30]
            .map(|units| table.add(&new(units), units as u32 + table.made).unwrap())
            .into();
        assert_eq!((table.largest_free(), table.made), (0, 5));
        assert_eq!(table.add(&new(1), 99), Err(Failure::INSUFFICIENT_CAPACITY));
        table.set(slots[1], None);
        table.set(slots[3], None);
        assert_eq!(table.largest_free(), 30, "in one piece");
        let slot = table.add(&new(15), 7).unwrap();
        assert_eq!(table.entry(slot).map(|entry| (entry.first, entry.units, entry.made)), Some((50, 15, 6)));
        assert_eq!(table.add(&new(31), 8), Err(Failure::INSUFFICIENT_CAPACITY));
        assert!(table.is_sound());
        let blocks = |blocks, format| NewNamespace { blocks, format, is_shared: false, handles: None };
        assert_eq!(table.add(&blocks(8, 2), 9), Err(Failure::INVALID_FORMAT));
        assert_eq!(table.add(&blocks(0, 0), 9), Err(Failure::INVALID_FIELD));
        assert_eq!(table.add(&blocks(12, 1), 9), Err(Failure::INVALID_FIELD), "half a unit");
        assert_eq!(table.add(&blocks(u64::MAX - 7, 1), 9), Err(Failure::INSUFFICIENT_CAPACITY));
        let small = table.add(&blocks(8, 1), 9).unwrap();
        assert_eq!(table.entry(small).unwrap().space().blocks, 8);
    }

    #[test]
    fn a_table_in_which_units_or_numbers_are_used_twice_is_not_sound() {
        let mut table = Table::empty(100, 0);
        table.add(&new(50), 1).unwrap();
        table.add(&new(50), 2).unwrap();
        assert!(table.is_sound());
        for change in [
            |entry: &mut Entry| entry.first = 49,
            |entry: &mut Entry| entry.units = 51,
            |entry: &mut Entry| entry.units = 0,
            |entry: &mut Entry| entry.number = 1,
            |entry: &mut Entry| entry.number = 0,
            |entry: &mut Entry| entry.format = 2,
            |entry: &mut Entry| entry.pending = Pending::Format { format: 2, erases: false },
            |entry: &mut Entry| entry.units = u32::MAX,
            |entry: &mut Entry| entry.made = 3,
        ] {
            let mut other = table.clone();
            change(other.entry_mut(1).unwrap());
            assert!(!other.is_sound(), "{:?}", other.entry(1));
        }
    }

    #[test]
    fn the_last_number_of_a_creation_is_not_given() {
        let mut table = Table::empty(100, u32::MAX - 2);
        assert!(table.add(&new(10), 1).is_ok() && table.is_sound());
        assert_eq!(table.add(&new(10), 2), Err(Failure::NO_NAMESPACE_ID));
        assert_eq!(table.made, u32::MAX - 1);
        table.made = u32::MAX;
        assert!(!table.is_sound());
    }

    #[test]
    fn attachments_are_remembered_for_as_many_hosts_as_there_is_room_for() {
        let mut attached = Attached { others: true, except: Vec::new() };
        assert!(attached.has(&[1; 16]) && attached.set(&[1; 16], true) && attached.except.is_empty());
        assert!(attached.set(&[1; 16], false) && !attached.has(&[1; 16]) && attached.has(&[2; 16]));
        assert!((2..=HOSTS as u8).all(|host| attached.set(&[host; 16], false)));
        assert!(!attached.set(&[99; 16], false) && attached.has(&[99; 16]));
        assert!(attached.set(&[1; 16], true) && attached.has(&[1; 16]) && attached.set(&[99; 16], false));
    }
}
