//! A program that is run to its end.

use std::process::{Command, Stdio};

use super::ServerError;

/// Characters of a log or of an output that an error shows.
const END: usize = 600;

/// Runs a program to its end; the error contains its output.
pub(super) fn run(name: &str, command: &mut Command) -> Result<Vec<u8>, ServerError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| ServerError::Run { program: name.to_owned(), error })?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = [output.stdout, output.stderr].concat();
    Err(ServerError::Failed {
        program: name.to_owned(),
        status: output.status.to_string(),
        message: end(&String::from_utf8_lossy(&said)),
    })
}

/// The end of a log or of an output, as an error shows it.
pub(super) fn end(text: &str) -> String {
    let text = text.trim();
    let skipped = text.chars().count().saturating_sub(END);
    text.chars().skip(skipped).collect()
}
