//! Feature identifiers (Base, section 5.27.1).

/// Arbitration.
pub const ARBITRATION: u8 = 0x01;
/// Power management.
pub const POWER: u8 = 0x02;
/// Temperature threshold.
pub const TEMPERATURE: u8 = 0x04;
/// Error recovery.
pub const ERROR_RECOVERY: u8 = 0x05;
/// Volatile write cache.
pub const WRITE_CACHE: u8 = 0x06;
/// Number of queues.
pub const QUEUES: u8 = 0x07;
/// Write atomicity.
pub const ATOMICITY: u8 = 0x0a;
/// Asynchronous events.
pub const EVENTS: u8 = 0x0b;
/// Timestamp.
pub const TIMESTAMP: u8 = 0x0e;
/// Keep-alive timer.
pub const KEEP_ALIVE: u8 = 0x0f;
/// Host behaviour.
pub const HOST_BEHAVIOUR: u8 = 0x16;
/// The format of descriptors of Copy that names a namespace, which host behaviour enables (`CDFE`). Formats 1 and 3 are for protection
/// information that no namespace here has.
pub const COPY_ACROSS: u32 = 2;
/// The combination of I/O command sets.
pub const COMMAND_SETS: u8 = 0x19;
/// Flexible data placement.
pub const DATA_PLACEMENT: u8 = 0x1d;
/// Events of flexible data placement.
pub const PLACEMENT_EVENTS: u8 = 0x1e;
/// Host identifier.
pub const HOST: u8 = 0x81;
/// Reservation notification mask.
pub const RESERVATION_MASK: u8 = 0x82;
/// Reservation persistence.
pub const RESERVATION_PERSISTENCE: u8 = 0x83;
