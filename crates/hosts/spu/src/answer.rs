//! The drive's own answers, which are negative. Handlers answer with 0 or more.

/// Done.
pub const OK: i32 = 0;
/// The receiver had no room; nothing of the request arrived.
pub const NOT_DELIVERED: i32 = -1;
/// No such processor, endpoint, program or record.
pub const NO_PROGRAM: i32 = -2;
/// The program has no such handler.
pub const NO_HANDLER: i32 = -3;
/// The sender may not send this to that receiver.
pub const NOT_ALLOWED: i32 = -4;
/// The originating process may not access the range, or the drive must ask the host's driver first.
pub const NO_PERMISSION: i32 = -5;
/// The range is not within one stripe of the processor.
pub const NOT_LOCAL: i32 = -6;
/// A limit was reached.
pub const NO_ROOM: i32 = -7;
/// The program was ended before it answered.
pub const ENDED: i32 = -8;
/// No answer in time.
pub const TIMEOUT: i32 = -9;
/// An invalid argument.
pub const BAD_ARGUMENT: i32 = -10;
/// The drive below failed.
pub const DRIVE: i32 = -11;
/// The handler returned without an answer.
pub const NO_ANSWER: i32 = -12;
/// The body has fewer bytes left, or the value is longer than the room for it.
pub const SHORT: i32 = -13;
