//! Events that will happen in the drive, in order of virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tantalum::Nanoseconds;

use crate::activation::Activation;
use crate::instance::Run;
use crate::message::ThreadRef;
use crate::packet::{Miss, Packet};

/// The queue of future events.
#[derive(Default)]
pub(crate) struct Agenda {
    appointments: BinaryHeap<Reverse<Appointment>>,
    arranged: u64,
}

/// An event and its time. Events at the same time come in the order in which they were scheduled.
struct Appointment {
    at_ns: Nanoseconds,
    order: u64,
    what: What,
}

impl Ord for Appointment {
    fn cmp(&self, other: &Appointment) -> std::cmp::Ordering {
        (self.at_ns, self.order).cmp(&(other.at_ns, other.order))
    }
}

impl PartialOrd for Appointment {
    fn partial_cmp(&self, other: &Appointment) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Appointment {
    fn eq(&self, other: &Appointment) -> bool {
        self.order == other.order
    }
}

impl Eq for Appointment {}

pub(crate) enum What {
    /// A packet is ready for the ring, the link to the host or the link to the drive, or has arrived.
    Ring(Packet),
    Up(Packet),
    Down(Packet),
    Arrives(Packet),
    /// A thread has executed instructions, with this result.
    Step {
        thread: ThreadRef,
        run: Run,
        call: Option<Activation>,
    },
    /// What a thread is waiting for is complete, with this result.
    Wake {
        thread: ThreadRef,
        status: i32,
    },
    /// A program on the same processor has answered a call.
    CallAnswered {
        thread: ThreadRef,
        status: i32,
        bytes: Vec<u8>,
    },
    /// A thread's wait for a ticket, or for a call, times out.
    Timeout {
        thread: ThreadRef,
        ticket: Option<usize>,
    },
    /// The driver decides about a permission that a processor asked for.
    Decide(Miss),
}

impl Agenda {
    pub fn arrange(&mut self, at_ns: Nanoseconds, what: What) {
        self.arranged += 1;
        self.appointments.push(Reverse(Appointment { at_ns, order: self.arranged, what }));
    }

    /// The time of the next event.
    pub fn next_ns(&self) -> Option<Nanoseconds> {
        self.appointments.peek().map(|Reverse(next)| next.at_ns)
    }

    /// Takes the next event.
    pub fn next(&mut self) -> Option<(Nanoseconds, What)> {
        self.appointments.pop().map(|Reverse(next)| (next.at_ns, next.what))
    }

    /// Drops all events.
    pub fn clear(&mut self) {
        self.appointments.clear();
    }
}
