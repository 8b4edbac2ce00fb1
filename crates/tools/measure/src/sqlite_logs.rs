//! SQLite's logs. They hold nothing but images of pages, so that a program without second writes has no such files.
//!
//! A rollback journal, told by how it begins, is left out altogether: its creation and removal, and the sync of its folder,
//! too. Of a write-ahead log the pages go home when they are written to the log, and the log's syncs go with them; what a
//! checkpoint then writes is there already. The index of such a log (`-shm`) is left out as well. Without such a log, each
//! transaction also writes the first page, which counts them. All this is what the same program does with
//! `journal_mode=off`.

use std::collections::{BTreeSet, HashMap, HashSet};

use tantalum::UNIT_BYTES;
use tantalum_record::operation::{FileNumber, FolderName, Operation};
use tantalum_record::{Event, WriteKind};

use crate::images::whole_units;

const JOURNAL: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
/// A write-ahead log begins with this number, big-endian; the last bit says the order of bytes in its checksums.
const WAL: [u32; 2] = [0x377f_0682, 0x377f_0683];
const WAL_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// Where the first page of a database counts its changes.
const COUNTER: std::ops::Range<usize> = 24..28;

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// The files of SQLite's logs in a recording.
#[derive(Debug, Default)]
pub(crate) struct SqliteLogs {
    /// Everything done to these is left out.
    left_out: HashSet<FileNumber>,
    /// The path of each write-ahead log.
    wals: HashMap<FileNumber, String>,
    /// The database of each.
    databases: HashMap<FileNumber, FileNumber>,
}

impl SqliteLogs {
    /// Looks at what was written to a file.
    pub fn note(&mut self, file: FileNumber, path: &str, offset: u64, data: &[u8]) {
        if offset == 0 && data.starts_with(&JOURNAL) {
            self.left_out.insert(file);
        }
        if offset == 0 && number(data, 0).is_some_and(|begin| WAL.contains(&begin)) {
            self.wals.entry(file).or_insert_with(|| path.to_owned());
        }
    }

    /// Finds the databases among all files and their paths. Of several with the same path, the last is meant.
    pub fn find_databases<'p>(&mut self, files: impl Iterator<Item = (FileNumber, &'p str)>) {
        let mut files_of: HashMap<&str, Vec<FileNumber>> = HashMap::new();
        files.for_each(|(file, path)| files_of.entry(path).or_default().push(file));
        for (file, path) in &self.wals {
            let Some(database) = path.strip_suffix("-wal") else { continue };
            let last = files_of.get(database).and_then(|files| files.iter().max());
            if let Some(database_file) = last {
                self.databases.insert(*file, *database_file);
                self.left_out.insert(*file);
                let index = format!("{database}-shm");
                self.left_out.extend(files_of.get(index.as_str()).into_iter().flatten());
            }
        }
    }
}

/// What a write-ahead log has, as far as its pages are moved home.
#[derive(Debug)]
struct Log {
    contents: Vec<u8>,
    /// Frames written since they were moved last.
    frames: BTreeSet<usize>,
    kind: WriteKind,
    /// The first page as it was moved last.
    first_page: Vec<u8>,
    /// Whether the present transaction has moved it.
    has_first_page: bool,
}

/// A frame of a log.
struct Frame<'a> {
    /// Where its page goes.
    offset: u64,
    page: &'a [u8],
    ends_transaction: bool,
}

impl Log {
    /// Bytes of a page, if pages have whole units.
    fn page_bytes(&self) -> Option<usize> {
        let bytes = number(&self.contents, 8)? as usize;
        (bytes > 0 && bytes.is_multiple_of(UNIT_BYTES)).then_some(bytes)
    }

    fn write(&mut self, offset: u64, data: &[u8], kind: WriteKind) {
        let (from, to) = (offset as usize, offset as usize + data.len());
        self.contents.resize(self.contents.len().max(to), 0);
        self.contents[from..to].copy_from_slice(data);
        self.kind = kind;
        if let Some(page) = self.page_bytes() {
            let frame = |at: usize| at.saturating_sub(WAL_HEADER) / (FRAME_HEADER + page);
            if to > WAL_HEADER {
                self.frames.extend(frame(from)..=frame(to - 1));
            }
        }
    }

