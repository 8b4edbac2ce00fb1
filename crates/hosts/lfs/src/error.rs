//! Why the file system refuses a request, or cannot be used.

use tantalum::{Lpn, Status};
use tantalum_filesystem::Errno;

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LfsError {
    /// The drive refused a command, or has come to its end.
    #[error(transparent)]
    Device(#[from] Status),
    /// A change failed half way because of the drive, so that nothing more may be built on it.
    #[error(
        "the file system accepts no more changes until it is mounted again, because one failed half way: {0}"
    )]
    Stopped(Status),
    /// A refusal, as an error number that programs know.
    #[error("{}", .0.desc())]
    Refused(Errno),
    /// No log-structured file system is on the drive.
    #[error(
        "the drive holds no log-structured file system; make one with `tantalum mount --format --file-system lfs-nat` or `lfs-tree`"
    )]
    NotFormatted,
    /// The layout is of another version of this program.
    #[error("the file system has layout version {found}; this program reads version {supported}")]
    OtherVersion {
        /// The version on the drive.
        found: u32,
        /// The version of this program.
        supported: u32,
    },
    /// The file system was made on a drive of another capacity.
    #[error("the file system was made for {formatted_units} units of 4 KiB, but the drive has {drive_units}")]
    OtherCapacity {
        /// When it was made.
        formatted_units: u64,
        /// Now.
        drive_units: u64,
    },
    /// The drive has no memory for lists of files.
    #[error(
        "this drive keeps no lists of files in NVM (its profile has no nvm.files), so that only --index conventional is possible"
    )]
    NoLists,
    /// The drive is too small, or too large.
    #[error("the drive has {units} units of 4 KiB; a log-structured file system takes {least} to {most}")]
    WrongSize {
        /// Units of the drive.
        units: u64,
        /// The smallest.
        least: u64,
        /// The largest.
        most: u64,
    },
    /// There is no such snapshot.
    #[error("there is no snapshot {number}")]
    NoSnapshot {
        /// The number given.
        number: u32,
    },
    /// This kind of index keeps no snapshots.
    #[error("a file system of the kind lfs-nat keeps no snapshots; lfs-tree does")]
    KeepsNoSnapshots,
    /// The maximum number of snapshots exists.
    #[error("there are already {most} snapshots, the maximum; delete one first")]
    TooManySnapshots {
        /// The maximum number of snapshots.
        most: usize,
    },
    /// What the drive holds is not what was written.
    #[error("unit {lpn} is damaged: {damage}")]
    Damaged {
        /// The unit.
        lpn: Lpn,
        /// What is wrong with it.
        damage: Damage,
    },
}

/// What is wrong with a unit of metadata.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The checksum does not match.
    #[error("its checksum is {found:#010x}, but its contents have {computed:#010x}")]
    Checksum {
        /// The checksum as stored.
        found: u32,
        /// The checksum of the contents.
        computed: u32,
    },
    /// It is not what belongs in its place.
    #[error("{expected} was expected")]
    NotA {
        /// What should be there.
        expected: &'static str,
    },
    /// It is not the node that belongs in this place.
    #[error("it holds node {found}, but node {expected} was expected")]
    OtherNode {
        /// The number of the node found.
        found: u32,
        /// As the node address table says.
        expected: u32,
    },
    /// A reference to a unit or file that does not exist.
    #[error("something points to unit or file {number}, which the table does not have")]
    NoUnit {
        /// The number of the unit or file.
        number: u32,
    },
    /// The table of segments does not count it.
    #[error("{0}, as the table of segments counts")]
    Miscounted(&'static str),
    /// A number is out of range.
    #[error("{what} is {value}, but at most {most} is possible")]
    Beyond {
        /// Which number.
        what: &'static str,
        /// The number as stored.
        value: u64,
        /// The largest.
        most: u64,
    },
}

/// The result of an operation.
pub(crate) type Result<T> = std::result::Result<T, LfsError>;

/// A refusal.
pub(crate) fn refuse<T>(errno: Errno) -> Result<T> {
    Err(LfsError::Refused(errno))
}

impl From<LfsError> for Errno {
    fn from(error: LfsError) -> Errno {
        match error {
            LfsError::Refused(errno) => errno,
            LfsError::Device(Status::CapacityExceeded) => Errno::ENOSPC,
            LfsError::NoSnapshot { .. } => Errno::ENOENT,
            LfsError::KeepsNoSnapshots => Errno::EOPNOTSUPP,
            LfsError::TooManySnapshots { .. } => Errno::EMFILE,
            LfsError::Device(Status::ReadOnly | Status::WriteProtected(_)) | LfsError::Stopped(_) => {
                Errno::EROFS
            }
            _ => Errno::EIO,
        }
    }
}
