//! Recordings made in this process, without a mount, whose figures are counted here by hand.

use std::fs::File;

use tantalum::Device;
use tantalum_drive::Pacing;
use tantalum_filesystem::{
    Attributes, Content, FileId, FileKind, FileSystem, MetadataChange, Names, NewFile, RenameMode, Timestamp,
};
use tantalum_record::{Recorder, Spool, Tape};
use tantalum_volume::Volume;

use super::*;
use crate::drive::CACHE_BYTES;
use crate::text;

const UNIT: u64 = 4096;

fn profile() -> Profile {
    let mut profile = Profile::load("tlc-nvme").unwrap();
    profile.capacity_bytes = 1 << 30;
    profile
}

fn now(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanoseconds: 0 }
}

/// A volume that is recorded, as a mount has it.
struct Mount {
    fs: Recorder,
    tape: Tape,
    recording: Recording,
    begun: Option<Marked>,
    seconds: i64,
}

impl Mount {
    fn new() -> Mount {
        let volume = Volume::format(Device::in_memory(&profile()).unwrap(), CACHE_BYTES).unwrap();
        let tape = Tape::default();
        let fs = Recorder::new(Box::new(volume), tape.clone());
        Mount { fs, tape, recording: Recording::new().unwrap(), begun: None, seconds: 1 }
    }

    fn record(&mut self) {
        let file = File::create(self.recording.path()).unwrap();
        assert_eq!(self.tape.start(&mut self.fs, Box::new(Spool::new(file))), Ok(Some(())));
    }

    fn mark(&mut self) -> Marked {
        FileSystem::write_back(&mut self.fs).unwrap();
        self.tape.mark(self.fs.client().now_ns()).unwrap();
        let mut report = Report::of(&self.fs, "drive".into());
        report.drive.time = Some(Pacing::None);
        Marked { report, profile: profile().to_toml(), atomic_writes: false, sync_writes: false }
    }

    fn begin(&mut self) {
        self.begun = Some(self.mark());
    }

    fn measured(mut self, replays: bool) -> Measurement {
        let ended = self.mark().report;
        self.tape.end();
        let Mount { recording, begun, .. } = self;
        let begun = begun.unwrap();
        let observed = Observed { recording, begun, ended, seconds: 1.0, incomplete: None };
        let subject = Subject { name: "a test", exit_code: None, aged: None };
        evaluate(&observed, subject, replays, &Stop::default()).unwrap()
    }

    fn create(&mut self, folder: FileId, name: &str, kind: FileKind) -> FileId {
        self.seconds += 1;
        let new = NewFile { kind, permissions: 0o644, now: now(self.seconds), ..NewFile::default() };
        let file = Names::create_in(&mut self.fs, folder, name.as_bytes(), &new).unwrap();
        Names::open(&mut self.fs, file).unwrap();
        file
    }

    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) {
        Content::write(&mut self.fs, file, offset, data).unwrap();
        self.seconds += 1;
        let now = Some(now(self.seconds));
        let change = MetadataChange { modified: now, changed: now, ..MetadataChange::default() };
        Attributes::change_metadata(&mut self.fs, file, &change).unwrap();
    }

    fn sync(&mut self, file: FileId) {
        Content::sync(&mut self.fs, file).unwrap();
    }

    fn unlink(&mut self, folder: FileId, name: &str, file: FileId) {
        self.seconds += 1;
        Names::unlink(&mut self.fs, folder, name.as_bytes(), now(self.seconds)).unwrap();
        Names::close(&mut self.fs, file).unwrap();
    }
}

/// A unit unlike any other.
fn unit(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(byte).take(UNIT as usize).collect()
}

fn file<'a>(measurement: &'a Measurement, path: &str) -> &'a crate::PathWrites {
    measurement.files.iter().find(|file| file.path == path).unwrap_or_else(|| panic!("no {path}"))
}

