//! What operations of each file system cost this machine's processor: `cargo run --release -p tantalum-lfs --example
//! operations` prints nanoseconds of processor time for each, of the volume and of both log-structured file systems.
//!
//! The file systems take turns, on drives in memory of the same profile; of several rounds the quickest counts.

use std::time::Duration;

use nix::time::ClockId;
use tantalum::{Device, Profile, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_filesystem::{
    Attributes, FileId, FileKind, FileSystem, MetadataChange, NewFile, Outcome, RenameMode, Timestamp,
};
use tantalum_lfs::{Cleaning, LfsKind, LogFs};
use tantalum_volume::Volume;

const CACHE_BYTES: u64 = 64 << 20;
const ROUNDS: u32 = 7;
/// Files in a folder, and units of the large file.
const FILES: u32 = 4000;
const UNITS: u64 = 8192;
const AT_ONCE: usize = 64;

const NOW: Timestamp = Timestamp { seconds: 1, nanoseconds: 0 };

type Work = fn(&mut dyn FileSystem, &Files) -> Outcome<u32>;

/// Operations, in the order in which a round executes them. Each returns their number.
const OPERATIONS: [(&str, Work); 14] = [
    ("create a file", create),
    ("look a name up", look_up),
    ("read metadata", metadata),
    ("change permissions", change_mode),
    ("write 4 KiB into a new file", write_small),
    ("fsync of it", sync_small),
    ("rename", rename),
    ("remove", remove),
    ("fsync of a folder, 1 new name", sync_folder),
    ("write 4 KiB, in order, into memory", write_cached),
    ("write 4 KiB, at random, direct", write_random),
    ("the same, and fdatasync", write_synced),
    ("write 256 KiB, in order, direct", write_large),
    ("read 4 KiB, at random, direct", read_random),
];

/// What a round works on.
struct Files {
    folder: FileId,
    large: FileId,
}

fn name(number: u32) -> Vec<u8> {
    format!("file-{number:06}").into_bytes()
}

fn new(kind: FileKind) -> NewFile {
    NewFile { kind, permissions: 0o644, now: NOW, ..NewFile::default() }
}

/// Each number below `count` once, in no particular order.
fn shuffled(count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |index| index * 2_654_435_761 % count)
}

fn create(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    (0..FILES).try_for_each(|n| fs.create_in(files.folder, &name(n), &new(FileKind::File)).map(drop))?;
    Ok(FILES)
}

fn look_up(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    (0..FILES).try_for_each(|n| fs.lookup(files.folder, &name(n)).map(drop))?;
    Ok(FILES)
}

/// For each small file; the lookup is counted with it.
fn each(
    fs: &mut dyn FileSystem,
    files: &Files,
    mut work: impl FnMut(&mut dyn FileSystem, FileId) -> Outcome<()>,
) -> Outcome<u32> {
    for number in 0..FILES {
        let file = fs.lookup(files.folder, &name(number))?;
        work(fs, file)?;
    }
    Ok(FILES)
}

fn metadata(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    each(fs, files, |fs, file| fs.metadata(file).map(drop))
}

fn change_mode(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    let change = MetadataChange { permissions: Some(0o600), ..MetadataChange::default() };
    each(fs, files, |fs, file| Attributes::change_metadata(fs, file, &change))
}

fn write_small(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    each(fs, files, |fs, file| fs.write(file, 0, &[7; UNIT_BYTES]))
}

fn sync_small(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    each(fs, files, |fs, file| fs.sync(file))
}

fn rename(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    for number in 0..FILES {
        let (from, to) = (name(number), name(FILES + number));
        fs.rename_in(files.folder, &from, files.folder, &to, RenameMode::Replace, NOW)?;
    }
    Ok(FILES)
}

fn remove(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    (FILES..2 * FILES).try_for_each(|number| fs.unlink(files.folder, &name(number), NOW))?;
    Ok(FILES)
}

