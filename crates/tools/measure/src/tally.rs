//! What was asked for: bytes, writes and syncs, by path, between the two marks of a recording.

use std::collections::HashMap;

use hdrhistogram::Histogram;
use tantalum::Nanoseconds;
use tantalum_record::operation::{FileNumber, Operation, is_first_part};
use tantalum_record::{Event, Stamped};
use tantalum_report::histogram;

use crate::error::MeasureError;
use crate::names::Names;
use crate::recording::Recording;
use crate::write_purpose::{Habits, WritePurpose, kind_of};

/// What was asked for, for the files of one path.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathTally {
    /// The path below the mount; for renamed files, their last name.
    pub path: String,
    /// The number of successive files with this path.
    pub files: u64,
    /// The number of them that were removed.
    pub removed: u64,
    pub bytes: u64,
    pub writes: u64,
    /// Bytes appended to the file.
    appended: u64,
    /// Files that were created and removed during the measurement.
    came_and_went: u64,
    pub syncs: u64,
    pub sync_ns: u64,
    pub kind: Option<(WritePurpose, &'static str)>,
}

/// An interval of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    /// In the drive's time, from the first mark.
    pub at_ns: Nanoseconds,
    pub bytes: u64,
}

/// The run is divided into intervals of this length.
pub(crate) const MOMENT_NS: Nanoseconds = 10_000_000;

/// What was asked for.
pub(crate) struct Tally {
    pub paths: Vec<PathTally>,
    /// The path of each file, by its place in `paths`.
    pub path_of: HashMap<FileNumber, usize>,
    /// Durations of `fsync`, `fdatasync` and syncs of folders.
    pub syncs: Histogram<u64>,
    pub sync_ns: u64,
    /// The bytes asked for over time; moments without any are omitted.
    pub moments: Vec<Moment>,
    /// Events of the whole recording.
    pub events: u64,
    /// From the first mark to the last event.
    pub span_ns: Nanoseconds,
    /// Bytes copied by the file system, which nobody wrote.
    pub copied_bytes: u64,
}

/// One file.
#[derive(Clone, Debug, Default)]
struct FileTally {
    bytes: u64,
    writes: u64,
    appended: u64,
    syncs: u64,
    sync_ns: u64,
    /// The end of its contents.
    end: u64,
    is_new: bool,
    /// Its path when it was removed.
    removed: Option<String>,
}

impl FileTally {
    fn is_told(&self) -> bool {
        self.writes > 0 || self.syncs > 0
    }
}

/// Reads the recording and counts.
struct Counter {
    names: Names,
    files: HashMap<FileNumber, FileTally>,
    /// Whether it is between the marks, and when that began.
    begun_ns: Option<Nanoseconds>,
    has_ended: bool,
    syncs: Histogram<u64>,
    sync_ns: u64,
    moments: Vec<Moment>,
    last_ns: Nanoseconds,
    copied_bytes: u64,
    /// The write before, if no other operation came since: its file, offset and length.
    before: Option<(FileNumber, u64, u64)>,
}

impl Tally {
    /// Counts the events of a recording.
    pub fn of(recording: &Recording) -> Result<Tally, MeasureError> {
        let mut counter = Counter {
            names: Names::default(),
            files: HashMap::new(),
            begun_ns: None,
            has_ended: false,
            syncs: histogram(),
            sync_ns: 0,
            moments: Vec::new(),
            last_ns: 0,
            copied_bytes: 0,
            before: None,
        };
        let mut events = recording.events()?;
        let mut count = 0;
        while let Some(stamped) = events.next()? {
            counter.count(&stamped);
            count += 1;
        }
        Ok(counter.tally(count))
    }

    /// Bytes asked for.
    pub fn bytes(&self) -> u64 {
        self.paths.iter().map(|path| path.bytes).sum()
    }

    /// What was asked for with the path of a file.
    pub fn path(&self, file: FileNumber) -> Option<&PathTally> {
        self.path_of.get(&file).map(|path| &self.paths[*path])
    }

    /// The kind of a file.
    pub fn kind(&self, file: FileNumber) -> Option<WritePurpose> {
        self.path(file)?.kind.map(|(kind, _)| kind)
    }
}

impl Counter {
    fn counts(&self) -> bool {
        self.begun_ns.is_some() && !self.has_ended
    }

