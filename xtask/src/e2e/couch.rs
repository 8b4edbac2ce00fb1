//! A document store in a folder of the mount shares its updates by ioctl. While the disk below the image is full, the volume is
//! mounted read-only, and the documents can be read; also by way of a mount below which the disk fails.

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
    let shown = folder.join("shown");
    std::fs::create_dir(&shown)?;
    let mut failing = FailingFolder::show(folder, &shown)?;
    mounted.image = shown.join("drive.tant");
    read_without_room(&program, &mut mounted, &mut failing)?;
    read_after_failure(&program, &mut mounted, &mut failing)?;
    Ok(Done::Said(format!("               {DOCUMENTS} shared updates wrote {units} units")))
}

/// Reads what round 2 left, while others read it, but not while it might be changed by way of another mount.
fn read_without_room(
    program: &Path,
    mounted: &mut Mounted<'_>,
    failing: &mut FailingFolder,
) -> Result<(), Failure> {
    failing.fail(0, "enospc on")?;
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
    mounted.unmount()?;
    failing.heal().map(drop)
}

/// The disk fails in the middle of round 3. Until the volume is mounted again, what round 2 left is read. A folder of documents
/// could not be opened on such a mount.
fn read_after_failure(
    program: &Path,
    mounted: &mut Mounted<'_>,
    failing: &mut FailingFolder,
) -> Result<(), Failure> {
    mounted.mount(&["--time", "none"])?;
    failing.fail(0, "enospc on")?;
    let on = mounted.folder.clone();
    let round = || Shell::new(program).args([on.as_os_str(), OsStr::new("3")]).output();
    let output = round()?;
    ensure(!output.status.success(), || format!("round 3 on a disk that fails: {output:?}"))?;
    failing.heal()?;
    let output = round()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let is_read = said.starts_with("2000 documents; ") && said.contains("takes no changes");
    ensure(is_read && output.status.success(), || format!("the documents were not read: {output:?}"))?;
    mounted.unmount_badly()?;
    mounted.mount(&["--time", "none"])?;
    let output = round()?;
    ensure(output.status.success(), || format!("round 3 on a disk that is well: {output:?}"))?;
    mounted.unmount()
}

fn written(mounted: &Mounted<'_>) -> Result<u64, Failure> {
    let statistics = mounted.stat()?;
    let units = statistics["smart"]["host_units_written"].as_u64();
    units.ok_or_else(|| Failure::Wrong(format!("no host_units_written in {statistics}")))
}
