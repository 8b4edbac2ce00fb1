//! The bytes of an image: a file, a file that is only read under changes that stay in memory, or a file with a redo log.
//!
//! The second kind is for looking at an image without touching it: recovery changes the flash like any other work, and
//! its changes then vanish with the store. It costs memory for the changes, whatever the size of the file.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::life::Life;
use super::locked_file::LockedFile;
use super::mapped_file::MappedFile;
use super::ordered::Ordered;
use super::redo_log::{self, RedoPlace};

/// Bytes that the overlay allocates at once.
const PIECE: usize = 4096;

/// Where the bytes are.
pub(super) enum Store {
    /// In the file.
    File(InFile),
    /// In memory if they were changed, else in the file.
    Overlay(Overlay),
    /// In the file, through a redo log.
    Ordered(Box<Ordered>),
    /// In the file, until a life ends.
    Mortal(InFile, Life),
}

/// A file that gets all changes at once.
pub(super) struct InFile {
    _lock: LockedFile,
    mapped: Arc<MappedFile>,
}

/// A file that is only read, and the changes.
pub(super) struct Overlay {
    file: LockedFile,
    /// Bytes of the image; writes may have made it longer than the file.
    length: u64,
    changed: BTreeMap<u64, Box<[u8; PIECE]>>,
}

impl Store {
    /// Changes go to the file. The redo log, if any, is replayed first.
    pub fn file(file: LockedFile, log: Option<RedoPlace>) -> io::Result<Store> {
        Ok(Store::File(InFile::open(file, log)?))
    }

    /// Changes go to the file until the life ends.
    pub fn mortal(file: LockedFile, log: Option<RedoPlace>, life: Life) -> io::Result<Store> {
        Ok(Store::Mortal(InFile::open(file, log)?, life))
    }

    /// Changes go to memory. So does the replay of a redo log.
    pub fn overlay(file: LockedFile, log: Option<RedoPlace>) -> io::Result<Store> {
        let mut overlay = Overlay::new(file)?;
        if let Some(log) = log {
            let file = overlay.file.try_clone()?;
            redo_log::replay(&file, log, |data, at| overlay.write(data, at))?;
        }
        Ok(Store::Overlay(overlay))
    }

    /// Changes go through the redo log.
    pub fn ordered(file: LockedFile, log: RedoPlace) -> io::Result<Store> {
        let sequence = redo_log::settle(&file, log)?;
        let raw = file.try_clone()?;
        Ok(Store::Ordered(Box::new(Ordered::new(Overlay::new(file)?, raw, log, sequence)?)))
    }

    /// The file with a redo log, if it is one.
    pub fn as_ordered(&mut self) -> Option<&mut Ordered> {
        match self {
            Store::Ordered(ordered) => Some(ordered),
            Store::File(_) | Store::Overlay(_) | Store::Mortal(..) => None,
        }
    }

    /// Whether changes go through the redo log.
    pub fn is_ordered(&self) -> bool {
        matches!(self, Store::Ordered(_))
    }

    /// The file, if slots are written to it without involving a redo log.
    pub fn slot_file(&self) -> Option<&Arc<MappedFile>> {
        match self {
            Store::File(file) | Store::Mortal(file, _) => Some(&file.mapped),
            Store::Overlay(_) | Store::Ordered(_) => None,
        }
    }

    /// Bytes of the image.
    pub fn length(&self) -> io::Result<u64> {
        match self {
            Store::File(file) | Store::Mortal(file, _) => file.mapped.length(),
            Store::Overlay(overlay) => Ok(overlay.length),
            Store::Ordered(ordered) => ordered.length(),
        }
    }

    /// Reads; reading beyond the end is an error.
    #[inline]
    pub fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) | Store::Mortal(file, _) => file.mapped.read(data, at),
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
            Store::Mortal(file, life) => file.write_while(life, data, at),
        }
    }

    /// As [`Store::write`], but a killed process may write any part. Later writes follow all of it.
    #[inline]
    pub fn write_in_parts(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) => file.mapped.write_in_parts(data, at),
            Store::Overlay(_) | Store::Ordered(_) => self.write(data, at),
            Store::Mortal(file, life) => file.write_in_parts_while(life, data, at),
        }
    }

    /// Reads a unit's data from their slot.
    #[inline]
    pub fn read_unit(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        match self {
            Store::File(file) | Store::Mortal(file, _) => file.mapped.read_units(data, at),
            Store::Overlay(_) | Store::Ordered(_) => self.read(data, at),
        }
    }

    /// Writes a unit's data to its slot. `checksum` is that of the data.
    #[inline]
    pub fn write_unit(&mut self, data: &[u8], at: u64, checksum: u32) -> io::Result<()> {
        match self {
            Store::Ordered(ordered) => ordered.write_unit(data, at, checksum),
            Store::File(_) | Store::Overlay(_) | Store::Mortal(..) => self.write_in_parts(data, at),
        }
    }
}

