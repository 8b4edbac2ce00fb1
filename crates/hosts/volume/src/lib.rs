//! Files on a Tantalum drive.
//!
//! A [`Volume`] has a tree of folders and files, as in POSIX. A file is a list of extents of the drive's units, plus
//! one unit of metadata, its inode, which also holds its name; a folder has no contents. There is no journal:
//! everything that changes together is written in one atomic batch of the drive. Reads and writes go through a page
//! cache on the host, as in a real file system, or bypass it. Time is virtual, and the volume has the clock of its one
//! client.
//!
//! Promises, on a drive that keeps its own promises D1 to D5:
//!
//! - **V1** What was written before [`Volume::sync`] returned survives any power cut or crash of the host, and so does
//!   the file itself. After [`Volume::sync_names`], so do creations, removals, links and renames.
//! - **V2** Metadata are never seen half changed. A rename over another file is one step, and so is an exchange of
//!   names.
//! - **V3** A file never shows what another file held: it gets its units zeroed. What an inode gives up is trimmed
//!   after the inode that no longer names it is durable, and given to another file only after that.
//! - **V4** Metadata never precede the data that they show: data, flush, inode.
//! - **V5** [`Volume::write_atomic`] and a transaction's commit take effect with the metadata that they change, or not
//!   at all, and are durable when they return.
//! - **V6** After a power cut or a crash, one [`Volume::write_whole`] is seen completely or not at all; more than a
//!   batch takes is several such writes.
//! - **V7** [`Volume::commit_ranges`] and [`Volume::exchange_ranges`] take effect for all of their ranges or for none,
//!   and are durable when they return.
//! - **V8** If an operation fails, what was acknowledged before is still there, and a later sync makes durable exactly what
//!   is then read. The operation has done nothing, unless its documentation says what it may have done in part; or the
//!   volume has stopped ([`Volume::stopped`]). A sync succeeds only if everything that it covers was written.
//!
//! Without a sync, a file may show any mix of old and new units after a crash, as on other file systems.

mod allocate;
mod byte_range;
#[cfg(feature = "canaries")]
pub mod canaries;
mod checksum;
mod commit;
mod continuation;
mod control;
mod direct_io;
mod drive;
mod errno;
mod error;
mod extent_record;
mod extents;
mod file;
mod file_system;
mod files;
mod folder;
mod inode;
mod invariants;
mod lending;
mod link;
mod mount;
mod name;
mod pages;
mod properties;
mod reuse;
mod share;
mod space;
mod superblock;
mod table;
mod transactions;
mod tree;

pub use control::{UnmountError, Volume};
pub use error::{Damage, VolumeError};
pub use inode::ATTRIBUTE_BYTES;
pub use lending::LentExtent;
pub use tantalum_filesystem::{
    FileId, FileKind, FolderEntry, Metadata, MetadataChange, NAME_BYTES, NewFile, RangeCommit, RenameMode,
    SetMode, Statistics, Timestamp,
};
