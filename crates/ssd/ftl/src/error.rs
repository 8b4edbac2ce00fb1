//! The FTL's errors.

use tantalum_nand::{BlockId, GeometryError, NandError, PageId, Ppn};

use crate::key::{Key, NamespaceId};
use crate::types::{FileId, Lpn, Seq};
use crate::zones::ZoneId;

/// Why an operation of the FTL failed.
#[derive(Debug, thiserror::Error)]
pub enum FtlError {
    /// The medium failed: power was lost, the image failed, or a page is uncorrectable.
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
    /// The drive's own data on the medium are damaged.
    #[error("the drive's own data are damaged: {0}")]
    Damaged(#[from] Damage),
    /// Too few good blocks are left for writes.
    #[error("the drive is read-only: too few good blocks are left")]
    ReadOnly,
    /// A step failed after the change that it belongs to: the map has the change, and flash may never have it. No further
    /// change may be made before recovery.
    #[error("a change was not finished: {0}")]
    Unfinished(Box<FtlError>),
}

impl FtlError {
    /// Whether the operation that failed with this has changed nothing, so that the drive may go on.
    pub fn changed_nothing(&self) -> bool {
        use FtlError::{CapacityExceeded, Nand, ReadOnly, Unreadable};
        matches!(self, CapacityExceeded | Unreadable { .. } | ReadOnly | Nand(NandError::OutOfSlots { .. }))
    }

    /// The error of a step that comes after a change.
    #[must_use]
    pub fn unfinished(self) -> FtlError {
        if self.changed_nothing() { FtlError::Unfinished(Box::new(self)) } else { self }
    }
}

/// Which of the drive's own data are damaged, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damage {
    /// Not a drive of this FTL, or damaged beyond repair.
    #[error("the flash holds no complete checkpoint: it was never formatted, or all checkpoints are lost")]
    NoCheckpoint,
    /// The newest checkpoint cannot be read. Its predecessor may have been erased, so there is no other.
    #[error("the checkpoint of step {step}")]
    Checkpoint {
        /// When it was taken.
        step: Seq,
    },
    /// The checkpoint belongs to a drive of another size.
    #[error("the checkpoint belongs to a drive with {found} units; this one has {expected}")]
    OtherCapacity {
        /// Units of the checkpoint's drive.
        found: u32,
        /// Units of this one.
        expected: u32,
    },
    /// A fully programmed journal page.
    #[error("journal page {page}")]
    Journal {
        /// The page.
        page: PageId,
    },
    /// A page's record in the image, after the last checkpoint: the page's contents are unknown.
    #[error("the record of page {page}, which may have been programmed since the last checkpoint")]
    PageRecord {
        /// The page.
        page: PageId,
    },
    /// A page's record in the image that was intact, or not looked at, when the image was opened.
    #[error("a page record of block {block}; `tantalum check` shows whether it can be repaired")]
    PageRecords {
        /// The block.
        block: BlockId,
    },
    /// A spare area that no drive writes.
    #[error("the spare area of place {ppn}")]
    Spare {
        /// The place.
        ppn: Ppn,
    },
    /// A spare area that does not name the unit at its place.
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
    /// A unit of flash that should hold records but does not.
    #[error("records of place {ppn}")]
    Records {
        /// The place.
        ppn: Ppn,
    },
    /// More namespaces have logs of their own than the drive's protected memory has room for.
    #[error("{units} units may wait for namespaces' own logs, of {limit} that the drive protects")]
    NamespaceLogs {
        /// The units.
        units: u32,
        /// The limit.
        limit: u32,
    },
    /// The page of a place in use is erased.
    #[error("place {ppn} is in use, but its page is erased")]
    Erased {
        /// The place.
        ppn: Ppn,
    },
    /// A place that the drive itself needs.
    #[error("place {ppn} cannot be read")]
    Unreadable {
        /// The place.
        ppn: Ppn,
    },
    /// The bytes of a unit waiting for its page.
    #[error("a unit waiting for its page does not match what was written")]
    Buffer,
    /// An index names a place with another record or none.
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
    /// More records than a unit has room for are recorded at a place.
    #[error(
        "records of namespace {namespace} and others are recorded at place {ppn}, more than fit in a unit"
    )]
    RecordsTooMany {
        /// The namespace of one of them.
        namespace: NamespaceId,
        /// The place.
        ppn: Ppn,
    },
    /// A place that belongs to a unit and to a record.
    #[error("place {ppn} is recorded both for a unit and for a record of namespace {namespace}")]
    TwoOwners {
        /// The namespace.
        namespace: NamespaceId,
        /// The place.
        ppn: Ppn,
    },
    /// An index in a checkpoint.
    #[error("the index of namespace {namespace} in the checkpoint of step {step}")]
    Index {
        /// The namespace.
        namespace: NamespaceId,
        /// When the checkpoint was taken.
        step: Seq,
    },
    /// The checkpoint in non-volatile memory that counts.
    #[error("checkpoint {number} in the non-volatile memory")]
    NvmCheckpoint {
        /// Its number.
        number: u64,
    },
    /// An entry of the log in non-volatile memory.
    #[error("entry {index} of the log in the non-volatile memory")]
    NvmEntry {
        /// How many entries are before it.
        index: u64,
    },
    /// A file's list in non-volatile memory.
    #[error("the list of file {} in the non-volatile memory", file.0)]
    FileList {
        /// The file.
        file: FileId,
    },
    /// A part of the protected DRAM.
    #[error("the checksum of {part} in protected DRAM is wrong")]
    Protected {
        /// Which part.
        part: &'static str,
    },
    /// A page of a zone that the last checkpoint has.
    #[error("page {page} of zone {zone} is in none of its blocks")]
    Zone {
        /// The zone.
        zone: ZoneId,
        /// The page.
        page: u32,
    },
    /// More numbers were used than any drive uses in its life.
    #[error("it says that {newest} numbers have been used")]
    Numbers {
        /// The newest.
        newest: Seq,
    },
}

/// Why an FTL cannot be laid out on a medium.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutError {
    /// The geometry itself is invalid.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// Too little flash beyond the logical capacity.
    #[error(
        "{physical_blocks} good flash blocks are too few: {logical_blocks} hold the logical capacity, and at least {needed_blocks} more are needed for garbage collection, journal, checkpoints and dump; raise the over-provisioning"
    )]
    TooLittleFlash {
        /// Blocks available, without bad ones.
        physical_blocks: u32,
        /// Blocks that the logical capacity fills.
        logical_blocks: u32,
        /// Further blocks needed.
        needed_blocks: u32,
    },
    /// Too little flash for the handles with which the host places data.
    #[error(
        "{physical_blocks} good flash blocks are too few for {handles} reclaim unit handles: {logical_blocks} hold the logical capacity, and at least {needed_blocks} more are needed, {handle_blocks} of them for the handles; raise the over-provisioning or lower fdp.handles"
    )]
    TooLittleForHandles {
        /// Blocks available, without bad ones.
        physical_blocks: u32,
        /// Blocks that the logical capacity fills.
        logical_blocks: u32,
        /// Further blocks needed.
        needed_blocks: u32,
        /// The handles.
        handles: u32,
        /// Of the further blocks, those that a drive without handles would not need.
        handle_blocks: u32,
    },
    /// Too little non-volatile memory for what the drive keeps there.
    #[error(
        "{bytes} bytes of non-volatile memory besides the lists of files are too few: the log and two checkpoints of a drive of this capacity take at least {needed}; raise nvm.bytes or lower the capacity"
    )]
    TooLittleNvm {
        /// Its size.
        bytes: u64,
        /// What would be enough.
        needed: u64,
    },
}