    fn count(&mut self, stamped: &Stamped<'_>) {
        let counts = self.counts();
        if counts {
            self.last_ns = self.last_ns.max(stamped.at_ns + stamped.took_ns);
        }
        match &stamped.event {
            Event::Done(operation) => {
                self.before = None;
                self.count_operation(operation, stamped.took_ns);
            }
            Event::Wrote { file, offset, data, .. } => {
                let (bytes, offset) = (data.len() as u64, *offset);
                let is_rest = self
                    .before
                    .is_some_and(|(of, from, bytes)| of == *file && is_first_part(from, bytes, offset));
                self.wrote(*file, offset, bytes, is_rest, stamped.at_ns);
                self.before = Some((*file, offset, bytes));
            }
            Event::CallEnded => self.before = None,
            Event::Held { file, bytes } => self.files.entry(*file).or_default().end = *bytes,
            Event::Copied { copied, .. } if counts => self.copied_bytes += copied,
            Event::Marked if self.begun_ns.is_some() => self.has_ended = true,
            Event::Marked => {
                self.begun_ns = Some(stamped.at_ns);
                self.last_ns = stamped.at_ns;
            }
            _ => {}
        }
    }

    fn count_operation(&mut self, operation: &Operation, took_ns: Nanoseconds) {
        let counts = self.counts();
        if let Some(removed) = self.names.follow(operation) {
            // the folder may get another name later
            let path = self.names.path(removed);
            self.files.entry(removed).or_default().removed = Some(path);
        }
        match operation {
            Operation::Create(_, file, _) => self.files.entry(*file).or_default().is_new = counts,
            Operation::Resize(file, size) => self.files.entry(*file).or_default().end = *size,
            Operation::Sync(file) | Operation::SyncData(file) if counts => {
                let tally = self.files.entry(*file).or_default();
                tally.syncs += 1;
                tally.sync_ns += took_ns;
                self.synced(took_ns);
            }
            Operation::SyncFolder(folder) if counts => {
                let tally = self.files.entry(*folder).or_default();
                tally.syncs += 1;
                tally.sync_ns += took_ns;
                self.synced(took_ns);
            }
            _ => {}
        }
    }

    fn synced(&mut self, took_ns: Nanoseconds) {
        self.syncs.saturating_record(took_ns);
        self.sync_ns += took_ns;
    }

    fn wrote(&mut self, file: FileNumber, offset: u64, bytes: u64, is_rest: bool, at_ns: Nanoseconds) {
        let counts = self.counts();
        let tally = self.files.entry(file).or_default();
        let (old_end, end) = (tally.end, offset + bytes);
        tally.end = old_end.max(end);
        let Some(begun_ns) = self.begun_ns.filter(|_| counts) else { return };
        tally.bytes += bytes;
        tally.writes += u64::from(!is_rest);
        tally.appended += if offset >= old_end { bytes } else { 0 };
        let at_ns = at_ns.saturating_sub(begun_ns) / MOMENT_NS * MOMENT_NS;
        match self.moments.last_mut() {
            // requests of several threads may begin in an order other than that of their completion
            Some(moment) if moment.at_ns >= at_ns => moment.bytes += bytes,
            _ => self.moments.push(Moment { at_ns, bytes }),
        }
    }

    fn tally(self, events: u64) -> Tally {
        let Counter { names, files, begun_ns, syncs, sync_ns, moments, last_ns, copied_bytes, .. } = self;
        let mut paths: Vec<PathTally> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut path_of = HashMap::new();
        let mut numbers: Vec<_> = files.keys().copied().filter(|file| files[file].is_told()).collect();
        numbers.sort_unstable();
        for number in numbers {
            let file = &files[&number];
            let path = file.removed.clone().unwrap_or_else(|| names.path(number));
            let place = *known.entry(path.clone()).or_insert_with(|| {
                paths.push(PathTally { path, ..PathTally::default() });
                paths.len() - 1
            });
            path_of.insert(number, place);
            paths[place].add(file);
        }
        for path in &mut paths {
            path.kind = Some(kind_of(&path.path, &path.habits()));
        }
        let span_ns = last_ns.saturating_sub(begun_ns.unwrap_or_default());
        Tally { paths, path_of, syncs, sync_ns, moments, events, span_ns, copied_bytes }
    }
}

impl PathTally {
    fn add(&mut self, file: &FileTally) {
        self.files += 1;
        self.removed += u64::from(file.removed.is_some());
        self.bytes += file.bytes;
        self.writes += file.writes;
        self.appended += file.appended;
        self.came_and_went += u64::from(file.is_new && file.removed.is_some());
        self.syncs += file.syncs;
        self.sync_ns += file.sync_ns;
    }

    fn habits(&self) -> Habits {
        let came_and_went = self.came_and_went == self.files;
        Habits { bytes: self.bytes, appended: self.appended, syncs: self.syncs, came_and_went }
    }
}
