//! The process is killed, or the drive loses power, while a program writes and syncs.
//!
//! The program writes records of a known pattern into a few files with O_DIRECT and without, syncs, and notes what was
//! acknowledged. After the next mount every synced record must be there, and every other one must be old or new.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use nix::libc::{EIO, ENOTCONN, O_DIRECT};

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

const ROUNDS: u64 = 8;
const FILES: u64 = 4;
const RECORDS: u64 = 200;
const RECORD: usize = 4096;

/// What a file holds, as far as its program knows.
struct Records {
    /// The number of each record that a sync has acknowledged.
    synced: Vec<u64>,
    /// The number it was last written with.
    written: Vec<u64>,
}

/// `O_DIRECT` wants aligned memory.
#[repr(align(4096))]
pub struct Page(pub [u8; RECORD]);

fn page(file: u64, record: u64, number: u64) -> Page {
    let mut page = Page([0; RECORD]);
    for (index, chunk) in page.0.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *chunk = (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ file << 40 ^ record << 16 ^ index as u64)
            .to_le_bytes();
    }
    page
}

/// SplitMix64.
fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The program: it runs until a request fails.
fn work(folder: &Path, round: u64, files: &mut [Records]) -> Result<io::Error, Failure> {
    let open = |index: u64| {
        let mut options = File::options();
        options.read(true).write(true).create(true);
        if index.is_multiple_of(2) {
            options.custom_flags(O_DIRECT);
        }
        options.open(folder.join(format!("file{index}")))
    };
    let handles: Vec<File> = (0..FILES).map(open).collect::<io::Result<_>>()?;
    for step in 1u64.. {
        let drawn = mixed(round << 32 | step);
        let (index, record) = (drawn % FILES, drawn >> 8 & 0xffff);
        let (records, handle) = (&mut files[index as usize], &handles[index as usize]);
        let result = if drawn >> 32 & 7 == 0 {
            if drawn >> 36 & 1 == 0 { handle.sync_data() } else { handle.sync_all() }
                .map(|()| records.synced.clone_from(&records.written))
        } else {
            let (record, number) = (record % RECORDS, round << 32 | step);
            // A request may take effect even if its answer is an error.
            records.written[record as usize] = number;
            handle.write_all_at(&page(index, record, number).0, record * RECORD as u64)
        };
        if let Err(error) = result {
            return Ok(error);
        }
    }
    unreachable!("the power goes at some point")
}

/// Every record is one that was written to its place, and not older than its last sync.
fn verify(folder: &Path, files: &mut [Records]) -> Result<(), Failure> {
    for (index, records) in files.iter_mut().enumerate() {
        let path = folder.join(format!("file{index}"));
        let content = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            content => content?,
        };
        for record in 0..RECORDS as usize {
            let found = content.get(record * RECORD..(record + 1) * RECORD).unwrap_or(&[0; RECORD]);
            let (synced, written) = (records.synced[record], records.written[record]);
            let is = |number| match number {
                0 => found.iter().all(|&byte| byte == 0),
                number => found == page(index as u64, record as u64, number).0,
            };
            // Other writes may lie between the two, which the program does not remember; their numbers are of the same
            // round.
            let number = found_number(found, index as u64, record as u64);
            let is_between = synced < number && number < written;
            ensure(is(synced) || is(written) || (is_between && is(number)), || {
                format!("{} record {record}: neither {synced:#x}, {written:#x} nor between", path.display())
            })?;
            records.synced[record] = if is(synced) { synced } else { number };
            records.written[record] = records.synced[record];
        }
    }
    Ok(())
}

/// The number that a record was made from, computed back from its first word.
fn found_number(found: &[u8], file: u64, record: u64) -> u64 {
    let word = u64::from_le_bytes(found[..8].try_into().expect("a record has words"));
    // The inverse of the odd factor, by Newton's method.
    let factor = 0x9E37_79B9_7F4A_7C15u64;
    let inverse = (0..6)
        .fold(factor, |inverse, _| inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse))));
    (word ^ file << 40 ^ record << 16).wrapping_mul(inverse)
}

