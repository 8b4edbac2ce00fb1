//! The part of SQLite's C interface that a VFS needs.
//!
//! The structures and numbers below have not changed since SQLite 3.8 and are promised not to. Defining them here makes
//! the VFS independent of how SQLite enters the process: linked in, or as the program that loads the extension. A test
//! compares them with the bindings of the bundled library.

use std::ffi::{c_char, c_int, c_void};

/// `sqlite3_file`: SQLite allocates `szOsFile` bytes, of which it knows only this.
#[repr(C)]
#[derive(Debug)]
pub struct File {
    /// The methods; null if the file was not opened.
    pub methods: *const IoMethods,
}

/// `sqlite3_io_methods`, version 2.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "SQLite documents its methods")]
pub struct IoMethods {
    pub version: c_int,
    pub close: unsafe extern "C" fn(*mut File) -> c_int,
    pub read: unsafe extern "C" fn(*mut File, *mut c_void, c_int, i64) -> c_int,
    pub write: unsafe extern "C" fn(*mut File, *const c_void, c_int, i64) -> c_int,
    pub truncate: unsafe extern "C" fn(*mut File, i64) -> c_int,
    pub sync: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub file_size: unsafe extern "C" fn(*mut File, *mut i64) -> c_int,
    pub lock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub unlock: unsafe extern "C" fn(*mut File, c_int) -> c_int,
    pub check_reserved_lock: unsafe extern "C" fn(*mut File, *mut c_int) -> c_int,
    pub file_control: unsafe extern "C" fn(*mut File, c_int, *mut c_void) -> c_int,
    pub sector_size: unsafe extern "C" fn(*mut File) -> c_int,
    pub device_characteristics: unsafe extern "C" fn(*mut File) -> c_int,
    pub shm_map: unsafe extern "C" fn(*mut File, c_int, c_int, c_int, *mut *mut c_void) -> c_int,
    pub shm_lock: unsafe extern "C" fn(*mut File, c_int, c_int, c_int) -> c_int,
    pub shm_barrier: unsafe extern "C" fn(*mut File),
    pub shm_unmap: unsafe extern "C" fn(*mut File, c_int) -> c_int,
}

/// `sqlite3_vfs`, version 2.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "SQLite documents its methods")]
pub struct Vfs {
    pub version: c_int,
    pub os_file_bytes: c_int,
    pub max_pathname: c_int,
    pub next: *mut Vfs,
    pub name: *const c_char,
    pub app_data: *mut c_void,
    pub open: unsafe extern "C" fn(*mut Vfs, *const c_char, *mut File, c_int, *mut c_int) -> c_int,
    pub delete: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int) -> c_int,
    pub access: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_int) -> c_int,
    pub full_pathname: unsafe extern "C" fn(*mut Vfs, *const c_char, c_int, *mut c_char) -> c_int,
    pub dl_open: Option<unsafe extern "C" fn(*mut Vfs, *const c_char) -> *mut c_void>,
    pub dl_error: Option<unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char)>,
    pub dl_sym: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void, *const c_char) -> *mut c_void>,
    pub dl_close: Option<unsafe extern "C" fn(*mut Vfs, *mut c_void)>,
    pub randomness: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub sleep: unsafe extern "C" fn(*mut Vfs, c_int) -> c_int,
    pub current_time: unsafe extern "C" fn(*mut Vfs, *mut f64) -> c_int,
    pub get_last_error: unsafe extern "C" fn(*mut Vfs, c_int, *mut c_char) -> c_int,
    pub current_time_int64: unsafe extern "C" fn(*mut Vfs, *mut i64) -> c_int,
}

/// Defines SQLite's constants of one type.
macro_rules! constants {
    ($($name:ident = $value:expr;)*) => {
        $(pub(crate) const $name: c_int = $value;)*

        #[cfg(all(test, feature = "bundled"))]
        mod constant_tests {
            #[test]
            fn constants_are_sqlites() {
                $(assert_eq!(super::$name, rusqlite::ffi::$name, stringify!($name));)*
            }
        }
    };
}

