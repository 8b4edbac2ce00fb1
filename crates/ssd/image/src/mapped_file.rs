//! A file whose bytes move through memory, wherever the host has space for them.
//!
//! A system call takes longer than copying a record, and as long as copying a few units, so the file is mapped. A part of
//! the file is used in this way only once its space has been reserved, so that a full disk is nearly always found by a
//! system call. File systems do not always keep such a reservation, and disks fail: once the host could not serve a page
//! (`bus_errors.rs`), all bytes move in system calls, which say what is wrong, if anything still is. On file systems that are
//! not known here system calls are used from the start.
//!
//! The caller ensures that nobody writes the bytes while they move: slots have one owner, and records belong to the
//! image.

#[cfg(target_os = "linux")]
mod bus_errors;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod unmapped;

use std::io;
use std::sync::Arc;

#[cfg(target_os = "linux")]
use self::linux::Map;
#[cfg(not(target_os = "linux"))]
use self::unmapped::Map;
use super::host_file::HostFile;
use super::past_cache::end_copies;

/// Bytes, and where in the file they go.
pub type Piece<'a> = (&'a [u8], u64);

/// A file, mapped up to its length when it is opened.
#[derive(Debug)]
pub struct MappedFile {
    file: Arc<HostFile>,
    map: Option<Map>,
}

impl MappedFile {
    /// Takes a file that may be written.
    pub(crate) fn new(file: Arc<HostFile>) -> MappedFile {
        let map = Map::new(&file);
        MappedFile { file, map }
    }

    /// Bytes of the file.
    pub fn length(&self) -> io::Result<u64> {
        self.file.length()
    }