fn no_records() -> Vec<Records> {
    let none = || vec![0; RECORDS as usize];
    (0..FILES).map(|_| Records { synced: none(), written: none() }).collect()
}

/// The check itself must be able to recover a record's number.
fn check_the_check() -> Result<(), Failure> {
    let number = 5 << 32 | 77;
    ensure(found_number(&page(3, 9, number).0, 3, 9) == number, || {
        "a record's number is not found".to_owned()
    })
}

pub fn killed(context: &Context, folder: &Path) -> Outcome {
    check_the_check()?;
    killed_with(context, folder, &["--time", "none"])?;
    Ok(Done::Passed)
}

/// With these options of the mount.
pub fn killed_with(context: &Context, folder: &Path, options: &[&str]) -> Result<(), Failure> {
    let mut mounted = Mounted::create(context, folder, "256M", options)?;
    let mut files = no_records();
    for round in 1..=ROUNDS {
        let process = process_of(&mounted)?;
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200 + mixed(round) % 300));
            Shell::new("kill").args(["-9", &process]).run()
        });
        let error = work(&mounted.folder, round, &mut files)?;
        killer.join().expect("the killer does not panic")?;
        let is_gone = matches!(error.raw_os_error(), Some(ENOTCONN | EIO)) || is_aborted(&error);
        ensure(is_gone, || format!("after the process was killed: {error}"))?;
        // Mounting again cleans up what is left of the last mount.
        mounted.mount(options)?;
        verify(&mounted.folder, &mut files)?;
    }
    mounted.unmount()
}

fn is_aborted(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionAborted
}

/// The process that has the volume mounted: the one that holds the image open.
fn process_of(mounted: &Mounted<'_>) -> Result<String, Failure> {
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let Ok(command) = fs::read(entry.path().join("cmdline")) else { continue };
        let command = String::from_utf8_lossy(&command).into_owned();
        if command.contains("--detached") && command.contains(&*mounted.image.to_string_lossy()) {
            return Ok(name);
        }
    }
    Err(Failure::Wrong(format!("no process has {} mounted", mounted.image.display())))
}

pub fn cut(context: &Context, folder: &Path) -> Outcome {
    check_the_check()?;
    for (profile, time) in [("tlc-nvme", "none"), ("tlc-nvme-plp", "none"), ("tlc-nvme", "real")] {
        let folder = folder.join(format!("{profile}-{time}"));
        fs::create_dir(&folder)?;
        cut_with(context, &folder, profile, &["--time", time])?;
    }
    Ok(Done::Passed)
}

/// With these options of the mount.
pub fn cut_with(context: &Context, folder: &Path, profile: &str, options: &[&str]) -> Result<(), Failure> {
    let created = [options, &["--profile", profile]].concat();
    let mut mounted = Mounted::create(context, folder, "512M", &created)?;
    let mut files = no_records();
    for round in 1..=ROUNDS {
        cut_once(&mut mounted, options, round, &mut files).map_err(|failure| {
            Failure::Wrong(format!("drive {profile}, {options:?}, round {round}: {failure}"))
        })?;
    }
    mounted.unmount()
}

fn cut_once(
    mounted: &mut Mounted<'_>,
    options: &[&str],
    round: u64,
    files: &mut [Records],
) -> Result<(), Failure> {
    let seed = round.to_string();
    let at_once = round.is_multiple_of(2);
    if !at_once {
        let operations = (1 + mixed(round) % 400).to_string();
        mounted.cut(&["--after-flash-ops", &operations, "--seed", &seed])?;
    }
    let error = std::thread::scope(|scope| {
        let cutter = scope.spawn(|| {
            if at_once {
                std::thread::sleep(Duration::from_millis(100 + mixed(round) % 300));
                mounted.cut(&["--seed", &seed])?;
            }
            Ok::<(), Failure>(())
        });
        let error = work(&mounted.folder, round, files);
        cutter.join().expect("the cutter does not panic").and(error)
    })?;
    ensure(error.raw_os_error() == Some(EIO), || format!("without power: {error}"))?;
    let statistics = mounted.stat()?;
    ensure(statistics["has_power"] == false, || "stat says that there is power".to_owned())?;
    mounted.remount(options)?;
    verify(&mounted.folder, files)
}
