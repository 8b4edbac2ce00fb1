//! A file that is only read, under changes that stay in memory.
//!
//! This is for examining an image without touching it: recovery changes the flash like any other work, and its changes
//! then vanish with the overlay. It costs memory for the changes, whatever the size of the file.
//!
//! Invariant: a byte comes from its changed piece, if there is one; otherwise from the file; between the end of the
//! file and the end of the image it is 0.

use std::collections::BTreeMap;
use std::io;

use super::host_file::HOST_PAGE as PIECE;
use super::locked_file::LockedFile;

/// A file that is only read, and the changes.
pub(super) struct Overlay {
    file: LockedFile,
    /// Bytes of the image; writes may have made it longer than the file.
    length: u64,
    /// By the number of the page of the host's cache.
    changed: BTreeMap<u64, Box<[u8; PIECE]>>,
}

impl Overlay {
    pub fn new(file: LockedFile) -> io::Result<Overlay> {
        let length = file.length()?;
        Ok(Overlay { file, length, changed: BTreeMap::new() })
    }

    /// The file below.
    pub fn file(&self) -> &LockedFile {
        &self.file
    }

    /// Bytes of the image.
    pub fn length(&self) -> u64 {
        self.length
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
        let present = self.file.read_present_at(data, at)?;
        data[present..].fill(0);
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
    use std::fs::File;
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use super::super::host_file::HostFile;
    use super::*;

    fn overlay(contents: &[u8]) -> (Overlay, File) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(contents).unwrap();
        let again = file.try_clone().unwrap();
        let locked = LockedFile::lock(HostFile::new(file, None), Path::new("a file without a name")).unwrap();
        (Overlay::new(locked).unwrap(), again)
    }

    #[test]
    fn an_overlay_reads_what_was_written_and_leaves_the_file() {
        let contents: Vec<u8> = (0..20_000_u32).map(|byte| (byte % 251) as u8).collect();
        let (mut overlay, file) = overlay(&contents);
        overlay.write(&[7; 5000], 4000).unwrap();
        let mut expected = contents.clone();
        expected[4000..9000].fill(7);
        for (at, bytes) in [(0, 20_000), (3999, 3), (4096, 4096), (8999, 2), (12_000, 100)] {
            let mut found = vec![0; bytes];
            overlay.read(&mut found, at as u64).unwrap();
            assert_eq!(found, expected[at..at + bytes], "{bytes} bytes at {at}");
        }
        let mut stored = vec![0; 20_000];
        file.read_exact_at(&mut stored, 0).unwrap();
        assert_eq!(stored, contents);
    }

    #[test]
    fn an_overlay_grows_and_ends_where_the_image_ends() {
        let (mut overlay, _file) = overlay(&[1; 100]);
        assert!(overlay.read(&mut [0; 101], 0).is_err());
        overlay.write(&[2; 10], 9000).unwrap();
        assert_eq!(overlay.length(), 9010);
        let mut found = [9; 110];
        overlay.read(&mut found, 8900).unwrap();
        assert_eq!((found[99], found[100], found[109]), (0, 2, 2));
        assert!(overlay.read(&mut [0; 2], 9009).is_err());
    }
}
