//! Commands that continue in the background: the command is started again as a separate process.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::failure::Failure;
use crate::output;

/// A process that was started in the background.
pub struct Started {
    process: Child,
    /// The rest of the line that it printed when it was ready.
    warning: String,
}

impl Started {
    /// Tells the user which process it is, and its warning, after what it does: `begun`. If that cannot be written, the process
    /// ends, as the user has not heard of it.
    pub fn announce(mut self, begun: &str) -> Result<(), Failure> {
        let (process, warning) = (self.process.id(), &self.warning);
        output::print(&format!("{begun} by process {process}{warning}\n")).inspect_err(|failure| {
            if matches!(failure, Failure::Output(_)) {
                let _ = kill(Pid::from_raw(process as i32), Signal::SIGTERM);
                let _ = self.process.wait();
            }
        })
    }
}

/// Starts this command again as a separate process, and waits until it has printed `word` or failed. If it has failed, it has
/// ended.
pub fn start(word: &str) -> Result<Started, Failure> {
    let program = std::env::current_exe().map_err(Failure::Background)?;
    let mut child = Command::new(program)
        .args(of_background(std::env::args_os().skip(1)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Failure::Background)?;
    let mut said = String::new();
    let stdout = child.stdout.take().expect("a pipe was asked for");
    if let Err(error) = BufReader::new(stdout).read_line(&mut said) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Failure::Background(error));
    }
    if let Some(warning) = said.trim_end().strip_prefix(word) {
        return Ok(Started { process: child, warning: warning.to_owned() });
    }
    let mut message = String::new();
    let mut stderr = child.stderr.take().expect("a pipe was asked for");
    let _ = stderr.read_to_string(&mut message);
    let ended = child.wait().map_err(Failure::Background)?;
    let mut message = message.trim_end().to_owned();
    if message.is_empty() {
        message = format!(
            "error: the background process ended without a message ({ended}); run it without --background"
        );
    }
    Err(Failure::BackgroundEnded { message, code: ended.code() })
}

/// This command's arguments for the background process: `--background` becomes `--detached`. What follows `--` is no option.
fn of_background(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut is_option = true;
    let of_background = arguments.into_iter().map(|argument| {
        is_option &= argument != "--";
        if is_option && argument == "--background" { "--detached".into() } else { argument }
    });
    of_background.collect()
}

/// Called by the background process, so that it does not end with the terminal.
pub fn detach() {
    // A newly started process leads no group, so this cannot fail.
    let _ = nix::unistd::setsid();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_option_is_replaced_and_where_it_stands() {
        let of = |words: &[&str]| of_background(words.iter().map(OsString::from));
        assert_eq!(of(&["mount", "--background", "a", "m"]), ["mount", "--detached", "a", "m"]);
        assert_eq!(of(&["mount", "a", "m", "--background"]), ["mount", "a", "m", "--detached"]);
        let behind = of(&["mount", "--background", "--", "--background", "m"]);
        assert_eq!(behind, ["mount", "--detached", "--", "--background", "m"]);
    }
}
