//! How a thread's run ended: it requests something from the system, returns, or faults.
//!
//! Invariant: stores take effect when their handler returns or commits them, and only if it still has the rights to them.

use tantalum::Status;

use crate::activation::Activation;
use crate::answer;
use crate::backing::Backing;
use crate::fault::Fault;
use crate::instance::Run;
use crate::message::ThreadRef;
use crate::program::Thread;
use crate::stage::How;
use crate::system::Ssd;

impl Ssd {
    /// Handles the end of a thread's run.
    pub(crate) fn step(
        &mut self,
        thread: ThreadRef,
        run: Run,
        call: Option<Activation>,
    ) -> Result<(), Status> {
        let (spu, program) = (thread.spu, thread.program);
        if !self.programs.contains_key(&program) {
            // the program was ended in the meantime, which answered its stopped calls
            if let Some(call) = call {
                self.give_up(spu, &call);
            }
            self.yield_processor(spu);
            return Ok(());
        }
        match run {
            Run::Asks(op) => self.perform(thread, op),
            Run::Returns => {
                let call = call.expect("a call that returns comes with its state");
                self.returns(thread, call)
            }
            Run::Faults(fault) => {
                let call = call.expect("a call that faults comes with its state");
                self.fault(thread, call, fault);
                Ok(())
            }
        }
    }

    fn returns(&mut self, thread: ThreadRef, mut call: Activation) -> Result<(), Status> {
        let spu = thread.spu;
        let origin = (call.message.origin.process(), call.revocations);
        let otherwise = match self.stage_keeps_rights(thread, origin, &mut call.stage) {
            true => answer::NO_ANSWER,
            false => answer::NO_PERMISSION,
        };
        let (at_ns, stage) = (self.now_ns, &mut call.stage);
        let committed =
            Backing::with(&self.drive, &mut self.memory, |backing| stage.commit(backing, How::Cached, at_ns));
        let (status, done_ns) = match committed {
            Ok(done_ns) => (otherwise, done_ns),
            Err(Status::PowerLost) => return Err(Status::PowerLost),
            Err(_) => (answer::DRIVE, self.now_ns),
        };
        if !call.is_answered {
            self.send_answer(spu, call.message.answer_to, status, done_ns);
        }
        if let Some(copy) = self.copy_mut(spu, thread.program) {
            copy.threads[thread.thread] = Thread::Idle;
        }
        self.yield_processor(spu);
        Ok(())
    }

    /// Ends the program of a call that faulted. Its uncommitted stores are discarded (hazard 22).
    fn fault(&mut self, thread: ThreadRef, call: Activation, fault: Fault) {
        self.give_up(thread.spu, &call);
        self.end_program(thread.program, (thread.spu, call.message.handler), fault);
        self.yield_processor(thread.spu);
    }
}
