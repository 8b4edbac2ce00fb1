//! A store: one file, its writer, its readers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashSet;

use crate::batch::Batch;
use crate::cache::NodeCache;
use crate::compaction::Compaction;
use crate::document::Document;
use crate::error::Error;
use crate::inner::{Counters, Inner, State, Version, Writer, compact_name};
use crate::options::{Options, Statistics};
use crate::recovery;
use crate::snapshot::Snapshot;
use crate::storage::{Storage, StorageFile};

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
    /// it is open already. Storage that takes no changes is left as it is, and the store can only be read
    /// ([`Store::refuses_changes`]): also what nothing makes durable any more, such as a commit that failed with the storage.
    pub fn open(storage: S, name: &str, options: Options) -> Result<Store<S>, Error> {
        let options = Options { stage_units: options.stage_units.max(4), ..options };
        if name.ends_with(&compact_name("")) {
            let why = "a name that ends so is a compaction's";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why).into());
        }
        let lock = storage.lock(name)?;
        let refuses_changes = storage.refuses_changes();
        if refuses_changes.is_none() {
            storage.remove(&compact_name(name))?;
        }
        let name: Arc<str> = name.into();
        let file = match (storage.open(&name)?, &refuses_changes) {
            (Some(file), _) => file,
            (None, None) => create(&storage, &name, &options)?,
            (None, Some(why)) => return Err(no_store(&name, why).into()),
        };
        // a process that was killed may have left a commit, or a compacted file's name, that is visible and not durable
        let synced = storage.sync_names().and_then(|()| file.sync());
        if refuses_changes.is_none() {
            synced?;
        }
        let cache = NodeCache::new(options.cache_bytes);
        let found = recovery::recover(file, &name, &cache, storage.has_failed())?;
        if refuses_changes.is_none() {
            recovery::clear_unfinished(&found.file.file, &found.header)?;
        }
        let seq = found.pending.last().map_or(found.header.seq, |last| last.seq);
        let version = Arc::new(Version { file: Arc::new(found.file), header: found.header, seq });
        let state =
            State { version, pending: found.pending, snapshots: 0, opened: 0, unseen: FxHashSet::default() };
        state.assert_invariants();
        let (staged, room) = (found.stage_used, state.version.header.stage_units);
        assert!(staged <= room, "{staged} units of the staging area are in use, it has {room}");
        Ok(Store {
            inner: Arc::new(Inner {
                storage,
                name,
                options,
                refuses_changes,
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

    /// Why the store can only be read, if so: its storage took no changes when it was opened. Changes fail with
    /// [`Error::ReadOnly`].
    pub fn refuses_changes(&self) -> Option<&str> {
        self.inner.refuses_changes.as_deref()
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

fn no_store(name: &str, why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("there is no {name}, and it cannot be created: {why}"))
}

/// Creates a store, which gets its name once it is durable.
fn create<S: Storage>(storage: &S, name: &str, options: &Options) -> Result<S::File, Error> {
    let made = recovery::create(storage, &compact_name(name), options)?;
    made.sync()?;
    storage.rename(&compact_name(name), name)?;
    storage.sync_names()?;
    Ok(made)
}
