//! An append-only document store that shares instead of writing twice (SHARE, sections 2.2, 3.3 and 4.3).
//!
//! Documents are found by key, in a B+tree whose nodes are written once: a commit appends documents, every node on the
//! way to them, and a header that ends it. A second tree has them by the number of their last change. On a drive that shares,
//! an update of a document writes the document alone, and has the drive map it to the old one's place. What it keeps:
//! - **C1** A commit is all or nothing, and durable when it returns.
//! - **C2** Commits are one after another; what a reader gets is what one of them left.
//! - **C3** A [`Snapshot`] stays what it was until it is dropped, whatever is committed, shared or compacted meanwhile.
//! - **C4** After a power cut all commits are there that had returned, and perhaps the one under way. That holds during
//!   compaction and the switch of files as well.
//! - **C5** [`Snapshot::changes`] tells the last change of every document that was changed after a number, each once.
//! - **C6** Damage is told and not passed on: whatever is read has a checksum.
//!
//! ```
//! # fn main() -> Result<(), tantalum_couch::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! use tantalum_couch::{Batch, Folder, Options, Store};
//!
//! let store = Store::open(Folder::new(folder.path())?, "app.couch", Options::default())?;
//! store.put(b"alice", b"100")?;
//! let before = store.snapshot();
//!
//! let mut batch = Batch::new();
//! batch.put(b"alice", b"80")?;
//! batch.put(b"bob", b"20")?;
//! store.commit(&batch)?;
//!
//! assert_eq!(store.get(b"alice")?.unwrap().value(), b"80");
//! assert_eq!(before.get(b"alice")?.unwrap().value(), b"100");
//! let changed: Vec<_> = store.snapshot().changes(before.seq())?.collect::<Result<_, _>>()?;
//! assert_eq!(changed.iter().map(|document| document.key()).collect::<Vec<_>>(), [b"alice".as_slice(), b"bob"]);
//! store.compact()?;
//! # Ok(())
//! # }
//! ```

mod batch;
mod cache;
mod commit;
mod compaction;
mod data_file;
mod document;
mod error;
mod header;
mod node;
mod recovery;
mod snapshot;
mod storage;
mod store;
mod tree;
mod tree_write;

pub use batch::Batch;
pub use compaction::Compaction;
pub use document::{Document, MOST_KEY_BYTES, MOST_VALUE_BYTES, RECORD_HEADER_BYTES};
pub use error::Error;
pub use snapshot::{Changes, Range, Snapshot};
pub use storage::{Folder, ShareRange, Shared, Storage, StorageFile, UNIT_BYTES, VolumeStorage};
pub use store::{Options, Statistics, Store, Way};
