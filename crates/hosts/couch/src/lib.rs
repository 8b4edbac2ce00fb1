//! An append-only document store that shares instead of writing twice (SHARE, sections 2.2, 3.3 and 4.3).
//!
//! Documents are found by key, in a B+tree whose nodes are written once: a commit appends documents, every node on the
//! path to them, and a final header. A second tree orders them by the number of their last change. On a drive that shares,
//! updating a document writes only the document, and the drive maps it to the old one's place. Promises:
//! - **C1** A commit is all or nothing, and durable when it returns.
//! - **C2** Commits are serial; a reader sees the state that one of them left.
//! - **C3** A [`Snapshot`] does not change until it is dropped, whatever is committed, shared or compacted meanwhile.
//! - **C4** After a power cut, every commit that had returned is there, and possibly the one in progress. This also holds
//!   during compaction and the switch of files.
//! - **C5** [`Snapshot::changes`] returns the last change of every document that changed after a given number, each once.
//! - **C6** Damage is reported and never passed on: everything read has a checksum.
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
#[cfg(feature = "canaries")]
pub mod canaries;
mod commit;
mod compaction;
mod data_file;
mod document;
mod error;
mod header;
mod inner;
mod node;
mod options;
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
pub use options::{Options, Statistics, Way};
pub use snapshot::{Changes, Range, Snapshot};
pub use storage::{Folder, ShareRange, Shared, Storage, StorageFile, UNIT_BYTES, VolumeStorage};
pub use store::Store;
