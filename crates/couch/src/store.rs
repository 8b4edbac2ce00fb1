//! A store: one file, its writer, its readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashSet;

use crate::batch::Batch;
use crate::cache::NodeCache;
use crate::compaction::Compaction;
use crate::data_file::{DataFile, Pointer};
use crate::document::{self, Document};
use crate::error::Error;
use crate::header::Header;
use crate::recovery;
use crate::snapshot::Snapshot;
use crate::storage::{Storage, StorageFile, UNIT_BYTES};
use crate::tree::Tree;

/// How updates and compaction are done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Way {
    /// By sharing, if the storage can share.
    #[default]
    Share,
    /// By appending only, as on any file system: documents without gaps, and the path to the root with each commit.
    Original,
}

/// How a store is opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// How updates are done. A file created the original way is updated that way until it is compacted.
    pub way: Way,
    /// Bytes of index nodes kept in memory.
    pub cache_bytes: usize,
    /// Units of the staging area of a file that shares, which limits the shared updates between two headers. At least 4.
    pub stage_units: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { way: Way::Share, cache_bytes: 64 << 20, stage_units: 512 }
    }
}

/// Counters since the store was opened, and what its file contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Number of documents.
    pub documents: u64,
    /// The last change.
    pub seq: u64,
    /// Bytes of the file up to its last header.
    pub file_bytes: u64,
    /// Bytes of these that the last header reaches (documents and nodes), and the staging area.
    pub live_bytes: u64,
    /// Documents appended, including deletions.
    pub documents_appended: u64,
    /// Documents shared over their predecessors.
    pub documents_shared: u64,
    /// Nodes of the index written.
    pub nodes_written: u64,
    /// Headers written.
    pub headers_written: u64,
    /// Commits of any kind.
    pub commits: u64,
}

impl Statistics {
    /// The share of the file that a compaction would free, in percent.
    pub fn garbage_percent(&self) -> f64 {
        100.0 * (1.0 - self.live_bytes as f64 / self.file_bytes.max(1) as f64)
    }
}

/// What a reader sees: a file, and its state.
pub(crate) struct Version<F> {
    pub file: Arc<DataFile<F>>,
    pub header: Header,
    /// The last change: the header's, or one shared since.
    pub seq: u64,
}

impl<F: StorageFile> Version<F> {
    /// Refuses a document that was shared over after the last change: the header that tells of it was lost, or a share
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
    pub cache: NodeCache,
    /// Taken before `state`.
    pub writer: Mutex<Writer>,
    /// Held for reading while a document is read through the index, and for writing while one is shared over.
    pub state: RwLock<State<S::File>>,
    pub compacting: AtomicBool,
    pub counters: Counters,
    /// Held until the files above are closed.
    _lock: S::Lock,
}

/// A document store. Clones are the same store. Any thread may read and write; commits are serial.
pub struct Store<S: Storage> {
    pub(crate) inner: Arc<Inner<S>>,
}

impl<S: Storage> Clone for Store<S> {
    fn clone(&self) -> Self {
        Store { inner: Arc::clone(&self.inner) }
    }
}

impl<S: Storage> std::fmt::Debug for Store<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("name", &self.inner.name).finish_non_exhaustive()
    }
}

impl<S: Storage> Store<S> {
    /// Opens the store in the file `name`, or creates it. Leftovers of an interrupted compaction are removed. Refused while
    /// it is open already.
    pub fn open(storage: S, name: &str, options: Options) -> Result<Store<S>, Error> {
        let options = Options { stage_units: options.stage_units.max(4), ..options };
        if name.ends_with(&compact_name("")) {
            let why = "a name that ends so is a compaction's";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why).into());
        }
        let lock = storage.lock(name)?;
        storage.remove(&compact_name(name))?;
        let name: Arc<str> = name.into();
        let file = match storage.open(&name)? {
            Some(file) => file,
            None => {
                let made = recovery::create(&storage, &compact_name(&name), &options)?;
                made.sync()?;
                storage.rename(&compact_name(&name), &name)?;
                storage.sync_names()?;
                made
            }
        };
        // a process that was killed may have left a commit, or a compacted file's name, that is visible and not durable
        storage.sync_names()?;
        file.sync()?;
        let cache = NodeCache::new(options.cache_bytes);
        let found = recovery::recover(file, &name, &cache)?;
        recovery::clear_unfinished(&found.file.file, &found.header)?;
        let seq = found.pending.last().map_or(found.header.seq, |last| last.seq);
        let version = Arc::new(Version { file: Arc::new(found.file), header: found.header, seq });
        let state =
            State { version, pending: found.pending, snapshots: 0, opened: 0, unseen: FxHashSet::default() };
        Ok(Store {
            inner: Arc::new(Inner {
                storage,
                name,
                options,
                cache,
                writer: Mutex::new(Writer { stage_used: found.stage_used, stopped: false }),
                state: RwLock::new(state),
                compacting: AtomicBool::new(false),
                counters: Counters::default(),
                _lock: lock,
            }),
        })
    }

    /// The document of a key, as the last commit left it.
    pub fn get(&self, key: &[u8]) -> Result<Option<Document>, Error> {
        let state = self.inner.state.read();
        self.inner.get(&state.version, key)
    }

    /// Creates or replaces a document, as a commit of one change. Returns its number.
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        let mut batch = Batch::new();
        batch.put(key, value)?;
        self.commit(&batch)
    }

    /// Deletes a document, as a commit of one change. Returns the number of the last change.
    pub fn delete(&self, key: &[u8]) -> Result<u64, Error> {
        let mut batch = Batch::new();
        batch.delete(key)?;
        self.commit(&batch)
    }

    /// Makes all changes of a batch, or none; on return they are durable. Returns the number of the last change.
    pub fn commit(&self, batch: &Batch) -> Result<u64, Error> {
        self.inner.commit(batch)
    }

    /// The store as it is now, whatever happens to it later. Costs no I/O. While a snapshot is open, the first update of each document
    /// takes the original way.
    pub fn snapshot(&self) -> Snapshot<S> {
        Snapshot::open(&self.inner)
    }

    /// Copies the store's contents to a file without garbage, which replaces the current one. Others can read and write
    /// meanwhile, except during the switch.
    pub fn compact(&self) -> Result<(), Error> {
        let mut compaction = self.compaction(0)?;
        while compaction.step(1024)? {}
        compaction.finish()
    }

    /// A compaction in steps. Deletions up to the change `forget_deletions_to` (`u64::MAX` for all) are forgotten:
    /// [`Snapshot::changes`] no longer returns them. [`Store::compact`] forgets none.
    pub fn compaction(&self, forget_deletions_to: u64) -> Result<Compaction<S>, Error> {
        Compaction::begin(&self.inner, forget_deletions_to)
    }

    /// Counters, and what the file contains.
    pub fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    /// Where the store's files are.
    pub fn storage(&self) -> &S {
        &self.inner.storage
    }
}

/// The file that will replace `name`.
pub(crate) fn compact_name(name: &str) -> String {
    format!("{name}.compact")
}

impl<S: Storage> Inner<S> {
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

    fn statistics(&self) -> Statistics {
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
