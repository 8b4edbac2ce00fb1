//! `cargo xtask e2e`: a table of steps, each of which tests the command as a person uses it.
//!
//! A step gets its own folder, which is removed afterwards, with whatever it mounted. It passes, fails, or says why
//! this machine cannot run it. Steps run as an ordinary user, except those that say what they need root for: the program is
//! for everybody.

mod atomic_databases;
mod atomic_writes;
mod baselines;
mod browser;
mod ci_job;
mod context;
mod copied_image;
mod copies;
mod couch;
mod crash_run;
mod cuts;
mod errors;
mod example;
mod failing_disk;
mod failing_server;
mod failure;
mod guest;
mod hot_journal;
mod image_on;
mod key_value;
mod loops;
mod mounted;
mod nvme;
mod ordinary_user;
mod overlay;
mod packages;
mod paths;
mod placement;
mod proxy;
mod round_trip;
mod served;
mod servers;
mod shell;
mod speed;
mod sqlite_processes;
mod stopped;
mod suites;
mod tap;
mod watch;
mod write_back;
mod zones;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use context::{Context, Done, FUSE, Outcome};
use failure::Failure;
use ordinary_user::RunBy;
use shell::Shell;

/// `cargo xtask e2e`.
#[derive(Args, Debug)]
pub struct Options {
    /// Only these steps, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    only: Vec<String>,

    /// Say which steps there are
    #[arg(long)]
    list: bool,
}

/// One test.
struct Step {
    name: &'static str,
    about: &'static str,
    /// Debian packages the step needs.
    packages: &'static [packages::Package],
    /// What it needs root for, if it does.
    root: Option<&'static str>,
    /// Builds what the step runs besides the workspace's programs. The step itself builds nothing with cargo, which ordinary
    /// users may not have.
    build: fn(&Context) -> Result<(), Failure>,
    run: fn(&Context, &Path) -> Outcome,
}

/// As an ordinary user, with nothing else to install or to build.
const STEP: Step =
    Step { name: "", about: "", packages: &[], root: None, build: |_| Ok(()), run: |_, _| Ok(Done::Passed) };

/// Why steps need root.
const DEVICES_AND_OWNERS: &str = "makes devices and gives files away";
const SMALL_DISK: &str = "mounts a small disk, to fill it up";
const LOOP_DEVICES: &str = "needs loop devices";
const PERMISSIONS: &str = "tests permissions as several users";

