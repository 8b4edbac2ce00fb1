//! Why reading or changing the drive failed, inside the store.

use std::fmt;

use tantalum::{NamespaceId, Status};

use crate::error::Error;

#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Drive(Status),
    /// It is unknown what is on the disk, or only a part of a commit is in place.
    Stops(String),
    /// A node of an ordered namespace's tree is damaged or missing.
    Node {
        namespace: NamespaceId,
        node: u64,
    },
    /// More was overwritten than the store keeps for snapshots.
    SnapshotLost {
        budget_bytes: usize,
    },
}

impl Failure {
    /// Whether it is unknown what is on the drive.
    pub fn stops(&self) -> Option<String> {
        match self {
            Failure::Drive(status) => status.leaves_doubt().then(|| status.to_string()),
            Failure::Stops(reason) => Some(reason.clone()),
            Failure::Node { .. } | Failure::SnapshotLost { .. } => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Error::from(self.clone()).fmt(f)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Drive(status)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Drive(Status::NoSuchNamespace { .. }) => Error::NoSuchNamespace,
            Failure::Drive(status) => Error::Drive(status),
            Failure::Stops(reason) => Error::Stopped { reason },
            Failure::Node { namespace, node } => Error::Tree { namespace: namespace.0, node },
            Failure::SnapshotLost { budget_bytes } => {
                Error::SnapshotLost { budget_bytes: budget_bytes as u64 }
            }
        }
    }
}
