//! Schedules handlers on the processors: requests are admitted, threads take turns, answers wake them.
//!
//! Invariants:
//! - Programs take turns, so each waits for at most one run of instructions of every other.
//! - Each program has a queue of its own on each processor, so flooding one does not affect the others.
//! - A program with several threads reserves one for requests from itself. So its handlers on different processors that wait for
//!   each other cannot deadlock for want of a thread.

use tantalum::Nanoseconds;

use crate::activation::Activation;
use crate::agenda::What;
use crate::answer;
use crate::instance::Run;
use crate::message::{Message, ThreadRef};
use crate::names::{Party, ProgramId, SpuId};
use crate::program::{Resident, Thread, Waiting};
use crate::stage::Stage;
use crate::system::Ssd;

/// The maximum number of requests that may wait for a program on a processor.
const QUEUE_REQUESTS: usize = 64;
/// The most bytes of their bodies.
const QUEUE_BYTES: usize = 256 << 10;
/// Instructions to dispatch a request: reading its header, finding its handler, setting the segments.
const DISPATCH_INSTRUCTIONS: u64 = 60;
/// Instructions to switch to a thread that can continue.
const SWITCH_INSTRUCTIONS: u64 = 20;

/// What a processor does next.
enum Turn {
    Resume { thread: usize, status: i32 },
    Start { thread: usize, message: usize },
}

impl Ssd {
    // -- requests arrive ----------------------------------------------------------------------------------------

    /// Admits a request to a processor's queue, or answers why not.
    pub(crate) fn admit(&mut self, spu: SpuId, message: Message) {
        let (program, answer_to) = (message.program, message.answer_to);
        match self.refusal(spu, &message) {
            Some(status) => self.send_answer(spu, answer_to, status, self.now_ns),
            None => {
                let copy = self.copy_mut(spu, program).expect("the program was found");
                copy.queued_bytes += message.body.len();
                copy.queue.push_back(message);
                self.take_turns(spu);
            }
        }
    }

    /// Why a processor refuses a request.
    fn refusal(&mut self, spu: SpuId, message: &Message) -> Option<i32> {
        let Some(installed) = self.programs.get(&message.program) else { return Some(answer::NO_PROGRAM) };
        let is_allowed = match (message.source, message.caller) {
            (_, Some(caller)) => self.may_call(caller, message.program, message.handler),
            (Party::Endpoint(endpoint), None) => {
                let process = endpoint.process();
                installed.is_open || process == installed.owner || process.is_kernel()
            }
            (Party::Spu(_), None) => false,
        };
        let copy = &installed.parts[spu.0 as usize];
        if !is_allowed {
            Some(answer::NOT_ALLOWED)
        } else if !copy.instance.has_handler(message.handler) {
            Some(answer::NO_HANDLER)
        } else if copy.queue.len() >= QUEUE_REQUESTS || copy.queued_bytes + message.body.len() > QUEUE_BYTES {
            Some(answer::NOT_DELIVERED)
        } else {
            None
        }
    }

    // -- turns --------------------------------------------------------------------------------------------------

    /// Gives a free processor its next work.
    pub(crate) fn take_turns(&mut self, spu: SpuId) {
        let processor = &self.spus[spu.0 as usize];
        if processor.is_running {
            return;
        }
        let after = processor.last.0 + 1;
        let later = self.programs.range(ProgramId(after)..);
        let in_turn = later.chain(self.programs.range(..ProgramId(after)));
        let next = in_turn
            .into_iter()
            .find_map(|(&id, installed)| Some((id, installed.parts[spu.0 as usize].turn()?)));
        let Some((program, turn)) = next else { return };
        self.spus[spu.0 as usize].last = program;
        match turn {
            Turn::Resume { thread, status } => {
                let overhead = self.instructions_ns(SWITCH_INSTRUCTIONS);
                self.resume(spu, program, thread, status, overhead);
            }
            Turn::Start { thread, message } => self.start(spu, program, thread, message),
        }
    }

    fn start(&mut self, spu: SpuId, program: ProgramId, thread: usize, message: usize) {
        let (id, fuel) = (self.next_call(), self.profile.handler_instructions);
        self.spus[spu.0 as usize].requests += 1;
        let copy = self.copy_mut(spu, program).expect("its turn was found");
        let message = copy.queue.remove(message).expect("the turn names a request that waits");
        copy.queued_bytes -= message.body.len();
        let call = Activation {
            id,
            message,
            received: 0,
            is_answered: false,
            revocations: 0,
            stage: Stage::default(),
            draft: None,
            tickets: Vec::new(),
            reply: Vec::new(),
            fuel,
        };
        copy.threads[thread] = Thread::Running(id);
        let (run, call, instructions) = copy.instance.start(thread, call);
        let of = ThreadRef { spu, program, thread, call: id };
        self.occupy(of, run, call, instructions + DISPATCH_INSTRUCTIONS, 0);
    }

