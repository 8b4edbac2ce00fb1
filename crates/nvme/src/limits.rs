//! How many commands of a kind one connection may have waiting; Identify tells it to hosts.

/// Asynchronous Event Requests that may wait at once.
pub const EVENT_REQUESTS: usize = 4;

/// Aborts that may be under way at once (`ACL` is one less).
pub const ABORTS: usize = 4;
