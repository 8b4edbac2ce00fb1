//! A store as it was at one moment.
//!
//! Nobody writes where a snapshot reads: nodes are written once, and a document is shared over only if no open snapshot sees
//! it (see `commit`).

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use crate::data_file::{Pointer, seq_key};
use crate::document::Document;
use crate::error::Error;
use crate::inner::{Inner, Pending, Version};
use crate::storage::Storage;
use crate::tree::{Cursor, Tree};

/// An entry of the tree by key.
pub(crate) type KeyEntry = (Box<[u8]>, Pointer);

/// A store as it was when the snapshot was opened, even while others write and compact.
pub struct Snapshot<S: Storage> {
    pub(crate) inner: Arc<Inner<S>>,
    pub(crate) version: Arc<Version<S::File>>,
    pub(crate) pending: Vec<Pending>,
}

impl<S: Storage> std::fmt::Debug for Snapshot<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("seq", &self.seq()).finish_non_exhaustive()
    }
}

impl<S: Storage> Snapshot<S> {
    pub(crate) fn open(inner: &Arc<Inner<S>>) -> Snapshot<S> {
        let mut state = inner.state.write();
        state.snapshots += 1;
        state.opened += 1;
        state.unseen.clear();
        state.assert_invariants();
        Snapshot {
            inner: Arc::clone(inner),
            version: Arc::clone(&state.version),
            pending: state.pending.clone(),
        }
    }

    /// The number of the last change that the snapshot sees.
    pub fn seq(&self) -> u64 {
        self.version.seq
    }

    /// Number of documents.
    pub fn len(&self) -> u64 {
        self.version.header.documents
    }

    /// Whether there are no documents.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The document of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Document>, Error> {
        self.inner.get(&self.version, key)
    }

    /// All documents whose keys are in a range, in key order; [`Iterator::rev`] gives them backwards.
    pub fn range<K: AsRef<[u8]>, R: RangeBounds<K>>(&self, keys: R) -> Result<Range<'_, S>, Error> {
        let tree = self.inner.by_key(&self.version);
        let cursor = tree.cursor(keys.start_bound().map(K::as_ref))?;
        let start = keys.start_bound().map(|key| Box::from(key.as_ref()));
        let end = keys.end_bound().map(|key| Box::from(key.as_ref()));
        Ok(Range { snapshot: self, tree, cursor, back: None, start, end })
    }

    /// All documents, in key order.
    pub fn iter(&self) -> Result<Range<'_, S>, Error> {
        self.range::<&[u8], _>(..)
    }

    /// The last change of each document that changed after `since`, in the order of changes, including deletions.
    pub fn changes(&self, since: u64) -> Result<Changes<'_, S>, Error> {
        let tree = self.inner.by_seq(&self.version);
        let cursor = tree.cursor(Bound::Excluded(&seq_key(since)))?;
        let pending = self.pending.iter().copied().filter(|update| update.seq > since).collect();
        Ok(Changes { snapshot: self, tree, cursor, pending })
    }

    /// Reads the nodes of the index into memory, up to [`crate::Options::cache_bytes`].
    pub fn load_index(&self) -> Result<(), Error> {
        for tree in [self.inner.by_key(&self.version), self.inner.by_seq(&self.version)] {
            let mut cursor = tree.cursor(Bound::Unbounded)?;
            while cursor.next(&tree, |_, _| ())?.is_some() {}
        }
        Ok(())
    }

    /// The entry of the next key of a cursor in the tree by key.
    pub(crate) fn next_entry(
        &self,
        tree: &Tree<'_, S::File>,
        cursor: &mut Cursor,
    ) -> Result<Option<KeyEntry>, Error> {
        let entry = cursor.next(tree, |key, value| (Box::from(key), Pointer::decode(value)))?;
        self.decoded(tree, entry)
    }

    /// The entry of the key before, of a cursor that goes backwards.
    fn previous_entry(
        &self,
        tree: &Tree<'_, S::File>,
        cursor: &mut Cursor,
    ) -> Result<Option<KeyEntry>, Error> {
        let entry = cursor.previous(tree, |key, value| (Box::from(key), Pointer::decode(value)))?;
        self.decoded(tree, entry)
    }

    fn decoded(
        &self,
        tree: &Tree<'_, S::File>,
        entry: Option<(Box<[u8]>, Option<Pointer>)>,
    ) -> Result<Option<KeyEntry>, Error> {
        let Some((key, pointer)) = entry else { return Ok(None) };
        let bad = || self.version.file.damaged(tree.root.unwrap_or(0), "an entry by key is not valid");
        Ok(Some((key, pointer.ok_or_else(bad)?)))
    }

    /// The next change of a cursor in the tree by change number; it may have been replaced since.
    pub(crate) fn next_change(
        &self,
        tree: &Tree<'_, S::File>,
        cursor: &mut Cursor,
    ) -> Result<Option<Pointer>, Error> {
        let read =
            |key: &[u8], value: &[u8]| Pointer::decode_place(value, u64::from_be_bytes(key.try_into().ok()?));
        let Some(place) = cursor.next(tree, read)? else { return Ok(None) };
        let bad = || self.version.file.damaged(tree.root.unwrap_or(0), "an entry by change is not valid");
        place.ok_or_else(bad).map(Some)
    }
}

