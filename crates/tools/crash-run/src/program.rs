//! Runs the program on a mounted drive.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use tantalum::{Device, Profile};
use tantalum_filesystem::{FileId, FileSystem, MetadataChange};
use tantalum_fuse::{Mounted, Options, Pacing, SYNC_INTERVAL};
use tantalum_record::{end_in, program_in};
use tantalum_report::Monitor;
use tantalum_volume::Volume;

use crate::acks::{Shared, listening};
use crate::commands::{hint, not_started};
use crate::error::{RunError, temporary_folder};
use crate::operation::{Operation, Recording};
use crate::recorder::Kept;

/// Bytes of the volume's page cache.
pub(crate) const CACHE_BYTES: u64 = 64 << 20;

/// Threads of the mount.
const THREADS: usize = 4;

/// A program that Ctrl-C has not ended after this time is killed.
const UNTIL_KILLED: Duration = Duration::from_secs(4);

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
        let ran = run(task, folder, &place.join("acks"), recording, monitor);
        // a program that Ctrl-C has ended says nothing about power cuts
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
    let place = temporary_folder()?;
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

fn run(
    task: &Task,
    folder: &Path,
    acks: &Path,
    recording: &Shared,
    monitor: &Monitor,
) -> Result<(), RunError> {
    if let Some(setup) = &task.setup {
        let mut command = Command::new("sh");
        command.arg("-c").arg(setup);
        // standard output is for the result
        command.current_dir(folder).env("TANTALUM_DIR", folder).stdout(io::stderr());
        let child = command.spawn().map_err(not_started(setup))?;
        let status = wait(child, folder, monitor).map_err(not_started(setup))?;
        // what it left running goes on: the program may need it
        succeeded(status, setup, setup.split_whitespace(), folder).map_err(RunError::in_setup)?;
    }
    recording.lock().begin();
    listening(recording, acks, |output| {
        let ran = start(task, folder, acks, output, monitor);
        end_in(folder);
        ran
    })
}

fn start(
    task: &Task,
    folder: &Path,
    acks: &Path,
    output: &io::PipeWriter,
    monitor: &Monitor,
) -> Result<(), RunError> {
    let name = task.program[0].to_string_lossy().into_owned();
    let mut command = program_in(&task.program, folder);
    command.env("TANTALUM_ACK", acks);
    let output = output.try_clone().map_err(RunError::files("a pipe"))?;
    let child = command.stdout(output).spawn().map_err(not_started(&name))?;
    // the pipe ends with the program, not with this
    drop(command);
    let status = wait(child, folder, monitor).map_err(not_started(&name))?;
    succeeded(status, &name, task.program.iter().filter_map(|word| word.to_str()), folder)
}

/// Waits until a program ends. An interruption ends it with everything that was started for its folder, by force after a while.
fn wait(child: Child, folder: &Path, monitor: &Monitor) -> io::Result<ExitStatus> {
    let is_interrupted = || monitor.check().is_err();
    let status = tantalum_record::wait(child, is_interrupted, |since| since > UNTIL_KILLED)?;
    if is_interrupted() {
        end_in(folder);
    }
    Ok(status)
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
    Err(RunError::Failed { role: "", program: program.to_owned(), status, hint })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use nix::sys::signal::Signal;

    use super::*;

    /// It was waited for without end, and a second Ctrl-C left it there, with its mount.
    #[test]
    fn an_interrupted_program_that_does_not_obey_is_killed_with_what_it_has_started() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap '' INT TERM; sleep 1000 & echo $! > child; while :; do sleep 1; done";
        let words = ["sh", "-c", script].map(OsString::from);
        let child = program_in(&words, folder.path()).spawn().unwrap();
        while fs::read_to_string(folder.path().join("child")).map_or(0, |text| text.len()) == 0 {
            thread::sleep(Duration::from_millis(2));
        }
        let begun = Instant::now();
        let monitor = Monitor::new(Arc::new(AtomicBool::new(true))).quiet();
        let status = wait(child, folder.path(), &monitor).unwrap();
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
        assert!(begun.elapsed() >= UNTIL_KILLED);
        let started = fs::read_to_string(folder.path().join("child")).unwrap();
        let state = || fs::read_to_string(format!("/proc/{}/stat", started.trim())).unwrap_or_default();
        // it is gone, or dead and nobody has asked yet; on a busy machine it may still have to run to see its signal
        let is_dead = || state().is_empty() || state().contains(") Z ");
        while !is_dead() && begun.elapsed() < UNTIL_KILLED + Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(2));
        }
        assert!(is_dead(), "{}", state());
    }
}