fn sync_folder(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    for number in 0..200 {
        fs.create_in(files.folder, &name(number), &new(FileKind::File))?;
        fs.sync_folder(files.folder)?;
    }
    for number in 0..200 {
        fs.unlink(files.folder, &name(number), NOW)?;
    }
    Ok(200)
}

fn write_cached(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    let at_once = UNITS / 8;
    for unit in 0..at_once {
        fs.write(files.large, unit * UNIT_BYTES as u64, &[8; UNIT_BYTES])?;
    }
    Ok(at_once as u32)
}

fn write_random(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    for unit in shuffled(UNITS) {
        fs.write_direct(files.large, unit * UNIT_BYTES as u64, &[9; UNIT_BYTES], None)?;
    }
    Ok(UNITS as u32)
}

fn write_synced(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    for unit in shuffled(UNITS).take(2000) {
        fs.write_direct(files.large, unit * UNIT_BYTES as u64, &[10; UNIT_BYTES], None)?;
        fs.sync_data(files.large)?;
    }
    Ok(2000)
}

fn write_large(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    let data = vec![11; AT_ONCE * UNIT_BYTES];
    let count = UNITS / AT_ONCE as u64;
    for piece in 0..count {
        fs.write_direct(files.large, piece * data.len() as u64, &data, None)?;
    }
    Ok(count as u32)
}

fn read_random(fs: &mut dyn FileSystem, files: &Files) -> Outcome<u32> {
    let mut data = [0; UNIT_BYTES];
    for unit in shuffled(UNITS) {
        fs.read(files.large, unit * UNIT_BYTES as u64, &mut data, None)?;
    }
    Ok(UNITS as u32)
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().expect("Linux has this clock").into()
}

/// A new file system with a folder and a large file.
fn prepare(mut fs: Box<dyn FileSystem>) -> Outcome<(Box<dyn FileSystem>, Files)> {
    let folder = fs.create_in(FileId::ROOT, b"folder", &new(FileKind::Folder))?;
    let large = fs.create_in(FileId::ROOT, b"large", &new(FileKind::File))?;
    let files = Files { folder, large };
    write_large(&mut *fs, &files)?;
    fs.sync_folder(FileId::ROOT)?;
    Ok((fs, files))
}

fn drive() -> Drive {
    let mut profile = Profile::load("tlc-nvme").expect("it is built in");
    profile.capacity_bytes = 512 << 20;
    Drive::new(Device::in_memory(&profile).expect("the profile is valid"))
}

fn main() {
    let log = |kind| -> Box<dyn FileSystem> {
        let made = LogFs::format(drive().client(), kind, Cleaning::Copy, CACHE_BYTES);
        Box::new(made.expect("the drive is large enough"))
    };
    let volume = Volume::format(drive().client(), CACHE_BYTES).expect("the drive is large enough");
    let made: [Box<dyn FileSystem>; 3] = [Box::new(volume), log(LfsKind::Nat), log(LfsKind::Tree)];
    let mut systems = made.map(|fs| prepare(fs).expect("an empty file system has space"));
    let mut best = [[f64::MAX; OPERATIONS.len()]; 3];
    for _ in 0..ROUNDS {
        for ((fs, files), best) in systems.iter_mut().zip(&mut best) {
            for ((_, work), best) in OPERATIONS.iter().zip(best) {
                let begun = processor_time();
                let count = work(&mut **fs, files).expect("the work is possible");
                let each_ns = (processor_time() - begun).as_nanos() as f64 / f64::from(count);
                *best = best.min(each_ns);
            }
            fs.write_back().expect("there is space");
        }
    }
    println!("{:<36} {:>9} {:>9} {:>9} {:>6} {:>6}", "ns", "volume", "lfs-nat", "lfs-tree", "nat", "tree");
    for (index, (name, _)) in OPERATIONS.iter().enumerate() {
        let [volume, nat, tree] = best.map(|of| of[index]);
        let (by_nat, by_tree) = (nat / volume, tree / volume);
        println!("{name:<36} {volume:>9.0} {nat:>9.0} {tree:>9.0} {by_nat:>6.2} {by_tree:>6.2}");
    }
}
