//! The document store. A store can be shared by all threads; a batch, a snapshot or a walk belongs to one at a time. A
//! snapshot and a walk keep their store open.

use std::collections::VecDeque;
use std::ffi::c_char;
use std::ops::Bound;
use std::sync::Arc;

use tantalum_couch::{Batch, Document, Error, Folder, Options, Snapshot, Store, Way};

use crate::call::{
    Refusal, TANTALUM_INVALID, TANTALUM_NOT_FOUND, TANTALUM_REFUSED, TANTALUM_STOPPED, bytes_of, copy_out,
    null, run, text_of,
};

/// Documents that a walk reads ahead.
const AHEAD: usize = 64;

/// A document store.
#[allow(non_camel_case_types)]
pub struct tantalum_documents(Store<Folder>);

/// Changes of documents, for one commit.
#[allow(non_camel_case_types)]
pub struct tantalum_batch(Batch);

/// The documents as they were at one time.
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
    /// With the documents behind a key, up to another.
    Keys { from: Bound<Vec<u8>>, to: Bound<Vec<u8>> },
    /// With the changes behind a number.
    Changes { since: u64 },
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let number = match &error {
            Error::BadKey { .. } | Error::ValueTooLarge { .. } => TANTALUM_INVALID,
            Error::Stopped => TANTALUM_STOPPED,
            Error::NotAStore { .. }
            | Error::OtherVersion { .. }
            | Error::Damaged { .. }
            | Error::CompactionUnderWay
            | Error::Io(_) => TANTALUM_REFUSED,
        };
        Refusal(number, error.to_string())
    }
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

/// Opens a document store: a file of that name in a folder, which is created if it does not exist. `share`: updates are
/// shared where the file system lets them. `cache_bytes`: memory for the index; 0 for the default.
///
/// # Safety
/// `folder` and `name` end with a zero; `documents` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_documents_open(
    folder: *const c_char,
    name: *const c_char,
    share: bool,
    cache_bytes: usize,
    documents: *mut *mut tantalum_documents,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (folder, name, documents) = unsafe {
            let documents = documents.as_mut().ok_or(null("documents"))?;
            (text_of(folder, "folder")?, text_of(name, "name")?, documents)
        };
        *documents = std::ptr::null_mut();
        let way = if share { Way::Share } else { Way::Original };
        let mut options = Options { way, ..Options::default() };
        if cache_bytes > 0 {
            options.cache_bytes = cache_bytes;
        }
        let folder = Folder::new(folder).map_err(Error::from)?;
        *documents = Box::into_raw(Box::new(tantalum_documents(Store::open(folder, name, options)?)));
        Ok(())
    })
}

/// Closes a store; null is allowed. Its folder can be opened again when its snapshots and walks are closed as well.
///
/// # Safety
/// `documents` is from `tantalum_documents_open`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_documents_close(documents: *mut tantalum_documents) -> i32 {
    // SAFETY: by the caller's promise.
    run(|| unsafe { free(documents) })
}

/// Reads a document into `value`, which has room for `capacity` bytes, and stores its length. With
/// `TANTALUM_SHORT_BUFFER` only the length is stored.
///
/// # Safety
/// `documents` is open; `key` has `key_bytes` bytes, `value` room for `capacity`; `value_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_documents_get(
    documents: *const tantalum_documents,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    capacity: usize,
    value_bytes: *mut usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        unsafe {
            let documents = documents.as_ref().ok_or(null("documents"))?;
            let value_bytes = value_bytes.as_mut().ok_or(null("value_bytes"))?;
            let found = documents.0.get(bytes_of(key, key_bytes, "key")?)?;
            copy_found(found, value, capacity, value_bytes)
        }
    })
}

/// Writes an index and documents that live to a new file, and removes the old one. Others can read and write meanwhile.
///
/// # Safety
/// `documents` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_documents_compact(documents: *const tantalum_documents) -> i32 {
    // SAFETY: by the caller's promise.
    run(|| Ok(unsafe { documents.as_ref() }.ok_or(null("documents"))?.0.compact()?))
}

/// The part of the file, in percent, that a compaction would free.
///
/// # Safety
/// `documents` is open; `percent` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_documents_garbage(
    documents: *const tantalum_documents,
    percent: *mut f64,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (documents, percent) = unsafe {
            (documents.as_ref().ok_or(null("documents"))?, percent.as_mut().ok_or(null("percent"))?)
        };
        *percent = documents.0.statistics().garbage_percent();
        Ok(())
    })
}

