//! Logs compared with a plain list of bytes, with pages of several units: what was written can be read, before and
//! after sending and reopening.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, CommandFailure, Device, Lpn, Outcome, PowerLoss, Profile, UNIT_BYTES};

use super::*;
use crate::frame::FRAME_HEADER_BYTES;
use crate::framed_log::GROWTH_UNITS;

const PAGE: usize = 2 * UNIT_BYTES;

fn volume() -> Volume {
    let profile = Profile { capacity_bytes: 256 << 20, ..Profile::load("tlc-nvme").unwrap() };
    Volume::format(Device::in_memory(&profile).unwrap(), 2 << 20).unwrap()
}

/// A log with what SQLite wrote to it.
struct Log {
    volume: Volume,
    file: FileId,
    database: FileId,
    mode: Mode,
    log: LogFile,
    page_bytes: usize,
    salt: [u8; 8],
    bytes: Vec<u8>,
}

impl Log {
    fn new(mode: Mode, page_bytes: usize) -> Log {
        let mut volume = volume();
        let (database, file) = (volume.create("app.db").unwrap(), volume.create("app.db-wal").unwrap());
        let log = LogFile::open(&mut volume, file, database, mode).unwrap();
        let mut log = Log { volume, file, database, mode, log, page_bytes, salt: [0; 8], bytes: Vec::new() };
        log.restart(1);
        log
    }

    fn frames(&self) -> usize {
        self.bytes.len().saturating_sub(LOG_HEADER_BYTES) / (FRAME_HEADER_BYTES + self.page_bytes)
    }

    /// Where a frame's page begins.
    fn page_at(&self, frame: usize) -> usize {
        LOG_HEADER_BYTES + frame * (FRAME_HEADER_BYTES + self.page_bytes) - self.page_bytes
    }

    fn write(&mut self, offset: usize, data: &[u8]) {
        self.log.write(&mut self.volume, offset as u64, data).unwrap();
        self.bytes.resize(self.bytes.len().max(offset + data.len()), 0);
        self.bytes[offset..offset + data.len()].copy_from_slice(data);
    }

    fn restart(&mut self, salt: u8) {
        self.salt = [salt; 8];
        let mut header = [salt; LOG_HEADER_BYTES];
        header[..4].copy_from_slice(&0x377f_0682_u32.to_be_bytes());
        header[8..12].copy_from_slice(&(self.page_bytes as u32).to_be_bytes());
        // a plain log keeps its old frames, which SQLite recognises as not of this life
        if self.mode != Mode::Wal {
            self.bytes.clear();
        }
        self.write(0, &header);
        self.log.sync(&mut self.volume).unwrap();
    }

    fn write_header(&mut self, frame: usize, page_number: u32, commits: bool) {
        let mut header = [9; FRAME_HEADER_BYTES];
        header[..4].copy_from_slice(&page_number.to_be_bytes());
        header[4..8].copy_from_slice(&u32::from(commits).to_be_bytes());
        header[8..16].copy_from_slice(&self.salt);
        let at = self.page_at(frame) - FRAME_HEADER_BYTES;
        if !commits && frame.is_multiple_of(3) {
            self.write(at, &header[..9]);
            self.write(at + 9, &header[9..]);
        } else {
            self.write(at, &header);
        }
    }

    /// Appends a frame whose page is filled with a byte.
    fn append(&mut self, page_number: u32, byte: u8, commits: bool) {
        let frame = self.frames() + 1;
        self.write_header(frame, page_number, commits);
        let page = vec![byte; self.page_bytes];
        if frame.is_multiple_of(2) {
            self.write(self.page_at(frame), &page);
        } else {
            // with the end of its header, and in two parts
            let at = self.page_at(frame);
            let end = [&self.bytes[at - 5..at], &page[..100]].concat();
            self.write(at - 5, &end);
            self.write(at + 100, &page[100..]);
        }
    }

    fn sync(&mut self) {
        self.log.sync(&mut self.volume).unwrap();
    }

