//! The methods of a VFS, as SQLite calls them. Loading libraries is passed on to SQLite's own VFS (`libraries`).

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tantalum_volume::{NAME_BYTES, Volume};

use crate::fault::Fault;
use crate::ffi;
use crate::file::{self, OpenFile};
use crate::handle::Handle;
use crate::image::Parameters;
use crate::image_error::ImageError;
use crate::temporary::TemporaryFile;
use crate::vfs::{Vfs, guard};

/// The object of a VFS: its methods find the VFS at its address.
pub(crate) fn object(name: &CStr, vfs: *const Vfs) -> ffi::Vfs {
    ffi::Vfs {
        version: 2,
        os_file_bytes: size_of::<file::FileObject>() as c_int,
        max_pathname: NAME_BYTES as c_int,
        next: ptr::null_mut(),
        name: name.as_ptr(),
        app_data: vfs.cast_mut().cast::<c_void>(),
        open: x_open,
        delete: x_delete,
        access: x_access,
        full_pathname: x_full_pathname,
        dl_open: Some(x_dl_open),
        dl_error: Some(x_dl_error),
        dl_sym: Some(x_dl_sym),
        dl_close: Some(x_dl_close),
        randomness: x_randomness,
        sleep: x_sleep,
        current_time: x_current_time,
        get_last_error: x_get_last_error,
        current_time_int64: x_current_time_int64,
    }
}

impl Vfs {
    /// Opens what `xOpen` asks for.
    ///
    /// # Safety
    ///
    /// `name` and `flags` came to `xOpen`.
    unsafe fn open_file(&self, name: *const c_char, flags: c_int) -> Result<OpenFile, Fault> {
        if name.is_null() {
            return Ok(OpenFile::Temporary(TemporaryFile::default()));
        }
        // SAFETY: SQLite passes a terminated string.
        let text = unsafe { name_of(name) };
        let host = if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
            // SAFETY: by the caller's word it came to xOpen, and as the name of a database.
            self.hosts.for_database(text, flags, || unsafe { self.parameters(name) })
        } else {
            self.hosts.for_name(text).ok_or_else(|| Fault::NoSuchFile(text.to_owned()))
        }?;
        match Handle::open(&host, text, flags, self.file_time()) {
            Ok(handle) => {
                self.hosts.opened(&host);
                let only_read =
                    host.lock().only_read.as_ref().map(|why| format!("tantalum: database {text:?}: {why}"));
                if let Some(message) = only_read.filter(|_| flags & ffi::SQLITE_OPEN_MAIN_DB != 0) {
                    self.tell(ffi::SQLITE_WARNING, message);
                }
                // The handle has a reference of its own; the last one closes the image.
                drop(host);
                Ok(OpenFile::OnVolume(handle))
            }
            Err(fault) => {
                self.hosts.abandon(host);
                Err(fault)
            }
        }
    }

    /// The contents of a database's URI.
    ///
    /// # Safety
    ///
    /// `name` came to `xOpen` as the name of a database file.
    unsafe fn parameters(&self, name: *const c_char) -> Result<Parameters, ImageError> {
        if let Some(uri_key) = self.api.uri_key {
            // SAFETY: by the caller's word `name` is one that may be asked for keys. Each is null or a terminated string.
            let key = |number| unsafe {
                let key = uri_key(name, number);
                (!key.is_null()).then(|| CStr::from_ptr(key).to_string_lossy().into_owned())
            };
            Parameters::check_names((0..).map_while(key))?;
        }
        let parameter = |key: &CStr| {
            // SAFETY: by the caller's word `name` is one that may be asked for parameters.
            let value = unsafe { (self.api.uri_parameter)(name, key.as_ptr()) };
            // SAFETY: it is null or a terminated string that lives as long as the name.
            (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
        };
        Ok(Parameters {
            image: parameter(c"image"),
            profile: parameter(c"profile"),
            capacity: parameter(c"capacity"),
            interface: parameter(c"interface"),
            time: parameter(c"time"),
        })
    }
}

/// The VFS behind the object that SQLite passes.
///
/// # Safety
///
/// `object` is one that [`object`] made, and its VFS lives.
unsafe fn vfs_of<'a>(object: *mut ffi::Vfs) -> &'a Vfs {
    // SAFETY: `app_data` is the address of the VFS, by the caller's word a living one.
    unsafe { &*(*object).app_data.cast::<Vfs>() }
}

/// A file name that SQLite passes; empty if it is not UTF-8, since no file has such a name.
///
/// # Safety
///
/// `name` is a terminated string.
unsafe fn name_of<'a>(name: *const c_char) -> &'a str {
    // SAFETY: by the caller's word.
    unsafe { CStr::from_ptr(name) }.to_str().unwrap_or("")
}

unsafe extern "C" fn x_open(
    object: *mut ffi::Vfs,
    name: *const c_char,
    file: *mut ffi::File,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite passes room for `os_file_bytes`. Without methods it will not close what failed to open.
    unsafe { (*file).methods = ptr::null() };
    guard(|| {
        // SAFETY: SQLite passes the object it was given.
        let vfs = unsafe { vfs_of(object) };
        // SAFETY: SQLite passes null or a terminated string, and this is xOpen.
        match unsafe { vfs.open_file(name, flags) } {
            Ok(opened) => {
                // SAFETY: the VFS is in an Arc, to which `app_data` points; this is one more reference to it.
                let owner = unsafe {
                    Arc::increment_strong_count(ptr::from_ref(vfs));
                    Arc::from_raw(ptr::from_ref(vfs))
                };
                // SAFETY: SQLite passes room for `os_file_bytes`, and null or room for the flags.
                unsafe {
                    file::open(file, owner, opened);
                    if !out_flags.is_null() {
                        *out_flags = flags;
                    }
                }
                ffi::SQLITE_OK
            }
            Err(fault) => vfs.report(&fault, ffi::SQLITE_CANTOPEN),
        }
    })
}

