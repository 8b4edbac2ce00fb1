//! The key-value namespaces that the clients share, and what they hold.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::{Command, Key, NamespaceId, Status};

use super::run::Run;
use crate::device::history::Stamp;
use crate::device::record_host::{FILLING_KEYS, KEYS, OWN, SHARED, key_of, value_of};
use crate::device::records::{Orders, RecordId, Thing};
use crate::device::stop::Stop;

/// What is kept of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Made {
    pub namespace: NamespaceId,
    /// Its logs when it was created.
    pub logs: u32,
}

/// What is known about the namespace of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum NamespaceState {
    There(Made),
    /// A command that creates it is in flight, with this many logs.
    Creating(u32),
    Missing,
}

/// Places for namespaces. Any client creates one that is missing, and now and then one is deleted.
#[derive(Clone, Debug)]
pub(super) struct Namespaces {
    /// The logs of each when it is created, 0 for the drive's own.
    logs: Vec<u32>,
    states: Vec<NamespaceState>,
    /// The former places of namespaces deleted since power came on.
    former: BTreeMap<NamespaceId, usize>,
    /// Whether the last one fills the drive.
    full: bool,
}

/// More keys than any namespace has.
pub(super) const LIST_LIMIT: usize = 2 * FILLING_KEYS as usize;

impl Namespaces {
    /// Places for namespaces that are not there yet.
    pub fn new(own_logs: bool, full: bool) -> Namespaces {
        let mut logs = if own_logs { OWN.to_vec() } else { SHARED.to_vec() };
        if full {
            logs.push(0);
        }
        Namespaces { states: vec![NamespaceState::Missing; logs.len()], logs, former: BTreeMap::new(), full }
    }

    /// The place of the namespace that fills the drive.
    pub fn filling(&self) -> Option<usize> {
        self.full.then(|| self.states.len() - 1)
    }

    /// How many keys the namespace of a place has.
    pub fn keys(&self, index: usize) -> u64 {
        if self.filling() == Some(index) { FILLING_KEYS } else { KEYS }
    }

    /// How many places there are.
    pub fn count(&self) -> usize {
        self.states.len()
    }

    /// The namespace of a place, if it is there.
    pub fn there(&self, index: usize) -> Option<Made> {
        if let NamespaceState::There(made) = self.states[index] { Some(made) } else { None }
    }

    /// A command creates the namespace of a place: with this many logs. None if one is in flight already.
    pub fn create(&mut self, index: usize) -> Option<u32> {
        if self.states[index] != NamespaceState::Missing {
            return None;
        }
        self.states[index] = NamespaceState::Creating(self.logs[index]);
        Some(self.logs[index])
    }

    /// It was created.
    pub fn created(&mut self, index: usize, made: Made) {
        self.states[index] = NamespaceState::There(made);
    }

    /// It was refused: the next attempt asks for no logs of its own.
    pub fn not_created(&mut self, index: usize) {
        (self.states[index], self.logs[index]) = (NamespaceState::Missing, 0);
    }

    /// A command deletes the namespace of a place.
    pub fn delete(&mut self, index: usize, made: Made) {
        self.states[index] = NamespaceState::Missing;
        self.former.insert(made.namespace, index);
    }

    /// The deletion of a place's namespace was refused.
    pub fn keep(&mut self, index: usize, made: Made) {
        self.states[index] = NamespaceState::There(made);
        self.former.remove(&made.namespace);
    }

    /// The place of a namespace.
    fn index_of(&self, namespace: NamespaceId) -> Option<usize> {
        let is = |state: &NamespaceState| matches!(state, NamespaceState::There(made) if made.namespace == namespace);
        self.states.iter().position(is)
    }

    /// After a cut: the places whose namespaces commands in flight may have created, with their logs.
    fn take_creating(&mut self) -> Vec<(usize, u32)> {
        let mut creating = Vec::new();
        for (number, state) in self.states.iter_mut().enumerate() {
            if let NamespaceState::Creating(logs) = *state {
                creating.push((number, logs));
                *state = NamespaceState::Missing;
            }
        }
        creating
    }
}

impl Run {
    /// After a cut: everything has an allowed value, and every put happened completely or not at all. Returns what was
    /// found, and which commands each thing may show.
    pub fn compare_records(&mut self) -> Result<(BTreeMap<Thing, Stamp>, Orders), Stop> {
        let cut = self.tick;
        let mut found = BTreeMap::new();
        self.compare_namespaces(&mut found)?;
        for thing in self.records.things() {
            let Thing::Record(place) = thing else { continue };
            if found.get(&Thing::Namespace(place.0)) != Some(&1) {
                continue;
            }
            let candidates = self.records.candidates(thing, cut);
            let value = self.get(place)?;
            self.tally.promises_checked += 1;
            let is = |stamp: &Stamp| value == value_of(place, *stamp);
            let Some(stamp) = candidates.iter().map(|candidate| candidate.stamp).find(is) else {
                let allowed: Vec<Stamp> = candidates.iter().map(|candidate| candidate.stamp).collect();
                return Err(Stop::broken("D1", differs(place, &value, &allowed)));
            };
            found.insert(thing, stamp);
        }
        let is = |thing, one, other| match thing {
            Thing::Record(place) => value_of(place, one) == value_of(place, other),
            Thing::Namespace(_) => one == other,
        };
        let orders = self.records.orders(&found, cut, is);
        if let Some(torn) = self.records.torn_steps(&found, cut, &orders).into_iter().next() {
            return Err(Stop::broken("D3", torn));
        }
        self.tally.promises_checked += self.records.step_count();
        Ok((found, orders))
    }

