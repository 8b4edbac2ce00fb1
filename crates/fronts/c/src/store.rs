//! The key-value store. A transaction belongs to one thread at a time; a store can be shared by all. A transaction keeps its
//! store alive.

use std::ffi::c_char;

use tantalum_kv::{Error, Namespace, Options, Store, Sync, Transaction, Value};

use crate::call::{
    Refusal, TANTALUM_DEADLOCK, TANTALUM_EXISTS, TANTALUM_FORKED, TANTALUM_INVALID, TANTALUM_NO_NAMESPACE,
    TANTALUM_NOT_FOUND, TANTALUM_READ_ONLY, TANTALUM_REFUSED, TANTALUM_SELF_DEADLOCK, TANTALUM_STOPPED,
    bytes_of, copy_out, null, run, text_of,
};

/// A store.
#[allow(non_camel_case_types)]
pub struct tantalum_store(pub(crate) Store);

/// A transaction.
#[allow(non_camel_case_types)]
#[repr(transparent)]
pub struct tantalum_tx(pub(crate) Transaction);

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        let number = match &error {
            Error::NoSuchKey { .. } => TANTALUM_NOT_FOUND,
            Error::KeyExists { .. } => TANTALUM_EXISTS,
            Error::Deadlock => TANTALUM_DEADLOCK,
            Error::SelfDeadlock { .. } => TANTALUM_SELF_DEADLOCK,
            Error::NoSuchNamespace => TANTALUM_NO_NAMESPACE,
            Error::ReadOnly => TANTALUM_READ_ONLY,
            Error::Forked { .. } => TANTALUM_FORKED,
            Error::Stopped { .. } => TANTALUM_STOPPED,
            Error::Key { .. }
            | Error::ValueTooLarge { .. }
            | Error::OtherOrder { .. }
            | Error::NotOrdered
            | Error::NotListed
            | Error::Capacity { .. }
            | Error::Exists { .. }
            | Error::NotOfType { .. }
            | Error::NotEncodable { .. }
            | Error::Name { .. }
            | Error::Option { .. }
            | Error::Profile(_) => TANTALUM_INVALID,
            Error::SnapshotLost { .. }
            | Error::Catalog
            | Error::Damaged { .. }
            | Error::DamagedIndex { .. }
            | Error::Redo { .. }
            | Error::RedoFormat { .. }
            | Error::Backup { .. }
            | Error::Drive(_)
            | Error::Device(_)
            | Error::Io { .. } => TANTALUM_REFUSED,
        };
        Refusal(number, error.to_string())
    }
}

/// Opens the store in an image, which is created if it does not exist. `synced`: a commit survives the loss of the
/// machine. `cache_bytes`: 0 for 64 MiB.
///
/// # Safety
/// `path` ends with a zero; `store` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_open(
    path: *const c_char,
    synced: bool,
    cache_bytes: usize,
    store: *mut *mut tantalum_store,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (path, store) = unsafe { (text_of(path, "path")?, store.as_mut().ok_or(null("store"))?) };
        *store = std::ptr::null_mut();
        let mut options = Store::options().sync(if synced { Sync::Host } else { Sync::None });
        if cache_bytes > 0 {
            options = options.cache_bytes(cache_bytes);
        }
        *store = Box::into_raw(Box::new(tantalum_store(options.open(path)?)));
        Ok(())
    })
}

/// How a store is opened, for `tantalum_open_with`. All zeros are the defaults.
#[allow(non_camel_case_types)]
#[repr(C)]
pub struct tantalum_options {
    /// The size of a new drive in bytes, at least 15 MiB; 0: 1 GiB. An image of another capacity is refused.
    pub capacity_bytes: u64,
    /// Memory for records; 0: 64 MiB.
    pub cache_bytes: usize,
    /// Memory for records that are overwritten while snapshots are open; 0: 64 MiB.
    pub snapshot_bytes: usize,
    /// How many records with consecutive numbers as keys share a lock; 0: 1.
    pub records_per_lock: u32,
    /// A commit survives the end of the process but not the loss of the machine, which may damage the image.
    pub unsynced: bool,
    /// The store is only read: the file is not changed, and several processes may do so at once.
    pub read_only: bool,
    /// The profile of a new drive: a built-in name or a file; null: the default of a store.
    pub profile: *const c_char,
}

