//! The host's library for Atomic-Writes: installing and recovering it, and transactions.
//!
//! Invariants: the numbers of a slot's transactions only grow; a transaction commits only after each of its writes was
//! acknowledged; an unacknowledged write is sent again, which is idempotent.

mod transaction;

use std::collections::BTreeMap;

use crate::answer;
use crate::error::SpuError;
use crate::host::Event;
use crate::install::{InstallError, InstallOptions};
use crate::names::{EndpointId, ProcessId, ProgramId, SpuId};
use crate::stripes::{STRIPE_BYTES, Stripes};
use crate::system::Ssd;

pub use transaction::{Outcome, Transaction};

/// The number of transactions that may be in progress. Transaction `t` is in slot `t % SLOTS`.
pub const SLOTS: u64 = 16;
/// The most writes of a transaction on one processor.
pub const RECORDS: usize = 8;

/// The most bytes of a batch's writes on one processor.
pub const BATCH_BYTES: usize = STRIPE_BYTES as usize - 256;

/// Handlers, as `programs/atomic_writes.h` numbers them.
mod handler {
    pub const LOGWRITE: u32 = 0;
    pub const COMMIT: u32 = 1;
    pub const LOGWRITECOMMIT: u32 = 2;
    pub const ABORT: u32 = 3;
    pub const LOGWRITES: u32 = 4;
    pub const LOGWRITESCOMMIT: u32 = 5;
    pub const SCAN: u32 = 16;
    pub const RESOLVE: u32 = 17;
    pub const END: u32 = 18;
    pub const ASSIGN: u32 = 19;
}

/// Why Atomic-Writes could not be set up.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AtomicWritesError {
    /// It could not be installed.
    #[error(transparent)]
    Install(#[from] InstallError),
    /// A request could not be sent.
    #[error(transparent)]
    Sending(#[from] SpuError),
    /// A processor refused a step of recovery, or the assignment of a slot.
    #[error("processor {spu} answered {status} to handler {handler} of Atomic-Writes")]
    Refused {
        /// The processor.
        spu: SpuId,
        /// The handler.
        handler: u32,
        /// The answer.
        status: i32,
    },
    /// More writes at one processor than a transaction can have.
    #[error("{writes} writes in stripes of processor {spu}; a transaction has at most {RECORDS} there")]
    TooManyWrites {
        /// The processor.
        spu: SpuId,
        /// The writes.
        writes: usize,
    },
    /// More bytes at one processor than a batch can have.
    #[error("a batch with {bytes} bytes for processor {spu}; it may have {BATCH_BYTES} there")]
    TooManyBytes {
        /// The processor.
        spu: SpuId,
        /// The bytes.
        bytes: usize,
    },
}

/// Atomic-Writes, installed.
#[derive(Clone, Copy, Debug)]
pub struct AtomicWrites {
    program: ProgramId,
}

impl AtomicWrites {
    /// Bytes of the drive that its logs take.
    pub fn region_bytes(stripes: Stripes) -> u64 {
        stripes.row_bytes() * SLOTS * (1 + RECORDS as u64)
    }

    /// Installs it, with its logs from `region_start` on, and recovers transactions that a loss of power interrupted. The endpoint
    /// must be the kernel's.
    pub fn install(
        ssd: &mut Ssd,
        kernel: EndpointId,
        region_start: u64,
    ) -> Result<AtomicWrites, AtomicWritesError> {
        AtomicWrites::install_module(ssd, kernel, region_start, crate::shipped::ATOMIC_WRITES)
    }

    /// Installs a different build of it.
    pub fn install_module(
        ssd: &mut Ssd,
        kernel: EndpointId,
        region_start: u64,
        module: &[u8],
    ) -> Result<AtomicWrites, AtomicWritesError> {
        let region = region_start..region_start.saturating_add(AtomicWrites::region_bytes(ssd.stripes()));
        let options = InstallOptions { is_open: true, region: Some(region) };
        let program = ssd.install(ProcessId::KERNEL, module, options)?;
        let installed = AtomicWrites { program };
        for step in [handler::SCAN, handler::RESOLVE, handler::END] {
            installed.ask_all(ssd, kernel, step, &[])?;
        }
        Ok(installed)
    }

    /// Its number as a program, for the intercall table.
    pub fn program(self) -> ProgramId {
        self.program
    }

    /// Assigns a slot to a process; no other process can use its transactions.
    pub fn assign(
        self,
        ssd: &mut Ssd,
        kernel: EndpointId,
        slot: u32,
        process: ProcessId,
    ) -> Result<(), AtomicWritesError> {
        let body = [slot.to_le_bytes(), process.number().to_le_bytes()].concat();
        self.ask_all(ssd, kernel, handler::ASSIGN, &body)
    }

    /// Sends a request to all processors, and waits for their answers.
    fn ask_all(
        self,
        ssd: &mut Ssd,
        kernel: EndpointId,
        handler: u32,
        body: &[u8],
    ) -> Result<(), AtomicWritesError> {
        let mut asked = BTreeMap::new();
        for spu in (0..ssd.processors()).map(SpuId) {
            let now_ns = ssd.now_ns();
            asked.insert(ssd.send(kernel, spu, (self.program, handler), body.to_vec(), now_ns)?, spu);
        }
        while !asked.is_empty() {
            match ssd.next_event_of(kernel) {
                Some(Event::Answer { request, status, .. }) => {
                    if let Some(spu) = asked.remove(&request)
                        && status != answer::OK
                    {
                        return Err(AtomicWritesError::Refused { spu, handler, status });
                    }
                }
                Some(Event::PowerLost { .. }) | None => return Err(SpuError::PowerLost.into()),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// The start of the last region that has room for the logs, for a drive whose end is unused.
pub fn last_region(stripes: Stripes) -> u64 {
    let bytes = AtomicWrites::region_bytes(stripes);
    let rows = stripes.capacity_bytes() / stripes.row_bytes();
    rows * stripes.row_bytes() - bytes.min(rows * stripes.row_bytes())
}

const _: () = assert!(STRIPE_BYTES == 8192, "a record of the log is a stripe");
