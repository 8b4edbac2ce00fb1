//! How many commands of a kind may wait on one connection; Identify reports this to hosts.

/// Asynchronous Event Requests that may wait at once.
pub const EVENT_REQUESTS: usize = 4;

/// Aborts that may be in progress at once (`ACL` is one less).
pub const ABORTS: usize = 4;

const _: () = assert!(
    EVENT_REQUESTS + ABORTS < crate::controller::QUEUE_ENTRIES as usize,
    "a queue has room for other commands beside those that wait"
);
