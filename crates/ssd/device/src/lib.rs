//! The controller of the drive: commands, cache, timing, power, statistics.
//!
//! [`Device::submit`] is the entry point. Below it, the FTL moves data and keeps the map; above it, volumes and
//! key-value stores know files and records. A [`Profile`] describes a drive.

mod builtin;
#[cfg(feature = "canaries")]
pub mod canaries;
pub mod check;
mod command;
mod command_failures;
mod controller;
mod doubt;
mod effective;
mod engine;
mod inside_memory;
mod inspect;
mod latency;
mod lifecycle;
mod limits;
mod link;
mod nvm_parts;
mod placement;
mod plan;
mod power;
mod profile;
mod self_test;
mod size;
mod smart;
mod status;
mod trace;
mod usage;
mod zones;

pub use builtin::builtin;
pub use command::{
    AnyCommand, Borrowed, COMMANDS, Command, CommandInfo, Completion, Data, Effect, InReply, Output, Owned,
    OwnedRecord, Reply, Request, Units, Work, result_of, vendor_opcode,
};
pub use command_failures::CommandFailure;
pub use controller::Device;
pub use effective::Effective;
pub use engine::KeyValueLimits;
pub use inside_memory::InsideMemory;
pub use latency::{Kind, Latencies};
pub use lifecycle::DeviceError;
pub use limits::Limits;
pub use nvm_parts::NvmParts;
pub use power::PowerLoss;
pub use profile::*;
pub use self_test::SelfTestFinding;
pub use size::{Size, SizeError};
pub use smart::{AVAILABLE_SPARE_THRESHOLD_PERCENT, Smart};
pub use status::Status;
pub use tantalum_ftl::{BlockState, BlockUse, Counters, FlashUnits};
pub use tantalum_ftl::{FileEntry, FileId};
pub use tantalum_ftl::{Footprint, Key, KeyError, KvRecord, NamespaceAttributes, NamespaceId, NamespaceInfo};
pub use tantalum_ftl::{FormatError, GivenBack, LayoutError, Portion, RecoveryReport, Slack};
pub use tantalum_ftl::{Generation, Hint, Lpn, METADATA_BYTES, Metadata, Seq, ShareRange, TxId};
pub use tantalum_ftl::{Handle, HandleCounters, HandleState, PlacementEvent, PlacementEventKind};
#[cfg(feature = "canaries")]
pub use tantalum_ftl::{Purpose, ReservationUse, take_reservation_uses};
pub use tantalum_ftl::{
    ZONED_NAMESPACE, ZoneAction, ZoneCondition, ZoneCosts, ZoneId, ZoneRefusal, ZoneState,
};
pub use tantalum_nand::{
    Access, BlockId, FailingStep, Faults, Fetches, Fills, Geometry, HostCall, HostError, HostFailure,
    HostFault, HostFaults, HostSync, InFlight, Life, LockHolder, Mapping, MediumError, NandError,
    Nanoseconds, Operation, Outcome, StepFault, TestHost, UNIT_BYTES, WORD_BYTES,
};
pub use trace::TRACE_TARGET;
pub use usage::Usage;
pub use zones::ZoneShape;
