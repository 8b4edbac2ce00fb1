//! Commands that continue in the background: the command is started again as a separate process.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use crate::failure::Failure;

/// The background process.
pub struct Started {
    /// Its process id.
    pub process: u32,
    /// The rest of the line that it printed when it was ready.
    pub warning: String,
}

/// Starts this command again as a separate process, and waits until it has printed `word` or failed.
pub fn start(word: &str) -> Result<Started, Failure> {
    let program = std::env::current_exe().map_err(Failure::Background)?;
    let arguments = std::env::args_os().skip(1).filter(|argument| argument != "--background");
    let mut child = Command::new(program)
        .args(arguments)
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Failure::Background)?;
    let mut said = String::new();
    let stdout = child.stdout.take().expect("a pipe was asked for");
    BufReader::new(stdout).read_line(&mut said).map_err(Failure::Background)?;
    if let Some(warning) = said.trim_end().strip_prefix(word) {
        return Ok(Started { process: child.id(), warning: warning.to_owned() });
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

/// Called by the background process, so that it does not end with the terminal.
pub fn detach() {
    // A newly started process leads no group, so this cannot fail.
    let _ = nix::unistd::setsid();
}
