//! A file's methods, as SQLite calls them.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use tantalum::UNIT_BYTES;

use crate::fault::Fault;
use crate::ffi;
use crate::handle::Handle;
use crate::lock::LockLevel;
use crate::mode::Mode;
use crate::temporary::TemporaryFile;
use crate::vfs::{ERROR_NAME, Vfs, guard};

/// What SQLite allocates for a file.
#[repr(C)]
pub(crate) struct FileObject {
    base: ffi::File,
    state: *mut FileState,
}

/// A file and the VFS that opened it.
struct FileState {
    vfs: Arc<Vfs>,
    opened: OpenFile,
}

/// A file.
pub(crate) enum OpenFile {
    /// A file without a name.
    Temporary(TemporaryFile),
    /// A file on a volume.
    OnVolume(Handle),
}

static METHODS: ffi::IoMethods = ffi::IoMethods {
    version: 2,
    close: x_close,
    read: x_read,
    write: x_write,
    truncate: x_truncate,
    sync: x_sync,
    file_size: x_file_size,
    lock: x_lock,
    unlock: x_unlock,
    check_reserved_lock: x_check_reserved_lock,
    file_control: x_file_control,
    sector_size: x_sector_size,
    device_characteristics: x_device_characteristics,
    shm_map: x_shm_map,
    shm_lock: x_shm_lock,
    shm_barrier: x_shm_barrier,
    shm_unmap: x_shm_unmap,
};

/// Stores an open file where SQLite wants it.
///
/// # Safety
///
/// `file` points to room for a [`FileObject`].
pub(crate) unsafe fn open(file: *mut ffi::File, vfs: Arc<Vfs>, opened: OpenFile) {
    let state = Box::into_raw(Box::new(FileState { vfs, opened }));
    let object = FileObject { base: ffi::File { methods: &METHODS }, state };
    // SAFETY: by the caller's word.
    unsafe { file.cast::<FileObject>().write(object) };
}

impl FileState {
    fn read(&mut self, offset: i64, data: &mut [u8]) -> Result<usize, Fault> {
        let offset = checked_offset(offset)?;
        match &mut self.opened {
            OpenFile::Temporary(file) => Ok(file.read(offset, data)),
            OpenFile::OnVolume(handle) => handle.read(offset, data),
        }
    }

    fn write(&mut self, offset: i64, data: &[u8]) -> Result<(), Fault> {
        let offset = checked_offset(offset)?;
        match &mut self.opened {
            OpenFile::Temporary(file) => file.write(offset, data),
            OpenFile::OnVolume(handle) => handle.write(offset, data),
        }
    }

    fn truncate(&mut self, bytes: i64) -> Result<(), Fault> {
        let bytes = checked_offset(bytes)?;
        match &mut self.opened {
            OpenFile::Temporary(file) => file.truncate(bytes),
            OpenFile::OnVolume(handle) => handle.truncate(bytes),
        }
    }

    fn sync(&mut self) -> Result<(), Fault> {
        self.on_volume().map_or(Ok(()), Handle::sync)
    }

    fn size(&mut self) -> Result<u64, Fault> {
        match &mut self.opened {
            OpenFile::Temporary(file) => Ok(file.size()),
            OpenFile::OnVolume(handle) => handle.size(),
        }
    }

    fn on_volume(&mut self) -> Option<&mut Handle> {
        match &mut self.opened {
            OpenFile::Temporary(_) => None,
            OpenFile::OnVolume(handle) => Some(handle),
        }
    }

    /// The handle, for a request that a temporary file does not support.
    fn handle(&mut self) -> Result<&mut Handle, Fault> {
        self.on_volume().ok_or(Fault::Unknown)
    }
}

fn checked_offset(offset: i64) -> Result<u64, Fault> {
    u64::try_from(offset).map_err(|_| Fault::Offset(offset))
}

