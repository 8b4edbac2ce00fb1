//! Runs the user's check on the files of an outcome.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Once};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tantalum_report::Monitor;

use crate::commands::{command_of, hint, not_started};
use crate::error::RunError;
use crate::tree::Tree;

/// How often to poll for the end of a check, at most.
const LOOK: Duration = Duration::from_millis(2);

/// How much of the end of a check's output is kept.
const MOST_TEXT_BYTES: usize = 2000;

/// A check of the files of an outcome.
#[derive(Clone)]
pub enum Check {
    /// A program or a shell command. It runs in the folder of the files, and exits with 0 if they are intact.
    Command(String),
    /// A function of a test. It gets the folder of the files, and what the program had acknowledged; it panics or returns an
    /// error if something is wrong.
    Function(Arc<CheckFunction>),
}

/// See [`Check::Function`].
pub type CheckFunction = dyn Fn(&Path, &[String]) -> Result<(), String> + Send + Sync;

impl Check {
    /// Advice for a check that fails without a power cut.
    fn hint(&self) -> String {
        match self {
            // a command without arguments is looked up from the current folder
            Check::Command(command) if command.contains(char::is_whitespace) => {
                hint(command.split_whitespace())
            }
            _ => String::new(),
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Check::Command(command) => f.debug_tuple("Command").field(command).finish(),
            Check::Function(_) => f.write_str("Function"),
        }
    }
}

/// How a check is run.
#[derive(Clone, Debug)]
pub(crate) struct Checker {
    /// The check.
    pub check: Check,
    /// A check that takes longer fails.
    pub most: Duration,
    /// Where its folders are created.
    pub place: PathBuf,
    /// Ends a running check.
    pub monitor: Monitor,
}

/// The result of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    /// How it ended if it failed; `None` if it passed.
    pub failed: Option<String>,
    /// The end of what it printed.
    pub said: String,
}

impl Verdict {
    /// A check that fails even without a power cut would say nothing about power cuts.
    pub fn must_pass(self, check: &Check) -> Result<(), RunError> {
        let Some(status) = self.failed else { return Ok(()) };
        let said = self.said.lines().last().unwrap_or("it printed nothing").to_owned();
        Err(RunError::CheckFails { status, said, hint: check.hint() })
    }
}

/// What a check has that takes too long.
const NO_END: &str = "no end";

/// How a check ended, as the end of a sentence about it.
pub fn ended(how: &str) -> String {
    match how.strip_prefix(NO_END) {
        Some(within) => format!("did not end{within}"),
        None => format!("ended with {how}"),
    }
}

impl Checker {
    /// Runs the check on these files, with what the program had acknowledged. Checks that run at the same time need different
    /// `worker` numbers.
    pub fn run(&self, tree: &Tree, acks: &[(usize, String)], worker: usize) -> Result<Verdict, RunError> {
        let place = self.place.join(format!("check-{worker}"));
        let folder = place.join("dir");
        clear(&place)?;
        fs::create_dir_all(&folder).map_err(RunError::files(&folder))?;
        tree.write_to(&folder).map_err(RunError::files(&folder))?;
        let verdict = match &self.check {
            Check::Function(function) => {
                let acks: Vec<String> = acks.iter().map(|(_, line)| line.clone()).collect();
                call(function.as_ref(), &folder, &acks)
            }
            Check::Command(command) => {
                let file = place.join("acks");
                let text: String = acks.iter().map(|(_, line)| format!("{line}\n")).collect();
                fs::write(&file, text).map_err(RunError::files(&file))?;
                self.run_in(command, &folder, &file)?
            }
        };
        clear(&place)?;
        Ok(verdict)
    }

    /// Runs a command in a folder. Its output goes to a file next to the folder.
    pub fn run_in(&self, command: &str, folder: &Path, acks: &Path) -> Result<Verdict, RunError> {
        let output = folder.with_file_name("output");
        let log = fs::File::create(&output).map_err(RunError::files(&output))?;
        let error_log = log.try_clone().map_err(RunError::files(&output))?;
        let name = command;
        let mut command = command_of(command);
        command.current_dir(folder).env("TANTALUM_DIR", folder).env("TANTALUM_ACKS", acks);
        command.stdin(Stdio::null()).stdout(log).stderr(error_log).process_group(0);
        let mut child = command.spawn().map_err(not_started(name))?;
        let ended = wait(&mut child, self.most, &self.monitor).map_err(not_started(name))?;
        // processes it left running must not touch the next check's files
        let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
        let failed = match ended {
            Some(status) if status.success() => None,
            Some(status) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or_default()),
            }),
            None => {
                let _ = child.wait();
                self.monitor.check()?;
                Some(format!("{NO_END} within {} s", self.most.as_secs()))
            }
        };
        Ok(Verdict { failed, said: end_of(&output) })
    }
}

thread_local! {
    /// Whether a panic in this thread is a check's verdict. Those are not printed: a check may fail hundreds of times.
    static IS_VERDICT: Cell<bool> = const { Cell::new(false) };
}

/// Stops printing the panics of checks.
fn keep_verdicts_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_VERDICT.get() {
                print(panic);
            }
        }));
    });
}

fn call(function: &CheckFunction, folder: &Path, acks: &[String]) -> Verdict {
    keep_verdicts_quiet();
    IS_VERDICT.set(true);
    let ended = panic::catch_unwind(AssertUnwindSafe(|| function(folder, acks)));
    IS_VERDICT.set(false);
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic.downcast_ref::<&str>().copied().unwrap_or_default().to_owned(),
    };
    match ended {
        Ok(Ok(())) => Verdict { failed: None, said: String::new() },
        Ok(Err(wrong)) => Verdict { failed: Some("an error".to_owned()), said: wrong },
        Err(panic) => Verdict { failed: Some("a panic".to_owned()), said: text(panic) },
    }
}

/// Waits until a check ends; `None` if it takes too long or is interrupted.
fn wait(
    child: &mut Child,
    most: Duration,
    monitor: &Monitor,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    let begun = Instant::now();
    let mut pause = Duration::from_micros(200);
    while begun.elapsed() < most && monitor.check().is_ok() {
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

/// Removes a folder and its contents, including what is read-only.
fn clear(place: &Path) -> Result<(), RunError> {
    match fs::remove_dir_all(place) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(_) => {}
    }
    let _ = Command::new("chmod").args(["-R", "u+rwX"]).arg(place).status();
    fs::remove_dir_all(place).map_err(RunError::files(place))
}