impl InFile {
    fn open(file: LockedFile, log: Option<RedoPlace>) -> io::Result<InFile> {
        if let Some(log) = log {
            redo_log::settle(&file, log)?;
        }
        let mapped = Arc::new(MappedFile::new(file.try_clone()?));
        Ok(InFile { _lock: file, mapped })
    }

    /// A life that ends leaves all or nothing within one page of the host's cache.
    fn write_while(&self, life: &Life, data: &[u8], at: u64) -> io::Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let at = at + (data.len() - rest.len()) as u64;
            let (piece, others) = rest.split_at((PIECE - at as usize % PIECE).min(rest.len()));
            life.store(at, piece.len())?;
            self.mapped.write(piece, at)?;
            rest = others;
        }
        Ok(())
    }

    /// A life that ends leaves any part.
    fn write_in_parts_while(&self, life: &Life, data: &[u8], at: u64) -> io::Result<()> {
        if let Err(ended) = life.store(at, data.len()) {
            self.mapped.write_in_parts(&data[..ended.stored], at)?;
            return Err(ended.into());
        }
        self.mapped.write_in_parts(data, at)
    }
}

impl Overlay {
    fn new(file: LockedFile) -> io::Result<Overlay> {
        let length = file.metadata()?.len();
        Ok(Overlay { file, length, changed: BTreeMap::new() })
    }

    /// The changes, piece by piece, with their places.
    pub fn changed(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.changed.iter().map(|(number, piece)| (number * PIECE as u64, &piece[..]))
    }

    /// The file has the changes.
    pub fn forget(&mut self) {
        self.changed.clear();
    }

    pub fn read(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        let end = at + data.len() as u64;
        if end > self.length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = at;
        for (&number, piece) in self.changed.range(at / PIECE as u64..end.div_ceil(PIECE as u64)) {
            let start = number * PIECE as u64;
            let (from, to) = (start.max(at), (start + PIECE as u64).min(end));
            self.read_file(&mut data[(done - at) as usize..(from - at) as usize], done)?;
            let source = &piece[(from - start) as usize..(to - start) as usize];
            data[(from - at) as usize..(to - at) as usize].copy_from_slice(source);
            done = to;
        }
        self.read_file(&mut data[(done - at) as usize..], done)
    }

    /// Reads from the file; beyond its end there are zeros.
    fn read_file(&self, data: &mut [u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            match self.file.read_at(&mut data[done..], at + done as u64) {
                Ok(0) => break,
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        data[done..].fill(0);
        Ok(())
    }

    pub fn write(&mut self, data: &[u8], at: u64) -> io::Result<()> {
        let mut done = 0;
        while done < data.len() {
            let (number, offset) =
                ((at + done as u64) / PIECE as u64, ((at + done as u64) % PIECE as u64) as usize);
            let bytes = (PIECE - offset).min(data.len() - done);
            if !self.changed.contains_key(&number) {
                let mut piece = Box::new([0; PIECE]);
                self.read_file(&mut piece[..], number * PIECE as u64)?;
                self.changed.insert(number, piece);
            }
            let piece = self.changed.get_mut(&number).expect("it was just put there");
            piece[offset..offset + bytes].copy_from_slice(&data[done..done + bytes]);
            done += bytes;
        }
        self.length = self.length.max(at + data.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::path::Path;

    fn overlay(contents: &[u8]) -> (Store, File) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        let again = file.try_clone().unwrap();
        let locked = LockedFile::lock(file, Path::new("a file without a name")).unwrap();
        (Store::overlay(locked, None).unwrap(), again)
    }

    #[test]
    fn an_overlay_reads_what_was_written_and_leaves_the_file() {
        let contents: Vec<u8> = (0..20_000_u32).map(|byte| (byte % 251) as u8).collect();
        let (mut store, file) = overlay(&contents);
        store.write(&[7; 5000], 4000).unwrap();
        let mut expected = contents.clone();
        expected[4000..9000].fill(7);
        for (at, bytes) in [(0, 20_000), (3999, 3), (4096, 4096), (8999, 2), (12_000, 100)] {
            let mut found = vec![0; bytes];
            store.read(&mut found, at as u64).unwrap();
            assert_eq!(found, expected[at..at + bytes], "{bytes} bytes at {at}");
        }
        let mut stored = vec![0; 20_000];
        file.read_exact_at(&mut stored, 0).unwrap();
        assert_eq!(stored, contents);
    }

    #[test]
    fn an_overlay_grows_and_ends_where_the_image_ends() {
        let (mut store, _file) = overlay(&[1; 100]);
        assert!(store.read(&mut [0; 101], 0).is_err());
        store.write(&[2; 10], 9000).unwrap();
        assert_eq!(store.length().unwrap(), 9010);
        let mut found = [9; 110];
        store.read(&mut found, 8900).unwrap();
        assert_eq!((found[99], found[100], found[109]), (0, 2, 2));
        assert!(store.read(&mut [0; 2], 9009).is_err());
    }
}
