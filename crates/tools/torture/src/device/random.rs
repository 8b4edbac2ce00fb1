//! Random generators of a run, which depend only on the seed and the position in the run.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Mixes several numbers into one.
pub(crate) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, part| tantalum_image::mix(mixed ^ part))
}

/// A generator for one place in a run.
pub(crate) fn generator(parts: &[u64]) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(mix(parts))
}
