//! A mapping of a file, on Linux: where its bytes may move through memory, and who stores them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard};

use memmap2::MmapRaw;

use super::super::host_faults::Mapping;
use super::super::host_file::{HostFile, Unstored};
pub(in super::super) use super::super::kernel_copies::KernelCopies;
use super::super::past_cache::copy_past_cache;
use super::bus_errors::Watched;
use crate::prefetch::prefetch_lines;

/// Bytes of space reserved at once: the records of a new drive are far apart.
const PART: u64 = 256 << 10;

/// File systems that keep reserved space for stores: they write in place, and share no blocks among files.
const PROMISING: [i64; 2] = [libc::EXT4_SUPER_MAGIC, libc::TMPFS_MAGIC];
/// File systems whose mapped files are as they were written at once.
const COHERENT: [i64; 2] = [libc::XFS_SUPER_MAGIC, libc::OVERLAYFS_SUPER_MAGIC];

/// The flag of a file whose blocks are listed as extents.
const EXTENTS: libc::c_int = 0x0008_0000;

/// The mapping.
#[derive(Debug)]
pub(super) struct Map {
    /// Whether the host could not serve a page; then bytes no longer move through memory. Dropped before the memory.
    watched: Watched,
    memory: MmapRaw,
    bytes: u64,
    /// Parts whose space is reserved.
    ready: Box<[AtomicBool]>,
    /// If the kernel stores for the program.
    copies: Option<Mutex<KernelCopies>>,
}

impl Map {
    /// `None` if the host cannot map the file, or nothing is known about its file system.
    pub fn new(file: &HostFile) -> Option<Map> {
        let by_program = match file.mapping() {
            Mapping::Never => return None,
            Mapping::ByKernel => false,
            Mapping::Allowed => takes_stores(file.file())?,
        };
        let copies = if by_program { None } else { Some(Mutex::new(KernelCopies::new()?)) };
        let memory = file.map()?;
        let watched = Watched::new(&memory)?;
        let bytes = memory.len() as u64;
        let ready = (0..bytes.div_ceil(PART)).map(|_| AtomicBool::new(false)).collect();
        Some(Map { watched, memory, bytes, ready, copies })
    }

    /// Whether the program stores to it.
    #[inline]
    pub fn takes_stores(&self) -> bool {
        self.copies.is_none()
    }

