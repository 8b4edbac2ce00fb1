//! Processes that a program leaves running, and folders that a killed run leaves behind.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};

/// What has temporary folders.
const OWNERS: [&str; 2] = ["crash-run", "measure"];

/// Which field of `/proc/ID/stat` says where the environment begins, counted from 1; the next says where it ends
/// (proc_pid_stat(5)).
const ENVIRONMENT: usize = 50;

/// How long [`end_in`] looks again for what has not ended: a killed process may wait for a busy disk.
const UNTIL_LEFT: Duration = Duration::from_secs(10);

/// Kills the processes with this folder as `$TANTALUM_DIR`, which [`crate::program_in`] sets, and returns when there is none. A
/// process that has cleared its environment is missed.
pub fn end_in(folder: &Path) {
    let mark = [b"TANTALUM_DIR=", folder.as_os_str().as_bytes()].concat();
    let begun = Instant::now();
    while kill_marked(&mark) && begun.elapsed() < UNTIL_LEFT {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Kills the processes that have this variable in their environment. Returns whether there may be one still.
fn kill_marked(mark: &[u8]) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    let mut is_one_left = false;
    for process in processes.filter_map(Result::ok) {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // that of a process that has ended, or of another user, cannot be read
        let Ok(environment) = fs::read(process.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark) {
            let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
            is_one_left = true;
        } else if environment.is_empty() && is_beginning(&process.path()) {
            is_one_left = true;
        }
    }
    is_one_left
}

/// Whether a process whose environment was empty was between two programs: it has the memory of the new one, and the environment
/// comes last. Threads of the kernel, and what has ended, have no program.
fn is_beginning(process: &Path) -> bool {
    let Ok(stat) = fs::read_to_string(process.join("stat")) else { return false };
    // the second field is the program's name, which may hold anything
    let mut fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_ascii_whitespace();
    let begin = fields.nth(ENVIRONMENT - 3);
    (begin == Some("0") || begin != fields.next()) && fs::read_link(process.join("exe")).is_ok()
}

/// How the name of a temporary folder of this process begins, from which [`left_behind`] knows whose it is.
pub fn folder_prefix(owner: &str) -> String {
    format!("{}{}-", prefix_of(owner), process::id())
}

fn prefix_of(owner: &str) -> String {
    format!("tantalum-{owner}-")
}

/// The temporary folders in `place` of this user's processes that have ended, or that run where they cannot be seen, as in
/// another container.
pub fn left_behind(place: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let is_ours = |path: &Path| {
        fs::symlink_metadata(path).is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
    };
    let is_left = |name: &str| {
        let rest = OWNERS.iter().find_map(|owner| name.strip_prefix(&prefix_of(owner)));
        let id = rest.and_then(|rest| rest.split_once('-')).and_then(|(id, _)| id.parse().ok());
        id.is_some_and(|id: i32| id > 0 && kill(Pid::from_raw(id), None) == Err(Errno::ESRCH))
    };
    let left = entries.filter_map(Result::ok).filter(|entry| entry.file_name().to_str().is_some_and(is_left));
    let mut left: Vec<PathBuf> = left.map(|entry| entry.path()).filter(|path| is_ours(path)).collect();
    left.sort();
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It went on in a folder whose name is not UTF-8.
    #[test]
    fn a_program_is_ended_whatever_bytes_its_folder_has() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(std::ffi::OsStr::from_bytes(b"f\xff"));
        let mut program =
            process::Command::new("sleep").arg("60").env("TANTALUM_DIR", &folder).spawn().unwrap();
        // it has begun
        let environment = format!("/proc/{}/environ", program.id());
        while fs::read(&environment).unwrap().is_empty() {
            std::thread::yield_now();
        }
        end_in(&folder);
        let ended = program.wait().unwrap();
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(Signal::SIGKILL as i32));
    }

    /// What was between two programs had no environment yet, and was left running.
    #[test]
    fn what_has_just_begun_is_ended() {
        let place = tempfile::tempdir().unwrap();
        let script = place.path().join("again");
        fs::write(&script, "exec sh \"$0\"").unwrap();
        for _ in 0..100 {
            let mut always_begins =
                process::Command::new("sh").arg(&script).env("TANTALUM_DIR", place.path()).spawn().unwrap();
            end_in(place.path());
            let has_ended = always_begins.try_wait().unwrap().is_some();
            always_begins.kill().unwrap();
            assert!(has_ended);
        }
    }

    #[test]
    fn only_folders_of_processes_that_have_ended_are_left_behind() {
        let place = tempfile::tempdir().unwrap();
        let mut ended = process::Command::new("true").spawn().unwrap();
        let id = ended.id();
        ended.wait().unwrap();
        let left = format!("tantalum-measure-{id}-abcdef");
        let own = format!("{}abcdef", folder_prefix("crash-run"));
        for name in [left.as_str(), &own, "tantalum-measure-abcdef", "tantalum-crash-run-0-abcdef", "other"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        fs::write(place.path().join(format!("tantalum-crash-run-{id}-file")), "").unwrap();
        assert_eq!(left_behind(place.path()), [place.path().join(left)]);
    }
}
