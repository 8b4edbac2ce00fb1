//! An open loop: reads and writes arrive whether or not earlier ones are done.
//!
//! Arrivals are a Poisson process. Unlike a closed loop, whose clients wait, it keeps a drive at a stated load, so
//! latencies of two drives compare.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Lpn, Nanoseconds, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_report::Bar;

use crate::error::WorkloadError;

/// Operations between two checks for an interruption.
const OPERATIONS_PER_STEP: u64 = 1024;

/// Operations of one unit each, anywhere in the first units of a drive.
#[derive(Clone, Copy, Debug)]
pub struct OpenLoop {
    /// The units that are read and written.
    pub span_units: u32,
    /// Percentage of reads.
    pub read_percent: u32,
    /// Number of operations.
    pub operations: u64,
    /// Mean number of arrivals per second.
    pub per_second: u64,
}

/// The latencies of operations of one kind, from arrival to completion.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waits {
    /// The number of operations.
    pub operations: u64,
    /// The sum of all latencies.
    pub sum_ns: Nanoseconds,
    /// The longest latency.
    pub most_ns: Nanoseconds,
}

impl Waits {
    fn add(&mut self, latency_ns: Nanoseconds) {
        self.operations += 1;
        self.sum_ns += latency_ns;
        self.most_ns = self.most_ns.max(latency_ns);
    }

    /// The mean; 0 if there was none.
    pub fn mean_ns(&self) -> f64 {
        self.sum_ns as f64 / self.operations.max(1) as f64
    }
}

/// Latencies by kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WaitsByKind {
    /// Latencies of reads.
    pub reads: Waits,
    /// Latencies of writes.
    pub writes: Waits,
}

impl OpenLoop {
    /// Runs on the drive, starting at its time.
    pub fn run(&self, drive: &Drive, seed: u64, bar: &Bar) -> Result<WaitsByKind, WorkloadError> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut buffer = vec![0; UNIT_BYTES];
        let WaitsByKind { mut reads, mut writes } = WaitsByKind::default();
        let mean_gap_ns = 1e9 / self.per_second as f64;
        let mut at_ns = drive.lock().time_ns();
        for operation in 1..=self.operations {
            at_ns += (-(1.0 - random.random::<f64>()).ln() * mean_gap_ns) as Nanoseconds;
            let lpn = Lpn(random.random_range(0..self.span_units));
            let is_read = random.random_range(0..100) < self.read_percent;
            let command = match is_read {
                true => Command::Read { lpn, data: &mut buffer },
                false => Command::Write { lpn, data: &buffer, fua: false, handle: None },
            };
            let latency_ns = drive.lock().submit(command, at_ns)?.done_ns - at_ns;
            if is_read {
                reads.add(latency_ns)
            } else {
                writes.add(latency_ns)
            }
            if operation % OPERATIONS_PER_STEP == 0 {
                bar.advance(OPERATIONS_PER_STEP)?;
            }
        }
        Ok(WaitsByKind { reads, writes })
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Device, Profile};
    use tantalum_report::Monitor;

    use super::*;

    fn run(read_percent: u32, per_second: u64) -> (WaitsByKind, Nanoseconds) {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("femu-2021").unwrap() };
        let drive = Drive::new(Device::in_memory(&profile).unwrap());
        let start_ns = drive.lock().time_ns();
        let load = OpenLoop { span_units: 4096, read_percent, operations: 5000, per_second };
        let waits = load.run(&drive, 1, &Monitor::silent().bar("", 1)).unwrap();
        (waits, drive.lock().time_ns() - start_ns)
    }

    #[test]
    fn operations_come_at_the_stated_rate() {
        let (waits, elapsed_ns) = run(0, 1000);
        assert!((4_500_000_000..5_500_000_000).contains(&elapsed_ns), "{elapsed_ns}");
        assert_eq!((waits.reads.operations, waits.writes.operations), (0, 5000));
        // a program of 500 us and 10 us of firmware, and rarely another one before it
        assert!((510_000.0..600_000.0).contains(&waits.writes.mean_ns()), "{waits:?}");
    }

    #[test]
    fn a_loop_does_not_wait_for_a_drive_that_is_too_slow() {
        let ((slow, _), (fast, elapsed_ns)) = (run(50, 1000), run(50, 100_000));
        assert!(fast.writes.mean_ns() > 20.0 * slow.writes.mean_ns(), "{slow:?} {fast:?}");
        assert!(elapsed_ns > 2500 * 500_000 / 8, "{elapsed_ns}");
    }
}
