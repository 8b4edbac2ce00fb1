//! A document store in a folder of the mount shares its updates by ioctl. While the disk below the image is full, the volume is
//! mounted read-only, and the documents can be read.

use std::ffi::OsStr;
use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failing_disk::FailingFolder;
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

/// Documents of the example `updates`.
const DOCUMENTS: u64 = 2000;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let program = context.target.join("release/examples/updates");
    let mut mounted = Mounted::create(context, folder, "256M", &["--time", "none"])?;
    let round = |mounted: &Mounted<'_>, number: &str| {
        Shell::new(&program).args([mounted.folder.as_os_str(), OsStr::new(number)]).run()
    };
    let said = round(&mounted, "0")?;
    ensure(said == "2000 documents, 2000 changed, 0 shared, 2000 appended\n", || said.clone())?;
    let before = written(&mounted)?;
    let said = round(&mounted, "1")?;
    ensure(said == "2000 documents, 2000 changed, 2000 shared, 0 appended\n", || said.clone())?;
    let units = written(&mounted)? - before;
    ensure(units < DOCUMENTS * 11 / 10, || format!("{DOCUMENTS} updates wrote {units} units"))?;
    mounted.remount(&["--time", "none"])?;
    round(&mounted, "2")?;
    mounted.unmount()?;
    read_without_room(folder, &program, &mut mounted)?;
    Ok(Done::Said(format!("               {DOCUMENTS} shared updates wrote {units} units")))
}

/// Reads what round 2 left, while others read it, but not while it might be changed by way of another mount.
fn read_without_room(folder: &Path, program: &Path, mounted: &mut Mounted<'_>) -> Result<(), Failure> {
    let shown = folder.join("shown");
    std::fs::create_dir(&shown)?;
    let mut failing = FailingFolder::show(folder, &shown)?;
    failing.fail(0, "enospc on")?;
    mounted.image = shown.join("drive.tant");
    mounted.mount(&["--time", "none"])?;
    let lock = mounted.path(".couch-lock");
    let read = |how: &str| {
        let all = [lock.as_os_str(), program.as_os_str(), mounted.folder.as_os_str(), OsStr::new("3")];
        Shell::new("flock").args([how]).args(all).output()
    };
    let output = read("--shared")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let is_read = said.starts_with("2000 documents; ") && said.trim_end().ends_with("is mounted read-only");
    ensure(is_read && output.status.success(), || format!("the documents were not read: {output:?}"))?;
    let output = read("--exclusive")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure(said.contains("in use by process"), || format!("the folder is in use: {output:?}"))?;
    mounted.unmount()
}

fn written(mounted: &Mounted<'_>) -> Result<u64, Failure> {
    let statistics = mounted.stat()?;
    let units = statistics["smart"]["host_units_written"].as_u64();
    units.ok_or_else(|| Failure::Wrong(format!("no host_units_written in {statistics}")))
}
