//! What a drive remembers of itself for hosts: the persistent event log, the results of self-tests, and telemetry.

pub mod events;
pub mod self_test;
pub mod telemetry;

use events::PersistentEvents;
use self_test::{Outcome, SelfTests, code};
use telemetry::Telemetry;

/// What a drive remembers of itself.
#[derive(Default)]
pub struct History {
    /// The persistent event log.
    pub events: PersistentEvents,
    /// Self-tests.
    pub tests: SelfTests,
    /// Telemetry.
    pub telemetry: Telemetry,
}

impl History {
    /// A controller was reset, or has ended: its context of the event log ends, and a short self-test that it has begun.
    pub fn reset(&self, controller: u16) {
        self.events.end(controller);
        self.tests.end(Outcome::Reset, |test, _, of| test == code::SHORT && of == controller);
    }
}
