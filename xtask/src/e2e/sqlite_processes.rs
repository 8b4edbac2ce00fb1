//! Several processes use one SQLite database on a mount, in turns that a seed draws, in lockstep with plain SQLite on an ordinary
//! file; processes are killed, and the drive loses power (`sqlite_processes.py`). `SEED` and `ROUNDS` choose another run, or a
//! longer one.

use std::fs;
use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// Rounds, each of which ends with a power cut or a kill, on each file system.
const ROUNDS: u64 = 3;
/// Rounds within which a SQLite that does not sync is found out.
const ROUNDS_WITHOUT_SYNCS: u64 = 20;

pub fn run(context: &Context, folder: &Path) -> Outcome {
    if let Err(failure) = Shell::new("python3").args(["-c", "import sqlite3"]).run() {
        return Ok(Done::LeftOut(format!("python3 with sqlite3 is missing: {failure}")));
    }
    let number = |name, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (seed, rounds) = (number("SEED", 1), number("ROUNDS", ROUNDS));
    let mut said = Vec::new();
    for file_system in ["volume", "lfs-nat", "lfs-tree"] {
        let done = torture(context, folder, file_system, seed, rounds, &[])?;
        said.push(format!("{file_system}: {}", done.split(';').next().unwrap_or_default()));
    }
    let found = torture(context, folder, "volume", seed, ROUNDS_WITHOUT_SYNCS, &["--without-syncs"]);
    match found {
        Err(Failure::Wrong(found)) => {
            ensure(found.contains("not the contents"), || format!("without syncs: {found}"))?;
        }
        _ => {
            return Err(Failure::Wrong(format!(
                "without syncs nothing was lost in {ROUNDS_WITHOUT_SYNCS} rounds"
            )));
        }
    }
    Ok(Done::Said(said.join(", ")))
}

/// Runs one seed on one file system. Returns what was done.
fn torture(
    context: &Context,
    folder: &Path,
    file_system: &str,
    seed: u64,
    rounds: u64,
    more: &[&str],
) -> Result<String, Failure> {
    let folder = folder.join(format!("{file_system}{}", more.concat()));
    fs::create_dir(&folder)?;
    let plain = folder.join("plain");
    let _mounted = Unmounted(&folder);
    let program = context.root.join("xtask/src/e2e/sqlite_processes.py");
    let output = Shell::new("python3")
        .args([&program, &context.tantalum, &folder, &plain])
        .args(["--file-system", file_system, "--seed", &seed.to_string(), "--rounds", &rounds.to_string()])
        .args(more)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure(output.status.success(), || {
        format!("{file_system}: {}", String::from_utf8_lossy(&output.stderr).trim_end())
    })?;
    Ok(said)
}

/// Unmounts what a failed run has left.
struct Unmounted<'a>(&'a Path);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        let _ = Shell::new("umount").args(["--lazy"]).args([self.0.join("mnt")]).output();
    }
}
