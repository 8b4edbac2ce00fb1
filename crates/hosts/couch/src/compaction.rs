//! Copies a store's contents to a file without garbage, while others read and write.
//!
//! 1. A snapshot determines what is copied. Documents are taken in the order of their places, so that they are read in long
//!    runs. They are copied, or, if both files share, shared unit by unit, which writes nothing.
//! 2. A new index is built, of full nodes.
//! 3. Changes made meanwhile are carried over in rounds; each leaves fewer of them.
//! 4. The writer waits while the last changes are carried over and the new file is made durable. Then the file takes
//!    over the name, and that is made durable too before anything is committed to it.
//!
//! Power may fail at any time: until the name is taken, only the old file counts, and the next open removes the other.
//! Snapshots of the old file remain valid.
//!
//! It takes 40 bytes of memory for each document.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tantalum_canaries::guard;

use crate::commit::Planned;
use crate::data_file::{DataFile, Pointer, seq_key};
use crate::document::{Change, Document, pad, whole_units};
use crate::error::Error;
use crate::header::Header;
use crate::inner::{Inner, Version, Writer, compact_name};
use crate::node::KeyValue;
use crate::recovery;
use crate::snapshot::Snapshot;
use crate::storage::{Storage, StorageFile, UNIT_BYTES};
use crate::tree_write::{Appended, Builder};

const UNIT: u64 = UNIT_BYTES as u64;

/// Bytes that are read or written at once.
const RUN_BYTES: u64 = 256 * UNIT;

/// Garbage between two documents up to this size is read with them rather than skipped.
const GAP_BYTES: u64 = 8 * UNIT;

/// Changes carried over at once.
const CHANGES_AT_ONCE: usize = 256;

/// When at most this many changes are left, the writer waits for the last round.
const FEW_CHANGES: u64 = 64;

/// After this many rounds, the writer waits in any case.
const MOST_ROUNDS: u32 = 8;

/// A document being moved.
struct Moved {
    from: u64,
    to: u64,
    seq: u64,
    bytes: u32,
    deleted: bool,
}

/// A compaction in progress. If it is dropped before [`Compaction::finish`], the store stays as it is. Until then the store
/// is open, and cannot be opened again.
pub struct Compaction<S: Storage> {
    inner: Arc<Inner<S>>,
    /// Until the index is built.
    snapshot: Option<Arc<Snapshot<S>>>,
    /// The file that compaction writes.
    version: Version<S::File>,
    /// In the order of their places.
    documents: Vec<Moved>,
    done: usize,
    appended: Appended,
    switched: bool,
}

impl<S: Storage> std::fmt::Debug for Compaction<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compaction")
            .field("documents", &self.documents.len())
            .field("done", &self.done)
            .finish_non_exhaustive()
    }
}

impl<S: Storage> Compaction<S> {
    pub(crate) fn begin(inner: &Arc<Inner<S>>, forget_deletions_to: u64) -> Result<Compaction<S>, Error> {
        inner.check_changes()?;
        if inner.compacting.swap(true, Ordering::AcqRel) {
            return Err(Error::CompactionUnderWay);
        }
        Compaction::begin_alone(inner, forget_deletions_to).inspect_err(|_| {
            inner.compacting.store(false, Ordering::Release);
        })
    }

    fn begin_alone(inner: &Arc<Inner<S>>, forget_deletions_to: u64) -> Result<Compaction<S>, Error> {
        // units still shared by a file removed earlier count against the drive's limit
        inner.storage.sync_names()?;
        let snapshot = Snapshot::open(inner);
        let file = recovery::create(&inner.storage, &compact_name(&inner.name), &inner.options)?;
        let found = recovery::recover(file, &inner.name, &inner.cache, false)?;
        debug_assert_eq!((found.header.documents, found.pending.len()), (0, 0), "documents of a new file");
        let (file, header) = (Arc::new(found.file), found.header);
        let documents = documents_of(&snapshot, forget_deletions_to)?;
        Ok(Compaction {
            inner: Arc::clone(inner),
            snapshot: Some(Arc::new(snapshot)),
            appended: Appended::at(header.end()),
            version: Version { file, header, seq: 0 },
            documents,
            done: 0,
            switched: false,
        })
    }

    /// Documents to be copied or shared, and how many are done.
    pub fn progress(&self) -> (u64, u64) {
        (self.documents.len() as u64, self.done as u64)
    }