    /// Continues a thread with the result of its request.
    pub(crate) fn resume(
        &mut self,
        spu: SpuId,
        program: ProgramId,
        thread: usize,
        status: i32,
        overhead_ns: Nanoseconds,
    ) {
        let copy = self.copy_mut(spu, program).expect("its turn was found");
        let call = copy.threads[thread].call().expect("an idle thread does not go on");
        copy.threads[thread] = Thread::Running(call);
        let (run, ended, instructions) = copy.instance.resume(thread, status);
        let of = ThreadRef { spu, program, thread, call };
        self.occupy(of, run, ended, instructions, overhead_ns);
    }

    fn occupy(
        &mut self,
        thread: ThreadRef,
        run: Run,
        call: Option<Activation>,
        instructions: u64,
        overhead_ns: Nanoseconds,
    ) {
        let duration_ns = self.instructions_ns(instructions) + overhead_ns;
        let spu = &mut self.spus[thread.spu.0 as usize];
        spu.is_running = true;
        spu.busy_ns += duration_ns;
        self.arrange(self.now_ns + duration_ns, What::Step { thread, run, call });
    }

    pub(crate) fn yield_processor(&mut self, spu: SpuId) {
        self.spus[spu.0 as usize].is_running = false;
        self.take_turns(spu);
    }

    // -- waking -------------------------------------------------------------------------------------------------

    /// Makes a thread wait, and gives its processor other work.
    pub(crate) fn wait(&mut self, thread: ThreadRef, waiting: Waiting) {
        if let Some(copy) = self.copy_mut(thread.spu, thread.program) {
            copy.threads[thread.thread] = Thread::Waiting(thread.call, waiting);
        }
        self.yield_processor(thread.spu);
    }

    /// The copy of a thread that still waits in this call, and what it waits for.
    fn waiting(&mut self, thread: ThreadRef) -> Option<(&mut Resident, Waiting)> {
        let copy = self.copy_mut(thread.spu, thread.program)?;
        match &copy.threads[thread.thread] {
            Thread::Waiting(call, waiting) if *call == thread.call => {
                let waiting = waiting.clone();
                Some((copy, waiting))
            }
            _ => None,
        }
    }

    fn make_ready(&mut self, thread: ThreadRef, status: i32) {
        if let Some(copy) = self.copy_mut(thread.spu, thread.program) {
            copy.threads[thread.thread] = Thread::Ready(thread.call, status);
            self.take_turns(thread.spu);
        }
    }

    pub(crate) fn wake(&mut self, thread: ThreadRef, status: i32) {
        if let Some((_, Waiting::Drive)) = self.waiting(thread) {
            self.make_ready(thread, status);
        }
    }

    pub(crate) fn ticket_answered(&mut self, thread: ThreadRef, ticket: usize, status: i32) {
        let Some(copy) = self.copy_mut(thread.spu, thread.program) else { return };
        if let Some(call) = copy.instance.stopped(thread.thread).filter(|call| call.id == thread.call)
            && call.tickets[ticket].is_none()
        {
            call.tickets[ticket] = Some(status);
            if let Some((_, Waiting::Ticket(waited))) = self.waiting(thread)
                && waited == ticket
            {
                self.make_ready(thread, status);
            }
        }
    }

    pub(crate) fn call_answered(&mut self, thread: ThreadRef, status: i32, bytes: &[u8]) {
        if let Some((copy, Waiting::Call(buffer))) = self.waiting(thread) {
            copy.instance.fill(buffer, bytes, None);
            self.make_ready(thread, status);
        }
    }

    /// Whether this is a timeout for which nobody waits any more.
    pub(crate) fn is_stale(&mut self, what: &What) -> bool {
        let What::Timeout { thread, ticket } = what else { return false };
        match self.waiting(*thread) {
            Some((_, Waiting::Ticket(waited))) => *ticket != Some(waited),
            Some((_, Waiting::Call(_))) => ticket.is_some(),
            Some((_, Waiting::Drive)) | None => true,
        }
    }

    pub(crate) fn time_out(&mut self, thread: ThreadRef, ticket: Option<usize>) {
        match ticket {
            Some(ticket) => self.ticket_answered(thread, ticket, answer::TIMEOUT),
            None => self.call_answered(thread, answer::TIMEOUT, &[]),
        }
    }
}

impl Resident {
    /// This program's next work on its processor.
    fn turn(&self) -> Option<Turn> {
        let ready = self.threads.iter().enumerate().find_map(|(thread, state)| match state {
            Thread::Ready(_, status) => Some(Turn::Resume { thread, status: *status }),
            _ => None,
        });
        ready.or_else(|| {
            let thread = self.threads.iter().position(Thread::is_idle)?;
            let idle = self.threads.iter().filter(|thread| thread.is_idle()).count();
            let is_kept = idle == 1 && self.threads.len() > 1;
            let may_start = |message: &Message| !is_kept || message.caller == Some(message.program);
            let message = self.queue.iter().position(may_start)?;
            Some(Turn::Start { thread, message })
        })
    }
}

impl Thread {
    fn call(&self) -> Option<crate::message::CallId> {
        match self {
            Thread::Idle => None,
            Thread::Running(call) | Thread::Ready(call, _) | Thread::Waiting(call, _) => Some(*call),
        }
    }
}
