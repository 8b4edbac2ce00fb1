//! How a command ends badly. Names follow NVMe's status codes where it has them.

use tantalum_ftl::{Damage, FtlError, Generation, HintError, Key, Lpn, NamespaceId, ShareRefusal, TxId};
use tantalum_nand::{HostError, NandError};

/// Why a command was not done. Nothing was changed unless the variant says so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Status {
    /// NVMe "LBA Out of Range".
    #[error("units {lpn}..{end} are out of range: the drive has {capacity_units} units", end = u64::from(lpn.0) + units)]
    OutOfRange {
        /// The first unit asked for.
        lpn: Lpn,
        /// How many.
        units: u64,
        /// What the drive has.
        capacity_units: u64,
    },
    /// NVMe "Invalid Field in Command".
    #[error("invalid field in command: {0}")]
    InvalidField(String),
    /// Data that are not a whole number of units, or not the number that the command takes.
    #[error("the data have {bytes} bytes, but {expected}")]
    DataLength {
        /// What came.
        bytes: usize,
        /// What would be right.
        expected: &'static str,
    },
    /// A `share` of a unit that has no mapping.
    #[error("unit {lpn} is not mapped, so it cannot be shared")]
    Unmapped {
        /// The unit.
        lpn: Lpn,
    },
    /// More than the drive does in one step; see [`crate::Limits`].
    #[error("{what}: {asked} requested, but the drive's limit is {limit}")]
    OverLimit {
        /// What is limited.
        what: &'static str,
        /// What was asked for.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// No such open transaction.
    #[error("transaction {0} is not open")]
    UnknownTransaction(TxId),
    /// No such open log: it was not begun since power came on, or was forgotten as too many others were.
    #[error("log generation {0} is not open; begin a new one")]
    UnknownLog(Generation),
    /// A hinted page that does not follow the one before it.
    #[error("hinted page out of order: {0}")]
    SlotOutOfOrder(String),
    /// No such key-value namespace (NVMe "Invalid Namespace or Format").
    #[error("no key-value namespace {namespace}")]
    NoSuchNamespace {
        /// The namespace.
        namespace: NamespaceId,
    },
    /// NVMe KV "KV Key Does Not Exist" (87h).
    #[error("namespace {namespace} has no key {key}")]
    NoSuchKey {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// NVMe KV "Invalid KV Value Size" (85h).
    #[error("the value of key {key} has {bytes} bytes; the limit is {limit}")]
    ValueTooLarge {
        /// The key.
        key: Key,
        /// How many it has.
        bytes: u64,
        /// What would be right.
        limit: u64,
    },
    /// NVMe KV "KV Unrecovered Error" (88h).
    #[error("key {key} of namespace {namespace} cannot be read: its flash page is uncorrectable")]
    RecordUnreadable {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
    },
    /// NVMe "Capacity Exceeded": no flash is left even after garbage collection.
    #[error("capacity exceeded: no free flash is left; trim something")]
    CapacityExceeded,
    /// NVMe "Unrecovered Read Error".
    #[error("unit {lpn} cannot be read: its flash page is uncorrectable")]
    Unreadable {
        /// The unit.
        lpn: Lpn,
    },
    /// NVMe "Namespace is Write Protected": too few good blocks are left.
    #[error("the drive is read-only: too few good blocks are left")]
    ReadOnly,
    /// Power is off; the command may or may not have taken effect, as the promises allow.
    #[error("the drive has no power")]
    PowerLost,
    /// The host failed below the image. What the command changed may be there in part: the drive takes no more changes
    /// until it is opened again, which is a power cut.
    #[error("the host failed: {0}")]
    Host(HostError),
    /// What the drive itself keeps on the medium is damaged. If a command that changes something finds that, what it
    /// changed may be there in part, and the drive takes no more changes; what can be read stays readable.
    #[error("the drive's own data are damaged: {0}; `tantalum check` shows how much is lost")]
    Damaged(Damage),
    /// So many units wait for flash, or are being fetched, that no buffer is left for another one. The same command may be
    /// given again when some of them are done.
    #[error("all {buffers} buffers of the drive are in use")]
    OutOfBuffers {
        /// How many there are.
        buffers: u32,
    },
    /// NVMe "Internal Error": the drive did what it never should. It takes no more changes.
    #[error("internal error of the drive: {0}")]
    Internal(NandError),
}

impl Status {
    /// Whether no command will be answered any more until the drive is opened again.
    pub fn is_end_of_drive(&self) -> bool {
        matches!(self, Status::PowerLost | Status::Host(_))
    }

    /// Whether what the command was to change may be there, or not, or in part: nothing may be built on it.
    pub fn leaves_doubt(&self) -> bool {
        matches!(self, Status::PowerLost | Status::Host(_) | Status::Damaged(_) | Status::Internal(_))
    }
}

impl From<ShareRefusal> for Status {
    fn from(refusal: ShareRefusal) -> Status {
        match refusal {
            ShareRefusal::Unmapped(lpn) => Status::Unmapped { lpn },
            ShareRefusal::TooMany { units, limit } => {
                Status::OverLimit { what: "units in a share", asked: units, limit }
            }
            ShareRefusal::TableFull { owners, limit } => {
                Status::OverLimit { what: "owners of shared units", asked: owners, limit }
            }
            other => Status::InvalidField(other.to_string()),
        }
    }
}

impl From<HintError> for Status {
    fn from(error: HintError) -> Status {
        match error {
            HintError::UnknownGeneration(generation) => Status::UnknownLog(generation),
            HintError::OutOfOrder { .. } => Status::SlotOutOfOrder(error.to_string()),
        }
    }
}

impl From<FtlError> for Status {
    fn from(error: FtlError) -> Status {
        match error {
            FtlError::Nand(error) => error.into(),
            FtlError::Damaged(damage) => Status::Damaged(damage),
            FtlError::CapacityExceeded => Status::CapacityExceeded,
            FtlError::ReadOnly => Status::ReadOnly,
            FtlError::Unreadable { lpn, .. } => Status::Unreadable { lpn },
        }
    }
}

impl From<NandError> for Status {
    fn from(error: NandError) -> Status {
        match error {
            NandError::PowerLost => Status::PowerLost,
            NandError::Host(error) => Status::Host(error),
            NandError::OutOfSlots { slots } => Status::OutOfBuffers { buffers: slots },
            NandError::Erased { ppn } => Status::Damaged(Damage::Erased { ppn }),
            NandError::Uncorrectable { ppn } => Status::Damaged(Damage::Unreadable { ppn }),
            NandError::DataChecksum { .. } => Status::Damaged(Damage::Buffer),
            error => Status::Internal(error),
        }
    }
}
