//! A small storage manager, and TPC-B on it, in virtual time: figure 5.4 of Jin's thesis.
//!
//! Clients change balances in pages of 4 KiB that a buffer pool holds, under locks on records (strict two-phase). One
//! of three [`Scheme`]s makes their transactions atomic and durable:
//!
//! - **ARIES** (Mohan et al., TODS 1992) over `Base-IO` or `Direct-IO`: a log of before and after images, pages that are
//!   written at any time (steal) and not at commit (no force), group commit, fuzzy checkpoints; redo and undo after a cut.
//! - **MARS** (Coburn et al., SOSP 2013) over `Atomic-Writes`: the drive has the log. A transaction's writes go there as bytes of
//!   records, and commit brings them home. There are no checkpoints, and no page is written back.
//!
//! Invariants:
//! - A transaction is acknowledged when it is durable, and its locks are released after that. The drive acknowledges only what is
//!   durable: [`Store::create`] refuses other drives.
//! - ARIES writes a page only after the log of all its changes (write-ahead), and a page is one unit, which is never torn.
//! - After a cut, every account, teller and branch agrees with the history, and the history has every acknowledged transfer.
//!
//! | file | holds |
//! |---|---|
//! | `host.rs` | the cost of the host's work: all such constants |
//! | `world.rs` | tasks in virtual time, and the drive that they use |
//! | `tables.rs` | layout; transfers |
//! | `locks.rs`, `pool.rs` | locks on records; the buffer pool |
//! | `record.rs`, `log.rs`, `checkpoint.rs`, `recovery.rs` | ARIES |
//! | `transfer.rs` | one transaction, in each scheme |
//! | `scheme.rs` | the schemes |
//! | `store.rs` | a store: loading, power, checking |
//! | `run.rs`, `measure.rs` | running clients, and measuring them |

mod checkpoint;
mod error;
pub mod host;
mod locks;
mod log;
mod measure;
mod pool;
mod record;
mod recovery;
mod run;
mod scheme;
mod store;
mod tables;
mod transfer;
mod world;

pub use error::StoreError;
pub use measure::Ran;
pub use scheme::Scheme;
pub use store::Store;
pub use tables::Size;
