//! Drives with non-volatile memory: what programs no flash, what is refused, and lists of files.

use crate::small_drive;

use std::ops::ControlFlow;
use std::path::Path;

use small_drive::small_drive;
use tantalum::check::{Remedy, check, repair};
use tantalum::{
    Command, CommandFailure, Completion, Device, DeviceError, FileEntry, FileId, Generation, Lpn, NvmProfile,
    Outcome, Plp, PowerLoss, Profile, ShareRange, Status, UNIT_BYTES, result_of,
};

fn profile(nvm_bytes: u64) -> Profile {
    let mut profile = small_drive("pebblessd", 4 << 20, 100.0, Plp::Nvm);
    profile.cache.bytes = 64 << 10;
    let nvm = NvmProfile { bytes: nvm_bytes, latency_ns: 500, bytes_per_second: 3_000_000_000, files: 3 };
    profile.nvm = Some(nvm);
    profile
}

struct Host {
    device: Device,
    now_ns: u64,
}

impl Host {
    fn new(device: Device) -> Host {
        let now_ns = device.time_ns();
        Host { device, now_ns }
    }

    fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let completion = self.device.submit(command, self.now_ns)?;
        self.now_ns = self.now_ns.max(completion.done_ns);
        Ok(completion)
    }

    fn write(&mut self, lpn: u32, stamp: u8) {
        self.submit(Command::Write { lpn: Lpn(lpn), data: &[stamp; UNIT_BYTES], fua: false, handle: None })
            .unwrap();
    }

    fn fs_write(&mut self, lpn: u32, file: u32, offset: u32, stamps: &[u8]) -> Result<(), Status> {
        let data: Vec<u8> = stamps.iter().flat_map(|stamp| [*stamp; UNIT_BYTES]).collect();
        self.submit(Command::FsWrite { lpn: Lpn(lpn), data: &data, file: FileId(file), offset }).map(drop)
    }

    fn stamp(&mut self, lpn: u32) -> u8 {
        let mut data = [0; UNIT_BYTES];
        self.submit(Command::Read { lpn: Lpn(lpn), data: &mut data }).unwrap();
        data[0]
    }

    fn list(&mut self, file: u32) -> Vec<(u32, u32)> {
        let mut entries = vec![FileEntry { lpn: Lpn(99), offset: 99 }];
        self.submit(Command::ReadFileList { file: FileId(file), entries: &mut entries }).unwrap();
        entries.iter().map(|entry| (entry.lpn.0, entry.offset)).collect()
    }

    fn files(&mut self) -> Vec<FileId> {
        let mut files = Vec::new();
        self.submit(Command::ListFiles { files: &mut files }).unwrap();
        files
    }

    fn cut(&mut self) {
        self.device.cut_power(self.now_ns);
        self.device.power_on(&mut PowerLoss::all(Outcome::NotStarted)).unwrap();
        self.now_ns = self.now_ns.max(self.device.time_ns());
    }
}

#[test]
fn commands_that_only_map_program_no_flash_and_a_full_log_takes_a_checkpoint() {
    let mut host = Host::new(Device::in_memory(&profile(512 << 10)).unwrap());
    for lpn in 0..200 {
        host.write(lpn, lpn as u8);
    }
    host.submit(Command::Flush).unwrap();
    let tx = result_of(|tx| host.submit(Command::Begin { tx })).unwrap();
    host.submit(Command::TxWrite { tx, lpn: Lpn(500), data: &[77; UNIT_BYTES] }).unwrap();
    host.submit(Command::Flush).unwrap();
    let before = host.device.smart().counters;
    let (mut at, mut other) = (0, 300);
    for round in 0..4000 {
        host.submit(Command::Remap { src: Lpn(at), dst: Lpn(other), units: 50 }).unwrap();
        (at, other) = (other, at);
        if round % 10 == 0 {
            let ranges = [ShareRange { dst: Lpn(600), src: Lpn(100), units: 20 }];
            host.submit(Command::Share { ranges: &ranges, deferred: false }).unwrap();
            host.submit(Command::Trim { lpn: Lpn(600), units: 20 }).unwrap();
            host.submit(Command::Flush).unwrap();
            host.submit(Command::BeginLog { generation: &mut Generation::default() }).unwrap();
        }
    }
    host.submit(Command::Commit { tx }).unwrap();
    let done = host.device.smart().counters.since(&before);
    // only the page of the transaction
    assert!(done.flash_units.total() <= 2, "{:?}", done.flash_units);
    assert!(done.checkpoints > 3, "{}", done.checkpoints);
    host.cut();
    for lpn in 0..50 {
        assert_eq!((host.stamp(at + lpn), host.stamp(other + lpn)), (lpn as u8, 0));
    }
    assert_eq!((host.stamp(500), host.stamp(600), host.stamp(100)), (77, 0, 100));
    assert!(host.device.recovery().nvm_bytes_read > 0);
}

