//! The medium: flash that is programmed by pages and erased by blocks, its spare areas, wear, faults, time and power.
//! Its bytes are in an image (`tantalum-image`).
//!
//! [`Nand`] is the only entry point. It knows places ([`Ppn`], [`PageId`], [`BlockId`]) but no logical addresses. Its
//! promises, M1 to M7, are at the head of the module `nand`.

mod bookings;
mod bus;
mod counters;
mod dram;
mod failures;
mod faults;
mod gaps;
#[cfg(test)]
mod image_tests;
mod in_flight;
mod line;
mod nand;
mod nvm;
mod operations;
mod power;
#[cfg(test)]
mod random_cuts;
mod read;
mod resolve;
mod schedule;
mod stores;
#[cfg(test)]
mod test_support;
mod time;
mod timeline;
mod transfers;

pub use bookings::Booking;
pub use bus::Bus;
pub use counters::Counters;
pub use faults::{FailingStep, Faults, StepFault};
pub use in_flight::{InFlight, LostProgram, Operation, Outcome};
pub use nand::Nand;
pub use operations::Source;
pub use schedule::{OperationKind, Scheduling};
pub use tantalum_image::{
    Access, Array, BlockId, ChannelId, DieId, Examination, Geometry, GeometryError, HostCall, HostError,
    HostFailure, HostFault, HostFaults, HostSync, ImageFinding, Life, LockHolder, MAX_DESCRIPTION_BYTES,
    MAX_NVM_BYTES, MAX_NVM_LATENCY_NS, MAX_PROTECTED_BYTES, MAX_UNITS, MAX_UNITS_PER_PAGE, Mapping,
    MediumError, NandError, Nanoseconds, NarrowArray, NvmShape, PageId, PageState, PlaneId, Ppn,
    SPARE_END_BYTES, Slot, SpareEnds, SpareHead, SplitMix64, TestHost, Timing, UNIT_BYTES, UNIT_SPARE_BYTES,
    UnitSpare, WORD_BYTES, checksum_of, checksum_with, spare_ends,
};
pub use time::Busy;
pub use transfers::{Fetches, Fills};
