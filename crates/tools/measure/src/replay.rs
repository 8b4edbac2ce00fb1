//! A recording, replayed on another drive.

use std::collections::HashSet;
use std::ops::Range;

use tantalum::{Counters, Nanoseconds, Profile, UNIT_BYTES};
use tantalum_drive::Client;
use tantalum_filesystem::{
    Attributes, Content, Errno, FileSystem, MetadataChange, Names, Outcome, RangeCommit, Timestamp,
    is_whole_units,
};
use tantalum_record::operation::{FileNumber, Operation};
use tantalum_record::{Event, FileOffset, Performer, Stamped, WriteKind};
use tantalum_report::{Bar, Monitor};
use tantalum_volume::Volume;

use crate::drive::{DriveSetup, new_volume};
use crate::error::MeasureError;
use crate::images::Images;
use crate::owners::{Owners, Written};
use crate::passing::Passing;
use crate::postgres_wal::PostgresLogs;
use crate::recording::Recording;
use crate::shorter_logs::{Shortened, ShorterLogs};
use crate::sqlite_logs::{Home, Instead, SqliteLogs, WithoutLogs};
use crate::tally::Tally;
use crate::tap::Tap;
use crate::write_purpose::WritePurpose;

/// Events between two checks for cancellation.
const EVENTS_PER_STEP: u64 = 256;

/// Size of one write when filling a file whose contents were not recorded.
const FILL_BYTES: usize = 1 << 20;

/// How a recording is replayed.
#[derive(Clone, Debug)]
pub(crate) struct Setting<'a> {
    pub profile: Profile,
    /// The seed for ageing it.
    pub aged: Option<u64>,
    /// Share duplicates.
    pub duplicates: bool,
    /// What is left out.
    pub without: Option<&'a SecondCopies>,
}

/// What a program writes a second time so that a power cut cannot tear its pages.
#[derive(Debug)]
pub(crate) struct SecondCopies {
    /// Left out of logs.
    pub images: Images,
    /// Left out of PostgreSQL's logs.
    pub postgres: PostgresLogs,
    /// Left out, or moved home.
    pub sqlite: SqliteLogs,
    /// Left out of data files.
    pub passing: Passing,
}

impl SecondCopies {
    /// Where images of pages are in what was written to a log.
    pub fn in_log(&self, file: FileNumber, offset: u64, data: &[u8]) -> Vec<Range<usize>> {
        self.postgres.find(file, offset, data).unwrap_or_else(|| self.images.find(data))
    }
}

/// The result.
#[derive(Clone, Debug)]
pub(crate) struct Replayed {
    /// What the drive did between the marks.
    pub counters: Counters,
    /// Syncs of the program, and their durations.
    pub syncs: u64,
    pub sync_ns: Nanoseconds,
    /// Operations that could not be repeated, such as those on files that were removed before the recording.
    pub not_repeated: u64,
    /// Bytes of images left out.
    pub left_out_bytes: u64,
    /// The owners of the units written.
    pub written: Written,
}

/// Replays the recording.
pub(crate) fn replay(
    recording: &Recording,
    tally: &Tally,
    setting: &Setting<'_>,
    name: &str,
    monitor: &Monitor,
) -> Result<Replayed, MeasureError> {
    let tap = Tap::default();
    let drive = DriveSetup { profile: setting.profile.clone(), aged: setting.aged, image: None };
    let (mut volume, _) = new_volume(&drive, |device| Client::from(device).with_route(tap.clone()), monitor)?;
    volume.set_remap_duplicates(setting.duplicates);
    let bar = monitor.bar(name, tally.events);
    let mut replay = Replay::new(volume, tap, setting, tally);
    let mut events = recording.events()?;
    let mut number = 0;
    while let Some(stamped) = events.next()? {
        replay.event(number, &stamped)?;
        number += 1;
        if number.is_multiple_of(EVENTS_PER_STEP) {
            bar.advance(EVENTS_PER_STEP)?;
        }
    }
    replay.finish(number, &bar)
}