/// The replay sends what the run sent, and every unit belongs to a file or to the file system.
fn check_replay(measurement: &Measurement) {
    let host_units = measurement.counters.host_units_written;
    assert_eq!(measurement.replays[0].drive_bytes, unit_bytes(host_units), "the replay differs from the run");
    assert_eq!(measurement.replays[0].not_repeated, 0);
    let by_kind: u64 = measurement.kinds.iter().map(|kind| kind.drive_bytes.unwrap()).sum();
    assert_eq!(by_kind, unit_bytes(host_units));
    let metadata = measurement.kinds[3].drive_bytes.unwrap();
    let root = measurement.folders.iter().find(|folder| folder.path == ".").unwrap();
    assert_eq!(root.drive_bytes.unwrap() + metadata, unit_bytes(host_units));
}

#[test]
fn every_byte_is_told_of_the_file_that_it_was_written_to() {
    let mut mount = Mount::new();
    let folder = mount.create(FileId::ROOT, "base", FileKind::Folder);
    let old = mount.create(folder, "old", FileKind::File);
    mount.write(old, 0, &[7; 3 * UNIT as usize]);
    mount.record();
    mount.begin();
    // ten units, three of them twice; 100 bytes within a unit; a log of 20 records of 24 bytes, each synced
    let table = mount.create(folder, "table", FileKind::File);
    mount.write(table, 0, &[1; 10 * UNIT as usize]);
    mount.sync(table);
    mount.write(table, 0, &[2; 3 * UNIT as usize]);
    mount.sync(table);
    mount.write(old, 100, &[3; 100]);
    let log = mount.create(FileId::ROOT, "records", FileKind::File);
    for number in 0..20 {
        mount.write(log, number * 24, &[4; 24]);
        mount.sync(log);
    }
    let scratch = mount.create(FileId::ROOT, "scratch", FileKind::File);
    mount.write(scratch, 0, &[5; 50]);
    mount.unlink(FileId::ROOT, "scratch", scratch);
    let new = mount.create(FileId::ROOT, "state.new", FileKind::File);
    mount.write(new, 0, &[6; 10]);
    let root = FileId::ROOT;
    Names::rename_in(&mut mount.fs, root, b"state.new", root, b"state", RenameMode::Replace, now(9)).unwrap();
    let measurement = mount.measured(true);

    assert_eq!(measurement.asked.bytes, 13 * UNIT + 100 + 20 * 24 + 50 + 10);
    assert_eq!((measurement.asked.writes, measurement.asked.syncs), (25, 22));
    let told = |path: &str| {
        let file = file(&measurement, path);
        (file.kind, file.bytes, file.writes, file.syncs, file.drive_bytes.unwrap() / UNIT)
    };
    assert_eq!(told("base/table"), (WritePurpose::Data, 13 * UNIT, 2, 2, 13));
    assert_eq!(told("base/old"), (WritePurpose::Data, 100, 1, 0, 1));
    assert_eq!(told("records"), (WritePurpose::Log, 480, 20, 20, 20));
    assert_eq!(told("scratch"), (WritePurpose::Temporary, 50, 1, 0, 0));
    assert_eq!(told("state"), (WritePurpose::Data, 10, 1, 0, 1));
    assert_eq!(file(&measurement, "scratch").removed, 1);
    let base = measurement.folders.iter().find(|folder| folder.path == "base").unwrap();
    assert_eq!((base.bytes, base.drive_bytes), (13 * UNIT + 100, Some(14 * UNIT)));
    // 7 units of the table once, 3 twice; the log's 20 times; those of old and state once
    assert_eq!(measurement.rewritten.histogram, [(1, 1, 9), (2, 3, 3), (4, 7, 0), (8, 15, 0), (16, 31, 1)]);
    check_replay(&measurement);
    let kept: u64 = measurement.over_time.iter().map(|(_, bytes)| bytes).sum();
    assert_eq!(kept, measurement.asked.bytes);
    for text in [text::of(&measurement), serde_json::to_string(&measurement).unwrap()] {
        assert!(text.contains("base/table") && text.contains("records"), "{text}");
    }
}

