//! The flash translation layer: it keeps the place of each logical page, correctly through power cuts.
//!
//! The map is the maximum of a set of assertions (see `fold`), which are stored in spare areas (`spare`) and in the
//! journal (`metadata`). A checkpoint is a fold that need not be repeated. `control/erase.rs` is the one rule that
//! keeps all of this valid. Everything else decides where the next page goes: `space`, `control/allocate.rs`, `control/collect`.
//!
//! The parts of a drive are `map`, `space`, `metadata`, `tenants/units`, `tenants/records` and `zones`; `control` conducts them, and has a
//! guide to what each of them does.
//!
//! Nothing here asks for the time: each operation takes the earliest time at which it may start and returns the time at
//! which it is done.

mod batches;
#[cfg(feature = "canaries")]
pub mod canaries;
mod control;
mod counters;
mod error;
mod file_lists;
mod findings;
mod fold;
mod host_unit;
mod key;
mod map;
mod metadata;
mod page_image;
mod placement;
#[cfg(test)]
mod possible;
mod reader;
mod reads;
mod report;
mod reservation;
mod scan;
mod space;
mod spare;
mod tenants;
#[cfg(test)]
mod test_support;
mod types;
mod zones;

pub use control::{BlockState, FormatError, Ftl, GivenBack, PREFETCHED, Portion, Slack, Wear};
pub use counters::{Counters, FlashUnits};
pub use error::{Damage, FtlError, LayoutError};
pub use file_lists::{ListRefusal, ListsPlan};
pub use findings::{Audit, Finding};
pub use host_unit::HostUnit;
pub use key::{KEY_BYTES, Key, KeyError, NamespaceAttributes, NamespaceId};
pub use map::{HintError, OPEN_LOGS};
pub use metadata::{NvmPlan, protected_bytes};
pub use placement::{
    Handle, HandleCounters, HandleState, Isolation, PlacementConfig, PlacementEvent, PlacementEventKind,
};
pub use report::RecoveryReport;
pub use reservation::Reservation;
#[cfg(feature = "canaries")]
pub use reservation::{Purpose, ReservationUse, take_reservation_uses};
pub use space::{BlockUse, CheckpointInterval, FtlConfig, Layout, SpareBlocks, VictimPolicy, map_bytes};
pub use tenants::records::{Footprint, KeyValueError, KvRecord, NAMESPACES, NamespaceInfo, VALUE_BYTES};
pub use tenants::units::ShareRefusal;
pub use types::{FileEntry, FileId, Generation, Hint, Lpn, METADATA_BYTES, Metadata, Seq, ShareRange, TxId};
pub use zones::{
    ZONED_NAMESPACE, ZoneAction, ZoneCondition, ZoneCosts, ZoneId, ZoneRefusal, ZoneState, ZoneUnit,
    ZonesConfig,
};
