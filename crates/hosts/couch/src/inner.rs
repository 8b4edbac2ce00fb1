//! What a store's handles share: the published state, the writer's state, and reading through them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashSet;

use crate::cache::NodeCache;
use crate::data_file::{DataFile, Pointer};
use crate::document::{self, Document};
use crate::error::Error;
use crate::header::Header;
use crate::options::{Options, Statistics, Way};
use crate::storage::{Storage, StorageFile, UNIT_BYTES};
use crate::tree::Tree;

/// What a reader sees: a file, and its state.
pub(crate) struct Version<F> {
    pub file: Arc<DataFile<F>>,
    pub header: Header,
    /// The last change: the header's, or one shared since.
    pub seq: u64,
}

impl<F: StorageFile> Version<F> {
    /// Refuses a document that was shared over after the last change: the header that records it was lost, or a share
    /// took effect although it was reported as failed.
    pub fn is_known(&self, document: &Document, place: Pointer) -> Result<(), Error> {
        match document.seq() > self.seq {
            true => Err(self.file.damaged(place.offset, "a document is later than the last change")),
            false => Ok(()),
        }
    }
}

/// An update shared after the last header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    pub seq: u64,
    pub place: Pointer,
}

/// What is published.
pub(crate) struct State<F> {
    pub version: Arc<Version<F>>,
    /// In the order of changes.
    pub pending: Vec<Pending>,
    /// Open snapshots of the file.
    pub snapshots: usize,
    /// Snapshots opened so far.
    pub opened: u64,
    /// Places that no open snapshot sees, because they were taken after the last one was opened.
    pub unseen: FxHashSet<u64>,
}

impl<F> State<F> {
    /// Whether the parts agree; called whenever one of them has changed, in builds with debug assertions.
    pub fn assert_invariants(&self) {
        let Version { file, header, seq } = &*self.version;
        debug_assert_eq!(header.file, file.id, "the file that a header names, and the one that it is in");
        debug_assert_eq!(
            *seq,
            header.seq + self.pending.len() as u64,
            "the last change, and the header's with {} shared since",
            self.pending.len()
        );
        debug_assert!(
            (header.seq + 1..).zip(&self.pending).all(|(seq, pending)| pending.seq == seq),
            "changes shared since {} are not in order: {:?}",
            header.seq,
            self.pending
        );
        debug_assert!(
            self.snapshots > 0 || self.unseen.is_empty(),
            "no snapshot is open, and {} places are unseen by it",
            self.unseen.len()
        );
        let (open, opened) = (self.snapshots as u64, self.opened);
        debug_assert!(open <= opened, "{open} snapshots are open of {opened}");
    }
}

/// The writer's state.
#[derive(Default)]
pub(crate) struct Writer {
    /// Units of the staging area in use.
    pub stage_used: u32,
    /// A commit failed, and it is unknown whether it took effect.
    pub stopped: bool,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub documents_appended: AtomicU64,
    pub documents_shared: AtomicU64,
    pub nodes_written: AtomicU64,
    pub headers_written: AtomicU64,
    pub commits: AtomicU64,
}

pub(crate) struct Inner<S: Storage> {
    pub storage: S,
    pub name: Arc<str>,
    pub options: Options,
    /// Why the store can only be read, if so.
    pub refuses_changes: Option<String>,
    pub cache: NodeCache,
    /// Taken before `state`.
    pub writer: Mutex<Writer>,
    /// Held for reading while a document is read through the index, and for writing while one is shared over.
    pub state: RwLock<State<S::File>>,
    pub compacting: AtomicBool,
    pub counters: Counters,
    /// Held until the files above are closed.
    pub _lock: S::Lock,
}

/// The file that will replace `name`.
pub(crate) fn compact_name(name: &str) -> String {
    format!("{name}.compact")
}

impl<S: Storage> Inner<S> {
    /// Refuses a change of a store that can only be read.
    pub fn check_changes(&self) -> Result<(), Error> {
        let refused = |why: &String| Error::ReadOnly { name: self.name.to_string(), why: why.clone() };
        self.refuses_changes.as_ref().map_or(Ok(()), |why| Err(refused(why)))
    }

    pub fn by_key<'a>(&'a self, version: &'a Version<S::File>) -> Tree<'a, S::File> {
        Tree { file: &version.file, cache: &self.cache, root: version.header.by_key }
    }

    pub fn by_seq<'a>(&'a self, version: &'a Version<S::File>) -> Tree<'a, S::File> {
        Tree { file: &version.file, cache: &self.cache, root: version.header.by_seq }
    }

    /// The index entry of a key.
    pub fn pointer(&self, version: &Version<S::File>, key: &[u8]) -> Result<Option<Pointer>, Error> {
        let Some(found) = self.by_key(version).get(key, Pointer::decode)? else { return Ok(None) };
        let bad = || version.file.damaged(version.header.by_key.unwrap_or(0), "an entry by key is not valid");
        found.ok_or_else(bad).map(Some)
    }

    pub fn get(&self, version: &Version<S::File>, key: &[u8]) -> Result<Option<Document>, Error> {
        document::check(key, &[])?;
        let Some(pointer) = self.pointer(version, key)?.filter(|pointer| !pointer.deleted) else {
            return Ok(None);
        };
        self.document_of(version, key, pointer).map(Some)
    }

    /// Reads the document of an index entry.
    pub fn document_of(
        &self,
        version: &Version<S::File>,
        key: &[u8],
        pointer: Pointer,
    ) -> Result<Document, Error> {
        let document = version.file.read_document(pointer)?;
        if document.key() != key {
            return Err(version.file.damaged(pointer.offset, "the document of another key is here"));
        }
        version.is_known(&document, pointer)?;
        Ok(document)
    }

    pub fn statistics(&self) -> Statistics {
        use std::sync::atomic::Ordering::Relaxed;
        let state = self.state.read();
        let header = &state.version.header;
        let fixed_bytes = UNIT_BYTES as u64 * (u64::from(header.stage_units) + 2);
        Statistics {
            documents: header.documents,
            seq: state.version.seq,
            file_bytes: header.end(),
            live_bytes: header.live_bytes + header.live_nodes * UNIT_BYTES as u64 + fixed_bytes,
            documents_appended: self.counters.documents_appended.load(Relaxed),
            documents_shared: self.counters.documents_shared.load(Relaxed),
            nodes_written: self.counters.nodes_written.load(Relaxed),
            headers_written: self.counters.headers_written.load(Relaxed),
            commits: self.counters.commits.load(Relaxed),
        }
    }

    /// Whether the file's updates can be shared, and how many units at once.
    pub fn share_units(&self, version: &Version<S::File>) -> u32 {
        match (self.options.way, version.header.shares) {
            (Way::Share, true) => version.file.file.share_units().min(version.header.stage_units),
            _ => 0,
        }
    }
}
