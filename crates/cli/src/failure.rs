//! Errors of the command.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use tantalum::{DeviceError, HostError, InvalidField, ProfileError, Status};
use tantalum_control::ControlError;
use tantalum_crash_run::RunError;
use tantalum_ftl::LayoutError;
use tantalum_fuse::{MountError, MountPointError};
use tantalum_lfs::LfsError;
use tantalum_measure::MeasureError;
use tantalum_nvme::authentication::HostsError;
use tantalum_nvme::bench::BenchError;
use tantalum_nvme::serve::ServeError;
use tantalum_papers::ExperimentError;
use tantalum_replay::ReplayError;
use tantalum_report::table::count;
use tantalum_report::{Interrupted, InvalidSetting, MissingFeature, ReportError};
use tantalum_spu::{InstallError, SpuError};
use tantalum_sweep::SweepError;
use tantalum_torture::{CrashError, CrashOutcome};
use tantalum_volume::VolumeError;
use tantalum_watch::WatchError;
use tantalum_workloads::WorkloadError;

use crate::seeds::SeedOptions;

/// Why the command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A database has wrong contents. The results have been printed.
    #[error("a database lost what was written to it; see the results above")]
    Mismatch,
    /// An image is damaged. The findings have been printed.
    #[error("{}: {findings} found; see above", path.display())]
    Damaged {
        /// The image.
        path: PathBuf,
        /// The number of findings, as text.
        findings: String,
    },
    /// An image could not be repaired, because the host failed.
    #[error("image {error}; {}", error.remedy())]
    NotRepaired {
        /// How it failed; with the image.
        error: Box<HostError>,
    },
    /// What is lost of a key-value store could not be dropped. Nothing else was lost.
    #[error("{}: what is lost could not be dropped: {error}", path.display())]
    Store {
        /// The image.
        path: PathBuf,
        /// The store's error.
        error: Box<tantalum_kv::Error>,
    },
    /// Promises were broken. The results have been printed.
    #[error("{} broken; see the results above", count(*violations as u64, "promise"))]
    Violations {
        /// The number of violations.
        violations: usize,
    },
    /// The time was up before anything was tested. That has been printed.
    #[error("nothing was tested: the time was up before the first cut; use more --minutes")]
    NothingTested,
    /// A program in the drive faulted. The results have been printed.
    #[error("a program faulted; see the results above")]
    ProgramFaulted,
    /// A module cannot be read.
    #[error("{}: {error}; `tantalum program list` lists those that come with the drive", path.display())]
    Module {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A program cannot be installed.
    #[error("{module}: {error}")]
    Install {
        /// The module as it was given.
        module: String,
        /// The reason for which the drive refuses it.
        error: InstallError,
    },
    /// A program got something that the drive refuses.
    #[error(transparent)]
    Program(#[from] SpuError),
    /// Standard input cannot be read.
    #[error("cannot read standard input: {0}")]
    Input(io::Error),
    /// A recording cannot be begun.
    #[error("{}: the recording cannot be begun: {error}; name a file that does not exist, in a folder with room", path.display())]
    Recording {
        /// Its file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The reader of the output is gone.
    #[error("standard output was closed")]
    OutputClosed,
    /// The output cannot be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// It was interrupted.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// An option has a value that cannot be used.
    #[error(transparent)]
    Setting(#[from] InvalidSetting),
    /// This build is without an optional part.
    #[error(transparent)]
    Feature(#[from] MissingFeature),
    /// An experiment or a comparison failed.
    #[error(transparent)]
    Experiment(ExperimentError),
    /// A program does not survive power loss. The findings have been printed.
    #[error("the check failed for {failed} of {}; see the findings above", count(*checked, "outcome"))]
    FailedChecks {
        /// Outcomes in which it failed.
        failed: u64,
        /// Outcomes checked.
        checked: u64,
    },
    /// The check of a finding failed again. What it said has been printed.
    #[error("the check {}", tantalum_crash_run::ended(ended))]
    CheckFailedAgain {
        /// How it ended.
        ended: String,
    },
    /// A program's run was not completed.
    #[error(transparent)]
    Run(RunError),
    /// Nothing was measured.
    #[error(transparent)]
    Measure(MeasureError),
    /// A measured program failed. What was measured has been printed.
    #[error("the program ended with exit code {code}")]
    ProgramEnded {
        /// Its exit code.
        code: i32,
    },
    /// A drive cannot be watched.
    #[error(transparent)]
    Watch(WatchError),
    /// An experiment's drives cannot be offered for watching.
    #[error("--watch: {}: {why}", socket.display())]
    Offer {
        /// The socket.
        socket: PathBuf,
        /// The reason, with what to do.
        why: String,
    },
    /// A trace was not replayed.
    #[error(transparent)]
    Replay(ReplayError),
    /// The columns of a trace are not all described.
    #[error("--columns: {why}")]
    Columns {
        /// What is missing.
        why: &'static str,
    },
    /// A replay ended early. What was done until then has been printed.
    #[error("{why}")]
    ReplayEnded {
        /// The reason.
        why: String,
    },
    /// A sweep was not done.
    #[error(transparent)]
    Sweep(SweepError),
    /// Runs of a sweep failed. The others are in the table.
    #[error(
        "{failed} of {} failed; the column \"failed\" of the table says why; the first is {first}",
        count(*runs as u64, "run")
    )]
    RunsFailed {
        /// The number of failed runs.
        failed: usize,
        /// The number of runs of the sweep.
        runs: usize,
        /// The first one's values, and why.
        first: String,
    },
    /// A torture failed.
    #[error(transparent)]
    Crash(CrashError),
    /// A benchmark failed.
    #[error(transparent)]
    Bench(WorkloadError),
    /// A report cannot be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The man pages cannot be written.
    #[error("{}: {error}", folder.display())]
    ManPages {
        /// The folder for them.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// This program's own file cannot be found.
    #[error("cannot find this program's own file: {error}")]
    OwnProgram {
        /// The system's error.
        error: io::Error,
    },
    /// No such profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The command line made the profile invalid.
    #[error("{option}: {invalid}")]
    Override {
        /// The option that changed it.
        option: &'static str,
        /// The invalid field.
        invalid: InvalidField,
    },
    /// Not a size up to which the drive can make writes all or nothing.
    #[error(
        "--atomic-write: {wanted} bytes: it must be whole units of 4 KiB, from 4 KiB to {} with this profile",
        tantalum_report::table::bytes(*most)
    )]
    AtomicWrite {
        /// The bytes that were asked for.
        wanted: u64,
        /// The most that are possible.
        most: u64,
    },
    /// An image could not be created or opened.
    #[error("{}", of_image(path, error))]
    Image {
        /// The image.
        path: PathBuf,
        /// The drive's error.
        error: DeviceError,
    },
    /// A mount or a server has the image open.
    #[error("{}; `tantalum stat {}` asks the drive that is in use", of_image(path, error), path.display())]
    InUse {
        /// The image.
        path: PathBuf,
        /// The drive's error.
        error: DeviceError,
    },
    /// An image instead of the folder on which it is mounted.
    #[error("{} is an image, and unmount takes a folder: {what}", path.display())]
    UnmountImage {
        /// The image.
        path: PathBuf,
        /// How it is in use, and what would do.
        what: String,
    },
    /// A drive that is too small for what it needs in addition to its capacity.
    #[error("image {}: {error}{}", path.display(), capacity_for(*sufficient_bytes))]
    TooLittleFlash {
        /// The image.
        path: PathBuf,
        /// What does not fit.
        error: LayoutError,
        /// A sufficient capacity, in bytes.
        sufficient_bytes: Option<u64>,
    },
    /// The drive refused to shut down.
    #[error("image {}: the drive could not be shut down: {status}", path.display())]
    Shutdown {
        /// The image.
        path: PathBuf,
        /// The drive's status.
        status: Status,
    },
    /// A drive without a volume.
    #[error("image {} holds no volume; add --format to create one (everything on the drive is lost)", path.display())]
    NoVolume {
        /// The image.
        path: PathBuf,
    },
    /// A drive with records, but without a volume.
    #[error(
        "image {} holds no volume, but key-value namespaces, as a store does ({namespaces} of them); open it as a store, \
         or mount another image",
        path.display()
    )]
    HoldsRecords {
        /// The image.
        path: PathBuf,
        /// The number of namespaces.
        namespaces: usize,
    },
    /// Statistics were requested of an image that is not in use and has no volume.
    #[error("image {0} holds no volume and is not being served; `tantalum info {0}` shows its drive", path.display())]
    NothingToShow {
        /// The image.
        path: PathBuf,
    },
    /// A volume could not be created or opened.
    #[error("{}", of_image(path, error))]
    Volume {
        /// The image.
        path: PathBuf,
        /// The volume's error.
        error: VolumeError,
    },
    /// A log-structured file system could not be created or opened.
    #[error("{}", of_image(path, error))]
    LogStructured {
        /// The image.
        path: PathBuf,
        /// The file system's error.
        error: LfsError,
    },
    /// The drive holds a file system other than the requested one.
    #[error(
        "image {} holds {found}, not {wanted}; leave --file-system out, or add --format to create one (everything on the \
         drive is lost)",
        path.display()
    )]
    OtherFileSystem {
        /// The image.
        path: PathBuf,
        /// What it holds.
        found: String,
        /// The one requested.
        wanted: String,
    },
    /// An option of a new drive for one that exists.
    #[error(
        "{option} is chosen when a drive is created and kept in its image: leave it out, or add --create to make a new image"
    )]
    OptionOfNewDrives {
        /// The option.
        option: &'static str,
    },
    /// An image should be created, and exists.
    #[error("image {} already exists; leave out --create to {verb} it, or choose another name", path.display())]
    CreateOfExisting {
        /// The image.
        path: PathBuf,
        /// What the command does with an image.
        verb: &'static str,
    },
    /// An option for new log-structured file systems, but none is being created.
    #[error(
        "{option} is chosen when a log-structured file system is created: add --file-system lfs-nat or lfs-tree, and --create or --format"
    )]
    OptionOfLogs {
        /// The option.
        option: &'static str,
    },
    /// Snapshots of a file system that keeps none.
    #[error("image {} holds a volume, which keeps no snapshots; a file system of the kind lfs-tree does", path.display())]
    NoSnapshots {
        /// The image.
        path: PathBuf,
    },
    /// A volume could not be mounted or closed.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// An image could not be served or closed.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A served drive could not be measured.
    #[error(transparent)]
    ServedBench(BenchError),
    /// Accesses of more ports than there are.
    #[error(
        "--access names {accesses} accesses, and --listen {ports} addresses: each port has one access at most"
    )]
    Accesses {
        /// How many accesses.
        accesses: usize,
        /// How many ports.
        ports: usize,
    },
    /// The hosts that may connect, or their secrets, could not be read.
    #[error(transparent)]
    Hosts(HostsError),
    /// A key-value namespace could not be created.
    #[error("image {}: could not create a key-value namespace: {status}", path.display())]
    Namespace {
        /// The image.
        path: PathBuf,
        /// The drive's status.
        status: Status,
    },
    /// Statistics were requested of a folder without a mount.
    #[error("no Tantalum volume is mounted on {}; name a folder with one, or an image file", path.display())]
    NotMounted {
        /// The folder.
        path: PathBuf,
    },
    /// The kernel has a mount whose process is gone.
    #[error("the process that had {0} mounted on {1} is gone; `tantalum mount {0} {1}` mounts it again, and recovers", image.display(), folder.display())]
    MountDied {
        /// The image.
        image: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// The path names nothing whose power could be cut.
    #[error("{} is neither a folder with a mounted volume nor an image that is served", path.display())]
    NotInUse {
        /// The path given.
        path: PathBuf,
    },
    /// A served image could not be closed.
    #[error("image {}: {message}{}", image.display(), named(log.as_ref()))]
    NotStopped {
        /// The image.
        image: PathBuf,
        /// The answer of the process that serves it.
        message: String,
        /// The log with details, if there is one.
        log: Option<PathBuf>,
    },
    /// A volume was unmounted, but its image could not be closed.
    #[error("image {} is unmounted, but {message}; data that were not synced are lost; mount it again to recover the rest{}",
        image.display(), named(log.as_ref()))]
    NotClosed {
        /// The image.
        image: PathBuf,
        /// The answer of the process that mounted it.
        message: String,
        /// The log with more details, if there is one.
        log: Option<PathBuf>,
    },
    /// Nothing is mounted on the folder, or it is in use.
    #[error(transparent)]
    MountPoint(#[from] MountPointError),
    /// The process that has an image mounted refused a request.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The background process could not be started.
    #[error("cannot start the background process: {0}")]
    Background(io::Error),
    /// The background process ended, and reported why.
    #[error("{message}")]
    BackgroundEnded {
        /// Its message.
        message: String,
        /// Its exit code, if it has one.
        code: Option<i32>,
    },
}