    /// Moves this many more documents. False once all have been moved.
    pub fn step(&mut self, documents: usize) -> Result<bool, Error> {
        let end = self.documents.len().min(self.done.saturating_add(documents));
        let Some(snapshot) = self.snapshot.clone() else { return Ok(false) };
        let shares = snapshot.version.header.shares && self.version.header.shares;
        while self.done < end {
            let run = if shares { self.share_run(&snapshot, end)? } else { self.copy_run(&snapshot, end)? };
            self.done += run;
            assert!(
                run > 0 && self.done <= end,
                "{} documents are done of {end}, {run} of them now",
                self.done
            );
        }
        Ok(self.done < self.documents.len())
    }

    /// Shares adjacent documents; returns how many.
    fn share_run(&mut self, snapshot: &Snapshot<S>, end: usize) -> Result<usize, Error> {
        let to = self.appended.end();
        let from = self.documents[self.done].from;
        let (mut bytes, mut run) = (0, 0);
        for document in &mut self.documents[self.done..end] {
            if document.from != from + bytes || bytes >= RUN_BYTES {
                break;
            }
            document.to = to + bytes;
            bytes += whole_units(document.bytes.into());
            run += 1;
        }
        let waiting = self.appended.buffer.len();
        assert_eq!(waiting, 0, "bytes that wait to be written where documents are shared to");
        let file = &self.version.file;
        file.reserve(to + bytes)?;
        file.file.copy_from(&snapshot.version.file.file, from, to, bytes)?;
        self.appended.start += bytes;
        Ok(run)
    }

    /// Copies documents that are close to each other; returns how many.
    fn copy_run(&mut self, snapshot: &Snapshot<S>, end: usize) -> Result<usize, Error> {
        let start = self.documents[self.done].from / UNIT * UNIT;
        let end_of = |document: &Moved| whole_units(document.from + u64::from(document.bytes));
        let mut run_end = end_of(&self.documents[self.done]);
        let mut run = 1;
        for document in &self.documents[self.done + 1..end] {
            if document.from > run_end + GAP_BYTES || end_of(document) - start > RUN_BYTES {
                break;
            }
            run_end = run_end.max(end_of(document));
            run += 1;
        }
        let file = &snapshot.version.file;
        let mut units = vec![0; (run_end - start) as usize];
        file.file.read(start, &mut units)?;
        for document in &mut self.documents[self.done..self.done + run] {
            let record = Document::decode(&units[(document.from - start) as usize..])
                .map_err(|what| file.damaged(document.from, what))?;
            if self.version.header.shares {
                pad(&mut self.appended.buffer);
            }
            document.to = self.appended.end();
            document.bytes = record.record_bytes() as u32;
            change_of(&record).encode(document.to, &mut self.appended.buffer);
        }
        self.appended.flush(&self.version.file, RUN_BYTES)?;
        Ok(run)
    }

    /// Does what [`Compaction::finish`] can do while others commit: moves what is left, builds the index, and carries over what
    /// changed meanwhile.
    pub fn prepare(&mut self) -> Result<(), Error> {
        while self.step(1024)? {}
        if self.snapshot.is_some() {
            self.build_index()?;
        }
        let inner = Arc::clone(&self.inner);
        for _ in 0..MOST_ROUNDS {
            if self.catch_up(&Snapshot::open(&inner))? <= FEW_CHANGES {
                break;
            }
        }
        Ok(())
    }

    /// Prepares the new file, carries over the last changes, and replaces the old file with the new one.
    pub fn finish(mut self) -> Result<(), Error> {
        self.prepare()?;
        let inner = Arc::clone(&self.inner);
        let mut writer = inner.writer.lock();
        if writer.stopped {
            return Err(Error::Stopped);
        }
        self.catch_up(&Snapshot::open(&inner))?;
        guard!(CompactedNotSynced, self.version.file.file.sync()?);
        self.switch(&mut writer)
    }