unsafe extern "C" fn x_delete(object: *mut ffi::Vfs, name: *const c_char, sync_dir: c_int) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes the object it was given and a terminated string.
        let (vfs, name) = unsafe { (vfs_of(object), name_of(name)) };
        let Some(host) = vfs.hosts.for_name(name) else { return ffi::SQLITE_IOERR_DELETE_NOENT };
        let deleted = delete(&mut host.lock().volume, name, sync_dir != 0);
        match deleted {
            Ok(true) => ffi::SQLITE_OK,
            Ok(false) => ffi::SQLITE_IOERR_DELETE_NOENT,
            Err(fault) => vfs.report(&fault, ffi::SQLITE_IOERR_DELETE),
        }
    })
}

/// Deletes a file. Returns whether there was one.
fn delete(volume: &mut Volume, name: &str, durable: bool) -> Result<bool, Fault> {
    if volume.find(name).is_none() {
        return Ok(false);
    }
    volume.remove(name)?;
    if durable {
        volume.sync_names()?;
    }
    Ok(true)
}

unsafe extern "C" fn x_access(
    object: *mut ffi::Vfs,
    name: *const c_char,
    _flags: c_int,
    out: *mut c_int,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes the object it was given and a terminated string.
        let (vfs, name) = unsafe { (vfs_of(object), name_of(name)) };
        // As in SQLite's own VFS, an empty file does not exist: an empty journal counts as none.
        let exists = vfs.hosts.for_name(name).is_some_and(|host| {
            let volume = &host.lock().volume;
            volume.find(name).is_some_and(|file| volume.size(file).is_ok_and(|size| size > 0))
        });
        // SAFETY: SQLite passes room for the answer.
        unsafe { *out = c_int::from(exists) };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn x_full_pathname(
    _object: *mut ffi::Vfs,
    name: *const c_char,
    out_bytes: c_int,
    out: *mut c_char,
) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes a terminated string.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        // A volume has no folders, so a name is its own path.
        let name = name.strip_prefix(b"./").unwrap_or(name);
        if name.len() + 1 > usize::try_from(out_bytes).unwrap_or(0) {
            return ffi::SQLITE_CANTOPEN;
        }
        // SAFETY: there is room for the name and its end.
        unsafe {
            ptr::copy_nonoverlapping(name.as_ptr(), out.cast(), name.len());
            *out.add(name.len()) = 0;
        }
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn x_dl_open(object: *mut ffi::Vfs, path: *const c_char) -> *mut c_void {
    // SAFETY: SQLite passes the object it was given and a terminated string.
    unsafe { vfs_of(object).libraries.open(path) }
}

unsafe extern "C" fn x_dl_error(object: *mut ffi::Vfs, bytes: c_int, out: *mut c_char) {
    // SAFETY: SQLite passes the object it was given and room for that many bytes.
    unsafe { vfs_of(object).libraries.error(bytes, out) };
}

unsafe extern "C" fn x_dl_sym(
    object: *mut ffi::Vfs,
    library: *mut c_void,
    symbol: *const c_char,
) -> *mut c_void {
    // SAFETY: SQLite passes the object it was given, a library that it opened through it, and a terminated string.
    unsafe { vfs_of(object).libraries.symbol(library, symbol) }
}

unsafe extern "C" fn x_dl_close(object: *mut ffi::Vfs, library: *mut c_void) {
    // SAFETY: as above, and SQLite closes a library once.
    unsafe { vfs_of(object).libraries.close(library) };
}

unsafe extern "C" fn x_randomness(object: *mut ffi::Vfs, bytes: c_int, out: *mut c_char) -> c_int {
    guard(|| {
        let length = usize::try_from(bytes).unwrap_or(0);
        // SAFETY: SQLite passes the object it was given and room for that many bytes, which need not be set.
        let (vfs, out) = unsafe {
            ptr::write_bytes(out, 0, length);
            (vfs_of(object), std::slice::from_raw_parts_mut(out.cast::<u8>(), length))
        };
        vfs.entropy.lock().unwrap_or_else(PoisonError::into_inner).fill(out);
        bytes
    })
}

unsafe extern "C" fn x_sleep(_object: *mut ffi::Vfs, microseconds: c_int) -> c_int {
    // Threads wait for one another here, so this takes real time even if the drive's is virtual.
    std::thread::sleep(Duration::from_micros(u64::try_from(microseconds).unwrap_or(0)));
    microseconds
}

unsafe extern "C" fn x_current_time(object: *mut ffi::Vfs, out: *mut f64) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes the object it was given and room for the answer.
        unsafe { *out = vfs_of(object).julian_ms() as f64 / 86_400_000.0 };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn x_current_time_int64(object: *mut ffi::Vfs, out: *mut i64) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes the object it was given and room for the answer.
        unsafe { *out = vfs_of(object).julian_ms() };
        ffi::SQLITE_OK
    })
}

unsafe extern "C" fn x_get_last_error(object: *mut ffi::Vfs, bytes: c_int, out: *mut c_char) -> c_int {
    guard(|| {
        // SAFETY: SQLite passes the object it was given.
        let vfs = unsafe { vfs_of(object) };
        let room = usize::try_from(bytes).unwrap_or(0);
        let message = vfs.last_error.lock().unwrap_or_else(PoisonError::into_inner);
        if room > 0 && !out.is_null() {
            let length = message.len().min(room - 1);
            // SAFETY: there is room for `length` bytes and an end.
            unsafe {
                ptr::copy_nonoverlapping(message.as_ptr(), out.cast(), length);
                *out.add(length) = 0;
            }
        }
        0
    })
}
