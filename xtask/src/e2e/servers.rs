//! Database servers through power cuts: a test of the command's crate.

use std::path::Path;

use super::shell::Shell;
use super::{Context, Done, Outcome};

const TEST: &str = "servers_survive_power_cuts";

/// Runs the test; `TANTALUM_CUTS` and `TANTALUM_SEED` reach it.
pub fn run(context: &Context, _folder: &Path) -> Outcome {
    Shell::new("cargo")
        .args(["test", "--release", "--quiet", "-p", "tantalum-cli", "--features", "e2e", "--test", TEST])
        .args(["--", "--test-threads=1"])
        .variable("CARGO_TARGET_DIR", &context.target)
        .folder(&context.root)
        .with_output()
        .run()?;
    Ok(Done::Passed)
}
