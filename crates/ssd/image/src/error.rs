//! How the medium fails: an operation that failed ([`NandError`]), and a medium that could not be created or opened
//! ([`MediumError`]).

use std::io;
use std::path::{Path, PathBuf};

use crate::geometry::{BlockId, GeometryError, Nanoseconds, PageId, Ppn};
use crate::lock_holder::LockHolder;

/// The host failed to store or read the medium's contents.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}: cannot {action}: {reason}", path.display())]
pub struct HostError {
    /// The image.
    pub path: PathBuf,
    /// What was being done.
    pub action: &'static str,
    /// The host's error, such as [`io::ErrorKind::StorageFull`].
    pub kind: io::ErrorKind,
    /// The host's error as text.
    pub reason: String,
}

impl HostError {
    /// The host's message.
    pub(crate) fn new(path: &Path, action: &'static str, error: &io::Error) -> HostError {
        HostError { path: path.to_owned(), action, kind: error.kind(), reason: error.to_string() }
    }

    /// What has to be done before an image that can only be read can be changed.
    pub fn remedy(&self) -> &'static str {
        match self.kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room on the disk, and open the image again"
            }
            io::ErrorKind::PermissionDenied => "to change it, open it as somebody who may write it",
            io::ErrorKind::ReadOnlyFilesystem => {
                "to change it, make its file system writable, and open it again"
            }
            _ => "repair the disk, or copy the image to another one, and open it again",
        }
    }
}

/// Why an operation failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NandError {
    /// Power was lost at or before this operation.
    #[error("power is lost")]
    PowerLost,
    /// A program failed (M6). The page is used up; the staged buffers still belong to the caller.
    #[error("programming page {page} failed")]
    ProgramFailed {
        /// The page.
        page: PageId,
        /// When the failure was reported.
        done_ns: Nanoseconds,
    },
    /// An erase failed (M6). The block's contents are lost and it cannot be programmed.
    #[error("erasing block {block} failed")]
    EraseFailed {
        /// The block.
        block: BlockId,
        /// When the failure was reported.
        done_ns: Nanoseconds,
    },
    /// The page of this unit cannot be corrected (M2, M3, M6).
    #[error("unit {ppn} is uncorrectable")]
    Uncorrectable {
        /// The unit.
        ppn: Ppn,
    },
    /// The page of this unit has not been programmed since its block was erased.
    #[error("unit {ppn} cannot be read: its page is erased")]
    Erased {
        /// The unit.
        ppn: Ppn,
    },
    /// The bytes of a unit differ from those that were written.
    #[error(
        "the data of a unit are damaged: the checksum is {stored:#010x}, but the contents give {computed:#010x}"
    )]
    DataChecksum {
        /// The checksum kept with the page.
        stored: u32,
        /// The checksum of the actual contents.
        computed: u32,
    },
    /// Page records of a block differ from those that were written.
    #[error("a page record of block {block} is damaged; `tantalum check` shows whether it can be repaired")]
    PageRecords {
        /// The block.
        block: BlockId,
    },
    /// No buffer number is left for another staged unit.
    #[error("all {slots} buffers are in use")]
    OutOfSlots {
        /// Buffers in use.
        slots: u32,
    },
    /// Access beyond the protected DRAM.
    #[error("{bytes} bytes at {offset} exceed the {size} bytes of protected DRAM")]
    ProtectedRange {
        /// Where the access starts.
        offset: u64,
        /// Its length.
        bytes: usize,
        /// The size of the protected DRAM.
        size: u64,
    },
    /// The image's bytes of non-volatile memory differ from those that were written.
    #[error(
        "line {line} of the non-volatile memory is damaged: its checksum is {stored:#010x}, but its contents give {computed:#010x}"
    )]
    NvmChecksum {
        /// The line of 504 bytes, from 0.
        line: u64,
        /// The checksum as stored.
        stored: u32,
        /// The checksum of the actual contents.
        computed: u32,
    },
    /// The host failed; the data being stored may be there in part.
    #[error(transparent)]
    Host(#[from] HostError),
}

