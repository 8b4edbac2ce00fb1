//! An embedded transactional key-value store that writes once (KAML, section 3.3).
//!
//! The drive makes a `put` of many records atomic and durable, so a transaction's commit is one `put`, and nothing is
//! logged in addition. Promises:
//! - **K1** Transactions are serializable: locks on keys and on ranges of keys are shared or exclusive, held until the
//!   end (strong strict two-phase locking), and a transaction's changes are private until it commits. A scan sees no
//!   phantoms.
//! - **K2** A commit is all or nothing. Once it returns it survives the end of the process, and with [`Sync::Host`]
//!   also the loss of the machine.
//! - **K3** Deadlocks are detected when they form, and the youngest transaction in the cycle gives way. The oldest
//!   never does, so work always progresses; [`Store::transact`] retries at the same age. A thread that would wait for
//!   another transaction of its own is refused the lock ([`Error::SelfDeadlock`]).
//! - **K4** A failed operation changes nothing. If it is unknown whether a commit took effect, the store takes no more
//!   changes, and what that commit was to change cannot be read, until it is reopened. Everything else can.
//! - **K5** A snapshot sees what was committed and durable when it was opened, all of it and nothing else, or gives an
//!   error. It blocks no transaction, and waits for none.
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

mod age;
mod backup;
mod cache;
mod cache_padded;
#[cfg(feature = "canaries")]
pub mod canaries;
mod catalog;
mod commit;
mod copy;
mod damage;
mod error;
mod failure;
mod files;
mod keys;
mod large;
mod large_values;
mod limits;
mod locks;
mod options;
mod ordered_key;
mod plan;
mod positions;
mod range;
mod rebuild;
mod record;
mod record_store;
mod redo;
mod room;
mod sharded;
mod shared;
mod snapshot;
mod space;
mod spans;
mod step;
mod store;
mod transaction;
mod tree;
#[cfg(feature = "serde")]
mod typed;
mod versions;
mod wake;

pub use copy::Copied;
pub use error::Error;
pub use keys::prefix_range;
pub use options::{Options, Sync};
pub use range::{Keys, Lent, Part, Range};
pub use record::{Bytes, Namespace, ORDERED_KEY_BYTES, Order, Value};
pub use snapshot::Snapshot;
pub use store::{Counters, Store};
pub use tantalum::Key;
pub use transaction::Transaction;
