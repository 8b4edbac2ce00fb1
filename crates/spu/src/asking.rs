//! For hosts that wait: a request with its answer, and what else an endpoint is told.

use crate::error::SpuError;
use crate::host::Event;
use crate::names::{EndpointId, ProgramId, SpuId};
use crate::system::Ssd;

impl Ssd {
    /// Sends a request now, and waits for its answer in virtual time. What the endpoint is told meanwhile waits for
    /// [`Ssd::receive`]; so a handler that sends more than its queue holds is told that this was not delivered.
    ///
    /// # Errors
    /// As [`Ssd::send`], and [`SpuError::PowerLost`] if power goes before the answer.
    pub fn ask(
        &mut self,
        endpoint: EndpointId,
        spu: SpuId,
        to: (ProgramId, u32),
        body: Vec<u8>,
    ) -> Result<i32, SpuError> {
        let now_ns = self.now_ns();
        let sent = self.send(endpoint, spu, to, body, now_ns)?;
        let is_answer = |event: &Event| matches!(event, Event::Answer { request, .. } if *request == sent);
        loop {
            if let Some(Event::Answer { status, .. }) = self.host.next_event_that(is_answer) {
                return Ok(status);
            }
            self.check_power()?;
            // a request that the drive took is answered while it has power
            self.advance().ok_or(SpuError::PowerLost)?;
        }
    }

    /// The next that an endpoint is told, that a program of its process was ended, or that power is lost; also answers to what
    /// [`Ssd::send`] sent. What others are told waits for them. None if nothing is under way.
    ///
    /// The end of a program and a loss of power are told once: to who asks first.
    pub fn receive(&mut self, endpoint: EndpointId) -> Option<Event> {
        let is_its = |event: &Event| match event {
            Event::Ended { owner, .. } => *owner == endpoint.process(),
            event => event.is_for(endpoint),
        };
        loop {
            if let Some(event) = self.host.next_event_that(is_its) {
                return Some(event);
            }
            self.advance()?;
        }
    }
}
