//! A mount with `--write-back`: the kernel gathers writes in its cache, and the file system learns of them later.

use std::fs::{self, File, FileTimes};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::libc;
use nix::unistd::{Whence, lseek};

use super::context::{Context, Done, Outcome};
use super::copies::commit_pages;
use super::cuts::{Page, cut_with, killed_with};
use super::errors::{fill_to_the_end, hold};
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;
use super::stopped::wait_for_line;
use super::suites;

const OPTIONS: [&str; 3] = ["--time", "none", "--write-back"];

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let of = |name: &str| -> Result<PathBuf, Failure> {
        let folder = folder.join(name);
        fs::create_dir(&folder)?;
        Ok(folder)
    };
    files_are_as_they_were(context, &of("files")?)?;
    direct_and_gathered_writes_mix(context, &of("direct")?)?;
    ended_under_an_open_file(context, &of("ended")?)?;
    full(context, &of("full")?)?;
    killed_with(context, &of("killed")?, &OPTIONS)?;
    cut_with(context, &of("cut")?, "tlc-nvme", &OPTIONS)?;
    let summary = suites::all_with(context, &of("suites")?, &OPTIONS)?;
    Ok(Done::Said(summary))
}

/// Contents, times and sizes that only the kernel knows at first are on the drive after an unmount; holes are not found
/// where the kernel has data; and ranges cannot be committed around the kernel.
fn files_are_as_they_were(context: &Context, folder: &Path) -> Result<(), Failure> {
    let program = commit_pages(context, folder)?;
    let mut mounted = Mounted::create(context, folder, "64M", &OPTIONS)?;
    let path = mounted.path("file");
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    for number in 0..1000_u64 {
        file.write_all_at(&[number as u8; 100], 100 * number)?;
    }
    file.write_all_at(b"end", 1 << 20)?;
    let data = lseek(file.as_fd(), 0, Whence::SeekData).map_err(io::Error::from)?;
    ensure(data == 0, || format!("data that were just written begin at {data}"))?;
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_times(FileTimes::new().set_modified(past))?;
    drop(file);
    let seen = fs::metadata(&path)?;
    mounted.remount(&OPTIONS)?;
    let (kept, content) = (fs::metadata(&path)?, fs::read(&path)?);
    let is_right = (0..100_000).all(|at| content[at] == (at / 100) as u8) && content.ends_with(b"end");
    ensure(is_right && content.len() == (1 << 20) + 3, || "contents are lost".to_owned())?;
    ensure(kept.modified()? == past, || format!("the time of the last write is {:?}", kept.modified()))?;
    let changed = |metadata: &fs::Metadata| (metadata.ctime(), metadata.ctime_nsec());
    ensure(changed(&kept) == changed(&seen), || {
        format!("the time of the last change was {:?}, and is {:?}", changed(&seen), changed(&kept))
    })?;
    let output = Shell::new(&program).args([mounted.path("database"), mounted.path("scratch")]).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure(said == "TANTALUM_TOKEN: Operation not supported\n", || format!("a commit said {said:?}"))?;
    mounted.unmount()
}

/// The log says that what a program wrote and did not sync may be lost if the mount is ended while its file is open.
fn ended_under_an_open_file(context: &Context, folder: &Path) -> Result<(), Failure> {
    let mut mounted = Mounted::create(context, folder, "64M", &OPTIONS)?;
    let file = File::create(mounted.path("file"))?;
    file.write_all_at(b"synced", 0)?;
    file.sync_all()?;
    file.write_all_at(b"only written", 0)?;
    Shell::new("kill").args([&mounted.process]).run()?;
    mounted.is_unmounted();
    wait_for_line(&mounted, "unmounted although programs had files open: everything is durable except")?;
    drop(file);
    mounted.mount(&OPTIONS)?;
    let found = fs::read(mounted.path("file"))?;
    ensure([&b"synced"[..], b"only written"].contains(&&found[..]), || {
        format!("the file has {:?}", String::from_utf8_lossy(&found))
    })?;
    mounted.unmount()
}

/// Who bypasses the kernel's cache sees what others wrote through it, and the other way round.
fn direct_and_gathered_writes_mix(context: &Context, folder: &Path) -> Result<(), Failure> {
    let mut mounted = Mounted::create(context, folder, "64M", &OPTIONS)?;
    let path = mounted.path("file");
    let gathered = File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
    let direct = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path)?;
    let mut page = Box::new(Page([0; 4096]));
    for round in 1..=200_u8 {
        gathered.write_all_at(&[round; 4096], 0)?;
        direct.read_exact_at(&mut page.0, 0)?;
        ensure(page.0 == [round; 4096], || format!("round {round}: a direct read has {}", page.0[0]))?;
        // beside dirty bytes of the same page, and of the next
        gathered.write_all_at(&[round; 100], 8000)?;
        page.0.fill(round ^ 0xff);
        direct.write_all_at(&page.0, 0)?;
        let mut seen = [0; 8100];
        gathered.read_exact_at(&mut seen, 0)?;
        let is_right = seen[..4096] == page.0 && seen[8000..] == [round; 100];
        ensure(is_right, || format!("round {round}: a read has {}, {}", seen[0], seen[8000]))?;
    }
    drop((gathered, direct));
    mounted.remount(&OPTIONS)?;
    let content = fs::read(&path)?;
    ensure(content[..4096] == [200 ^ 0xff; 4096] && content[8000..] == [200; 100], || {
        format!("{} bytes were kept, the first {}", content.len(), content[0])
    })?;
    mounted.unmount()
}

/// A full volume is noticed when a file is synced at the latest, and what was synced before stays.
fn full(context: &Context, folder: &Path) -> Result<(), Failure> {
    let mut mounted = Mounted::create(context, folder, "64M", &OPTIONS)?;
    let content = vec![7; 1 << 20];
    let synced = fill_to_the_end(&mounted, &content)?;
    mounted.remount(&OPTIONS)?;
    hold(&synced, &content)?;
    mounted.unmount()
}
