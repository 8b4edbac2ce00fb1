//! A recording of a file system in a file, which may be larger than memory.

use std::fs::File;
use std::io;

use crate::event::Stamped;
use crate::frames::{FrameReader, FrameWriter, Magic, SpoolError};
use crate::tape::Sink;

/// The beginning of a recording.
const MAGIC: Magic = *b"TNTLREC1";

/// Writes a recording.
#[derive(Debug)]
pub struct Spool(FrameWriter);

impl Spool {
    /// A new recording in an empty file.
    pub fn new(file: File) -> Spool {
        Spool(FrameWriter::new(file, &MAGIC))
    }
}

impl Sink for Spool {
    fn take(&mut self, event: Stamped<'_>) {
        self.0.put(&event);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads a recording from its beginning.
#[derive(Debug)]
pub struct Events(FrameReader);

impl Events {
    /// Begins to read; the file is at its beginning.
    pub fn read(file: File) -> Result<Events, SpoolError> {
        FrameReader::new(file, &MAGIC).map(Events)
    }

    /// The next event, or `None` at the end. A truncated event is the end: its writer was killed.
    #[expect(
        clippy::should_implement_trait,
        reason = "events borrow their bytes, which an Iterator cannot give"
    )]
    pub fn next(&mut self) -> Result<Option<Stamped<'_>>, SpoolError> {
        self.0.next()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom, Write};

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
