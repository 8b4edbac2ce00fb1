//! How the store fails.

use std::io;
use std::path::PathBuf;

use tantalum::{DeviceError, Key, KeyError, ProfileError, Status};

/// Why something was not done. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key without bytes, or with more than 16.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A value longer than the drive takes.
    #[error("the value of key {key} has {bytes} bytes; the limit is {limit}")]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// How many it has.
        bytes: u64,
        /// What would be right.
        limit: u64,
    },
    /// More than one `put` of the drive takes. The transaction goes on without this change.
    #[error("{what} of a transaction: {asked} with this change, but the limit is {limit}; commit in parts")]
    TransactionTooLarge {
        /// What is limited.
        what: &'static str,
        /// What it would be.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// `insert` of a key that is there.
    #[error("key {key} already exists")]
    KeyExists {
        /// The key.
        key: Key,
    },
    /// `update` of a key that is not there.
    #[error("key {key} does not exist")]
    NoSuchKey {
        /// The key.
        key: Key,
    },
    /// A namespace that was deleted, or is of another store.
    #[error("no such namespace: it was deleted, or belongs to another store")]
    NoSuchNamespace,
    /// A record read as a type that its bytes are not (feature `serde`). The record stays, and can be read as bytes.
    #[error("the {bytes} bytes of key {key} are not a valid {type_name}: {reason}")]
    NotOfType {
        /// The key.
        key: Key,
        /// How many there are.
        bytes: u64,
        /// What it was read as.
        type_name: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// A value of a type that has no form as bytes (feature `serde`), such as a sequence of unknown length.
    #[error("cannot store a {type_name}: {reason}")]
    NotEncodable {
        /// Its type.
        type_name: &'static str,
        /// What it lacks.
        reason: String,
    },
    /// A name that no namespace can have.
    #[error("the namespace's name has {bytes} bytes; it must have 1 to 255")]
    Name {
        /// How many it has.
        bytes: usize,
    },
    /// Others wait for this transaction, and it would wait for them: it gives way. Abort it and begin again, as
    /// [`crate::Store::transact`] does.
    #[error("deadlock: this transaction gave way to an older one; abort it and try again")]
    Deadlock,
    /// The store belongs to the process that opened it.
    #[error("the store was opened by process {opened} but is used by process {used}; open it after the fork")]
    Forked {
        /// The process that opened it.
        opened: u32,
        /// The process that uses it.
        used: u32,
    },
    /// An earlier commit failed, and it cannot be told whether it is there: open the store again.
    #[error("the store has stopped: {reason}; reopen it: everything that was committed is there")]
    Stopped {
        /// What went wrong.
        reason: String,
    },
    /// An option that no store can have.
    #[error("{what} is {asked}; it must be {expected}")]
    Option {
        /// Which.
        what: &'static str,
        /// What was asked for.
        asked: u64,
        /// What would be right.
        expected: &'static str,
    },
    /// The record that names the namespaces is damaged.
    #[error("the list of namespaces is damaged; run `tantalum check` for details")]
    Catalog,
    /// The drive refused a command.
    #[error(transparent)]
    Drive(#[from] Status),
    /// The image could not be made or opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The profile.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The host.
    #[error("{}: cannot {action}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        action: &'static str,
        /// The host's error.
        source: io::Error,
    },
}
