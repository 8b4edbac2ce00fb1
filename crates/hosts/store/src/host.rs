//! The cost of the host's work, in virtual time. The thesis gives no such figures: all are chosen, for a server of 2014 with
//! a processor for each client. They are the same in all schemes, except for how a request gets to the drive. A store's own
//! work (the first three) can be set to take several times as long, as in larger database systems.

use tantalum::Nanoseconds;

/// To begin and end a transaction.
pub const TRANSACTION_NS: Nanoseconds = 3_000;

/// To find a record in its page, lock it, and change it.
pub const RECORD_NS: Nanoseconds = 2_500;

/// To create a log record and append it to the log's buffer.
pub const LOG_RECORD_NS: Nanoseconds = 600;

/// What a request costs its thread before it reaches the drive, and after it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestCost {
    /// The time before it reaches the drive.
    pub submit_ns: Nanoseconds,
    /// The time after it is answered.
    pub complete_ns: Nanoseconds,
}

/// Through the kernel: system call, file system and block layer; an interrupt, and the thread wakes up.
pub const KERNEL: RequestCost = RequestCost { submit_ns: 2_500, complete_ns: 3_500 };

/// From the process, through its own queue pair.
pub const ENDPOINT: RequestCost = RequestCost { submit_ns: 300, complete_ns: 400 };
