//! The file of a redo log: groups go to the disk sector by sector, bypassing the host's cache where the host allows that.
//!
//! The cache writes whole pages. A group is usually shorter than a page and begins inside one, so each sync would write
//! the bytes around it again. Without the cache only the group is written. Everything else in the file is written
//! through the cache; none of those pages contains a part of the redo log.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::host_file::HostFile;

/// What a disk writes atomically. Groups begin at multiples of it: a sector that holds a whole group is not rewritten.
pub(super) const SECTOR: usize = 512;

/// A sector. Writes that bypass the cache require memory aligned like the disk.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(512))]
struct Sector([u8; SECTOR]);

const _: () = assert!(size_of::<Sector>() == SECTOR);

/// Whole sectors, padded with zeros after the bytes.
pub(super) struct Sectors(Vec<Sector>);

impl Sectors {
    pub fn new(bytes: &[u8]) -> Sectors {
        let mut sectors = vec![Sector([0; SECTOR]); bytes.len().div_ceil(SECTOR)];
        sectors.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        Sectors(sectors)
    }

    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// A file that has a redo log.
pub(super) struct RedoFile {
    file: Arc<HostFile>,
    /// The file opened to bypass the host's cache.
    direct: Option<HostFile>,
}

impl RedoFile {
    /// Takes over a file. Writes `first` to see whether the host's cache can be bypassed.
    pub fn open(file: Arc<HostFile>, first: &Sectors, at: u64) -> io::Result<RedoFile> {
        if let Ok(direct) = file.open_direct()
            && direct.write_if_possible(first.bytes(), at)?
        {
            return Ok(RedoFile { file, direct: Some(direct) });
        }
        let log = RedoFile { file, direct: None };
        log.write(first, at)?;
        Ok(log)
    }

    /// Writes; the next sync makes it durable.
    pub fn write(&self, sectors: &Sectors, at: u64) -> io::Result<()> {
        self.direct.as_ref().unwrap_or(&self.file).write_all_at(sectors.bytes(), at)
    }
}

/// The rest of a sync, after its changes were gathered. It does not need the medium, which may be used and changed
/// meanwhile. It runs once: whoever asks for it then waits until it has run, and is told how it ended.
#[derive(Clone)]
pub struct HostSync(Arc<Gathered>);

pub(super) struct Gathered {
    log: Arc<RedoFile>,
    pub(super) group: Sectors,
    pub(super) at: u64,
    ended: Mutex<Option<Result<(), Arc<io::Error>>>>,
}

impl std::fmt::Debug for HostSync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostSync").field("bytes", &self.0.group.bytes().len()).finish_non_exhaustive()
    }
}

impl HostSync {
    pub(super) fn new(log: Arc<RedoFile>, group: Sectors, at: u64) -> HostSync {
        HostSync(Arc::new(Gathered { log, group, at, ended: Mutex::new(None) }))
    }

    /// Writes what was gathered, and returns when that and everything written before are on the disk.
    pub fn run(&self) -> io::Result<()> {
        let mut ended = self.0.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let run = || self.write().and_then(|()| self.0.log.file.sync_data()).map_err(Arc::new);
        ended.get_or_insert_with(run).clone().map_err(|error| io::Error::new(error.kind(), error))
    }

    fn write(&self) -> io::Result<()> {
        self.0.log.write(&self.0.group, self.0.at)
    }

    /// Writes the group into the host's cache, but not to its disk.
    #[cfg(test)]
    pub(super) fn run_in_cache(&self) -> io::Result<()> {
        self.write()?;
        *self.0.ended.lock().unwrap() = Some(Ok(()));
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn fail(&self) {
        *self.0.ended.lock().unwrap() = Some(Err(Arc::new(io::Error::other("the disk failed"))));
    }

    #[cfg(test)]
    pub(super) fn gathered(&self) -> &Gathered {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn sectors_are_whole_aligned_and_end_in_zeros() {
        for (bytes, expected) in [(0, 0), (1, 512), (511, 512), (512, 512), (513, 1024)] {
            let sectors = Sectors::new(&vec![7; bytes]);
            assert_eq!(sectors.bytes().len(), expected);
            assert_eq!(sectors.bytes().as_ptr() as usize % SECTOR, 0);
            assert!(sectors.bytes()[..bytes].iter().all(|byte| *byte == 7));
            assert!(sectors.bytes()[bytes..].iter().all(|byte| *byte == 0));
        }
    }

    fn shared(file: &File) -> Arc<HostFile> {
        Arc::new(HostFile::new(file.try_clone().unwrap(), None))
    }

    fn read(file: &File, at: u64) -> u8 {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        byte[0]
    }

    #[test]
    fn a_log_is_read_as_it_was_written_past_the_cache_or_not() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        let log = RedoFile::open(shared(&file), &Sectors::new(&[1; 600]), 4096).unwrap();
        let cached = RedoFile { file: shared(&file), direct: None };
        for (round, log) in (2..9).zip([&log, &cached].into_iter().cycle()) {
            // as another reader of the file at the same time leaves it
            let before = read(&file, 4096 + 512 * u64::from(round));
            assert_eq!(before, 0);
            log.write(&Sectors::new(&[round; 512]), 4096 + 512 * u64::from(round)).unwrap();
            assert_eq!(read(&file, 4096 + 512 * u64::from(round)), round);
        }
        assert_eq!([4096, 4695, 4696].map(|at| read(&file, at)), [1, 1, 0]);
    }

    #[test]
    fn where_the_cache_cannot_be_avoided_it_is_used() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 20).unwrap();
        // no disk has sectors that begin there
        let log = RedoFile::open(shared(&file), &Sectors::new(&[1; 600]), 4097).unwrap();
        assert_eq!([4096, 4097].map(|at| read(&file, at)), [0, 1]);
        log.write(&Sectors::new(&[2; 100]), 8001).unwrap();
        assert_eq!(read(&file, 8001), 2);
    }
}
