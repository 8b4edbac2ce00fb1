//! What a check finds.

use std::fmt;

use tantalum::Lpn;
use tantalum_filesystem::FileId;

/// Something that is wrong with a file system.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// A node of a file cannot be read, or is the wrong one.
    BadNode {
        /// The file.
        file: FileId,
        /// The node.
        number: u32,
        /// What is wrong.
        why: String,
    },
    /// A node is counted that no file has, or vice versa.
    NodeCount {
        /// What counts them.
        what: &'static str,
        /// The number counted.
        counted: u64,
        /// The number that files have.
        reachable: u64,
    },
    /// Two owners have the same unit of the drive.
    SharedUnit {
        /// The unit.
        lpn: Lpn,
        /// One owner.
        file: FileId,
    },
    /// A file has a unit outside the log.
    OutsideLog {
        /// The unit.
        lpn: Lpn,
        /// The file.
        file: FileId,
    },
    /// Units without an owner count as live in a segment, or vice versa.
    LiveUnits {
        /// The segment.
        segment: u32,
        /// The number that count as live.
        counted: u32,
        /// The number that have owners.
        owned: u32,
    },
    /// The summaries of a segment do not identify everything that lives there.
    Summaries {
        /// The segment.
        segment: u32,
        /// The number of units that count as live.
        counted: u32,
        /// The number that its summaries explain.
        found: u32,
    },
    /// A snapshot has a unit that does not live, or has one twice.
    BadSnapshot {
        /// The snapshot.
        snapshot: u32,
        /// The file; 0 for the tree of files.
        file: FileId,
        /// The virtual number of the unit.
        number: u32,
    },
    /// Promised units that no file has, or vice versa.
    Promised {
        /// The number that count as promised.
        counted: u64,
        /// The number that files have.
        owned: u64,
    },
    /// A file's inode is wrong.
    BadInode {
        /// The file.
        file: FileId,
        /// What is wrong.
        why: String,
    },
    /// A folder's contents are wrong.
    BadFolder {
        /// The folder.
        folder: FileId,
        /// What is wrong.
        why: String,
    },
    /// A file has no name and is not open.
    Nameless {
        /// The file.
        file: FileId,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::BadNode { file, number, why } => write!(f, "node {number} of file {file}: {why}"),
            Finding::NodeCount { what, counted, reachable } => {
                write!(f, "{what} counts {counted} nodes, but files have {reachable}")
            }
            Finding::SharedUnit { lpn, file } => {
                write!(f, "unit {lpn} belongs to file {file} and to something else")
            }
            Finding::OutsideLog { lpn, file } => write!(f, "unit {lpn} of file {file} is outside of the log"),
            Finding::LiveUnits { segment, counted, owned } => {
                write!(f, "segment {segment} counts {counted} living units, but {owned} have owners")
            }
            Finding::Summaries { segment, counted, found } => {
                write!(
                    f,
                    "segment {segment} counts {counted} living units, but its summaries explain {found}"
                )
            }
            Finding::BadSnapshot { snapshot, file, number } => {
                write!(f, "snapshot {snapshot} has unit {number} of file {file}, which does not live once")
            }
            Finding::Promised { counted, owned } => {
                write!(f, "{counted} units count as promised, but files have {owned}")
            }
            Finding::BadInode { file, why } => write!(f, "file {file}: {why}"),
            Finding::BadFolder { folder, why } => write!(f, "folder {folder}: {why}"),
            Finding::Nameless { file } => write!(f, "file {file} has no name and is not open"),
        }
    }
}
