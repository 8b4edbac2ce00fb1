//! What the system does for a handler that asks for something, at the handler's time.
//!
//! Invariants:
//! - Non-volatile memory is accessed only within one stripe of the processor, and only where the originating process has
//!   the right, or in the program's own region. The kernel has all rights; nobody reaches another program's region.

use std::ops::Range;
use std::sync::Arc;

use tantalum::{Device, NamespaceId, Nanoseconds, Status};

use crate::activation::{Activation, Op, Room};
use crate::agenda::What;
use crate::answer;
use crate::instance::Fault;
use crate::message::ThreadRef;
use crate::names::{ProcessId, ProgramId};
use crate::packet::Miss;
use crate::permission::Rights;
use crate::program::Waiting;
use crate::stage::{Stage, flush};
use crate::system::{Ssd, WAIT_NS};

/// Instructions to look at one entry of the permission table, and to begin.
pub(crate) const CHECK_INSTRUCTIONS: u64 = 20;
const ENTRY_INSTRUCTIONS: u64 = 12;

/// How far something got.
pub(crate) enum Done {
    /// The handler goes on now, after this number of the system's instructions.
    Now(i32, u64),
    /// It goes on when this is done.
    At(i32, Nanoseconds),
    /// It waits.
    Waits(Waiting),
    /// The program has to be ended.
    Fault(Fault),
}

impl Ssd {
    pub(crate) fn perform(&mut self, thread: ThreadRef, op: Op) -> Result<(), Status> {
        let done = match self.execute(thread, op) {
            Err(Status::PowerLost) => return Err(Status::PowerLost),
            Err(_) => Done::Now(answer::DRIVE, 0),
            Ok(done) => done,
        };
        match done {
            Done::Now(status, instructions) => {
                let overhead_ns = self.instructions_ns(instructions);
                self.resume(thread.spu, thread.program, thread.thread, status, overhead_ns);
            }
            Done::At(status, done_ns) if done_ns <= self.now_ns => {
                self.resume(thread.spu, thread.program, thread.thread, status, 0);
            }
            Done::At(status, done_ns) => {
                self.arrange(done_ns, What::Wake { thread, status });
                self.wait(thread, Waiting::Drive);
            }
            Done::Waits(waiting) => {
                let ticket = if let Waiting::Ticket(ticket) = waiting { Some(ticket) } else { None };
                self.arrange(self.now_ns + WAIT_NS, What::Timeout { thread, ticket });
                self.wait(thread, waiting);
            }
            Done::Fault(fault) => {
                let copy = self.copy_mut(thread.spu, thread.program);
                if let Some(call) = copy.and_then(|copy| copy.instance.stopped(thread.thread)) {
                    let handler = call.message.handler;
                    self.end_program(thread.program, (thread.spu, handler), fault);
                }
                self.yield_processor(thread.spu);
            }
        }
        Ok(())
    }

    fn execute(&mut self, thread: ThreadRef, op: Op) -> Result<Done, Status> {
        match op {
            Op::NvmRead { to, range } => self.nvm_read(thread, to, &range),
            Op::NvmWrite { range, bytes } => {
                let (status, instructions) = self.nvm_write(thread, &range, &bytes);
                Ok(Done::Now(status, instructions))
            }
            Op::NvmCopy { to, from } => self.nvm_copy(thread, &to, &from),
            Op::Commit(how) => {
                if !self.keep_rights(thread) {
                    return Ok(Done::Now(answer::NO_PERMISSION, CHECK_INSTRUCTIONS));
                }
                let done_ns =
                    self.on_stage(thread, |stage, device, at_ns| stage.commit(device, how, at_ns))?;
                Ok(Done::At(answer::OK, done_ns))
            }
            Op::Flush => {
                let done_ns = flush(&mut self.drive.lock(), self.now_ns)?;
                Ok(Done::At(answer::OK, done_ns))
            }
            Op::Check { range, bits } => {
                let Some(rights) = Rights::from_bits(bits) else {
                    return Ok(Done::Now(answer::BAD_ARGUMENT, 0));
                };
                let (status, instructions) = self.check(thread, &range, rights);
                Ok(Done::Now(status, instructions))
            }
            Op::Respond(status) => self.respond(thread, status),
            Op::Finish(draft) => self.finish(thread, draft),
            Op::Wait(ticket) => Ok(match self.call_of(thread).tickets[ticket] {
                Some(status) => Done::Now(status, 0),
                None => Done::Waits(Waiting::Ticket(ticket)),
            }),
            Op::Call { program, handler, body, out } => Ok(self.call(thread, (program, handler), body, out)),
            Op::KvGet { namespace, key, to } => self.kv_get(thread, NamespaceId(namespace), &key, to),
            Op::KvNext { namespace, key, to } => self.kv_next(thread, NamespaceId(namespace), &key, to),
            Op::KvScan { namespace, key, to, most } => {
                self.kv_scan(thread, NamespaceId(namespace), &key, to, most)
            }
        }
    }

    /// The call of a thread that has asked for something.
    pub(crate) fn call_of(&mut self, thread: ThreadRef) -> &mut Activation {
        let copy = self.copy_mut(thread.spu, thread.program).expect("the program asked for something");
        copy.instance.stopped(thread.thread).expect("the thread stopped to ask")
    }

    pub(crate) fn on_stage(
        &mut self,
        thread: ThreadRef,
        work: impl FnOnce(&mut Stage, &mut Device, Nanoseconds) -> Result<Nanoseconds, Status>,
    ) -> Result<Nanoseconds, Status> {
        let at_ns = self.now_ns;
        let mut stage = std::mem::take(&mut self.call_of(thread).stage);
        let result = work(&mut stage, &mut self.drive.lock(), at_ns);
        self.call_of(thread).stage = stage;
        result
    }