/// In the order in which they run: first those that others rely on.
const STEPS: &[Step] = &[
    Step {
        name: "round-trip",
        about: "files of every kind are as they were after unmount and mount",
        packages: &[packages::FUSE],
        root: Some(DEVICES_AND_OWNERS),
        run: round_trip::run,
        ..STEP
    },
    Step {
        name: "ordinary-user",
        about: "the same as an ordinary user, who mounts with fusermount3",
        packages: &[packages::FUSE],
        run: round_trip::run,
        ..STEP
    },
    Step {
        name: "errors",
        about: "what cannot be done is refused with one clear line",
        run: errors::run,
        ..STEP
    },
    Step {
        name: "full",
        about: "a full volume says so, loses nothing and can be emptied",
        run: errors::full,
        ..STEP
    },
    Step {
        name: "full-disk",
        about: "the host's disk is full: what was synced is there once it has room",
        root: Some(SMALL_DISK),
        run: errors::full_disk,
        ..STEP
    },
    Step {
        name: "failing-disk",
        about: "each call on an image fails once: what was synced is there, without room and with it",
        packages: &[packages::FUSE],
        run: failing_disk::run,
        ..STEP
    },
    Step {
        name: "failing-server",
        about: "each call on a served image fails once: a host finds what it was promised, and reads go on",
        packages: &[packages::FUSE],
        run: failing_server::run,
        ..STEP
    },
    Step {
        name: "copied-image",
        about: "the image was copied by reference and the disk is full: that is an error, and loses nothing synced",
        packages: &[packages::XFSPROGS],
        root: Some(LOOP_DEVICES),
        run: copied_image::run,
        ..STEP
    },
    Step {
        name: "killed",
        about: "the process is killed, and what was synced is there after a mount",
        run: cuts::killed,
        ..STEP
    },
    Step {
        name: "cut",
        about: "power is cut under a program, and what it synced is there after a mount",
        run: cuts::cut,
        ..STEP
    },
    Step {
        name: "hot-journal",
        about: "SQLite finds the journal of a killed program although the drive has lost power",
        packages: &[packages::FUSE],
        run: hot_journal::run,
        ..STEP
    },
    Step {
        name: "sqlite-processes",
        about: "several processes with one SQLite database, beside plain SQLite, under power cuts and kills",
        packages: &[packages::FUSE],
        run: sqlite_processes::run,
        ..STEP
    },
    Step {
        name: "stopped",
        about: "a volume that cannot be closed, or lost power: stat, unmount and the log say so",
        root: Some(SMALL_DISK),
        run: stopped::run,
        ..STEP
    },
    Step {
        name: "foreground",
        about: "a mount in the foreground ends with 2 if its volume could not be closed, with 0 else",
        root: Some(SMALL_DISK),
        run: stopped::foreground,
        ..STEP
    },
    Step { name: "copies", about: "a copy of 1 GiB writes metadata only", run: copies::run, ..STEP },
    Step {
        name: "overlay",
        about: "overlayfs keeps its upper layer on a volume, with whiteouts, and an image on overlayfs",
        root: Some("mounts overlays"),
        run: overlay::run,
        ..STEP
    },
    Step {
        name: "ioctl",
        about: "the example in C commits and exchanges ranges, and nonsense is refused",
        packages: &[packages::GCC],
        run: copies::ioctl,
        ..STEP
    },
    Step {
        name: "couch",
        about: "a document store in a folder of the mount shares its updates, and is read where nothing can be changed",
        packages: &[packages::FUSE],
        run: couch::run,
        ..STEP
    },
    Step {
        name: "crash-run",
        about: "programs that lose what they said is durable are found, and right ones are not",
        run: crash_run::run,
        ..STEP
    },
    Step {
        name: "ci-job",
        about: "the job for continuous integration in docs/ci, step by step",
        packages: &[packages::FUSE],
        run: ci_job::run,
        ..STEP
    },
    Step {
        name: "watch",
        about: "the page to watch a drive, in a browser: figures change, the button cuts power, others get nothing",
        packages: &[packages::CHROMIUM, packages::CHROMEDRIVER],
        run: watch::run,
        ..STEP
    },
    Step {
        name: "loops",
        about: "ext4, xfs and btrfs on a file of the mount, and images on them",
        packages: &[packages::E2FSPROGS, packages::XFSPROGS, packages::BTRFS, packages::FIO],
        root: Some(LOOP_DEVICES),
        run: loops::run,
        ..STEP
    },
    Step {
        name: "fsx",
        about: "random operations on files, checked; fio's as well",
        packages: &[packages::FIO],
        build: suites::build,
        run: suites::fsx,
        ..STEP
    },
    Step {
        name: "pjdfstest",
        about: "POSIX file system tests",
        packages: &[packages::ACL],
        root: Some(PERMISSIONS),
        build: suites::build,
        run: suites::pjdfstest,
    },
    Step {
        name: "log-structured",
        about: "pjdfstest, fsx and fio on both log-structured file systems",
        packages: &[packages::ACL, packages::FIO],
        root: Some(PERMISSIONS),
        build: suites::build,
        run: suites::log_structured,
    },
    Step {
        name: "write-back",
        about: "all suites, kills and cuts while the kernel gathers writes in its cache",
        packages: &[packages::ACL, packages::FIO, packages::GCC],
        root: Some(PERMISSIONS),
        build: suites::build,
        run: write_back::run,
    },
    Step {
        name: "in-memory",
        about: "both suites on a file system other than the volume, mounted the same way",
        packages: &[packages::ACL],
        root: Some(PERMISSIONS),
        build: suites::build,
        run: suites::in_memory,
    },
    Step {
        name: "servers",
        about: "MariaDB and PostgreSQL have every acknowledged commit after live power cuts",
        packages: &[packages::MARIADB, packages::POSTGRESQL],
        build: servers::build,
        run: servers::run,
        ..STEP
    },
    Step {
        name: "experiments",
        about: "an experiment with a server ends within seconds of Ctrl-C and leaves nothing",
        packages: &[packages::MARIADB, packages::POSTGRESQL],
        build: servers::build_experiments,
        run: servers::experiments,
        ..STEP
    },
    Step {
        name: "c",
        about: "the stores and programs in the drive in C: the examples are built with their header and library, and run",
        packages: &[packages::GCC],
        run: key_value::c,
        ..STEP
    },
    Step {
        name: "python",
        about: "the stores and programs in the drive in Python: pip installs it into an environment of its own, and its tests pass",
        build: key_value::build_python,
        run: key_value::python,
        ..STEP
    },
    Step {
        name: "nvme",
        about: "guests with Debian's oldest and newest kernel attach a served drive: nvme-cli, file systems, power cuts",
        packages: packages::GUEST,
        build: guest::prepare,
        run: nvme::run,
        ..STEP
    },
    Step {
        name: "atomic-writes",
        about: "a guest with the newest kernel uses the atomic writes that a served drive promises, also under power cuts",
        packages: packages::GUEST,
        build: guest::prepare,
        run: atomic_writes::run,
        ..STEP
    },
    Step {
        name: "paths",
        about: "a guest with the newest kernel uses a served drive through two ports, whose access changes, and one of which breaks",
        packages: packages::GUEST,
        build: guest::prepare,
        run: paths::run,
        ..STEP
    },
    Step {
        name: "placement",
        about: "a guest with the newest kernel places data with a served drive's handles: nvme-cli, and write streams of io_uring",
        packages: packages::GUEST,
        build: guest::prepare,
        run: placement::run,
        ..STEP
    },
    Step {
        name: "zones",
        about: "a guest with the newest kernel uses a served drive's zones: blkzone, zonefs, btrfs and f2fs, also under power cuts",
        packages: packages::GUEST,
        build: guest::prepare,
        run: zones::run,
        ..STEP
    },
    Step {
        name: "atomic-databases",
        about: "MariaDB and PostgreSQL in a guest without protection against torn pages, on drives with and without atomic writes",
        packages: packages::GUEST_WITH_DATABASES,
        build: guest::prepare,
        run: atomic_databases::run,
        ..STEP
    },
    Step {
        name: "baselines",
        about: "what F2FS and NILFS2 write in a guest, beside our log-structured file systems",
        packages: packages::GUEST,
        build: guest::prepare,
        run: baselines::run,
        ..STEP
    },
    Step {
        name: "speed",
        about: "fio on a volume against a mount that only passes through to memory, and on log-structured file systems",
        packages: &[packages::FIO],
        root: Some("has a channel for each thread of the mount, as only root's mounts do"),
        run: speed::run,
        ..STEP
    },
];

