//! What a recorder reports.

use serde::{Deserialize, Serialize};
use tantalum::Nanoseconds;

use crate::operation::{FileNumber, Operation};

/// An offset in a file.
pub type FileOffset = (FileNumber, u64);

/// How a write reached the file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum WriteKind {
    /// Into its page cache.
    Cached,
    /// To the drive at once (`O_DIRECT`).
    Direct,
    /// To the drive at once, all or nothing.
    Whole,
}

/// A recorded event.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Event<'a> {
    /// An operation other than a write.
    Done(Operation),
    /// Bytes were written at an offset.
    Wrote {
        /// The file.
        file: FileNumber,
        /// The offset in bytes.
        offset: u64,
        /// The bytes written.
        #[serde(borrow, with = "crate::bytes")]
        data: &'a [u8],
        /// How the write reached the file system.
        kind: WriteKind,
    },
    /// A range became a hole.
    Punched {
        /// The file.
        file: FileNumber,
        /// The offset in bytes.
        offset: u64,
        /// The length in bytes.
        bytes: u64,
    },
    /// Only a file's times changed.
    Touched(FileNumber),
    /// The kernel knows a file from now on.
    Opened(FileNumber),
    /// The kernel has forgotten a file; if it has no name, it is gone.
    Closed(FileNumber),
    /// A file's dirty data went to the drive.
    WrittenOut(FileNumber),
    /// Everything unsynced became durable.
    WrittenBack,
    /// A range was copied without passing through the caller.
    Copied {
        /// From this offset of this file,
        from: (FileNumber, u64),
        /// to this offset of that one.
        to: (FileNumber, u64),
        /// The number of bytes requested.
        bytes: u64,
        /// The number of bytes copied.
        copied: u64,
    },
    /// Ranges read as others from now on: from, to, bytes of each.
    Committed(Vec<(FileOffset, FileOffset, u64)>),
    /// Two ranges swapped contents.
    Exchanged {
        /// The file and offset of one range.
        a: (FileNumber, u64),
        /// The file and offset of the other range.
        b: (FileNumber, u64),
        /// Bytes of each.
        bytes: u64,
    },
    /// A file that existed when the recording started held this many bytes. Its contents are not recorded.
    Held {
        /// The file.
        file: FileNumber,
        /// The file's size in bytes.
        bytes: u64,
    },
    /// A mark, set from outside; everything before it is durable.
    Marked,
    /// The last write is all that its system call was to write, although more could have followed
    /// ([`is_first_part`](crate::operation::is_first_part)).
    CallEnded,
}

/// An event with its times, in the drive's time.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Stamped<'a> {
    /// When it began.
    pub at_ns: Nanoseconds,
    /// How long it took, in the drive's time.
    pub took_ns: Nanoseconds,
    /// The event.
    #[serde(borrow)]
    pub event: Event<'a>,
}
