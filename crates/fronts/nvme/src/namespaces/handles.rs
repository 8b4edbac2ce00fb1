//! The reclaim unit handles of block namespaces, on a drive that has some (Base 2.1, section 8.1.10; NVM 1.1, section 4.1.6).
//!
//! A namespace has a list of the drive's handles: the index in the list is the *placement handle* that its hosts name. A host gives the
//! list when it creates the namespace, or leaves the choice of one handle to the drive. Invariants:
//!
//! - a list has at least one handle, and none twice
//! - the drive has chosen at most one handle, which all namespaces share whose hosts left it the choice, and no other
//! - namespaces that share a handle have blocks of one format
//!
//! They are stored beside the table, in the same atomic step: a record of its own, so that a table of an image that is older than
//! handles is read as ever.

use tantalum::Handle;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::TableError;
use super::kept::Kept;
use super::table::{Entry, SLOTS, Table};
use crate::failure::Failure;

/// The most handles of a drive, and of a namespace.
const MOST: usize = Handle::MOST as usize;

/// The record beside the table.
pub(super) const HANDLES: Kept =
    Kept { key: b"handles", magic: *b"TANTHNDL", what: "the handles of its namespaces" };

/// The handles of a namespace.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Handles {
    /// By placement handle; empty on a drive without handles.
    list: Vec<Handle>,
    /// Whether the drive has chosen the only one.
    is_chosen: bool,
}

impl Handles {
    /// These, in this order, as a host asked.
    pub fn asked(list: Vec<Handle>) -> Handles {
        Handles { list, is_chosen: false }
    }

    /// One that the drive has chosen.
    pub fn chosen(handle: Handle) -> Handles {
        Handles { list: vec![handle], is_chosen: true }
    }

    /// By placement handle; empty on a drive without handles.
    pub fn list(&self) -> &[Handle] {
        &self.list
    }

    /// Whether the drive has chosen the only one.
    pub fn are_chosen(&self) -> bool {
        self.is_chosen
    }

    /// Whether one of them is also one of the others.
    fn meet(&self, others: &Handles) -> bool {
        self.list.iter().any(|handle| others.list.contains(handle))
    }

    /// Whether a drive with so many handles can have them.
    fn are_sound(&self, drive: u32) -> bool {
        let is_once = |(at, handle): (usize, &Handle)| !self.list[..at].contains(handle);
        let is_there = |handle: &Handle| u32::from(handle.0) < drive;
        let is_filled = self.list.is_empty() == (drive == 0);
        is_filled && self.list.iter().enumerate().all(is_once) && self.list.iter().all(is_there)
    }
}

/// What is known of the handles of the drive besides who has them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveHandles {
    /// How many the drive has; 0 for a drive without handles.
    pub count: u32,
    /// The events that are recorded of each, as bits.
    events: [u8; MOST],
}

impl DriveHandles {
    /// So many, of which no events are recorded.
    pub fn new(count: u32) -> DriveHandles {
        DriveHandles { count, events: [0; MOST] }
    }

    /// The events that are recorded of a handle, as bits.
    pub fn events(&self, handle: Handle) -> u8 {
        self.events.get(handle.index()).copied().unwrap_or(0)
    }

    /// Sets which events are recorded of a handle.
    pub fn set_events(&mut self, handle: Handle, events: u8) {
        self.events[handle.index()] = events;
    }

    /// Events of which at least one handle's are recorded, as bits.
    pub fn any_events(&self) -> u8 {
        self.events.iter().fold(0, |all, events| all | events)
    }
}

impl Table {
    /// The same on a drive with so many handles: the namespace that it begins with has all of them, and others that are there share
    /// one.
    #[must_use]
    pub fn with_handles(mut self, count: u32) -> Table {
        self.handles = DriveHandles::new(count);
        self.for_each(|entry| entry.handles = Handles::default());
        self.give_missing();
        self
    }

    /// Gives handles to namespaces of which nothing is stored.
    fn give_missing(&mut self) {
        let all = (0..self.handles.count as u8).map(Handle).collect();
        let is_first = |entry: &Entry| entry.made == 0;
        if self.handles.count > 0
            && self.entries().count() == 1
            && self.entries().any(|(_, entry)| is_first(entry))
        {
            let all = Handles::asked(all);
            return self.for_each(|entry| {
                if entry.handles.list.is_empty() {
                    entry.handles = all.clone()
                }
            });
        }
        for slot in 0..SLOTS {
            let first = || (self.handles.count > 0).then(|| Handles::asked(vec![Handle::DEFAULT]));
            let given = self.choose().or_else(first).unwrap_or_default();
            if let Some(entry) = self.entry_mut(slot).filter(|entry| entry.handles.list.is_empty()) {
                entry.handles = given;
            }
        }
    }