/// Steps that take so long, or only measure, that they run only when named.
const ONLY_NAMED: &[&str] =
    &["nvme", "atomic-writes", "paths", "placement", "zones", "atomic-databases", "baselines", "speed"];

/// Runs the steps and prints how each ended.
pub fn run(options: &Options) -> ExitCode {
    if options.list {
        STEPS.iter().for_each(|step| println!("{:<14} {}", step.name, step.about));
        return ExitCode::SUCCESS;
    }
    let unknown = options.only.iter().find(|name| STEPS.iter().all(|step| step.name != *name));
    if let Some(name) = unknown {
        eprintln!("error: no step named {name:?}; see `cargo xtask e2e --list`");
        return ExitCode::from(2);
    }
    let is_wanted = |step: &&Step| match options.only.is_empty() {
        true => !ONLY_NAMED.contains(&step.name),
        false => options.only.iter().any(|name| name == step.name),
    };
    let steps: Vec<&Step> = STEPS.iter().filter(is_wanted).collect();
    match prepare(&steps) {
        Ok(context) => run_steps(&steps, &context, &RunBy::this_process(&context)),
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(2)
        }
    }
}

/// The program is tested with all optional parts that do not take a quarter of an hour to build.
const FEATURES: &str = "tantalum-cli/full";