    /// Finds out which namespaces exist.
    fn compare_namespaces(&mut self, found: &mut BTreeMap<Thing, Stamp>) -> Result<(), Stop> {
        let infos = self.host.drive().lock().namespaces();
        let mut there: BTreeMap<NamespaceId, u32> =
            infos.iter().map(|info| (info.namespace, info.attributes.logs)).collect();
        let mut creating = self.spaces.take_creating();
        for thing in self.records.things() {
            let Thing::Namespace(namespace) = thing else { continue };
            let candidates = self.records.candidates(thing, self.tick);
            let is = there.contains_key(&namespace);
            if !candidates.iter().any(|candidate| (candidate.stamp == 1) == is) {
                let which = if is { "there; it was deleted" } else { "not there" };
                return Err(Stop::broken("D1", format!("namespace {namespace} is {which}")));
            }
            found.insert(thing, Stamp::from(is));
            match (there.remove(&namespace), self.spaces.index_of(namespace)) {
                (None, Some(index)) => self.spaces.states[index] = NamespaceState::Missing,
                (None, None) => {}
                (Some(logs), None) => self.orphan(Made { namespace, logs }, found)?,
                (Some(logs), Some(index)) if self.spaces.there(index) == Some(Made { namespace, logs }) => {}
                (Some(logs), Some(index)) => {
                    let made = self.spaces.there(index);
                    let detail = format!("a namespace has {logs} logs, it was made as {made:?}");
                    return Err(Stop::broken("D1", detail));
                }
            }
        }
        // the others were created by commands in flight
        for (namespace, logs) in there {
            let Some(at) = creating.iter().position(|(_, asked)| *asked == logs) else {
                let detail = format!("namespace {namespace} with {logs} logs was never made, and is there");
                return Err(Stop::broken("D1", detail));
            };
            self.spaces.created(creating.remove(at).0, Made { namespace, logs });
            found.insert(Thing::Namespace(namespace), 1);
        }
        Ok(())
    }

    /// A namespace whose deletion was in flight has come back. If its place was taken, it is deleted again.
    fn orphan(&mut self, made: Made, found: &mut BTreeMap<Thing, Stamp>) -> Result<(), Stop> {
        let place = self.spaces.former.get(&made.namespace).copied();
        if let Some(index) = place.filter(|index| self.spaces.states[*index] == NamespaceState::Missing) {
            self.spaces.created(index, made);
            return Ok(());
        }
        match self.host.try_ask(Command::DeleteNamespace { namespace: made.namespace }) {
            Ok(_) => {
                found.insert(Thing::Namespace(made.namespace), 0);
                Ok(())
            }
            Err(Status::PowerLost) => Err(Stop::PowerLost),
            Err(status) => self.may_refuse(false, true, &status),
        }
    }

    /// Without a cut: all records are what was put last.
    pub fn compare_all_records(&mut self, promise: &'static str) -> Result<(), Stop> {
        for index in 0..self.spaces.count() {
            let Some(Made { namespace, .. }) = self.spaces.there(index) else { continue };
            self.compare_list(namespace, promise)?;
            for number in 0..self.spaces.keys(index) {
                self.check_record((namespace, number), promise)?;
            }
        }
        Ok(())
    }

    /// The keys that a namespace should list.
    pub fn keys_of(&self, namespace: NamespaceId) -> BTreeSet<Key> {
        self.records.keys(namespace).map(|(number, _)| key_of(number)).collect()
    }

    fn compare_list(&self, namespace: NamespaceId, promise: &'static str) -> Result<(), Stop> {
        let mut keys = Vec::new();
        self.host.ask(Command::KvList { namespace, from: None, keys: &mut keys, limit: LIST_LIMIT })?;
        let (listed, expected) = (keys.iter().copied().collect::<BTreeSet<_>>(), self.keys_of(namespace));
        if listed != expected || keys.len() != listed.len() {
            let detail = format!("namespace {namespace} lists {keys:?}, it holds {expected:?}");
            return Err(Stop::broken(promise, detail));
        }
        Ok(())
    }

    /// A record is what was put last.
    pub fn check_record(&mut self, place: RecordId, promise: &'static str) -> Result<(), Stop> {
        let (found, stamp) = (self.get(place)?, self.records.now(Thing::Record(place)));
        self.tally.promises_checked += 1;
        match found == value_of(place, stamp) {
            true => Ok(()),
            false => Err(Stop::broken(promise, differs(place, &found, &[stamp]))),
        }
    }

    fn get(&self, (namespace, number): RecordId) -> Result<Option<Vec<u8>>, Stop> {
        let mut value = Vec::new();
        match self.host.try_ask(Command::KvGet { namespace, key: key_of(number), value: &mut value }) {
            Ok(_) => Ok(Some(value)),
            Err(Status::NoSuchKey { .. }) => Ok(None),
            Err(status) => Err(status.into()),
        }
    }
}

fn differs(place: RecordId, found: &Option<Vec<u8>>, allowed: &[Stamp]) -> String {
    let found = match found {
        None => "nothing".to_owned(),
        Some(value) => {
            let stamp = value.first_chunk().map_or(0, |first| Stamp::from_le_bytes(*first));
            format!("{} bytes that begin with {stamp}", value.len())
        }
    };
    format!("key {} of namespace {} holds {found}, allowed {allowed:?}", key_of(place.1), place.0)
}