/// Runs a method on a file's state. A fault becomes SQLite's code.
///
/// # Safety
///
/// `file` was opened by [`open`], is not closed, and no other method runs on it. SQLite promises this.
unsafe fn with(
    file: *mut ffi::File,
    otherwise: c_int,
    method: impl FnOnce(&mut FileState) -> Result<c_int, Fault>,
) -> c_int {
    guard(|| {
        // SAFETY: by the caller's word.
        let state = unsafe { &mut *(*file.cast::<FileObject>()).state };
        method(state).unwrap_or_else(|fault| state.vfs.report(&fault, otherwise))
    })
}

unsafe extern "C" fn x_close(file: *mut ffi::File) -> c_int {
    guard(|| {
        // SAFETY: SQLite closes a file once, and `open` made the state from a box.
        let state = unsafe {
            (*file).methods = ptr::null();
            Box::from_raw((*file.cast::<FileObject>()).state)
        };
        let FileState { vfs, opened } = *state;
        let OpenFile::OnVolume(handle) = opened else { return ffi::SQLITE_OK };
        let (host, closed) = match handle.close(vfs.file_time()) {
            Ok(host) => (host, Ok(())),
            Err((host, fault)) => (host, Err(fault)),
        };
        match closed.and(vfs.hosts.release(host)) {
            Ok(()) => ffi::SQLITE_OK,
            Err(fault) => vfs.report(&fault, ffi::SQLITE_IOERR_CLOSE),
        }
    })
}

unsafe extern "C" fn x_read(file: *mut ffi::File, data: *mut c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite calls with an open file and room for `bytes`, which need not be set.
    unsafe {
        with(file, ffi::SQLITE_IOERR_READ, |state| {
            let bytes = usize::try_from(bytes).unwrap_or(0);
            ptr::write_bytes(data.cast::<u8>(), 0, bytes);
            let data = std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes);
            let there = state.read(offset, data)?;
            Ok(if there == data.len() { ffi::SQLITE_OK } else { ffi::SQLITE_IOERR_SHORT_READ })
        })
    }
}

unsafe extern "C" fn x_write(file: *mut ffi::File, data: *const c_void, bytes: c_int, offset: i64) -> c_int {
    // SAFETY: SQLite calls with an open file and `bytes` bytes of data.
    unsafe {
        with(file, ffi::SQLITE_IOERR_WRITE, |state| {
            let bytes = usize::try_from(bytes).unwrap_or(0);
            let data = std::slice::from_raw_parts(data.cast::<u8>(), bytes);
            state.write(offset, data).map(|()| ffi::SQLITE_OK)
        })
    }
}

unsafe extern "C" fn x_truncate(file: *mut ffi::File, bytes: i64) -> c_int {
    // SAFETY: SQLite calls with an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_TRUNCATE, |state| state.truncate(bytes).map(|()| ffi::SQLITE_OK)) }
}

unsafe extern "C" fn x_sync(file: *mut ffi::File, _flags: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file.
    unsafe { with(file, ffi::SQLITE_IOERR_FSYNC, |state| state.sync().map(|()| ffi::SQLITE_OK)) }
}

unsafe extern "C" fn x_file_size(file: *mut ffi::File, out: *mut i64) -> c_int {
    // SAFETY: SQLite calls with an open file and room for the answer.
    unsafe {
        with(file, ffi::SQLITE_IOERR_FSTAT, |state| {
            *out = i64::try_from(state.size()?).unwrap_or(i64::MAX);
            Ok(ffi::SQLITE_OK)
        })
    }
}

/// SQLite's lock levels.
fn lock_level(level: c_int) -> LockLevel {
    match level {
        ffi::SQLITE_LOCK_SHARED => LockLevel::Shared,
        ffi::SQLITE_LOCK_RESERVED => LockLevel::Reserved,
        ffi::SQLITE_LOCK_PENDING => LockLevel::Pending,
        ffi::SQLITE_LOCK_EXCLUSIVE => LockLevel::Exclusive,
        _ => LockLevel::None,
    }
}

