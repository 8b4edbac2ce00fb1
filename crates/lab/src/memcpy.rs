//! How fast this machine copies units to random places: the measure of how fast a drive in memory could be.

use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::UNIT_BYTES;

use crate::error::LabError;
use crate::memory;
use crate::monitor::Monitor;

/// Units that are copied from: they stay in the processor's cache, as a host's few buffers do.
pub(crate) const SOURCE_UNITS: usize = 16;

/// Copies between two looks at the wish to stop.
const COPIES_PER_STEP: u64 = 4096;

/// Copies so many units to random places of an arena as large as the drive, and tells how many it did a second.
/// The arena has been written to before, and is given back at the end.
pub(crate) fn copies_per_second(
    arena_bytes: u64,
    copies: u64,
    seed: u64,
    monitor: &Monitor,
) -> Result<f64, LabError> {
    memory::require(arena_bytes)?;
    let units = (arena_bytes / UNIT_BYTES as u64) as usize;
    let bar = monitor.bar("memcpy", units as u64 + copies);
    let mut arena = memmap2::MmapMut::map_anon(units * UNIT_BYTES)
        .map_err(|_| LabError::Memory { needed_bytes: arena_bytes, available_bytes: 0 })?;
    // as the drive's own arena: huge pages where the host has them
    #[cfg(target_os = "linux")]
    let _ = arena.advise(memmap2::Advice::HugePage);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut source = vec![0; SOURCE_UNITS * UNIT_BYTES];
    random.fill(&mut source[..]);
    let source: Vec<&[u8]> = source.chunks_exact(UNIT_BYTES).collect();
    for unit in 0..units {
        arena[unit * UNIT_BYTES..][..UNIT_BYTES].copy_from_slice(source[unit % SOURCE_UNITS]);
        if (unit as u64).is_multiple_of(COPIES_PER_STEP) {
            bar.advance(COPIES_PER_STEP)?;
        }
    }
    let start = Instant::now();
    for number in 0..copies {
        let at = random.random_range(0..units) * UNIT_BYTES;
        arena[at..at + UNIT_BYTES].copy_from_slice(source[number as usize % SOURCE_UNITS]);
        if number.is_multiple_of(COPIES_PER_STEP) {
            bar.advance(COPIES_PER_STEP)?;
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    std::hint::black_box(&arena);
    Ok(copies as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plausible_rate_comes_out() {
        let rate = copies_per_second(1 << 20, 10_000, 1, &Monitor::silent()).unwrap();
        assert!((1e4..1e9).contains(&rate), "{rate} copies a second");
    }
}
