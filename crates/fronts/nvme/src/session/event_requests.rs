//! Asynchronous Event Requests: commands that stay until there is an event.

use crate::controller::Controller;
use crate::events::Event;
use crate::failure::Failure;
use crate::limits::EVENT_REQUESTS;

/// Those that wait, in order.
#[derive(Debug, Default)]
pub struct EventRequests(Vec<u16>);

impl EventRequests {
    /// One more waits, unless there are too many.
    pub fn add(&mut self, id: u16) -> Result<(), Failure> {
        debug_assert!(!self.0.contains(&id), "request {id} waits for two events");
        if self.0.len() >= EVENT_REQUESTS {
            return Err(Failure::EVENT_LIMIT);
        }
        self.0.push(id);
        Ok(())
    }

    /// The first one, if the controller has an event for it.
    pub fn take(&mut self, controller: &Controller) -> Option<(u16, Event)> {
        if self.0.is_empty() {
            return None;
        }
        controller.next_event().map(|event| (self.0.remove(0), event))
    }

    /// One waits no longer; false if it did not.
    pub fn withdraw(&mut self, id: u16) -> bool {
        let before = self.0.len();
        self.0.retain(|&waiting| waiting != id);
        self.0.len() < before
    }

    /// Those that wait.
    pub fn commands(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }
}
