//! Executes what handlers request from the system, at their time.

use tantalum::{NamespaceId, Status};

use crate::activation::Op;
use crate::agenda::What;
use crate::answer;
use crate::done::Done;
use crate::message::ThreadRef;
use crate::program::Waiting;
use crate::system::{Ssd, WAIT_NS};

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
            Op::NvmWrite { range, bytes } => Ok(self.nvm_write(thread, &range, &bytes)),
            Op::NvmCopy { to, from } => self.nvm_copy(thread, &to, &from),
            Op::Commit(how) => self.nvm_commit(thread, how),
            Op::Flush => self.nvm_flush(),
            Op::Check { range, bits } => Ok(self.nvm_check(thread, &range, bits)),
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
}