    // -- non-volatile memory ------------------------------------------------------------------------------------

    /// Whether the call may do this, and the instructions to find out. A missing permission is asked for.
    pub(crate) fn check(&mut self, thread: ThreadRef, range: &Range<u64>, rights: Rights) -> (i32, u64) {
        if !self.stripes.is_local(thread.spu, range) {
            return (answer::NOT_LOCAL, CHECK_INSTRUCTIONS);
        }
        let origin = Arc::clone(&self.call_of(thread).message.origin);
        let (is_allowed, entries) = self.is_allowed(thread, origin.process(), range, rights);
        // asking counts as a request, so that nobody floods the driver
        if !is_allowed && origin.spend() {
            let (endpoint, range) = (origin.endpoint, range.clone());
            self.miss(Miss { endpoint, spu: thread.spu, range, rights });
        }
        let status = if is_allowed { answer::OK } else { answer::NO_PERMISSION };
        (status, CHECK_INSTRUCTIONS + entries * ENTRY_INSTRUCTIONS)
    }

    /// Whether a process may do this by way of a program, and the entries looked at.
    fn is_allowed(
        &mut self,
        thread: ThreadRef,
        process: ProcessId,
        range: &Range<u64>,
        rights: Rights,
    ) -> (bool, u64) {
        match self.is_own_region(thread.program, range) {
            Some(is_own) => (is_own, 0),
            None if process.is_kernel() => (true, 0),
            None => self.spus[thread.spu.0 as usize].permissions.check(process, range, rights),
        }
    }

    /// Whether a handler still has the rights to what it stored and did not commit. If the driver took one away since, none of
    /// the stores happens: their place may be somebody else's by now (hazard 27).
    pub(crate) fn keep_rights(&mut self, thread: ThreadRef) -> bool {
        let call = self.call_of(thread);
        let (process, mut stage) = (call.message.origin.process(), std::mem::take(&mut call.stage));
        let keeps = self.stage_keeps_rights(thread, process, &mut stage);
        self.call_of(thread).stage = stage;
        keeps
    }

    /// The same for the stores of a call that has returned.
    pub(crate) fn stage_keeps_rights(
        &mut self,
        thread: ThreadRef,
        process: ProcessId,
        stage: &mut Stage,
    ) -> bool {
        let revocations = self.spus[thread.spu.0 as usize].permissions.revocations;
        let keeps = stage.is_empty()
            || stage.revocations == revocations
            || stage.stored().all(|range| self.is_allowed(thread, process, &range, Rights::WRITE).0);
        if !keeps {
            stage.discard();
        }
        keeps
    }

    /// Whether a range in a program's region is in this program's own; none if it is in no region.
    fn is_own_region(&self, program: ProgramId, range: &Range<u64>) -> Option<bool> {
        let regions = self.programs.iter().filter_map(|(id, program)| Some((*id, program.region.as_ref()?)));
        let mut overlapping =
            regions.filter(|(_, region)| region.start < range.end && range.start < region.end);
        let (owner, region) = overlapping.next()?;
        Some(owner == program && region.start <= range.start && range.end <= region.end)
    }

    fn nvm_read(&mut self, thread: ThreadRef, to: u32, range: &Range<u64>) -> Result<Done, Status> {
        let (status, instructions) = self.check(thread, range, Rights::READ);
        if status != answer::OK {
            return Ok(Done::Now(status, instructions));
        }
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let done_ns =
            self.on_stage(thread, |stage, device, at_ns| stage.read(device, range, &mut bytes, at_ns))?;
        let room = Room { at: to, bytes: bytes.len() as u32, length_at: 0 };
        let copy = self.copy_mut(thread.spu, thread.program).expect("the program asked for something");
        copy.instance.fill(room, &bytes, None);
        Ok(self.later(answer::OK, done_ns, instructions))
    }

    fn nvm_write(&mut self, thread: ThreadRef, range: &Range<u64>, bytes: &[u8]) -> (i32, u64) {
        let (status, instructions) = self.check(thread, range, Rights::WRITE);
        if status != answer::OK {
            return (status, instructions);
        }
        let revocations = self.spus[thread.spu.0 as usize].permissions.revocations;
        let stage = &mut self.call_of(thread).stage;
        if stage.is_full_for(range) {
            return (answer::NO_ROOM, instructions);
        }
        if stage.is_empty() {
            stage.revocations = revocations;
        }
        stage.write(range, bytes);
        (answer::OK, instructions)
    }

    fn nvm_copy(&mut self, thread: ThreadRef, to: &Range<u64>, from: &Range<u64>) -> Result<Done, Status> {
        let (status, read_cost) = self.check(thread, from, Rights::READ);
        if status != answer::OK {
            return Ok(Done::Now(status, read_cost));
        }
        let mut bytes = Vec::with_capacity((from.end - from.start) as usize);
        let read_ns =
            self.on_stage(thread, |stage, device, at_ns| stage.read(device, from, &mut bytes, at_ns))?;
        let (status, cost) = self.nvm_write(thread, to, &bytes);
        Ok(self.later(status, read_ns, read_cost + cost))
    }

    /// The handler goes on when the drive is done, and the system's instructions are too.
    pub(crate) fn later(&self, status: i32, done_ns: Nanoseconds, instructions: u64) -> Done {
        match done_ns <= self.now_ns {
            true => Done::Now(status, instructions),
            false => Done::At(status, done_ns + self.instructions_ns(instructions)),
        }
    }
}