/// Opens the store in an image, as `tantalum_open` does, with these options; null: the defaults.
///
/// # Safety
/// `path` ends with a zero, as does the profile; `options` is null or can be read; `store` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_open_with(
    path: *const c_char,
    options: *const tantalum_options,
    store: *mut *mut tantalum_store,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (path, store, options) = unsafe {
            (text_of(path, "path")?, store.as_mut().ok_or(null("store"))?, options_of(options.as_ref())?)
        };
        *store = std::ptr::null_mut();
        *store = Box::into_raw(Box::new(tantalum_store(options.open(path)?)));
        Ok(())
    })
}

/// # Safety
/// The profile is null or ends with a zero.
unsafe fn options_of(given: Option<&tantalum_options>) -> Result<Options, Refusal> {
    let Some(given) = given else { return Ok(Store::options()) };
    let sync = if given.unsynced { Sync::None } else { Sync::Host };
    let mut options = Store::options().sync(sync).read_only(given.read_only);
    if given.capacity_bytes > 0 {
        options = options.capacity_bytes(given.capacity_bytes);
    }
    if given.cache_bytes > 0 {
        options = options.cache_bytes(given.cache_bytes);
    }
    if given.snapshot_bytes > 0 {
        options = options.snapshot_bytes(given.snapshot_bytes);
    }
    if given.records_per_lock > 0 {
        options = options.records_per_lock(given.records_per_lock);
    }
    if !given.profile.is_null() {
        // SAFETY: by the caller's promise.
        options = options.profile(unsafe { text_of(given.profile, "profile")? });
    }
    Ok(options)
}

/// The size of the store's drive in bytes, and how many more records with values of `value_bytes` fit at least. Either
/// result may be null.
///
/// # Safety
/// `store` is open; the results are null or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_capacity(
    store: *const tantalum_store,
    value_bytes: usize,
    capacity_bytes: *mut u64,
    records: *mut u64,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, capacity_bytes, records) =
            unsafe { (store.as_ref().ok_or(null("store"))?, capacity_bytes.as_mut(), records.as_mut()) };
        if let Some(records) = records {
            *records = store.0.room_for(value_bytes)?;
        }
        if let Some(capacity_bytes) = capacity_bytes {
            *capacity_bytes = store.0.capacity_bytes();
        }
        Ok(())
    })
}

/// Closes a store; null is allowed. It is shut down once its transactions have ended, too.
///
/// # Safety
/// `store` is from `tantalum_open`, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_close(store: *mut tantalum_store) -> i32 {
    run(|| match store.is_null() {
        true => Ok(()),
        // SAFETY: it was made by a Box, and nobody uses it again.
        false => Ok(unsafe { Box::from_raw(store) }.0.close()?),
    })
}

/// The namespace of that name. If it does not exist, an ordered one is created: its keys have 1 to 1,024 bytes, and
/// `tantalum_range` visits them in their order. One that exists is opened whatever its kind is.
///
/// # Safety
/// `store` is open; `name` ends with a zero; `namespace_number` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_namespace(
    store: *const tantalum_store,
    name: *const c_char,
    namespace_number: *mut u32,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, name, number) = unsafe {
            (
                store.as_ref().ok_or(null("store"))?,
                text_of(name, "name")?,
                namespace_number.as_mut().ok_or(null("namespace_number"))?,
            )
        };
        *number = store.0.namespace(name)?.number();
        Ok(())
    })
}

/// The hashed namespace of that name, which is created if it does not exist. Its keys have 1 to 16 bytes, and no order.
///
/// # Safety
/// `store` is open; `name` ends with a zero; `namespace_number` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_hashed_namespace(
    store: *const tantalum_store,
    name: *const c_char,
    namespace_number: *mut u32,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, name, number) = unsafe {
            (
                store.as_ref().ok_or(null("store"))?,
                text_of(name, "name")?,
                namespace_number.as_mut().ok_or(null("namespace_number"))?,
            )
        };
        *number = store.0.hashed_namespace(name)?.number();
        Ok(())
    })
}

