//! A drive that stopped, and a volume that cannot be closed: whoever mounted it learns of it.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::context::{Context, Done, Outcome};
use super::errors::{Disk, fill};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;
use nix::libc::EIO;

/// How long a short operation may take.
const MOST_WAIT: Duration = Duration::from_secs(20);

/// What the log holds beforehand: enough that a message written when the disk is full needs a page that is not
/// allocated yet.
const BEFORE: usize = 4096 - 150;

const AT_ONCE: &[&str] = &["--time", "none"];

pub fn run(context: &Context, folder: &Path) -> Outcome {
    without_power(context, folder)?;
    for by_hand in [false, true] {
        on_a_full_disk(context, &folder.join(format!("disk-{by_hand}")), by_hand)?;
    }
    Ok(Done::Passed)
}

/// Unmounted by `tantalum unmount`, or by a user with `umount`, who learns of it from the log.
fn on_a_full_disk(context: &Context, folder: &Path, by_hand: bool) -> Result<(), Failure> {
    fs::create_dir(folder)?;
    let disk = Disk(folder.to_owned());
    disk.mount("size=24M")?;
    fs::write(folder.join("drive.tant.log"), vec![b'\n'; BEFORE])?;
    let mut mounted = Mounted::create(context, folder, "256M", AT_ONCE)?;
    ensure(mounted.stat()?["stopped"].is_null(), || "a drive that works says it stopped".to_owned())?;
    let (_, error) = fill(&mounted, &vec![7; 1 << 20]);
    ensure(error.raw_os_error() == Some(EIO), || format!("a full disk says: {error}"))?;
    let statistics = mounted.stat()?;
    let why = statistics["stopped"].as_str().unwrap_or_default().to_owned();
    ensure(why.contains("No space left on device"), || format!("stat says stopped: {why:?}"))?;
    let text = Shell::new(&context.tantalum).args(["stat"]).args([&mounted.folder]).run()?;
    ensure(text.contains(&format!("stopped: {why}")), || format!("stat shows no {why:?}: {text}"))?;
    wait_for_line(&mounted, &format!("the drive stopped: {why}"))?;
    if by_hand {
        Shell::new("umount").args([&mounted.folder]).run()?;
        mounted.is_unmounted();
    } else {
        let said = mounted.unmount_badly()?;
        ensure(said.contains(&why) && said.contains("drive.tant.log"), || format!("unmount said {said:?}"))?;
    }
    wait_for_line(&mounted, &format!("unmounted: the volume could not be closed: {why}"))?;
    disk.mount("remount,size=128M")?;
    wait_until("the image is closed", || Ok(mounted.mount(AT_ONCE).is_ok()))?;
    fs::write(mounted.path("again"), "there is room")?;
    mounted.unmount()?;
    wait_for_line(&mounted, "unmounted: everything is durable")
}

fn without_power(context: &Context, folder: &Path) -> Result<(), Failure> {
    let mut mounted = Mounted::create(context, folder, "64M", AT_ONCE)?;
    fs::write(mounted.path("file"), "not synced")?;
    mounted.cut(&["--seed", "1"])?;
    let statistics = mounted.stat()?;
    let is_told = statistics["stopped"] == "the drive has no power" && statistics["has_power"] == false;
    ensure(is_told, || format!("stat says stopped: {}", statistics["stopped"]))?;
    wait_for_line(&mounted, "the drive stopped: the drive has no power")?;
    let output = Shell::new(&context.tantalum).args(["unmount"]).args([&mounted.folder]).output()?;
    mounted.is_unmounted();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    // A requested power cut is not a failure: the user wants to see what recovery makes of it.
    ensure(output.status.success() && said.contains("the drive had lost power"), || {
        format!("unmount ended with {} and said {said:?}", output.status)
    })?;
    wait_for_line(&mounted, "unmounted: the drive had lost power")?;
    mounted.mount(AT_ONCE)?;
    mounted.unmount()
}

pub fn foreground(context: &Context, folder: &Path) -> Outcome {
    let (image, on) = (folder.join("drive.tant"), folder.join("mnt"));
    fs::create_dir(&on)?;
    let mut well = start(context, &image, &on)?;
    fs::write(on.join("file"), "small")?;
    Shell::new(&context.tantalum).args(["unmount"]).args([&on]).run()?;
    let status = wait_for_end(&mut well)?;
    ensure(status.success(), || format!("a mount that ended well ended with {status}"))?;
    let has_log = folder.join("drive.tant.log").exists();
    ensure(!has_log, || "a mount in the foreground has a log, which it needs not".to_owned())?;
    let disk = Disk(folder.join("disk"));
    fs::create_dir(&disk.0)?;
    disk.mount("size=24M")?;
    let mut badly = start(context, &disk.0.join("drive.tant"), &on)?;
    let filled = (0..64).any(|number| {
        let written = fs::File::create(on.join(format!("file{number}")))
            .and_then(|mut file| std::io::Write::write_all(&mut file, &[7; 1 << 20]).and(file.sync_all()));
        written.is_err()
    });
    ensure(filled, || "64 MiB fit on a disk of 24 MiB".to_owned())?;
    Shell::new("umount").args([&on]).run()?;
    let status = wait_for_end(&mut badly)?;
    ensure(status.code() == Some(2), || format!("a mount that could not be closed ended with {status}"))?;
    Ok(Done::Passed)
}

/// Mounts in the foreground and waits until the mount is up.
fn start(context: &Context, image: &Path, folder: &Path) -> Result<Child, Failure> {
    let child = Command::new(&context.tantalum)
        .arg("mount")
        .args([image, folder])
        .args(["--create", "--capacity", "256M", "--time", "none"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    wait_until("the volume is mounted", || {
        Ok(fs::read_to_string("/proc/self/mounts")?.contains(&*folder.to_string_lossy()))
    })?;
    Ok(child)
}

fn wait_for_end(child: &mut Child) -> Result<ExitStatus, Failure> {
    wait_until("the mount has ended", || Ok(child.try_wait()?.is_some()))?;
    Ok(child.wait()?)
}

/// Waits until the log of a mount has a line with this message.
pub fn wait_for_line(mounted: &Mounted<'_>, end: &str) -> Result<(), Failure> {
    let has_line = || Ok(mounted.log()?.lines().any(|line| line.contains(&format!("] {end}"))));
    wait_until(&format!("the log has the line {end:?}"), has_line)
        .map_err(|failure| Failure::Wrong(format!("{failure}: {}", mounted.log().unwrap_or_default())))
}

fn wait_until(what: &str, mut holds: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let started = Instant::now();
    while !holds()? {
        ensure(started.elapsed() < MOST_WAIT, || format!("it is not so after {MOST_WAIT:?}: {what}"))?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}
