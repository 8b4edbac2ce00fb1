//! A host that puts and deletes records of some key-value namespaces, and now and then replaces one of them. They share
//! the drive's log, or some have logs of their own. All of it is durable when it returns, on every drive, and a put of many records is there as a whole or not at all: so only the
//! command under way when power goes leaves a choice.

use std::collections::{BTreeMap, BTreeSet};

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Completion, Key, KvRecord, NamespaceAttributes, NamespaceId, Status};

use super::host::{Host, Stamp};
use super::stop::Stop;

type Generator = Xoshiro256PlusPlus;

/// Keys of each namespace. The first few have values of several units.
const KEYS: u64 = 24;
const LARGE_KEYS: u64 = 4;
const LARGE_BYTES: u64 = 9000;
const SMALL_BYTES: u64 = 600;

/// Logs of each namespace, 0 for the drive's own: where all share that one, and where some have their own.
const SHARED: &[u32] = &[0, 0];
const OWN: &[u32] = &[0, 1, 2];

/// A key of one of the namespaces.
type Place = (usize, u64);

/// What was under way: it was done in full or not at all.
#[derive(Clone, PartialEq, Eq, Debug)]
enum UnderWay {
    /// Keys with their new values; 0 for none.
    Put(BTreeMap<Place, Stamp>),
    /// All that a namespace holds.
    Delete(usize),
    /// A new namespace.
    Create(usize),
}

/// The host, and what its namespaces hold.
#[derive(Clone, Debug)]
pub(super) struct RecordHost {
    logs: &'static [u32],
    namespaces: Vec<Option<NamespaceId>>,
    /// Logs of each namespace as it was made: a drive may have too little for what was asked.
    made_with: Vec<u32>,
    now: BTreeMap<Place, Stamp>,
    under_way: Option<UnderWay>,
    next_stamp: Stamp,
}

impl RecordHost {
    /// Empty namespaces, some of them with logs of their own if asked for.
    pub fn new(host: &mut Host, own_logs: bool) -> Result<RecordHost, Stop> {
        let logs = if own_logs { OWN } else { SHARED };
        let mut records = RecordHost {
            logs,
            namespaces: vec![None; logs.len()],
            made_with: logs.to_vec(),
            now: BTreeMap::new(),
            under_way: None,
            next_stamp: 1,
        };
        for slot in 0..logs.len() {
            records.create(host, slot)?;
        }
        Ok(records)
    }

    /// Puts and deletes some records at once.
    pub fn put(&mut self, host: &mut Host, rng: &mut Generator) -> Result<(), Stop> {
        let most = if rng.random_ratio(1, 4) { 12 } else { 3 };
        let mut new = BTreeMap::new();
        for _ in 0..rng.random_range(1..=most) {
            self.next_stamp += 1;
            let stamp = if rng.random_ratio(1, 5) { 0 } else { self.next_stamp };
            new.insert((rng.random_range(0..self.logs.len()), rng.random_range(0..KEYS)), stamp);
        }
        for (slot, _) in new.keys() {
            if self.namespaces[*slot].is_none() {
                return self.create(host, *slot);
            }
        }
        let data: Vec<(NamespaceId, Key, Option<Vec<u8>>)> = new
            .iter()
            .map(|(place, stamp)| {
                let namespace = self.namespaces[place.0].expect("it was made if it was not there");
                (namespace, key_of(place.1), value_of(place.1, *stamp))
            })
            .collect();
        let records: Vec<KvRecord<'_>> = data
            .iter()
            .map(|(namespace, key, value)| KvRecord {
                namespace: *namespace,
                key: *key,
                value: value.as_deref(),
            })
            .collect();
        self.under_way = Some(UnderWay::Put(new));
        host.submit(Command::KvPut { records: &records })?;
        self.take_under_way();
        Ok(())
    }

