//! Test suites of others, from crates.io: fsx and pjdfstest.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use super::failure::{Failure, ensure};
use super::mounted::Mounted;
use super::shell::Shell;
use super::{Context, Done, Outcome};

const FSX: (&str, &str) = ("fsx", "0.3.2");
const PJDFSTEST: (&str, &str) = ("pjdfstest", "0.2.2");

/// Random operations for each seed.
const FSX_OPERATIONS: &str = "10000";
const FSX_SEEDS: u32 = 4;

/// Everything that fsx can do.
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
punch_hole = 5
sendfile = 2
posix_fadvise = 1
copy_file_range = 5
";

/// It remounts read-only through mount.fuse, which does not know this file system, so it must not; the reasons for
/// all that is skipped are in docs/mounting.md.
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

/// More would be a test that no reason is known for.
const PJDFSTEST_SKIPPED: usize = 14;

/// Built once, into the target folder.
fn program(context: &Context, (name, version): (&str, &str)) -> Result<PathBuf, Failure> {
    let root = context.target.join("e2e-tools");
    Shell::new("cargo")
        .args(["install", "--quiet", "--locked", name, "--version", version, "--root"])
        .args([&root])
        .variable("CARGO_TARGET_DIR", context.target.join("e2e-tools/target"))
        .with_output()
        .run()?;
    Ok(root.join("bin").join(name))
}

pub fn fsx(context: &Context, folder: &Path) -> Outcome {
    let fsx = program(context, FSX)?;
    let configuration = folder.join("fsx.toml");
    fs::write(&configuration, FSX_CONFIGURATION)?;
    let mut mounted = Mounted::create(context, folder, "256M", &["--time", "none"])?;
    for seed in 1..=FSX_SEEDS {
        Shell::new(&fsx)
            .args(["-N", FSX_OPERATIONS, "-S", &seed.to_string(), "-f"])
            .args([&configuration, Path::new("-P"), folder, &mounted.path("file")])
            .run()?;
    }
    mounted.unmount()?;
    Ok(Done::Said(format!("               {FSX_SEEDS} seeds of {FSX_OPERATIONS} operations")))
}

pub fn pjdfstest(context: &Context, folder: &Path) -> Outcome {
    if !geteuid().is_root() {
        return Ok(Done::LeftOut("without root it cannot test permissions".to_owned()));
    }
    let pjdfstest = program(context, PJDFSTEST)?;
    let (configuration, second) = (folder.join("pjdfstest.toml"), folder.join("second"));
    fs::create_dir(&second)?;
    fs::write(&configuration, PJDFSTEST_CONFIGURATION)?;
    let mut mounted = Mounted::create(context, folder, "256M", &["--time", "none"])?;
    let work = mounted.path("work");
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
    mounted.unmount()?;
    Ok(Done::Said(format!("               {summary}")))
}
