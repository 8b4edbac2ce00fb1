//! An installed program: its copies and their threads.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::activation::OutBuffer;
use crate::functions::{Function, FunctionNames};
use crate::instance::Instance;
use crate::message::{CallId, Message};
use crate::names::{ProcessId, ProgramId, SpuId};

/// An installed program.
pub(crate) struct Installed {
    pub owner: ProcessId,
    pub is_open: bool,
    /// The handlers of other programs that it may call, as bit masks: its row of the intercall table.
    pub may_call: BTreeMap<ProgramId, u64>,
    pub region: Option<Range<u64>>,
    pub parts: Vec<Resident>,
    /// Bytes of instruction memory that it takes on each processor.
    pub code_bytes: u64,
    /// Bytes of data memory that it takes on each processor.
    pub data_bytes: u64,
    pub names: FunctionNames,
}

impl Installed {
    /// The function in which the last running thread on a processor stopped.
    pub fn function(&self, spu: SpuId) -> Option<Function> {
        Some(self.names.function(self.parts[spu.0 as usize].instance.function()?))
    }
}

/// A program's copy on one processor.
pub(crate) struct Resident {
    pub instance: Instance,
    pub queue: VecDeque<Message>,
    pub queued_bytes: usize,
    pub threads: Vec<Thread>,
}

/// The state of a thread.
#[derive(Clone, Debug)]
pub(crate) enum Thread {
    Idle,
    /// Its instructions occupy the processor, or the system works for it.
    Running(CallId),
    /// It can continue with this result.
    Ready(CallId, i32),
    Waiting(CallId, Waiting),
}

#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    Drive,
    Ticket(usize),
    Call(OutBuffer),
}

impl Thread {
    pub fn is_idle(&self) -> bool {
        matches!(self, Thread::Idle)
    }
}