    /// A frame, if it belongs to the present life of the log.
    fn frame(&self, number_of_frame: usize) -> Option<Frame<'_>> {
        let page = self.page_bytes()?;
        let start = WAL_HEADER + number_of_frame * (FRAME_HEADER + page);
        let frame = self.contents.get(start..start + FRAME_HEADER + page)?;
        let is_present = frame[8..16] == self.contents[16..24];
        let (of_page, database_pages) = (u64::from(number(frame, 0)?), number(frame, 4)?);
        (is_present && of_page > 0).then(|| Frame {
            offset: (of_page - 1) * page as u64,
            page: &frame[FRAME_HEADER..],
            ends_transaction: database_pages > 0,
        })
    }

    /// The pages of frames that were written since this was called last, with where they go, and whether they are as the
    /// log has them.
    fn take_pages(&mut self) -> Vec<(u64, Vec<u8>, bool)> {
        let mut pages = Vec::new();
        for number in std::mem::take(&mut self.frames) {
            let Some(Frame { offset, page, ends_transaction }) = self.frame(number) else { continue };
            let page = page.to_vec();
            if offset == 0 {
                self.first_page.clone_from(&page);
                self.has_first_page = true;
            }
            self.first_page.resize(page.len(), 0);
            pages.push((offset, page, true));
            if ends_transaction && !std::mem::take(&mut self.has_first_page) {
                let counter =
                    u32::from_be_bytes(self.first_page[COUNTER].try_into().expect("it has four bytes"));
                self.first_page[COUNTER].copy_from_slice(&counter.wrapping_add(1).to_be_bytes());
                pages.push((0, self.first_page.clone(), false));
            }
        }
        pages
    }
}

/// A page that goes home.
#[derive(Debug)]
pub(crate) struct Home {
    pub database: FileNumber,
    pub offset: u64,
    pub data: Vec<u8>,
    pub kind: WriteKind,
}

/// What is done instead of an event.
#[derive(Debug)]
pub(crate) enum Instead {
    /// The event is replayed as it is.
    Same,
    /// It is left out, with so many bytes written.
    Nothing(u64),
    /// A write-ahead log was written, whose pages go home later.
    Gathered(FileNumber),
    /// This happens to the database, not to its log.
    Moved(Event<'static>),
}

/// A replay without SQLite's logs.
#[derive(Debug)]
pub(crate) struct WithoutLogs<'a> {
    logs: &'a SqliteLogs,
    contents: HashMap<FileNumber, Log>,
    /// Names that were not made.
    names: HashSet<FolderName>,
    /// Folders in which names were left out since their last sync, and whether others changed too.
    folders: HashMap<FileNumber, bool>,
    /// What units of databases had when they were moved home, by hash.
    moved: HashMap<(FileNumber, u64), Option<u64>>,
    /// The database to which a checkpoint wrote just now.
    written_home: Option<FileNumber>,
}