    /// Reads; reading beyond the end is an error.
    #[inline]
    pub fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match &self.map {
            Some(map) if map.read(&self.file, data, at) => Ok(()),
            _ => self.file.read_exact_at(data, at),
        }
    }

    /// Whether units move through memory wherever the host has space; then nothing is gained by moving many at once.
    pub fn is_mapped(&self) -> bool {
        self.map.is_some()
    }

    /// As [`MappedFile::read`], for units, which were written: what was written before the file was opened is mapped too.
    #[inline]
    pub fn read_units(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        self.reserve(at, data.len());
        self.read(data, at)
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

    /// Writes several pieces in order, each byte by byte: a killed process leaves any part. Later writes follow all of it, and
    /// other threads may read it afterwards.
    #[inline]
    pub fn write_pieces<'a>(&self, pieces: impl IntoIterator<Item = Piece<'a>>) -> io::Result<()> {
        let written = pieces.into_iter().try_for_each(|(data, at)| self.write_piece(data, at));
        end_copies();
        written
    }

    #[inline]
    fn write_piece(&self, data: &[u8], at: u64) -> io::Result<()> {
        self.reserve(at, data.len());
        match &self.map {
            Some(map) if map.write(&self.file, data, at)? => Ok(()),
            _ => self.file.write_all_at(data, at),
        }
    }

    /// Reserves space, if possible.
    #[inline]
    fn reserve(&self, at: u64, bytes: usize) {
        if let Some(map) = &self.map
            && !map.is_ready(at, bytes)
        {
            map.reserve(&self.file, at, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::Path;

    use super::super::host_faults::{Mapping, TestHost};
    use super::*;
    use crate::random::SplitMix64;

    const BYTES: u64 = 5 << 20;

    /// Files of zeros: in the tests' usual place, and in memory, where the host gives the guarantee.
    fn files() -> Vec<File> {
        let folders = [std::env::temp_dir(), Path::new("/dev/shm").to_owned()];
        let made = folders.iter().filter_map(|folder| tempfile::tempfile_in(folder).ok());
        made.inspect(|file| file.set_len(BYTES).unwrap()).collect()
    }

    /// The files, mapped for stores of the program if the host allows that, and for those of the kernel, with another
    /// descriptor of each.
    fn mapped_files() -> Vec<(File, MappedFile)> {
        let mapped = |mapping| {
            files().into_iter().map(move |file| {
                let again = file.try_clone().unwrap();
                (again, MappedFile::new(Arc::new(HostFile::new(file, Some(TestHost::new(mapping, 0))))))
            })
        };
        mapped(Mapping::Allowed).chain(mapped(Mapping::Never)).collect()
    }

    #[test]
    fn bytes_are_the_files_however_they_move() {
        for (again, mapped) in mapped_files() {
            let bytes: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8).collect();
            // within a part, over the border of two, at the end, and beyond it
            for at in [77, (256 << 10) - 4096, (3 << 20) - 1, BYTES - 10_000, BYTES - 1, BYTES + 20_000] {
                mapped.write_pieces([(&bytes[..], at)]).unwrap();
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

    /// Pieces over the same bytes, of all lengths, more than are gathered at once, and some where nothing is mapped: as if
    /// each were written by itself.
    #[test]
    fn pieces_are_written_in_order() {
        for (again, mapped) in mapped_files() {
            let mut random = SplitMix64(17);
            let mut expected = vec![0; BYTES as usize + 80_000];
            again.write_all_at(&[0], BYTES + 79_999).unwrap();
            for _ in 0..40 {
                let pieces: Vec<(Vec<u8>, u64)> = (0..random.below(90))
                    .map(|_| {
                        let near = [0, (256 << 10) - 300, BYTES - 300][random.below(3) as usize];
                        let longest = [8, 300, 70_000][random.below(3) as usize];
                        let byte = random.below(256) as u8;
                        (vec![byte; random.below(longest) as usize], near + random.below(600))
                    })
                    .collect();
                mapped.write_pieces(pieces.iter().map(|(data, at)| (&data[..], *at))).unwrap();
                for (data, at) in &pieces {
                    expected[*at as usize..][..data.len()].copy_from_slice(data);
                }
            }
            let mut found = vec![0; expected.len()];
            again.read_exact_at(&mut found, 0).unwrap();
            assert!(found == expected);
        }
    }

    /// Somebody shortens the file, so that the host cannot serve its last pages: system calls write them anew, and say that
    /// others cannot be read.
    #[test]
    fn what_the_host_cannot_serve_moves_in_system_calls() {
        for (again, mapped) in mapped_files() {
            let bytes: Vec<u8> = (0..10_000).map(|at| (at % 251) as u8).collect();
            let pieces = [0, 1, 2, 3].map(|part| (&bytes[..], part << 20));
            mapped.write_pieces(pieces).unwrap();
            again.set_len((2 << 20) + 4096).unwrap();
            let mut found = vec![0; bytes.len()];
            mapped.write_pieces(pieces[..3].iter().copied()).unwrap();
            for at in [0, 1, 2] {
                mapped.read(&mut found, at << 20).unwrap();
                assert!(found == bytes, "part {at}");
                again.read_exact_at(&mut found, at << 20).unwrap();
                assert!(found == bytes, "part {at} of the file");
            }
            let missing = mapped.read_units(&mut found, 3 << 20).unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::UnexpectedEof);
            mapped.write_pieces(pieces).unwrap();
            mapped.read_units(&mut found, 3 << 20).unwrap();
            assert!(found == bytes);
            assert_eq!(mapped.length().unwrap(), (3 << 20) + 10_000);
        }
    }

    /// Pages that the host cannot serve are found out by reading.
    #[test]
    fn a_page_that_cannot_be_read_is_an_error() {
        for (again, mapped) in mapped_files() {
            let mut found = [7; 100];
            mapped.write_pieces([(&[1; 100][..], 3 << 20)]).unwrap();
            mapped.read(&mut found, 3 << 20).unwrap();
            again.set_len(1 << 20).unwrap();
            assert_eq!(mapped.read(&mut found, 3 << 20).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
            assert_eq!(mapped.length().unwrap(), 1 << 20);
        }
    }

    #[test]
    fn reading_what_was_never_written_takes_no_room_and_writing_takes_no_more_than_a_part() {
        for (again, mapped) in mapped_files() {
            let taken = || again.metadata().unwrap().blocks() * 512;
            let mut found = [1; 100];
            mapped.read(&mut found, 2 << 20).unwrap();
            assert_eq!((found, taken()), ([0; 100], 0));
            mapped.write_pieces([(&[1; 100][..], 2 << 20)]).unwrap();
            assert!((1..=256 << 10).contains(&taken()), "{} bytes are taken", taken());
        }
    }
}
