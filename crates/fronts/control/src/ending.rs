//! Reports how the use of an image ended, to those who asked.
//!
//! Requests made before the end are answered before the process exits.

use std::collections::HashMap;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

/// A client that does not read its answer within this time gets none.
const MOST_WAIT: Duration = Duration::from_secs(2);

/// How the use of an image ended.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// Everything is durable and the drive is shut down.
    Closed,
    /// The drive had lost power: opening the image again recovers.
    PowerLost,
    /// The image could not be closed, with the reason; what was not durable is lost.
    Failed(String),
}

/// The end of the use of an image, and the connections that wait for it.
#[derive(Debug, Default)]
pub struct End {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    ended: Option<Ended>,
    conversations: HashMap<u64, UnixStream>,
    last_number: u64,
}

impl End {
    /// A connection begins. Returns its number.
    pub fn join(&self, stream: UnixStream) -> u64 {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            let _ = stream.shutdown(Shutdown::Read);
        }
        state.last_number += 1;
        let number = state.last_number;
        state.conversations.insert(number, stream);
        number
    }

    /// A connection has ended.
    pub fn leave(&self, number: u64) {
        self.state.lock().conversations.remove(&number);
        self.changed.notify_all();
    }

    /// Waits for the end.
    pub fn wait(&self) -> Ended {
        let mut state = self.state.lock();
        loop {
            match &state.ended {
                Some(ended) => return ended.clone(),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// The use has ended. Returns when all earlier requests have been answered.
    pub fn come(&self, ended: Ended) {
        let mut state = self.state.lock();
        state.ended = Some(ended);
        self.changed.notify_all();
        for stream in state.conversations.values() {
            // Requests already sent are still read, but later ones are not.
            let _ = stream.shutdown(Shutdown::Read);
        }
        let has_conversations = |state: &mut State| !state.conversations.is_empty();
        let _ = self.changed.wait_while_for(&mut state, has_conversations, MOST_WAIT);
    }
}
