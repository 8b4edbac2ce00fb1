//! Files on a Tantalum drive.
//!
//! A [`Volume`] has a tree of folders and files, as POSIX knows them. A file is a list of extents of the drive's units
//! and one unit of metadata, its inode, which also has its name; a folder has no content. There is no journal: whatever
//! changes together is written in one atomic batch of the drive. Reads and writes go through a page cache on the host,
//! as in a real file system, or past it; time is virtual, and the volume carries the clock of its one client.
//!
//! What it promises, on a drive that keeps its own promises D1 to D5:
//!
//! - **V1** What was written before [`Volume::sync`] returned is there after any power cut or crash of the host,
//!   as is the file itself. After [`Volume::sync_names`], creations, removals, links and renames are.
//! - **V2** Metadata are never seen half changed; a rename over another file is one step, as is an exchange of names.
//! - **V3** A file never shows what another file held: units come to it zeroed. What an inode gives up is trimmed
//!   after the inode that no longer names it is durable, and given to another file after that.
//! - **V4** Metadata never precede the data that they show: data, flush, inode.
//! - **V5** [`Volume::write_atomic`] and a transaction's commit take effect with the metadata they change, or not
//!   at all, and are durable when they return.
//! - **V6** What one [`Volume::write_whole`] writes is seen as a whole after a power cut or a crash, or not at all; more
//!   than a batch takes are several such writes.
//! - **V7** [`Volume::commit_ranges`] and [`Volume::exchange_ranges`] take effect for all of their ranges, or not at all,
//!   and are durable when they return.
//!
//! Without a sync, a file may show any mix of old and new units after a crash, as files do elsewhere.

mod allocate;
mod atomic;
mod cache;
mod checksum;
mod commit;
mod direct;
mod drive;
mod errno;
mod error;
mod extended_attributes;
mod extents;
mod file;
mod file_system;
mod folder;
mod inode;
mod link;
mod metadata_changes;
mod mount;
mod name;
mod properties;
mod ranges;
mod read_write;
mod remap_duplicates;
mod root;
mod share;
mod slots;
mod space;
mod statistics;
mod superblock;
mod transaction;
mod tree;
mod volume;
mod write_back;

pub use error::{Damage, UnmountError, VolumeError};
pub use inode::ATTRIBUTE_BYTES;
pub use tantalum_filesystem::{
    FileId, FileKind, FolderEntry, Metadata, MetadataChange, NAME_BYTES, NewFile, RangeCommit, RenameMode,
    SetMode, Statistics, Timestamp,
};
pub use volume::Volume;
