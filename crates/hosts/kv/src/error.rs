//! The store's errors.

use std::io;
use std::path::PathBuf;

use tantalum::{DeviceError, ProfileError, Status};

use crate::record::Order;

/// Why an operation failed. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key with no bytes, or with more than the namespace takes.
    #[error("the key has {bytes} bytes; in {} it must have 1 to {limit}", kind_of(*order))]
    Key {
        /// Bytes of the key.
        bytes: usize,
        /// The kind of the namespace.
        order: Order,
        /// The limit.
        limit: usize,
    },
    /// A value longer than the drive's capacity.
    #[error("the value of key \"{}\" has {bytes} bytes; the limit is {limit}", key.escape_ascii())]
    ValueTooLarge {
        /// The key.
        key: Box<[u8]>,
        /// Bytes of the value.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// `insert` of a key that already exists.
    #[error("key \"{}\" already exists", key.escape_ascii())]
    KeyExists {
        /// The key.
        key: Box<[u8]>,
    },
    /// `update` of a key that does not exist.
    #[error("key \"{}\" does not exist", key.escape_ascii())]
    NoSuchKey {
        /// The key.
        key: Box<[u8]>,
    },
    /// A namespace that was deleted, or belongs to another store.
    #[error("no such namespace: it was deleted, or belongs to another store")]
    NoSuchNamespace,
    /// A namespace exists, but is of the other kind.
    #[error("namespace {name:?} is {}; open it with `{}`", kind_of(*order), opener_of(*order))]
    OtherOrder {
        /// Its name.
        name: String,
        /// Its kind.
        order: Order,
    },
    /// A range of a hashed namespace.
    #[error(
        "the namespace is hashed, and has no ranges: `list` gives its keys; `namespace` with another name makes an ordered one"
    )]
    NotOrdered,
    /// `list` of an ordered namespace.
    #[error("the keys of an ordered namespace are given by `range`, not by `list`")]
    NotListed,
    /// More was overwritten since a snapshot was opened than the store keeps for snapshots. Nothing else is affected.
    #[error(
        "more than {budget_bytes} bytes were overwritten while the snapshot was open; open a new one, or give the store \
         more memory for snapshots"
    )]
    SnapshotLost {
        /// The memory for snapshots.
        budget_bytes: u64,
    },
    /// The image exists and has another capacity than the options ask for.
    #[error(
        "{} has a capacity of {has} bytes, but {asked} are asked for; `rebuild` copies it into an image of that capacity",
        path.display()
    )]
    Capacity {
        /// The image.
        path: PathBuf,
        /// Its capacity in bytes.
        has: u64,
        /// The capacity in the options.
        asked: u64,
    },
    /// A file that must not exist.
    #[error("{} exists; it is not overwritten", path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file that is not a backup, or a damaged one.
    #[error("{} is not a complete backup: {what}", path.display())]
    Backup {
        /// The backup.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A record whose bytes are not of the requested type (feature `serde`). It is unchanged, and can be read as bytes.
    #[error("the {bytes} bytes of key \"{}\" are not a valid {type_name}: {reason}", key.escape_ascii())]
    NotOfType {
        /// The key.
        key: Box<[u8]>,
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
    /// The lock of a key, or of a range that begins there, belongs to another transaction that the same thread must end, or
    /// that waits for one: to wait would be to wait for ever. This transaction can go on without it.
    #[error(
        "deadlock: the lock of key \"{}\" belongs to another open transaction, which cannot end while this thread waits; \
         use one transaction for both, or end the other one first",
        key.escape_ascii()
    )]
    SelfDeadlock {
        /// The key.
        key: Box<[u8]>,
    },
    /// The store belongs to the process that opened it.
    #[error("the store was opened by process {opened} but is used by process {used}; open it after the fork")]
    Forked {
        /// The process that opened it.
        opened: u32,
        /// The process that uses it.
        used: u32,
    },
    /// The store takes no more changes, because an earlier commit failed and it is unknown whether it took effect, or because
    /// the host had no room when it was opened. Records that such a commit was to change cannot be read. Reopen the store.
    #[error("{}", stopped(reason, *only_read))]
    Stopped {
        /// What went wrong.
        reason: String,
        /// Whether the host failed, for instance because its disk is full.
        is_host: bool,
        /// Whether it could only be opened to be read, so that nothing was changed.
        only_read: bool,
    },
    /// A change of a store that was opened to be read ([`crate::Options::read_only`]).
    #[error("the store was opened to be read; open it without `read_only` to change it")]
    ReadOnly,
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
    /// The value of a record is lost: its flash cannot be read. All others can; deleting or overwriting it drops it.
    #[error(
        "the value of key \"{}\" in namespace {namespace:?} is lost: its flash cannot be read; delete the key, or write it anew",
        key.escape_ascii()
    )]
    Damaged {
        /// The name of the namespace.
        namespace: String,
        /// The key.
        key: Box<[u8]>,
    },
    /// Part of the index of an ordered namespace is lost. What it does not concern can be read and changed.
    #[error(
        "part of the index of namespace {namespace:?} is lost: keys {} cannot be found; `tantalum check --repair` drops them",
        range_text(from, to.as_deref())
    )]
    DamagedIndex {
        /// The name of the namespace.
        namespace: String,
        /// No key before this one is concerned.
        from: Box<[u8]>,
        /// Neither is this one, or any after it.
        to: Option<Box<[u8]>>,
    },
    /// A commit that was interrupted cannot be finished.
    #[error(
        "a commit was interrupted, and opening the store cannot finish it: {reason}; run `tantalum check` for details, and \
         restore the store from a backup"
    )]
    Redo {
        /// Why.
        reason: String,
    },
    /// A commit that was interrupted was written by another version, which is to finish it.
    #[error(
        "a commit was interrupted that another version of the store wrote, in format {found} and not {expected}; open the \
         store with that version, once"
    )]
    RedoFormat {
        /// The format of its log.
        found: u8,
        /// The format that this version writes and reads.
        expected: u8,
    },
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

impl Error {
    /// Whether it concerns some records alone, which are lost, and others can be read.
    pub fn is_damage(&self) -> bool {
        matches!(self, Error::Damaged { .. } | Error::DamagedIndex { .. })
    }

    /// The same for a value whose key is known.
    pub(crate) fn of_key(self, key: &[u8]) -> Error {
        match self {
            Error::Damaged { namespace, .. } => Error::Damaged { namespace, key: key.into() },
            other => other,
        }
    }
}

fn stopped(reason: &str, only_read: bool) -> String {
    if only_read {
        return format!("the store can only be read: {reason}");
    }
    format!(
        "the store takes no more changes: {reason}; what it holds can be read; reopen it once that is mended: every commit \
         that returned is there"
    )
}

fn range_text(from: &[u8], to: Option<&[u8]>) -> String {
    match (from, to) {
        ([], None) => "of any kind".to_owned(),
        ([], Some(to)) => format!("before \"{}\"", to.escape_ascii()),
        (from, None) => format!("from \"{}\" on", from.escape_ascii()),
        (from, Some(to)) => {
            format!("from \"{}\" up to but not including \"{}\"", from.escape_ascii(), to.escape_ascii())
        }
    }
}

fn kind_of(order: Order) -> &'static str {
    match order {
        Order::Hashed => "a hashed namespace",
        Order::Ordered => "an ordered namespace",
    }
}

fn opener_of(order: Order) -> &'static str {
    match order {
        Order::Hashed => "hashed_namespace",
        Order::Ordered => "namespace",
    }
}
