//! A file whose bytes move through memory, wherever the host guarantees space for them.
//!
//! A system call takes longer than copying a record, and as long as copying a few units, so the file is mapped. But a
//! store to mapped memory for which the host's disk has no space kills the process. So a part of the file is used in
//! this way only once its space has been reserved, and only on file systems that keep such a reservation. XFS may have
//! to copy a block before a store, if somebody has copied the file by reference, and overlayfs does not tell what keeps its
//! files: there only units are read through memory, which have space because they were written. Everywhere else system
//! calls are used, which report errors.
//!
//! The caller ensures that nobody writes the bytes while they move: slots have one owner, and records belong to the
//! image.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

#[cfg(target_os = "linux")]
use self::linux::Map;
#[cfg(not(target_os = "linux"))]
use self::unmapped::Map;

/// A file, mapped up to its length when it is opened.
#[derive(Debug)]
pub(crate) struct MappedFile {
    file: File,
    map: Option<Map>,
}

impl MappedFile {
    /// Takes a file that may be written.
    pub fn new(file: File) -> MappedFile {
        let map = Map::new(&file);
        MappedFile { file, map }
    }

    /// Bytes of the file.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads; reading beyond the end is an error.
    #[inline]
    pub fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match &self.map {
            Some(map) if map.read(data, at) => Ok(()),
            _ => self.file.read_exact_at(data, at),
        }
    }

    /// Whether units are read through memory wherever the host has space; then nothing is gained by reading many at
    /// once.
    pub fn reads_are_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// The same for writes.
    pub fn writes_are_mapped(&self) -> bool {
        self.map.as_ref().is_some_and(Map::takes_stores)
    }

    /// As [`MappedFile::read`], for units, which were written: what was written before the file was opened is mapped too.
    #[inline]
    pub fn read_units(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        self.reserve(at, data.len());
        match &self.map {
            Some(map) if map.read_written(data, at) => Ok(()),
            _ => self.file.read_exact_at(data, at),
        }
    }

    /// Prefetches bytes that are read next into the processor's cache, if they are read through memory.
    #[inline]
    pub fn prefetch(&self, at: u64, bytes: usize) {
        if let Some(map) = &self.map {
            map.prefetch(at, bytes);
        }
    }

    /// If the process is killed, writes all or nothing of what does not cross a page of the host's cache. Writing
    /// beyond the end extends the file.
    #[inline]
    pub fn write(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(data, at)
    }

    /// Writes byte by byte: a killed process leaves any part. Later writes follow all of it.
    #[inline]
    pub fn write_in_parts(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.reserve(at, data.len());
        match &self.map {
            Some(map) if map.write(data, at) => Ok(()),
            _ => self.file.write_all_at(data, at),
        }
    }

    /// Reserves space, if possible.
    #[inline]
    fn reserve(&self, at: u64, bytes: usize) {
        if let Some(map) = &self.map
            && map.takes_stores()
            && !map.is_ready(at, bytes)
        {
            map.reserve(&self.file, at, bytes);
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};

    use memmap2::{MmapOptions, MmapRaw};

    use super::super::past_cache::copy_past_cache;
    use super::super::prefetch::prefetch_lines;

    /// Bytes of space reserved at once: the records of a new drive are far apart.
    const PART: u64 = 256 << 10;

    /// File systems that keep reserved space for stores: they write in place, and share no blocks among files.
    const PROMISING: [i64; 2] = [libc::EXT4_SUPER_MAGIC, libc::TMPFS_MAGIC];
    /// File systems whose files may be read through memory: what was written is there at once.
    const READABLE: [i64; 2] = [libc::XFS_SUPER_MAGIC, libc::OVERLAYFS_SUPER_MAGIC];

    /// The mapping.
    #[derive(Debug)]
    pub(super) struct Map {
        memory: MmapRaw,
        bytes: u64,
        /// Parts whose space is reserved; none of a file that is only read.
        ready: Option<Box<[AtomicBool]>>,
    }

    impl Map {
        /// `None` if the host cannot map the file, or its file system guarantees nothing.
        pub fn new(file: &File) -> Option<Map> {
            let kind = file_system(file)?;
            let bytes = file.metadata().ok()?.len();
            let mut options = MmapOptions::new();
            options.len(usize::try_from(bytes).ok()?);
            if PROMISING.contains(&kind) {
                let memory = options.map_raw(file).ok()?;
                let ready = (0..bytes.div_ceil(PART)).map(|_| AtomicBool::new(false)).collect();
                return Some(Map { memory, bytes, ready: Some(ready) });
            }
            if !READABLE.contains(&kind) {
                return None;
            }
            Some(Map { memory: options.map_raw_read_only(file).ok()?, bytes, ready: None })
        }

        /// Whether it is for more than reading.
        #[inline]
        pub fn takes_stores(&self) -> bool {
            self.ready.is_some()
        }

        /// Whether the bytes may move through memory, both ways.
        #[inline]
        pub fn is_ready(&self, at: u64, bytes: usize) -> bool {
            let end = at.saturating_add(bytes as u64);
            let Some(ready) = &self.ready else { return false };
            end <= self.bytes
                && (at / PART..end.div_ceil(PART)).all(|part| ready[part as usize].load(Ordering::Relaxed))
        }

        /// Reserves space for the parts that contain the bytes.
        #[cold]
        pub fn reserve(&self, file: &File, at: u64, bytes: usize) {
            let end = at.saturating_add(bytes as u64);
            let Some(ready) = self.ready.as_ref().filter(|_| end <= self.bytes) else { return };
            for part in at / PART..end.div_ceil(PART) {
                let (from, to) = (part * PART, ((part + 1) * PART).min(self.bytes));
                if reserve(file, from, to - from) {
                    ready[part as usize].store(true, Ordering::Relaxed);
                }
            }
        }

        /// Reads through memory, if that is allowed.
        #[inline]
        pub fn read(&self, data: &mut [u8], at: u64) -> bool {
            self.is_ready(at, data.len()) && self.copy(data, at)
        }

        /// Reads what was written through memory, if that is allowed.
        #[inline]
        pub fn read_written(&self, data: &mut [u8], at: u64) -> bool {
            (!self.takes_stores() || self.is_ready(at, data.len())) && self.copy(data, at)
        }

        #[inline]
        pub fn prefetch(&self, at: u64, bytes: usize) {
            prefetch_lines(self.memory.as_ptr().wrapping_add(at as usize), bytes);
        }

        /// False if the bytes do not lie in the mapping.
        #[inline]
        #[allow(unsafe_code)]
        fn copy(&self, data: &mut [u8], at: u64) -> bool {
            if at.saturating_add(data.len() as u64) > self.bytes {
                return false;
            }
            // SAFETY: the bytes lie in the mapping, which safe code has no reference to; nobody writes them meanwhile.
            unsafe {
                let from = self.memory.as_ptr().add(at as usize);
                std::ptr::copy_nonoverlapping(from, data.as_mut_ptr(), data.len());
            }
            true
        }

        /// Writes through memory, if that is allowed.
        #[inline]
        #[allow(unsafe_code)]
        pub fn write(&self, data: &[u8], at: u64) -> bool {
            if !self.is_ready(at, data.len()) {
                return false;
            }
            // SAFETY: the bytes lie in the mapping, which safe code has no reference to; nobody reads or writes them
            // meanwhile.
            let to = unsafe {
                let start = self.memory.as_mut_ptr().add(at as usize);
                std::slice::from_raw_parts_mut(start, data.len())
            };
            copy_past_cache(to, data);
            // a process is killed between two instructions, so the order of stores is preserved
            compiler_fence(Ordering::SeqCst);
            true
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

    #[allow(unsafe_code)]
    fn reserve(file: &File, at: u64, bytes: u64) -> bool {
        let keep = libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the descriptor is open.
        unsafe { libc::fallocate(file.as_raw_fd(), keep, at as libc::off_t, bytes as libc::off_t) == 0 }
    }
}

#[cfg(not(target_os = "linux"))]
mod unmapped {
    use std::fs::File;

    /// Unsupported: this host has no way to reserve space.
    #[derive(Debug)]
    pub(super) enum Map {}

    impl Map {
        pub fn new(_file: &File) -> Option<Map> {
            None
        }

        pub fn takes_stores(&self) -> bool {
            match *self {}
        }

        pub fn is_ready(&self, _at: u64, _bytes: usize) -> bool {
            match *self {}
        }

        pub fn reserve(&self, _file: &File, _at: u64, _bytes: usize) {
            match *self {}
        }

        pub fn read(&self, _data: &mut [u8], _at: u64) -> bool {
            match *self {}
        }

        pub fn read_written(&self, _data: &mut [u8], _at: u64) -> bool {
            match *self {}
        }

        pub fn prefetch(&self, _at: u64, _bytes: usize) {
            match *self {}
        }

        pub fn write(&self, _data: &[u8], _at: u64) -> bool {
            match *self {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    use super::*;

    const BYTES: u64 = 5 << 20;

    /// Files of zeros: in the tests' usual place, and in memory, where the host gives the guarantee.
    fn files() -> Vec<File> {
        let folders = [std::env::temp_dir(), Path::new("/dev/shm").to_owned()];
        let made = folders.iter().filter_map(|folder| tempfile::tempfile_in(folder).ok());
        made.inspect(|file| file.set_len(BYTES).unwrap()).collect()
    }

    #[test]
    fn bytes_are_the_files_however_they_move() {
        for file in files() {
            let (again, mapped) = (file.try_clone().unwrap(), MappedFile::new(file));
            let bytes: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8).collect();
            // within a part, over the border of two, at the end, and beyond it
            for at in [77, (256 << 10) - 4096, (3 << 20) - 1, BYTES - 10_000, BYTES - 1, BYTES + 20_000] {
                mapped.write_in_parts(&bytes, at).unwrap();
                let mut found = vec![0; bytes.len()];
                again.read_exact_at(&mut found, at).unwrap();
                assert!(found == bytes, "written at {at}");
                found.fill(0);
                mapped.read(&mut found, at).unwrap();
                assert!(found == bytes, "read at {at}");
                mapped.write(&bytes[5..7], at + 1).unwrap();
                mapped.read_units(&mut found, at).unwrap();
                assert_eq!(found[..4], [0, 5, 6, 3], "at {at}");
            }
            assert_eq!(mapped.length().unwrap(), BYTES + 30_000);
            assert!(mapped.read(&mut [0; 2], BYTES + 29_999).is_err());
            assert!(mapped.read(&mut [0], u64::MAX).is_err());
        }
    }

    #[test]
    fn reading_what_was_never_written_takes_no_room_and_writing_takes_no_more_than_a_part() {
        for file in files() {
            let (again, mapped) = (file.try_clone().unwrap(), MappedFile::new(file));
            let taken = || again.metadata().unwrap().blocks() * 512;
            let mut found = [1; 100];
            mapped.read(&mut found, 2 << 20).unwrap();
            assert_eq!((found, taken()), ([0; 100], 0));
            mapped.write_in_parts(&[1; 100], 2 << 20).unwrap();
            assert!((1..=256 << 10).contains(&taken()), "{} bytes are taken", taken());
        }
    }
}
