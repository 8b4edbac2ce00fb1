//! What all steps share, and how each ends.

use std::path::PathBuf;

use super::failure::Failure;

/// What a mount needs.
pub const FUSE: &str = "/dev/fuse";

/// How a step that did not fail ended.
pub enum Done {
    Passed,
    /// With a line to print.
    Said(String),
    /// Why this machine cannot run it.
    LeftOut(String),
}

pub type Outcome = Result<Done, Failure>;

/// What all steps share.
pub struct Context {
    /// The program under test.
    pub tantalum: PathBuf,
    /// The repository.
    pub root: PathBuf,
    /// Where built programs are.
    pub target: PathBuf,
}

impl Context {
    /// For the repository with this root.
    pub fn new(root: PathBuf) -> Context {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Context { tantalum: target.join("release/tantalum"), root, target }
    }

    /// Where programs of others are, which steps build.
    pub fn tools(&self) -> PathBuf {
        self.target.join("e2e-tools")
    }
}
