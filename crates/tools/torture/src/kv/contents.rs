//! The expected contents of the store and the actual ones.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tantalum_kv::{Error, Namespace, Snapshot, Store};

pub(super) type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// Length and digest of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest(usize, u64);

impl Digest {
    pub fn of(value: &[u8]) -> Digest {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Digest(value.len(), hasher.finish())
    }
}

pub(super) type Map = BTreeMap<Arc<[u8]>, Digest>;

/// Values with more bytes are stored in parts of this size (docs/key-value.md).
pub(super) const PART_BYTES: usize = 258 * 4056;

/// The namespaces, by kind.
#[derive(Clone, Copy)]
pub(super) struct Namespaces {
    pub ordered: Namespace,
    pub hashed: Namespace,
    /// Records that are overwritten so that garbage is collected. Nobody reads them.
    pub other: Namespace,
}

impl Namespaces {
    pub fn open(store: &Store) -> Result<Namespaces, Error> {
        let [hashed, other] = [store.hashed_namespace("hashed")?, store.hashed_namespace("other")?];
        Ok(Namespaces { ordered: store.namespace("ordered")?, hashed, other })
    }
}

/// All records of both namespaces.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Contents {
    pub ordered: Map,
    pub hashed: Map,
}

impl Contents {
    /// Reads everything that a snapshot sees, or describes what is wrong with it.
    pub fn read(snapshot: &Snapshot, namespaces: Namespaces) -> Result<Result<Contents, String>, Error> {
        let (mut ordered, mut keys) = (Map::new(), Vec::new());
        for entry in snapshot.all(namespaces.ordered)? {
            let (key, value) = entry?;
            keys.push(key.to_vec());
            ordered.insert(key[..].into(), Digest::of(&value));
        }
        if !keys.is_sorted_by(|a, b| a < b) {
            return Ok(Err("keys of the ordered namespace are not in their order".to_owned()));
        }
        let backwards: Result<Vec<_>, Error> = snapshot.all(namespaces.ordered)?.keys().rev().collect();
        if !backwards?.iter().map(|key| &key[..]).eq(keys.iter().rev().map(|key| &key[..])) {
            return Ok(Err("backwards there are other keys than forwards".to_owned()));
        }
        for key in &keys {
            if snapshot.read(namespaces.ordered, key)?.is_none() {
                return Ok(Err(format!("{} is in the range and cannot be found", shown(key))));
            }
        }
        let mut hashed = Map::new();
        for key in snapshot.list(namespaces.hashed, None, usize::MAX)? {
            match snapshot.read(namespaces.hashed, key)? {
                Some(value) => hashed.insert(key.as_bytes().into(), Digest::of(&value)),
                None => return Ok(Err(format!("{} is listed and cannot be found", shown(key.as_bytes())))),
            };
        }
        Ok(Ok(Contents { ordered, hashed }))
    }

    /// How many records there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.ordered.len() + self.hashed.len()
    }

    /// Whether the store's own namespace has what belongs to these records and nothing else: the names; once there was a large
    /// value, the numbers of those; of each its parts and a description. Says what is wrong.
    pub fn own_records(&self, found: u64) -> Result<(), String> {
        let large = self.ordered.values().chain(self.hashed.values()).map(|Digest(bytes, _)| *bytes);
        let large = large.filter(|bytes| *bytes > PART_BYTES);
        let expected = 1 + large.map(|bytes| bytes.div_ceil(PART_BYTES) as u64 + 1).sum::<u64>();
        match found.checked_sub(expected) {
            Some(0 | 1) => Ok(()),
            _ => Err(format!("there are {found} records of the store's own; {expected} are in use")),
        }
    }

    /// The first difference of `found`; `None` if there is none.
    pub fn difference(&self, found: &Contents) -> Option<String> {
        let ordered = map_difference(&self.ordered, &found.ordered).map(|what| format!("ordered: {what}"));
        ordered.or_else(|| map_difference(&self.hashed, &found.hashed).map(|what| format!("hashed: {what}")))
    }
}

fn map_difference(expected: &Map, found: &Map) -> Option<String> {
    let mut keys = expected.keys().chain(found.keys());
    let key = keys.find(|key| expected.get(*key) != found.get(*key))?;
    let show = |digest: Option<&Digest>| match digest {
        Some(Digest(bytes, digest)) => format!("{bytes} bytes, digest {digest:016x}"),
        None => "nothing".to_owned(),
    };
    let (is, expected) = (show(found.get(key)), show(expected.get(key)));
    Some(format!("{}: {is}, should be {expected}", shown(key)))
}

/// A key for display; long ones are abbreviated to their ends.
pub(super) fn shown(key: &[u8]) -> String {
    match key.len() {
        0..60 => key.escape_ascii().to_string(),
        bytes => {
            format!("{}...{} ({bytes} bytes)", key[..20].escape_ascii(), key[bytes - 20..].escape_ascii())
        }
    }
}
