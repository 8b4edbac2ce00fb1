//! Compares what the namespaces hold with what they may hold: after a cut, and while the drive runs.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::{Command, Key, NamespaceId, Status};

use super::{Made, RecordHost, key_of, value_of};
use crate::device::history::{LOST, Stamp};
use crate::device::host::Host;
use crate::device::records::{Orders, RecordId, Thing};
use crate::device::stop::Stop;

/// What a record was found to hold.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Found {
    Value(Option<Vec<u8>>),
    Lost,
}

impl RecordHost {
    /// After a cut at a given time: everything has an allowed value, and every put is there completely or not at all.
    /// Returns what was found, and what each thing may be.
    pub fn compare(
        &mut self,
        host: &mut Host,
        cut_ns: u64,
    ) -> Result<(BTreeMap<Thing, Stamp>, Orders), Stop> {
        let mut found = BTreeMap::new();
        self.compare_namespaces(host, cut_ns, &mut found)?;
        for thing in self.records.things() {
            let Thing::Record(place) = thing else { continue };
            if found.get(&Thing::Namespace(place.0)) != Some(&1) {
                continue;
            }
            let candidates = self.records.candidates(thing, cut_ns);
            let value = self.get(host, place)?;
            self.promises_checked += 1;
            let is = |stamp: &Stamp| match value {
                Found::Value(ref value) => *value == value_of(place, *stamp),
                Found::Lost => *stamp == LOST,
            };
            let matching = candidates.iter().map(|candidate| candidate.stamp).find(is);
            let lost = value == Found::Lost && self.losses > 0;
            let Some(stamp) = matching.or(lost.then_some(LOST)) else {
                let allowed: Vec<Stamp> = candidates.iter().map(|candidate| candidate.stamp).collect();
                return Err(Stop::broken("D1", self.differs(place, &value, &allowed)));
            };
            found.insert(thing, stamp);
        }
        let is = |thing, one, other| match thing {
            Thing::Record(place) => value_of(place, one) == value_of(place, other),
            Thing::Namespace(_) => one == other,
        };
        let orders = self.records.orders(&found, cut_ns, is);
        if let Some(torn) = self.records.torn_steps(&found, cut_ns, &orders).into_iter().next() {
            return Err(Stop::broken("D3", torn));
        }
        self.promises_checked += self.records.step_count();
        Ok((found, orders))
    }

    /// Takes what was found as durable from now on, and checks that listings agree with it.
    pub fn settle(&mut self, host: &mut Host, found: &BTreeMap<Thing, Stamp>) -> Result<(), Stop> {
        self.records.settle(found);
        self.compare_all(host, "D1")
    }

    /// Finds out which namespaces exist.
    fn compare_namespaces(
        &mut self,
        host: &mut Host,
        cut_ns: u64,
        found: &mut BTreeMap<Thing, Stamp>,
    ) -> Result<(), Stop> {
        let mut there: BTreeMap<NamespaceId, u32> =
            host.device.namespaces().iter().map(|info| (info.namespace, info.attributes.logs)).collect();
        let known: Vec<NamespaceId> = self
            .records
            .things()
            .into_iter()
            .filter_map(|thing| if let Thing::Namespace(namespace) = thing { Some(namespace) } else { None })
            .collect();
        for namespace in known {
            let candidates = self.records.candidates(Thing::Namespace(namespace), cut_ns);
            let is = there.contains_key(&namespace);
            if !candidates.iter().any(|candidate| (candidate.stamp == 1) == is) {
                let which = if is { "there; it was deleted" } else { "not there" };
                return Err(Stop::broken("D1", format!("namespace {namespace} is {which}")));
            }
            found.insert(Thing::Namespace(namespace), Stamp::from(is));
            let slot =
                self.slots.iter().position(|made| made.is_some_and(|made| made.namespace == namespace));
            match (there.remove(&namespace), slot) {
                (None, Some(slot)) => self.slots[slot] = None,
                (None, None) => {}
                (Some(logs), None) => self.orphan(host, (namespace, logs), found)?,
                (Some(logs), Some(slot)) if self.slots[slot] == Some(Made { namespace, logs }) => {}
                (Some(logs), Some(slot)) => {
                    let detail =
                        format!("a namespace has {logs} logs, it was made as {:?}", self.slots[slot]);
                    return Err(Stop::broken("D1", detail));
                }
            }
        }
        self.adopt_created(there, found)
    }

