//! How the store fails.

use std::io;

/// Why an operation failed. Nothing has changed unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An empty key, or one that is too long.
    #[error("a key has 1 to {limit} bytes, this one has {bytes}")]
    BadKey {
        /// Its length in bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A value that is too long.
    #[error("the value has {bytes} bytes; the limit is {limit}")]
    ValueTooLarge {
        /// Its length in bytes.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// A file without any whole header.
    #[error("{name} is not a document store: it has no complete header; restore it or remove it")]
    NotAStore {
        /// The file.
        name: String,
    },
    /// A file with another layout version.
    #[error("{name} has layout version {found}, this program reads version {supported}")]
    OtherVersion {
        /// The file.
        name: String,
        /// Its version.
        found: u32,
        /// The supported version.
        supported: u32,
    },
    /// Something in the file has a wrong checksum, or is not what the reference to it expects.
    #[error("{name} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        name: String,
        /// Where it is in the file, in bytes.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A change of a store that could only be opened to be read.
    #[error("{name} can only be read: {why}")]
    ReadOnly {
        /// The file.
        name: String,
        /// Why the store could only be opened to be read.
        why: String,
    },
    /// A commit failed, and it is unknown whether it took effect.
    #[error("a commit failed, and may or may not be stored: open the store again")]
    Stopped,
    /// Another compaction is in progress.
    #[error("the store is already being compacted")]
    CompactionUnderWay,
    /// The file system refused. If a commit returns this, the store stops ([`Error::Stopped`]), unless
    /// it was full.
    #[error(transparent)]
    Io(#[from] io::Error),
}
