//! A program is killed in a transaction of SQLite, and power is lost before another one rolls the transaction back.
//!
//! SQLite asks whether there is a rollback journal, and takes an error for a no. It then read half of the transaction from the
//! kernel's cache, and said that the database was malformed.
//!
//! A signal ends a mount while a program has files open. Their names were gone before writes to them failed.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

/// Mounts that are ended.
const ROUNDS: u32 = 12;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    for round in 0..ROUNDS {
        let folder = folder.join(round.to_string());
        fs::create_dir(&folder)?;
        names_go_last(context, &folder)?;
    }
    if let Err(failure) = Shell::new("python3").args(["-c", "import sqlite3"]).run() {
        return Ok(Done::LeftOut(format!("python3 with sqlite3 is missing: {failure}")));
    }
    for (file_system, time) in
        [("volume", "none"), ("volume", "real"), ("lfs-nat", "none"), ("lfs-tree", "none")]
    {
        let folder = folder.join(format!("{file_system}-{time}"));
        fs::create_dir(&folder)?;
        check(context, &folder, file_system, time)
            .map_err(|failure| Failure::Wrong(format!("{file_system}, --time {time}: {failure}")))?;
    }
    Ok(Done::Passed)
}

fn check(context: &Context, folder: &Path, file_system: &str, time: &str) -> Result<(), Failure> {
    let options = ["--time", time, "--file-system", file_system];
    let mut mounted = Mounted::create(context, folder, "256M", &options)?;
    let program = context.root.join("xtask/src/e2e/hot_journal.py");
    let said = Shell::new("python3").args([&program, &context.tantalum, &mounted.folder]).run()?;
    // rolling back needs the drive
    let is_told = ["unable to open database file", "disk I/O error"].iter().any(|error| said.contains(error));
    ensure(is_told, || format!("without power SQLite says {said:?}"))?;
    mounted.remount(&["--time", time])?;
    let found = Shell::new("python3").args([&program]).args(["--check"]).args([&mounted.folder]).run()?;
    ensure(found == "3000 600000\nok\n", || format!("after the cut there is {found:?}"))?;
    mounted.unmount()
}

/// A program that has its data open and finds no log any more would take them for whole: it must not be able to change them.
fn names_go_last(context: &Context, folder: &Path) -> Result<(), Failure> {
    let mounted = Mounted::create(context, folder, "64M", &["--time", "none"])?;
    let (data, log) = (mounted.path("data"), mounted.path("log"));
    fs::write(&data, [1; 4096])?;
    fs::write(&log, "log")?;
    let data = File::options().read(true).write(true).open(data)?;
    let program = thread::spawn(move || {
        while !fs::metadata(&log).is_err_and(|error| error.kind() == ErrorKind::NotFound) {}
        data.write_all_at(&[2; 4096], 0).is_ok()
    });
    Shell::new("kill").args([&mounted.process]).run()?;
    let is_written = program.join().expect("it does not panic");
    ensure(!is_written, || "the log's name was gone, and the data could still be written".to_owned())
}
