//! How a step fails.

use std::io;

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A command ended badly.
    #[error("`{command}` {how}\n{said}")]
    Command {
        /// The command.
        command: String,
        /// How it ended.
        how: String,
        /// What it printed.
        said: String,
    },
    /// Something was not as it should be.
    #[error("{0}")]
    Wrong(String),
    /// The system.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What should have been JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Packages that only root can install.
    #[error("missing: {0}; as root: apt-get install {0}")]
    Packages(String),
}

/// Fails unless something holds.
pub fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::Wrong(wrong())) }
}