    fn build_index(&mut self) -> Result<(), Error> {
        // once it is dropped at the end, updates can be shared again
        let snapshot = self.snapshot.take().expect("it is kept until the index is built");
        let (done, all) = (self.done, self.documents.len());
        assert_eq!(done, all, "documents that were moved, and all of them, when the index is built");
        pad(&mut self.appended.buffer);
        let mut header = self.version.header;
        (header.documents, header.live_bytes, header.live_nodes) = (0, 0, 0);
        let inner = Arc::clone(&self.inner);
        let tree = inner.by_key(&snapshot.version);
        let mut cursor = tree.cursor(Bound::Unbounded)?;
        let mut by_key = Builder::new();
        let mut entries = 0;
        while let Some((key, pointer)) = snapshot.next_entry(&tree, &mut cursor)? {
            let Ok(place) = self.documents.binary_search_by_key(&pointer.offset, |moved| moved.from) else {
                continue;
            };
            entries += 1;
            let pointer = self.documents[place].pointer();
            by_key.push(KeyValue { key, value: pointer.encode() }, &mut self.appended);
            header.documents += u64::from(!pointer.deleted);
            header.live_bytes += pointer.room_bytes(header.shares);
            header.live_nodes += self.flush_nodes(RUN_BYTES)?;
        }
        debug_assert_eq!(entries, all, "documents that the new index by key has, and those that were moved");
        header.by_key = by_key.finish(&mut self.appended);
        header.live_nodes += self.flush_nodes(RUN_BYTES)?;
        self.documents.sort_unstable_by_key(|moved| moved.seq);
        let mut by_seq = Builder::new();
        for index in 0..self.documents.len() {
            let place = self.documents[index].pointer();
            let entry = KeyValue { key: seq_key(place.seq), value: place.encode_place() };
            by_seq.push(entry, &mut self.appended);
            header.live_nodes += self.flush_nodes(RUN_BYTES)?;
        }
        self.documents = Vec::new();
        header.by_seq = by_seq.finish(&mut self.appended);
        header.live_nodes += self.flush_nodes(0)?;
        let waiting = (self.appended.nodes.len(), self.appended.buffer.len());
        assert_eq!(waiting, (0, 0), "nodes and bytes that wait while a header goes behind them");
        header.offset = self.appended.end();
        (header.covers_from, header.covers_crc) = (header.offset, 0);
        (header.seq_before, header.seq) = (snapshot.seq(), snapshot.seq());
        self.write_header(header)
    }

    /// Ends the new file with a header, which is then its state.
    fn write_header(&mut self, header: Header) -> Result<(), Error> {
        self.version.file.reserve(header.end())?;
        self.version.file.file.write(header.offset, &header.encode()[..])?;
        (self.version.header, self.version.seq) = (header, header.seq);
        Ok(())
    }

    /// Writes the waiting nodes if they have at least this many bytes; returns how many there were.
    fn flush_nodes(&mut self, least: u64) -> Result<u64, Error> {
        if self.appended.buffer.is_empty() || (self.appended.buffer.len() as u64) < least {
            return Ok(0);
        }
        self.appended.flush(&self.version.file, least)?;
        let nodes = std::mem::take(&mut self.appended.nodes);
        let written = nodes.len() as u64;
        for (offset, node) in nodes {
            self.inner.cache.put((self.version.file.id, offset), node);
        }
        Ok(written)
    }

    /// Carries over later changes; returns how many there were.
    fn catch_up(&mut self, snapshot: &Snapshot<S>) -> Result<u64, Error> {
        let mut carried = 0;
        let mut changes = snapshot.changes(self.version.seq)?;
        loop {
            let some = changes.by_ref().take(CHANGES_AT_ONCE).collect::<Result<Vec<_>, Error>>()?;
            if some.is_empty() {
                break;
            }
            carried += some.len() as u64;
            self.carry_over(&some)?;
        }
        debug_assert_eq!(
            self.version.seq,
            snapshot.seq(),
            "the last change of the new file, and of the store"
        );
        let documents = self.version.header.documents;
        debug_assert_eq!(documents, snapshot.len(), "documents of the new file, and of the store");
        Ok(carried)
    }

    fn carry_over(&mut self, documents: &[Document]) -> Result<(), Error> {
        let inner = Arc::clone(&self.inner);
        let mut planned = Vec::with_capacity(documents.len());
        for document in documents {
            let old = inner.pointer(&self.version, document.key())?;
            planned.push(Planned { change: change_of(document), old, shared: false });
        }
        let mut appended = Appended::at(self.version.header.end());
        let written = inner.write_index(&self.version, &[], &planned, &mut appended)?;
        appended.buffer.extend_from_slice(&written.header.encode()[..]);
        self.version.file.reserve(written.header.end())?;
        self.version.file.file.write(appended.start, &appended.buffer)?;
        for (offset, node) in appended.nodes {
            inner.cache.put((self.version.file.id, offset), node);
        }
        (self.version.header, self.version.seq) = (written.header, written.header.seq);
        Ok(())
    }

