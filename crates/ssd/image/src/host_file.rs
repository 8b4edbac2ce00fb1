//! The file of an image: the one seam through which every call on it goes.
//!
//! Invariants:
//! - After a change failed (a write, a growth, a sync), no other is tried: each is refused with the error that came first.
//!   So whatever still wants to write, nothing more reaches the file, and what was durable stays readable.
//! - Reads go on.
//! - Reserving space and mapping are requests: if the host declines, other calls do the work. Giving space back is one too: if
//!   the host declines, it keeps the space, and is not asked again.
//!
//! Behind it a test can put a host that fails ([`TestHost`]).

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use memmap2::{MmapOptions, MmapRaw};

use super::host_faults::{HostCall, Mapping, TestHost};
use super::life::Ended;
use crate::lock_holder::LockHolder;

/// Bytes of a page of the host's cache.
pub(super) const HOST_PAGE: usize = 4096;

/// What a file system counts in.
const BLOCK_BYTES: u64 = 512;

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
    /// Whether the host takes no space back.
    keeps_space: AtomicBool,
}

impl HostFile {
    pub fn new(file: File, host: Option<TestHost>) -> HostFile {
        let keeps_space = AtomicBool::new(!cfg!(target_os = "linux"));
        HostFile { file, shared: Arc::new(Shared { host, failed: OnceLock::new(), keeps_space }) }
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

    // -- space ------------------------------------------------------------------------------------------------

    /// Bytes that it takes on the disk.
    pub fn bytes_on_disk(&self) -> io::Result<u64> {
        self.ask(HostCall::Read)?;
        Ok(self.file.metadata()?.blocks() * BLOCK_BYTES)
    }

    /// Whether the host takes space back, as far as is known.
    pub fn takes_space_back(&self) -> bool {
        !self.shared.keeps_space.load(Ordering::Relaxed)
    }

    /// Gives the space of whole pages of the host's cache back: they read as zeros. To the disk this is a change like a write:
    /// until the next sync, any of them may be as they were. False if the host declines; any of them may be zeros then.
    pub fn give_back(&self, bytes: Range<u64>) -> io::Result<bool> {
        let page = HOST_PAGE as u64;
        debug_assert!(
            bytes.start.is_multiple_of(page) && bytes.end.is_multiple_of(page),
            "the bytes {bytes:?} are not whole pages"
        );
        if !self.takes_space_back() {
            return Ok(false);
        }
        self.check()?;
        let given = match self.tested() {
            None => punch(&self.file, bytes),
            Some(host) => host.punch(&self.file, bytes.start / page..bytes.end / page, |pages| {
                punch(&self.file, pages.start * page..pages.end * page)
            }),
        };
        match given {
            Ok(()) => Ok(true),
            Err(error) if is_refusal(&error) => {
                self.shared.keeps_space.store(true, Ordering::Relaxed);
                Ok(false)
            }
            Err(error) => Err(self.fail(error)),
        }
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

/// Makes bytes of a file a hole.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn punch(file: &File, bytes: Range<u64>) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let (at, length) = (bytes.start as libc::off_t, (bytes.end - bytes.start) as libc::off_t);
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    loop {
        // SAFETY: the descriptor is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, at, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Unsupported on this host.
#[cfg(not(target_os = "linux"))]
fn punch(_: &File, _: Range<u64>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether an error says that the host cannot make holes, or has no room for what it notes about them.
fn is_refusal(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, QuotaExceeded, StorageFull, Unsupported};

    matches!(error.kind(), Unsupported | InvalidInput | PermissionDenied | StorageFull | QuotaExceeded)
}

/// A copy of an error, for whoever asks next.
fn again(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::host_faults::{HostFailure, HostFault};
    use super::*;

    const PAGE: u64 = HOST_PAGE as u64;

    fn file_of(byte: u8, host: &TestHost) -> (tempfile::NamedTempFile, HostFile) {
        let named = tempfile::NamedTempFile::new().unwrap();
        named.as_file().write_all_at(&[byte; 64 * HOST_PAGE], 0).unwrap();
        let file = File::options().read(true).write(true).open(named.path()).unwrap();
        (named, HostFile::new(file, Some(host.clone())))
    }

    #[test]
    fn what_goes_back_reads_as_zeros_and_takes_no_space() {
        let host = TestHost::new(Mapping::Never, 1);
        let (_named, file) = file_of(7, &host);
        file.sync_data().unwrap();
        let before = file.bytes_on_disk().unwrap();
        assert!(file.give_back(PAGE..60 * PAGE).unwrap());
        file.sync_data().unwrap();
        assert_eq!(before - file.bytes_on_disk().unwrap(), 59 * PAGE);
        let mut found = vec![0; 64 * HOST_PAGE];
        file.read_exact_at(&mut found, 0).unwrap();
        let is_hole = |page: usize| (1..60).contains(&page);
        assert!(
            found
                .chunks(HOST_PAGE)
                .enumerate()
                .all(|(page, bytes)| { bytes.iter().all(|byte| *byte == if is_hole(page) { 0 } else { 7 }) })
        );
        assert_eq!(file.length().unwrap(), 64 * PAGE);
    }

    #[test]
    fn a_host_that_declines_keeps_the_space_and_is_not_asked_again() {
        let host = TestHost::new(Mapping::Never, 1);
        let (_named, file) = file_of(7, &host);
        host.faults.fail(HostFault { after: 0, failure: HostFailure::NoSpace, lasts: false });
        assert!(!file.give_back(0..PAGE).unwrap() && !file.takes_space_back());
        let calls = host.faults.call_count();
        assert!(!file.give_back(0..PAGE).unwrap());
        assert_eq!(host.faults.call_count(), calls);
        file.write_all_at(&[8], 0).unwrap();
    }

    #[test]
    fn after_a_hole_failed_nothing_is_changed() {
        let host = TestHost::new(Mapping::Never, 1);
        let (_named, file) = file_of(7, &host);
        host.faults.fail(HostFault { after: 0, failure: HostFailure::Io, lasts: false });
        assert!(file.give_back(0..PAGE).is_err());
        assert!(file.write_all_at(&[8], 0).is_err() && file.give_back(0..PAGE).is_err());
    }

    /// Of what was given back since the last sync, a lost machine may have any.
    #[test]
    fn a_machine_that_is_lost_may_have_what_was_given_back() {
        let (mut back, mut gone) = (0, 0);
        for seed in 0..20 {
            let host = TestHost::new(Mapping::Never, seed);
            let (named, file) = file_of(7, &host);
            file.give_back(0..32 * PAGE).unwrap();
            if seed % 2 == 0 {
                file.sync_data().unwrap();
            }
            host.faults.lose_machine(named.path()).unwrap();
            let mut found = vec![0; 64 * HOST_PAGE];
            file.read_exact_at(&mut found, 0).unwrap();
            let (holes, rest) = found.split_at(32 * HOST_PAGE);
            assert!(rest.iter().all(|byte| *byte == 7));
            assert!(seed % 2 == 1 || holes.iter().all(|byte| *byte == 0), "that was synced");
            back += holes.iter().filter(|byte| **byte == 7).count();
            gone += holes.iter().filter(|byte| **byte == 0).count();
        }
        assert!(back > 1 << 18 && gone > 1 << 18, "{back}, {gone}");
    }
}
