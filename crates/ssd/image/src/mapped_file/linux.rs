//! A mapping of a file, on Linux: where its bytes may move through memory.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

use memmap2::MmapRaw;

use super::super::host_faults::Mapping;
use super::super::host_file::{HostFile, Unstored};
use super::super::past_cache::begin_copy_past_cache;
use super::bus_errors::Watched;
use crate::prefetch::prefetch_lines;

/// Bytes of space reserved at once: the records of a new drive are far apart.
const PART: u64 = 256 << 10;

/// File systems whose mapped files are as they were written at once, and the other way round.
const COHERENT: [i64; 4] =
    [libc::EXT4_SUPER_MAGIC, libc::TMPFS_MAGIC, libc::XFS_SUPER_MAGIC, libc::OVERLAYFS_SUPER_MAGIC];

/// The mapping.
#[derive(Debug)]
pub(super) struct Map {
    /// Whether the host could not serve a page; then bytes no longer move through memory. Dropped before the memory.
    watched: Watched,
    memory: MmapRaw,
    bytes: u64,
    /// Parts whose space is reserved.
    ready: Box<[AtomicBool]>,
}

impl Map {
    /// `None` if the host cannot map the file, or nothing is known about its file system.
    pub fn new(file: &HostFile) -> Option<Map> {
        if file.mapping() == Mapping::Never || !COHERENT.contains(&file_system(file.file())?) {
            return None;
        }
        let memory = file.map()?;
        let watched = Watched::new(&memory)?;
        let bytes = memory.len() as u64;
        let ready = (0..bytes.div_ceil(PART)).map(|_| AtomicBool::new(false)).collect();
        Some(Map { watched, memory, bytes, ready })
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

    /// Writes through memory, if that is allowed and the host serves it. If not, any part may have been written. Other threads
    /// may see it only after `end_copies`.
    #[inline]
    pub fn write(&self, file: &HostFile, data: &[u8], at: u64) -> io::Result<bool> {
        if !self.is_ready(at, data.len()) {
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

    /// Begins to store bytes for which the map is ready.
    #[inline]
    #[allow(unsafe_code)]
    fn store(&self, data: &[u8], at: u64) {
        // SAFETY: the bytes lie in the mapping, which safe code has no reference to; nobody reads or writes them
        // meanwhile.
        let to = unsafe {
            let start = self.memory.as_mut_ptr().add(at as usize);
            std::slice::from_raw_parts_mut(start, data.len())
        };
        begin_copy_past_cache(to, data);
        // a process is killed between two instructions, so the order of stores is preserved
        compiler_fence(Ordering::SeqCst);
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
