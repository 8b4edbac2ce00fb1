//! Executes everything in the drive, in order of virtual time.
//!
//! Invariants:
//! - Everything in one part of the drive that another could observe happens in order of virtual time. Only a handler's
//!   instructions run ahead of it, because nobody can observe them before the handler requests something.
//! - Each request is answered once: by its handler, or by the system.

use tantalum::{Nanoseconds, Status};

use crate::agenda::What;
use crate::error::SpuError;
use crate::host::Event;
use crate::message::{AnswerTo, BODY_BYTES, Message, Origin};
use crate::names::{EndpointId, Party, ProgramId, SpuId};
use crate::packet::Load;
use crate::system::Ssd;

impl Ssd {
    /// Sends a request from an endpoint at `at_ns`, or now if that has passed. Returns its number; its answer is an
    /// event ([`Ssd::next_event`]).
    pub fn send(
        &mut self,
        endpoint: EndpointId,
        spu: SpuId,
        (program, handler): (ProgramId, u32),
        body: Vec<u8>,
        at_ns: Nanoseconds,
    ) -> Result<u64, SpuError> {
        self.check_power()?;
        if !self.host.has(endpoint) {
            return Err(SpuError::NoEndpoint(endpoint.number()));
        }
        if spu.0 >= self.profile.count {
            return Err(SpuError::NoProcessor { spu: spu.0, processors: self.profile.count });
        }
        if body.len() > BODY_BYTES {
            return Err(SpuError::BodyTooLong { bytes: body.len(), limit: BODY_BYTES });
        }
        let request = self.next_request();
        let message = Message {
            origin: Origin::new(endpoint),
            source: Party::Endpoint(endpoint),
            caller: None,
            program,
            handler,
            body,
            answer_to: AnswerTo::Host { endpoint, request },
        };
        let bytes = message.bytes();
        self.dispatch_packet(None, Some(spu), bytes, Load::Request(message), at_ns);
        Ok(request)
    }

    /// The host's next event. `None` if nothing is in progress.
    pub fn next_event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.host.next_event() {
                return Some(event);
            }
            self.advance()?;
        }
    }

    /// The next event of an endpoint, or a loss of power. Events of other endpoints stay. `None` if nothing is in
    /// progress.
    pub fn next_event_of(&mut self, endpoint: EndpointId) -> Option<Event> {
        loop {
            if let Some(event) = self.host.next_event_that(|event| event.is_for(endpoint)) {
                return Some(event);
            }
            self.advance()?;
        }
    }

    /// The host's next event up to `at_ns`; `None` if there is none by then. For a host that has something else to do at that
    /// time.
    pub fn next_event_until(&mut self, at_ns: Nanoseconds) -> Option<Event> {
        loop {
            if let Some(event) = self.host.next_event() {
                return Some(event);
            }
            if self.next_ns()? > at_ns {
                return None;
            }
            self.advance()?;
        }
    }

    /// Executes everything up to `at_ns`. The host's events stay.
    pub fn wait_until(&mut self, at_ns: Nanoseconds) {
        while self.next_ns().is_some_and(|next_ns| next_ns <= at_ns) {
            self.advance();
        }
        self.now_ns = self.now_ns.max(at_ns);
    }

    /// Executes the next step. `None` if nothing is scheduled.
    pub(crate) fn advance(&mut self) -> Option<()> {
        let (at_ns, what) = self.next_arranged()?;
        if !self.is_stale(&what) {
            assert!(at_ns >= self.now_ns, "time goes back from {} to {at_ns} ns", self.now_ns);
            self.now_ns = at_ns;
            if let Err(Status::PowerLost) = self.happen(what) {
                self.lose_power();
            }
        }
        Some(())
    }

    fn happen(&mut self, what: What) -> Result<(), Status> {
        match what {
            What::Ring(packet) => self.carry_on_ring(packet),
            What::Up(packet) => {
                let done_ns = self.wires.up.carry(self.now_ns, packet.bytes);
                self.arrange(done_ns, What::Arrives(packet));
            }
            What::Down(packet) => {
                let done_ns = self.wires.down.carry(self.now_ns, packet.bytes);
                self.arrange(done_ns, What::Ring(packet));
            }
            What::Arrives(packet) => self.arrive(packet),
            What::Step { thread, run, call } => self.step(thread, run, call)?,
            What::Wake { thread, status } => self.wake(thread, status),
            What::CallAnswered { thread, status, bytes } => self.call_answered(thread, status, &bytes),
            What::Timeout { thread, ticket } => self.time_out(thread, ticket),
            What::Decide(miss) => self.decide(miss),
        }
        Ok(())
    }
}