#[test]
fn what_was_before_the_first_mark_is_not_measured() {
    let mut mount = Mount::new();
    mount.record();
    let file = mount.create(FileId::ROOT, "file", FileKind::File);
    mount.write(file, 0, &[1; 2 * UNIT as usize]);
    mount.sync(file);
    mount.begin();
    mount.write(file, UNIT, &unit(1));
    mount.sync(file);
    let measurement = mount.measured(true);
    assert_eq!((measurement.asked.bytes, measurement.asked.syncs), (UNIT, 1));
    assert_eq!(measurement.files[0].drive_bytes, Some(UNIT));
    check_replay(&measurement);
}

#[test]
fn random_work_is_repeated_unit_by_unit() {
    let mut mount = Mount::new();
    let mut state = 17_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    mount.record();
    let mut files = Vec::new();
    let mut asked = 0;
    for step in 0..1500_u64 {
        if step == 300 {
            mount.begin();
        }
        let many = files.len() as u64;
        match draw(20) {
            0..4 if many < 12 => {
                let name = format!("file{step}");
                let file = mount.create(FileId::ROOT, &name, FileKind::File);
                files.push((name, file));
            }
            _ if many == 0 => {}
            0..12 => {
                let (offset, bytes) = (draw(200_000), draw(30_000) + 1);
                mount.write(files[draw(many) as usize].1, offset, &vec![step as u8; bytes as usize]);
                asked += if step >= 300 { bytes } else { 0 };
            }
            12..15 => mount.sync(files[draw(many) as usize].1),
            15 => {
                let size = Some(draw(200_000));
                let file = files[draw(many) as usize].1;
                let change = MetadataChange { size, ..MetadataChange::default() };
                Attributes::change_metadata(&mut mount.fs, file, &change).unwrap();
            }
            16 => {
                let (name, file) = files.swap_remove(draw(many) as usize);
                mount.unlink(FileId::ROOT, &name, file);
            }
            17 => {
                let file = files[draw(many) as usize].1;
                tantalum_filesystem::Ranges::punch_hole(&mut mount.fs, file, draw(9) * UNIT, 5 * UNIT)
                    .unwrap();
            }
            18 => {
                let (from, to) = (files[draw(many) as usize].1, files[draw(many) as usize].1);
                let _ =
                    tantalum_filesystem::Ranges::copy_range(&mut mount.fs, from, 0, to, 60 * UNIT, 3 * UNIT);
            }
            _ => FileSystem::write_back(&mut mount.fs).unwrap(),
        }
    }
    let measurement = mount.measured(true);
    assert_eq!(measurement.asked.bytes, asked);
    assert!(measurement.counters.host_units_written > 1000, "{measurement:?}");
    check_replay(&measurement);
}

/// What a database with a write-ahead log does: writes pages, each with a header, to the log and syncs; later writes the
/// same pages home.
#[test]
fn page_images_are_left_out_of_logs_and_duplicates_are_shared() {
    const PAGES: u64 = 64;
    let mut mount = Mount::new();
    mount.record();
    mount.begin();
    let data = mount.create(FileId::ROOT, "test.db", FileKind::File);
    let log = mount.create(FileId::ROOT, "test.db-wal", FileKind::File);
    for page in 0..PAGES {
        mount.write(log, page * (24 + UNIT), &[9; 24]);
        mount.write(log, page * (24 + UNIT) + 24, &unit(page));
        mount.sync(log);
    }
    for page in 0..PAGES {
        mount.write(data, page * UNIT, &unit(page));
    }
    mount.sync(data);
    let measurement = mount.measured(true);
    check_replay(&measurement);
    let replay = |name: &str| {
        measurement.replays.iter().find(|replay| replay.name == name).unwrap_or_else(|| panic!("no {name}"))
    };
    let (plain, atomic) = (replay("as it ran"), replay("atomic writes"));
    assert_eq!(atomic.left_out_bytes, PAGES * UNIT);
    // each sync writes the log's last unit once: without the pages all of its headers are in one
    assert!(atomic.drive_bytes + (PAGES - 2) * UNIT <= plain.drive_bytes, "{measurement:?}");
    let capacitor = replay("a capacitor");
    assert!(capacitor.sync_seconds < plain.sync_seconds * 0.6, "{measurement:?}");
    assert!(capacitor.flash_bytes < plain.flash_bytes, "padding of flushed pages is saved: {measurement:?}");
    assert_eq!(measurement.replays.len(), 5);
}

