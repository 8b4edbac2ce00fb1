//! Other file systems on the drive, through a loop device on a file of the mount.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::image_on;
use super::mounted::Mounted;
use super::shell::Shell;

const DISK_BYTES: u64 = 512 << 20;

const UNIT_BYTES: usize = 4096;

/// What is written inside and removed: 100 MiB.
const RUBBISH_UNITS: u64 = 25_600;

/// What a file system may write elsewhere meanwhile: its log and its own trees.
const TOLERATED_UNITS: u64 = RUBBISH_UNITS / 20;

/// How long a file system may take to free removed files.
const DISCARD_LIMIT: Duration = Duration::from_secs(30);

/// A loop device, detached however the step ends.
struct Loop {
    device: PathBuf,
    folder: PathBuf,
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Shell::new("umount").args(["--quiet"]).args([&self.folder]).output();
        let _ = Shell::new("losetup").args(["--detach"]).args([&self.device]).output();
    }
}

pub fn run(context: &Context, folder: &Path) -> Outcome {
    if !Path::new("/dev/loop-control").exists() {
        return Ok(Done::LeftOut("there is no /dev/loop-control".to_owned()));
    }
    let known = fs::read_to_string("/proc/filesystems")?;
    let mut without = Vec::new();
    for (kind, format) in
        [("ext4", &["-q", "-F"][..]), ("xfs", &["-q", "-f"][..]), ("btrfs", &["-q", "-f"][..])]
    {
        let folder = folder.join(kind);
        fs::create_dir(&folder)?;
        let loads = Shell::new("modprobe").args(["-q", kind]).output().is_ok_and(|o| o.status.success());
        if !loads && !known.split_whitespace().any(|word| word == kind) {
            without.push(kind);
            continue;
        }
        file_system(context, &folder, kind, format)
            .map_err(|failure| Failure::Wrong(format!("{kind}: {failure}")))?;
    }
    if without.len() == 3 {
        return Ok(Done::LeftOut("this kernel has none of ext4, xfs, btrfs".to_owned()));
    }
    Ok(match without.is_empty() {
        true => Done::Passed,
        false => Done::Said(format!("               without {}: not in this kernel", without.join(", "))),
    })
}

fn file_system(context: &Context, folder: &Path, kind: &str, format: &[&str]) -> Result<(), Failure> {
    let mut mounted = Mounted::create(context, folder, "1GiB", &["--time", "none"])?;
    let disk = mounted.path("disk");
    fs::File::create(&disk)?.set_len(DISK_BYTES)?;
    let inner = folder.join("inner");
    fs::create_dir(&inner)?;
    let attached = attach(&disk, &inner)?;
    Shell::new(format!("mkfs.{kind}")).args(format).args([&attached.device]).run()?;
    Shell::new("mount").args(["-t", kind]).args([&attached.device, &inner]).run()?;
    let content: Vec<u8> =
        (0..16u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(inner.join("file"), &content)?;
    let rubbish = inner.join("rubbish");
    fs::write(&rubbish, vec![1; RUBBISH_UNITS as usize * UNIT_BYTES])?;
    let flushes_before = counter(&mounted, "smart", "flushes")?;
    fs::File::open(&rubbish)?.sync_all()?;
    let flushes = counter(&mounted, "smart", "flushes")?;
    ensure(flushes > flushes_before, || "a sync inside did not flush the drive".to_owned())?;
    discard(&mounted, &inner, &rubbish)?;
    image_on::round_trip(context, &inner.join("drive"))?;
    drop(attached);
    mounted.remount(&["--time", "none"])?;
    let attached = attach(&disk, &inner)?;
    Shell::new("mount").args(["-t", kind]).args([&attached.device, &inner]).run()?;
    ensure(fs::read(inner.join("file"))? == content, || "a file is not what was written".to_owned())?;
    drop(attached);
    mounted.unmount()
}

/// Removing a file inside, and trimming, returns its units to the volume. A file system may do part of both in the
/// background, and trims nothing whose removal is not in its log yet, so the step retries for a while.
fn discard(mounted: &Mounted<'_>, inner: &Path, rubbish: &Path) -> Result<(), Failure> {
    Shell::new("sync").args(["--file-system"]).args([inner]).run()?;
    let before = counter(mounted, "volume", "free_units")?;
    fs::remove_file(rubbish)?;
    let limit = Instant::now() + DISCARD_LIMIT;
    loop {
        Shell::new("sync").args(["--file-system"]).args([inner]).run()?;
        Shell::new("fstrim").args([inner]).run()?;
        // The volume trims with the next flush.
        Shell::new("sync").args(["--file-system"]).args([inner]).run()?;
        let after = counter(mounted, "volume", "free_units")?;
        if after >= before + RUBBISH_UNITS - TOLERATED_UNITS {
            return Ok(());
        }
        ensure(Instant::now() < limit, || {
            format!(
                "{RUBBISH_UNITS} units were removed and trimmed, and free units went from {before} to {after}: \
                 discards did not arrive"
            )
        })?;
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn attach(disk: &Path, folder: &Path) -> Result<Loop, Failure> {
    let arguments = ["--find", "--show", "--direct-io=on"];
    let device = Shell::new("losetup").args(arguments).args([disk]).run()?;
    Ok(Loop { device: device.trim().into(), folder: folder.to_path_buf() })
}

fn counter(mounted: &Mounted<'_>, part: &str, name: &str) -> Result<u64, Failure> {
    let statistics = mounted.stat()?;
    let value = statistics[part][name].as_u64();
    value.ok_or_else(|| Failure::Wrong(format!("no {name} in {statistics}")))
}
