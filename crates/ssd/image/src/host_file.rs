//! The file of an image: the one seam through which every call on it goes.
//!
//! Invariants:
//! - After a change failed (a write, a growth, a sync), no other is tried: each is refused with the error that came first.
//!   So whatever still wants to write, nothing more reaches the file, and what was durable stays readable.
//! - Reads go on.
//! - Reserving space and mapping are requests: if the host declines, other calls do the work.
//!
//! Behind it a test can put a host that fails ([`TestHost`]).

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, OnceLock};

use memmap2::{MmapOptions, MmapRaw};

use super::host_faults::{HostCall, Mapping, TestHost};
use super::life::Ended;
use crate::lock_holder::LockHolder;

/// Bytes of a page of the host's cache.
pub(super) const HOST_PAGE: usize = 4096;

/// An open file of an image.
#[derive(Debug)]
pub(crate) struct HostFile {
    file: File,
    shared: Arc<Shared>,
}

/// What all descriptors of one file have in common.
#[derive(Debug)]
struct Shared {
    host: Option<TestHost>,
    /// Why the first change that failed did.
    failed: OnceLock<io::Error>,
}

impl HostFile {
    pub fn new(file: File, host: Option<TestHost>) -> HostFile {
        HostFile { file, shared: Arc::new(Shared { host, failed: OnceLock::new() }) }
    }

    #[inline]
    fn tested(&self) -> Option<&TestHost> {
        self.shared.host.as_ref()
    }

    /// Asks the host of a test, if there is one.
    fn ask(&self, call: HostCall) -> io::Result<()> {
        self.tested().map_or(Ok(()), |host| host.ask(call))
    }

    /// A descriptor of the same file that bypasses the host's cache. Memory must be aligned like the disk.
    #[cfg(target_os = "linux")]
    pub fn open_direct(&self) -> io::Result<HostFile> {
        use std::os::fd::AsRawFd;
        use std::os::unix::fs::OpenOptionsExt;

        // by its descriptor: its name may belong to another file by now
        let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        // the host of a test writes less than a sector when it fails
        let flags = if self.tested().is_some() { 0 } else { libc::O_DIRECT };
        let file = File::options().read(true).write(true).custom_flags(flags).open(same)?;
        Ok(HostFile { file, shared: Arc::clone(&self.shared) })
    }

    /// Unsupported on this host.
    #[cfg(not(target_os = "linux"))]
    pub fn open_direct(&self) -> io::Result<HostFile> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn try_lock(&self) -> Result<(), TryLockError> {
        self.file.try_lock()
    }

    pub fn try_lock_shared(&self) -> Result<(), TryLockError> {
        self.file.try_lock_shared()
    }

    /// Who has locked it.
    pub fn lock_holder(&self) -> LockHolder {
        LockHolder::of(&self.file)
    }

    pub fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    // -- reading ----------------------------------------------------------------------------------------------

    /// Bytes of the file.
    pub fn length(&self) -> io::Result<u64> {
        self.ask(HostCall::Read)?;
        Ok(self.file.metadata()?.len())
    }