    /// The handles of a new namespace with this format, for which a host asks for these.
    ///
    /// # Errors
    /// [`Failure::PLACEMENT_HANDLES`] if the drive does not have them, if one is named twice, or if the drive has chosen one of them;
    /// also if it has none left to choose. [`Failure::INVALID_FORMAT`] if another namespace has one of them, and another format.
    pub(super) fn handles_for(&self, asked: Option<&[u16]>, format: u8) -> Result<Handles, Failure> {
        let handles = match asked {
            // the standard wants the field ignored
            _ if self.handles.count == 0 => Handles::default(),
            None => self.choose().ok_or(Failure::PLACEMENT_HANDLES)?,
            Some(asked) => {
                let handle = |number: &u16| u8::try_from(*number).map(Handle);
                let list = asked.iter().map(handle).collect::<Result<Vec<Handle>, _>>();
                let handles = Handles::asked(list.map_err(|_| Failure::PLACEMENT_HANDLES)?);
                let is_chosen = |entry: &Entry| entry.handles.is_chosen && entry.handles.meet(&handles);
                if !handles.are_sound(self.handles.count) || self.entries().any(|(_, entry)| is_chosen(entry))
                {
                    return Err(Failure::PLACEMENT_HANDLES);
                }
                handles
            }
        };
        match self.entries().any(|(_, entry)| entry.format != format && entry.handles.meet(&handles)) {
            true => Err(Failure::INVALID_FORMAT),
            false => Ok(handles),
        }
    }

    /// The handle that the drive has chosen for others, or else the first that no namespace has.
    fn choose(&self) -> Option<Handles> {
        let shared = self.entries().find(|(_, entry)| entry.handles.is_chosen);
        let has = |handle: &Handle| self.entries().any(|(_, entry)| entry.handles.list.contains(handle));
        let free = || (0..self.handles.count as u8).map(Handle).find(|handle| !has(handle));
        shared.map(|(_, entry)| entry.handles.clone()).or_else(|| free().map(Handles::chosen))
    }

    /// Refuses a new format of the namespaces that `is_named` names if another one shares a handle with one of them, and keeps another
    /// format.
    pub fn check_format(&self, format: u8, is_named: impl Fn(&Entry) -> bool) -> Result<(), Failure> {
        let keeps_other = |entry: &Entry| !is_named(entry) && entry.format != format;
        let mut others = self.entries().filter(|(_, entry)| keeps_other(entry));
        let shares = |other: &Entry| {
            self.entries().any(|(_, entry)| is_named(entry) && entry.handles.meet(&other.handles))
        };
        if others.any(|(_, other)| shares(other)) { Err(Failure::INVALID_FORMAT) } else { Ok(()) }
    }

    /// The number and the placement handle of the only namespace that has a handle; `None` if several have it, or none.
    pub fn only_with(&self, handle: Handle) -> Option<(u32, u16)> {
        let index = |entry: &Entry| entry.handles.list.iter().position(|other| *other == handle);
        let mut with = self.entries().filter_map(|(_, entry)| Some((entry.number, index(entry)? as u16)));
        let only = with.next();
        if with.next().is_some() { None } else { only }
    }

    /// Logical blocks of a unit of the namespaces that have a handle, all of which have blocks of one format; 0 if none has it.
    pub fn blocks_per_unit(&self, handle: Handle) -> u64 {
        let mut with = self.entries().filter(|(_, entry)| entry.handles.list.contains(&handle));
        with.next().map_or(0, |(_, entry)| entry.space().per_unit().into())
    }

    /// Whether the handles of all namespaces keep the invariants.
    pub(super) fn has_sound_handles(&self) -> bool {
        let entries = || self.entries().map(|(_, entry)| &entry.handles);
        let chosen = || entries().filter(|handles| handles.is_chosen);
        let is_apart = |handles: &Handles| handles.is_chosen || chosen().all(|other| !other.meet(handles));
        let is_one = chosen().all(|handles| Some(handles) == chosen().next() && handles.list.len() < 2);
        is_one && entries().all(|handles| handles.are_sound(self.handles.count) && is_apart(handles))
    }
}

