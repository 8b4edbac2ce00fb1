//! A recording in a file, which may be larger than memory.
//!
//! Layout: the eight bytes of [`MAGIC`], then for each event the length of what follows (four bytes, little-endian) and
//! a [`Stamped`] in postcard's format. A recording can be read by the program that made it, or another of the same
//! version.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};

use crate::event::Stamped;
use crate::tape::Sink;

/// The beginning of a recording. Its last character is the version of the layout.
const MAGIC: [u8; 8] = *b"TNTLREC1";

/// Bytes that wait in memory before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// No event is longer: the kernel's writes have at most 1 MiB, and names are short.
const MOST_BYTES: usize = 1 << 26;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpoolError {
    /// The file cannot be read.
    #[error("the recording cannot be read: {0}")]
    File(#[from] io::Error),
    /// It is not a recording.
    #[error("this is not a recording of this version of tantalum")]
    NotARecording,
    /// An event is damaged.
    #[error("event {number} of the recording is damaged")]
    Damaged {
        /// The event's number, from 0.
        number: u64,
    },
}

/// Writes a recording.
#[derive(Debug)]
pub struct Spool {
    file: File,
    waiting: Vec<u8>,
    failed: Option<io::Error>,
}

impl Spool {
    /// A new recording in an empty file.
    pub fn new(file: File) -> Spool {
        Spool { file, waiting: MAGIC.to_vec(), failed: None }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.file.write_all(&self.waiting).err();
        }
        self.waiting.clear();
    }
}

impl Sink for Spool {
    fn take(&mut self, event: Stamped<'_>) {
        if self.failed.is_some() {
            return;
        }
        let start = self.waiting.len();
        self.waiting.extend_from_slice(&[0; 4]);
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting = postcard::to_extend(&event, waiting).expect("events are plain data");
        let bytes = (self.waiting.len() - start - 4) as u32;
        self.waiting[start..start + 4].copy_from_slice(&bytes.to_le_bytes());
        if self.waiting.len() >= BUFFER_BYTES {
            self.write();
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write();
        match &self.failed {
            Some(error) => Err(io::Error::new(error.kind(), error.to_string())),
            None => Ok(()),
        }
    }
}

/// Reads a recording from its beginning.
#[derive(Debug)]
pub struct Events {
    file: BufReader<File>,
    frame: Vec<u8>,
    number: u64,
}

impl Events {
    /// Begins to read; the file is at its beginning.
    pub fn read(file: File) -> Result<Events, SpoolError> {
        let mut file = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut magic = [0; MAGIC.len()];
        file.read_exact(&mut magic)?;
        match magic == MAGIC {
            true => Ok(Events { file, frame: Vec::new(), number: 0 }),
            false => Err(SpoolError::NotARecording),
        }
    }

    /// The next event, or `None` at the end. A truncated event is the end: its writer was killed.
    #[expect(
        clippy::should_implement_trait,
        reason = "events borrow their bytes, which an Iterator cannot give"
    )]
    pub fn next(&mut self) -> Result<Option<Stamped<'_>>, SpoolError> {
        let mut length = [0; 4];
        if !fill(&mut self.file, &mut length)? {
            return Ok(None);
        }
        let bytes = u32::from_le_bytes(length) as usize;
        let damaged = SpoolError::Damaged { number: self.number };
        if bytes > MOST_BYTES {
            return Err(damaged);
        }
        self.frame.resize(bytes, 0);
        if !fill(&mut self.file, &mut self.frame)? {
            return Ok(None);
        }
        self.number += 1;
        postcard::from_bytes(&self.frame).map(Some).map_err(|_| damaged)
    }
}

/// Whether there were enough bytes.
fn fill(file: &mut impl Read, to: &mut [u8]) -> io::Result<bool> {
    match file.read_exact(to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};

    use tantalum_filesystem::{FileKind, RenameMode};

    use super::*;
    use crate::event::{Event, WriteKind};
    use crate::operation::{Attribute, FolderName, Made, Operation};

    fn entry(name: &[u8]) -> FolderName {
        FolderName { folder: 3, name: name.to_vec() }
    }

    fn made() -> Made {
        Made {
            kind: FileKind::SymbolicLink,
            permissions: 0o777,
            owner: 1,
            group: 2,
            target: b"there".to_vec(),
        }
    }

    fn all() -> Vec<Event<'static>> {
        vec![
            Event::Done(Operation::Create(entry(b"a\xff"), 9, made())),
            Event::Done(Operation::Rename(entry(b"a"), entry(b"b"), RenameMode::Exchange)),
            Event::Done(Operation::Change(9, Attribute::Extended(b"user.x".to_vec(), None))),
            Event::Done(Operation::Zero { file: 9, offset: 1, bytes: u64::MAX, keep_size: true }),
            Event::Wrote { file: 9, offset: 1 << 40, data: b"0123", kind: WriteKind::Whole },
            Event::Wrote { file: 9, offset: 0, data: b"", kind: WriteKind::Cached },
            Event::Touched(1),
            Event::Punched { file: 9, offset: 4096, bytes: 1 },
            Event::Copied { from: (1, 2), to: (3, 4), bytes: 6, copied: 5 },
            Event::Committed(vec![((1, 2), (3, 4), 4096)]),
            Event::Exchanged { a: (1, 2), b: (3, 4), bytes: 4096 },
            Event::Held { file: 1, bytes: 7 },
            Event::Marked,
            Event::CallEnded,
        ]
    }

    fn spooled() -> File {
        let mut file = tempfile::tempfile().unwrap();
        let mut spool = Spool::new(file.try_clone().unwrap());
        for (number, event) in all().into_iter().enumerate() {
            spool.take(Stamped { at_ns: number as u64, took_ns: 1, event });
        }
        spool.flush().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        file
    }

    #[test]
    fn every_event_is_read_as_it_was_written() {
        let mut events = Events::read(spooled()).unwrap();
        for (number, event) in all().into_iter().enumerate() {
            let expected = Stamped { at_ns: number as u64, took_ns: 1, event };
            assert_eq!(events.next().unwrap(), Some(expected));
        }
        assert_eq!(events.next().unwrap(), None);
    }

    #[test]
    fn a_recording_that_was_cut_off_ends_there_and_another_file_is_refused() {
        let file = spooled();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
        let mut events = Events::read(file).unwrap();
        for _ in 1..all().len() {
            assert!(events.next().unwrap().is_some());
        }
        assert_eq!(events.next().unwrap(), None);
        let mut other = tempfile::tempfile().unwrap();
        other.write_all(b"something else").unwrap();
        other.seek(SeekFrom::Start(0)).unwrap();
        assert!(matches!(Events::read(other), Err(SpoolError::NotARecording)));
    }

    #[test]
    fn damage_is_told_and_not_followed() {
        for (at, byte) in [(8, 0xff), (11, 0xff), (12 + 2, 0xee)] {
            let mut file = spooled();
            file.seek(SeekFrom::Start(at)).unwrap();
            file.write_all(&[byte]).unwrap();
            file.seek(SeekFrom::Start(0)).unwrap();
            let mut events = Events::read(file).unwrap();
            let mut seen = 0;
            let ended = loop {
                match events.next() {
                    Ok(Some(_)) => seen += 1,
                    ended => break ended.map(|_| ()),
                }
                assert!(seen <= all().len());
            };
            assert!(ended.is_err() || seen < all().len(), "damage at {at} was not noticed");
        }
    }
}
