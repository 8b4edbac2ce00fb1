//! Running commands.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use super::failure::Failure;

/// A command to run.
pub struct Shell {
    command: Command,
    shows_output: bool,
}

impl Shell {
    /// A program.
    pub fn new(program: impl AsRef<OsStr>) -> Shell {
        let mut command = Command::new(program);
        command.stdin(Stdio::null());
        Shell { command, shows_output: false }
    }

    /// With these arguments.
    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Shell {
        self.command.args(arguments);
        self
    }

    /// In this folder.
    pub fn folder(mut self, folder: &Path) -> Shell {
        self.command.current_dir(folder);
        self
    }

    /// With an environment variable.
    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Shell {
        self.command.env(name, value);
        self
    }

    /// Its output is shown, not captured.
    pub fn with_output(mut self) -> Shell {
        self.shows_output = true;
        self
    }

    /// Runs it, however it ends.
    pub fn output(&mut self) -> Result<Output, Failure> {
        if self.shows_output {
            self.command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
        }
        self.command.output().map_err(|error| self.failure(format!("cannot be run: {error}"), String::new()))
    }

    /// Runs it, and returns its output. It must succeed.
    pub fn run(mut self) -> Result<String, Failure> {
        let output = self.output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return Ok(printed);
        }
        let said = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
        let said: Vec<&str> = said.lines().collect();
        let tail = said[said.len().saturating_sub(40)..].join("\n");
        Err(self.failure(format!("ended with {}", output.status), tail))
    }

    fn failure(&self, how: String, said: String) -> Failure {
        Failure::Command { command: format!("{:?}", self.command).replace('"', ""), how, said }
    }
}

/// Kills a process, and waits until it has let go of its files: its first thread ends before others that still have them open.
pub fn kill(process: &str) -> Result<(), Failure> {
    Shell::new("kill").args(["-9", process]).run()?;
    let is_over = || {
        let threads = fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count);
        let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // a zombie, until its parent asks for it
        threads <= 1 && state.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with(['Z', 'X']))
    };
    while !is_over() {
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
