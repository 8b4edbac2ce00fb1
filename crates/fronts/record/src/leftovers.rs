//! Processes that a program leaves running.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Kills the processes with this folder as `$TANTALUM_DIR`, which [`crate::program_in`] sets. A process that has cleared its
/// environment is missed.
pub fn end_in(folder: &Path) {
    let mark = format!("TANTALUM_DIR={}", folder.display());
    let Ok(processes) = fs::read_dir("/proc") else { return };
    for process in processes.filter_map(Result::ok) {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // that of a process that has ended, or of another user, cannot be read
        let Ok(environment) = fs::read(process.path().join("environ")) else { continue };
        if environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            let _ = kill(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}
