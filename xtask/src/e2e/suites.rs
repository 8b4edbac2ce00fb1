//! Third-party test suites: fsx and pjdfstest from crates.io, and fio, which verifies what it wrote.

use std::fs;
use std::path::{Path, PathBuf};

use super::context::{Context, Done, Outcome};
use super::example::Example;
use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;

const FSX: (&str, &str) = ("fsx", "0.3.2");
const PJDFSTEST: (&str, &str) = ("pjdfstest", "0.2.2");

/// Random operations for each seed.
const FSX_OPERATIONS: &str = "10000";
const FSX_SEEDS: u32 = 4;

/// Everything that fsx can do, except holes.
const FSX_CONFIGURATION: &str = "
flen = 2000000
[opsize]
min = 1
max = 70000
[weights]
close_open = 1
invalidate = 1
mapread = 10
mapwrite = 10
read = 10
write = 10
truncate = 5
fsync = 1
fdatasync = 1
posix_fallocate = 3
sendfile = 2
posix_fadvise = 1
copy_file_range = 5
";

const FSX_HOLES: &str = "punch_hole = 5\n";

/// It would remount read-only through mount.fuse, which does not know this file system, so it must not;
/// docs/mounting.md gives the reasons for everything skipped.
const PJDFSTEST_CONFIGURATION: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}

[settings]
naptime = 0.02
allow_remount = false

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// More would mean a skipped test without a known reason.
const PJDFSTEST_SKIPPED: usize = 14;

/// Written once everywhere in random order, in blocks of many sizes, by jobs that sync now and then; the same each
/// time.
const FIO: &str = "--name=verify --rw=randwrite --bsrange=4k-64k --size=8m --numjobs=4 --ioengine=psync --verify=crc32c \
                   --verify_fatal=1 --fsync=16 --end_fsync=1 --group_reporting";

/// Builds fsx and pjdfstest, once, into the target folder; without optimizations, because they wait for the file system.
pub fn build(context: &Context) -> Result<(), Failure> {
    let root = context.tools();
    for (name, version) in [FSX, PJDFSTEST] {
        Shell::new("cargo")
            .args(["install", "--debug", "--quiet", "--locked", name, "--version", version, "--root"])
            .args([&root])
            .variable("CARGO_TARGET_DIR", root.join("target"))
            .with_output()
            .run()?;
    }
    Ok(())
}

fn program(context: &Context, (name, _): (&str, &str)) -> PathBuf {
    context.tools().join("bin").join(name)
}

pub fn fsx(context: &Context, folder: &Path) -> Outcome {
    let options = ["--time", "none"];
    let mut mounted = Mounted::create(context, folder, "256M", &options)?;
    let summary = run_fsx(context, folder, &mounted.folder, &[FSX_CONFIGURATION, FSX_HOLES].concat())?;
    run_fio(&mut mounted, &options)?;
    mounted.unmount()?;
    Ok(Done::Said(summary))
}

pub fn pjdfstest(context: &Context, folder: &Path) -> Outcome {
    let mut mounted = Mounted::create(context, folder, "256M", &["--time", "none"])?;
    let summary = run_pjdfstest(context, folder, &mounted.folder)?;
    mounted.unmount()?;
    Ok(Done::Said(summary))
}

/// All suites, with these options of the mount.
pub fn all_with(context: &Context, folder: &Path, options: &[&str]) -> Result<String, Failure> {
    let mut mounted = Mounted::create(context, folder, "256M", options)?;
    let summary = run_all(context, folder, &mut mounted, options)?;
    mounted.unmount()?;
    Ok(summary)
}

/// Runs all suites on a volume, which is mounted with these options in between. Returns the text to print.
fn run_all(
    context: &Context,
    folder: &Path,
    mounted: &mut Mounted<'_>,
    options: &[&str],
) -> Result<String, Failure> {
    let fsx = run_fsx(context, folder, &mounted.folder, &[FSX_CONFIGURATION, FSX_HOLES].concat())?;
    let pjdfstest = run_pjdfstest(context, folder, &mounted.folder)?;
    run_fio(mounted, options)?;
    Ok(format!("{fsx}\n{pjdfstest}"))
}

/// A file system without any optional features.
pub fn in_memory(context: &Context, folder: &Path) -> Outcome {
    let example = Example::start(context, "memory", &folder.join("drive.tant"), folder.join("mnt"))?;
    let fsx = run_fsx(context, folder, &example.folder, FSX_CONFIGURATION)?;
    let pjdfstest = run_pjdfstest(context, folder, &example.folder)?;
    Shell::new(&context.tantalum).args(["unmount"]).args([&example.folder]).run()?;
    Ok(Done::Said(format!("{fsx}\n{pjdfstest}")))
}

