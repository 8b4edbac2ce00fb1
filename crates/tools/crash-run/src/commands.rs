//! The user's commands: finding them from another folder, and advice if they do not work.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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
            io::ErrorKind::PermissionDenied => {
                refused_hint(&program, &env::var_os("PATH").unwrap_or_default())
            }
            _ => hint([&program[..]]),
        };
        RunError::Start { program, error, hint }
    }
}

/// Advice about a program that the system refuses to start. It says so too if it could not look into a folder of the search path.
fn refused_hint(program: &str, search_path: &OsStr) -> String {
    let places: Vec<PathBuf> = match program.contains('/') {
        true => vec![found_from_here(OsStr::new(program))],
        false => env::split_paths(search_path).map(|folder| folder.join(program)).collect(),
    };
    let mut out_of_reach = None;
    for place in &places {
        match place.metadata() {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 == 0 => {
                return format!("; make it executable: chmod +x {}", place.display());
            }
            Ok(found) if found.is_dir() && program.contains('/') => return "; it is a folder".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                out_of_reach = out_of_reach.or(place.parent());
            }
            _ => {}
        }
    }
    match out_of_reach {
        Some(folder) if program.contains('/') => format!("; {} cannot be searched", folder.display()),
        Some(folder) => format!("; it was not found, and {} in PATH cannot be searched", folder.display()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_file_that_was_found_is_to_be_made_executable() {
        let place = tempfile::tempdir().unwrap();
        let (file, bin) = (place.path().join("bin/program"), place.path().join("bin"));
        std::fs::create_dir(&bin).unwrap();
        let hint = |program: &str| refused_hint(program, bin.as_os_str());
        assert_eq!(hint("program"), "", "it is not there");
        std::fs::write(&file, "").unwrap();
        let chmod = format!("; make it executable: chmod +x {}", file.display());
        assert_eq!((hint("program"), hint(file.to_str().unwrap())), (chmod.clone(), chmod));
        assert_eq!(hint("nosuchprog"), "");
        assert_eq!(hint(bin.to_str().unwrap()), "; it is a folder");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(hint("program"), "", "it is executable");
    }
}
