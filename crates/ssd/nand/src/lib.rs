//! The medium: flash that is programmed by pages and erased by blocks, its spare areas, wear, faults, time,
//! power, and the image that holds it all.
//!
//! [`Nand`] is the only entry point. It knows places ([`Ppn`], [`PageId`], [`BlockId`]) but no logical addresses. Its
//! promises, M1 to M7, are at the head of the module `nand`; the image's layout is at the head of `image::layout`.

mod array;
mod bus;
mod checksum;
mod counters;
mod dram;
mod error;
mod failures;
mod faults;
mod gaps;
mod geometry;
mod image;
mod issued;
mod line;
mod lock_holder;
mod nand;
mod narrow_array;
mod nvm;
mod operations;
mod power;
mod prefetch;
mod process;
mod random;
#[cfg(test)]
mod random_cuts;
mod read;
mod resolve;
mod schedule;
mod slots;
mod state;
mod stores;
#[cfg(test)]
mod test_support;
mod time;
mod timeline;
mod transfers;

pub use array::Array;
pub use bus::Bus;
pub use checksum::{checksum_joined, checksum_of, checksum_with};
pub use counters::Counters;
pub use error::{HostError, MediumError, NandError};
pub use faults::{FailingStep, Faults, StepFault};
pub use geometry::*;
pub use image::{
    Access, Examination, HostCall, HostFailure, HostFault, HostFaults, HostSync, ImageFinding, Life,
    MAX_DESCRIPTION_BYTES, MAX_PROTECTED_BYTES, Mapping, TestHost,
};
pub use issued::{InFlight, LostProgram, Operation, Outcome};
pub use lock_holder::LockHolder;
pub use nand::Nand;
pub use narrow_array::NarrowArray;
pub use nvm::{MAX_NVM_BYTES, MAX_NVM_LATENCY_NS, NvmShape, WORD_BYTES};
pub use operations::Source;
pub use process::Process;
pub use random::{SplitMix64, mix};
pub use schedule::Scheduling;
pub use slots::Slot;
pub use state::PageState;
pub use time::{Busy, Timing};
pub use transfers::{Fetches, Fills};
