//! An installed program: its copies, and what their threads do.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::activation::Room;
use crate::functions::{Function, FunctionNames};
use crate::instance::Instance;
use crate::message::{CallId, Message};
use crate::names::{ProcessId, ProgramId, SpuId};

/// An installed program.
pub(crate) struct Installed {
    pub owner: ProcessId,
    pub is_open: bool,
    /// Which handlers of which other programs it may call: its rows of the intercall table.
    pub may_call: BTreeMap<ProgramId, u64>,
    pub region: Option<Range<u64>>,
    pub parts: Vec<Resident>,
    /// Instruction memory that it takes on each processor.
    pub code_bytes: u64,
    /// Data memory that it takes there.
    pub data_bytes: u64,
    pub names: FunctionNames,
}

impl Installed {
    /// The function in which the thread that ran last on a processor has stopped.
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

/// What a thread does.
#[derive(Clone, Debug)]
pub(crate) enum Thread {
    Idle,
    /// Its instructions occupy the processor, or it waits for the system to do what it asked for.
    Running(CallId),
    /// It can go on with this result.
    Ready(CallId, i32),
    Waiting(CallId, Waiting),
}

#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    Drive,
    Ticket(usize),
    Call(Room),
}

impl Thread {
    pub fn is_idle(&self) -> bool {
        matches!(self, Thread::Idle)
    }
}