    /// If the kernel stores for the program, and for nobody else just now.
    #[inline]
    pub fn copies(&self) -> Option<MutexGuard<'_, KernelCopies>> {
        self.copies.as_ref()?.try_lock().ok()
    }

    /// Has the kernel store what was gathered.
    pub fn copy_from(&self, copies: &mut KernelCopies, file: &HostFile) -> io::Result<()> {
        let copy = |copies: &KernelCopies| {
            let may_copy = !self.watched.is_broken() && file.may_copy();
            let copied = if may_copy { copies.copy(&self.memory) } else { 0 };
            // another thread may just have found out
            if self.watched.is_broken() { 0 } else { copied }
        };
        copies.move_by(copy, |data, at| file.write_all_at(data, at))
    }

    /// Whether the bytes may move through memory, both ways.
    #[inline]
    pub fn is_ready(&self, at: u64, bytes: usize) -> bool {
        let end = at.saturating_add(bytes as u64);
        let is_ready = |part: u64| self.ready[part as usize].load(Ordering::Relaxed);
        end <= self.bytes && !self.watched.is_broken() && (at / PART..end.div_ceil(PART)).all(is_ready)
    }

    /// Reserves space for the parts that contain the bytes.
    #[cold]
    pub fn reserve(&self, file: &HostFile, at: u64, bytes: usize) {
        let end = at.saturating_add(bytes as u64);
        if end > self.bytes || self.watched.is_broken() {
            return;
        }
        for part in at / PART..end.div_ceil(PART) {
            let (from, to) = (part * PART, ((part + 1) * PART).min(self.bytes));
            if file.reserve(from, to - from) {
                self.ready[part as usize].store(true, Ordering::Relaxed);
            }
        }
    }

    /// Reads through memory, if that is allowed and the host serves it. What `data` has is undefined if not.
    #[inline]
    #[allow(unsafe_code)]
    pub fn read(&self, file: &HostFile, data: &mut [u8], at: u64) -> bool {
        if !self.is_ready(at, data.len()) {
            return false;
        }
        if !file.serves_load() {
            self.watched.set_broken();
        }
        // SAFETY: the bytes lie in the mapping, which safe code has no reference to; nobody writes them meanwhile.
        unsafe {
            let from = self.memory.as_ptr().add(at as usize);
            std::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), data.len());
        }
        compiler_fence(Ordering::SeqCst);
        !self.watched.is_broken()
    }

    #[inline]
    pub fn prefetch(&self, at: u64, bytes: usize) {
        prefetch_lines(self.memory.as_ptr().wrapping_add(at as usize), bytes);
    }

    /// Writes through memory, if that is allowed and the host serves it. If not, any part may have been written.
    #[inline]
    pub fn write(&self, file: &HostFile, data: &[u8], at: u64) -> io::Result<bool> {
        if !self.takes_stores() || !self.is_ready(at, data.len()) {
            return Ok(false);
        }
        match file.will_store(at, data.len()) {
            Ok(()) => self.store(data, at),
            Err(Unstored::NotServed { stored }) => {
                self.store(&data[..stored], at);
                self.watched.set_broken();
            }
            Err(Unstored::Ended(ended)) => {
                self.store(&data[..ended.stored], at);
                return Err(ended.into());
            }
            Err(Unstored::Refused(error)) => return Err(error),
        }
        Ok(!self.watched.is_broken())
    }

    /// Stores bytes for which the map is ready.
    #[inline]
    #[allow(unsafe_code)]
    fn store(&self, data: &[u8], at: u64) {
        // SAFETY: the bytes lie in the mapping, which safe code has no reference to; nobody reads or writes them
        // meanwhile.
        let to = unsafe {
            let start = self.memory.as_mut_ptr().add(at as usize);
            std::slice::from_raw_parts_mut(start, data.len())
        };
        copy_past_cache(to, data);
        // a process is killed between two instructions, so the order of stores is preserved
        compiler_fence(Ordering::SeqCst);
    }
}

/// Whether the program may store to a file: otherwise the kernel must. `None` if the file must not be mapped.
fn takes_stores(file: &File) -> Option<bool> {
    match file_system(file)? {
        kind if PROMISING.contains(&kind) => Some(true),
        libc::OVERLAYFS_SUPER_MAGIC if lies_on_ext4(file) => Some(true),
        kind if COHERENT.contains(&kind) => Some(false),
        _ => None,
    }
}

/// The kind of file system that a file is on.
#[allow(unsafe_code)]
fn file_system(file: &File) -> Option<i64> {
    let mut found = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the descriptor is open, and there is room for the result; zeros are a valid value too.
    let (failed, found) =
        unsafe { (libc::fstatfs(file.as_raw_fd(), found.as_mut_ptr()), found.assume_init()) };
    #[allow(clippy::unnecessary_cast, reason = "its width differs among platforms")]
    let kind = found.f_type as i64;
    (failed == 0).then_some(kind)
}

/// Whether overlayfs keeps a file on ext4. It passes on the flags of a file, of which only ext4 has this one, and a
/// request to copy it by reference, which ext4 does not know. The latter would fail elsewhere too: the file would be
/// copied onto itself.
#[allow(unsafe_code)]
fn lies_on_ext4(file: &File) -> bool {
    // an int is stored, although the request's number says a long
    let (descriptor, mut flags) = (file.as_raw_fd(), [0 as libc::c_int; 2]);
    // SAFETY: the descriptor is open, and there is room for either.
    let has_flags = unsafe { libc::ioctl(descriptor, libc::FS_IOC_GETFLAGS, &raw mut flags) } == 0;
    // SAFETY: the descriptor is open.
    let is_copied = unsafe { libc::ioctl(descriptor, libc::FICLONE, descriptor) } == 0;
    let error = io::Error::last_os_error().raw_os_error();
    has_flags && flags[0] & EXTENTS != 0 && !is_copied && error == Some(libc::EOPNOTSUPP)
}
