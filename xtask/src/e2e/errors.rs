//! Mistakes, a full volume, and a full host disk under a volume.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::geteuid;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

/// How long a file stays open while its volume is being unmounted.
const HELD: Duration = Duration::from_secs(2);

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let mut mounted = Mounted::create(context, folder, "64M", &["--time", "none"])?;
    fs::create_dir(folder.join("other"))?;
    fs::create_dir(folder.join("taken"))?;
    fs::write(folder.join("taken/file"), "")?;
    fs::write(folder.join("text"), "no drive")?;
    Shell::new(&context.tantalum).args(["create", "empty.tant", "--capacity", "64M"]).folder(folder).run()?;
    refuse_all(context, folder)?;
    no_right_to_mount(context, folder)?;
    let held = fs::File::create(mounted.path("held"))?;
    let holder = format!("(process {})", std::process::id());
    refused(context, folder, &["unmount", "mnt", "--wait", "0"], &holder)?;
    held.write_all_at(b"still there", 0)?;
    let closer = std::thread::spawn(move || {
        std::thread::sleep(HELD);
        drop(held);
    });
    let long = mounted.path(&"n".repeat(256));
    let error = fs::write(long, "").expect_err("a name of 256 bytes");
    ensure(error.raw_os_error() == Some(nix::errno::Errno::ENAMETOOLONG as i32), || error.to_string())?;
    ensure(!closer.is_finished(), || "this machine is too slow to have a file open meanwhile".to_owned())?;
    // Unmounting waits for the file to be closed.
    mounted.remount(&["--time", "none"])?;
    closer.join().expect("who closes a file does not panic");
    ensure(fs::read(mounted.path("held"))? == b"still there", || "a file is lost".to_owned())?;
    mounted.unmount()?;
    Ok(Done::Passed)
}

/// As in a container without the right to mount: every command that mounts says what to do, and leaves nothing.
fn no_right_to_mount(context: &Context, folder: &Path) -> Result<(), Failure> {
    let right: &[&str] = match geteuid().is_root() {
        true => &["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"],
        false => &["--no-new-privs"],
    };
    let commands: [&[&str]; 3] = [
        &["mount", "new.tant", "other", "--create", "--capacity", "64M"],
        &["crash", "run", "--check", "true", "--", "true"],
        &["measure", "--", "true"],
    ];
    for command in commands {
        let mut shell =
            Shell::new("setpriv").args(right).args([&context.tantalum]).args(command).folder(folder);
        let output = shell.output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure(output.status.code() == Some(2) && said.contains("--cap-add SYS_ADMIN"), || {
            format!("{command:?} ended with {} and said {said:?}", output.status)
        })?;
    }
    ensure(!folder.join("new.tant").exists(), || "a mount that failed left its new image".to_owned())
}

/// Each mistake ends the command with a message that says what is wrong.
fn refuse_all(context: &Context, folder: &Path) -> Result<(), Failure> {
    let refused = |arguments: &[&str], wanted: &str| refused(context, folder, arguments, wanted);
    refused(&["mount", "empty.tant", "mnt"], "already mounted on mnt")?;
    refused(&["mount", "drive.tant", "other"], "in use")?;
    refused(&["mount", "empty.tant", "taken"], "is not empty")?;
    refused(&["mount", "empty.tant", "text"], "is not a folder")?;
    refused(&["mount", "empty.tant", "nowhere"], "create the folder first")?;
    refused(&["mount", "empty.tant", "other"], "holds no volume; add --format")?;
    refused(&["mount", "empty.tant", "other", "--background"], "holds no volume; add --format")?;
    refused(&["mount", "text", "other"], "text")?;
    refused(&["mount", "missing.tant", "other"], "missing.tant")?;
    refused(&["mount", "empty.tant", "other", "--create"], "exist")?;
    refused(&["mount", "empty.tant", "other", "--time", "fast"], "\"real\" or \"none\"")?;
    refused(&["mount", "empty.tant", "other", "--capacity", "1G"], "--create")?;
    refused(&["mount", "empty.tant", "other", "--write-back", "--sync-writes"], "cannot be used with")?;
    refused(&["unmount", "other"], "no Tantalum volume is mounted on")?;
    refused(&["cut", "other"], "is neither a folder with a mounted volume nor an image that is served")?;
    refused(&["cut", "mnt", "--after-flash-ops", "0"], "0")?;
    refused(&["stat", "other"], "other")?;
    Ok(())
}

/// One line on standard error that contains `wanted`, and exit code 2.
fn refused(context: &Context, folder: &Path, arguments: &[&str], wanted: &str) -> Result<(), Failure> {
    let output = Shell::new(&context.tantalum).args(arguments).folder(folder).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_clear = said.starts_with("error: ") && said.contains(wanted) && !said.contains("panicked");
    ensure(output.status.code() == Some(2) && is_clear, || {
        format!("{arguments:?} ended with {} and said {said:?} instead of {wanted:?}", output.status)
    })
}

/// Writes and syncs files with the same content until one fails: the others, and why.
pub fn fill(mounted: &Mounted<'_>, content: &[u8]) -> (Vec<PathBuf>, std::io::Error) {
    let mut synced = Vec::new();
    loop {
        let path = mounted.path(&format!("file{}", synced.len()));
        let result = fs::File::create(&path).and_then(|file| {
            file.write_all_at(content, 0)?;
            file.sync_all()
        });
        match result {
            Ok(()) => synced.push(path),
            Err(error) => return (synced, error),
        }
    }
}