    /// Deletes one record.
    pub fn delete(&mut self, host: &mut Host, rng: &mut Generator) -> Result<(), Stop> {
        let place = (rng.random_range(0..self.logs.len()), rng.random_range(0..KEYS));
        let Some(namespace) = self.namespaces[place.0] else { return self.create(host, place.0) };
        self.under_way = Some(UnderWay::Put(BTreeMap::from([(place, 0)])));
        match host.submit(Command::KvDelete { namespace, key: key_of(place.1) }) {
            Err(Status::NoSuchKey { .. }) if !self.now.contains_key(&place) => {}
            deleted => drop(deleted?),
        }
        self.take_under_way();
        Ok(())
    }

    /// Deletes a namespace, or makes one that is missing.
    pub fn replace(&mut self, host: &mut Host, rng: &mut Generator) -> Result<(), Stop> {
        let slot = rng.random_range(0..self.logs.len());
        let Some(namespace) = self.namespaces[slot] else { return self.create(host, slot) };
        self.under_way = Some(UnderWay::Delete(slot));
        host.submit(Command::DeleteNamespace { namespace })?;
        self.take_under_way();
        Ok(())
    }

    fn create(&mut self, host: &mut Host, slot: usize) -> Result<(), Stop> {
        self.under_way = Some(UnderWay::Create(slot));
        self.made_with[slot] = self.logs[slot];
        let made = match self.submit_create(host, slot) {
            // DRAM that a capacitor protects is short on some of these drives
            Err(Status::OverLimit { .. }) => {
                self.made_with[slot] = 0;
                self.submit_create(host, slot)
            }
            made => made,
        };
        let namespace = made?.namespace;
        self.under_way = None;
        self.namespaces[slot] =
            Some(namespace.ok_or_else(|| Stop::broken("refused", "a new namespace has no number"))?);
        Ok(())
    }

    fn submit_create(&self, host: &mut Host, slot: usize) -> Result<Completion, Status> {
        let attributes = NamespaceAttributes { logs: self.made_with[slot], ..NamespaceAttributes::default() };
        host.submit(Command::CreateNamespace { attributes })
    }

    /// What was under way has been done.
    fn take_under_way(&mut self) {
        match self.under_way.take() {
            Some(UnderWay::Put(new)) => {
                for (place, stamp) in new {
                    match stamp {
                        0 => self.now.remove(&place),
                        stamp => self.now.insert(place, stamp),
                    };
                }
            }
            Some(UnderWay::Delete(slot)) => {
                self.namespaces[slot] = None;
                self.now.retain(|place, _| place.0 != slot);
            }
            Some(UnderWay::Create(_)) | None => {}
        }
    }

    /// After a cut: everything is as it was, or as what was under way makes it.
    pub fn compare(&mut self, host: &mut Host) -> Result<(), Stop> {
        self.compare_namespaces(host)?;
        if let Some(UnderWay::Put(new)) = self.under_way.clone() {
            let (mut old_ones, mut new_ones) = (0, 0);
            for (place, stamp) in &new {
                let found = self.get(host, *place)?;
                let was = self.now.get(place).copied().unwrap_or(0);
                let (old, new) = (found == value_of(place.1, was), found == value_of(place.1, *stamp));
                if !old && !new {
                    return Err(Stop::broken("D1", self.differs(*place, found.as_deref(), &[was, *stamp])));
                }
                old_ones += usize::from(old);
                new_ones += usize::from(new);
            }
            if new_ones == new.len() {
                self.take_under_way();
            } else if old_ones != new.len() {
                let detail = format!("{new_ones} of {} records of a put are there", new.len());
                return Err(Stop::broken("D3", detail));
            }
        }
        self.under_way = None;
        self.compare_all(host, "D1")
    }