/// SQLite's log holds nothing but pages. Without them the replay promised too much: nothing made a commit durable until the
/// checkpoint. With them and without the checkpoint, pages lay across units.
#[test]
fn pages_of_sqlites_log_go_home_as_if_there_were_none() {
    const PAGES: u64 = 16;
    const ROUNDS: u64 = 10;
    let run = |has_log: bool| {
        let mut mount = Mount::new();
        let data = mount.create(FileId::ROOT, "test.db", FileKind::File);
        mount.write(data, 0, &vec![3; (PAGES * UNIT) as usize]);
        mount.sync(data);
        mount.record();
        mount.begin();
        let mut header = [0; 32];
        header[..4].copy_from_slice(&0x377f_0683_u32.to_be_bytes());
        header[8..12].copy_from_slice(&(UNIT as u32).to_be_bytes());
        header[16..24].fill(7);
        let log = has_log.then(|| mount.create(FileId::ROOT, "test.db-wal", FileKind::File));
        if let Some(log) = log {
            mount.write(log, 0, &header);
            mount.sync(log);
        }
        for round in 0..ROUNDS {
            for page in 0..PAGES {
                let contents = unit(round * PAGES + page);
                let Some(log) = log else {
                    mount.write(data, page * UNIT, &contents);
                    continue;
                };
                let at = 32 + (round * PAGES + page) * (24 + UNIT);
                let mut frame = [0; 24];
                frame[..4].copy_from_slice(&(page as u32 + 1).to_be_bytes());
                if page == PAGES - 1 {
                    frame[4..8].copy_from_slice(&(PAGES as u32).to_be_bytes());
                }
                frame[8..16].fill(7);
                mount.write(log, at, &frame);
                // as the kernel passes it on
                let (first, rest) = contents.split_at(1000);
                mount.write(log, at + 24, first);
                mount.write(log, at + 1024, rest);
            }
            mount.sync(log.unwrap_or(data));
        }
        if let Some(log) = log {
            for page in 0..PAGES {
                mount.write(data, page * UNIT, &unit((ROUNDS - 1) * PAGES + page));
            }
            mount.sync(data);
            mount.unlink(FileId::ROOT, "test.db-wal", log);
        }
        mount.measured(true)
    };
    let (with, without) = (run(true), run(false));
    check_replay(&with);
    let [plain, atomic, ..] = &with.replays[..] else { panic!("{with:?}") };
    let real = &without.replays[0];
    assert_eq!((atomic.drive_bytes, atomic.flushes), (real.drive_bytes, real.flushes), "{with:?}");
    assert!(plain.drive_bytes > real.drive_bytes + PAGES * UNIT, "{with:?}");
    assert_eq!(atomic.not_repeated, 0);
}

/// With atomic writes SQLite needs no rollback journal: not its pages, its header, its syncs, nor the syncs of its folder.
#[test]
fn a_rollback_journal_is_left_out_with_its_names_and_syncs() {
    const ROUNDS: u64 = 8;
    let run = |has_journal: bool| {
        let mut mount = Mount::new();
        let data = mount.create(FileId::ROOT, "test.db", FileKind::File);
        mount.write(data, 0, &unit(0));
        mount.record();
        mount.begin();
        for round in 1..=ROUNDS {
            if has_journal {
                let journal = mount.create(FileId::ROOT, "test.db-journal", FileKind::File);
                mount.write(journal, 0, &[0; 512]);
                mount.write(journal, 512, &[7; 4]);
                mount.write(journal, 516, &unit(round - 1));
                mount.sync(journal);
                mount.write(journal, 0, &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7, 0, 0, 0, 1]);
                mount.sync(journal);
                Names::sync_folder(&mut mount.fs, FileId::ROOT).unwrap();
                mount.write(data, 0, &unit(round));
                mount.sync(data);
                mount.unlink(FileId::ROOT, "test.db-journal", journal);
                Names::sync_folder(&mut mount.fs, FileId::ROOT).unwrap();
            } else {
                mount.write(data, 0, &unit(round));
                mount.sync(data);
            }
        }
        // a folder that has changed otherwise is synced
        mount.create(FileId::ROOT, "other", FileKind::File);
        Names::sync_folder(&mut mount.fs, FileId::ROOT).unwrap();
        mount.measured(true)
    };
    let (with, without) = (run(true), run(false));
    check_replay(&with);
    let [plain, atomic, ..] = &with.replays[..] else { panic!("{with:?}") };
    let real = &without.replays[0];
    assert_eq!((atomic.drive_bytes, atomic.flushes), (real.drive_bytes, real.flushes), "{with:?}");
    assert!(plain.drive_bytes > 3 * real.drive_bytes, "{with:?}");
    assert_eq!((atomic.not_repeated, atomic.left_out_bytes), (0, ROUNDS * (512 + 4 + UNIT + 12)));
}