/// Log-structured file systems, whose kind is recognised when they are mounted again.
pub fn log_structured(context: &Context, folder: &Path) -> Outcome {
    let mut said = Vec::new();
    for kind in ["lfs-nat", "lfs-tree"] {
        let folder = folder.join(kind);
        fs::create_dir_all(&folder)?;
        said.push(format!("{kind}: {}", log_structured_of(context, &folder, kind)?));
    }
    Ok(Done::Said(said.join("\n")))
}

fn log_structured_of(context: &Context, folder: &Path, kind: &str) -> Result<String, Failure> {
    let options = ["--time", "none", "--file-system", kind, "--cleaning", "remap"];
    let mut mounted = Mounted::create(context, folder, "256M", &options)?;
    let summary = run_all(context, folder, &mut mounted, &["--time", "none"])?;
    let file = mounted.path("kept");
    fs::write(&file, "as it was")?;
    mounted.remount(&["--time", "none"])?;
    ensure(fs::read_to_string(&file)? == "as it was", || "a file is lost".to_owned())?;
    mounted.unmount()?;
    if kind == "lfs-tree" {
        snapshot_keeps_a_file(context, &mut mounted)?;
    }
    Ok(summary)
}

/// A snapshot still has data overwritten since, and refuses changes.
fn snapshot_keeps_a_file(context: &Context, mounted: &mut Mounted<'_>) -> Result<(), Failure> {
    let snapshot =
        |action: &str| Shell::new(&context.tantalum).args(["snapshot", action]).args([&mounted.image]).run();
    snapshot("create")?;
    let list = snapshot("list")?;
    ensure(list.lines().any(|line| line.trim_start().starts_with('1')), || format!("listed: {list}"))?;
    let file = mounted.path("kept");
    mounted.mount(&["--time", "none"])?;
    fs::write(&file, "as it is now")?;
    mounted.remount(&["--time", "none", "--snapshot", "1"])?;
    ensure(fs::read_to_string(&file)? == "as it was", || "a snapshot changed".to_owned())?;
    ensure(fs::write(&file, "").is_err(), || "a snapshot was written".to_owned())?;
    mounted.remount(&["--time", "none"])?;
    ensure(fs::read_to_string(&file)? == "as it is now", || "a file is lost".to_owned())?;
    mounted.unmount()
}

/// Runs fsx in a mounted folder, with its own files in `folder`. Returns the text to print.
fn run_fsx(context: &Context, folder: &Path, mounted: &Path, configuration: &str) -> Result<String, Failure> {
    let fsx = program(context, FSX);
    let file = folder.join("fsx.toml");
    fs::write(&file, configuration)?;
    for seed in 1..=FSX_SEEDS {
        Shell::new(&fsx)
            .args(["-N", FSX_OPERATIONS, "-S", &seed.to_string(), "-f"])
            .args([&file, Path::new("-P"), folder, &mounted.join("file")])
            .run()?;
    }
    Ok(format!("               {FSX_SEEDS} seeds of {FSX_OPERATIONS} operations"))
}

/// Has fio write and read it, and read it again after a mount with these options.
fn run_fio(mounted: &mut Mounted<'_>, options: &[&str]) -> Result<(), Failure> {
    let fio = |folder: &Path, more: &[&str]| {
        Shell::new("fio").args(FIO.split_whitespace()).args(more).folder(folder).run().map(drop)
    };
    fio(&mounted.folder, &[])?;
    mounted.remount(options)?;
    fio(&mounted.folder, &["--verify_only=1"])
}

/// Runs pjdfstest in a mounted folder, with its own files in `folder`. Returns the text to print.
fn run_pjdfstest(context: &Context, folder: &Path, mounted: &Path) -> Result<String, Failure> {
    let pjdfstest = program(context, PJDFSTEST);
    let (configuration, second) = (folder.join("pjdfstest.toml"), folder.join("second"));
    fs::create_dir(&second)?;
    fs::write(&configuration, PJDFSTEST_CONFIGURATION)?;
    let work = mounted.join("work");
    fs::create_dir(&work)?;
    fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let said = Shell::new(&pjdfstest)
        .args(["-c"])
        .args([&configuration, Path::new("-p"), &work, Path::new("--secondary-fs"), &second])
        .folder(folder)
        .run()?;
    let summary = said.lines().last().unwrap_or_default().to_owned();
    let skipped: Vec<&str> = said.lines().filter(|line| line.ends_with("skipped")).collect();
    ensure(summary.contains("0 failed") && skipped.len() <= PJDFSTEST_SKIPPED, || {
        format!("{summary}\n{}", skipped.join("\n"))
    })?;
    Ok(format!("               {summary}"))
}
