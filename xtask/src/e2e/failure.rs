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

/// What a command did; none if it ended badly, having said why in one line. Any other failure is passed on: of a command that
/// has begun something, as it may still be there.
pub fn unless_refused<T>(outcome: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match outcome {
        Ok(done) => Ok(Some(done)),
        Err(Failure::Command { said, .. }) if said.starts_with("error: ") && said.lines().count() == 1 => {
            Ok(None)
        }
        Err(failure) => Err(failure),
    }
}

/// Fails unless something holds.
pub fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), Failure> {
    if holds { Ok(()) } else { Err(Failure::Wrong(wrong())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A step took a server that it did not understand for one that was refused, and found its image in use later.
    #[test]
    fn only_a_command_that_ended_badly_was_refused() {
        let command = |said: &str| {
            let [command, how] = ["serve", "ended with exit status: 2"].map(str::to_owned);
            Err::<(), Failure>(Failure::Command { command, how, said: said.to_owned() })
        };
        assert!(matches!(unless_refused(command("error: the disk is full")), Ok(None)));
        assert!(unless_refused(command("thread 'main' panicked\nerror: no")).is_err());
        assert!(unless_refused(command("")).is_err());
        assert!(unless_refused::<()>(Err(Failure::Wrong("serve said \"\"".to_owned()))).is_err());
        assert!(matches!(unless_refused(Ok(3)), Ok(Some(3))));
    }
}