unsafe extern "C" fn x_lock(file: *mut ffi::File, level: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file.
    unsafe {
        with(file, ffi::SQLITE_IOERR_LOCK, |state| {
            let Some(handle) = state.on_volume() else { return Ok(ffi::SQLITE_OK) };
            handle.raise_lock(lock_level(level)).map(|()| ffi::SQLITE_OK)
        })
    }
}

unsafe extern "C" fn x_unlock(file: *mut ffi::File, level: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file.
    unsafe {
        with(file, ffi::SQLITE_IOERR_UNLOCK, |state| {
            let Some(handle) = state.on_volume() else { return Ok(ffi::SQLITE_OK) };
            handle.unlock(lock_level(level)).map(|()| ffi::SQLITE_OK)
        })
    }
}

unsafe extern "C" fn x_check_reserved_lock(file: *mut ffi::File, out: *mut c_int) -> c_int {
    // SAFETY: SQLite calls with an open file and room for the answer.
    unsafe {
        with(file, ffi::SQLITE_IOERR_LOCK, |state| {
            *out = match state.on_volume() {
                Some(handle) => c_int::from(handle.is_reserved()?),
                None => 0,
            };
            Ok(ffi::SQLITE_OK)
        })
    }
}

unsafe extern "C" fn x_file_control(file: *mut ffi::File, op: c_int, arg: *mut c_void) -> c_int {
    let otherwise = match op {
        ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => ffi::SQLITE_IOERR_BEGIN_ATOMIC,
        ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => ffi::SQLITE_IOERR_COMMIT_ATOMIC,
        ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => ffi::SQLITE_IOERR_ROLLBACK_ATOMIC,
        _ => ffi::SQLITE_IOERR_WRITE,
    };
    // SAFETY: SQLite calls with an open file.
    unsafe {
        with(file, otherwise, |state| {
            if op == ffi::SQLITE_FCNTL_PRAGMA {
                // SAFETY: it comes with the pragma's array.
                return pragma(&state.vfs, arg.cast()).map(|()| ffi::SQLITE_OK);
            }
            let handle = state.handle()?;
            match op {
                ffi::SQLITE_FCNTL_BEGIN_ATOMIC_WRITE => handle.begin_batch()?,
                ffi::SQLITE_FCNTL_COMMIT_ATOMIC_WRITE => handle.commit_batch()?,
                ffi::SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE => handle.roll_back_batch(),
                ffi::SQLITE_FCNTL_COMMIT_PHASETWO => handle.commit_transaction()?,
                // The volume grows files in steps of its own.
                ffi::SQLITE_FCNTL_SIZE_HINT | ffi::SQLITE_FCNTL_CHUNK_SIZE => {}
                ffi::SQLITE_FCNTL_LOCKSTATE
                | ffi::SQLITE_FCNTL_HAS_MOVED
                | ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE
                | ffi::SQLITE_FCNTL_PERSIST_WAL => {
                    // SAFETY: these come with an int to read and write.
                    let number = arg.cast::<c_int>().as_mut();
                    answer_int(handle, op, number.ok_or(Fault::Unknown)?);
                }
                _ => return Err(Fault::Unknown),
            }
            Ok(ffi::SQLITE_OK)
        })
    }
}

/// Answers the pragma [`ERROR_NAME`]; all other pragmas are SQLite's.
///
/// # Safety
///
/// `pragma` is what SQLite passes with a pragma: where the answer goes, the name, and the value.
unsafe fn pragma(vfs: &Vfs, pragma: *mut *mut c_char) -> Result<(), Fault> {
    // SAFETY: by the caller's word; the name is terminated.
    let name = unsafe { CStr::from_ptr(*pragma.add(1)) };
    if !name.to_bytes().eq_ignore_ascii_case(ERROR_NAME.to_bytes()) {
        return Err(Fault::Unknown);
    }
    let text = vfs.last_error_text();
    // SAFETY: the format takes one string. SQLite frees the answer.
    unsafe { *pragma = (vfs.api.mprintf)(c"%s".as_ptr(), text.as_ptr()) };
    Ok(())
}

