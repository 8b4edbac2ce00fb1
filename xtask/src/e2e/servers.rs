//! Database servers under power cuts, and experiments with them under Ctrl-C: tests of the command's crate.

use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::failure::Failure;
use super::shell::Shell;

/// Servers under power cuts; `TANTALUM_CUTS` and `TANTALUM_SEED` reach the test.
pub fn run(context: &Context, _folder: &Path) -> Outcome {
    test(context, "servers_survive_power_cuts", "")
}

/// Experiments under Ctrl-C, and one that is watched.
pub fn experiments(context: &Context, _folder: &Path) -> Outcome {
    test(context, "interrupted_experiments", "")?;
    test(context, "it", "the_drive_that_an_experiment_mounts_for_a_server_is_seen")
}

/// Ignored tests of a program whose names contain `test`, of which there must be one.
fn test(context: &Context, program: &str, test: &str) -> Outcome {
    let listed = cargo_test(context, program, &["--list", test]).run()?;
    if !listed.lines().any(|line| line.ends_with(": test")) {
        return Err(Failure::Wrong(format!("{program} has no ignored test whose name contains '{test}'")));
    }
    cargo_test(context, program, &["--test-threads=1", test]).with_output().run()?;
    Ok(Done::Passed)
}

/// Ignored tests of a program. The whole workspace is named, so that its libraries are not built with other features.
fn cargo_test(context: &Context, program: &str, arguments: &[&str]) -> Shell {
    Shell::new("cargo")
        .args(["test", "--release", "--quiet", "--workspace", "--test", program, "--", "--ignored"])
        .args(arguments)
        .variable("CARGO_TARGET_DIR", &context.target)
        .folder(&context.root)
}
