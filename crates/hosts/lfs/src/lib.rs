//! Log-structured file systems on a Tantalum drive.
//!
//! A [`LogFs`] writes to the ends of logs, in segments that a cleaner empties. [`LfsKind`] says how it finds units
//! again: `Nat` is F2FS's way: nodes addressed by number, and contents that a sync may write in place. `Tree` is NILFS2's:
//! trees under a super root, which keep snapshots. Segments, log heads, cleaner, folders and the page cache are the same for
//! every kind; an index implements one trait. [`Indexing`] says whether a sync writes the index, or leaves it to lists in the
//! drive's memory.
//!
//! Promises, on a drive that keeps its own promises D1 to D5:
//!
//! - **L1** What was written before [`Content::sync`](tantalum_filesystem::Content::sync) returned survives any power cut
//!   or crash of the host, and so does the file itself under a name that it had. With [`Indexing::Nvm`], its times may be
//!   those of the last checkpoint.
//! - **L2** After [`Names::sync_folder`](tantalum_filesystem::Names::sync_folder), so do all creations, removals, links
//!   and renames. Otherwise a crash leaves the names as of some earlier moment, plus those of files synced since.
//! - **L3** A rename is one step, and so is an exchange of names.
//! - **L4** A file never shows what another file held, and never shows a sync of it in part.
//! - **L5** Recovery changes nothing that it reads, so it may be interrupted and repeated.
//! - **L6** If a change fails because the drive refuses or fails, some of its steps may have been done. Then the file system
//!   stops: it refuses changes and syncs with `EROFS` until it is mounted again ([`LogFs::stopped`]), so that no sync ever
//!   succeeds over a half-done change, and what was synced before is there. Reads go on. A refusal of the file system
//!   itself, and a page of flash that cannot be read, stop nothing.
//!
//! Without a sync, a file may show any mix of old and new units after a crash, and zeros where it was not written yet. With
//! [`Indexing::Nvm`], a growing file may end at any whole unit in between.

mod attributes;
mod bytes;
#[cfg(feature = "canaries")]
pub mod canaries;
mod check;
mod checkpoint_delta;
mod cleaner;
mod content;
mod counters;
mod durability;
mod error;
mod fs;
mod in_place;
mod index;
mod inode;
mod lists;
mod marks;
mod mount;
mod names;
mod nat;
mod node_cache;
mod segments;
mod snapshots;
mod superblock;
mod tree;

pub use check::Finding;
pub use counters::{CleanerCounters, SyncCounters, WrittenCounters};
pub use error::{Damage, LfsError};
pub use fs::LogFs;
pub use index::Snapshot;
pub use superblock::{Cleaning, Indexing, LfsKind};
