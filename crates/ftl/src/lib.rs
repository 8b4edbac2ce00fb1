//! The flash translation layer: which place each logical page has, kept right through power cuts.
//!
//! The map is the maximum of a set of assertions (see `fold`), which live in spare areas (`spare`) and in the
//! journal (`journal`). A checkpoint (`checkpoint`) is a fold that need not be repeated. `erase` is the one rule
//! that keeps all of this true. Everything else decides where the next page goes: `stream`, `blocks`, `collect`.
//!
//! Nothing here asks what time it is: each operation takes the earliest time it may start and returns when it is
//! done.

mod audit;
mod blocks;
mod budget;
pub mod canary;
mod checkpoint;
mod collect;
mod counters;
mod dump;
mod erase;
mod error;
mod fold;
#[cfg(test)]
mod forged;
mod ftl;
mod host_unit;
mod journaling;
mod key_value;
mod layout;
mod logs;
mod map;
mod metadata;
mod page_image;
mod reader;
mod recovery;
mod report;
mod retire;
mod scan;
mod share;
mod space;
mod spare;
mod stream;
#[cfg(test)]
mod test_support;
mod transactions;
mod types;
mod valid;
#[cfg(test)]
mod waits;
mod write;

pub use audit::{Audit, Finding};
pub use blocks::BlockUse;
pub use counters::{Counters, FlashUnits};
pub use error::{Damage, FtlError, LayoutError};
pub use ftl::{Ftl, PREFETCHED, Wear};
pub use host_unit::HostUnit;
pub use key_value::{
    KEY_BYTES, Key, KeyError, KeyValueError, KvRecord, NAMESPACES, NamespaceAttributes, NamespaceId,
    NamespaceInfo, VALUE_BYTES,
};
pub use layout::{CheckpointInterval, FtlConfig, Layout, VictimPolicy};
pub use logs::{HintError, OPEN_LOGS};
pub use metadata::protected_bytes;
pub use recovery::FormatError;
pub use report::RecoveryReport;
pub use retire::SpareBlocks;
pub use share::ShareRefusal;
pub use types::{Generation, Hint, Lpn, METADATA_BYTES, Metadata, Seq, ShareRange, TxId};
