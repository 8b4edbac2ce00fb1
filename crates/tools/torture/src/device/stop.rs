//! Why a run cannot continue.

use tantalum::Status;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    /// `D1` to `D5`; `running drive` for an error without a cut, `refused` for a command that should have been
    /// accepted, `panic`.
    pub promise: &'static str,
    pub detail: String,
}

/// Why a command of the run was not executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// The plan's power cut came.
    PowerLost,
    Broken(Broken),
}

impl Stop {
    pub fn broken(promise: &'static str, detail: impl Into<String>) -> Stop {
        Stop::Broken(Broken { promise, detail: detail.into() })
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Stop {
        match status {
            Status::PowerLost => Stop::PowerLost,
            other => Stop::broken("refused", other.to_string()),
        }
    }
}
