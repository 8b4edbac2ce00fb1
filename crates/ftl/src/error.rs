//! How the FTL fails.

use tantalum_nand::{GeometryError, NandError, PageId, Ppn};

use crate::types::Lpn;

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
    /// No whole checkpoint: not a drive of this FTL, or damaged beyond repair.
    #[error("no whole checkpoint was found on the flash: it was never formatted, or it is damaged")]
    NoCheckpoint,
    /// A checkpoint or journal that does not fit this drive.
    #[error("the drive's own data are damaged: {0}")]
    Damaged(String),
    /// A page is lost that recovery cannot do without.
    #[error(
        "the record of page {page} is damaged, and the page may have been programmed since the last checkpoint: what it held cannot be told"
    )]
    DamagedSince {
        /// The page.
        page: PageId,
    },
    /// Too few good blocks are left to take writes.
    #[error("the drive is read-only: too few good blocks are left")]
    ReadOnly,
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