/// [`fill`]s a volume of 64 MiB: the files, once the volume has said that it is full.
pub fn fill_to_the_end(mounted: &Mounted<'_>, content: &[u8]) -> Result<Vec<PathBuf>, Failure> {
    let (synced, error) = fill(mounted, content);
    ensure(error.kind() == std::io::ErrorKind::StorageFull, || format!("a full volume says: {error}"))?;
    ensure(synced.len() > 40, || format!("only {} MiB fit on 64 MiB", synced.len()))?;
    Ok(synced)
}

pub fn hold(files: &[PathBuf], content: &[u8]) -> Result<(), Failure> {
    files.iter().try_for_each(|path| {
        ensure(fs::read(path)? == content, || format!("{} is not what was written", path.display()))
    })
}

pub fn full(context: &Context, folder: &Path) -> Outcome {
    let mut mounted = Mounted::create(context, folder, "64M", &["--time", "none"])?;
    let content = vec![7; 1 << 20];
    let written = fill_to_the_end(&mounted, &content)?;
    let names_fail = (0..100_000).any(|number| fs::create_dir(mounted.path(&format!("d{number}"))).is_err());
    mounted.remount(&["--time", "none"])?;
    hold(&written, &content)?;
    for path in &written {
        fs::remove_file(path)?;
    }
    fs::write(mounted.path("again"), &content)?;
    mounted.remount(&["--time", "none"])?;
    ensure(fs::read(mounted.path("again"))? == content, || "a file after the full is lost".to_owned())?;
    mounted.unmount()?;
    Ok(Done::Said(format!(
        "               {} MiB fit; folders beyond that {}",
        written.len(),
        if names_fail { "were refused in the end" } else { "fitted, 100,000 of them" }
    )))
}

/// A disk of the host, which is unmounted however the step ends.
pub struct Disk(pub PathBuf);

impl Disk {
    /// In memory; `remount` with another size makes it larger.
    pub fn mount(&self, options: &str) -> Result<(), Failure> {
        Shell::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).args([&self.0]).run().map(drop)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Shell::new("umount").args(["--lazy"]).args([&self.0]).output();
    }
}

/// While the disk is full the volume is mounted to be read, and the command that tells about an image opens it.
fn read_without_room(
    context: &Context,
    disk: &Disk,
    mounted: &mut Mounted<'_>,
    synced: &[PathBuf],
    content: &[u8],
) -> Result<(), Failure> {
    let mut filler = fs::File::create(disk.0.join("filler"))?;
    while std::io::Write::write_all(&mut filler, &[0; 4096]).is_ok() {}
    mounted.mount(&["--time", "none"])?;
    hold(synced, content)?;
    let error = fs::write(mounted.path("more"), content).expect_err("there is no room");
    let is_refused = error.raw_os_error() == Some(nix::errno::Errno::EROFS as i32);
    ensure(is_refused, || format!("a change of what can only be read says: {error}"))?;
    fs::File::open(&synced[0])?.sync_all()?;
    mounted.unmount()?;
    let log = mounted.log()?;
    ensure(log.contains("it can only be read"), || format!("the log says {log:?}"))?;
    let info = Shell::new(&context.tantalum).args(["info"]).args([&mounted.image]).output()?;
    let said = String::from_utf8_lossy(&info.stderr).into_owned();
    let is_warned = info.status.success() && said.contains("No space left") && said.lines().count() == 1;
    ensure(is_warned, || format!("info ended with {} and said {said:?}", info.status))?;
    Ok(fs::remove_file(disk.0.join("filler"))?)
}

/// Nothing can be created beside the image: no log, and no control socket, which is elsewhere and found there.
fn read_on_a_read_only_disk(
    disk: &Disk,
    mounted: &mut Mounted<'_>,
    synced: &[PathBuf],
    content: &[u8],
) -> Result<(), Failure> {
    disk.mount("remount,ro")?;
    mounted.mount(&["--time", "none"])?;
    hold(synced, content)?;
    mounted.stat()?;
    let error = fs::write(mounted.path("again"), content).expect_err("the disk is read-only");
    let is_refused = error.raw_os_error() == Some(nix::errno::Errno::EROFS as i32);
    ensure(is_refused, || format!("a change on a read-only disk says: {error}"))?;
    mounted.unmount()
}

pub fn full_disk(context: &Context, folder: &Path) -> Outcome {
    let disk = Disk(folder.join("disk"));
    fs::create_dir(&disk.0)?;
    disk.mount("size=64M")?;
    let mut mounted = Mounted::create(context, &disk.0, "1GiB", &["--time", "none"])?;
    let content = vec![7; 1 << 20];
    let (synced, error) = fill(&mounted, &content);
    let is_refused = error.raw_os_error() == Some(nix::errno::Errno::EIO as i32);
    ensure(is_refused, || format!("a write for which the disk has no room says: {error}"))?;
    ensure(synced.len() > 30, || format!("only {} MiB fit on a disk of 64 MiB", synced.len()))?;
    mounted.stat()?;
    let said = mounted.unmount_badly()?;
    ensure(said.contains("data that were not synced are lost"), || format!("unmount said {said:?}"))?;
    read_without_room(context, &disk, &mut mounted, &synced, &content)?;
    disk.mount("remount,size=256M")?;
    mounted.mount(&["--time", "none"])?;
    hold(&synced, &content)?;
    fs::write(mounted.path("more"), &content)?;
    mounted.unmount()?;
    read_on_a_read_only_disk(&disk, &mut mounted, &synced, &content)?;
    Ok(Done::Said(format!(
        "               {} MiB were synced, and are there once the disk has room",
        synced.len()
    )))
}
