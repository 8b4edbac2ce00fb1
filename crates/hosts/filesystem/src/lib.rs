//! What a mount requires of a file system on a Tantalum drive, in POSIX's terms.
//!
//! A [`FileSystem`] has four parts, each a trait: [`Names`], [`Attributes`], [`Content`] and [`Ranges`].
//! `tantalum-volume` is such a file system, and `tantalum-fuse` mounts any.
//!
//! Each of them keeps these invariants, on which the mount relies:
//!
//! - **One client, one clock.** A file system is one client of its drive ([`FileSystem::client`]). A method returns
//!   when its work is done; then the client's clock says when the drive is done with it. A caller with several requests
//!   in flight sets the clock before each of them ([`tantalum_drive::Client::begin_at`]).
//! - **A number is one file.** A [`FileId`] names the same file for as long as that has a name or is open, and no other
//!   file meanwhile. The root folder is [`FileId::ROOT`].
//! - **Open files live.** A file that loses its last name is removed when it has been closed as often as it was opened
//!   ([`Names::open`]).
//! - **Durable when requested.** Nothing is durable before [`Content::sync`], [`Content::sync_data`] or
//!   [`Names::sync_folder`] returns, unless a method says so; then it survives any power cut.
//! - **A refusal changes nothing** that a program can see, and is an error number that programs know. When the drive
//!   has come to its end, every method that needs it fails with `EIO`.
//!
//! What POSIX makes optional has a default: it fails with `EOPNOTSUPP`, or treats a file as one without holes.
//! Permissions are not checked here, because the kernel does that.

mod attributes;
mod content;
mod file;
mod file_system;
mod metadata;
mod names;
mod page_cache;
mod ranges;

pub use attributes::Attributes;
pub use content::{Content, is_whole_units};
pub use file::{FileId, NAME_BYTES};
pub use file_system::{FileSystem, UnmountFailure};
pub use metadata::{
    FileKind, FolderEntry, LogStatistics, Metadata, MetadataChange, NewFile, RangeCommit, RenameMode,
    SetMode, Statistics, Timestamp,
};
pub use names::Names;
pub use page_cache::{FrameId, PageCache, PageKey};
pub use ranges::Ranges;

/// POSIX's error numbers.
pub use nix::errno::Errno;

/// The result of a request.
pub type Outcome<T> = Result<T, Errno>;
