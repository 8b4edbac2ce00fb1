//! The store's errors.

use std::io;
use std::path::PathBuf;

use tantalum::{DeviceError, Key, KeyError, ProfileError, Status};

/// Why an operation failed. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key with no bytes, or with more than 16.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A value longer than the drive takes.
    #[error("the value of key {key} has {bytes} bytes; the limit is {limit}")]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// Bytes of the value.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// More than one `put` of the drive takes. The transaction goes on without this change.
    #[error("{what} of a transaction: {asked} with this change, but the limit is {limit}; commit in parts")]
    TransactionTooLarge {
        /// What is limited.
        what: &'static str,
        /// What this change would make it.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// `insert` of a key that already exists.
    #[error("key {key} already exists")]
    KeyExists {
        /// The key.
        key: Key,
    },
    /// `update` of a key that does not exist.
    #[error("key {key} does not exist")]
    NoSuchKey {
        /// The key.
        key: Key,
    },
    /// A namespace that was deleted, or belongs to another store.
    #[error("no such namespace: it was deleted, or belongs to another store")]
    NoSuchNamespace,
    /// A record whose bytes are not of the requested type (feature `serde`). It is unchanged, and can be read as bytes.
    #[error("the {bytes} bytes of key {key} are not a valid {type_name}: {reason}")]
    NotOfType {
        /// The key.
        key: Key,
        /// Bytes of the record.
        bytes: u64,
        /// The requested type.
        type_name: &'static str,
        /// What does not fit.
        reason: String,
    },
    /// A value whose type cannot be encoded (feature `serde`), such as a sequence of unknown length.
    #[error("cannot store a {type_name}: {reason}")]
    NotEncodable {
        /// Its type.
        type_name: &'static str,
        /// Why it cannot be encoded.
        reason: String,
    },
    /// An invalid name of a namespace.
    #[error("the namespace's name has {bytes} bytes; it must have 1 to 255")]
    Name {
        /// Bytes of the name.
        bytes: usize,
    },
    /// A deadlock: this transaction gives way. Abort it and begin again, as [`crate::Store::transact`] does.
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
    /// An earlier commit failed, and it is unknown whether it took effect: reopen the store.
    #[error("the store has stopped: {reason}; reopen it: every commit that returned is there")]
    Stopped {
        /// What went wrong.
        reason: String,
    },
    /// An invalid option.
    #[error("{what} is {asked}; it must be {expected}")]
    Option {
        /// The option.
        what: &'static str,
        /// The value given.
        asked: u64,
        /// What would be valid.
        expected: &'static str,
    },
    /// The record that names the namespaces is damaged.
    #[error("the list of namespaces is damaged; run `tantalum check` for details")]
    Catalog,
    /// The drive refused a command.
    #[error(transparent)]
    Drive(#[from] Status),
    /// The image could not be created or opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The host failed.
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
