//! Blocking calls for hosts: a request with its answer, and the next event of an endpoint.

use crate::error::SpuError;
use crate::host::Event;
use crate::names::{EndpointId, ProgramId, SpuId};
use crate::system::Ssd;

impl Ssd {
    /// Sends a request now, and waits for its answer in virtual time. Other events of the endpoint stay for [`Ssd::receive`]; if a
    /// handler sends more requests than the endpoint's queue holds, it learns that they were not delivered.
    ///
    /// # Errors
    /// As [`Ssd::send`], and [`SpuError::PowerLost`] if power fails before the answer.
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
            // a request that the drive accepted is answered as long as it has power
            self.advance().ok_or(SpuError::PowerLost)?;
        }
    }

    /// The next event of an endpoint, including answers to [`Ssd::send`], the end of a program of its process, and a loss of power.
    /// Events of other endpoints stay. `None` if nothing is in progress.
    ///
    /// The end of a program and a loss of power are delivered once, to the first caller.
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
