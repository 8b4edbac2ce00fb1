//! What the system does for a handler that accesses non-volatile memory.

use std::ops::Range;

use tantalum::Status;

use crate::activation::OutBuffer;
use crate::answer;
use crate::backing::Backing;
use crate::done::Done;
use crate::message::ThreadRef;
use crate::permission::Rights;
use crate::rights::CHECK_INSTRUCTIONS;
use crate::stage::How;
use crate::system::Ssd;

impl Ssd {
    pub(crate) fn nvm_check(&mut self, thread: ThreadRef, range: &Range<u64>, bits: u32) -> Done {
        let Some(rights) = Rights::from_bits(bits) else {
            return Done::Now(answer::BAD_ARGUMENT, 0);
        };
        let (status, instructions) = self.check(thread, range, rights);
        Done::Now(status, instructions)
    }

    pub(crate) fn nvm_write(&mut self, thread: ThreadRef, range: &Range<u64>, bytes: &[u8]) -> Done {
        let (status, instructions) = self.store(thread, range, bytes);
        Done::Now(status, instructions)
    }

    pub(crate) fn nvm_commit(&mut self, thread: ThreadRef, how: How) -> Result<Done, Status> {
        if !self.keep_rights(thread) {
            return Ok(Done::Now(answer::NO_PERMISSION, CHECK_INSTRUCTIONS));
        }
        let done_ns = self.on_stage(thread, |stage, backing, at_ns| stage.commit(backing, how, at_ns))?;
        Ok(Done::At(answer::OK, done_ns))
    }

    pub(crate) fn nvm_flush(&mut self) -> Result<Done, Status> {
        let at_ns = self.now_ns;
        let done_ns = Backing::with(&self.drive, &mut self.memory, |backing| backing.flush(at_ns))?;
        Ok(Done::At(answer::OK, done_ns))
    }

    pub(crate) fn nvm_read(
        &mut self,
        thread: ThreadRef,
        to: u32,
        range: &Range<u64>,
    ) -> Result<Done, Status> {
        let (status, instructions) = self.check(thread, range, Rights::READ);
        if status != answer::OK {
            return Ok(Done::Now(status, instructions));
        }
        let mut bytes = Vec::with_capacity((range.end - range.start) as usize);
        let done_ns =
            self.on_stage(thread, |stage, backing, at_ns| stage.read(backing, range, &mut bytes, at_ns))?;
        let buffer = OutBuffer { at: to, bytes: bytes.len() as u32, length_at: 0 };
        let copy = self.copy_mut(thread.spu, thread.program).expect("the program asked for something");
        copy.instance.fill(buffer, &bytes, None);
        Ok(self.later(answer::OK, done_ns, instructions))
    }

    /// Adds a store to those that wait for their commit. Returns the status, and the instructions it took.
    fn store(&mut self, thread: ThreadRef, range: &Range<u64>, bytes: &[u8]) -> (i32, u64) {
        let (status, instructions) = self.check(thread, range, Rights::WRITE);
        if status != answer::OK {
            return (status, instructions);
        }
        let revocations = self.spus[thread.spu.0 as usize].permissions.revocations;
        let call = self.call_of(thread);
        if call.stage.is_full_for(range) {
            return (answer::NO_ROOM, instructions);
        }
        if call.stage.is_empty() {
            call.revocations = revocations;
        }
        call.stage.write(range, bytes);
        (answer::OK, instructions)
    }

    pub(crate) fn nvm_copy(
        &mut self,
        thread: ThreadRef,
        to: &Range<u64>,
        from: &Range<u64>,
    ) -> Result<Done, Status> {
        let (status, read_cost) = self.check(thread, from, Rights::READ);
        if status != answer::OK {
            return Ok(Done::Now(status, read_cost));
        }
        let mut bytes = Vec::with_capacity((from.end - from.start) as usize);
        let read_ns =
            self.on_stage(thread, |stage, backing, at_ns| stage.read(backing, from, &mut bytes, at_ns))?;
        let (status, cost) = self.store(thread, to, &bytes);
        Ok(self.later(status, read_ns, read_cost + cost))
    }
}
