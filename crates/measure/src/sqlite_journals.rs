//! SQLite's rollback journals, which a program whose drive makes its transactions atomic does not write at all.
//!
//! A journal holds what pages were, and where. It is left out with its names and syncs, and so is the sync of a folder in
//! which nothing else has changed.

use std::collections::HashSet;

use tantalum_record::Event;
use tantalum_record::operation::{Entry, FileNumber, Operation};

const ENDING: &str = "-journal";
/// What a journal begins with once its pages are durable.
const MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// The journals of a recording.
#[derive(Debug, Default)]
pub(crate) struct Journals(HashSet<FileNumber>);

impl Journals {
    /// Looks at what was written to a log.
    pub fn note(&mut self, file: FileNumber, path: &str, offset: u64, data: &[u8]) {
        if offset == 0 && data.starts_with(&MAGIC) && path.ends_with(ENDING) {
            self.0.insert(file);
        }
    }
}

/// A replay without journals.
#[derive(Debug, Default)]
pub(crate) struct WithoutJournals<'a> {
    journals: Option<&'a Journals>,
    /// Those that would exist, and their names. A journal from before the recording stays.
    left_out: HashSet<FileNumber>,
    names: HashSet<Entry>,
    /// Folders in which only names of journals have changed since their last sync, and others that have changed.
    silent: HashSet<FileNumber>,
    changed: HashSet<FileNumber>,
}

impl<'a> WithoutJournals<'a> {
    pub fn new(journals: Option<&'a Journals>) -> WithoutJournals<'a> {
        WithoutJournals { journals, ..WithoutJournals::default() }
    }

    /// Whether an event is left out.
    pub fn leaves_out(&mut self, event: &Event<'_>) -> bool {
        match (self.journals, event) {
            (None, _) => false,
            (Some(journals), Event::Done(operation)) => self.operation(journals, operation),
            (
                _,
                Event::Wrote { file, .. }
                | Event::Punched { file, .. }
                | Event::Touched(file)
                | Event::Opened(file)
                | Event::Closed(file)
                | Event::WrittenOut(file),
            ) => self.left_out.contains(file),
            _ => false,
        }
    }

    fn operation(&mut self, journals: &Journals, operation: &Operation) -> bool {
        match operation {
            Operation::Create(entry, file, _) if journals.0.contains(file) => {
                self.left_out.insert(*file);
                self.names.insert(entry.clone());
                self.silent.insert(entry.folder);
                true
            }
            Operation::Unlink(entry) if self.names.remove(entry) => {
                self.silent.insert(entry.folder);
                true
            }
            Operation::Create(entry, ..)
            | Operation::Link(entry, _)
            | Operation::Unlink(entry)
            | Operation::RemoveFolder(entry) => {
                self.changed.insert(entry.folder);
                false
            }
            Operation::Rename(from, to, _) => {
                self.changed.extend([from.folder, to.folder]);
                false
            }
            Operation::SyncFolder(folder) => {
                let has_changed = self.changed.remove(folder);
                self.silent.remove(folder) && !has_changed
            }
            Operation::Zero { file, .. }
            | Operation::Allocate { file, .. }
            | Operation::Resize(file, _)
            | Operation::Change(file, _)
            | Operation::Sync(file)
            | Operation::SyncData(file) => self.left_out.contains(file),
            Operation::Write(..) => false,
        }
    }
}
