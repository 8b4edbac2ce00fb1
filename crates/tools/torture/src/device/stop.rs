//! Why a run cannot continue.

use std::fmt::Display;
use std::io::ErrorKind;

use tantalum::{DeviceError, HostError, Status};

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Broken {
    /// `D1` to `D5`; `running drive` for an error without a cut, `refused` for a command that should have been
    /// accepted, `panic`.
    pub promise: &'static str,
    pub detail: String,
    /// The machine's disk failed it, which is no promise of the drive, unless a host fails on purpose.
    pub by_machine: bool,
}

/// The promise of the machine: that an image can be made.
pub(crate) const MACHINE: &str = "machine";

/// Whether the machine failed, rather than that the image is not what it should be.
fn is_of_machine(error: &HostError) -> bool {
    !matches!(error.kind, ErrorKind::UnexpectedEof | ErrorKind::InvalidData | ErrorKind::InvalidInput)
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
        Stop::Broken(Broken { promise, detail: detail.into(), by_machine: false })
    }

    /// The machine failed the test itself: an image could not be made.
    pub fn machine(error: &dyn Display) -> Stop {
        Stop::Broken(Broken { promise: MACHINE, detail: error.to_string(), by_machine: true })
    }

    /// A command was refused that should have been accepted.
    pub fn refused(status: &Status) -> Stop {
        let by_machine = matches!(status, Status::Host(error) if is_of_machine(error));
        Stop::Broken(Broken { promise: "refused", detail: status.to_string(), by_machine })
    }

    /// Recovery fails.
    pub fn not_recovered(error: &DeviceError) -> Stop {
        let by_machine = error.host().is_some_and(is_of_machine);
        Stop::Broken(Broken { promise: "D5", detail: format!("recovery fails: {error}"), by_machine })
    }
}

impl From<Status> for Stop {
    fn from(status: Status) -> Stop {
        match status {
            Status::PowerLost => Stop::PowerLost,
            other => Stop::refused(&other),
        }
    }
}