    /// The last connection leaves, and another opens the log.
    fn reopen(&mut self) {
        self.log.close(&mut self.volume).unwrap();
        self.log = LogFile::open(&mut self.volume, self.file, self.database, self.mode).unwrap();
    }

    fn check(&mut self, offset: usize, bytes: usize, when: &str) {
        let mut data = vec![0xEE; bytes];
        let read = self.log.read(&mut self.volume, offset as u64, &mut data).unwrap();
        assert_eq!(read, bytes, "{when}: bytes at {offset}");
        assert!(data == self.bytes[offset..offset + bytes], "{when}: {bytes} bytes at {offset}");
    }

    fn framed(&mut self) -> &mut FramedLog {
        self.log.framed().expect("pages of whole units are framed")
    }

    /// A checkpoint writes a page home.
    fn takes_home(&mut self, offset: usize, data: &[u8]) -> bool {
        let log = self.log.framed().expect("pages of whole units are framed");
        log.take_home(&mut self.volume, offset as u64, data).unwrap()
    }

    fn issue_shares(&mut self) {
        self.log.framed().expect("it is framed").issue_shares(&mut self.volume).unwrap();
    }

    /// A page of the database file, as the drive has it.
    fn database(&mut self, page_number: usize) -> Vec<u8> {
        self.volume.sync(self.database).unwrap();
        let mut page = vec![0xEE; self.page_bytes];
        for (unit, data) in page.chunks_exact_mut(UNIT_BYTES).enumerate() {
            let unit = (page_number - 1) * self.page_bytes / UNIT_BYTES + unit;
            let lpn = self.volume.lpn(self.database, unit as u64).expect("the page has its places");
            self.volume.submit(Command::Read { lpn, data }).unwrap();
        }
        page
    }

    fn is_mapped(&self, file: FileId, unit: usize) -> bool {
        let lpn = self.volume.lpn(file, unit as u64).expect("the unit has a place");
        self.volume.device().is_mapped(lpn)
    }
}

#[test]
fn a_log_reads_as_it_was_written_in_every_mode() {
    for (seed, mode) in
        [(1, Mode::Share), (2, Mode::SwWal), (3, Mode::Share), (4, Mode::SwWal), (5, Mode::Wal)]
    {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut log = Log::new(mode, PAGE);
        // frames of the open transaction
        let (mut open, mut was_reopened) = (0, false);
        for step in 0..400 {
            let when = format!("seed {seed}, step {step}");
            match random.random_range(0..100) {
                0..40 => {
                    let commits = random.random_ratio(1, 3);
                    log.append(random.random_range(1..50), step as u8, commits);
                    open = if commits { 0 } else { open + 1 };
                }
                40..55 if open > 0 => {
                    // SQLite changes a page of its transaction in place, and seals the headers after it
                    let first = log.frames() - random.random_range(0..open);
                    let start = random.random_range(0..PAGE);
                    let bytes = random.random_range(1..=PAGE - start);
                    log.write(log.page_at(first) + start, &vec![!step as u8; bytes]);
                    (first..=log.frames()).for_each(|frame| log.write_header(frame, 7, false));
                }
                55..70 => log.sync(),
                70..72 => {
                    log.restart(step as u8);
                    (open, was_reopened) = (0, false);
                }
                72..75 if !was_reopened && mode != Mode::Wal => {
                    let frames = random.random_range(0..=log.frames());
                    let bytes = log.page_at(frames + 1) - FRAME_HEADER_BYTES;
                    // half a frame is dropped
                    let more = random.random_range(0..2) * 100;
                    log.log.truncate(&mut log.volume, (bytes + more) as u64).unwrap();
                    let left = if bytes + more >= log.bytes.len() { log.bytes.len() } else { bytes };
                    log.bytes.truncate(left);
                    open = 0;
                }
                75..78 => {
                    log.reopen();
                    was_reopened = true;
                }
                _ => {
                    let offset = random.random_range(0..log.bytes.len());
                    let bytes = random.random_range(1..=(log.bytes.len() - offset).min(3 * PAGE));
                    log.check(offset, bytes, &when);
                }
            }
            if let Some(log) = log.log.framed() {
                let waits = |frame: &u32| !log.numbering.is_committed(*frame);
                assert!(log.changed.iter().all(waits), "{when}: {:?} in {:?}", log.changed, log.numbering);
            }
            if !was_reopened {
                assert_eq!(log.log.size(&log.volume).unwrap(), log.bytes.len() as u64, "{when}");
            }
        }
        log.sync();
        log.reopen();
        let bytes = log.bytes.len();
        log.check(0, bytes, "at the end");
    }
}

