//! How long operations of the flash take.

use crate::error::MediumError;
use crate::geometry::Nanoseconds;

/// Duration of each part of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// Page from the array into the register, ns.
    pub read_ns: Nanoseconds,
    /// Page from the register into the array, ns.
    pub program_ns: Nanoseconds,
    /// Erase of a block, ns.
    pub erase_ns: Nanoseconds,
    /// Rate of one channel, bytes per second.
    pub channel_bytes_per_second: u64,
}

/// The longest time of one array operation: 1000 s, so that sums of times do not overflow.
const MAX_OPERATION_NS: Nanoseconds = 1_000_000_000_000;

impl Timing {
    /// Checks that the times can be added up.
    pub fn validate(&self) -> Result<(), MediumError> {
        let bounded = |field, value, least, most| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(MediumError::Timing { field, value, least, most })
            }
        };
        bounded("read_ns", self.read_ns, 0, MAX_OPERATION_NS)?;
        bounded("program_ns", self.program_ns, 0, MAX_OPERATION_NS)?;
        bounded("erase_ns", self.erase_ns, 0, MAX_OPERATION_NS)?;
        bounded("channel_bytes_per_second", self.channel_bytes_per_second, 1, u64::MAX)
    }

    /// Time to move `bytes` over a channel, rounded up.
    #[inline]
    pub fn transfer_ns(&self, bytes: u32) -> Nanoseconds {
        (u64::from(bytes) * 1_000_000_000).div_ceil(self.channel_bytes_per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        read_ns: 100,
        program_ns: 1_000,
        erase_ns: 10_000,
        channel_bytes_per_second: 409_600_000_000,
    };

    #[test]
    fn impossible_times_are_refused_with_their_bounds() {
        let slow = Timing { erase_ns: MAX_OPERATION_NS + 1, ..TIMING };
        assert_eq!(
            slow.validate().unwrap_err().to_string(),
            "erase_ns is 1000000000001; it must be between 0 and 1000000000000"
        );
        let still = Timing { channel_bytes_per_second: 0, ..TIMING };
        assert!(matches!(
            still.validate(),
            Err(MediumError::Timing { field: "channel_bytes_per_second", .. })
        ));
    }
}