#[test]
fn too_little_memory_is_refused_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let refused = Device::create(&path, &profile(64 << 10)).unwrap_err();
    assert!(refused.to_string().contains("raise nvm.bytes"), "{refused}");
    assert!(!path.exists());
    assert!(matches!(Device::in_memory(&profile(64 << 10)), Err(DeviceError::Ftl(_))));
    let lists = Device::in_memory(&profile(8 << 10)).unwrap_err();
    assert!(matches!(lists, DeviceError::Invalid(_)), "{lists}");
}

#[test]
fn lists_survive_and_say_what_fs_write_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("drive");
    let mut host = Host::new(Device::create(&path, &profile(1 << 20)).unwrap());
    host.fs_write(10, 7, 100, &[1, 2, 3]).unwrap();
    host.fs_write(20, 7, 0, &[4]).unwrap();
    host.fs_write(30, 9, 5, &[5, 6]).unwrap();
    // what is written, trimmed or moved otherwise stays in its list
    host.write(11, 90);
    host.submit(Command::Trim { lpn: Lpn(12), units: 1 }).unwrap();
    host.submit(Command::Remap { src: Lpn(30), dst: Lpn(40), units: 1 }).unwrap();
    // what another fs_write writes is at the end of its list
    host.fs_write(10, 7, 200, &[8]).unwrap();
    host.fs_write(31, 7, 300, &[9]).unwrap();
    let (seven, nine) = (vec![(11, 101), (12, 102), (20, 0), (10, 200), (31, 300)], vec![(30, 5)]);
    for _ in 0..2 {
        assert_eq!(host.files(), [FileId(7), FileId(9)]);
        assert_eq!((host.list(7), host.list(9), host.list(8)), (seven.clone(), nine.clone(), vec![]));
        assert_eq!((host.stamp(10), host.stamp(31), host.stamp(40)), (8, 9, 5));
        assert_eq!(host.device.file_list_counts(), (3, 2, 6));
        // the process ends without a shutdown
        drop(host);
        host = Host::new(Device::open(&path).unwrap());
    }
    host.submit(Command::ClearFileLists { file: Some(FileId(7)) }).unwrap();
    assert_eq!((host.files(), host.list(9)), (vec![FileId(9)], nine));
    let now_ns = host.now_ns;
    host.device.shutdown(now_ns).unwrap();
    let mut host = Host::new(Device::open(&path).unwrap());
    assert!(host.device.recovery().clean);
    assert_eq!(host.files(), [FileId(9)]);
    host.submit(Command::ClearFileLists { file: None }).unwrap();
    drop(host);
    assert!(Host::new(Device::open(&path).unwrap()).files().is_empty());
}