/// Deletes a namespace with all its records.
///
/// # Safety
/// `store` is open; `name` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_delete_namespace(store: *const tantalum_store, name: *const c_char) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, name) = unsafe { (store.as_ref().ok_or(null("store"))?, text_of(name, "name")?) };
        Ok(store.0.delete_namespace(name)?)
    })
}

/// Begins a transaction. It ends with `tantalum_commit` or `tantalum_abort`.
///
/// # Safety
/// `store` is open; `tx` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_begin(store: *const tantalum_store, tx: *mut *mut tantalum_tx) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (store, tx) = unsafe { (store.as_ref().ok_or(null("store"))?, tx.as_mut().ok_or(null("tx"))?) };
        *tx = std::ptr::null_mut();
        *tx = Box::into_raw(Box::new(tantalum_tx(store.0.begin()?)));
        Ok(())
    })
}

/// Reads a record into `value`, which has room for `capacity` bytes, and stores its length. With
/// `TANTALUM_SHORT_BUFFER` only the length is stored.
///
/// # Safety
/// `tx` is open; `key` has `key_bytes` bytes, `value` room for `capacity`; `value_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_read(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    capacity: usize,
    value_bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (tx, key) = (tx.as_mut().ok_or(null("tx"))?, bytes_of(key, key_bytes, "key")?);
        read_with(|namespace| tx.0.read(namespace, key), namespace_number, (value, capacity), value_bytes)
    })
}

/// Reads a record that is about to be changed, as `tantalum_read` does: two transactions that do so wait for each other
/// here, instead of one giving way when both change it.
///
/// # Safety
/// `tx` is open; `key` has `key_bytes` bytes, `value` room for `capacity`; `value_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_read_for_update(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    value: *mut u8,
    capacity: usize,
    value_bytes: *mut usize,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (tx, key) = (tx.as_mut().ok_or(null("tx"))?, bytes_of(key, key_bytes, "key")?);
        read_with(
            |namespace| tx.0.read_for_update(namespace, key),
            namespace_number,
            (value, capacity),
            value_bytes,
        )
    })
}

/// Copies the bytes of a record's value from `offset` on into `buffer`, which has room for `capacity`, and stores how many
/// there were: fewer than `capacity` only at the value's end. For values that are not to be in memory as a whole.
///
/// # Safety
/// `tx` is open; `key` has `key_bytes` bytes, `buffer` room for `capacity`; `copied` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_read_at(
    tx: *mut tantalum_tx,
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
        let (tx, key) = (tx.as_mut().ok_or(null("tx"))?, bytes_of(key, key_bytes, "key")?);
        let namespace = Namespace::from_number(namespace_number);
        read_at_with(|buffer| tx.0.read_at(namespace, key, offset, buffer), (buffer, capacity), copied)
    })
}

/// Stores the number of bytes of a record's value.
///
/// # Safety
/// `tx` is open; `key` has `key_bytes` bytes; `value_bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_value_bytes(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    value_bytes: *mut u64,
) -> i32 {
    // SAFETY: the caller's promises are those of this function.
    run(|| unsafe {
        let (tx, key) = (tx.as_mut().ok_or(null("tx"))?, bytes_of(key, key_bytes, "key")?);
        value_bytes_with(|| tx.0.value_bytes(Namespace::from_number(namespace_number), key), value_bytes)
    })
}

fn no_such_key() -> Refusal {
    Refusal(TANTALUM_NOT_FOUND, "no such key".to_owned())
}

/// Stores the length of a value.
///
/// # Safety
/// `value_bytes` is null or can be written.
pub(crate) unsafe fn value_bytes_with(
    length: impl FnOnce() -> Result<Option<u64>, Error>,
    value_bytes: *mut u64,
) -> Result<(), Refusal> {
    // SAFETY: the caller's promises are those of this function.
    let value_bytes = unsafe { value_bytes.as_mut().ok_or(null("value_bytes"))? };
    *value_bytes = length()?.ok_or_else(no_such_key)?;
    Ok(())
}