constants! {
    SQLITE_OK = 0;
    SQLITE_ERROR = 1;
    SQLITE_BUSY = 5;
    SQLITE_READONLY = 8;
    SQLITE_NOTFOUND = 12;
    SQLITE_FULL = 13;
    SQLITE_CANTOPEN = 14;
    SQLITE_WARNING = 28;
    SQLITE_IOERR = 10;
    SQLITE_IOERR_READ = SQLITE_IOERR | (1 << 8);
    SQLITE_IOERR_SHORT_READ = SQLITE_IOERR | (2 << 8);
    SQLITE_IOERR_WRITE = SQLITE_IOERR | (3 << 8);
    SQLITE_IOERR_FSYNC = SQLITE_IOERR | (4 << 8);
    SQLITE_IOERR_TRUNCATE = SQLITE_IOERR | (6 << 8);
    SQLITE_IOERR_FSTAT = SQLITE_IOERR | (7 << 8);
    SQLITE_IOERR_UNLOCK = SQLITE_IOERR | (8 << 8);
    SQLITE_IOERR_DELETE = SQLITE_IOERR | (10 << 8);
    SQLITE_IOERR_LOCK = SQLITE_IOERR | (15 << 8);
    SQLITE_IOERR_CLOSE = SQLITE_IOERR | (16 << 8);
    SQLITE_IOERR_SHMLOCK = SQLITE_IOERR | (20 << 8);
    SQLITE_IOERR_SHMMAP = SQLITE_IOERR | (21 << 8);
    SQLITE_IOERR_DELETE_NOENT = SQLITE_IOERR | (23 << 8);
    SQLITE_IOERR_BEGIN_ATOMIC = SQLITE_IOERR | (29 << 8);
    SQLITE_IOERR_COMMIT_ATOMIC = SQLITE_IOERR | (30 << 8);
    SQLITE_IOERR_ROLLBACK_ATOMIC = SQLITE_IOERR | (31 << 8);

    SQLITE_OPEN_CREATE = 0x4;
    SQLITE_OPEN_DELETEONCLOSE = 0x8;
    SQLITE_OPEN_EXCLUSIVE = 0x10;
    SQLITE_OPEN_MAIN_DB = 0x100;
    SQLITE_OPEN_WAL = 0x80000;

    SQLITE_UTF8 = 1;

    SQLITE_LOCK_SHARED = 1;
    SQLITE_LOCK_RESERVED = 2;
    SQLITE_LOCK_PENDING = 3;
    SQLITE_LOCK_EXCLUSIVE = 4;

    SQLITE_SHM_UNLOCK = 1;
    SQLITE_SHM_EXCLUSIVE = 8;
    SQLITE_SHM_NLOCK = 8;

    SQLITE_FCNTL_LOCKSTATE = 1;
    SQLITE_FCNTL_SIZE_HINT = 5;
    SQLITE_FCNTL_CHUNK_SIZE = 6;
    SQLITE_FCNTL_PERSIST_WAL = 10;
    SQLITE_FCNTL_POWERSAFE_OVERWRITE = 13;
    SQLITE_FCNTL_PRAGMA = 14;
    SQLITE_FCNTL_HAS_MOVED = 20;
    SQLITE_FCNTL_COMMIT_PHASETWO = 22;
    SQLITE_FCNTL_BEGIN_ATOMIC_WRITE = 31;
    SQLITE_FCNTL_COMMIT_ATOMIC_WRITE = 32;
    SQLITE_FCNTL_ROLLBACK_ATOMIC_WRITE = 33;

    SQLITE_IOCAP_ATOMIC4K = 0x10;
    SQLITE_IOCAP_POWERSAFE_OVERWRITE = 0x1000;
    SQLITE_IOCAP_BATCH_ATOMIC = 0x4000;
    SQLITE_IOCAP_SUBPAGE_READ = 0x8000;
}

#[cfg(all(test, feature = "bundled"))]
mod tests {
    use super::*;
    use rusqlite::ffi;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_are_laid_out_as_sqlites() {
        assert_eq!(size_of::<File>(), size_of::<ffi::sqlite3_file>());
        assert_eq!(size_of::<IoMethods>(), offset_of!(ffi::sqlite3_io_methods, xFetch));
        assert_eq!(offset_of!(IoMethods, shm_unmap), offset_of!(ffi::sqlite3_io_methods, xShmUnmap));
        assert_eq!(offset_of!(IoMethods, file_control), offset_of!(ffi::sqlite3_io_methods, xFileControl));
        assert_eq!(size_of::<Vfs>(), offset_of!(ffi::sqlite3_vfs, xSetSystemCall));
        assert_eq!(offset_of!(Vfs, open), offset_of!(ffi::sqlite3_vfs, xOpen));
        assert_eq!(offset_of!(Vfs, dl_open), offset_of!(ffi::sqlite3_vfs, xDlOpen));
        assert_eq!(offset_of!(Vfs, current_time_int64), offset_of!(ffi::sqlite3_vfs, xCurrentTimeInt64));
    }
}
