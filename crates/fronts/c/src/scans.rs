//! The key-value store beyond single records: ranges and lists, transactions that are retried, snapshots, backups.
//!
//! Records are passed to a function of the caller, which may use the transaction or snapshot they come from, but not
//! end it. They are valid until it returns.

use std::ffi::{c_char, c_void};
use std::ops::Bound;

use tantalum_kv::{
    Bytes, Copied, Error, Namespace, Options, Part, Range, Snapshot, Store, Transaction, prefix_range,
};

use crate::call::{Refusal, TANTALUM_DEADLOCK, TANTALUM_OK, bytes_of, free, null, run, text_of};
use crate::store::{read_at_with, read_with, tantalum_store, tantalum_tx, value_bytes_with};

/// From the end of the range to its beginning.
pub const TANTALUM_BACKWARDS: u32 = 1;
/// Visited records are about to be changed: they are locked exclusively.
pub const TANTALUM_FOR_UPDATE: u32 = 2;
/// Records that are lost, because their flash cannot be read, are passed over; otherwise the visit ends there with an error.
pub const TANTALUM_SKIP_LOST: u32 = 4;

/// Records that are read before they are passed on.
const AHEAD: usize = 64;

/// A snapshot of a key-value store.
#[allow(non_camel_case_types)]
pub struct tantalum_store_snapshot(Snapshot);

type Bounds = (Bound<Bytes>, Bound<Bytes>);

/// The caller's function: a key, a value, and the caller's pointer. Returns whether to continue.
type Visit = unsafe extern "C" fn(*const u8, usize, *const u8, usize, *mut c_void) -> bool;

/// # Safety
/// `from` is null or has `from_bytes` bytes; likewise `to`.
unsafe fn bounds(
    from: *const u8,
    from_bytes: usize,
    to: *const u8,
    to_bytes: usize,
) -> Result<Bounds, Refusal> {
    // SAFETY: the caller's promises are those of this function.
    let owned = |key: *const u8, bytes| unsafe { bytes_of(key, bytes, "key") }.map(Bytes::from);
    Ok((
        if from.is_null() { Bound::Unbounded } else { Bound::Included(owned(from, from_bytes)?) },
        if to.is_null() { Bound::Unbounded } else { Bound::Excluded(owned(to, to_bytes)?) },
    ))
}

/// Some records from one end of a range.
fn ahead(range: Range<'_>, bounds: Bounds, flags: u32) -> Part {
    let range = if flags & TANTALUM_FOR_UPDATE != 0 { range.for_update() } else { range };
    range.part(bounds, AHEAD, flags & TANTALUM_BACKWARDS != 0)
}

/// Passes all records of a range to the caller's function. `read` reads some from one end of a range.
///
/// # Safety
/// `visit` may be called with `context`.
unsafe fn visit_all(
    mut read: impl FnMut(Bounds) -> Result<Part, Refusal>,
    mut bounds: Bounds,
    flags: u32,
    visit: Option<Visit>,
    context: *mut c_void,
) -> Result<(), Refusal> {
    let visit = visit.ok_or(null("visit"))?;
    loop {
        let Part { records, error, rest } = read(bounds)?;
        for (key, value) in &records {
            // SAFETY: by the caller's promise; nothing of the library is borrowed.
            if !unsafe { visit(key.as_ptr(), key.len(), value.as_ptr(), value.len(), context) } {
                return Ok(());
            }
        }
        match error {
            Some(error) if flags & TANTALUM_SKIP_LOST == 0 || !error.is_damage() => return Err(error.into()),
            _ => {}
        }
        let Some(rest) = rest else { return Ok(()) };
        bounds = rest;
    }
}

/// Visits the records of a range of an ordered namespace in the order of their keys: from `from` up to but not
/// including `to`; null means no limit. `flags`: `TANTALUM_BACKWARDS`, `TANTALUM_FOR_UPDATE`, `TANTALUM_SKIP_LOST`.
///
/// # Safety
/// `tx` is open; `from` and `to` are null or have that many bytes; `visit` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_range(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    from: *const u8,
    from_bytes: usize,
    to: *const u8,
    to_bytes: usize,
    flags: u32,
    visit: Option<
        unsafe extern "C" fn(
            key: *const u8,
            key_bytes: usize,
            value: *const u8,
            value_bytes: usize,
            context: *mut c_void,
        ) -> bool,
    >,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let bounds = bounds(from, from_bytes, to, to_bytes)?;
        visit_all(|bounds| in_transaction(tx, namespace_number, bounds, flags), bounds, flags, visit, context)
    })
}

