//! A program with a folder to work in.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program and its arguments in a folder: it is the working directory and `$TANTALUM_DIR`, and `{}` in an argument stands
/// for it. The program must not be empty.
pub fn program_in(words: &[OsString], folder: &Path) -> Command {
    let (program, arguments) = words.split_first().expect("there is a program");
    let mut command = Command::new(found_from_here(program));
    command.args(arguments.iter().map(|argument| with_folder(argument, folder)));
    command.current_dir(folder).env("TANTALUM_DIR", folder);
    command
}

/// A program given as a relative path still means the same file when run in another folder.
pub fn found_from_here(program: &OsStr) -> PathBuf {
    let path = Path::new(program);
    match path.components().count() > 1 || path.is_absolute() {
        true => std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
        false => path.to_owned(),
    }
}

/// An argument in which `{}` is the folder.
fn with_folder(argument: &OsStr, folder: &Path) -> OsString {
    match (argument.to_str(), folder.to_str()) {
        (Some(argument), Some(folder)) => argument.replace("{}", folder).into(),
        _ => argument.to_owned(),
    }
}