    /// Gives the new file the store's name, and switches everyone to it.
    fn switch(&mut self, writer: &mut Writer) -> Result<(), Error> {
        let inner = &self.inner;
        let renamed = inner.storage.rename(&compact_name(&inner.name), &inner.name);
        let durable = renamed.and_then(|()| guard!(SwitchNotDurable, inner.storage.sync_names()));
        self.switched = true;
        if let Err(error) = durable {
            // the old file may have no name by now
            writer.stopped = true;
            return Err(error.into());
        }
        let file: Arc<DataFile<S::File>> = Arc::clone(&self.version.file);
        let (header, seq) = (self.version.header, self.version.seq);
        let mut state = inner.state.write();
        debug_assert_eq!(
            state.version.seq, seq,
            "the last change of the store, and of the file that replaces it"
        );
        assert_ne!(state.version.file.id, file.id, "the file is replaced by itself");
        inner.cache.forget(state.version.file.id);
        state.version = Arc::new(Version { file, header, seq });
        state.pending.clear();
        state.snapshots = 0;
        state.opened += 1;
        state.unseen.clear();
        state.assert_invariants();
        writer.stage_used = 0;
        Ok(())
    }
}

impl<S: Storage> Drop for Compaction<S> {
    fn drop(&mut self) {
        if !self.switched {
            // if it cannot be removed now, the next open does
            let _ = self.inner.storage.remove(&compact_name(&self.inner.name));
        }
        self.inner.compacting.store(false, Ordering::Release);
    }
}

impl Moved {
    fn pointer(&self) -> Pointer {
        Pointer { offset: self.to, bytes: self.bytes, seq: self.seq, deleted: self.deleted }
    }
}

impl Appended {
    /// Writes the waiting whole units if they have at least this many bytes.
    fn flush<F: StorageFile>(&mut self, file: &DataFile<F>, least: u64) -> Result<(), Error> {
        if (self.buffer.len() as u64) < least {
            return Ok(());
        }
        let whole = self.buffer.len() / UNIT_BYTES * UNIT_BYTES;
        file.reserve(self.start + whole as u64)?;
        file.file.write(self.start, &self.buffer[..whole])?;
        self.buffer.drain(..whole);
        self.start += whole as u64;
        Ok(())
    }
}

fn change_of(document: &Document) -> Change<'_> {
    let value = (!document.is_deleted()).then(|| document.value());
    Change { seq: document.seq(), key: document.key(), value }
}

/// The documents that a snapshot sees, in the order of their places, each with its last change.
fn documents_of<S: Storage>(snapshot: &Snapshot<S>, forget_deletions_to: u64) -> Result<Vec<Moved>, Error> {
    let mut documents = Vec::with_capacity(snapshot.len() as usize);
    let by_key = snapshot.inner.by_key(&snapshot.version);
    let mut cursor = by_key.cursor(Bound::Unbounded)?;
    while let Some((_, pointer)) = snapshot.next_entry(&by_key, &mut cursor)? {
        let Pointer { offset, bytes, seq, deleted } = pointer;
        if !deleted || seq > forget_deletions_to {
            documents.push(Moved { from: offset, to: 0, seq, bytes, deleted });
        }
    }
    documents.sort_unstable_by_key(|moved| moved.from);
    // a document shared over since its entry was written has a later change, which only the other tree knows
    let mut update = |place: Pointer| {
        if let Ok(index) = documents.binary_search_by_key(&place.offset, |moved| moved.from) {
            documents[index].seq = documents[index].seq.max(place.seq);
        }
    };
    let by_seq = snapshot.inner.by_seq(&snapshot.version);
    let mut cursor = by_seq.cursor(Bound::Unbounded)?;
    while let Some(place) = snapshot.next_change(&by_seq, &mut cursor)? {
        update(place);
    }
    for pending in &snapshot.pending {
        update(Pointer { seq: pending.seq, ..pending.place });
    }
    Ok(documents)
}
