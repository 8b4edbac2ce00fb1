//! Bytes that the kernel copies to mapped memory, so that a page for which the host has no space is an error.
//!
//! A store to such a page kills the process. The kernel stores to the memory of a program too, when it reads a file for it,
//! and stops there with an error instead. So the bytes are gathered in a file in memory, and one `preadv` reads them to
//! where they belong: a system call for many pieces, which passes the file system only where a page is new to the host's
//! cache, or was written to its disk.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use memmap2::{MmapMut, MmapOptions, MmapRaw};

/// Bytes that are gathered at most: they stay in the processor's cache.
const ROOM: usize = 64 << 10;

/// Pieces that are gathered at most.
const MOST_PIECES: usize = 64;

/// Pieces for a mapped file, in order.
#[derive(Debug)]
pub(super) struct KernelCopies {
    /// A file in memory.
    file: File,
    /// Its bytes. Those of the pieces are at its start, one after another.
    gathered: MmapMut,
    /// Where the pieces go, and their lengths.
    pieces: Vec<(u64, usize)>,
    bytes: usize,
}

impl KernelCopies {
    /// `None` if the host has no files in memory.
    #[allow(unsafe_code)]
    pub fn new() -> Option<KernelCopies> {
        // SAFETY: the name is a string that ends with a zero.
        let descriptor = unsafe { libc::memfd_create(c"tantalum".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the descriptor is open, and nobody else has it.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(ROOM as u64).ok()?;
        // SAFETY: the file has no name, so nobody else changes it.
        let gathered = unsafe { MmapOptions::new().len(ROOM).map_mut(&file) }.ok()?;
        Some(KernelCopies { file, gathered, pieces: Vec::with_capacity(MOST_PIECES), bytes: 0 })
    }

    /// Gathers a piece for byte `at` of the file. False if there is no room.
    #[must_use]
    pub fn gather(&mut self, data: &[u8], at: u64) -> bool {
        let end = self.bytes + data.len();
        if end > ROOM || self.pieces.len() == MOST_PIECES {
            return false;
        }
        self.gathered[self.bytes..end].copy_from_slice(data);
        self.pieces.push((at, data.len()));
        self.bytes = end;
        true
    }

    /// Has what was gathered moved to its places, in order. `copy` says how many bytes it copied; the rest is left to
    /// `write`. If that fails, the piece and those after it stay gathered.
    pub fn move_by(
        &mut self,
        copy: impl FnOnce(&KernelCopies) -> usize,
        write: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.pieces.is_empty() {
            return Ok(());
        }
        let copied = copy(self);
        let written = if copied < self.bytes { self.write_rest(copied, write) } else { Ok(()) };
        if written.is_ok() {
            self.pieces.clear();
            self.bytes = 0;
        }
        written
    }

    /// Writes what follows the first `copied` bytes.
    #[cold]
    fn write_rest(
        &mut self,
        copied: usize,
        mut write: impl FnMut(&[u8], u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut start = 0;
        for (number, &(at, bytes)) in self.pieces.iter().enumerate() {
            let skipped = copied.saturating_sub(start).min(bytes);
            if skipped < bytes
                && let Err(error) = write(&self.gathered[start + skipped..start + bytes], at + skipped as u64)
            {
                self.pieces.drain(..number);
                self.gathered.copy_within(start..self.bytes, 0);
                self.bytes -= start;
                return Err(error);
            }
            start += bytes;
        }
        Ok(())
    }

    /// Puts what was gathered for these bytes of the file over what was read from it.
    pub fn lay_over(&self, data: &mut [u8], at: u64) {
        let (mut start, end) = (0, at + data.len() as u64);
        for &(piece_at, bytes) in &self.pieces {
            let (from, to) = (piece_at.max(at), (piece_at + bytes as u64).min(end));
            if from < to {
                let piece = &self.gathered[start..start + bytes];
                let piece = &piece[(from - piece_at) as usize..(to - piece_at) as usize];
                data[(from - at) as usize..(to - at) as usize].copy_from_slice(piece);
            }
            start += bytes;
        }
    }

    /// Has the kernel copy to the file that is mapped at `memory`. Returns how many bytes it copied, from the first on: it
    /// stops at a page that the host cannot serve.
    #[allow(unsafe_code)]
    pub fn copy(&self, memory: &MmapRaw) -> usize {
        let mut places = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST_PIECES];
        for (place, &(at, bytes)) in places.iter_mut().zip(&self.pieces) {
            assert!(at.saturating_add(bytes as u64) <= memory.len() as u64, "byte {at} is mapped");
            *place = libc::iovec {
                iov_base: memory.as_mut_ptr().wrapping_add(at as usize).cast(),
                iov_len: bytes,
            };
        }
        // SAFETY: the descriptor is open, the places lie in the mapping, which safe code has no reference to, and nobody
        // reads or writes them meanwhile.
        let copied = unsafe {
            libc::preadv(self.file.as_raw_fd(), places.as_ptr(), self.pieces.len() as libc::c_int, 0)
        };
        usize::try_from(copied).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// Two pages of a file of three pages; the mapping is longer.
    fn mapped() -> (File, MmapRaw) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(3 * 4096).unwrap();
        let memory = MmapOptions::new().len(3 * 4096).map_raw(&file).unwrap();
        file.set_len(2 * 4096).unwrap();
        (file, memory)
    }

    #[test]
    fn what_the_kernel_cannot_copy_is_written_and_the_order_is_kept() {
        let (_file, memory) = mapped();
        let mut copies = KernelCopies::new().unwrap();
        for (byte, at, bytes) in [(1, 0, 100), (2, 50, 10), (3, 8000, 300), (4, 60, 1), (5, 9000, 2)] {
            assert!(copies.gather(&vec![byte; bytes], at));
        }
        let mut written = Vec::new();
        let record = |data: &[u8], at: u64| {
            written.push((data[0], at, data.len()));
            Ok(())
        };
        copies.move_by(|copies| copies.copy(&memory), record).unwrap();
        // the third piece crosses the end of the file
        assert_eq!(written, [(3, 8192, 108), (4, 60, 1), (5, 9000, 2)]);
        copies.move_by(|copies| copies.copy(&memory), |_, _| panic!("nothing is gathered")).unwrap();
    }

    #[test]
    fn after_an_error_the_rest_stays_gathered_in_order() {
        let (file, memory) = mapped();
        let mut copies = KernelCopies::new().unwrap();
        assert!(copies.gather(&[1; 3], 0) && copies.gather(&[2; 3], 1) && copies.gather(&[3; 10], 9000));
        assert!(copies.gather(&[4; 2], 1));
        let full = |_: &[u8], _| Err(io::Error::from(io::ErrorKind::StorageFull));
        for _ in 0..2 {
            assert_eq!(
                copies.move_by(|copies| copies.copy(&memory), full).unwrap_err().kind(),
                io::ErrorKind::StorageFull
            );
        }
        let mut found = [9; 5];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, [1, 2, 2, 2, 0]);
        copies.lay_over(&mut found, 0);
        assert_eq!(found, [1, 4, 4, 2, 0], "what is gathered is read");
        file.set_len(3 * 4096).unwrap();
        copies.move_by(|copies| copies.copy(&memory), |_, _| panic!("the kernel can copy all now")).unwrap();
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(found, [1, 4, 4, 2, 0]);
        file.read_exact_at(&mut found, 8999).unwrap();
        assert_eq!(found, [0, 3, 3, 3, 3]);
    }

    #[test]
    fn what_is_gathered_lies_over_what_it_overlaps_and_the_last_counts() {
        let mut copies = KernelCopies::new().unwrap();
        for (byte, at, bytes) in [(1, 10, 10), (2, 0, 5), (3, 18, 9), (4, 40, 3), (5, 19, 1), (6, 15, 0)] {
            assert!(copies.gather(&vec![byte; bytes], at));
        }
        let mut data = [0; 20];
        copies.lay_over(&mut data, 4);
        assert_eq!(data, [2, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5, 3, 3, 3, 3]);
    }

    #[test]
    fn there_is_room_for_some_bytes_and_some_pieces() {
        let mut copies = KernelCopies::new().unwrap();
        assert!(copies.gather(&vec![1; ROOM], 0) && !copies.gather(&[1], 0) && copies.gather(&[], 0));
        let mut copies = KernelCopies::new().unwrap();
        assert!((0..MOST_PIECES).all(|_| copies.gather(&[1], 0)) && !copies.gather(&[1], 0));
        assert!(!KernelCopies::new().unwrap().gather(&vec![1; ROOM + 1], 0));
    }
}
