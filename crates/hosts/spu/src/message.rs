//! Requests, and where their answers go.
//!
//! Invariants: a request's origin is set where it enters the drive, and every request made on its behalf carries the same origin;
//! programs cannot name one. A request arrives completely or not at all. Each is answered exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::names::{EndpointId, Party, ProcessId, ProgramId, SpuId};

/// Bytes of a request's header on ring and link: source, origin, program, handler and length.
pub const HEADER_BYTES: u64 = 32;
/// Bytes of an answer.
pub const ANSWER_BYTES: u64 = 16;
/// The longest body.
pub const BODY_BYTES: usize = 64 << 10;
/// The maximum number of requests that programs may send on behalf of one request of the host.
const REQUESTS_OF_ONE: u32 = 4096;

/// The endpoint on whose behalf something is done, and how many more requests may be sent for it.
#[derive(Debug)]
pub(crate) struct Origin {
    pub endpoint: EndpointId,
    left: AtomicU32,
}

impl Origin {
    pub fn new(endpoint: EndpointId) -> Arc<Origin> {
        Arc::new(Origin { endpoint, left: AtomicU32::new(REQUESTS_OF_ONE) })
    }

    pub fn process(&self) -> ProcessId {
        self.endpoint.process()
    }

    /// Counts a request; false if the limit is reached.
    pub fn spend(&self) -> bool {
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }
}

/// The number of a handler's call, unique in the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CallId(pub u64);

/// A thread of a program on a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThreadRef {
    pub spu: SpuId,
    pub program: ProgramId,
    pub thread: usize,
    /// The call that it executes; a later call of the same thread is a different one.
    pub call: CallId,
}

/// Where an answer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AnswerTo {
    Host {
        endpoint: EndpointId,
        request: u64,
    },
    Ticket {
        thread: ThreadRef,
        ticket: usize,
    },
    /// A call between programs on one processor, which also returns data.
    Call(ThreadRef),
}

#[derive(Debug)]
pub(crate) struct Message {
    pub origin: Arc<Origin>,
    pub source: Party,
    /// The program that sent it, if one did.
    pub caller: Option<ProgramId>,
    pub program: ProgramId,
    pub handler: u32,
    pub body: Vec<u8>,
    pub answer_to: AnswerTo,
}

impl Message {
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES + self.body.len() as u64
    }
}