#[test]
fn a_log_that_is_cut_to_nothing_is_empty_when_it_is_opened() {
    let mut log = Log::new(Mode::Share, PAGE);
    log.append(1, 1, true);
    log.sync();
    log.log.truncate(&mut log.volume, 0).unwrap();
    assert_eq!(log.log.size(&log.volume).unwrap(), 0);
    log.reopen();
    assert_eq!(log.log.size(&log.volume).unwrap(), 0);
}

/// A log of frames in units continues as a plain one, and is reopened as what it now is.
#[test]
fn a_log_that_changes_its_layout_is_emptied_first() {
    let mut log = Log::new(Mode::Share, PAGE);
    (1..=3).for_each(|number| log.append(number, 5, true));
    log.sync();
    log.mode = Mode::Wal;
    log.reopen();
    log.bytes.clear();
    log.restart(2);
    assert_eq!(log.log.size(&log.volume).unwrap(), LOG_HEADER_BYTES as u64);
    log.append(1, 6, true);
    log.sync();
    log.reopen();
    let bytes = log.bytes.len();
    assert_eq!(log.log.size(&log.volume).unwrap(), bytes as u64);
    log.check(0, bytes, "as a plain log");
}

#[test]
fn a_page_goes_home_only_as_the_last_whole_transaction_has_it() {
    let mut log = Log::new(Mode::Share, PAGE);
    log.volume.write(log.database, 0, &[1; 3 * PAGE]).unwrap();
    for (page_number, byte) in [(2, 4), (3, 5)] {
        log.append(page_number, byte, page_number == 3);
    }
    log.append(1, 6, false);
    log.sync();
    let all = log.bytes.len();
    log.check(0, all, "a checkpoint reads it");
    let mut other = vec![4; PAGE];
    other[PAGE - 1] = 9;
    assert!(!log.takes_home(PAGE, &other), "it differs in its last byte");
    assert!(!log.takes_home(0, &[6; PAGE]), "its transaction is open");
    assert!(!log.takes_home(PAGE, &[4; UNIT_BYTES]), "it is half a page");
    assert!(!log.takes_home(PAGE + UNIT_BYTES, &[4; PAGE]), "that is no page of the database");
    assert!(!log.takes_home(2 * PAGE, &[4; PAGE]), "that is another page");
    assert!(log.takes_home(PAGE, &[4; PAGE]) && log.takes_home(2 * PAGE, &[5; PAGE]));
    assert_eq!(log.volume.device().smart().counters.units_shared, 0, "both go together");
    log.issue_shares();
    assert_eq!(log.volume.device().smart().counters.units_shared, 4);
    assert_eq!([1, 2, 3].map(|page| log.database(page)), [vec![1; PAGE], vec![4; PAGE], vec![5; PAGE]]);
}