    /// Whether it is a regular file.
    pub fn is_regular(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.is_file())
    }

    /// Reads; reading beyond the end is an error.
    pub fn read_exact_at(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        self.ask(HostCall::Read)?;
        self.file.read_exact_at(data, at)
    }

    /// Reads what is there. Returns the number of bytes.
    pub fn read_present_at(&self, data: &mut [u8], at: u64) -> io::Result<usize> {
        self.ask(HostCall::Read)?;
        let mut done = 0;
        while done < data.len() {
            match self.file.read_at(&mut data[done..], at + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    // -- changing ---------------------------------------------------------------------------------------------

    /// Whether changes may still be made.
    ///
    /// # Errors
    /// The error of the first change that failed.
    #[inline]
    pub fn check(&self) -> io::Result<()> {
        match self.shared.failed.get() {
            None => Ok(()),
            Some(first) => Err(again(first)),
        }
    }

    /// Makes a change, unless an earlier one failed.
    fn change(&self, change: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.check()?;
        change().map_err(|error| self.fail(error))
    }

    /// Refuses all changes from now on, because a part of one failed, and returns its error.
    pub fn fail(&self, error: io::Error) -> io::Error {
        // a process that has ended is not a host that failed
        if Ended::is_why(&error) {
            return error;
        }
        let returned = again(&error);
        // of two that fail at once, either is the first
        let _ = self.shared.failed.set(error);
        returned
    }

    /// Writes; writing beyond the end extends the file. A process that ends writes all or nothing of what does not cross
    /// a page of the host's cache.
    pub fn write_all_at(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.change(|| self.write_now(data, at))
    }

    fn write_now(&self, data: &[u8], at: u64) -> io::Result<()> {
        match self.tested() {
            None => self.file.write_all_at(data, at),
            Some(host) => host.write(&self.file, data, at),
        }
    }

    /// As [`HostFile::write_all_at`], where the host may refuse such a write: then nothing is written, other changes go
    /// on, and the answer is false.
    pub fn write_if_possible(&self, data: &[u8], at: u64) -> io::Result<bool> {
        match self.write_now(data, at) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
            Err(error) => self.change(|| Err(error)).map(|()| true),
        }
    }

    /// Sets the length.
    pub fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.change(|| {
            self.tested().map_or(Ok(()), |host| host.ask_for_change(HostCall::Grow))?;
            self.file.set_len(bytes)
        })
    }

    /// Returns when what was written is on the disk.
    pub fn sync_data(&self) -> io::Result<()> {
        self.change(|| match self.tested() {
            None => self.file.sync_data(),
            Some(host) => host.sync(&self.file),
        })
    }

    /// Makes data and the file's metadata durable, as `fsync` does.
    pub fn sync_all(&self) -> io::Result<()> {
        self.change(|| match self.tested() {
            None => self.file.sync_all(),
            Some(host) => host.sync(&self.file),
        })
    }

    // -- through memory ---------------------------------------------------------------------------------------

    /// The file as far as it is long now, or nothing if the host cannot map it.
    pub fn map(&self) -> Option<MmapRaw> {
        self.ask(HostCall::Map).ok()?;
        let bytes = self.file.metadata().ok()?.len();
        MmapOptions::new().len(usize::try_from(bytes).ok()?).map_raw(&self.file).ok()
    }

    /// How a test wants it mapped.
    pub fn mapping(&self) -> Mapping {
        self.tested().map_or(Mapping::default(), |host| host.mapping)
    }

    /// Whether the host of a test serves a load of mapped memory.
    #[inline]
    pub fn serves_load(&self) -> bool {
        self.ask(HostCall::Load).is_ok()
    }

    /// Bytes are about to be stored through memory.
    ///
    /// # Errors
    /// Why they must not be, or only in part.
    #[inline]
    pub fn will_store(&self, at: u64, bytes: usize) -> Result<(), Unstored> {
        self.check().map_err(Unstored::Refused)?;
        self.tested().map_or(Ok(()), |host| host.store(at, bytes))
    }

    /// Reserves space, if the host has it.
    #[cfg(target_os = "linux")]
    #[allow(unsafe_code)]
    pub fn reserve(&self, at: u64, bytes: u64) -> bool {
        use std::os::fd::AsRawFd;

        if self.check().is_err() || self.ask(HostCall::Reserve).is_err() {
            return false;
        }
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open.
        unsafe { libc::fallocate(self.file.as_raw_fd(), keep, at as libc::off_t, bytes as libc::off_t) == 0 }
    }

    /// For questions about its file system.
    #[cfg(target_os = "linux")]
    pub fn file(&self) -> &File {
        &self.file
    }
}

/// Why bytes were not stored through memory.
#[derive(Debug)]
pub(crate) enum Unstored {
    /// The host of a test does not serve the memory after so many of them.
    NotServed {
        /// Bytes that reach the file.
        stored: usize,
    },
    /// The process ends during this store.
    Ended(Ended),
    /// An earlier change failed.
    Refused(io::Error),
}

/// A copy of an error, for whoever asks next.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}
