//! The expected contents of the store and the actual ones, by key and by change number.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rand::{Rng, RngExt};
use tantalum_couch::{Batch, Error, Snapshot, Storage};

pub(super) type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// The number of keys.
const KEYS: u32 = 70;

/// The last change of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DocumentState {
    seq: u64,
    /// Length and digest; `None` is a deletion.
    value: Option<(usize, u64)>,
}

impl DocumentState {
    fn new(seq: u64, value: Option<&[u8]>) -> DocumentState {
        let digest = |value: &[u8]| {
            let mut hasher = DefaultHasher::new();
            value.hash(&mut hasher);
            (value.len(), hasher.finish())
        };
        DocumentState { seq, value: value.map(digest) }
    }
}

/// All documents and deletions, by key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Contents {
    documents: BTreeMap<Vec<u8>, DocumentState>,
}

impl Contents {
    /// The last change.
    pub fn seq(&self) -> u64 {
        self.documents.values().map(|entry| entry.seq).max().unwrap_or(0)
    }

    /// Draws a batch, mostly of updates. Returns it with the contents after it.
    pub fn draw(&self, random: &mut Random) -> (Batch, Contents) {
        let mut batch = Batch::new();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        for _ in 0..random.random_range(1..6) {
            let key = key(random.random_range(0..KEYS));
            let value = random.random_range(0..12_u32);
            let done = match value {
                0 => batch.delete(&key),
                _ => batch.put(&key, &self::value(random)),
            };
            done.expect("keys and values are within the limits");
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let mut next = self.clone();
        let mut seq = self.seq();
        for key in keys {
            let value = batch.get(&key).expect("it is in the batch");
            let is_there = self.documents.get(&key).is_some_and(|entry| entry.value.is_some());
            if value.is_some() || is_there {
                seq += 1;
                next.documents.insert(key, DocumentState::new(seq, value));
            }
        }
        (batch, next)
    }

    /// Reads everything that a snapshot sees, or describes what is wrong with it.
    pub fn read<S: Storage>(snapshot: &Snapshot<S>) -> Result<Result<Contents, String>, Error> {
        let mut documents = BTreeMap::new();
        for document in snapshot.iter()? {
            let document = document?;
            documents
                .insert(document.key().to_vec(), DocumentState::new(document.seq(), Some(document.value())));
        }
        if snapshot.len() != documents.len() as u64 {
            let (says, has) = (snapshot.len(), documents.len());
            return Ok(Err(format!("it says that it has {says} documents, and has {has}")));
        }
        let (mut changes, mut last) = (BTreeMap::new(), 0);
        for document in snapshot.changes(0)? {
            let document = document?;
            if document.seq() <= last {
                return Ok(Err(format!("change {} comes after {last}", document.seq())));
            }
            last = document.seq();
            let value = (!document.is_deleted()).then(|| document.value());
            if changes.insert(document.key().to_vec(), DocumentState::new(last, value)).is_some() {
                return Ok(Err(format!("{document:?} is changed twice")));
            }
        }
        let mut by_seq = Contents { documents: changes.clone() };
        by_seq.documents.retain(|_, entry| entry.value.is_some());
        Ok(match (Contents { documents }).difference(&by_seq) {
            Some(difference) => Err(format!("by change there is another document than by key: {difference}")),
            None => Ok(Contents { documents: changes }),
        })
    }

    /// Whether the document of a key, if there is one, has this change number and value.
    pub fn has(&self, key: &[u8], found: Option<(u64, &[u8])>) -> bool {
        let is = self.documents.get(key).filter(|entry| entry.value.is_some());
        is.copied() == found.map(|(seq, value)| DocumentState::new(seq, Some(value)))
    }

    /// The first difference of `found`; `None` if there is none.
    pub fn difference(&self, found: &Contents) -> Option<String> {
        let mut keys = self.documents.keys().chain(found.documents.keys());
        let key = keys.find(|key| self.documents.get(*key) != found.documents.get(*key))?;
        let show = |entry: Option<&DocumentState>| match entry {
            Some(DocumentState { seq, value: Some((bytes, digest)) }) => {
                format!("change {seq}, {bytes} bytes, digest {digest:016x}")
            }
            Some(DocumentState { seq, value: None }) => format!("change {seq}, deleted"),
            None => "nothing".to_owned(),
        };
        let (is, expected) = (show(found.documents.get(key)), show(self.documents.get(key)));
        Some(format!("{}: {is}, should be {expected}", key.escape_ascii()))
    }
}

/// Any of the keys.
pub(super) fn draw_key(random: &mut Random) -> Vec<u8> {
    key(random.random_range(0..KEYS))
}

/// Some keys are long, so that the tree has levels.
fn key(number: u32) -> Vec<u8> {
    let mut key = format!("key{number:04}").into_bytes();
    if number.is_multiple_of(2) {
        key.resize(450, b'.');
    }
    key
}

fn value(random: &mut Random) -> Vec<u8> {
    let lengths = [0..1000, 3000..4000, 3000..4000, 4090..6000][random.random_range(0..4)].clone();
    let mut value = vec![0; random.random_range(lengths)];
    random.fill_bytes(&mut value);
    value
}
