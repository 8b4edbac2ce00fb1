//! Changes that are committed together.

use rustc_hash::FxHashMap;

use crate::document;
use crate::error::Error;
use crate::tree_write::KeyChange;

/// Changes of documents, which a commit makes all together or not at all. If a key is changed several times, the last
/// change counts.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    changes: Vec<KeyChange>,
    places: FxHashMap<Box<[u8]>, usize>,
}

impl Batch {
    /// No changes.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Creates or replaces a document. A key has 1 to [`crate::MOST_KEY_BYTES`], a value up to
    /// [`crate::MOST_VALUE_BYTES`].
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        document::check(key, value)?;
        self.change(key, Some(value.into()));
        Ok(())
    }

    /// Deletes a document; nothing happens if there is none.
    pub fn delete(&mut self, key: &[u8]) -> Result<(), Error> {
        document::check(key, &[])?;
        self.change(key, None);
        Ok(())
    }

    fn change(&mut self, key: &[u8], value: Option<Box<[u8]>>) {
        match self.places.get(key) {
            Some(&place) => self.changes[place].1 = value,
            None => {
                self.places.insert(key.into(), self.changes.len());
                self.changes.push((key.into(), value));
            }
        }
        debug_assert_eq!(self.places.len(), self.changes.len(), "keys of a batch, and its changes");
    }

    /// The batch's effect on a key: `Some(Some(value))`, `Some(None)` if it deletes the key, `None` if it does not
    /// change it.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.places.get(key).map(|&place| self.changes[place].1.as_deref())
    }

    /// Keys that are changed.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.places.clear();
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.changes.iter().map(|(key, value)| (&key[..], value.as_deref()))
    }
}
