//! Which large values there are, storing new ones, and deleting the parts of those that are gone.
//!
//! The parts of a new value are put first, under a new number. The commit then puts the heads and descriptions with
//! everything else, and deletes the descriptions of the values that it replaces. So parts without a description are those
//! of a commit that did not take effect, or of a value that is gone. They are deleted at once, or, if a snapshot sees the value,
//! once it no longer does; and when the store is opened.

use rustc_hash::{FxHashMap, FxHashSet};
use tantalum::{Command, Device, Key, NamespaceId, Status};
use tantalum_canaries::guard;

use crate::catalog::Catalog;
use crate::error::Error;
use crate::failure::Failure;
use crate::large::{Large, PART_BYTES, Use, description_key, part_key};
use crate::record::{Name, Value};
use crate::record_store::{RecordStore, Records, kv_records};
use crate::tree::Numbers;

/// Deletes in one `put`.
const DELETED_AT_ONCE: usize = 1000;

/// The large values of a store.
#[derive(Debug)]
pub(crate) struct LargeValues {
    first: NamespaceId,
    /// Numbers for new ones, and as the drive has them. A number is never used twice: its description may be lost, and its head
    /// must not be taken for that of another value. Read when they are first needed.
    numbers: Option<(Numbers, Numbers)>,
    /// The last number in use when the store was opened.
    last: u64,
    /// Those that are there, by their heads.
    live: FxHashMap<Name, Large>,
    /// Keys of parts that are to be deleted, each value's with the `put` since which it is gone.
    gone: Vec<(u64, Vec<Key>)>,
}

/// What a commit changes among large values.
#[derive(Default)]
pub(crate) struct Change {
    /// With their heads. They have the names of these once it is known which records the commit puts.
    new: Vec<(Value, Large)>,
    old: Vec<Large>,
    /// The numbers as the drive then has them.
    numbers: Option<Numbers>,
}

impl LargeValues {
    /// Those of a new store.
    pub fn none(first: NamespaceId) -> LargeValues {
        LargeValues { first, numbers: None, last: 0, live: FxHashMap::default(), gone: Vec::new() }
    }

    /// Those on a drive; deletes what belongs to none of a named namespace.
    pub fn open(device: &mut Device, catalog: &Catalog) -> Result<LargeValues, Error> {
        let first = catalog.first;
        let mut keys = Vec::new();
        let at_ns = device.time_ns();
        let list = Command::KvList { namespace: first, from: None, keys: &mut keys, limit: usize::MAX };
        device.submit(list, at_ns)?;
        let mut values = LargeValues::none(first);
        let is_named = |namespace| catalog.names.values().any(|(named, _)| *named == namespace);
        let mut has_value = FxHashSet::default();
        let mut stale = Vec::new();
        for key in &keys {
            let Use::Description(number) = Use::of(key) else { continue };
            match described(device, first, number)? {
                Some(large) if is_named(large.name.0) => {
                    values.live.insert(large.name, large);
                    has_value.insert(number);
                }
                Some(_) => stale.push(*key),
                // the value is lost; the description stays, so that its head is not taken for a value
                None => {}
            }
        }
        for key in keys {
            match Use::of(&key) {
                Use::Part(number) if guard!(PartsLeft, !has_value.contains(&number)) => stale.push(key),
                Use::Part(number) | Use::Description(number) => values.last = values.last.max(number),
                Use::Other => {}
            }
        }
        for keys in stale.chunks(DELETED_AT_ONCE) {
            let at_ns = device.time_ns();
            device.submit(Command::KvPut { records: &kv_records(&deletes(first, keys)) }, at_ns)?;
        }
        Ok(values)
    }

    /// Whether one of these records is the head of a large value.
    pub fn concern(&self, records: &Records) -> bool {
        !self.live.is_empty() && records.iter().any(|(name, _)| self.live.contains_key(name))
    }

    /// Puts the parts of a value, if it is large; then it is replaced by its head.
    pub fn put_parts(
        &mut self,
        drive: &RecordStore,
        value: &mut Option<Value>,
        change: &mut Change,
    ) -> Result<(), Failure> {
        let Some(bytes) = value.as_ref().filter(|bytes| bytes.len() > PART_BYTES) else { return Ok(()) };
        let number = self.take_number(drive)?;
        let name = (self.first, description_key(number));
        let large = Large { name, number, bytes: bytes.len() as u64 };
        debug_assert!(
            self.live.values().all(|live| live.number != number),
            "number {number} is that of another large value: {:?}",
            self.live
        );
        assert_eq!(bytes.chunks(PART_BYTES).len(), large.parts() as usize, "parts of {large:?}");
        change.new.push((large.head(), large));
        for (part, bytes) in (0..).zip(bytes.chunks(PART_BYTES)) {
            drive.put_unseen(&vec![((self.first, part_key(number, part)), Some(bytes.into()))])?;
        }
        *value = change.new.last().map(|(head, _)| head.clone());
        Ok(())
    }

