//! Paths that carry one transfer at a time: the ring between the processors, and each direction of the host's link.

use tantalum::{Nanoseconds, SpuProfile};

/// The ring, and the link's two directions.
pub struct Wires {
    pub ring: Wire,
    pub up: Wire,
    pub down: Wire,
}

impl Wires {
    pub fn new(profile: &SpuProfile) -> Wires {
        Wires {
            ring: Wire::new(profile.ring_bytes_per_second),
            up: Wire::new(profile.host_bytes_per_second),
            down: Wire::new(profile.host_bytes_per_second),
        }
    }
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Wire {
    bytes_per_second: u64,
    free_ns: Nanoseconds,
    /// Bytes carried so far.
    pub bytes: u64,
}

impl Wire {
    pub fn new(bytes_per_second: u64) -> Wire {
        Wire { bytes_per_second, free_ns: 0, bytes: 0 }
    }

    /// Carries bytes that are ready at `at_ns`; returns when the last one arrives. Calls must be in order of time.
    pub fn carry(&mut self, at_ns: Nanoseconds, bytes: u64) -> Nanoseconds {
        self.bytes += bytes;
        self.free_ns = self.free_ns.max(at_ns) + duration_ns(bytes, self.bytes_per_second);
        self.free_ns
    }
}

/// How long `amount` takes at a rate per second, rounded up.
pub fn duration_ns(amount: u64, per_second: u64) -> Nanoseconds {
    (u128::from(amount) * 1_000_000_000).div_ceil(u128::from(per_second)) as Nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfers_wait_for_each_other() {
        let mut wire = Wire::new(1_000_000_000);
        assert_eq!(wire.carry(10, 5), 15);
        assert_eq!(wire.carry(11, 5), 20);
        assert_eq!(wire.carry(100, 5), 105);
        assert_eq!(wire.bytes, 15);
    }
}
