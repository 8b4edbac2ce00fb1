//! Runs the program on a mounted drive.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::thread;

use nix::sys::statvfs::statvfs;
use tantalum::{Device, Profile};
use tantalum_filesystem::{FileId, FileSystem, MetadataChange};
use tantalum_fuse::{Mounted, Options, Pacing, SYNC_INTERVAL};
use tantalum_record::program_in;
use tantalum_report::Monitor;
use tantalum_volume::Volume;

use crate::acks::{Shared, listening};
use crate::commands::{hint, not_started};
use crate::error::RunError;
use crate::leftovers;
use crate::operation::{Operation, Recording};
use crate::recorder::Kept;

/// Bytes of the volume's page cache.
pub(crate) const CACHE_BYTES: u64 = 64 << 20;

/// Threads of the mount.
const THREADS: usize = 4;

/// The program to run.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its name and arguments; `{}` stands for its folder.
    pub program: Vec<OsString>,
    /// A shell command that prepares the folder. Everything it does is durable.
    pub setup: Option<String>,
    /// The capacity of the folder's drive.
    pub capacity_bytes: u64,
}

/// Runs the program once, and records what it does to its folder.
pub fn record(task: &Task, monitor: &Monitor) -> Result<Recording, RunError> {
    record_with(task.capacity_bytes, |place, folder, recording| {
        let ran = run(task, folder, &place.join("acks"), recording);
        // Ctrl-C ends the program as well
        monitor.check()?;
        ran
    })
}

/// Mounts a new drive on a folder, and records what is done there. `uses` gets a place for temporary files, the folder, and the
/// recording.
pub(crate) fn record_with(
    capacity_bytes: u64,
    uses: impl FnOnce(&Path, &Path, &Shared) -> Result<(), RunError>,
) -> Result<Recording, RunError> {
    let place =
        tempfile::Builder::new().prefix("tantalum-crash-run-").tempdir().map_err(RunError::files("/tmp"))?;
    let (folder, image) = (place.path().join("dir"), place.path().join("drive"));
    fs::create_dir(&folder).map_err(RunError::files(&folder))?;
    // a mount is identified by the path of its image, and this drive is in memory
    File::create(&image).map_err(RunError::files(&image))?;
    let volume = new_volume(capacity_bytes)?;
    let recording = Shared::default();
    let mounted = mount(Box::new(volume), image, &folder)?;
    mounted.tape().start_empty(Box::new(Kept(Arc::clone(&recording))));
    let stopper = mounted.stopper();
    let mount = thread::spawn(move || mounted.wait(|_| {}));
    let used = panic::catch_unwind(AssertUnwindSafe(|| uses(place.path(), &folder, &recording)));
    stopper.stop();
    let ended = mount.join().expect("the mount does not panic");
    used.unwrap_or_else(|panicked| panic::resume_unwind(panicked))?;
    ended?;
    let recording = std::mem::take(&mut recording.lock().recording);
    match recording.operations[recording.begins..].iter().all(Operation::is_sync) {
        true => Err(RunError::NothingRecorded),
        false => Ok(recording),
    }
}

/// A volume of the caller's on a drive in memory.
pub(crate) fn new_volume(capacity_bytes: u64) -> Result<Volume, RunError> {
    let mut profile = Profile::load("tlc-nvme")?;
    profile.capacity_bytes = capacity_bytes;
    let mut volume = Volume::format(Device::in_memory(&profile)?, CACHE_BYTES)?;
    volume.change_metadata(FileId::ROOT, &MetadataChange::made_by_caller())?;
    Ok(volume)
}

/// Mounts a file system on an empty folder. The path of an image identifies the mount.
pub(crate) fn mount(
    file_system: Box<dyn FileSystem>,
    image: PathBuf,
    folder: &Path,
) -> Result<Mounted, RunError> {
    let options = Options {
        image,
        folder: folder.to_owned(),
        pacing: Pacing::None,
        threads: THREADS,
        atomic_writes: false,
        sync_writes: false,
        write_back: false,
        sync_interval: SYNC_INTERVAL,
    };
    options.check()?;
    Ok(Mounted::mount(file_system, &options)?)
}

fn run(task: &Task, folder: &Path, acks: &Path, recording: &Shared) -> Result<(), RunError> {
    if let Some(setup) = &task.setup {
        let mut command = Command::new("sh");
        command.arg("-c").arg(setup);
        // standard output is for the result
        command.current_dir(folder).env("TANTALUM_DIR", folder).stdout(io::stderr());
        let status = command.status().map_err(not_started(setup))?;
        succeeded(status, setup, setup.split_whitespace(), folder)?;
    }
    recording.lock().begin();
    listening(recording, acks, |output| {
        let ran = start(task, folder, acks, output);
        leftovers::end(folder);
        ran
    })
}

fn start(task: &Task, folder: &Path, acks: &Path, output: &io::PipeWriter) -> Result<(), RunError> {
    let name = task.program[0].to_string_lossy().into_owned();
    let mut command = program_in(&task.program, folder);
    command.env("TANTALUM_ACK", acks);
    let output = output.try_clone().map_err(RunError::files("a pipe"))?;
    let status = command.stdout(output).status().map_err(not_started(&name))?;
    succeeded(status, &name, task.program.iter().filter_map(|word| word.to_str()), folder)
}

fn succeeded<'a>(
    status: ExitStatus,
    program: &str,
    words: impl Iterator<Item = &'a str>,
    folder: &Path,
) -> Result<(), RunError> {
    if status.success() {
        return Ok(());
    }
    let is_full =
        statvfs(folder).is_ok_and(|held| held.blocks_available() == 0 || held.files_available() == 0);
    let hint =
        if is_full { "; its drive is full, and --capacity gives it more".to_owned() } else { hint(words) };
    Err(RunError::Failed { program: program.to_owned(), status, hint })
}
