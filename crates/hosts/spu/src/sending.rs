//! What a handler sends: answers, requests and calls.
//!
//! Invariant: a handler's stores are committed before its answer or request leaves.

use std::sync::Arc;

use tantalum::{Nanoseconds, Status};

use crate::activation::{Draft, OutBuffer, Part};
use crate::answer;
use crate::done::Done;
use crate::fault::Fault;
use crate::message::{AnswerTo, Message, ThreadRef};
use crate::names::{EndpointId, Party, ProgramId, SpuId};
use crate::packet::Load;
use crate::permission::Rights;
use crate::program::Waiting;
use crate::stage::How;
use crate::system::Ssd;

/// Instructions to pass a request or an answer to the network.
const SEND_INSTRUCTIONS: u64 = 30;
/// The most bytes of requests that may wait for the ring on one processor.
const OUTGOING_BYTES: usize = 256 << 10;

impl Ssd {
    /// Sends the handler's answer.
    pub(crate) fn respond(&mut self, thread: ThreadRef, status: i32) -> Result<Done, Status> {
        let keeps_rights = self.keep_rights(thread);
        // the stores were discarded, so the handler's own status would be wrong
        let status = if keeps_rights { status } else { answer::NO_PERMISSION };
        let done_ns =
            self.on_stage(thread, |stage, backing, at_ns| stage.commit(backing, How::Cached, at_ns))?;
        let call = self.call_of(thread);
        assert!(!call.is_answered, "call {:?} is answered twice", call.id);
        call.is_answered = true;
        let (to, bytes) = (call.message.answer_to, std::mem::take(&mut call.reply));
        self.answer(thread.spu, to, status, bytes, done_ns);
        Ok(Done::Now(answer::OK, SEND_INSTRUCTIONS))
    }

    /// Sends a request that is complete.
    pub(crate) fn finish(&mut self, thread: ThreadRef, draft: Draft) -> Result<Done, Status> {
        let spu = thread.spu;
        let target = if draft.program == 0 { thread.program } else { ProgramId(draft.program) };
        let party = match self.destination(thread, &draft, target) {
            Ok(party) => party,
            Err(refusal) => return Ok(Done::Now(refusal, SEND_INSTRUCTIONS)),
        };
        let (status, check_cost) = self.check_parts(thread, &draft.parts);
        let cost = SEND_INSTRUCTIONS + check_cost;
        if status != answer::OK {
            return Ok(Done::Now(status, cost));
        }
        let is_remote = party != Party::Spu(spu);
        if is_remote && self.spus[spu.0 as usize].outgoing_bytes + draft.bytes > OUTGOING_BYTES {
            return Ok(Done::Now(answer::NO_ROOM, cost));
        }
        if !self.keep_rights(thread) {
            return Ok(Done::Now(answer::NO_PERMISSION, cost));
        }
        let origin = Arc::clone(&self.call_of(thread).message.origin);
        if !origin.spend() {
            return Ok(Done::Fault(Fault::Flood));
        }
        let (body, ready_ns) = self.assemble(thread, draft.parts)?;
        let call = self.call_of(thread);
        let ticket = call.tickets.len();
        call.tickets.push(None);
        let message = Message {
            origin,
            source: Party::Spu(spu),
            caller: Some(thread.program),
            program: target,
            handler: draft.handler,
            body,
            answer_to: AnswerTo::Ticket { thread, ticket },
        };
        self.send_from(spu, party, message, ready_ns);
        Ok(Done::Now(ticket as i32, cost))
    }

    /// Where a request goes, or why it is refused.
    fn destination(&mut self, thread: ThreadRef, draft: &Draft, target: ProgramId) -> Result<Party, i32> {
        let party = Party::from_number(draft.destination, self.profile.count).ok_or(answer::NO_PROGRAM)?;
        let refusal = match party {
            Party::Endpoint(endpoint) => self.endpoint_refusal(thread, endpoint),
            Party::Spu(_) => {
                (!self.may_call(thread.program, target, draft.handler)).then_some(answer::NOT_ALLOWED)
            }
        };
        refusal.map_or(Ok(party), Err)
    }

    /// Whether the handler may read what it sends, and the instructions to find out.
    fn check_parts(&mut self, thread: ThreadRef, parts: &[Part]) -> (i32, u64) {
        let mut cost = 0;
        for part in parts {
            if let Part::Nvm(range) = part {
                let (status, instructions) = self.check(thread, range, Rights::READ);
                cost += instructions;
                if status != answer::OK {
                    return (status, cost);
                }
            }
        }
        (answer::OK, cost)
    }

    /// Why a request to an endpoint is refused: a program reaches its originating process and its owner, and nobody else.
    fn endpoint_refusal(&mut self, thread: ThreadRef, endpoint: EndpointId) -> Option<i32> {
        let origin = self.call_of(thread).message.origin.process();
        let owner = self.programs.get(&thread.program).map(|program| program.owner);
        let process = endpoint.process();
        if process != origin && Some(process) != owner {
            Some(answer::NOT_ALLOWED)
        } else if !self.host.has(endpoint) {
            Some(answer::NO_PROGRAM)
        } else {
            None
        }
    }

    /// Commits the handler's stores, which the request may be about, then reads the body's parts. Returns it, and when it is
    /// complete.
    fn assemble(&mut self, thread: ThreadRef, parts: Vec<Part>) -> Result<(Vec<u8>, Nanoseconds), Status> {
        let mut body = Vec::new();
        let ready_ns = self.on_stage(thread, |stage, backing, at_ns| {
            let mut ready_ns = stage.commit(backing, How::Cached, at_ns)?;
            for part in parts {
                match part {
                    Part::Local(bytes) => body.extend(bytes),
                    Part::Nvm(range) => {
                        ready_ns = ready_ns.max(stage.read(backing, &range, &mut body, at_ns)?)
                    }
                }
            }
            Ok(ready_ns)
        })?;
        Ok((body, ready_ns))
    }

    fn send_from(&mut self, spu: SpuId, to: Party, message: Message, ready_ns: Nanoseconds) {
        let bytes = message.bytes();
        match to {
            Party::Spu(target) if target == spu => self.arrange_local(spu, message, ready_ns),
            Party::Spu(target) => {
                self.spus[spu.0 as usize].outgoing_bytes += message.body.len();
                self.dispatch_packet(Some(spu), Some(target), bytes, Load::Request(message), ready_ns);
            }
            Party::Endpoint(endpoint) => {
                self.spus[spu.0 as usize].outgoing_bytes += message.body.len();
                self.dispatch_packet(Some(spu), None, bytes, Load::ToEndpoint(endpoint, message), ready_ns);
            }
        }
    }

    /// Calls a handler of another program on the same processor.
    pub(crate) fn call(
        &mut self,
        thread: ThreadRef,
        (program, handler): (ProgramId, u32),
        body: Vec<u8>,
        out: OutBuffer,
    ) -> Done {
        if program == thread.program || !self.may_call(thread.program, program, handler) {
            return Done::Now(answer::NOT_ALLOWED, SEND_INSTRUCTIONS);
        }
        let origin = Arc::clone(&self.call_of(thread).message.origin);
        if !origin.spend() {
            return Done::Fault(Fault::Flood);
        }
        let message = Message {
            origin,
            source: Party::Spu(thread.spu),
            caller: Some(thread.program),
            program,
            handler,
            body,
            answer_to: AnswerTo::Call(thread),
        };
        self.arrange_local(thread.spu, message, self.now_ns);
        Done::Waits(Waiting::Call(out))
    }
}
