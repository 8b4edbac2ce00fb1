//! An embedded transactional key-value store that writes once (KAML, section 3.3).
//!
//! The drive makes a `put` of many records atomic and durable, so that a transaction's commit is one `put` and nothing
//! is logged beside it. What it keeps:
//! - **K1** Transactions are serializable: locks are shared or exclusive, held until the end (strong strict two-phase
//!   locking), and a transaction's changes are its own until it commits.
//! - **K2** A commit is all or nothing, and survives the end of the process when it returns; with [`Sync::Host`] the
//!   loss of the machine too.
//! - **K3** Deadlocks are found when they close, and the youngest transaction in the circle gives way. The oldest one
//!   never does, so work always goes on; [`Store::transact`] tries again at the same age.
//! - **K4** What fails changes nothing. If it cannot be told whether a commit is there, the store stops.
//!
//! ```
//! # fn main() -> Result<(), tantalum_kv::Error> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("app.tant");
//! let store = tantalum_kv::Store::open(&path)?;
//! let accounts = store.namespace("accounts")?;
//! store.transact(|tx| {
//!     tx.put(accounts, b"alice", b"100")?;
//!     tx.put(accounts, b"bob", b"20")
//! })?;
//! let tx = &mut store.begin()?;
//! assert_eq!(tx.read(accounts, b"alice")?.as_deref(), Some(&b"100"[..]));
//! # Ok(())
//! # }
//! ```

mod cache;
mod catalog;
mod commit;
mod error;
mod locks;
mod options;
mod store;
mod transaction;
#[cfg(feature = "serde")]
mod typed;

pub use error::Error;
pub use options::{Options, Sync};
pub use store::{Counters, Namespace, Store};
pub use tantalum::{Key, KeyError};
pub use transaction::{Transaction, Value};