/// Reads a part of a value into the caller's buffer.
///
/// # Safety
/// `buffer` is null or has room for `capacity` bytes; `copied` is null or can be written.
pub(crate) unsafe fn read_at_with(
    read: impl FnOnce(&mut [u8]) -> Result<Option<usize>, Error>,
    (buffer, capacity): (*mut u8, usize),
    copied: *mut usize,
) -> Result<(), Refusal> {
    // SAFETY: the caller's promises are those of this function.
    let copied = unsafe { copied.as_mut().ok_or(null("copied"))? };
    if buffer.is_null() && capacity > 0 {
        return Err(null("buffer"));
    }
    let buffer = match capacity {
        0 => &mut [],
        // SAFETY: the caller says that it has room for this many bytes.
        _ => unsafe { std::slice::from_raw_parts_mut(buffer, capacity) },
    };
    *copied = read(buffer)?.ok_or_else(no_such_key)?;
    Ok(())
}

/// Reads a record into the caller's buffer.
///
/// # Safety
/// If `value` is not null, it has room for `capacity` bytes; `value_bytes` is null or can be written.
pub(crate) unsafe fn read_with(
    read: impl FnOnce(Namespace) -> Result<Option<Value>, Error>,
    namespace_number: u32,
    (value, capacity): (*mut u8, usize),
    value_bytes: *mut usize,
) -> Result<(), Refusal> {
    // SAFETY: the caller's promises are those of this function.
    let value_bytes = unsafe { value_bytes.as_mut().ok_or(null("value_bytes"))? };
    let found = read(Namespace::from_number(namespace_number))?;
    let found = found.ok_or_else(no_such_key)?;
    // SAFETY: the caller's promises are those of this function.
    unsafe { copy_out(&found, value, capacity, value_bytes) }
}

/// Changes or creates a record.
///
/// # Safety
/// `tx` is open; `key` has `key_bytes` bytes and `value` has `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_put(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (tx, key, value) = unsafe {
            let tx = tx.as_mut().ok_or(null("tx"))?;
            (tx, bytes_of(key, key_bytes, "key")?, bytes_of(value, value_bytes, "value")?)
        };
        Ok(tx.0.put(Namespace::from_number(namespace_number), key, value)?)
    })
}

/// Creates a record; `TANTALUM_EXISTS` if its key already exists.
///
/// # Safety
/// `tx` is open; `key` has `key_bytes` bytes and `value` has `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_insert(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (tx, key, value) = unsafe {
            let tx = tx.as_mut().ok_or(null("tx"))?;
            (tx, bytes_of(key, key_bytes, "key")?, bytes_of(value, value_bytes, "value")?)
        };
        Ok(tx.0.insert(Namespace::from_number(namespace_number), key, value)?)
    })
}

/// Deletes a record; `TANTALUM_NOT_FOUND` if it does not exist.
///
/// # Safety
/// `tx` is open; `key` has `key_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_delete(
    tx: *mut tantalum_tx,
    namespace_number: u32,
    key: *const u8,
    key_bytes: usize,
) -> i32 {
    run(|| {
        // SAFETY: the caller's promises are those of this function.
        let (tx, key) = unsafe { (tx.as_mut().ok_or(null("tx"))?, bytes_of(key, key_bytes, "key")?) };
        match tx.0.delete(Namespace::from_number(namespace_number), key)? {
            true => Ok(()),
            false => Err(Refusal(TANTALUM_NOT_FOUND, "no such key".to_owned())),
        }
    })
}

/// Makes a transaction's changes visible and durable, all or nothing. The transaction is gone, whatever the result.
///
/// # Safety
/// `tx` is open, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_commit(tx: *mut tantalum_tx) -> i32 {
    run(|| match tx.is_null() {
        true => Err(null("tx")),
        // SAFETY: it was made by a Box, and nobody uses it again.
        false => Ok(unsafe { Box::from_raw(tx) }.0.commit()?),
    })
}

/// Discards a transaction's changes; null is allowed. The transaction is gone.
///
/// # Safety
/// `tx` is open, and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tantalum_abort(tx: *mut tantalum_tx) -> i32 {
    run(|| {
        if !tx.is_null() {
            // SAFETY: it was made by a Box, and nobody uses it again.
            drop(unsafe { Box::from_raw(tx) });
        }
        Ok(())
    })
}