/// What the drive refuses to share is written, each page to its place.
#[test]
fn pages_whose_share_is_refused_are_written() {
    let mut log = Log::new(Mode::Share, PAGE);
    log.volume.write(log.database, 0, &[1; 3 * PAGE]).unwrap();
    log.append(2, 4, false);
    log.append(3, 5, true);
    log.sync();
    let all = log.bytes.len();
    log.check(0, all, "a checkpoint reads it");
    assert!(log.takes_home(PAGE, &[4; PAGE]) && log.takes_home(2 * PAGE, &[5; PAGE]));
    let lpn = log.volume.lpn(log.file, 1).unwrap();
    log.volume.submit(Command::Trim { lpn, units: 1 }).unwrap();
    log.issue_shares();
    assert_eq!(log.volume.device().smart().counters.units_shared, 0);
    assert_eq!(log.database(1), [1; PAGE]);
    assert_eq!(log.database(3), [5; PAGE]);
}

/// When the second of these writes failed too, the pages that were left were forgotten, although SQLite had been told that
/// they were home: the next sync of the database succeeded, and the log restarted without them.
#[test]
fn pages_whose_share_is_refused_wait_until_they_can_be_written() {
    let mut log = Log::new(Mode::Share, PAGE);
    log.volume.write(log.database, 0, &[1; 3 * PAGE]).unwrap();
    log.volume.sync(log.database).unwrap();
    log.append(2, 4, false);
    log.append(3, 5, true);
    log.sync();
    let all = log.bytes.len();
    log.check(0, all, "a checkpoint reads it");
    assert!(log.takes_home(PAGE, &[4; PAGE]) && log.takes_home(2 * PAGE, &[5; PAGE]));
    // the pages of the log are read from the drive, and those of the database as well
    (0..9).for_each(|unit| log.volume.cache_drop(log.file, unit));
    (0..6).for_each(|unit| log.volume.cache_drop(log.database, unit));
    let failures =
        [(1, CommandFailure::OutOfBuffers), (1, CommandFailure::Unreadable), (1, CommandFailure::Unreadable)];
    log.volume.device().fail_commands(&failures);
    let framed = log.log.framed().unwrap();
    assert!(framed.issue_shares(&mut log.volume).is_err());
    log.volume.device().fail_command(None);
    log.issue_shares();
    for (page, byte) in [(1, 1), (2, 4), (3, 5)] {
        assert!(log.database(page) == [byte; PAGE], "page {page}");
    }
}

/// After a frame of several units was sent in part, the drive refused its first unit as out of order, at each sync.
#[test]
fn a_sync_whose_command_failed_can_be_repeated() {
    for mode in [Mode::Share, Mode::SwWal] {
        for command in 1.. {
            let mut log = Log::new(mode, PAGE);
            log.append(2, 4, false);
            log.append(3, 5, true);
            log.append(1, 6, true);
            log.volume.device().fail_command(Some((command, CommandFailure::CapacityExceeded)));
            if log.log.sync(&mut log.volume).is_ok() {
                assert!(command > 6, "{command} commands are too few");
                break;
            }
            let again = log.log.sync(&mut log.volume);
            assert_eq!(again, Ok(()), "{mode:?}: command {command} had failed");
            let all = log.bytes.len();
            log.check(0, all, "after the second sync");
        }
    }
}

#[test]
fn hints_name_the_units_of_the_database_while_it_has_them() {
    let mut log = Log::new(Mode::SwWal, PAGE);
    log.append(3, 5, true);
    log.sync();
    let lpn = |log: &Log, unit| log.volume.lpn(log.database, unit);
    let home = |log: &mut Log, page_number, unit| -> Option<Lpn> {
        let framed = log.log.framed().expect("it is framed");
        framed.home(&log.volume, page_number, unit)
    };
    assert_eq!(home(&mut log, 3, 0), lpn(&log, 4));
    assert_eq!(home(&mut log, 3, 1), lpn(&log, 5));
    assert_eq!(home(&mut log, 0, 0), None);
    log.framed().database_cut(2 * PAGE as u64);
    assert_eq!(home(&mut log, 3, 0), None, "the page is gone");
    assert_eq!(home(&mut log, 2, 1), lpn(&log, 3));
}