/// Visits the records of an ordered namespace whose keys begin with these bytes, as `tantalum_range` does.
///
/// # Safety
/// `tx` is open; `prefix` has `prefix_bytes` bytes; `visit` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_prefix(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    prefix: *const u8,
    prefix_bytes: usize,
    flags: u32,
    visit: Option<
        unsafe extern "C" fn(
            key: *const u8,
            key_bytes: usize,
            value: *const u8,
            value_bytes: usize,
            context: *mut c_void,
        ) -> bool,
    >,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let bounds = prefix_range(bytes_of(prefix, prefix_bytes, "prefix")?);
        visit_all(|bounds| in_transaction(tx, namespace_number, bounds, flags), bounds, flags, visit, context)
    })
}

/// # Safety
/// `tx` is null or open.
unsafe fn in_transaction(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    bounds: Bounds,
    flags: u32,
) -> Result<Part, Refusal> {
    // SAFETY: the caller's promises are those of this function.
    let tx = unsafe { tx.as_mut().ok_or(null("tx"))? };
    Ok(ahead(tx.0.range(Namespace::from_number(namespace_number), bounds.clone())?, bounds, flags))
}

/// Visits at most `limit` committed keys of a hashed namespace, in an order the drive chooses: from `from`, or the key
/// that would follow it; null means from the first. The visited value is null.
///
/// # Safety
/// `store` is open; `from` is null or has `from_bytes` bytes; `visit` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_list(
    store: *const tantalum_store,
    namespace_number: u32,
    from: *const u8,
    from_bytes: usize,
    limit: usize,
    visit: Option<
        unsafe extern "C" fn(
            key: *const u8,
            key_bytes: usize,
            value: *const u8,
            value_bytes: usize,
            context: *mut c_void,
        ) -> bool,
    >,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (store, visit) = (store.as_ref().ok_or(null("store"))?, visit.ok_or(null("visit"))?);
        let from = if from.is_null() { None } else { Some(bytes_of(from, from_bytes, "from")?) };
        let keys = store.0.list(Namespace::from_number(namespace_number), from, limit)?;
        for key in keys {
            let key = key.as_bytes();
            if !visit(key.as_ptr(), key.len(), std::ptr::null(), 0, context) {
                break;
            }
        }
        Ok(())
    })
}

/// How a caller's work ended, or why there was none.
enum Ended {
    Work(i32),
    Store(Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Store(error)
    }
}

/// Runs `work` in a transaction, and commits if it returns `TANTALUM_OK`. If the transaction has to give way to an older
/// one, it is aborted and `work` runs again, as often as needed. If `work` returns anything else, the transaction is
/// aborted and that is returned. `work` may not end the transaction.
///
/// # Safety
/// `store` is open; `work` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_transact(
    store: *const tantalum_store,
    work: Option<unsafe extern "C" fn(tx: *mut tantalum_tx, context: *mut c_void) -> i32>,
    context: *mut c_void,
) -> i32 {
    let mut code = TANTALUM_OK;
    let done = run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, work) = unsafe { (store.as_ref().ok_or(null("store"))?, work.ok_or(null("work"))?) };
        let done = store.0.transact(|tx: &mut Transaction| {
            // SAFETY: a `tantalum_tx` is a transaction and nothing else; by the caller's promise.
            match unsafe { work(std::ptr::from_mut(tx).cast::<tantalum_tx>(), context) } {
                TANTALUM_OK => Ok(()),
                code => Err(Ended::Work(code)),
            }
        });
        match done {
            Ok(()) => Ok(()),
            Err(Ended::Store(error)) => Err(error.into()),
            Err(Ended::Work(TANTALUM_DEADLOCK)) => {
                Err(Refusal(TANTALUM_DEADLOCK, "another transaction gave way".to_owned()))
            }
            Err(Ended::Work(other)) => {
                code = other;
                Ok(())
            }
        }
    });
    if done == TANTALUM_OK { code } else { done }
}

/// Opens a snapshot of all committed records. It reads without locks: it blocks no transaction and waits for none.
///
/// # Safety
/// `store` is open; `snapshot` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_store_snapshot_open(
    store: *const tantalum_store,
    snapshot: *mut *mut tantalum_store_snapshot,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, snapshot) =
            unsafe { (store.as_ref().ok_or(null("store"))?, snapshot.as_mut().ok_or(null("snapshot"))?) };
        *snapshot = std::ptr::null_mut();
        *snapshot = Box::into_raw(Box::new(tantalum_store_snapshot(store.0.snapshot()?)));
        Ok(())
    })
}

