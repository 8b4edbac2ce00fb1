//! Creating and writing files for the threads of a personality.

use tantalum_filesystem::{FileId, FileKind, FileSystem, NewFile, Outcome, Timestamp};

/// The largest read or write of a whole file at once: `iosize` of the definitions.
pub(super) const IO_BYTES: usize = 1 << 20;

/// The host's time for new files, an arbitrary constant: virtual time does not define one.
pub(super) const NOW: Timestamp = Timestamp { seconds: 1, nanoseconds: 0 };

pub(super) fn new(kind: FileKind) -> NewFile {
    NewFile { kind, permissions: 0o755, now: NOW, ..NewFile::default() }
}

/// Creates a file in the root folder.
pub(super) fn create(fs: &mut dyn FileSystem, name: &[u8]) -> Outcome<FileId> {
    fs.create_in(FileId::ROOT, name, &new(FileKind::File))
}

/// Writes `bytes` at an offset, at most [`IO_BYTES`] at once.
pub(super) fn write(fs: &mut dyn FileSystem, file: FileId, offset: u64, bytes: u64) -> Outcome<()> {
    static DATA: [u8; IO_BYTES] = [0x5a; IO_BYTES];
    let mut done = 0;
    while done < bytes {
        let part = (bytes - done).min(IO_BYTES as u64);
        fs.write(file, offset + done, &DATA[..part as usize])?;
        done += part;
    }
    Ok(())
}
