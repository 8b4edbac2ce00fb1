//! Database servers under power cuts, and experiments with them under Ctrl-C: tests of the command's crate.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::FEATURES;
use super::context::{Context, Done, Outcome};
use super::failure::Failure;
use super::shell::Shell;

/// Servers under power cuts; `TANTALUM_CUTS` and `TANTALUM_SEED` reach the test.
pub fn run(context: &Context, _folder: &Path) -> Outcome {
    test(context, SERVERS, "")
}

/// Experiments under Ctrl-C, and one that is watched.
pub fn experiments(context: &Context, _folder: &Path) -> Outcome {
    test(context, EXPERIMENTS, "")?;
    test(context, MANY, "the_drive_that_an_experiment_mounts_for_a_server_is_seen")
}

/// Programs of tests.
const SERVERS: &str = "servers_survive_power_cuts";
const EXPERIMENTS: &str = "interrupted_experiments";
const MANY: &str = "it";

pub fn build(context: &Context) -> Result<(), Failure> {
    build_tests(context, &[SERVERS])
}

pub fn build_experiments(context: &Context) -> Result<(), Failure> {
    build_tests(context, &[EXPERIMENTS, MANY])
}

/// Builds programs of tests, and links to them from the folder of tools. The whole workspace is named, so that its libraries are
/// not built with other features.
fn build_tests(context: &Context, programs: &[&str]) -> Result<(), Failure> {
    let printed = Shell::new("cargo")
        .args(["test", "--release", "--quiet", "--workspace", "--features", FEATURES, "--no-run"])
        .args(["--message-format", "json"])
        .args(programs.iter().flat_map(|program| ["--test", program]))
        .variable("CARGO_TARGET_DIR", &context.target)
        .folder(&context.root)
        .run()?;
    let built: Vec<Value> = printed.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let of_cli = |message: &&Value| {
        message["manifest_path"].as_str().is_some_and(|path| path.ends_with("crates/cli/Cargo.toml"))
    };
    fs::create_dir_all(context.tools())?;
    for program in programs {
        let is_it =
            |message: &&Value| message["target"]["name"] == **program && message["executable"].is_string();
        let message = built.iter().filter(of_cli).find(is_it);
        let executable = message.and_then(|message| message["executable"].as_str());
        let executable =
            executable.ok_or_else(|| Failure::Wrong(format!("cargo built no test {program}")))?;
        let link = link_to(context, program);
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(executable, link)?;
    }
    Ok(())
}

fn link_to(context: &Context, program: &str) -> PathBuf {
    context.tools().join(format!("test-{program}"))
}

/// Ignored tests of a program whose names contain `test`, of which there must be one.
fn test(context: &Context, program: &str, test: &str) -> Outcome {
    let shell = || {
        Shell::new(link_to(context, program))
            .args(["--ignored", test])
            .folder(&context.root.join("crates/cli"))
    };
    let listed = shell().args(["--list"]).run()?;
    if !listed.lines().any(|line| line.ends_with(": test")) {
        return Err(Failure::Wrong(format!("{program} has no ignored test whose name contains '{test}'")));
    }
    shell().args(["--test-threads=1"]).run()?;
    Ok(Done::Passed)
}
