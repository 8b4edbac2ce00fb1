//! How the FTL fails.

use tantalum_nand::{GeometryError, NandError, PageId, Ppn};

use crate::key::{Key, NamespaceId};
use crate::types::{Lpn, Seq};

/// Why an operation of the FTL was not done.
#[derive(Debug, thiserror::Error)]
pub enum FtlError {
    /// The medium: power went, the image failed, a page is uncorrectable.
    #[error(transparent)]
    Nand(#[from] NandError),
    /// No flash is left even after garbage collection.
    #[error("no free flash is left")]
    CapacityExceeded,
    /// A mapped unit cannot be read.
    #[error("unit {lpn} at place {ppn} cannot be read")]
    Unreadable {
        /// The logical page.
        lpn: Lpn,
        /// Its place.
        ppn: Ppn,
    },
    /// What the drive itself keeps on the medium is damaged.
    #[error("the drive's own data are damaged: {0}")]
    Damaged(#[from] Damage),
    /// Too few good blocks are left to take writes.
    #[error("the drive is read-only: too few good blocks are left")]
    ReadOnly,
}

/// Which of the drive's own data are damaged, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// Not a drive of this FTL, or damaged beyond repair.
    #[error("there is no whole checkpoint on the flash; it was never formatted, or all of them are lost")]
    NoCheckpoint,
    /// The newest checkpoint cannot be read. What it replaced may be erased, so that there is no other.
    #[error("the checkpoint of step {step}")]
    Checkpoint {
        /// When it was taken.
        step: Seq,
    },
    /// A checkpoint of a drive of another size.
    #[error("the checkpoint is of a drive with {found} units, this one has {expected}")]
    OtherCapacity {
        /// Units of the checkpoint's drive.
        found: u32,
        /// Units of this one.
        expected: u32,
    },
    /// A journal page that was programmed in full.
    #[error("journal page {page}")]
    Journal {
        /// The page.
        page: PageId,
    },
    /// A page's record in the image, after the last checkpoint: what the page held cannot be told.
    #[error("the record of page {page}, which may have been programmed since the last checkpoint")]
    PageRecord {
        /// The page.
        page: PageId,
    },
    /// A spare area that no drive writes.
    #[error("the spare area of place {ppn}")]
    Spare {
        /// The place.
        ppn: Ppn,
    },
    /// A spare area that does not name the unit whose place it is.
    #[error("the spare area of place {ppn} does not name its unit {lpn}")]
    Owner {
        /// The place.
        ppn: Ppn,
        /// The unit.
        lpn: Lpn,
    },
    /// A unit is mapped to a place that holds no data.
    #[error("unit {lpn} is recorded at place {ppn}, which does not hold data")]
    Place {
        /// The unit.
        lpn: Lpn,
        /// The place.
        ppn: Ppn,
    },
    /// A unit of flash that holds no records where it should.
    #[error("records of place {ppn}")]
    Records {
        /// The place.
        ppn: Ppn,
    },
    /// The page of a place that is in use is erased.
    #[error("place {ppn} is in use, and its page is erased")]
    Erased {
        /// The place.
        ppn: Ppn,
    },
    /// A place that the drive needs for itself.
    #[error("place {ppn} cannot be read")]
    Unreadable {
        /// The place.
        ppn: Ppn,
    },
    /// The bytes of a unit that waits for its page.
    #[error("a unit that waits for its page is not what was written")]
    Buffer,
    /// Another record, or none, is where an index says.
    #[error("the record of key {key} of namespace {namespace} at place {ppn}, chunk {chunk}")]
    Record {
        /// The namespace.
        namespace: NamespaceId,
        /// The key.
        key: Key,
        /// The place.
        ppn: Ppn,
        /// Where in the unit.
        chunk: u8,
    },
    /// A record is recorded at a place that holds no data.
    #[error("a record of namespace {namespace} is recorded at place {ppn}, which does not hold data")]
    RecordPlace {
        /// The namespace.
        namespace: NamespaceId,
        /// The place.
        ppn: Ppn,
    },
    /// A place that belongs to a unit and to a record.
    #[error("place {ppn} is recorded as a unit's and as that of a record of namespace {namespace}")]
    TwoOwners {
        /// The namespace.
        namespace: NamespaceId,
        /// The place.
        ppn: Ppn,
    },
    /// An index that a checkpoint keeps.
    #[error("the index of namespace {namespace} in the checkpoint of step {step}")]
    Index {
        /// The namespace.
        namespace: NamespaceId,
        /// When the checkpoint was taken.
        step: Seq,
    },
    /// A part of the protected DRAM.
    #[error("{part} in protected DRAM fails its checksum")]
    Protected {
        /// Which part.
        part: &'static str,
    },
    /// More numbers were drawn than any drive draws in its life.
    #[error("it says that {newest} numbers were drawn")]
    Numbers {
        /// The newest.
        newest: Seq,
    },
}

/// Why an FTL cannot be laid out on a medium.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// The geometry itself is impossible.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Too little flash beyond the logical capacity.
    #[error(
        "{physical_blocks} good blocks of flash are too few: {logical_blocks} hold the logical capacity and at least {needed_blocks} more are needed for garbage collection, journal, checkpoints and dump; raise the over-provisioning or the capacity"
    )]
    TooLittleFlash {
        /// Blocks there are, bad ones aside.
        physical_blocks: u32,
        /// Blocks that the logical capacity fills.
        logical_blocks: u32,
        /// Blocks needed beside.
        needed_blocks: u32,
    },
}