    /// What is to be put with records: descriptions of the values whose heads are among them, and deletes of those of the values
    /// that they replace.
    pub fn describe<'a>(
        &mut self,
        drive: &RecordStore,
        records: impl Iterator<Item = &'a (Name, Option<Value>)>,
        change: &mut Change,
    ) -> Result<Records, Failure> {
        let mut added = Records::new();
        if self.live.is_empty() && change.new.is_empty() {
            return Ok(added);
        }
        let heads = change.new.iter().enumerate().map(|(at, (head, _))| (head.as_ptr(), at));
        let heads: FxHashMap<*const u8, usize> = heads.collect();
        change.old.clear();
        for (name, value) in records {
            if let Some(old) = self.live.get(name) {
                added.push(((self.first, description_key(old.number)), None));
                change.old.push(*old);
            }
            // a value of the same bytes is no head
            let new = value.as_ref().and_then(|value| heads.get(&value.as_ptr()));
            if let Some((_, large)) = new.map(|at| &mut change.new[*at]) {
                large.name = *name;
                let description = ((self.first, description_key(large.number)), Some(large.description()));
                guard!(DescriptionApart(drive, description)?, added.push(description));
            }
        }
        if let Some((numbers, before)) = self.numbers {
            numbers.store(before, self.first, &mut added);
            change.numbers = Some(numbers);
        }
        Ok(added)
    }

    fn take_number(&mut self, drive: &RecordStore) -> Result<u64, Failure> {
        let (numbers, _) = match &mut self.numbers {
            Some(numbers) => numbers,
            none => {
                let read = match Numbers::read(drive, self.first) {
                    Err(failure) if failure.is_damage() => Numbers::after(self.last),
                    read => read?,
                };
                none.insert((read, read))
            }
        };
        Ok(numbers.take())
    }

    /// The commit took effect.
    pub fn committed(&mut self, drive: &RecordStore, change: Change) {
        if let (Some((_, stored)), Some(numbers)) = (&mut self.numbers, change.numbers) {
            assert!(numbers.follow(*stored), "numbers are {stored:?} and then {numbers:?}");
            *stored = numbers;
        }
        if !change.old.is_empty() {
            let puts = drive.stable().puts();
            for old in change.old {
                let was = self.live.remove(&old.name);
                assert_eq!(was, Some(old), "the large value that a commit replaces, by its head");
                self.gone.push((puts, keys_of(&old)));
            }
        }
        for (_, large) in change.new {
            let undescribed = (self.first, description_key(large.number));
            assert_ne!(large.name, undescribed, "a commit has put the head of {large:?} nowhere");
            let before = self.live.insert(large.name, large);
            assert_eq!(before, None, "two large values have one head, with {large:?}");
        }
        self.tidy(drive);
    }

    /// The commit was refused: its parts are deleted, now or when the store is opened.
    pub fn give_up(&mut self, drive: &RecordStore, change: Change) {
        self.gone.extend(change.new.iter().map(|(_, large)| (0, keys_of(large))));
        self.tidy(drive);
    }

    /// A namespace was deleted, for snapshots too.
    pub fn forget_namespace(&mut self, drive: &RecordStore, namespace: NamespaceId) {
        let gone = self.live.extract_if(|name, _| name.0 == namespace);
        let keys =
            |large: Large| keys_of(&large).into_iter().chain([description_key(large.number)]).collect();
        self.gone.extend(gone.map(|(_, large)| (0, keys(large))));
        self.tidy(drive);
    }

    /// Whether no key that is to be deleted is that of a value which is there.
    fn gone_are_dead(&self) -> bool {
        let live: FxHashSet<u64> = self.live.values().map(|large| large.number).collect();
        self.gone.iter().flat_map(|(_, keys)| keys).all(|key| match Use::of(key) {
            Use::Part(number) | Use::Description(number) => !live.contains(&number),
            Use::Other => false,
        })
    }

    /// Deletes the parts of values that are gone and that no snapshot sees.
    pub fn tidy(&mut self, drive: &RecordStore) {
        debug_assert!(self.gone_are_dead(), "parts of {:?} are to be deleted", self.live);
        let first = self.first;
        self.gone.retain_mut(|(since, keys)| {
            while !keys.is_empty() {
                let rest = keys.len().saturating_sub(DELETED_AT_ONCE);
                // what fails is tried again, at the latest when the store is opened
                match drive.put_if_not_seen(*since, &deletes(first, &keys[rest..])) {
                    Ok(true) => keys.truncate(rest),
                    Ok(false) | Err(_) => return true,
                }
            }
            false
        });
    }
}

fn keys_of(large: &Large) -> Vec<Key> {
    (0..large.parts()).map(|part| part_key(large.number, part)).collect()
}

fn deletes(first: NamespaceId, keys: &[Key]) -> Records {
    keys.iter().map(|key| ((first, *key), None)).collect()
}

/// The value of a description; `None` if it cannot be read.
fn described(device: &mut Device, first: NamespaceId, number: u64) -> Result<Option<Large>, Error> {
    let (key, mut value, at_ns) = (description_key(number), Vec::new(), device.time_ns());
    match device.submit(Command::KvGet { namespace: first, key, value: &mut value }, at_ns) {
        Ok(_) => Ok(Large::described(number, &value)),
        Err(Status::RecordUnreadable { .. }) => Ok(None),
        Err(status) => Err(status.into()),
    }
}
