//! The bytes of an image: a file, a file that is only read under changes that stay in memory, or a file with a redo log.

use std::io;
use std::sync::Arc;

use super::locked_file::LockedFile;
use super::mapped_file::{KernelCopies, MappedFile, Piece};
use super::ordered::Ordered;
use super::overlay::Overlay;
use super::redo_log::{self, RedoPlace};

/// Where the bytes are.
pub(super) enum Store {
    /// In the file.
    File(InFile),
    /// In memory if they were changed, otherwise in the file.
    Overlay(Overlay),
    /// In the file, through a redo log.
    Ordered(Box<Ordered>),
}

/// A file that gets all changes at once, or when what was gathered is stored.
pub(super) struct InFile {
    _lock: LockedFile,
    mapped: Arc<MappedFile>,
    /// If the kernel stores for the program: what is to be stored, in order.
    copies: Option<KernelCopies>,
    /// Whether that may wait.
    gathers: bool,
}

impl Store {
    /// Changes go to the file. The redo log, if any, is replayed first.
    pub fn file(file: LockedFile, log: Option<RedoPlace>) -> io::Result<Store> {
        Ok(Store::File(InFile::open(file, log)?))
    }

    /// Changes go to memory. So does the replay of a redo log.
    pub fn overlay(file: LockedFile, log: Option<RedoPlace>) -> io::Result<Store> {
        let mut overlay = Overlay::new(file)?;
        if let Some(log) = log {
            let file = overlay.file().share();
            redo_log::replay(&file, log, |data, at| overlay.write(data, at))?;
        }
        Ok(Store::Overlay(overlay))
    }

    /// Changes go through the redo log.
    pub fn ordered(file: LockedFile, log: RedoPlace) -> io::Result<Store> {
        let sequence = redo_log::settle(&file, log)?;
        Ok(Store::Ordered(Box::new(Ordered::new(Overlay::new(file)?, log, sequence)?)))
    }

    /// The file with a redo log, if it is one.
    pub fn as_ordered(&mut self) -> Option<&mut Ordered> {
        match self {
            Store::Ordered(ordered) => Some(ordered),
            Store::File(_) | Store::Overlay(_) => None,
        }
    }

    /// Whether changes go through the redo log.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Store::Ordered(_))
    }

    /// The file, if slots are written to it without involving a redo log.
    pub fn slot_file(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Store::File(file) => Some(&file.mapped),
            Store::Overlay(_) | Store::Ordered(_) => None,
        }
    }

    /// Bytes of the image.
    pub fn length(&self) -> io::Result<u64> {
        match self {
            Store::File(file) => file.mapped.length(),
            Store::Overlay(overlay) => Ok(overlay.length()),
            Store::Ordered(ordered) => ordered.length(),
        }
    }

    /// Reads; reading beyond the end is an error.
    #[inline]
    pub fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) => file.read(data, at),
            Store::Overlay(overlay) => overlay.read(data, at),
            Store::Ordered(ordered) => ordered.read(data, at),
        }
    }

    /// Writes; writing beyond the end extends the image. A killed process writes all or nothing of what does not cross
    /// a page of the host's cache.
    #[inline]
    pub fn write(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) => file.write(data, at),
            Store::Overlay(overlay) => overlay.write(data, at),
            Store::Ordered(ordered) => ordered.write(data, at),
        }
    }

    /// As [`Store::write`], but a killed process may write any part. Later writes follow all of it.
    #[inline]
    pub fn write_in_parts(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        self.write_pieces([(data, at)])
    }

    /// Writes several pieces in order, as [`Store::write_in_parts`] writes each.
    #[inline]
    pub fn write_pieces<const N: usize>(&mut self, pieces: [Piece<'_>; N]) -> io::Result<()> {
        match self {
            Store::File(file) => file.write_pieces(pieces),
            Store::Overlay(_) | Store::Ordered(_) => {
                pieces.into_iter().try_for_each(|(data, at)| self.write(data, at))
            }
        }
    }

    /// Whether it can gather what is written.
    pub fn gathers(&self) -> bool {
        matches!(self, Store::File(InFile { copies: Some(_), .. }))
    }

    /// What is written in parts from now on may wait until [`Store::store_gathered`].
    #[inline]
    pub fn gather(&mut self) {
        if let Store::File(file) = self {
            file.gathers = true;
        }
    }

    /// Writes what was gathered, in order. What could not be written stays gathered, and what is written later waits for
    /// it.
    #[inline]
    pub fn store_gathered(&mut self) -> io::Result<()> {
        match self {
            Store::File(file) => {
                file.gathers = false;
                file.store()
            }
            Store::Overlay(_) | Store::Ordered(_) => Ok(()),
        }
    }

    /// Reads a unit's data from their slot.
    #[inline]
    pub fn read_unit(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) => file.read_unit(data, at),
            Store::Overlay(_) | Store::Ordered(_) => self.read(data, at),
        }
    }

    /// Writes a unit's data to its slot. `checksum` is that of the data.
    #[inline]
    pub fn write_unit(&mut self, data: &[u8], at: u64, checksum: u32) -> io::Result<()> {
        match self {
            Store::Ordered(ordered) => ordered.write_unit(data, at, checksum),
            Store::File(_) | Store::Overlay(_) => self.write_in_parts(data, at),
        }
    }
}

impl Drop for InFile {
    /// Only what failed to be stored is left, and that was not acknowledged.
    fn drop(&mut self) {
        let _ = self.store();
    }
}