/// The drive must not bring home what an earlier opening left behind the place where the log continues.
#[test]
fn what_is_behind_a_reopened_log_is_trimmed_and_nothing_else() {
    // 15 frames fill what the log grows by
    const LARGE: usize = 16 * UNIT_BYTES;
    let mut log = Log::new(Mode::SwWal, LARGE);
    (0..14).for_each(|number| log.append(number + 1, 5, true));
    log.sync();
    // what a trim beyond the log would reach
    let other = log.volume.create("other").unwrap();
    log.volume.write(other, 0, &[7; 64 * UNIT_BYTES]).unwrap();
    log.volume.sync(other).unwrap();
    (14..20).for_each(|number| log.append(number + 1, 5, true));
    log.sync();
    log.reopen();
    log.bytes.truncate(log.page_at(12) - FRAME_HEADER_BYTES);
    log.append(3, 8, true);
    log.sync();
    let unit = |frame: usize| 1 + (frame - 1) * 16;
    for frame in 1..=20 {
        let expected = frame <= 12;
        for unit in [unit(frame), unit(frame) + 15] {
            assert_eq!(log.is_mapped(log.file, unit), expected, "frame {frame}, unit {unit}");
        }
    }
    assert!((0..64).all(|unit| log.is_mapped(other, unit)));
    let bytes = log.bytes.len();
    log.check(0, bytes, "what the log has");
}

/// Power fails, and the volume is mounted again.
fn power_cut(volume: Volume, outcome: Outcome) -> Volume {
    volume.device().cut_power(u64::MAX / 2);
    let mut device = volume.into_client_without_sync().into_device().unwrap();
    device.power_on(&mut PowerLoss::all(outcome)).unwrap();
    Volume::mount(device, 2 << 20).unwrap()
}

/// Rule 4 at the head of `log_sender`. If the drive kept a new frame and lost the trims, the new frame could be followed by
/// old ones that continue its checksums, and SQLite would recover transactions that its last life did not have. The
/// torture test of SQLite notices only if nothing is trimmed at all.
#[test]
fn no_old_frame_follows_a_new_one_wherever_power_fails() {
    let (mut old, mut new) = (0, 0);
    for (operation, outcome) in
        (1..).flat_map(|operation| [Outcome::NotStarted, Outcome::Completed].map(|out| (operation, out)))
    {
        let mut log = Log::new(Mode::SwWal, PAGE);
        (1..=4).for_each(|number| log.append(number, 5, true));
        log.sync();
        log.reopen();
        log.bytes.truncate(log.page_at(3) - FRAME_HEADER_BYTES);
        log.append(3, 8, true);
        log.volume.device().cut_after(Some(operation));
        let synced = log.log.sync(&mut log.volume);
        let file = log.file;
        let mut volume = power_cut(log.volume, outcome);
        let mut byte = |frame: u64| {
            let mut data = [0; 1];
            volume.read(file, (2 * frame - 1) * UNIT_BYTES as u64, &mut data).unwrap();
            data[0]
        };
        let frames = [1, 2, 3, 4].map(&mut byte);
        assert_eq!(frames[..2], [5, 5], "operation {operation}");
        match frames[2..] {
            [8, 0] => new += 1,
            [5 | 0, 5 | 0] => old += 1,
            _ => panic!("operation {operation}, {outcome:?}: the frames are {frames:?}"),
        }
        if synced.is_ok() {
            break;
        }
    }
    assert!(old > 0 && new > 1, "{old} times before the new frame, {new} times after it");
}

/// Rule 2 at the head of `log_sender`: what SQLite would recover from the log and what the drive brought home are the same,
/// also for those who read only the database. No test looked there after a cut, and mounting trims units without a file.
#[test]
fn what_the_drive_brings_home_belongs_to_the_database() {
    let mut log = Log::new(Mode::SwWal, PAGE);
    log.append(3, 5, true);
    log.sync();
    let database = log.database;
    let mut volume = power_cut(log.volume, Outcome::NotStarted);
    for unit in [4, 5] {
        let lpn = volume.lpn(database, unit).expect("the home is a place of the database");
        let mut data = [0xEE; UNIT_BYTES];
        volume.submit(Command::Read { lpn, data: &mut data }).unwrap();
        assert_eq!(data, [5; UNIT_BYTES], "unit {unit}");
    }
}

