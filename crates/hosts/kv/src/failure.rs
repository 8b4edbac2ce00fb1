//! Why reading or changing the drive failed, inside the store.

use std::fmt;

use tantalum::{NamespaceId, Status};

use crate::error::Error;
use crate::record::Name;
use crate::tree::Gap;

/// Why a store stops.
#[derive(Clone, Debug)]
pub(crate) struct Cause {
    pub reason: String,
    /// Whether the host failed.
    pub is_host: bool,
    /// Whether the image was opened to be read, so that nothing was changed since.
    pub only_read: bool,
}

impl From<&Status> for Cause {
    fn from(status: &Status) -> Cause {
        let mut inner = status;
        while let Status::Unfinished(why) = inner {
            inner = why;
        }
        let is_host = matches!(inner, Status::Host(_) | Status::WriteProtected(_));
        match inner {
            Status::WriteProtected(host) => {
                Cause { reason: format!("{host}; {}", host.remedy()), is_host, only_read: true }
            }
            _ => Cause { reason: status.to_string(), is_host, only_read: false },
        }
    }
}

impl From<Cause> for Error {
    fn from(Cause { reason, is_host, only_read }: Cause) -> Error {
        Error::Stopped { reason, is_host, only_read }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Drive(Status),
    /// It is unknown what is on the disk, or only a part of a commit is in place.
    Stops(Cause),
    /// A node of an ordered namespace's tree is damaged or missing.
    Node {
        namespace: NamespaceId,
    },
    /// A part of an ordered namespace's tree cannot be read.
    Lost {
        namespace: NamespaceId,
        gap: Gap,
    },
    /// What a commit that was interrupted refers to is not there.
    Interrupted {
        namespace: NamespaceId,
        what: &'static str,
    },
    /// More was overwritten than the store keeps for snapshots.
    SnapshotLost {
        budget_bytes: usize,
    },
}

impl Failure {
    /// Whether it is unknown what is on the drive.
    pub fn stops(&self) -> Option<Cause> {
        match self {
            Failure::Drive(status) => status.leaves_doubt().then(|| status.into()),
            Failure::Stops(cause) => Some(cause.clone()),
            Failure::Node { .. }
            | Failure::Lost { .. }
            | Failure::Interrupted { .. }
            | Failure::SnapshotLost { .. } => None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.clone().in_store(|namespace| format!("number {}", namespace.0)).fmt(f)
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Failure {
        Failure::Drive(status)
    }
}

impl Failure {
    /// A record that must be there, but is not.
    pub fn missing((namespace, key): Name) -> Failure {
        Failure::Drive(Status::RecordUnreadable { namespace, key })
    }

    pub fn interrupted(namespace: NamespaceId, what: &'static str) -> Failure {
        Failure::Interrupted { namespace, what }
    }

    /// Whether records are lost, and others can be read.
    pub fn is_damage(&self) -> bool {
        let drive = |status: &Status| matches!(status, Status::RecordUnreadable { .. });
        matches!(self, Failure::Node { .. } | Failure::Lost { .. })
            || matches!(self, Failure::Drive(status) if drive(status))
    }

    /// The error for a user, who knows namespaces by their names.
    pub fn in_store(self, name_of: impl Fn(NamespaceId) -> String) -> Error {
        match self {
            Failure::Drive(Status::NoSuchNamespace { .. }) => Error::NoSuchNamespace,
            Failure::Stops(cause) => cause.into(),
            Failure::Drive(Status::RecordUnreadable { namespace, key }) => {
                Error::Damaged { namespace: name_of(namespace), key: key.as_bytes().into() }
            }
            Failure::Drive(status) => Error::Drive(status),
            Failure::Node { namespace } => {
                Error::DamagedIndex { namespace: name_of(namespace), from: Box::default(), to: None }
            }
            Failure::Lost { namespace, gap: Gap { from, to } } => Error::DamagedIndex {
                namespace: name_of(namespace),
                from: from[..].into(),
                to: to.map(|to| to[..].into()),
            },
            Failure::Interrupted { namespace: NamespaceId(number), what } => {
                Error::Redo { reason: format!("in namespace {number}, {what}") }
            }
            Failure::SnapshotLost { budget_bytes } => {
                Error::SnapshotLost { budget_bytes: budget_bytes as u64 }
            }
        }
    }
}