#[test]
fn a_file_too_many_is_refused_and_nothing_is_changed() {
    let mut host = Host::new(Device::in_memory(&profile(1 << 20)).unwrap());
    for file in 1..=3 {
        host.fs_write(file, file, 0, &[file as u8]).unwrap();
    }
    let before = host.device.smart();
    let refused = host.fs_write(1, 4, 0, &[99]).unwrap_err();
    assert_eq!(refused, Status::OverLimit { what: "files with lists", asked: 4, limit: 3 });
    assert!(matches!(host.fs_write(1, 0, 0, &[99]), Err(Status::InvalidField(_))));
    assert!(matches!(host.fs_write(1, 2, u32::MAX, &[99]), Err(Status::InvalidField(_))));
    assert_eq!(host.device.smart(), before);
    assert_eq!((host.stamp(1), host.list(1), host.list(4)), (1, vec![(1, 0)], vec![]));
    host.submit(Command::ClearFileLists { file: Some(FileId(2)) }).unwrap();
    host.fs_write(1, 4, 0, &[99]).unwrap();
    host.cut();
    assert_eq!(host.files(), [FileId(3), FileId(4)], "file 1 has lost its only unit");
    assert_eq!(host.stamp(1), 99);
    let mut conventional = Device::in_memory(&Profile::load("tlc-nvme").unwrap()).unwrap();
    let file = Some(FileId(1));
    let refused = conventional.submit(Command::ClearFileLists { file }, conventional.time_ns());
    assert!(matches!(refused, Err(Status::InvalidField(_))), "{refused:?}");
}

/// The only place of these bytes in a file.
fn position(path: &Path, bytes: &[u8]) -> usize {
    let contents = std::fs::read(path).unwrap();
    let mut places = contents.windows(bytes.len()).enumerate().filter(|(_, window)| *window == bytes);
    let (at, _) = places.next().expect("the bytes are in the file");
    assert!(places.next().is_none(), "they are there once");
    at
}

#[test]
fn a_damaged_line_is_repaired_only_if_nothing_needs_it() {
    const OFFSET: u32 = 0xabcd_ef12;
    for needed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("drive");
        let mut host = Host::new(Device::create(&path, &profile(1 << 20)).unwrap());
        host.fs_write(700, 1, OFFSET, &[1]).unwrap();
        if !needed {
            host.submit(Command::ClearFileLists { file: None }).unwrap();
        }
        let now_ns = host.now_ns;
        host.device.shutdown(now_ns).unwrap();
        let at = position(&path, &[OFFSET.to_le_bytes(), u32::MAX.to_le_bytes()].concat());
        let mut contents = std::fs::read(&path).unwrap();
        contents[at] ^= 1;
        std::fs::write(&path, &contents).unwrap();
        let watch = &mut |_, _| ControlFlow::Continue(());
        let found = check(&path, watch).unwrap();
        assert_eq!(found.is_beyond_repair(), needed, "{found:?}");
        assert!(found.findings.iter().any(|finding| finding.part == "lines of non-volatile memory"));
        let repaired = repair(&path, watch).unwrap();
        match needed {
            true => {
                assert!(repaired.done.is_empty() && Device::open(&path).is_err(), "{repaired:?}");
                assert!(found.findings.iter().any(|finding| finding.remedy == Remedy::None));
            }
            false => {
                assert!(repaired.after.findings.is_empty(), "{repaired:?}");
                assert_eq!(Host::new(Device::open(&path).unwrap()).stamp(700), 1);
            }
        }
    }
}

/// Which lists a command that failed has changed, nobody knows.
#[test]
fn lists_are_not_read_once_a_command_on_them_has_failed() {
    for clears in [false, true] {
        let mut host = Host::new(Device::in_memory(&profile(512 << 10)).unwrap());
        host.write(2, 1);
        host.fs_write(3, 7, 0, &[2]).unwrap();
        host.device.fail_command(Some((1, CommandFailure::HostBefore)));
        let refused = match clears {
            true => host.submit(Command::ClearFileLists { file: Some(FileId(9)) }).map(drop),
            false => host.fs_write(5, 9, 0, &[3]),
        };
        let refused = refused.unwrap_err();
        let read = host.submit(Command::ReadFileList { file: FileId(7), entries: &mut Vec::new() });
        assert_eq!(read.map(drop), Err(refused.clone()));
        let list = host.submit(Command::ListFiles { files: &mut Vec::new() });
        assert_eq!(list.map(drop), Err(refused.clone()));
        assert_eq!([2, 3].map(|lpn| host.stamp(lpn)), [1, 2]);
        let unit = host.submit(Command::Read { lpn: Lpn(5), data: &mut [0; UNIT_BYTES] });
        assert_eq!(unit.map(drop), if clears { Ok(()) } else { Err(refused) });
    }
}
