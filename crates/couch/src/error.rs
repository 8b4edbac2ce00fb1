//! How the store fails.

use std::io;

/// Why something was not done. Nothing was changed, unless the variant says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key without bytes, or with too many.
    #[error("a key has 1 to {limit} bytes, this one has {bytes}")]
    BadKey {
        /// How many it has.
        bytes: usize,
        /// The most that would do.
        limit: usize,
    },
    /// A value with too many bytes.
    #[error("the value has {bytes} bytes, {limit} is the most")]
    ValueTooLarge {
        /// How many it has.
        bytes: usize,
        /// The most that would do.
        limit: usize,
    },
    /// A file without any whole header.
    #[error("{name} is not a document store: it has no whole header; restore it or remove it")]
    NotAStore {
        /// The file.
        name: String,
    },
    /// A file of a program with another layout.
    #[error("{name} has layout version {found}, this program reads version {supported}")]
    OtherVersion {
        /// The file.
        name: String,
        /// What its header says.
        found: u32,
        /// What would be right.
        supported: u32,
    },
    /// Something in the file does not have the checksum that it was written with, or is not what points there expects.
    #[error("{name} is damaged at byte {offset}: {what}")]
    Damaged {
        /// The file.
        name: String,
        /// Where.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A commit failed in a way that leaves open whether it is there.
    #[error("a commit failed, and whether it is there is not known: open the store again")]
    Stopped,
    /// A second compaction at the same time.
    #[error("the store is being compacted already")]
    CompactionUnderWay,
    /// The file system refused. If a commit returns this, the store stops ([`Error::Stopped`]), unless no room was left.
    #[error(transparent)]
    Io(#[from] io::Error),
}
