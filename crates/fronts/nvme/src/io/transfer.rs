//! The data that a command moves.

/// The largest transfer of a command, as a power of two of 4 KiB (`MDTS`).
pub const TRANSFER_LIMIT_LOG2: u8 = 7;
/// The largest transfer of a command, in bytes.
pub const TRANSFER_BYTES: u32 = 4096 << TRANSFER_LIMIT_LOG2;

/// Data that a command moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transfer {
    /// None.
    None,
    /// From the host; the number of bytes.
    FromHost(u32),
    /// To the host; the number of bytes.
    ToHost(u32),
}

impl Transfer {
    /// The number of bytes.
    pub fn bytes(self) -> usize {
        match self {
            Transfer::None => 0,
            Transfer::FromHost(bytes) | Transfer::ToHost(bytes) => bytes as usize,
        }
    }
}