/// Files take all of the drive, so the log cannot grow contiguously: the units behind it belong to another file.
fn take_all_but_one_place(log: &mut Log) {
    let mut fillers = Vec::new();
    for shift in (12..=27).rev() {
        for number in 0.. {
            let name = format!("filler {shift} {number}");
            let filler = log.volume.create(&name).unwrap();
            let bytes = 1 << shift;
            if log.volume.reserve(filler, bytes).is_err() {
                log.volume.remove(&name).unwrap();
                break;
            }
            fillers.push((name, filler, bytes / UNIT_BYTES as u64));
        }
    }
    let last = log.volume.lpn(log.file, GROWTH_UNITS - 1).unwrap();
    let starts_behind = |volume: &Volume, filler, units| {
        (0..units).find(|&unit| volume.lpn(filler, unit) == Some(Lpn(last.0 + 1)))
    };
    let found = fillers.iter().find_map(|(name, filler, units)| {
        Some((name, *filler, starts_behind(&log.volume, *filler, *units)?))
    });
    let (name, behind, unit) = found.expect("all of the drive is taken");
    log.volume.write(behind, unit * UNIT_BYTES as u64, &[7; UNIT_BYTES]).unwrap();
    log.volume.sync(behind).unwrap();
    let (apart, ..) = fillers.iter().find(|(other, _, units)| other != name && *units >= 2048).unwrap();
    log.volume.remove(apart).unwrap();
    log.volume.sync_names().unwrap();
}

/// Two places; the units between them belong to another file.
#[test]
fn a_log_in_several_places_is_trimmed_where_it_is() {
    const LARGE: usize = 16 * UNIT_BYTES;
    let mut log = Log::new(Mode::SwWal, LARGE);
    (0..14).for_each(|number| log.append(number + 1, 5, true));
    log.sync();
    take_all_but_one_place(&mut log);
    (14..20).for_each(|number| log.append(number + 1, 5, true));
    log.sync();
    let places = [GROWTH_UNITS - 1, GROWTH_UNITS].map(|unit| log.volume.lpn(log.file, unit).unwrap());
    assert_ne!(places[0].0 + 1, places[1].0, "the log has one place");
    log.reopen();
    log.bytes.truncate(log.page_at(12) - FRAME_HEADER_BYTES);
    log.append(3, 8, true);
    log.sync();
    let is_mapped: Vec<bool> = (0..=20 * 16).map(|unit| log.is_mapped(log.file, unit)).collect();
    assert!(is_mapped[1..=12 * 16].iter().all(|is| *is) && !is_mapped[1 + 12 * 16..].iter().any(|is| *is));
    assert!(log.volume.device().is_mapped(Lpn(places[0].0 + 1)), "another file's unit was trimmed");
}

#[test]
fn a_log_keeps_no_more_pages_in_memory_than_it_may() {
    let mut log = Log::new(Mode::Share, 16 * UNIT_BYTES);
    let pages = (4 << 20) / (16 * UNIT_BYTES);
    for number in 0..pages {
        log.append(number as u32 + 1, 5, false);
    }
    assert_eq!(log.framed().pages.len(), pages, "none was sent yet");
    log.append(1, 6, false);
    assert_eq!(log.framed().pages.len(), 1);
}

#[test]
fn a_commit_forgets_what_a_rollback_left_behind_it() {
    let mut log = Log::new(Mode::Share, PAGE);
    (1..=3).for_each(|number| log.append(number, 5, false));
    assert_eq!(log.framed().pages.len(), 3);
    log.write_header(1, 1, true);
    assert_eq!(log.framed().pages.len(), 1);
    log.sync();
    assert!(!log.is_mapped(log.file, 3) && log.is_mapped(log.file, 1), "frame 2 belongs to nobody");
}