/// File controls that ask for a number, or set one.
fn answer_int(handle: &mut Handle, op: c_int, number: &mut c_int) {
    match op {
        ffi::SQLITE_FCNTL_LOCKSTATE => *number = handle.lock as c_int,
        ffi::SQLITE_FCNTL_POWERSAFE_OVERWRITE => *number = 1,
        ffi::SQLITE_FCNTL_PERSIST_WAL if *number < 0 => *number = c_int::from(handle.persist_log),
        ffi::SQLITE_FCNTL_PERSIST_WAL => handle.persist_log = *number != 0,
        _ => *number = 0,
    }
}

unsafe extern "C" fn x_sector_size(_file: *mut ffi::File) -> c_int {
    UNIT_BYTES as c_int
}

/// A unit is never torn (D2), and overwriting one does not affect its neighbours. Not `SAFE_APPEND`: the volume
/// guarantees it (V4), but SQLite's own VFS does not claim it for a file system that does, and the modes are compared.
unsafe extern "C" fn x_device_characteristics(file: *mut ffi::File) -> c_int {
    let plain =
        ffi::SQLITE_IOCAP_ATOMIC4K | ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE | ffi::SQLITE_IOCAP_SUBPAGE_READ;
    let mut characteristics = plain;
    // SAFETY: SQLite calls with an open file.
    unsafe {
        with(file, ffi::SQLITE_IOERR, |state| {
            let handle = state.handle()?;
            if handle.database_id().is_ok() && handle.host.lock().mode == Mode::Atomic {
                characteristics |= ffi::SQLITE_IOCAP_BATCH_ATOMIC;
            }
            Ok(ffi::SQLITE_OK)
        });
    }
    characteristics
}

unsafe extern "C" fn x_shm_map(
    file: *mut ffi::File,
    region: c_int,
    bytes: c_int,
    extend: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: SQLite calls with an open file and room for the answer.
    unsafe {
        with(file, ffi::SQLITE_IOERR_SHMMAP, |state| {
            let region = usize::try_from(region).unwrap_or(0);
            let bytes = usize::try_from(bytes).unwrap_or(0);
            *out = state.handle()?.map_shm(region, bytes, extend != 0)?.unwrap_or(ptr::null_mut());
            Ok(ffi::SQLITE_OK)
        })
    }
}

unsafe extern "C" fn x_shm_lock(file: *mut ffi::File, offset: c_int, count: c_int, flags: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file.
    unsafe {
        with(file, ffi::SQLITE_IOERR_SHMLOCK, |state| {
            let handle = state.handle()?;
            let start = usize::try_from(offset.clamp(0, ffi::SQLITE_SHM_NLOCK)).unwrap_or(0);
            let end = usize::try_from((offset + count).clamp(0, ffi::SQLITE_SHM_NLOCK)).unwrap_or(0);
            if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
                handle.unlock_shm(start..end)?;
            } else {
                handle.lock_shm(start..end, flags & ffi::SQLITE_SHM_EXCLUSIVE != 0)?;
            }
            Ok(ffi::SQLITE_OK)
        })
    }
}

unsafe extern "C" fn x_shm_barrier(_file: *mut ffi::File) {
    fence(Ordering::SeqCst);
}

unsafe extern "C" fn x_shm_unmap(file: *mut ffi::File, _delete: c_int) -> c_int {
    // SAFETY: SQLite calls with an open file.
    unsafe {
        with(file, ffi::SQLITE_IOERR_SHMMAP, |state| {
            state.handle()?.unmap_shm()?;
            Ok(ffi::SQLITE_OK)
        })
    }
}
