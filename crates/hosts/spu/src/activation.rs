//! One call of a handler: its request, what it sends, and what it requests from the system, the drive's small operating
//! system.

use std::ops::Range;

use crate::message::{CallId, Message};
use crate::names::{ProgramId, SpuId};
use crate::stage::{How, Stage};

/// The maximum number of requests that one call may send.
pub(crate) const TICKETS: usize = 64;

/// A handler's call.
#[derive(Debug)]
pub(crate) struct Activation {
    pub id: CallId,
    pub message: Message,
    /// Bytes of the body that were received.
    pub received: usize,
    pub is_answered: bool,
    /// The processor's count of revocations when the first store of the stage was checked.
    pub revocations: u32,
    pub stage: Stage,
    pub draft: Option<Draft>,
    /// The answers to this call's requests; `None` for those in flight.
    pub tickets: Vec<Option<i32>>,
    /// The data that the call returns to another program on this processor.
    pub reply: Vec<u8>,
    /// Instructions that it may still execute.
    pub fuel: u64,
}

/// A request under construction.
#[derive(Debug)]
pub(crate) struct Draft {
    pub destination: u32,
    pub program: u32,
    pub handler: u32,
    pub parts: Vec<Part>,
    pub bytes: usize,
}

#[derive(Debug)]
pub(crate) enum Part {
    Local(Vec<u8>),
    Nvm(Range<u64>),
}

/// What a handler requests from the system: everything that others could observe, or that takes time beyond its own
/// instructions. It happens at the handler's time, in order with everything else in the drive.
#[derive(Debug)]
pub(crate) enum Op {
    NvmRead { to: u32, range: Range<u64> },
    NvmWrite { range: Range<u64>, bytes: Vec<u8> },
    NvmCopy { to: Range<u64>, from: Range<u64> },
    Commit(How),
    Flush,
    Check { range: Range<u64>, bits: u32 },
    Respond(i32),
    Finish(Draft),
    Wait(usize),
    Call { program: ProgramId, handler: u32, body: Vec<u8>, out: OutBuffer },
    KvGet { namespace: u32, key: Vec<u8>, to: OutBuffer },
    KvNext { namespace: u32, key: Vec<u8>, to: OutBuffer },
    KvScan { namespace: u32, key: Vec<u8>, to: OutBuffer, most: u32 },
}

/// A buffer in a program's memory. The number of bytes used goes to `length_at`, unless that is 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutBuffer {
    pub at: u32,
    pub bytes: u32,
    pub length_at: u32,
}

/// Where a copy of a program runs, and its own region of non-volatile memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Location {
    pub spu: SpuId,
    pub processors: u32,
    /// The first of this processor's stripes in the region, and how many it has there.
    pub region: Option<(u64, u32)>,
    /// Bytes that local memory moves while the processor executes one instruction.
    pub bytes_per_instruction: u64,
}