/// Reads a record of a snapshot, as `tantalum_read` does.
///
/// # Safety
/// `snapshot` is open; `key` has `key_bytes` bytes, `value` room for `capacity`; `value_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_store_snapshot_read(
    snapshot: *const tantalum_store_snapshot,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    capacity: usize,
    value_bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (snapshot, key) = (snapshot.as_ref().ok_or(null("snapshot"))?, bytes_of(key, key_bytes, "key")?);
        read_with(
            |namespace| snapshot.0.read(namespace, key),
            namespace_number,
            (value, capacity),
            value_bytes,
        )
    })
}

/// Copies a part of a record's value in a snapshot, as `tantalum_read_at` does.
///
/// # Safety
/// `snapshot` is open; `key` has `key_bytes` bytes, `buffer` room for `capacity`; `copied` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_store_snapshot_read_at(
    snapshot: *const tantalum_store_snapshot,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    offset: u64,
    buffer: *mut u8,
    capacity: usize,
    copied: *mut usize,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (snapshot, key) = (snapshot.as_ref().ok_or(null("snapshot"))?, bytes_of(key, key_bytes, "key")?);
        let namespace = Namespace::from_number(namespace_number);
        read_at_with(|buffer| snapshot.0.read_at(namespace, key, offset, buffer), (buffer, capacity), copied)
    })
}

/// Stores the number of bytes of a record's value in a snapshot.
///
/// # Safety
/// `snapshot` is open; `key` has `key_bytes` bytes; `value_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_store_snapshot_value_bytes(
    snapshot: *const tantalum_store_snapshot,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    value_bytes: *mut u64,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (snapshot, key) = (snapshot.as_ref().ok_or(null("snapshot"))?, bytes_of(key, key_bytes, "key")?);
        value_bytes_with(
            || snapshot.0.value_bytes(Namespace::from_number(namespace_number), key),
            value_bytes,
        )
    })
}

/// Visits the records of a range of a snapshot, as `tantalum_range` does.
///
/// # Safety
/// `snapshot` is open; `from` and `to` are null or have that many bytes; `visit` may be called with `context`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_store_snapshot_range(
    snapshot: *const tantalum_store_snapshot,
    namespace_number: u32,
    from: *const u8,
    from_bytes: usize,
    to: *const u8,
    to_bytes: usize,
    flags: u32,
    visit: Option<
        unsafe extern "C" fn(
            key: *const u8,
            key_bytes: usize,
            value: *const u8,
            value_bytes: usize,
            context: *mut c_void,
        ) -> bool,
    >,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (snapshot, bounds) =
            (snapshot.as_ref().ok_or(null("snapshot"))?, bounds(from, from_bytes, to, to_bytes)?);
        let namespace = Namespace::from_number(namespace_number);
        visit_all(
            |bounds| Ok(ahead(snapshot.0.range(namespace, bounds.clone())?, bounds, flags)),
            bounds,
            flags,
            visit,
            context,
        )
    })
}

/// Closes a snapshot; null is allowed.
///
/// # Safety
/// `snapshot` is from `tantalum_store_snapshot_open`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_store_snapshot_close(snapshot: *mut tantalum_store_snapshot) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe { free(snapshot) })
}

/// Writes what is committed to a file, which must not exist, while others read and write.
///
/// # Safety
/// `store` is open; `path` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_back_up(store: *const tantalum_store, path: *const c_char) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, path) = unsafe { (store.as_ref().ok_or(null("store"))?, text_of(path, "path")?) };
        let _: Copied = store.0.back_up(path)?;
        Ok(())
    })
}

/// Returns the space of overwritten and deleted records to the file system, as much as can be returned, while others use the store.
///
/// # Safety
/// `store` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_compact(store: *const tantalum_store) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let store = unsafe { store.as_ref().ok_or(null("store"))? };
        Ok(store.0.compact()?)
    })
}

fn with_capacity(capacity_bytes: u64) -> Options {
    let options = Store::options();
    if capacity_bytes > 0 { options.capacity_bytes(capacity_bytes) } else { options }
}

/// Restores a store from a backup, into an image that must not exist. `capacity_bytes`: 0 for 1 GiB.
///
/// # Safety
/// `backup` and `image` end with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_restore(
    backup: *const c_char,
    image: *const c_char,
    capacity_bytes: u64,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (backup, image) = unsafe { (text_of(backup, "backup")?, text_of(image, "image")?) };
        let _: Copied = with_capacity(capacity_bytes).restore(backup, image)?;
        Ok(())
    })
}

/// Copies a store that is not open into a new image, which replaces the old one: with another capacity, or, if
/// `capacity_bytes` is 0, only to return space.
///
/// # Safety
/// `image` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_rebuild(image: *const c_char, capacity_bytes: u64) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let image = unsafe { text_of(image, "image")? };
        let _: Copied = with_capacity(capacity_bytes).rebuild(image)?;
        Ok(())
    })
}
