//! Output to the terminal, which never panics, even if the reader is gone.

use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;

use crate::damage;
use crate::failure::Failure;
use crate::interrupt::INTERRUPTED;

/// Writes text to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes()).and_then(|()| output.flush()).map_err(failure)
}

/// Writes one JSON object to standard output.
pub fn print_json(outcome: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(outcome).expect("outcomes are plain data");
    print(&format!("{text}\n"))
}

/// Writes one JSON object on a line of its own.
pub fn print_json_line(outcome: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string(outcome).expect("outcomes are plain data");
    print(&format!("{text}\n"))
}

/// Writes the result of a command to standard output: as one JSON object, or as text.
pub fn report<T: Serialize>(outcome: &T, json: bool, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
    if json { print_json(outcome) } else { print(&text(outcome)) }
}

/// Writes a line to standard error, ignoring failures.
pub fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

impl Failure {
    /// Prints the error to standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        match self {
            Failure::OutputClosed => return ExitCode::SUCCESS,
            Failure::Interrupted(_) => return ExitCode::from(INTERRUPTED),
            // as a shell does; the program has reported why
            Failure::ProgramEnded { code } => return ExitCode::from(u8::try_from(*code).unwrap_or(1)),
            Failure::BackgroundEnded { message, .. } => complain(message),
            other => complain(&format!("error: {other}")),
        }
        ExitCode::from(if self.is_finding() { 1 } else { 2 })
    }

    /// Whether the request was carried out, but found something wrong.
    fn is_finding(&self) -> bool {
        match self {
            Failure::Mismatch
            | Failure::Damaged { .. }
            | Failure::Violations { .. }
            | Failure::FailedChecks { .. }
            | Failure::ProgramFaulted
            | Failure::CheckFailedAgain { .. } => true,
            Failure::BackgroundEnded { code, .. } => *code == Some(1),
            Failure::Image { error, .. } => damage::of_device(error),
            Failure::Volume { error, .. } => damage::of_volume(error),
            Failure::LogStructured { error, .. } => damage::of_logs(error),
            _ => false,
        }
    }
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => Failure::Output(error),
    }
}
