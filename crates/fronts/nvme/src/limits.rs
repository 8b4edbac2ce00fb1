//! Limits of one connection: how many commands of a kind may wait (Identify reports this to hosts), and how much data a PDU may
//! have.

use crate::wire::pdu::ADMIN_CAPSULE_BYTES;

/// Asynchronous Event Requests that may wait at once.
pub const EVENT_REQUESTS: usize = 4;

/// Aborts that may be in progress at once (`ACL` is one less).
pub const ABORTS: usize = 4;

/// Aborted commands whose data may still come.
pub const DISCARDED: usize = crate::controller::QUEUE_ENTRIES as usize;

/// Maximum size of data in a command capsule, on any queue.
pub const CAPSULE_BYTES: usize = ADMIN_CAPSULE_BYTES;

/// Maximum size of data in one PDU from the host (`MAXH2CDATA`).
pub const DATA_BYTES: u32 = 128 << 10;

const _: () = assert!(
    EVENT_REQUESTS + ABORTS < crate::controller::QUEUE_ENTRIES as usize,
    "a queue has room for other commands beside those that wait"
);
