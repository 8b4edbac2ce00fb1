//! The source of SQLite's randomness and time.
//!
//! With a seed both are the same in every run: a seeded generator, and a clock that starts at a fixed date and follows
//! the drive's virtual time. Without one they are the system's.

use std::time::{SystemTime, UNIX_EPOCH};

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Nanoseconds;

/// The Julian day of 1970-01-01, in milliseconds.
pub(crate) const UNIX_EPOCH_JULIAN_MS: i64 = 210_866_760_000_000;

/// The time of a seeded clock at the drive's time 0: 2026-01-01, in milliseconds since 1970.
const SEEDED_START_MS: i64 = 1_767_225_600_000;

/// A generator, and whether the clock is virtual.
#[derive(Debug)]
pub(crate) struct Entropy {
    generator: Xoshiro256PlusPlus,
    seeded: bool,
}

impl Entropy {
    /// From a seed, or from the system.
    pub fn new(seed: Option<u64>) -> Entropy {
        let generator = Xoshiro256PlusPlus::seed_from_u64(seed.unwrap_or_else(system_seed));
        Entropy { generator, seeded: seed.is_some() }
    }

    /// Random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.generator.fill_bytes(bytes);
    }

    /// The time as a Julian day in milliseconds, when the drive's time is `now_ns`.
    pub fn julian_ms(&self, now_ns: Nanoseconds) -> i64 {
        let unix_ms = if self.seeded {
            SEEDED_START_MS + (now_ns / 1_000_000) as i64
        } else {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as i64)
        };
        UNIX_EPOCH_JULIAN_MS + unix_ms
    }
}

/// A seed that differs between runs. The standard library keys its hashers with the system's randomness.
fn system_seed() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(SystemTime::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bytes_and_time() {
        let (mut a, mut b) = (Entropy::new(Some(7)), Entropy::new(Some(7)));
        let (mut from_a, mut from_b) = ([0; 20], [0; 20]);
        a.fill(&mut from_a);
        b.fill(&mut from_b);
        assert_eq!(from_a, from_b);
        assert_eq!(a.julian_ms(5_000_000), b.julian_ms(5_999_999));
        assert_eq!(a.julian_ms(0) + 1, a.julian_ms(1_000_000));
    }

    #[test]
    fn without_a_seed_runs_differ() {
        assert_ne!(system_seed(), system_seed());
        assert!(Entropy::new(None).julian_ms(0) > UNIX_EPOCH_JULIAN_MS + SEEDED_START_MS);
    }
}
