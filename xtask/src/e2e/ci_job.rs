//! The job for continuous integration that docs/crash-run.md prints, and the script beside it, in a copy of docs/ci: what is
//! written there is what runs.

use std::fs;
use std::path::{Path, PathBuf};

use super::context::{Context, Done, Outcome};
use super::failure::{Failure, ensure};
use super::shell::Shell;

/// What a runner of GitHub does with a line.
const RUNNER: [&str; 5] = ["--noprofile", "--norc", "-eo", "pipefail", "-c"];

/// The lines that docs/ci/my-program must have to survive.
const SYNC: &str = "        os.fsync(file)\n";

pub fn run(context: &Context, folder: &Path) -> Outcome {
    let job = steps(&fs::read_to_string(context.root.join("docs/ci/power-loss.yml"))?)?;
    let printed = fs::read_to_string(context.root.join("docs/crash-run.md"))?;
    ensure(steps(&printed)? == job, || "docs/crash-run.md prints another job".to_owned())?;
    for survives in [true, false] {
        let project = project(context, &folder.join(format!("survives-{survives}")), survives)?;
        let mut tried = 0;
        for step in &job {
            tried += u64::from(follow(context, &project, step, survives)?);
        }
        ensure(tried == 1, || format!("{tried} steps of the job run tantalum: {job:?}"))?;
        let has_findings = ["findings", "findings.html"].map(|name| project.join(name).exists());
        ensure(has_findings == [!survives, true], || format!("findings, and a page: {has_findings:?}"))?;
        let said = ended(context, &project, "./power-loss.sh", survives)?;
        let wanted = if survives { "survives power loss\n" } else { "does not: see findings.html" };
        ensure(said.starts_with(wanted), || said.clone())?;
        let outcome: serde_json::Value = serde_json::from_slice(&fs::read(project.join("outcome.json"))?)?;
        ensure((outcome["failed"] == 0) == survives, || outcome.to_string())?;
    }
    Ok(Done::Passed)
}

/// A copy of docs/ci, whose program forgets a sync if it is not to survive.
fn project(context: &Context, folder: &Path, survives: bool) -> Result<PathBuf, Failure> {
    Shell::new("cp").args(["-r"]).args([&context.root.join("docs/ci"), folder]).run()?;
    if !survives {
        let (path, text) = (folder.join("my-program"), fs::read_to_string(folder.join("my-program"))?);
        ensure(text.contains(SYNC), || "the program has no sync to forget".to_owned())?;
        fs::write(path, text.replace(SYNC, ""))?;
    }
    Ok(folder.to_owned())
}

/// The shell commands of a job's steps, in their order: `- run: COMMAND`, or `- run: >` with the command's parts behind it.
fn steps(job: &str) -> Result<Vec<String>, Failure> {
    let mut steps = Vec::new();
    let mut lines = job.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(command) = line.trim_start().strip_prefix("- run: ") else { continue };
        let indent = line.len() - line.trim_start().len();
        let mut command = command.split(" #").next().unwrap_or_default().trim().to_owned();
        if command == ">" {
            command.clear();
            let is_deeper = |next: &&str| next.len() - next.trim_start().len() > indent + 2;
            while let Some(part) = lines.next_if(is_deeper) {
                command = format!("{command} {}", part.trim()).trim().to_owned();
            }
        }
        steps.push(command);
    }
    ensure(!steps.is_empty(), || "the job has no steps".to_owned())?;
    Ok(steps)
}

/// Follows a step. Whether it was one that runs tantalum.
fn follow(context: &Context, project: &Path, step: &str, survives: bool) -> Result<bool, Failure> {
    if step.starts_with("sudo apt-get update && sudo apt-get install -y fuse3") {
        // e2e has installed it
        Shell::new("fusermount3").args(["--version"]).run()?;
        return Ok(false);
    }
    if step.starts_with("cargo install --locked --git ") {
        // takes the time of a release build; what it names must exist
        let package = step.split(' ').next_back().unwrap_or_default();
        let manifest = fs::read_to_string(context.root.join("crates/cli/Cargo.toml"))?;
        ensure(manifest.contains(&format!("name = \"{package}\"")), || format!("no package {package}"))?;
        ensure(context.root.join("Cargo.lock").exists(), || "--locked needs a Cargo.lock".to_owned())?;
        return Ok(false);
    }
    ensure(step.starts_with("tantalum "), || format!("nobody knows how to follow {step:?}"))?;
    ended(context, project, step, survives)?;
    Ok(true)
}

/// Runs a command with `tantalum` in the path, which ends with 0 or 1. Returns what it printed.
fn ended(context: &Context, project: &Path, command: &str, survives: bool) -> Result<String, Failure> {
    let programs = context.tantalum.parent().expect("it is in a folder").as_os_str().to_owned();
    let path = [programs, std::env::var_os("PATH").unwrap_or_default()].join(std::ffi::OsStr::new(":"));
    let mut shell = Shell::new("bash").args(RUNNER).args([command]).variable("PATH", path).folder(project);
    let output = shell.output()?;
    ensure(output.status.code() == Some(i32::from(!survives)), || {
        format!("{command} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
