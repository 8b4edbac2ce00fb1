//! What the thread that serves an image waits for, and how other threads stop it.

use std::sync::mpsc::Sender;

/// Something that the thread that serves an image must do.
pub(super) enum Event {
    PowerLost,
    ProgramEnded(String),
    Stop,
}

/// Stops a server, from any thread.
#[derive(Clone)]
pub struct Stopper(pub(super) Sender<Event>);

impl Stopper {
    /// Stops the server.
    pub fn stop(&self) {
        // Nothing listens on a server that has ended.
        let _ = self.0.send(Event::Stop);
    }
}