struct Replay<'a> {
    performer: Performer<Volume>,
    tally: &'a Tally,
    /// The recording's time when it began, and this drive's time then.
    origin: Option<(Nanoseconds, Nanoseconds)>,
    /// When the recording's last operation was done, in its time.
    done_ns: Nanoseconds,
    /// The counters at the first mark and at the second.
    begun: Option<Counters>,
    ended: Option<Counters>,
    /// Files that exist besides the recording's: those of an aged drive.
    found: HashSet<FileNumber>,
    owners: Owners,
    logs: ShorterLogs<'a>,
    sqlite: Option<WithoutLogs<'a>>,
    passing: Option<&'a Passing>,
    /// The number of the current event.
    number: u64,
    fill: u64,
    replayed: Replayed,
}

impl<'a> Replay<'a> {
    fn new(volume: Volume, tap: Tap, setting: &'a Setting<'a>, tally: &'a Tally) -> Replay<'a> {
        Replay {
            performer: Performer::new(volume),
            tally,
            origin: None,
            done_ns: 0,
            begun: None,
            ended: None,
            found: HashSet::new(),
            owners: Owners::new(tap),
            logs: ShorterLogs::new(setting.without),
            sqlite: setting.without.map(|without| WithoutLogs::new(&without.sqlite)),
            passing: setting.without.map(|without| &without.passing),
            number: 0,
            fill: 0,
            replayed: Replayed {
                counters: Counters::default(),
                syncs: 0,
                sync_ns: 0,
                not_repeated: 0,
                left_out_bytes: 0,
                written: Written::default(),
            },
        }
    }

    fn volume(&mut self) -> &mut Volume {
        &mut self.performer.file_system
    }

    fn counters(&self) -> Counters {
        self.performer.file_system.client().device().smart().counters
    }

    fn is_measured(&self) -> bool {
        self.begun.is_some() && self.ended.is_none()
    }

    fn event(&mut self, number: u64, stamped: &Stamped<'_>) -> Result<(), MeasureError> {
        self.begin(stamped);
        self.number = number;
        // no two operations have the same time, so that a change of a time makes an inode dirty, as it did originally
        self.performer.now = Timestamp { seconds: number as i64 + 1, nanoseconds: 0 };
        if self.logs.goes_on(&stamped.event) {
            return Ok(());
        }
        let gathered = self.write_gathered().and_then(|()| self.write_home(&stamped.event));
        match gathered.and_then(|()| self.perform(&stamped.event)) {
            Ok(()) => {}
            Err(errno) if self.performer.file_system.client().end().is_some() => {
                return Err(MeasureError::Replay { operation: number, errno });
            }
            Err(_) => self.replayed.not_repeated += u64::from(self.is_measured()),
        }
        self.attribute();
        Ok(())
    }

    /// Sets the clock. What waited for an operation in the recording waits for it again; anything else begins at its
    /// recorded time.
    fn begin(&mut self, stamped: &Stamped<'_>) {
        if stamped.at_ns == 0 {
            // files that existed before
            return;
        }
        let now_ns = self.volume().now_ns();
        let (recorded_ns, begun_ns) = *self.origin.get_or_insert((stamped.at_ns, now_ns));
        let at_ns = begun_ns + stamped.at_ns.saturating_sub(recorded_ns);
        let waited = stamped.at_ns >= self.done_ns;
        let client = self.volume().client_mut();
        if waited {
            client.wait_until(at_ns)
        } else {
            client.begin_at(at_ns)
        }
        self.done_ns = self.done_ns.max(stamped.at_ns + stamped.took_ns);
    }

    fn perform(&mut self, event: &Event<'_>) -> Outcome<()> {
        match self.sqlite.as_mut().map_or(Instead::Same, |sqlite| sqlite.instead(event)) {
            Instead::Same => self.repeat(event),
            Instead::Nothing(bytes) => {
                if let Event::Wrote { file, .. } = event {
                    self.logs.skipped(*file);
                }
                self.left_out(bytes);
                Ok(())
            }
            Instead::Gathered(database) => {
                self.logs.skipped(database);
                Ok(())
            }
            Instead::Moved(event) => self.repeat(&event),
        }
    }

    /// Writes the pages of SQLite's write-ahead logs to their databases, unless more of them is being written.
    fn write_home(&mut self, event: &Event<'_>) -> Outcome<()> {
        let Some(sqlite) = self.sqlite.as_mut().filter(|sqlite| !sqlite.goes_on(event)) else {
            return Ok(());
        };
        for Home { database, offset, data, kind } in sqlite.pages() {
            self.logs.wrote(database);
            self.write_there(database, offset, &data, kind)?;
        }
        Ok(())
    }

    fn left_out(&mut self, bytes: u64) {
        if self.is_measured() {
            self.replayed.left_out_bytes += bytes;
        }
    }

    fn repeat(&mut self, event: &Event<'_>) -> Outcome<()> {
        match event {
            Event::Done(operation) => self.operation(operation),
            Event::Wrote { file, offset, data, kind } => self.write(*file, *offset, data, *kind),
            Event::Punched { file, offset, bytes } => {
                let (id, offset) = (self.performer.file(*file)?, self.logs.place(*file, *offset));
                self.volume().punch_hole(id, offset, *bytes)?;
                self.own(*file, offset, *bytes);
                Ok(())
            }
            Event::Touched(file) => {
                let id = self.performer.file(*file)?;
                let now = self.performer.now;
                let change =
                    MetadataChange { modified: Some(now), changed: Some(now), ..MetadataChange::default() };
                Attributes::change_metadata(self.volume(), id, &change)
            }
            Event::Opened(file) => self.performer.open(*file),
            // a file that was known before the recording started is not open here
            Event::Closed(file) => self.performer.close(*file).or(Ok(())),
            Event::WrittenOut(file) => {
                let id = self.performer.file(*file)?;
                self.volume().write_out(id)
            }
            Event::WrittenBack => FileSystem::write_back(self.volume()),
            Event::Copied { from, to, bytes, .. } => self.copy(*from, *to, *bytes),
            Event::Committed(ranges) => self.commit(ranges),
            Event::Exchanged { a, b, bytes } => self.exchange(*a, *b, *bytes),
            Event::Held { file, .. } if self.found.contains(file) => Ok(()),
            Event::Held { file, bytes } => self.fill(*file, *bytes),
            Event::Marked => {
                self.mark();
                Ok(())
            }
            Event::CallEnded => Ok(()),
        }
    }

    fn copy(&mut self, from: FileOffset, to: FileOffset, bytes: u64) -> Outcome<()> {
        let (source, target) = (self.performer.file(from.0)?, self.performer.file(to.0)?);
        self.volume().copy_range(source, from.1, target, to.1, bytes)?;
        self.own(to.0, to.1, bytes);
        Ok(())
    }

    fn exchange(&mut self, a: FileOffset, b: FileOffset, bytes: u64) -> Outcome<()> {
        let (first, second) = (self.performer.file(a.0)?, self.performer.file(b.0)?);
        self.volume().exchange_ranges(first, a.1, second, b.1, bytes)?;
        self.own(a.0, a.1, bytes);
        self.own(b.0, b.1, bytes);
        Ok(())
    }

    fn commit(&mut self, ranges: &[(FileOffset, FileOffset, u64)]) -> Outcome<()> {
        let commit = |((from, from_offset), (to, to_offset), bytes): &(FileOffset, FileOffset, u64)| {
            let (from, to) = (self.performer.file(*from)?, self.performer.file(*to)?);
            let (from_offset, to_offset, bytes) = (*from_offset, *to_offset, *bytes);
            Ok(RangeCommit { from, from_offset, to, to_offset, bytes })
        };
        let commits = ranges.iter().map(commit).collect::<Outcome<Vec<_>>>()?;
        self.volume().commit_ranges(&commits)?;
        Ok(())
    }

    fn operation(&mut self, operation: &Operation) -> Outcome<()> {
        let before_ns = self.volume().now_ns();
        let operation = &self.logs.moved(operation);
        if let Operation::Sync(file) | Operation::SyncData(file) = operation
            && self.logs.sync_is_idle(*file)
        {
            return Ok(());
        }
        match self.performer.perform(operation) {
            Err(Errno::EEXIST) => self.find(operation)?,
            done => done?,
        }
        if operation.is_sync() && self.is_measured() {
            self.replayed.syncs += 1;
            self.replayed.sync_ns += self.volume().now_ns().saturating_sub(before_ns);
        }
        match operation {
            Operation::Zero { file, offset, bytes, .. } | Operation::Allocate { file, offset, bytes, .. } => {
                self.own(*file, *offset, *bytes);
            }
            _ => {}
        }
        Ok(())
    }

    /// A file that the drive had before: the one that an aged drive is full of.
    fn find(&mut self, operation: &Operation) -> Outcome<()> {
        let Operation::Create(entry, file, _) = operation else { return Err(Errno::EEXIST) };
        let folder = self.performer.file(entry.folder)?;
        let found = Names::lookup(self.volume(), folder, &entry.name)?;
        self.performer.adopt(*file, found);
        self.found.insert(*file);
        Ok(())
    }

    fn write(&mut self, file: FileNumber, offset: u64, data: &[u8], kind: WriteKind) -> Outcome<()> {
        if self.tally.kind(file) == Some(WritePurpose::Log) && self.logs.gather(file, offset, data, kind) {
            return Ok(());
        }
        let Some(passing) = self.passing else { return self.write_there(file, offset, data, kind) };
        let Some(remaining) = passing.remaining(self.number, offset, data.len()) else {
            self.logs.wrote(file);
            return self.write_there(file, offset, data, kind);
        };
        let kept: usize = remaining.iter().map(|range| range.len()).sum();
        self.logs.skipped(file);
        self.left_out((data.len() - kept) as u64);
        for range in remaining {
            self.logs.wrote(file);
            self.write_there(file, offset + range.start as u64, &data[range], kind)?;
        }
        Ok(())
    }

    /// Writes what was gathered for a log, without its images.
    fn write_gathered(&mut self) -> Outcome<()> {
        let Some(Shortened { file, place, kept, kind, left_out_bytes }) = self.logs.take() else {
            return Ok(());
        };
        self.left_out(left_out_bytes);
        match kept.is_empty() {
            true => Ok(()),
            false => self.write_there(file, place, &kept, kind),
        }
    }

    fn write_there(&mut self, file: FileNumber, offset: u64, data: &[u8], kind: WriteKind) -> Outcome<()> {
        let id = self.performer.file(file)?;
        let is_whole = is_whole_units(offset, data.len());
        let volume = self.volume();
        match kind {
            WriteKind::Whole if is_whole => Content::write_whole(volume, id, offset, data)?,
            WriteKind::Direct if is_whole => Content::write_direct(volume, id, offset, data, None)?,
            _ => Content::write(volume, id, offset, data)?,
        }
        self.own(file, offset, data.len() as u64);
        Ok(())
    }

    /// Fills a file of unknown contents with bytes that no other unit has.
    fn fill(&mut self, file: FileNumber, bytes: u64) -> Outcome<()> {
        let id = self.performer.file(file)?;
        let mut offset = 0;
        let mut data = vec![0; FILL_BYTES];
        while offset < bytes {
            for unit in data.chunks_exact_mut(UNIT_BYTES) {
                self.fill += 1;
                unit[..8].copy_from_slice(&self.fill.to_le_bytes());
            }
            let length = (bytes - offset).min(FILL_BYTES as u64) as usize;
            Content::write(self.volume(), id, offset, &data[..length])?;
            offset += length as u64;
        }
        self.own(file, 0, bytes);
        Content::sync(self.volume(), id)
    }

    fn mark(&mut self) {
        let counters = self.counters();
        if self.begun.is_none() {
            self.attribute();
            self.begun = Some(counters);
        } else if self.ended.is_none() {
            self.ended = Some(counters);
        }
    }

    /// Records where the units of a file are.
    fn own(&mut self, file: FileNumber, offset: u64, bytes: u64) {
        if let Ok(id) = self.performer.file(file) {
            self.owners.note(&self.performer.file_system, (file, id), offset, bytes);
        }
    }

    /// The owners of the units written just now.
    fn attribute(&mut self) {
        let is_measured = self.is_measured();
        let Replay { owners, performer, tally, replayed, .. } = self;
        let written = is_measured.then_some(&mut replayed.written);
        owners.take(&performer.file_system, |file| tally.path_of.get(&file).copied(), written);
    }

    /// Ends where the recording ends.
    fn finish(mut self, number: u64, bar: &Bar) -> Result<Replayed, MeasureError> {
        bar.check()?;
        // failures at the end count like other operations that could not be repeated
        self.replayed.not_repeated += u64::from(self.write_gathered().is_err());
        if self.is_measured() {
            // the recording was cut off before the second mark
            let errno = |errno| MeasureError::Replay { operation: number, errno };
            FileSystem::write_back(self.volume()).map_err(errno)?;
            self.attribute();
        }
        let ended = self.ended.unwrap_or_else(|| self.counters());
        if let Some(begun) = self.begun {
            self.replayed.counters = ended.since(&begun);
        }
        Ok(self.replayed)
    }
}
