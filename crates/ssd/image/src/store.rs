//! The bytes of an image: a file, a file that is only read under changes that stay in memory, or a file with a redo log.

use std::io;
use std::sync::Arc;

use super::locked_file::LockedFile;
use super::mapped_file::{MappedFile, Piece};
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

/// A file that gets all changes at once.
pub(super) struct InFile {
    file: LockedFile,
    mapped: Arc<MappedFile>,
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

    /// The same, to be looked at.
    pub fn peek_ordered(&self) -> Option<&Ordered> {
        match self {
            Store::Ordered(ordered) => Some(ordered),
            Store::File(_) | Store::Overlay(_) => None,
        }
    }

    /// The file, if slots are written to it without involving a redo log.
    pub fn slot_file(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Store::File(file) => Some(&file.mapped),
            Store::Overlay(_) | Store::Ordered(_) => None,
        }
    }

    /// If changes go to the file at once: writes zeros, and returns when they are on the disk.
    pub fn erase_durably<const N: usize>(&mut self, at: u64) -> io::Result<()> {
        match self {
            Store::File(file) => {
                file.mapped.write(&[0; N], at)?;
                file.file.share().sync_data()
            }
            Store::Overlay(_) | Store::Ordered(_) => Ok(()),
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
            Store::File(file) => file.mapped.read(data, at),
            Store::Overlay(overlay) => overlay.read(data, at),
            Store::Ordered(ordered) => ordered.read(data, at),
        }
    }

    /// Writes; writing beyond the end extends the image. A killed process writes all or nothing of what does not cross
    /// a page of the host's cache.
    #[inline]
    pub fn write(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) => file.mapped.write(data, at),
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
            Store::File(file) => file.mapped.write_pieces(pieces),
            Store::Overlay(_) | Store::Ordered(_) => {
                pieces.into_iter().try_for_each(|(data, at)| self.write(data, at))
            }
        }
    }

    /// Reads a unit's data from their slot.
    #[inline]
    pub fn read_unit(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) => file.mapped.read_units(data, at),
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

impl InFile {
    fn open(file: LockedFile, log: Option<RedoPlace>) -> io::Result<InFile> {
        if let Some(log) = log {
            redo_log::settle(&file, log)?;
        }
        let mapped = MappedFile::new(file.share());
        Ok(InFile { file, mapped: Arc::new(mapped) })
    }
}
