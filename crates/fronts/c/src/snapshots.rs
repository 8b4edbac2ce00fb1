//! Snapshots of a document store, and walks over them. Either belongs to one thread at a time, and keeps its store open.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::Arc;

use tantalum_couch::{Document, Error, Folder, Snapshot};

use crate::call::{Refusal, TANTALUM_NOT_FOUND, bytes_of, free, null, run, store};
use crate::documents::{get_document, tantalum_documents};

/// Documents that a walk reads ahead.
const AHEAD: usize = 64;

/// The documents as of one point in time.
#[allow(non_camel_case_types)]
pub struct tantalum_snapshot(Arc<Snapshot<Folder>>);

/// A walk over documents or changes of a snapshot.
#[allow(non_camel_case_types)]
pub struct tantalum_walk {
    snapshot: Arc<Snapshot<Folder>>,
    next: Next,
    ahead: VecDeque<Document>,
    current: Option<Document>,
}

/// Where a walk continues.
enum Next {
    /// With the documents after a key, up to another.
    Keys { from: Bound<Vec<u8>>, to: Bound<Vec<u8>> },
    /// With the changes after a number.
    Changes { since: u64 },
}

impl tantalum_walk {
    /// The next document. It stays valid until the one after it is asked for.
    fn advance(&mut self) -> Result<Option<&Document>, Error> {
        if self.ahead.is_empty() {
            self.read_ahead()?;
        }
        self.current = self.ahead.pop_front();
        Ok(self.current.as_ref())
    }

    fn read_ahead(&mut self) -> Result<(), Error> {
        self.ahead = match &self.next {
            Next::Keys { from, to } => self
                .snapshot
                .range::<Vec<u8>, _>((from.as_ref(), to.as_ref()))?
                .take(AHEAD)
                .collect::<Result<_, _>>()?,
            Next::Changes { since } => {
                self.snapshot.changes(*since)?.take(AHEAD).collect::<Result<_, _>>()?
            }
        };
        if let Some(last) = self.ahead.back() {
            match &mut self.next {
                Next::Keys { from, .. } => *from = Bound::Excluded(last.key().to_vec()),
                Next::Changes { since } => *since = last.seq(),
            }
        }
        Ok(())
    }
}

/// Opens a snapshot of the current documents. While it is open, the first update of each document takes more writes.
///
/// # Safety
/// `documents` is open; `snapshot` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_snapshot_open(
    documents: *const tantalum_documents,
    snapshot: *mut *mut tantalum_snapshot,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (documents, snapshot) = unsafe {
            (documents.as_ref().ok_or(null("documents"))?, snapshot.as_mut().ok_or(null("snapshot"))?)
        };
        *snapshot = Box::into_raw(Box::new(tantalum_snapshot(Arc::new(documents.0.snapshot()))));
        Ok(())
    })
}

/// Reads a document of a snapshot, as `tantalum_documents_get` does.
///
/// # Safety
/// `snapshot` is open; `key` has `key_bytes` bytes, `value` room for `capacity`; `value_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_snapshot_get(
    snapshot: *const tantalum_snapshot,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    capacity: usize,
    value_bytes: *mut usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        unsafe {
            let snapshot = snapshot.as_ref().ok_or(null("snapshot"))?;
            get_document(|key| snapshot.0.get(key), (key, key_bytes), (value, capacity), value_bytes)
        }
    })
}

/// Closes a snapshot; null is allowed.
///
/// # Safety
/// `snapshot` is from `tantalum_snapshot_open`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_snapshot_close(snapshot: *mut tantalum_snapshot) -> i32 {
    // SAFETY: by the caller's promise.
    run(|| unsafe { free(snapshot) })
}

/// Begins a walk over documents in the order of their keys: from a key up to but not including another. A null key means no
/// limit.
///
/// # Safety
/// `snapshot` is open; keys that are not null have as many bytes as said; `walk` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_walk_keys(
    snapshot: *const tantalum_snapshot,
    from: *const u8,
    from_bytes: usize,
    to: *const u8,
    to_bytes: usize,
    walk: *mut *mut tantalum_walk,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (from, to) = unsafe {
            let from = (!from.is_null()).then(|| bytes_of(from, from_bytes, "from")).transpose()?;
            (from, (!to.is_null()).then(|| bytes_of(to, to_bytes, "to")).transpose()?)
        };
        let from = from.map_or(Bound::Unbounded, |key| Bound::Included(key.to_vec()));
        let to = to.map_or(Bound::Unbounded, |key| Bound::Excluded(key.to_vec()));
        // SAFETY: the caller's promises are those of this function.
        unsafe { begin_walk(snapshot, Next::Keys { from, to }, walk) }
    })
}

/// Begins a walk over the last change of each document that was changed after the change `since`, in their order.
///
/// # Safety
/// `snapshot` is open; `walk` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_walk_changes(
    snapshot: *const tantalum_snapshot,
    since: u64,
    walk: *mut *mut tantalum_walk,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe { begin_walk(snapshot, Next::Changes { since }, walk) })
}

/// The next document of a walk: its key and value, which stay valid until the next call for this walk, the number of
/// its last change, and whether that deleted it. `TANTALUM_NOT_FOUND` after the last one. Any of the results may be
/// null.
///
/// # Safety
/// `walk` is open; the results that are not null can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_walk_next(
    walk: *mut tantalum_walk,
    key: *mut *const u8,
    key_bytes: *mut usize,
    value: *mut *const u8,
    value_bytes: *mut usize,
    number: *mut u64,
    deleted: *mut bool,
) -> i32 {
    run(|| {
        // SAFETY: by the caller's promise.
        let walk = unsafe { walk.as_mut() }.ok_or(null("walk"))?;
        let document = walk.advance()?.ok_or(Refusal(TANTALUM_NOT_FOUND, "no more documents".to_owned()))?;
        // SAFETY: what is not null can be written.
        unsafe {
            store(key, document.key().as_ptr());
            store(key_bytes, document.key().len());
            store(value, document.value().as_ptr());
            store(value_bytes, document.value().len());
            store(number, document.seq());
            store(deleted, document.is_deleted());
        }
        Ok(())
    })
}

/// Ends a walk; null is allowed.
///
/// # Safety
/// `walk` is from `tantalum_walk_keys` or `tantalum_walk_changes`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_walk_end(walk: *mut tantalum_walk) -> i32 {
    // SAFETY: by the caller's promise.
    run(|| unsafe { free(walk) })
}

/// # Safety
/// `snapshot` is null or open; `walk` is null or can be written.
unsafe fn begin_walk(
    snapshot: *const tantalum_snapshot,
    next: Next,
    walk: *mut *mut tantalum_walk,
) -> Result<(), Refusal> {
    // SAFETY: by the caller's promise.
    let (snapshot, walk) =
        unsafe { (snapshot.as_ref().ok_or(null("snapshot"))?, walk.as_mut().ok_or(null("walk"))?) };
    let begun =
        tantalum_walk { snapshot: Arc::clone(&snapshot.0), next, ahead: VecDeque::new(), current: None };
    *walk = Box::into_raw(Box::new(begun));
    Ok(())
}