/// The record's value, behind what precedes each.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Stored {
    count: U32,
    reserved: [u8; 12],
    events: [u8; MOST],
    entries: [StoredHandles; SLOTS],
}

/// The handles of the namespace in a slot; a list of nothing if there is none.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredHandles {
    /// Its number, and that of its creation. If the table has another one there, it was changed by a program that knows nothing of
    /// handles.
    number: U32,
    made: U32,
    handles: u8,
    is_chosen: u8,
    reserved: [u8; 6],
    list: [u8; MOST],
}

/// What is stored beside a table; nothing for a drive without handles.
pub(super) fn encode(table: &Table) -> Option<Vec<u8>> {
    if table.handles.count == 0 {
        return None;
    }
    let mut stored = Stored::new_zeroed();
    stored.count = table.handles.count.into();
    stored.events = table.handles.events;
    for (slot, Entry { number, made, handles, .. }) in table.entries() {
        let to = &mut stored.entries[slot];
        (to.number, to.made) = ((*number).into(), (*made).into());
        (to.handles, to.is_chosen) = (handles.list.len() as u8, handles.is_chosen.into());
        to.list.iter_mut().zip(&handles.list).for_each(|(to, handle)| *to = handle.0);
    }
    Some(HANDLES.seal(stored.as_bytes()))
}

/// Adds what was stored to the table beside which it was.
///
/// # Errors
/// [`TableError::Damaged`] for what is damaged, or of another drive.
pub(super) fn add(table: Table, sealed: &[u8]) -> Result<Table, TableError> {
    added(table, HANDLES.open(sealed)?).ok_or_else(|| HANDLES.damaged())
}