/// Makes an empty batch. It ends with `tantalum_documents_commit` or `tantalum_batch_free`.
///
/// # Safety
/// `batch` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_batch_new(batch: *mut *mut tantalum_batch) -> i32 {
    run(|| {
        // SAFETY: by the caller's promise.
        *unsafe { batch.as_mut() }.ok_or(null("batch"))? =
            Box::into_raw(Box::new(tantalum_batch(Batch::new())));
        Ok(())
    })
}

/// Adds a document to be made or updated.
///
/// # Safety
/// `batch` is open; `key` has `key_bytes` bytes and `value` has `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_batch_put(
    batch: *mut tantalum_batch,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (batch, key, value) = unsafe {
            let batch = batch.as_mut().ok_or(null("batch"))?;
            (batch, bytes_of(key, key_bytes, "key")?, bytes_of(value, value_bytes, "value")?)
        };
        Ok(batch.0.put(key, value)?)
    })
}

/// Adds a document to be deleted; it need not exist.
///
/// # Safety
/// `batch` is open; `key` has `key_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_batch_delete(
    batch: *mut tantalum_batch,
    key: *const u8,
    key_bytes: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (batch, key) =
            unsafe { (batch.as_mut().ok_or(null("batch"))?, bytes_of(key, key_bytes, "key")?) };
        Ok(batch.0.delete(key)?)
    })
}

/// Discards a batch; null is allowed.
///
/// # Safety
/// `batch` is from `tantalum_batch_new`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_batch_free(batch: *mut tantalum_batch) -> i32 {
    // SAFETY: by the caller's promise.
    run(|| unsafe { free(batch) })
}

/// Makes the changes of a batch visible and durable, all or nothing. The batch is gone, whatever the result. `number`
/// becomes that of the last change, unless it is null.
///
/// # Safety
/// `documents` is open; `batch` is from `tantalum_batch_new`, and is not used again; `number` is null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_documents_commit(
    documents: *const tantalum_documents,
    batch: *mut tantalum_batch,
    number: *mut u64,
) -> i32 {
    run(|| {
        if batch.is_null() {
            return Err(null("batch"));
        }
        // SAFETY: it was made by a Box, and nobody uses it again.
        let batch = unsafe { Box::from_raw(batch) };
        // SAFETY: by the caller's promise.
        let (documents, number) = unsafe { (documents.as_ref().ok_or(null("documents"))?, number.as_mut()) };
        let last = documents.0.commit(&batch.0)?;
        if let Some(number) = number {
            *number = last;
        }
        Ok(())
    })
}

/// Opens a snapshot of what is there now. While it is open, the first update of each document takes more writes.
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
            let value_bytes = value_bytes.as_mut().ok_or(null("value_bytes"))?;
            let found = snapshot.0.get(bytes_of(key, key_bytes, "key")?)?;
            copy_found(found, value, capacity, value_bytes)
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

/// Begins a walk over documents in the order of their keys: from a key, up to and without another. A null key is no limit.
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

/// The next document of a walk: its key and value, which stay until the next call for this walk, the number of its last
/// change, and whether that deleted it. `TANTALUM_NOT_FOUND` behind the last one. Any of the results may be null.
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

/// # Safety
/// `value` is null or has room for `capacity` bytes.
unsafe fn copy_found(
    found: Option<Document>,
    value: *mut u8,
    capacity: usize,
    value_bytes: &mut usize,
) -> Result<(), Refusal> {
    let found = found.ok_or(Refusal(TANTALUM_NOT_FOUND, "no such key".to_owned()))?;
    // SAFETY: by the caller's promise.
    unsafe { copy_out(found.value(), value, capacity, value_bytes) }
}

/// # Safety
/// `place` is null or can be written.
unsafe fn store<T>(place: *mut T, what: T) {
    if !place.is_null() {
        // SAFETY: by the caller's promise.
        unsafe { place.write(what) };
    }
}

/// # Safety
/// `made` is null or was made by a Box, and nobody uses it again.
unsafe fn free<T>(made: *mut T) -> Result<(), Refusal> {
    if !made.is_null() {
        // SAFETY: by the caller's promise.
        drop(unsafe { Box::from_raw(made) });
    }
    Ok(())
}