    /// Finds out whether a namespace was made or deleted.
    fn compare_namespaces(&mut self, host: &mut Host) -> Result<(), Stop> {
        let infos = host.device.namespaces();
        let mut there: BTreeSet<NamespaceId> = infos.iter().map(|info| info.namespace).collect();
        for slot in 0..self.logs.len() {
            let Some(namespace) = self.namespaces[slot] else { continue };
            if there.remove(&namespace) {
                continue;
            }
            if self.under_way != Some(UnderWay::Delete(slot)) {
                return Err(Stop::broken("D1", format!("namespace {namespace} is not there")));
            }
            self.take_under_way();
        }
        match (self.under_way.clone(), there.pop_first()) {
            (Some(UnderWay::Create(slot)), Some(made)) if there.is_empty() => {
                self.namespaces[slot] = Some(made)
            }
            (_, Some(other)) => {
                return Err(Stop::broken(
                    "D1",
                    format!("namespace {other} is there; it was deleted or never made"),
                ));
            }
            (_, None) => {}
        }
        for info in infos {
            let slot = self.namespaces.iter().position(|namespace| *namespace == Some(info.namespace));
            let expected = slot.map_or(0, |slot| self.made_with[slot]);
            if info.attributes.logs != expected {
                let (namespace, logs) = (info.namespace, info.attributes.logs);
                let detail = format!("namespace {namespace} has {logs} logs, it was made with {expected}");
                return Err(Stop::broken("D1", detail));
            }
        }
        Ok(())
    }

    /// Without a cut: all records are what was put last.
    pub fn check_running(&mut self, host: &mut Host) -> Result<(), Stop> {
        self.compare_all(host, "running drive")
    }

    fn compare_all(&mut self, host: &mut Host, promise: &'static str) -> Result<(), Stop> {
        for slot in 0..self.logs.len() {
            let Some(namespace) = self.namespaces[slot] else { continue };
            let mut keys = Vec::new();
            host.submit(Command::KvList {
                namespace,
                from: None,
                keys: &mut keys,
                limit: 2 * KEYS as usize,
            })?;
            let listed: BTreeSet<Key> = keys.iter().copied().collect();
            let expected: BTreeSet<Key> =
                self.now.keys().filter(|place| place.0 == slot).map(|place| key_of(place.1)).collect();
            if listed != expected || keys.len() != listed.len() {
                let detail = format!("namespace {namespace} lists {keys:?}, it holds {expected:?}");
                return Err(Stop::broken(promise, detail));
            }
            for number in 0..KEYS {
                let place = (slot, number);
                let (found, stamp) = (self.get(host, place)?, self.now.get(&place).copied().unwrap_or(0));
                if found != value_of(number, stamp) {
                    return Err(Stop::broken(promise, self.differs(place, found.as_deref(), &[stamp])));
                }
            }
        }
        Ok(())
    }

    fn get(&self, host: &mut Host, place: Place) -> Result<Option<Vec<u8>>, Stop> {
        let Some(namespace) = self.namespaces[place.0] else { return Ok(None) };
        let mut value = Vec::new();
        match host.submit(Command::KvGet { namespace, key: key_of(place.1), value: &mut value }) {
            Ok(_) => Ok(Some(value)),
            Err(Status::NoSuchKey { .. }) => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    fn differs(&self, place: Place, found: Option<&[u8]>, allowed: &[Stamp]) -> String {
        let found = found.map_or("nothing".to_owned(), |value| {
            let stamp = value.first_chunk().map_or(0, |first| Stamp::from_le_bytes(*first));
            format!("{} bytes that begin with {stamp}", value.len())
        });
        format!(
            "key {} of namespace {:?} holds {found}, allowed {allowed:?}",
            key_of(place.1),
            self.namespaces[place.0]
        )
    }
}

/// Keys of up to eight bytes, and longer ones.
fn key_of(number: u64) -> Key {
    let text =
        if number.is_multiple_of(3) { format!("a longer key {number:03}") } else { format!("k{number}") };
    Key::new(text.as_bytes()).expect("it has 2 to 16 bytes")
}

/// What a stamp stands for: its bytes, again and again. 0 stands for no value.
fn value_of(number: u64, stamp: Stamp) -> Option<Vec<u8>> {
    if stamp == 0 {
        return None;
    }
    let most = if number < LARGE_KEYS { LARGE_BYTES } else { SMALL_BYTES };
    let bytes =
        if stamp.is_multiple_of(16) { 0 } else { 8 + stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (most - 8) };
    Some(stamp.to_le_bytes().into_iter().cycle().take(bytes as usize).collect())
}