    /// Adopts the namespace that a command in flight has created. `there` are the unknown ones.
    fn adopt_created(
        &mut self,
        mut there: BTreeMap<NamespaceId, u32>,
        found: &mut BTreeMap<Thing, Stamp>,
    ) -> Result<(), Stop> {
        let creating = std::mem::take(&mut self.creating);
        match (there.len(), there.pop_first()) {
            (0, _) => Ok(()),
            (1, Some((namespace, logs))) if creating.iter().any(|(_, asked)| *asked == logs) => {
                let slot = creating.iter().find(|(_, asked)| *asked == logs).expect("it was just found").0;
                self.slots[slot] = Some(Made { namespace, logs });
                found.insert(Thing::Namespace(namespace), 1);
                Ok(())
            }
            (_, other) => {
                Err(Stop::broken("D1", format!("namespace {other:?} was never made, and is there")))
            }
        }
    }

    /// A namespace whose deletion was in flight has come back. If its place was taken, it is deleted again.
    fn orphan(
        &mut self,
        host: &mut Host,
        (namespace, logs): (NamespaceId, u32),
        found: &mut BTreeMap<Thing, Stamp>,
    ) -> Result<(), Stop> {
        if let Some(&slot) = self.former.get(&namespace)
            && self.slots[slot].is_none()
        {
            self.slots[slot] = Some(Made { namespace, logs });
            return Ok(());
        }
        match host.submit_and_wait(Command::DeleteNamespace { namespace }) {
            Ok(_) => {
                found.insert(Thing::Namespace(namespace), 0);
                Ok(())
            }
            Err(status) => self.may_refuse(&status, true),
        }
    }

    /// Without a cut: all records are what was put last.
    pub fn check_running(&mut self, host: &mut Host) -> Result<(), Stop> {
        self.compare_all(host, "running drive")
    }

    fn compare_all(&mut self, host: &mut Host, promise: &'static str) -> Result<(), Stop> {
        for slot in 0..self.slots.len() {
            let Some(Made { namespace, .. }) = self.slots[slot] else { continue };
            self.compare_list(host, slot, namespace, promise)?;
            for number in 0..self.keys_of(slot) {
                self.check(host, (namespace, number), promise)?;
            }
        }
        Ok(())
    }

    fn compare_list(
        &mut self,
        host: &mut Host,
        slot: usize,
        namespace: NamespaceId,
        promise: &'static str,
    ) -> Result<(), Stop> {
        let (mut keys, limit) = (Vec::new(), 2 * self.keys_of(slot) as usize);
        host.submit(Command::KvList { namespace, from: None, keys: &mut keys, limit })?;
        let listed: BTreeSet<Key> = keys.iter().copied().collect();
        let expected: BTreeSet<Key> =
            self.records.keys(namespace).map(|(number, _)| key_of(number)).collect();
        // longer keys are identified by their records, which may be lost
        let differs = if self.losses > 0 { !listed.is_subset(&expected) } else { listed != expected };
        if differs || keys.len() != listed.len() {
            let detail = format!("namespace {namespace} lists {keys:?}, it holds {expected:?}");
            return Err(Stop::broken(promise, detail));
        }
        Ok(())
    }

    /// A record is what was put last.
    pub(super) fn check(
        &mut self,
        host: &mut Host,
        place: RecordId,
        promise: &'static str,
    ) -> Result<(), Stop> {
        let (found, stamp) = (self.get(host, place)?, self.records.now(Thing::Record(place)));
        self.promises_checked += 1;
        match &found {
            Found::Lost if stamp == LOST => Ok(()),
            Found::Lost if self.losses > 0 && stamp != 0 => {
                self.records.lose(place);
                Ok(())
            }
            Found::Value(value) if stamp != LOST && *value == value_of(place, stamp) => Ok(()),
            _ => Err(Stop::broken(promise, self.differs(place, &found, &[stamp]))),
        }
    }

    fn get(&self, host: &mut Host, (namespace, number): RecordId) -> Result<Found, Stop> {
        let mut value = Vec::new();
        match host.submit(Command::KvGet { namespace, key: key_of(number), value: &mut value }) {
            Ok(_) => Ok(Found::Value(Some(value))),
            Err(Status::NoSuchKey { .. }) => Ok(Found::Value(None)),
            Err(Status::RecordUnreadable { .. }) => {
                host.wait_until(host.device.time_ns())?;
                Ok(Found::Lost)
            }
            Err(status) => Err(status.into()),
        }
    }

    fn differs(&self, place: RecordId, found: &Found, allowed: &[Stamp]) -> String {
        let found = match found {
            Found::Lost => "what cannot be read".to_owned(),
            Found::Value(None) => "nothing".to_owned(),
            Found::Value(Some(value)) => {
                let stamp = value.first_chunk().map_or(0, |first| Stamp::from_le_bytes(*first));
                format!("{} bytes that begin with {stamp}", value.len())
            }
        };
        format!("key {} of namespace {} holds {found}, allowed {allowed:?}", key_of(place.1), place.0)
    }
}
