//! The connections of a server, each with the mailbox by which it can be ended.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use rustc_hash::FxHashMap;

use crate::mailbox::{Mailbox, Message};

/// Maximum number of connections; further ones are closed.
pub const MOST_CONNECTIONS: usize = 2048;

/// Time for the connections' threads to end.
const MOST_WAIT: Duration = Duration::from_secs(10);

/// The connections of a server.
pub(super) struct Connections {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    /// Whether connections are accepted, or closed at once.
    is_open: bool,
    by_number: FxHashMap<u64, Arc<Mailbox>>,
    /// The number accepted.
    accepted: u64,
}

impl Default for Connections {
    fn default() -> Connections {
        let state = State { is_open: true, by_number: FxHashMap::default(), accepted: 0 };
        Connections { state: Mutex::new(state), ended: Condvar::new() }
    }
}

impl Connections {
    /// Accepts a connection and returns its number; `None` if it is to be closed.
    pub fn add(&self, mailbox: Arc<Mailbox>) -> Option<u64> {
        let mut state = self.state.lock();
        if !state.is_open || state.by_number.len() >= MOST_CONNECTIONS {
            return None;
        }
        state.accepted += 1;
        let number = state.accepted;
        let other = state.by_number.insert(number, mailbox);
        assert!(other.is_none(), "two connections have the number {number}");
        Some(number)
    }

    /// A connection has ended.
    pub fn remove(&self, number: u64) {
        let removed = self.state.lock().by_number.remove(&number);
        self.ended.notify_all();
        assert!(removed.is_some(), "connection {number} has ended, but was not among those accepted");
    }

    /// Accepts no more connections, ends the existing ones, and waits for that. False if some did not end in time.
    pub fn close(&self) -> bool {
        let mut state = self.state.lock();
        state.is_open = false;
        state.by_number.values().for_each(|mailbox| mailbox.post(Message::End));
        let has_some = |state: &mut State| !state.by_number.is_empty();
        !self.ended.wait_while_for(&mut state, has_some, MOST_WAIT).timed_out()
    }

    /// Accepts connections again.
    pub fn open(&self) {
        self.state.lock().is_open = true;
    }

    /// Connections now.
    pub fn count(&self) -> usize {
        self.state.lock().by_number.len()
    }

    /// Connections accepted so far.
    pub fn accepted(&self) -> u64 {
        self.state.lock().accepted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_come_while_it_is_closed_are_refused() {
        let (connections, mailbox) = (Connections::default(), Arc::new(Mailbox::new(|| ())));
        let number = connections.add(Arc::clone(&mailbox)).unwrap();
        std::thread::scope(|scope| {
            let closed = scope.spawn(|| connections.close());
            while !matches!(mailbox.take(), Some(Message::End)) {
                std::thread::yield_now();
            }
            assert_eq!(connections.add(Arc::clone(&mailbox)), None);
            assert!(!closed.is_finished(), "one has not ended");
            connections.remove(number);
            assert!(closed.join().unwrap());
        });
        connections.open();
        assert_eq!((connections.add(mailbox), connections.accepted(), connections.count()), (Some(2), 2, 1));
    }
}