fn added(mut table: Table, value: &[u8]) -> Option<Table> {
    let stored =
        Stored::ref_from_bytes(value).ok().filter(|stored| stored.count.get() == table.handles.count)?;
    table.handles.events = stored.events;
    table.for_each(|entry| entry.handles = Handles::default());
    for (slot, stored) in stored.entries.iter().enumerate() {
        let list = stored.list.get(..usize::from(stored.handles))?;
        if let Some(entry) = table.entry_mut(slot)
            && (entry.number, entry.made) == (stored.number.get(), stored.made.get())
        {
            let list = list.iter().copied().map(Handle).collect();
            entry.handles = Handles { list, is_chosen: stored.is_chosen != 0 };
        }
    }
    table.give_missing();
    table.is_sound().then_some(table)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::namespaces::NewNamespace;

    fn new(format: u8, handles: Option<&[u16]>) -> NewNamespace {
        NewNamespace { blocks: 80, format, is_shared: true, handles: handles.map(<[u16]>::to_vec) }
    }

    fn handles(table: &Table, slot: usize) -> (Vec<u8>, bool) {
        let handles = &table.entry(slot).unwrap().handles;
        (handles.list().iter().map(|handle| handle.0).collect(), handles.are_chosen())
    }

    #[test]
    fn a_namespace_gets_the_handles_for_which_its_host_asks() {
        let undivided = Table::undivided(1000, 0).with_handles(3);
        assert_eq!(handles(&undivided, 0), (vec![0, 1, 2], false), "all of them, at the beginning");
        let mut table = Table::empty(1000, 0).with_handles(4);
        let mut add = |new: NewNamespace, number| table.add(&new, number).map(|slot| handles(&table, slot));
        for list in [&[4][..], &[0, 0], &[], &[1, 2, 1], &[256], &[u16::MAX]] {
            assert_eq!(add(new(0, Some(list)), 1), Err(Failure::PLACEMENT_HANDLES), "{list:?}");
        }
        assert_eq!(add(new(0, Some(&[3, 0])), 1), Ok((vec![3, 0], false)));
        assert_eq!(add(new(0, Some(&[0])), 2), Ok((vec![0], false)), "shared");
        assert_eq!(add(new(1, Some(&[0, 1])), 3), Err(Failure::INVALID_FORMAT), "of blocks of another size");
        assert_eq!(add(new(1, None), 3), Ok((vec![1], true)), "the first that nobody has");
        assert_eq!(add(new(1, None), 4), Ok((vec![1], true)), "the same again");
        assert_eq!(add(new(0, None), 5), Err(Failure::INVALID_FORMAT));
        assert_eq!(add(new(1, Some(&[2, 1])), 5), Err(Failure::PLACEMENT_HANDLES), "the drive has chosen it");
        assert_eq!(add(new(0, Some(&[2, 0, 3])), 5), Ok((vec![2, 0, 3], false)));
        assert!(table.is_sound());
        assert_eq!(
            [0, 1, 2, 3].map(|handle| table.only_with(Handle(handle))),
            [None, None, Some((5, 0)), None]
        );
        let of = |number: u32| move |entry: &Entry| number == entry.number;
        assert_eq!(table.check_format(1, of(1)), Err(Failure::INVALID_FORMAT), "namespace 2 keeps its own");
        assert_eq!((table.check_format(0, of(1)), table.check_format(1, |_| true)), (Ok(()), Ok(())));
        let mut full = Table::empty(1000, 0).with_handles(1);
        full.add(&new(0, Some(&[0])), 1).unwrap();
        assert_eq!(full.add(&new(0, None), 2), Err(Failure::PLACEMENT_HANDLES), "none is left to choose");
    }

    #[test]
    fn a_drive_without_handles_has_namespaces_without_handles() {
        let mut table = Table::empty(1000, 0);
        for (number, asked) in [(1, Some(&[0][..])), (2, Some(&[0, 0, 9])), (3, None)] {
            let slot = table.add(&new(0, asked), number).unwrap();
            assert_eq!(handles(&table, slot), (vec![], false), "{asked:?} is ignored");
        }
        table.add(&new(1, None), 4).unwrap();
        assert!(table.is_sound() && table.check_format(1, |entry| entry.number == 1).is_ok());
        assert_eq!(encode(&table), None);
    }

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!((size_of::<StoredHandles>(), offset_of!(StoredHandles, list)), (144, 16));
        let sealed = HANDLES.seal(Stored::new_zeroed().as_bytes()).len();
        let before = sealed - size_of::<Stored>();
        assert_eq!((sealed, before + offset_of!(Stored, entries)), (32 + 128 + 32 * 144, 160));
        assert_eq!(before + offset_of!(Stored, events), 32);
    }

    #[test]
    fn handles_are_read_as_they_were_written_and_no_others_are() {
        let mut table = Table::undivided(1000, 1).with_handles(5);
        table.entry_mut(0).unwrap().units = 400;
        table.entry_mut(0).unwrap().handles = Handles::asked(vec![Handle(4), Handle(1)]);
        table.add(&new(0, None), 5).unwrap();
        table.handles.set_events(Handle(4), 9);
        let bytes = encode(&table).unwrap();
        let mut bare = table.clone().with_handles(5);
        assert_eq!((handles(&bare, 0), handles(&bare, 1)), ((vec![0], true), (vec![0], true)));
        assert_eq!(add(bare.clone(), &bytes).as_ref(), Ok(&table));
        assert_eq!(add(bare.clone().with_handles(4), &bytes), Err(HANDLES.damaged()), "of another drive");
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(add(bare.clone(), &damaged), Err(HANDLES.damaged()), "byte {at}");
        }
        // a program that knows nothing of handles has replaced the second namespace
        bare.made += 1;
        bare.entry_mut(1).unwrap().made = bare.made;
        let changed = add(bare, &bytes).unwrap();
        assert_eq!((handles(&changed, 0), handles(&changed, 1)), ((vec![4, 1], false), (vec![0], true)));
        let all = |entry: &mut Entry| entry.handles = Handles::asked((0..5).map(Handle).collect());
        table.for_each(all);
        let mut bare = table.clone().with_handles(5);
        bare.made += 1;
        bare.entry_mut(1).unwrap().made = bare.made;
        let changed = add(bare, &encode(&table).unwrap()).unwrap();
        assert_eq!(handles(&changed, 1), (vec![0], false), "none is left to choose");
    }

    #[test]
    fn handles_that_a_drive_cannot_have_given_are_not_sound() {
        let mut table = Table::empty(1000, 0).with_handles(3);
        table.add(&new(0, Some(&[0, 1])), 1).unwrap();
        table.add(&new(0, None), 2).unwrap();
        assert!(table.is_sound());
        for list in [vec![], vec![0, 0], vec![3], vec![1, 2]] {
            let mut other = table.clone();
            other.entry_mut(0).unwrap().handles = Handles::asked(list.iter().copied().map(Handle).collect());
            assert!(!other.is_sound(), "{list:?}");
        }
        table.add(&new(0, None), 3).unwrap();
        table.entry_mut(2).unwrap().handles = Handles::chosen(Handle(0));
        assert!(!table.is_sound(), "two are chosen");
    }
}
