//! The rate at which this machine copies units to random places: the limit for a drive in memory.

use memmap2::MmapMut;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::UNIT_BYTES;
use tantalum_report::Monitor;

use super::{Started, Taken};
use crate::error::{OutOfMemory, WorkloadError};
use crate::memory;

/// The number of source units: they stay in the processor's cache, like a host's few buffers.
pub const SOURCE_UNITS: usize = 16;

/// Copies between two checks for cancellation.
const COPIES_PER_STEP: u64 = 4096;

/// An arena as large as the drive, written before the measurement, and the data copied into it.
pub struct Copies {
    arena: MmapMut,
    units: usize,
    source: Vec<u8>,
    random: Xoshiro256PlusPlus,
    copied: u64,
    taken: Taken,
}

impl Copies {
    /// An arena with every unit written once.
    pub fn new(arena_bytes: u64, seed: u64, monitor: &Monitor) -> Result<Copies, WorkloadError> {
        memory::require(arena_bytes)?;
        let units = (arena_bytes / UNIT_BYTES as u64) as usize;
        let bar = monitor.bar("memcpy", units as u64);
        let mut arena = MmapMut::map_anon(units * UNIT_BYTES)
            .map_err(|_| OutOfMemory { needed_bytes: arena_bytes, available_bytes: 0 })?;
        // as the drive's own arena: huge pages where the host has them
        #[cfg(target_os = "linux")]
        let _ = arena.advise(memmap2::Advice::HugePage);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut source = vec![0; SOURCE_UNITS * UNIT_BYTES];
        random.fill(&mut source[..]);
        for unit in 0..units {
            let from = unit % SOURCE_UNITS * UNIT_BYTES;
            arena[unit * UNIT_BYTES..][..UNIT_BYTES].copy_from_slice(&source[from..from + UNIT_BYTES]);
            if (unit as u64).is_multiple_of(COPIES_PER_STEP) {
                bar.advance(COPIES_PER_STEP)?;
            }
        }
        Ok(Copies { arena, units, source, random, copied: 0, taken: Taken::default() })
    }

    /// The processor time of one copy.
    pub fn processor_us(&self) -> f64 {
        self.taken.processor.as_secs_f64() * 1e6 / self.copied as f64
    }

    /// Copies this many units to random places.
    pub fn copy(&mut self, copies: u64) {
        let started = Started::now();
        for number in 0..copies {
            let at = self.random.random_range(0..self.units) * UNIT_BYTES;
            let from = number as usize % SOURCE_UNITS * UNIT_BYTES;
            self.arena[at..at + UNIT_BYTES].copy_from_slice(&self.source[from..from + UNIT_BYTES]);
        }
        self.taken.add_since(&started);
        self.copied += copies;
        std::hint::black_box(&self.arena);
    }

    /// Units copied per second.
    pub fn per_second(&self) -> f64 {
        self.copied as f64 / self.taken.wall.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plausible_rate_comes_out() {
        let mut copies = Copies::new(1 << 20, 1, &Monitor::silent()).unwrap();
        (0..2).for_each(|_| copies.copy(5_000));
        let rate = copies.per_second();
        assert!((1e4..1e9).contains(&rate), "{rate} copies a second");
    }
}
