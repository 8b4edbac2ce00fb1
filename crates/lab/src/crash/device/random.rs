//! Where all randomness of a run comes from: the seed and the place in the run, and nothing before it.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// One number from several (SplitMix64's finalizer over each).
pub(super) fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, part| {
        let mut next = (mixed ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        next = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        next = (next ^ (next >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        next ^ (next >> 31)
    })
}

/// A generator for one place in a run.
pub(super) fn generator(parts: &[u64]) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(mix(parts))
}
