//! Why a command failed. Names follow NVMe's status codes where it has them.

use tantalum_ftl::{
    Damage, FtlError, Generation, HintError, Key, ListRefusal, Lpn, NamespaceId, ShareRefusal, TxId, ZoneId,
    ZoneRefusal,
};
use tantalum_nand::{HostError, NandError};

/// Why a command failed. Nothing was changed unless the variant says so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Status {
    /// NVMe "LBA Out of Range".
    #[error("units {lpn}..{end} are out of range: the drive has {capacity_units} units", end = u64::from(lpn.0) + units)]
    OutOfRange {
        /// The first unit of the request.
        lpn: Lpn,
        /// The number of units.
        units: u64,
        /// The drive's capacity.
        capacity_units: u64,
    },
    /// NVMe "Invalid Field in Command".
    #[error("invalid field in command: {0}")]
    InvalidField(String),
    /// Data that are not a whole number of units, or not the number that the command takes.
    #[error("the data have {bytes} bytes, but {expected}")]
    DataLength {
        /// Bytes given.
        bytes: usize,
        /// What would be valid.
        expected: &'static str,
    },
    /// A `share` of a unit that has no mapping.
    #[error("unit {lpn} is not mapped, so it cannot be shared")]
    Unmapped {
        /// The unit.
        lpn: Lpn,
    },
    /// The request exceeds the drive's limit for one step; see [`crate::Limits`].
    #[error("{what}: {asked} requested, but the drive's limit is {limit}")]
    OverLimit {
        /// What is limited.
        what: &'static str,
        /// What was requested.
        asked: u64,
        /// The limit.
        limit: u64,
    },
    /// No such open transaction.
    #[error("transaction {0} is not open")]
    UnknownTransaction(TxId),
    /// No such open log: it was not begun since power came on, or was dropped because too many others were begun.
    #[error("log generation {0} is not open; begin a new one")]
    UnknownLog(Generation),
    /// A hinted page that does not follow the previous one.
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
        /// Bytes of the value.
        bytes: u64,
        /// The limit.
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
    /// NVMe "Capacity Exceeded": no flash is left even after garbage collection. The first units of a plain write may have been
    /// written.
    #[error("capacity exceeded: no free flash is left; trim or delete what is not needed")]
    CapacityExceeded,
    /// NVMe "Unrecovered Read Error".
    #[error("unit {lpn} cannot be read: its flash page is uncorrectable")]
    Unreadable {
        /// The unit.
        lpn: Lpn,
    },
    /// A zone refuses a command; the names of its reasons are those of NVMe's status codes.
    #[error(transparent)]
    Zone(#[from] ZoneRefusal),
    /// NVMe "Unrecovered Read Error", of a zone.
    #[error("unit {offset} of zone {zone} cannot be read: its flash page is uncorrectable")]
    ZoneUnreadable {
        /// The zone.
        zone: ZoneId,
        /// The unit, from the beginning of the zone.
        offset: u32,
    },
    /// NVMe "Namespace is Write Protected": too few good blocks are left.
    #[error("the drive is read-only: too few good blocks are left")]
    ReadOnly,
    /// NVMe "Namespace is Write Protected": the host could not store what opening the drive changes, so that it is open to be
    /// read ([`crate::Device::open_or_read`]).
    #[error("it can only be read: {0}; {remedy}", remedy = .0.remedy())]
    WriteProtected(HostError),
    /// Power is off; the command may or may not have taken effect, as the promises allow.
    #[error("the drive has no power")]
    PowerLost,
    /// The host failed below the image. The changes of a command that fails so may be there in part: the drive accepts no
    /// more changes until it is reopened, which is a power cut. It goes on answering reads from what it has, also of what was
    /// acknowledged and is not durable; what the command was to change cannot be read until then. A read that fails so
    /// stops nothing.
    #[error("the host failed: {0}")]
    Host(HostError),
    /// The drive's own data on the medium are damaged. If a command that changes something finds this, its changes may
    /// be there in part, and the drive accepts no more changes; everything readable stays readable.
    #[error("the drive's own data are damaged: {0}; `tantalum check` shows how much is lost")]
    Damaged(Damage),
    /// No buffer is left, because too many units wait for flash or are being fetched. Submit the command again when
    /// some of them are done. The first units of a plain write may have been written.
    #[error("all {buffers} buffers of the drive are in use")]
    OutOfBuffers {
        /// The total number of buffers.
        buffers: u32,
    },
    /// NVMe "Internal Error": the command failed after it had begun to change something, for this reason. Its changes may
    /// be there in part: the drive accepts no more changes until power comes back.
    #[error("the command failed halfway, and the drive accepts no more changes: {0}")]
    Unfinished(Box<Status>),
    /// NVMe "Internal Error": a bug of the drive. It accepts no more changes.
    #[error("internal error of the drive: {0}")]
    Internal(NandError),
}

impl Status {
    /// Whether trying again, or in another way, cannot help: the drive has no power, or the host failed below it.
    pub fn is_end_of_drive(&self) -> bool {
        matches!(self, Status::PowerLost | Status::Host(_))
    }

    /// Whether the command's changes may be there completely, partly or not at all: nothing may be built on them.
    pub fn leaves_doubt(&self) -> bool {
        use Status::{Damaged, Host, Internal, PowerLost, Unfinished};
        matches!(self, PowerLost | Host(_) | Damaged(_) | Unfinished(_) | Internal(_))
    }

    /// The status of a step that comes after a command has changed something.
    #[must_use]
    pub(crate) fn unfinished(self) -> Status {
        if self.leaves_doubt() { self } else { Status::Unfinished(Box::new(self)) }
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

impl From<ListRefusal> for Status {
    fn from(refusal: ListRefusal) -> Status {
        match refusal {
            ListRefusal::TooManyFiles { limit } => {
                let asked = u64::from(limit) + 1;
                Status::OverLimit { what: "files with lists", asked, limit: limit.into() }
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
            FtlError::Unfinished(error) => Status::from(*error).unfinished(),
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
            NandError::PageRecords { block } => Status::Damaged(Damage::PageRecords { block }),
            error => Status::Internal(error),
        }
    }
}
