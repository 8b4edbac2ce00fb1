//! Every cut of short programs.

use tantalum::PowerLoss;
use tantalum_drive::Drive;
use tantalum_filesystem::{Attributes, Content, FileKind, FileSystem, MetadataChange, Names};
use tantalum_lfs::{Cleaning, Indexing, LfsKind, LogFs};

use super::model::UNIT;
use super::run::{Plan, Run, SNAPSHOT_ODDS};
use super::{LARGE_CACHE, NOW, ROOT, SOUND, crash, device, new, sound};

/// Runs a random program of `steps` steps repeatedly, with power cut at the first, second and so on flash operation,
/// until it ends without a cut. Returns the number of cuts.
pub fn every_cut_of(kind: LfsKind, seed: u64, steps: u32, cleaning: Cleaning, indexing: Indexing) -> u32 {
    let plan = Plan {
        kind,
        capacity_mib: 16,
        cache_bytes: 1 << 20,
        cleaning,
        indexing,
        cut_within: None,
        most_bytes: 200_000,
        left_units: None,
        faults: SOUND,
        snapshot_odds: SNAPSHOT_ODDS,
    };
    let mut cuts = 0;
    for operations in 1.. {
        let mut run = Run::new(seed, plan);
        run.cut_once(operations);
        for _ in 0..steps {
            run.step();
            if run.cuts > 0 {
                break;
            }
        }
        let is_end = !run.came_to_cut();
        cuts += run.finish().cuts;
        if is_end {
            return cuts;
        }
    }
    unreachable!("a program ends")
}

/// The list of files without names makes a checkpoint pack larger than a flash page; power is cut at each flash operation of one. Returns how many cuts there were.
pub fn every_cut_of_a_large_checkpoint(kind: LfsKind) -> u64 {
    for operations in 1.. {
        let drive = Drive::new(device(64));
        let mut fs = LogFs::format(drive.client(), kind, Cleaning::Copy, LARGE_CACHE).unwrap();
        let mut first = None;
        for number in 0..4090 {
            let name = format!("{number}");
            let file = fs.create_in(ROOT, name.as_bytes(), &new(FileKind::File)).unwrap();
            fs.open(file).unwrap();
            fs.unlink(ROOT, name.as_bytes(), NOW).unwrap();
            first.get_or_insert(file);
        }
        fs.create_in(ROOT, b"before", &new(FileKind::File)).unwrap();
        fs.sync_folder(ROOT).unwrap();
        fs.create_in(ROOT, b"after", &new(FileKind::File)).unwrap();
        // All numbers move up in the pack, so that every part of it changes.
        fs.close(first.expect("there are files")).unwrap();
        drive.lock().cut_after(Some(operations));
        let result = fs.sync_folder(ROOT);
        let has_power = drive.lock().has_power();
        drop(fs);
        if has_power {
            result.unwrap();
            return operations - 1;
        }
        for seed in 0..8 {
            let drive = drive.try_clone().expect("a drive in memory can be copied");
            drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
            let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("one of two packs is whole");
            fs.lookup(ROOT, b"before").expect("what was durable is there");
            sound(&mut fs);
        }
    }
    unreachable!("a checkpoint ends")
}

/// A file that the drive lists is emptied, and power is cut at each operation of the checkpoint that makes the list void.
/// Returns how many cuts there were.
pub fn every_cut_while_a_list_becomes_void(kind: LfsKind) -> u64 {
    for operations in 1.. {
        let drive = Drive::new(device(8));
        let made = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, Indexing::Nvm, LARGE_CACHE);
        let mut fs = made.expect("the drive keeps lists");
        let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
        fs.write(file, 0, &[1; UNIT]).unwrap();
        fs.sync_folder(ROOT).unwrap();
        fs.write(file, UNIT as u64, &[2; UNIT]).unwrap();
        fs.sync(file).unwrap();
        assert_eq!(fs.syncs().listed, 1);
        fs.change_metadata(file, &MetadataChange { size: Some(0), ..Default::default() }).unwrap();
        fs.create_in(ROOT, b"witness", &new(FileKind::File)).unwrap();
        drive.lock().cut_after(Some(operations));
        let result = fs.sync_folder(ROOT);
        let has_power = drive.lock().has_power();
        drop(fs);
        if has_power {
            result.unwrap();
            return operations - 1;
        }
        for seed in 0..8 {
            let drive = drive.try_clone().expect("a drive in memory can be copied");
            drive.lock().power_on(&mut PowerLoss::seeded(seed)).unwrap();
            let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
            let size = if fs.lookup(ROOT, b"witness").is_ok() { 0 } else { 2 * UNIT as u64 };
            assert_eq!(fs.metadata(file).unwrap().size, size, "the size that belongs to the names");
            sound(&mut fs);
        }
    }
    unreachable!("a checkpoint ends")
}

/// A file is appended to, and each unit is listed: on over the ends of segments, whose summaries name the units and must be
/// durable before the next. Then the host crashes, or power fails.
pub fn lists_over_several_segments(kind: LfsKind) {
    for is_cut in [false, true] {
        let drive = Drive::new(device(32));
        let made = LogFs::format_indexed(drive.client(), kind, Cleaning::Copy, Indexing::Nvm, LARGE_CACHE);
        let mut fs = made.expect("the drive keeps lists");
        let file = fs.create_in(ROOT, b"file", &new(FileKind::File)).unwrap();
        fs.sync_folder(ROOT).unwrap();
        for unit in 0..200 {
            fs.write(file, (unit * UNIT) as u64, &[unit as u8; UNIT]).unwrap();
            fs.sync_data(file).unwrap();
        }
        assert_eq!(fs.syncs().listed, 200);
        let now_ns = fs.client_mut().now_ns();
        drop(fs);
        if is_cut {
            drive.lock().cut_power(now_ns);
            drive.lock().power_on(&mut PowerLoss::seeded(1)).unwrap();
        }
        let mut fs = LogFs::mount(drive.client(), LARGE_CACHE).expect("it mounts");
        sound(&mut fs);
        fs.clean_all().unwrap();
        let mut fs = crash(fs, 0);
        for unit in 0..200 {
            let mut byte = [0xee];
            fs.read(file, (unit * UNIT) as u64, &mut byte, None).unwrap();
            assert_eq!(byte, [unit as u8], "{kind:?}, unit {unit}");
        }
        sound(&mut fs);
    }
}