/// Why a medium was not created or opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediumError {
    /// The geometry cannot be built.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// A time or rate is out of bounds.
    #[error("{field} is {value}; it must be between {least} and {most}")]
    Timing {
        /// The field's name.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// The description of an image is too long.
    #[error("the description has {bytes} bytes; an image holds at most {limit}")]
    DescriptionTooLong {
        /// Bytes of the description.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// More protected DRAM than an image holds.
    #[error("{bytes} bytes of protected DRAM requested; an image holds at most {limit}")]
    ProtectedTooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The image to be created already exists.
    #[error("{} already exists; remove it or choose another name", path.display())]
    Exists {
        /// The image.
        path: PathBuf,
    },
    /// Another process, or another drive in this one, has the image open.
    #[error(
        "{} is in use by {holder}; only one at a time can open a drive, or several that only read it",
        path.display()
    )]
    Locked {
        /// The image.
        path: PathBuf,
        /// Who has it.
        holder: LockHolder,
    },
    /// The file is not an image.
    #[error("{} is not a drive image of this program", path.display())]
    NotAnImage {
        /// The file.
        path: PathBuf,
    },
    /// The image was written by another version of this program.
    #[error("{} has image version {found}; this program reads version {supported}", path.display())]
    Version {
        /// The image.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The supported version.
        supported: u32,
    },
    /// The image is shorter than its header says.
    #[error("{} is truncated: it has {bytes} bytes and should have at least {expected}", path.display())]
    Truncated {
        /// The image.
        path: PathBuf,
        /// Its length.
        bytes: u64,
        /// The least length.
        expected: u64,
    },
    /// The header's checksum is wrong.
    #[error("{}: the header is damaged: its checksum is {stored:#010x}, but its contents give {computed:#010x}", path.display())]
    HeaderChecksum {
        /// The image.
        path: PathBuf,
        /// The checksum as stored.
        stored: u32,
        /// The checksum of the actual contents.
        computed: u32,
    },
    /// The header describes an impossible drive, although its checksum is right.
    #[error("{}: the header describes an impossible drive: {source}", path.display())]
    ImpossibleHeader {
        /// The image.
        path: PathBuf,
        /// What is impossible.
        source: Box<MediumError>,
    },
    /// The description in the header is not text.
    #[error("{}: the description in the header is not UTF-8 text", path.display())]
    DescriptionNotText {
        /// The image.
        path: PathBuf,
    },
    /// A block's record is damaged, so the contents of the block cannot be distinguished from erased data.
    #[error("{}: the record of block {block} is damaged: its checksum is {stored:#010x}, but its contents give {computed:#010x}", path.display())]
    BlockChecksum {
        /// The image.
        path: PathBuf,
        /// The block.
        block: BlockId,
        /// The checksum as stored.
        stored: u32,
        /// The checksum of the actual contents.
        computed: u32,
    },
    /// A page's record is damaged, so nothing is known about the page.
    #[error("{}: the record of page {page} is damaged; `tantalum check` shows whether it can be repaired", path.display())]
    PageChecksum {
        /// The image.
        path: PathBuf,
        /// The page.
        page: PageId,
    },
    /// Every record is intact, but some are not the latest ones written.
    #[error("{}: block entries and page records do not add up: some were replaced by older ones", path.display())]
    Tally {
        /// The image.
        path: PathBuf,
    },
    /// The sum over all records is itself damaged.
    #[error("{}: the tally of its records is damaged; `tantalum check --repair` rebuilds it", path.display())]
    TallyChecksum {
        /// The image.
        path: PathBuf,
    },
    /// An image that was created before images had a redo log.
    #[error("{} has no redo log, so it cannot survive the loss of the machine; create a new image", path.display())]
    NoLog {
        /// The image.
        path: PathBuf,
    },
    /// A redo log of a size that this program does not make.
    #[error("{}: its redo log has {bytes} bytes; this program supports {expected}", path.display())]
    LogBytes {
        /// The image.
        path: PathBuf,
        /// What its header says.
        bytes: u64,
        /// The supported size.
        expected: u64,
    },
    /// The medium failed while it was being read.
    #[error(transparent)]
    Nand(#[from] NandError),
}