impl<S: Storage> Drop for Snapshot<S> {
    fn drop(&mut self) {
        let mut state = self.inner.state.write();
        // once compaction has replaced the file, its snapshots no longer count
        if state.version.file.id == self.version.file.id {
            assert!(state.snapshots > 0, "a snapshot of change {} is closed twice", self.version.seq);
            state.snapshots -= 1;
            if state.snapshots == 0 {
                state.unseen.clear();
            }
        }
        state.assert_invariants();
    }
}

/// Documents in key order, from either end.
pub struct Range<'a, S: Storage> {
    snapshot: &'a Snapshot<S>,
    tree: Tree<'a, S::File>,
    cursor: Cursor,
    /// From the end backwards, once it is asked for.
    back: Option<Cursor>,
    /// Where the walk backwards ends: after the last key from the front.
    start: Bound<Box<[u8]>>,
    /// Where the walk forwards ends: before the last key from the back.
    end: Bound<Box<[u8]>>,
}

impl<S: Storage> std::fmt::Debug for Range<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range").field("end", &self.end).finish_non_exhaustive()
    }
}

impl<S: Storage> Range<'_, S> {
    fn next_document(&mut self) -> Result<Option<Document>, Error> {
        while let Some((key, pointer)) = self.snapshot.next_entry(&self.tree, &mut self.cursor)? {
            let is_over = match &self.end {
                Bound::Included(end) => key > *end,
                Bound::Excluded(end) => key >= *end,
                Bound::Unbounded => false,
            };
            if is_over {
                return Ok(None);
            }
            if !pointer.deleted {
                let document = self.snapshot.inner.document_of(&self.snapshot.version, &key, pointer);
                self.start = Bound::Excluded(key);
                return document.map(Some);
            }
        }
        Ok(None)
    }

    fn previous_document(&mut self) -> Result<Option<Document>, Error> {
        let mut cursor = match (self.back.take(), &self.end) {
            (Some(cursor), _) => cursor,
            (None, Bound::Unbounded) => self.tree.cursor_at_end()?,
            // a cursor is before the first entry from there on
            (None, Bound::Included(end)) => self.tree.cursor(Bound::Excluded(end))?,
            (None, Bound::Excluded(end)) => self.tree.cursor(Bound::Included(end))?,
        };
        let found = self.previous_of(&mut cursor);
        self.back = Some(cursor);
        found
    }

    fn previous_of(&mut self, cursor: &mut Cursor) -> Result<Option<Document>, Error> {
        while let Some((key, pointer)) = self.snapshot.previous_entry(&self.tree, cursor)? {
            let is_over = match &self.start {
                Bound::Included(start) => key < *start,
                Bound::Excluded(start) => key <= *start,
                Bound::Unbounded => false,
            };
            if is_over {
                return Ok(None);
            }
            if !pointer.deleted {
                let document = self.snapshot.inner.document_of(&self.snapshot.version, &key, pointer);
                self.end = Bound::Excluded(key);
                return document.map(Some);
            }
        }
        Ok(None)
    }
}

impl<S: Storage> DoubleEndedIterator for Range<'_, S> {
    fn next_back(&mut self) -> Option<Result<Document, Error>> {
        self.previous_document().transpose()
    }
}

impl<S: Storage> Iterator for Range<'_, S> {
    type Item = Result<Document, Error>;

    fn next(&mut self) -> Option<Result<Document, Error>> {
        self.next_document().transpose()
    }
}

/// Changes in order.
pub struct Changes<'a, S: Storage> {
    snapshot: &'a Snapshot<S>,
    tree: Tree<'a, S::File>,
    cursor: Cursor,
    /// Changes that are not in the tree yet.
    pending: VecDeque<Pending>,
}

impl<S: Storage> std::fmt::Debug for Changes<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").finish_non_exhaustive()
    }
}

impl<S: Storage> Changes<'_, S> {
    fn next_document(&mut self) -> Result<Option<Document>, Error> {
        loop {
            let place = match self.snapshot.next_change(&self.tree, &mut self.cursor)? {
                Some(place) => place,
                None => match self.pending.pop_front() {
                    Some(update) => Pointer { seq: update.seq, ..update.place },
                    None => return Ok(None),
                },
            };
            let version = &self.snapshot.version;
            let document = version.file.read_document(place)?;
            version.is_known(&document, place)?;
            // a shared update leaves its predecessor's entry
            if document.seq() != place.seq {
                continue;
            }
            let current = self.snapshot.inner.pointer(version, document.key())?;
            if current.is_some_and(|current| current.offset == place.offset) {
                return Ok(Some(document));
            }
        }
    }
}

impl<S: Storage> Iterator for Changes<'_, S> {
    type Item = Result<Document, Error>;

    fn next(&mut self) -> Option<Result<Document, Error>> {
        self.next_document().transpose()
    }
}
