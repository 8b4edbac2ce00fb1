//! A server's process: started, waited for, stopped.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::ServerError;
use super::program::end;

/// How long a server may take to answer, recovery included.
const ANSWERS_WITHIN: Duration = Duration::from_secs(120);

/// How long a server may take to stop before it is killed.
const STOPS_WITHIN: Duration = Duration::from_secs(60);

const INTERVAL: Duration = Duration::from_millis(50);

/// How long a server that was told to end at once may take.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A running server. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Daemon {
    name: &'static str,
    child: Child,
    log: PathBuf,
    at_once: Signal,
}

impl Daemon {
    /// Starts it with its output in `log`. It leads its own process group, so that Ctrl-C does not reach it. `at_once`
    /// is the signal that ends it and all its children without delay.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        log: &Path,
        at_once: Signal,
    ) -> Result<Daemon, ServerError> {
        let file = fs::File::options().create(true).append(true).open(log).map_err(ServerError::file(log))?;
        let errors = file.try_clone().map_err(ServerError::file(log))?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).process_group(0).spawn();
        let child = child.map_err(|error| ServerError::Run { program: name.to_owned(), error })?;
        Ok(Daemon { name, child, log: log.to_owned(), at_once })
    }

    /// Waits until `answers` does not fail.
    pub(super) fn wait_until<T, E>(
        &mut self,
        mut answers: impl FnMut() -> Result<T, E>,
    ) -> Result<T, ServerError> {
        let start = Instant::now();
        loop {
            if let Ok(answer) = answers() {
                return Ok(answer);
            }
            if let Some(status) = self.ended() {
                let message = end_of(&self.log);
                return Err(ServerError::Failed { program: self.name.to_owned(), status, message });
            }
            if start.elapsed() > ANSWERS_WITHIN {
                let seconds = ANSWERS_WITHIN.as_secs();
                return Err(ServerError::Silent { program: self.name, seconds, log: end_of(&self.log) });
            }
            thread::sleep(INTERVAL);
        }
    }

    fn ended(&mut self) -> Option<String> {
        self.child.try_wait().ok().flatten().map(|status| status.to_string())
    }

    /// Asks it to stop by that signal and waits; after a while it is killed.
    pub(super) fn stop(&mut self, signal: Signal, within: Option<Duration>) {
        self.stop_while(signal, within, || true);
    }

    /// Asks it to stop by that signal and waits; kills it after `within`, or as soon as `wanted` returns false.
    pub(super) fn stop_while(&mut self, signal: Signal, within: Option<Duration>, wanted: impl Fn() -> bool) {
        self.send(signal);
        let start = Instant::now();
        while self.ended().is_none() {
            if start.elapsed() > within.unwrap_or(STOPS_WITHIN) || !wanted() {
                self.send(Signal::SIGKILL);
                let _ = self.child.wait();
                return;
            }
            thread::sleep(INTERVAL);
        }
    }

    /// Ends it at once. It has not been waited for while others can use it, so the process number is still its own.
    pub(super) fn kill(&self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), self.at_once);
    }

    fn send(&mut self, signal: Signal) {
        if self.ended().is_none() {
            // It has not been waited for, so the process number is still its own.
            let _ = kill(Pid::from_raw(self.child.id() as i32), signal);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.stop(self.at_once, Some(ENDS_WITHIN));
    }
}

fn end_of(log: &Path) -> String {
    end(&String::from_utf8_lossy(&fs::read(log).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_program_that_ends_at_once_is_told_with_its_log() {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no luck; exit 3"]);
        let mut daemon = Daemon::start("sh", command, &folder.path().join("log"), Signal::SIGKILL).unwrap();
        let error = daemon.wait_until(|| Err::<(), ()>(())).unwrap_err().to_string();
        assert!(error.contains("no luck") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_dropped_server_is_gone() {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new("sleep");
        command.arg("1000");
        let daemon = Daemon::start("sleep", command, &folder.path().join("log"), Signal::SIGKILL).unwrap();
        let pid = Pid::from_raw(daemon.child.id() as i32);
        drop(daemon);
        assert!(kill(pid, None).is_err());
    }

    #[test]
    fn a_server_that_does_not_stop_is_killed() {
        let folder = TempDir::new().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; while :; do sleep 0.05; done"]);
        let mut daemon = Daemon::start("sh", command, &folder.path().join("log"), Signal::SIGKILL).unwrap();
        thread::sleep(Duration::from_millis(100));
        daemon.stop(Signal::SIGTERM, Some(Duration::from_millis(200)));
        assert!(daemon.ended().is_some());
    }
}
