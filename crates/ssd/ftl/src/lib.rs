//! The flash translation layer: it keeps the place of each logical page, correctly through power cuts.
//!
//! The map is the maximum of a set of assertions (see `fold`), which are stored in spare areas (`spare`) and in the
//! journal (`metadata`). A checkpoint (`checkpoint`) is a fold that need not be repeated. `erase` is the one rule that
//! keeps all of this valid. Everything else decides where the next page goes: `space`, `allocate`, `collect`.
//!
//! Nothing here asks for the time: each operation takes the earliest time at which it may start and returns the time at
//! which it is done.

mod allocate;
mod audit;
mod batch;
mod batch_marks;
mod batches;
mod block_states;
pub mod canary;
mod checkpoint;
mod collect;
mod counters;
#[cfg(test)]
mod cuts_in_a_row;
mod dump;
mod erase;
mod error;
mod file_lists;
mod findings;
mod fold;
#[cfg(test)]
mod forged;
mod fs_write;
mod ftl;
mod host_unit;
mod journaling;
mod key;
mod maintain;
mod map;
mod metadata;
mod page_image;
mod parts;
#[cfg(test)]
mod possible;
mod reader;
#[cfg(test)]
mod recorded;
mod recovery;
mod report;
mod reservation;
mod retire;
mod scan;
mod share;
mod space;
mod spare;
mod tenants;
#[cfg(test)]
mod test_support;
mod types;
#[cfg(test)]
mod waits;
mod write;

pub use block_states::BlockState;
pub use counters::{Counters, FlashUnits};
pub use error::{Damage, FtlError, LayoutError};
pub use file_lists::{ListRefusal, ListsPlan};
pub use findings::{Audit, Finding};
pub use ftl::Ftl;
pub use host_unit::HostUnit;
pub use key::{KEY_BYTES, Key, KeyError, NamespaceAttributes, NamespaceId};
pub use map::HintError;
pub use metadata::{NvmPlan, protected_bytes};
pub use parts::{PREFETCHED, Wear};
pub use recovery::FormatError;
pub use report::RecoveryReport;
pub use reservation::Reservation;
#[cfg(feature = "canaries")]
pub use reservation::{Purpose, ReservationUse, take_reservation_uses};
pub use share::ShareRefusal;
pub use space::{
    BlockUse, CheckpointInterval, FtlConfig, Layout, OPEN_LOGS, SpareBlocks, VictimPolicy, map_bytes,
};
pub use tenants::records::{KeyValueError, KvRecord, NAMESPACES, NamespaceInfo, Room, VALUE_BYTES};
pub use types::{FileEntry, FileId, Generation, Hint, Lpn, METADATA_BYTES, Metadata, Seq, ShareRange, TxId};