/// What is wrong with an image, naming its path once: many errors begin with it.
fn of_image(path: &Path, error: &dyn fmt::Display) -> String {
    let (path, error) = (path.display().to_string(), error.to_string());
    if error.starts_with(&path) { format!("image {error}") } else { format!("image {path}: {error}") }
}

fn capacity_for(sufficient_bytes: Option<u64>) -> String {
    sufficient_bytes.map_or_else(String::new, |bytes| format!(", or use --capacity {}M or more", bytes >> 20))
}

fn named(log: Option<&PathBuf>) -> String {
    log.map_or_else(String::new, |log| format!(" (see {})", log.display()))
}

impl Failure {
    /// How the host failed, if that is why an image or what is on it could not be opened.
    pub fn host(&self) -> Option<&HostError> {
        let status = match self {
            Failure::Image { error, .. } => return error.host(),
            Failure::Volume { error: VolumeError::Device(status), .. }
            | Failure::LogStructured {
                error: LfsError::Device(status) | LfsError::Stopped(status), ..
            }
            | Failure::Namespace { status, .. } => status,
            _ => return None,
        };
        match status {
            Status::Host(error) => Some(error),
            _ => None,
        }
    }

    /// Broken promises, if there are any; else an interruption, or that the time for these seeds was too short for any cut.
    pub fn of_outcome(outcome: &CrashOutcome, seeds: &SeedOptions) -> Result<(), Failure> {
        match outcome.violations.len() {
            0 if outcome.interrupted => Err(Interrupted.into()),
            0 if seeds.minutes.is_some() && outcome.has_done_nothing() => Err(Failure::NothingTested),
            0 => Ok(()),
            violations => Err(Failure::Violations { violations }),
        }
    }
}