impl InFile {
    fn open(file: LockedFile, log: Option<RedoPlace>) -> io::Result<InFile> {
        if let Some(log) = log {
            redo_log::settle(&file, log)?;
        }
        let mapped = MappedFile::new(file.share());
        Ok(InFile { _lock: file, copies: mapped.new_copies(), mapped: Arc::new(mapped), gathers: false })
    }

    #[inline]
    fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        self.mapped.read(data, at)?;
        self.lay_over(data, at);
        Ok(())
    }

    #[inline]
    fn read_unit(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        self.mapped.read_units(data, at)?;
        self.lay_over(data, at);
        Ok(())
    }

    #[inline]
    fn lay_over(&self, data: &mut [u8], at: u64) {
        if let Some(copies) = &self.copies {
            copies.lay_over(data, at);
        }
    }

    /// Follows what was gathered.
    #[inline]
    fn write(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        self.store()?;
        self.mapped.write(data, at)
    }

    #[inline]
    fn write_pieces<const N: usize>(&mut self, pieces: [Piece<'_>; N]) -> io::Result<()> {
        match &mut self.copies {
            None => self.mapped.write_pieces(pieces),
            Some(copies) => {
                self.mapped.gather(copies, pieces)?;
                if self.gathers { Ok(()) } else { self.mapped.store(copies) }
            }
        }
    }

    /// Writes what was gathered.
    #[inline]
    fn store(&mut self) -> io::Result<()> {
        self.copies.as_mut().map_or(Ok(()), |copies| self.mapped.store(copies))
    }
}

#[cfg(test)]
mod tests {
    use super::super::host_faults::{Mapping, TestHost};
    use super::super::host_file::HostFile;
    use super::*;
    use crate::random::SplitMix64;

    /// A file, and a store that has the kernel store to it. `None` if this host cannot do that.
    fn stored_by_kernel(bytes: u64) -> Option<(std::fs::File, Store)> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(bytes).unwrap();
        let host = TestHost::new(Mapping::ByKernel, 0);
        let again = HostFile::new(file.try_clone().unwrap(), Some(host));
        let in_file = InFile::open(LockedFile::lock(again, "tested".as_ref()).unwrap(), None).unwrap();
        in_file.copies.is_some().then_some((file, Store::File(in_file)))
    }

    fn bytes_of(file: &std::fs::File, bytes: usize) -> Vec<u8> {
        let mut found = vec![0; bytes];
        std::os::unix::fs::FileExt::read_exact_at(file, &mut found, 0).unwrap();
        found
    }

    #[test]
    fn what_is_gathered_is_read_at_once_and_in_the_file_when_it_is_stored() {
        let Some((file, mut store)) = stored_by_kernel(4096) else { return };
        store.write_in_parts(&[1; 4], 0).unwrap();
        assert_eq!(bytes_of(&file, 5), [1, 1, 1, 1, 0], "nothing waits unless it may");
        store.gather();
        store.write_pieces([(&[2; 2], 1), (&[3], 2)]).unwrap();
        let mut found = [0; 5];
        store.read(&mut found, 0).unwrap();
        assert_eq!((found, bytes_of(&file, 5)), ([1, 2, 3, 1, 0], vec![1, 1, 1, 1, 0]));
        store.read_unit(&mut found, 1).unwrap();
        assert_eq!(found, [2, 3, 1, 0, 0]);
        store.write(&[4], 4).unwrap();
        assert_eq!(bytes_of(&file, 5), [1, 2, 3, 1, 4], "what must be whole follows what was gathered");
        store.write_in_parts(&[5], 0).unwrap();
        store.store_gathered().unwrap();
        assert_eq!(bytes_of(&file, 5), [5, 2, 3, 1, 4]);
        store.write_in_parts(&[6], 0).unwrap();
        assert_eq!(bytes_of(&file, 1), [6], "the next command has not begun");
    }

    /// Beside the same bytes in memory. The file is at any time what was written up to a moment before.
    #[test]
    fn the_file_has_what_was_written_first() {
        const BYTES: usize = 3 << 15;
        let Some((file, mut store)) = stored_by_kernel(BYTES as u64) else { return };
        let mut random = SplitMix64(4);
        // the bytes after each write since the file was last found equal
        let mut states = vec![vec![0_u8; BYTES]];
        for step in 0..1500 {
            let (at, bytes) = (random.below(BYTES as u64 - 9000), random.below([9, 300, 9000][step % 3]) + 1);
            let data = vec![step as u8; bytes as usize];
            match random.below(12) {
                0 => store.gather(),
                1 => store.store_gathered().unwrap(),
                2 => {
                    let mut found = vec![0; data.len()];
                    store.read(&mut found, at).unwrap();
                    assert!(found == states.last().unwrap()[at as usize..][..found.len()], "step {step}");
                }
                choice => {
                    let write = if choice == 3 { Store::write } else { Store::write_in_parts };
                    write(&mut store, &data, at).unwrap();
                    let mut after = states.last().unwrap().clone();
                    after[at as usize..][..data.len()].copy_from_slice(&data);
                    states.push(after);
                    let found = bytes_of(&file, BYTES);
                    let which = states.iter().rposition(|state| *state == found);
                    states.drain(..which.unwrap_or_else(|| panic!("step {step}: a later write went first")));
                }
            }
        }
        store.store_gathered().unwrap();
        assert!(*states.last().unwrap() == bytes_of(&file, BYTES));
    }
}
