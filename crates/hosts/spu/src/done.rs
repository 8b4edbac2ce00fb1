//! The result of what a handler requested from the system.

use tantalum::Nanoseconds;

use crate::fault::Fault;
use crate::program::Waiting;
use crate::system::Ssd;

/// How a handler continues.
pub(crate) enum Done {
    /// It continues now with this status, after this number of the system's instructions.
    Now(i32, u64),
    /// It continues with this status at this time.
    At(i32, Nanoseconds),
    /// The handler waits for this.
    Waits(Waiting),
    /// The program must be ended.
    Fault(Fault),
}

impl Ssd {
    /// The handler continues when both the drive and the system's instructions are done.
    pub(crate) fn later(&self, status: i32, done_ns: Nanoseconds, instructions: u64) -> Done {
        match done_ns <= self.now_ns {
            true => Done::Now(status, instructions),
            false => Done::At(status, done_ns + self.instructions_ns(instructions)),
        }
    }
}
