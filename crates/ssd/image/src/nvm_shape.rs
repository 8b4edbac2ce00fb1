//! The size and speed of memory beside the flash.

use crate::error::MediumError;
use crate::geometry::Nanoseconds;

/// Bytes of a word, the unit of atomicity.
pub const WORD_BYTES: u64 = 8;

/// The maximum memory of a drive.
pub const MAX_NVM_BYTES: u64 = 64 << 30;

/// The longest latency: a second.
pub const MAX_NVM_LATENCY_NS: Nanoseconds = 1_000_000_000;

/// Its size and speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvmShape {
    /// Size in bytes, a multiple of 8.
    pub bytes: u64,
    /// Fixed time of a store or load, ns.
    pub latency_ns: Nanoseconds,
    /// Bytes per second beyond that.
    pub bytes_per_second: u64,
}

impl NvmShape {
    /// Checks the bounds.
    pub fn validate(&self) -> Result<(), MediumError> {
        let bounded = |field, value, least, most| match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(MediumError::Timing { field, value, least, most }),
        };
        bounded("nvm.bytes", self.bytes, WORD_BYTES, MAX_NVM_BYTES)?;
        bounded("nvm.bytes modulo 8", self.bytes % WORD_BYTES, 0, 0)?;
        bounded("nvm.latency_ns", self.latency_ns, 0, MAX_NVM_LATENCY_NS)?;
        bounded("nvm.bytes_per_second", self.bytes_per_second, 1, u64::MAX)
    }

    /// How long a store or load of this many bytes takes.
    #[inline]
    pub fn takes_ns(&self, bytes: u64) -> Nanoseconds {
        let transfer_ns = (u128::from(bytes) * 1_000_000_000).div_ceil(self.bytes_per_second.into());
        self.latency_ns + transfer_ns as Nanoseconds
    }
}