/// Packages, and the program under test.
fn prepare(steps: &[&Step]) -> Result<Context, Failure> {
    let needed: Vec<packages::Package> = steps.iter().flat_map(|step| step.packages).copied().collect();
    packages::install(&needed)?;
    let root = repository()?;
    // Builds the whole workspace, as its tests do: a part of it would give libraries other features, and so build them
    // again.
    Shell::new("cargo")
        .args([
            "build",
            "--release",
            "--workspace",
            "--features",
            FEATURES,
            "--lib",
            "--bin",
            "tantalum",
            "--example",
            "passthrough",
        ])
        .args(["--example", "memory", "--example", "updates", "--example", "tap", "--example", "witness"])
        .folder(&root)
        .with_output()
        .run()?;
    let context = Context::new(root);
    steps.iter().try_for_each(|step| (step.build)(&context))?;
    Ok(context)
}

fn run_steps(steps: &[&Step], context: &Context, run_by: &RunBy) -> ExitCode {
    println!("{run_by}");
    let mut failed = Vec::new();
    let mut left_out = Vec::new();
    for step in steps {
        eprintln!("== {}: {}", step.name, step.about);
        let started = Instant::now();
        let outcome = run_step(step, context, run_by);
        let seconds = started.elapsed().as_secs_f64();
        match outcome {
            Ok(Done::Passed) => println!("{:<14} passed in {seconds:.1} s", step.name),
            Ok(Done::Said(text)) => println!("{:<14} passed in {seconds:.1} s\n{text}", step.name),
            Ok(Done::LeftOut(why)) => left_out.push((step.name, why)),
            Err(failure) => {
                println!("{:<14} FAILED after {seconds:.1} s: {failure}", step.name);
                failed.push((step.name, failure));
            }
        }
    }
    for (name, why) in &left_out {
        println!("{name:<14} skipped: {why}");
    }
    // again, where whoever sees only the end of the output finds it
    for (name, failure) in &failed {
        println!("{name:<14} FAILED: {failure}");
    }
    println!(
        "{} steps: {} passed, {} failed, {} skipped",
        steps.len(),
        steps.len() - failed.len() - left_out.len(),
        failed.len(),
        left_out.len()
    );
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

/// Steps that mount nothing.
const WITHOUT_MOUNT: &[&str] =
    &["c", "nvme", "atomic-writes", "paths", "placement", "zones", "atomic-databases"];

fn run_step(step: &Step, context: &Context, run_by: &RunBy) -> Outcome {
    let mounts = !WITHOUT_MOUNT.contains(&step.name);
    if mounts && let Err(error) = File::options().read(true).write(true).open(FUSE) {
        return Ok(Done::LeftOut(format!("{FUSE}: {error}")));
    }
    let folder = tempfile::Builder::new().prefix("tantalum-e2e-").tempdir()?;
    match (step.root, run_by) {
        (Some(why), RunBy::User) => Ok(Done::LeftOut(format!("only root can: it {why}"))),
        (None, RunBy::RootAndNobody) => ordinary_user::run(step.name, folder.path()),
        _ => (step.run)(context, folder.path()),
    }
}

/// Runs one step in this folder, as this user, for [`ordinary_user::run`].
pub fn run_alone(name: &str, folder: &Path) -> ExitCode {
    let outcome = match STEPS.iter().find(|step| step.name == name) {
        Some(step) => repository().and_then(|root| (step.run)(&Context::new(root), folder)),
        None => Err(Failure::Wrong(format!("no step named {name:?}"))),
    };
    ordinary_user::tell(outcome)
}

/// An environment variable, or its default.
fn named(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

fn repository() -> Result<PathBuf, Failure> {
    Ok(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?)
}
