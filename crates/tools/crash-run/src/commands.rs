//! The user's commands: finding them from another folder, and advice if they do not work.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;

use tantalum_record::found_from_here;

use crate::error::RunError;

/// A command to start: the file of that name as seen from the current folder, wherever it will run, or else a shell that
/// executes it.
pub(crate) fn command_of(command: &str) -> Command {
    let path = found_from_here(OsStr::new(command));
    if path.is_file() {
        return Command::new(path);
    }
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(command);
    shell
}

/// The command in a form that works from any folder.
pub(crate) fn for_any_folder(command: &str) -> String {
    let path = found_from_here(OsStr::new(command));
    if path.is_file() { path.display().to_string() } else { command.to_owned() }
}

/// Advice about a word that names a file here, but not in the folder in which the command runs. Empty if there is none.
pub(crate) fn hint<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let seen_here = words.into_iter().find(|word| Path::new(word).is_relative() && Path::new(word).is_file());
    match seen_here.and_then(|word| Some((word, std::path::absolute(word).ok()?))) {
        Some((word, path)) => format!("; it runs in another folder, so write {} for {word}", path.display()),
        None => String::new(),
    }
}

/// The error of a program that could not be started.
pub(crate) fn not_started(program: &str) -> impl FnOnce(io::Error) -> RunError {
    let program = program.to_owned();
    move |error| {
        let hint = match error.kind() {
            io::ErrorKind::PermissionDenied => format!("; make it executable: chmod +x {program}"),
            _ => hint([&program[..]]),
        };
        RunError::Start { program, error, hint }
    }
}
