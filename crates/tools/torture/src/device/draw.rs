//! Units that the random host draws for its commands.

use std::collections::BTreeSet;
use std::ops::Range;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Lpn;

use super::drive::DIRECT;

pub(crate) type Generator = Xoshiro256PlusPlus;

pub(crate) fn lpn(rng: &mut Generator) -> Lpn {
    Lpn(rng.random_range(DIRECT))
}

/// Fewer than `limit` consecutive units.
pub(crate) fn range(rng: &mut Generator, limit: u32) -> Range<u32> {
    let first = lpn(rng).0;
    first..first + rng.random_range(1..limit).min(DIRECT.end - first)
}

/// Units in random order, none twice.
pub(crate) fn distinct(rng: &mut Generator, count: usize) -> Vec<Lpn> {
    let mut lpns = BTreeSet::new();
    while lpns.len() < count {
        lpns.insert(lpn(rng));
    }
    let mut lpns: Vec<Lpn> = lpns.into_iter().collect();
    for index in (1..lpns.len()).rev() {
        lpns.swap(index, rng.random_range(0..=index));
    }
    lpns
}
