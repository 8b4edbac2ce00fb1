//! Runs the user's check on the files of an outcome.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::RunError;
use crate::program::found_from_here;
use crate::tree::Tree;

/// How often it is looked whether the check has ended.
const LOOK: Duration = Duration::from_millis(2);

/// Of what a check prints, the end is kept.
const MOST_TEXT_BYTES: usize = 2000;

/// How a check is run.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    /// A program, or a shell command.
    pub check: String,
    /// It fails if it takes longer.
    pub most: Duration,
    /// Where its folders are made.
    pub place: PathBuf,
}

/// What a check said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    /// None if it was content; otherwise how it ended.
    pub failed: Option<String>,
    /// The end of what it printed.
    pub said: String,
}

impl Checker {
    /// Runs the check on these files, with what the program had said. `worker` tells apart what runs at the same time.
    pub fn run(&self, tree: &Tree, said: &[(usize, String)], worker: usize) -> Result<Verdict, RunError> {
        let place = self.place.join(format!("check-{worker}"));
        let folder = place.join("dir");
        clear(&place)?;
        fs::create_dir_all(&folder).map_err(RunError::files(&folder))?;
        tree.write_to(&folder).map_err(RunError::files(&folder))?;
        let acks = place.join("acks");
        let text: String = said.iter().map(|(_, line)| format!("{line}\n")).collect();
        fs::write(&acks, text).map_err(RunError::files(&acks))?;
        let verdict = self.run_in(&folder, &acks)?;
        clear(&place)?;
        Ok(verdict)
    }

    /// Runs it in a folder. Its output goes to a file beside that.
    pub fn run_in(&self, folder: &Path, acks: &Path) -> Result<Verdict, RunError> {
        let output = folder.with_file_name("output");
        let log = fs::File::create(&output).map_err(RunError::files(&output))?;
        let error_log = log.try_clone().map_err(RunError::files(&output))?;
        let mut command = self.command();
        command.current_dir(folder).env("TANTALUM_DIR", folder).env("TANTALUM_ACKS", acks);
        command.stdin(Stdio::null()).stdout(log).stderr(error_log).process_group(0);
        let start = |error| RunError::Start { program: self.check.clone(), error };
        let mut child = command.spawn().map_err(start)?;
        let ended = wait(&mut child, self.most).map_err(start)?;
        // what it has left running must not touch the next check's files
        let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        let failed = match ended {
            Some(status) if status.success() => None,
            Some(status) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            }),
            None => {
                let _ = child.wait();
                Some(format!("no end within {} s", self.most.as_secs()))
            }
        };
        Ok(Verdict { failed, said: end_of(&output) })
    }

    /// The check as it may be run from any folder.
    pub fn for_any_folder(&self) -> String {
        let path = found_from_here(OsStr::new(&self.check));
        if path.is_file() { path.display().to_string() } else { self.check.clone() }
    }

    fn command(&self) -> Command {
        let path = found_from_here(OsStr::new(&self.check));
        if path.is_file() {
            return Command::new(path);
        }
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&self.check);
        shell
    }
}

fn wait(child: &mut Child, most: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(200);
    while begun.elapsed() < most {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LOOK);
    }
    Ok(None)
}

fn end_of(output: &Path) -> String {
    let mut text = Vec::new();
    let _ = fs::File::open(output).and_then(|mut file| file.read_to_end(&mut text));
    String::from_utf8_lossy(&text[text.len().saturating_sub(MOST_TEXT_BYTES)..]).trim_end().to_owned()
}

/// Removes a folder with all that is in it, also what may not be written.
fn clear(place: &Path) -> Result<(), RunError> {
    match fs::remove_dir_all(place) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(place).status();
    fs::remove_dir_all(place).map_err(RunError::files(place))
}
