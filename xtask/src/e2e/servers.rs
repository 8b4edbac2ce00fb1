//! Database servers under power cuts, and experiments with them under Ctrl-C: tests of the command's crate.

use std::path::Path;

use super::context::{Context, Done, Outcome};
use super::shell::Shell;

/// Servers under power cuts; `TANTALUM_CUTS` and `TANTALUM_SEED` reach the test.
pub fn run(context: &Context, _folder: &Path) -> Outcome {
    test(context, "servers_survive_power_cuts")
}

/// Experiments under Ctrl-C.
pub fn experiments(context: &Context, _folder: &Path) -> Outcome {
    test(context, "interrupted_experiments")
}

fn test(context: &Context, name: &str) -> Outcome {
    Shell::new("cargo")
        .args(["test", "--release", "--quiet", "--workspace", "--features", "tantalum-cli/e2e"])
        .args(["--test", name, "--", "--test-threads=1"])
        .variable("CARGO_TARGET_DIR", &context.target)
        .folder(&context.root)
        .with_output()
        .run()?;
    Ok(Done::Passed)
}