impl<'a> WithoutLogs<'a> {
    pub fn new(logs: &'a SqliteLogs) -> WithoutLogs<'a> {
        WithoutLogs {
            logs,
            contents: HashMap::new(),
            names: HashSet::new(),
            folders: HashMap::new(),
            moved: HashMap::new(),
            written_home: None,
        }
    }

    /// Whether this only goes on with writing to a write-ahead log.
    pub fn goes_on(&self, event: &Event<'_>) -> bool {
        matches!(event, Event::Wrote { file, .. } | Event::Touched(file) if self.logs.databases.contains_key(file))
    }

    /// The pages of write-ahead logs that were written since this was called last.
    pub fn pages(&mut self) -> Vec<Home> {
        let mut homes = Vec::new();
        for (file, log) in &mut self.contents {
            let database = self.logs.databases[file];
            for (offset, data, is_in_log) in log.take_pages() {
                if is_in_log {
                    let units = whole_units(offset, &data).map(|(unit, hash)| ((database, unit), hash));
                    self.moved.extend(units);
                }
                homes.push(Home { database, offset, data, kind: log.kind });
            }
        }
        homes
    }

    /// What is done instead of an event.
    pub fn instead(&mut self, event: &Event<'_>) -> Instead {
        let left_out = |file: &FileNumber| self.logs.left_out.contains(file);
        match event {
            Event::Wrote { file, offset, data, kind } if self.logs.databases.contains_key(file) => {
                let new = || Log {
                    contents: Vec::new(),
                    frames: BTreeSet::new(),
                    kind: *kind,
                    first_page: Vec::new(),
                    has_first_page: false,
                };
                self.contents.entry(*file).or_insert_with(new).write(*offset, data, *kind);
                Instead::Gathered(self.logs.databases[file])
            }
            Event::Touched(file) if self.logs.databases.contains_key(file) => {
                Instead::Moved(Event::Touched(self.logs.databases[file]))
            }
            Event::Wrote { file, data, .. } if left_out(file) => Instead::Nothing(data.len() as u64),
            Event::Wrote { file, offset, data, .. } => {
                let is_home = self.is_home(*file, *offset, data);
                self.written_home = is_home.then_some(*file);
                if is_home { Instead::Nothing(data.len() as u64) } else { Instead::Same }
            }
            // its times change with that
            Event::Touched(file) if self.written_home == Some(*file) => Instead::Nothing(0),
            Event::Punched { file, .. }
            | Event::Touched(file)
            | Event::Opened(file)
            | Event::Closed(file)
            | Event::WrittenOut(file)
            | Event::Held { file, .. }
                if left_out(file) =>
            {
                Instead::Nothing(0)
            }
            Event::Done(operation) => self.instead_of(operation),
            _ => Instead::Same,
        }
    }

    fn instead_of(&mut self, operation: &Operation) -> Instead {
        let left_out = |file: &FileNumber| self.logs.left_out.contains(file);
        match operation {
            Operation::Create(entry, file, _) | Operation::Link(entry, file) if left_out(file) => {
                self.folders.entry(entry.folder).or_default();
                self.names.insert(entry.clone());
                Instead::Nothing(0)
            }
            Operation::Unlink(entry) if self.names.remove(entry) => {
                self.folders.entry(entry.folder).or_default();
                Instead::Nothing(0)
            }
            Operation::Create(entry, ..) | Operation::Link(entry, _) | Operation::Unlink(entry) => {
                self.folders.entry(entry.folder).and_modify(|others| *others = true);
                Instead::Same
            }
            Operation::Sync(file) | Operation::SyncData(file) if left_out(file) => {
                let is_data_only = matches!(operation, Operation::SyncData(_));
                let sync = if is_data_only { Operation::SyncData } else { Operation::Sync };
                let database = self.logs.databases.get(file);
                database.map_or(Instead::Nothing(0), |database| Instead::Moved(Event::Done(sync(*database))))
            }
            Operation::SyncFolder(folder) if self.folders.remove(folder) == Some(false) => {
                Instead::Nothing(0)
            }
            Operation::Zero { file, .. }
            | Operation::Allocate { file, .. }
            | Operation::Resize(file, _)
            | Operation::Change(file, _)
                if left_out(file) =>
            {
                Instead::Nothing(0)
            }
            _ => Instead::Same,
        }
    }

    /// Whether a checkpoint writes what is home already. What replaces that is not.
    fn is_home(&mut self, file: FileNumber, offset: u64, data: &[u8]) -> bool {
        if !self.logs.databases.values().any(|database| *database == file) {
            return false;
        }
        let units: Vec<_> = whole_units(offset, data).collect();
        let is_whole = units.len() * UNIT_BYTES == data.len();
        let is_home = |(unit, hash): &(u64, Option<u64>)| self.moved.get(&(file, *unit)) == Some(hash);
        let all_home = is_whole && !units.is_empty() && units.iter().all(is_home);
        if !all_home {
            for (unit, _) in units {
                self.moved.remove(&(file, unit));
            }
        }
        all_home
    }
}

#[cfg(test)]
#[path = "sqlite_logs_tests.rs"]
mod tests;
