//! Running a program on a new drive.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use tantalum_drive::Client;
use tantalum_fuse::{Mounted, Options, Pacing, SYNC_INTERVAL};
use tantalum_record::{end_in, folder_prefix, program_in};
use tantalum_report::temporary_folder;

use crate::attach::Attached;
use crate::drive::{DriveSetup, new_volume};
use crate::error::MeasureError;
use crate::evaluate::{Aged, Observed, Subject, evaluate};
use crate::measurement::Measurement;
use crate::recording::Recording;
use crate::stop::Stop;

/// The maximum number of threads of the mount.
const MOST_THREADS: usize = 8;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Task {
    /// The program and its arguments; `{}` stands for its folder.
    pub program: Vec<OsString>,
    /// A shell command that prepares the folder; it is not measured.
    pub setup: Option<String>,
    /// The drive.
    pub drive: DriveSetup,
    /// Whether the program sees the drive's latencies.
    pub time: Pacing,
    /// Whether each write of whole units is all or nothing.
    pub atomic_writes: bool,
    /// Whether the program's output goes to standard error, so that standard output has only the result.
    pub quiet_output: bool,
    /// Whether the recording is replayed, which shows which units belong to which files, and what other drives would
    /// have saved.
    pub replays: bool,
}

/// Runs the program once and reports what it wrote.
pub fn run(task: &Task, stop: &Stop) -> Result<Measurement, MeasureError> {
    let monitor = stop.monitor();
    let place = temporary_folder(&folder_prefix("measure"))?;
    let folder = place.path().join("dir");
    fs::create_dir(&folder).map_err(MeasureError::files(&folder))?;
    let image = match &task.drive.image {
        Some(image) => image.clone(),
        None => {
            // the mount is known by the path of an image, and this drive is in memory
            let image = place.path().join("drive");
            File::create(&image).map_err(MeasureError::files(&image))?;
            image
        }
    };
    let options = options(task, &folder, &image);
    options.check()?;
    let (volume, ageing) = new_volume(&task.drive, Client::from, &monitor)?;
    let mounted = Mounted::mount(Box::new(volume), &options)?;
    let stopper = mounted.stopper();
    let mount = thread::spawn(move || mounted.wait(|_| {}));
    let ran = measure(task, &folder, &image, stop);
    stopper.stop();
    let ended = mount.join().expect("the mount does not panic");
    let (observed, status) = ran?;
    ended?;
    let words: Vec<_> = task.program.iter().map(|word| word.to_string_lossy()).collect();
    let aged = task.drive.aged.zip(ageing).map(|(seed, ageing)| Aged { seed, ageing });
    let subject = Subject { name: &words.join(" "), exit_code: Some(exit_code(status)), aged };
    evaluate(&observed, subject, task.replays, stop)
}

fn options(task: &Task, folder: &Path, image: &Path) -> Options {
    Options {
        image: PathBuf::from(image),
        folder: PathBuf::from(folder),
        pacing: task.time,
        threads: thread::available_parallelism().map_or(2, usize::from).clamp(2, MOST_THREADS),
        atomic_writes: task.atomic_writes,
        sync_writes: false,
        write_back: false,
        sync_interval: SYNC_INTERVAL,
    }
}

/// Records the program on its folder.
fn measure(
    task: &Task,
    folder: &Path,
    image: &Path,
    stop: &Stop,
) -> Result<(Observed, ExitStatus), MeasureError> {
    let recording = Recording::new()?;
    let control = Attached::start(image, &recording)?;
    stop.set_measures(true);
    let prepared = prepare(task, folder, stop);
    let ran = prepared.and_then(|()| {
        let attached = Attached::begin(control, image)?;
        let status = wait(start(task, folder)?, stop)?;
        Ok((attached.finish(recording)?, status))
    });
    stop.set_measures(false);
    if stop.presses() > 0 {
        // what the program had started goes with it
        end_in(folder);
    }
    ran
}

fn prepare(task: &Task, folder: &Path, stop: &Stop) -> Result<(), MeasureError> {
    let Some(setup) = &task.setup else { return Ok(()) };
    let mut command = Command::new("sh");
    command.arg("-c").arg(setup).current_dir(folder).env("TANTALUM_DIR", folder);
    command.stdout(standard_error().map_err(|error| MeasureError::Start { program: setup.clone(), error })?);
    let child = command.spawn().map_err(|error| MeasureError::Start { program: setup.clone(), error })?;
    let status = wait(child, stop)?;
    if stop.presses() > 0 {
        return Err(tantalum_report::Interrupted.into());
    }
    match status.success() {
        true => Ok(()),
        false => Err(MeasureError::Setup { command: setup.clone(), status }),
    }
}

fn start(task: &Task, folder: &Path) -> Result<Child, MeasureError> {
    let program = task.program[0].to_string_lossy().into_owned();
    let mut command = program_in(&task.program, folder);
    let started = match task.quiet_output {
        true => standard_error().and_then(|error| command.stdout(error).spawn()),
        false => command.spawn(),
    };
    started.map_err(|error| MeasureError::Start { program, error })
}

fn standard_error() -> io::Result<Stdio> {
    Ok(io::stderr().as_fd().try_clone_to_owned()?.into())
}

/// Waits until the program ends. A second Ctrl-C kills it.
fn wait(child: Child, stop: &Stop) -> Result<ExitStatus, MeasureError> {
    let ended = tantalum_record::wait(child, || stop.presses() > 0, |_| stop.presses() > 1);
    ended.map_err(|error| MeasureError::Start { program: "the program".to_owned(), error })
}

/// The exit code, as a shell reports it.
fn exit_code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nix::sys::signal::Signal;

    use super::*;

    #[test]
    fn a_program_is_asked_after_the_first_ctrl_c_and_killed_by_the_second() {
        let folder = tempfile::tempdir().unwrap();
        let script = "trap '' INT; trap 'echo > asked' TERM; echo > ready; while :; do sleep 0.1; done";
        let words = ["sh", "-c", script].map(OsString::from);
        let child = program_in(&words, folder.path()).spawn().unwrap();
        let until = |name: &str| {
            while !folder.path().join(name).exists() {
                thread::sleep(Duration::from_millis(2));
            }
        };
        let stop = Stop::default();
        stop.set_measures(true);
        let status = thread::scope(|scope| {
            scope.spawn(|| {
                until("ready");
                stop.press();
                until("asked");
                stop.press();
            });
            wait(child, &stop).unwrap()
        });
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    }
}