/// MariaDB's doublewrite buffer lies in a data file, and was measured as data: atomic writes would have saved nothing.
#[test]
fn pages_that_pass_a_data_file_are_left_out() {
    const PAGES: u64 = 16;
    const ROUNDS: u64 = 5;
    let mut mount = Mount::new();
    mount.record();
    mount.begin();
    let system = mount.create(FileId::ROOT, "ibdata1", FileKind::File);
    let table = mount.create(FileId::ROOT, "t.ibd", FileKind::File);
    for round in 0..ROUNDS {
        let pages: Vec<Vec<u8>> = (0..PAGES).map(|page| unit(round * PAGES + page)).collect();
        // each round in another order, so that pages have other slots
        let order = |slot: u64| (slot * 5 + round) % PAGES;
        let slots: Vec<u8> = (0..PAGES).flat_map(|slot| pages[order(slot) as usize].clone()).collect();
        mount.write(system, 64 * UNIT, &slots);
        mount.sync(system);
        for page in 0..PAGES {
            mount.write(table, page * UNIT, &pages[page as usize]);
        }
        mount.sync(table);
    }
    let measurement = mount.measured(true);
    check_replay(&measurement);
    assert_eq!(file(&measurement, "ibdata1").kind, WritePurpose::Data);
    let [plain, atomic, ..] = &measurement.replays[..] else { panic!("{measurement:?}") };
    assert_eq!(atomic.left_out_bytes, ROUNDS * PAGES * UNIT);
    assert!(atomic.drive_bytes + ROUNDS * PAGES * UNIT <= plain.drive_bytes, "{measurement:?}");
    assert_eq!(atomic.flushes + ROUNDS, plain.flushes, "a sync of what was left out is left out too");
}

/// The journal's pages are not aligned to units, so nothing is shared; two copies of a file are.
#[test]
fn equal_units_are_written_once_where_duplicates_are_shared() {
    let mut mount = Mount::new();
    mount.record();
    mount.begin();
    let files =
        [mount.create(FileId::ROOT, "a", FileKind::File), mount.create(FileId::ROOT, "b", FileKind::File)];
    for file in files {
        for page in 0..100 {
            mount.write(file, page * UNIT, &unit(page));
        }
        mount.sync(file);
    }
    let measurement = mount.measured(true);
    let shared = measurement.replays.iter().find(|replay| replay.name == "duplicates shared").unwrap();
    assert!(shared.drive_bytes + 100 * UNIT <= measurement.replays[0].drive_bytes, "{measurement:?}");
}

#[test]
fn without_replays_nothing_is_guessed() {
    let mut mount = Mount::new();
    mount.record();
    mount.begin();
    let file = mount.create(FileId::ROOT, "a", FileKind::File);
    mount.write(file, 0, &[1; 10]);
    let measurement = mount.measured(false);
    assert_eq!((measurement.asked.bytes, measurement.files[0].drive_bytes), (10, None));
    assert!(measurement.replays.is_empty() && measurement.kinds[3].drive_bytes.is_none());
    assert!(text::of(&measurement).contains('?'));
}
