//! The document store. A store can be shared by all threads; a batch belongs to one at a time.

use std::ffi::c_char;

use tantalum_couch::{Batch, Document, Error, Folder, Options, Store, Way};

use crate::call::{
    Refusal, TANTALUM_INVALID, TANTALUM_NOT_FOUND, TANTALUM_REFUSED, TANTALUM_STOPPED, bytes_of, copy_out,
    free, null, run, text_of,
};

/// A document store.
#[allow(non_camel_case_types)]
pub struct tantalum_documents(pub(crate) Store<Folder>);

/// Changes of documents, for one commit.
#[allow(non_camel_case_types)]
pub struct tantalum_batch(Batch);

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let number = match &error {
            Error::BadKey { .. } | Error::ValueTooLarge { .. } => TANTALUM_INVALID,
            Error::Stopped => TANTALUM_STOPPED,
            Error::NotAStore { .. }
            | Error::OtherVersion { .. }
            | Error::Damaged { .. }
            | Error::ReadOnly { .. }
            | Error::CompactionUnderWay
            | Error::Io(_) => TANTALUM_REFUSED,
        };
        Refusal(number, error.to_string())
    }
}

/// Opens a document store: a file of that name in a folder, which is created if it does not exist. `share`: updates are
/// shared where the file system lets them. `cache_bytes`: memory for the index; 0 for the default. In a folder whose
/// file system takes no changes, being mounted read-only or failing, it is opened to be read, and changes are refused.
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
            get_document(|key| documents.0.get(key), (key, key_bytes), (value, capacity), value_bytes)
        }
    })
}

/// Writes the index and the live documents to a new file, and removes the old one. Others can read and write meanwhile.
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

/// Creates an empty batch. It ends with `tantalum_documents_commit` or `tantalum_batch_free`.
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

/// Adds a document to be created or updated.
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

/// Reads a document of a store or of a snapshot. A key and a buffer are pointers with their numbers of bytes.
///
/// # Safety
/// `key` has its bytes, `value` room for its; `value_bytes` is null or can be written.
pub(crate) unsafe fn get_document(
    get: impl FnOnce(&[u8]) -> Result<Option<Document>, Error>,
    key: (*const u8, usize),
    (value, capacity): (*mut u8, usize),
    value_bytes: *mut usize,
) -> Result<(), Refusal> {
    // SAFETY: by the caller's promises.
    unsafe {
        let value_bytes = value_bytes.as_mut().ok_or(null("value_bytes"))?;
        let found = get(bytes_of(key.0, key.1, "key")?)?;
        let found = found.ok_or(Refusal(TANTALUM_NOT_FOUND, "no such key".to_owned()))?;
        copy_out(found.value(), value, capacity, value_bytes)
    }
}
