//! Runs the program on a mounted drive, and takes its acknowledgements.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;

use nix::sys::stat::Mode;
use nix::sys::statvfs::statvfs;
use parking_lot::Mutex;
use tantalum::{Device, Profile};
use tantalum_filesystem::FileSystem;
use tantalum_fuse::{Mounted, Options, Pacing, SYNC_INTERVAL};
use tantalum_record::program_in;
use tantalum_report::Monitor;
use tantalum_volume::Volume;

use crate::commands::{hint, not_started};
use crate::error::RunError;
use crate::leftovers;
use crate::operation::{Operation, Recording};
use crate::recorder::{Kept, Shared};

/// Bytes of the volume's page cache.
pub(crate) const CACHE_BYTES: u64 = 64 << 20;

/// Threads of the mount.
const THREADS: usize = 4;

/// The prefix of an output line in which the program acknowledges something.
const SAYS: &str = "ack ";

/// Tells the threads that read the program's output to stop.
const END: &str = "\u{4}end";

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
        let ran = run(task, folder, &place.join("said"), recording);
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
    let volume = Volume::format(drive(capacity_bytes)?, CACHE_BYTES)?;
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
    let recording = std::mem::take(&mut *recording.lock());
    match recording.operations[recording.begins..].iter().all(Operation::is_sync) {
        true => Err(RunError::NothingRecorded),
        false => Ok(recording),
    }
}

/// A drive in memory.
pub(crate) fn drive(capacity_bytes: u64) -> Result<Device, RunError> {
    let mut profile = Profile::load("tlc-nvme")?;
    profile.capacity_bytes = capacity_bytes;
    Ok(Device::in_memory(&profile)?)
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

fn run(task: &Task, folder: &Path, said: &Path, recording: &Shared) -> Result<(), RunError> {
    if let Some(setup) = &task.setup {
        let mut command = Command::new("sh");
        command.arg("-c").arg(setup);
        // standard output is for the result
        command.current_dir(folder).env("TANTALUM_DIR", folder).stdout(io::stderr());
        let status = command.status().map_err(not_started(setup))?;
        succeeded(status, setup, setup.split_whitespace(), folder)?;
    }
    let begins = recording.lock().operations.len();
    recording.lock().begins = begins;
    nix::unistd::mkfifo(said, Mode::S_IRUSR | Mode::S_IWUSR)
        .map_err(|errno| RunError::files(said)(errno.into()))?;
    // opened for reading and writing, so that neither side waits for the other
    let fifo = || File::options().read(true).write(true).open(said).map_err(RunError::files(said));
    let (read, mut write) = (fifo()?, fifo()?);
    let heard = Arc::clone(recording);
    let listener = thread::spawn(move || listen(read, &heard, |_| {}, true));
    let ran = start(task, folder, said, recording);
    leftovers::end(folder);
    let _ = writeln!(write, "{END}");
    listener.join().expect("listening does not panic");
    ran
}

fn start(task: &Task, folder: &Path, said: &Path, recording: &Shared) -> Result<(), RunError> {
    let name = task.program[0].to_string_lossy().into_owned();
    let mut command = program_in(&task.program, folder);
    command.env("TANTALUM_ACK", said);
    let pipe = |error| RunError::files("a pipe")(error);
    let (output, mut input) = io::pipe().map_err(pipe)?;
    command.stdout(Stdio::from(input.try_clone().map_err(pipe)?));
    let mut child = command.spawn().map_err(not_started(&name))?;
    let heard = Arc::clone(recording);
    let listener = thread::spawn(move || listen(output, &heard, |line| eprintln!("{line}"), false));
    let status = child.wait().map_err(not_started(&name));
    // processes it leaves running may keep the pipe open, so the end is marked
    let _ = writeln!(input, "{END}");
    listener.join().expect("listening does not panic");
    succeeded(status?, &name, task.program.iter().filter_map(|word| word.to_str()), folder)
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

/// Reads lines until the end mark. Keeps acknowledgements, each with the number of operations done by now, which is at least the
/// number done when the program wrote the line.
fn listen(from: impl std::io::Read, recording: &Mutex<Recording>, other: impl Fn(&str), all: bool) {
    for line in BufReader::new(from).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        let (line, is_end) = line.strip_suffix(END).map_or((&line[..], false), |rest| (rest, true));
        match (line.strip_prefix(SAYS), all) {
            _ if is_end && line.is_empty() => {}
            (Some(said), _) => hear(recording, said),
            (None, true) => hear(recording, line),
            (None, false) => other(line),
        }
        if is_end {
            return;
        }
    }
}

/// Keeps an acknowledgement.
pub(crate) fn hear(recording: &Mutex<Recording>, said: &str) {
    let mut recording = recording.lock();
    let at = recording.operations.len();
    recording.said.push((at, said.to_owned()));
}
