//! Random writes with an `fsync` after a given number of them, and random reads: what `fio` does for DuraSSD's tables 1
//! and 2.
//!
//! Jobs are a queue ordered by the time of their next command. A job that has flushed continues when the flush is done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, Lpn, Nanoseconds, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_report::Bar;

use crate::error::WorkloadError;

/// Operations between two checks for an interruption.
const OPERATIONS_PER_STEP: u64 = 1024;

/// What each job does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Reads.
    Read,
    /// Writes, with an `fsync` after this many of the job's writes, or without any.
    Write {
        /// The job's writes between two syncs.
        writes_per_sync: Option<u64>,
        /// What a sync does.
        sync: Sync,
    },
}

/// What `fsync` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// It sends a flush.
    Flushes,
    /// A sync sends nothing to the drive and takes this long, as on a file system without write barriers.
    NoBarrier {
        /// How long it takes.
        sync_ns: Nanoseconds,
    },
}

/// Random operations on the first units of a drive.
#[derive(Clone, Copy, Debug)]
pub struct FsyncWrites {
    /// The units that are read and written.
    pub span_units: u32,
    /// What is done.
    pub action: Action,
    /// The size of an operation.
    pub units: u32,
    /// Concurrent jobs, each with one command in flight.
    pub jobs: u32,
    /// Operations of all jobs together.
    pub operations: u64,
    /// The time between the end of a job's command and its next one.
    pub host_ns: Nanoseconds,
}

struct Job {
    random: Xoshiro256PlusPlus,
    writes_since_sync: u64,
}

impl FsyncWrites {
    /// Runs on the drive, starting at its time. Returns the operations per second of that time.
    pub fn run(&self, drive: &Drive, seed: u64, bar: &Bar) -> Result<f64, WorkloadError> {
        let start_ns = drive.lock().time_ns();
        let slots = self.span_units / self.units;
        let mut buffer = vec![0; self.units as usize * UNIT_BYTES];
        let job = |number| Job {
            random: Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(u64::from(number) << 32)),
            writes_since_sync: 0,
        };
        let mut jobs: Vec<Job> = (0..self.jobs).map(job).collect();
        let mut queue: BinaryHeap<_> = (0..self.jobs as usize).map(|job| Reverse((start_ns, job))).collect();
        let (mut done, mut end_ns) = (0, start_ns);
        while done < self.operations {
            let Reverse((at_ns, number)) = queue.pop().expect("there is at least one job");
            let job = &mut jobs[number];
            let sync = self.take_due_sync(job);
            let command = match sync {
                Some(Sync::NoBarrier { sync_ns }) => {
                    queue.push(Reverse((at_ns + sync_ns, number)));
                    continue;
                }
                Some(Sync::Flushes) => Command::Flush,
                None => {
                    let lpn = Lpn(job.random.random_range(0..slots) * self.units);
                    self.command(lpn, job, &mut buffer)
                }
            };
            let done_ns = drive.lock().submit(command, at_ns)?.done_ns;
            end_ns = end_ns.max(done_ns);
            queue.push(Reverse((done_ns + self.host_ns, number)));
            if sync.is_none() {
                done += 1;
                if done % OPERATIONS_PER_STEP == 0 {
                    bar.advance(OPERATIONS_PER_STEP)?;
                }
            }
        }
        Ok(self.operations as f64 * 1e9 / (end_ns - start_ns) as f64)
    }

    /// The sync that a job does next, if it has written enough since its last one.
    fn take_due_sync(&self, job: &mut Job) -> Option<Sync> {
        let Action::Write { writes_per_sync: Some(limit), sync } = self.action else { return None };
        if job.writes_since_sync < limit {
            return None;
        }
        job.writes_since_sync = 0;
        Some(sync)
    }

    fn command<'a>(&self, lpn: Lpn, job: &mut Job, buffer: &'a mut [u8]) -> Command<'a> {
        match self.action {
            Action::Read => Command::Read { lpn, data: buffer },
            Action::Write { .. } => {
                job.writes_since_sync += 1;
                job.random.fill(&mut buffer[..16]);
                Command::Write { lpn, data: buffer, fua: false, handle: None }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{CacheMode, Device, Plp, Profile};
    use tantalum_report::Monitor;

    use super::*;

    fn iops(profile: &Profile, writes: FsyncWrites) -> f64 {
        let drive = Drive::new(Device::in_memory(profile).unwrap());
        let rate = writes.run(&drive, 1, &Monitor::silent().bar("", 1)).unwrap();
        let flushes = match writes.action {
            Action::Write { writes_per_sync: Some(limit), sync: Sync::Flushes } => {
                (writes.operations - 1) / limit
            }
            _ => 0,
        };
        assert_eq!(
            drive.lock().smart().counters.flushes,
            flushes * u64::from(writes.jobs == 1),
            "{writes:?}"
        );
        rate
    }

    fn durassd() -> Profile {
        Profile { capacity_bytes: 256 << 20, ..Profile::load("durassd").unwrap() }
    }

    fn volatile() -> Profile {
        let mut profile = durassd();
        profile.cache.mode = CacheMode::Volatile;
        profile.power.plp = Plp::None;
        profile.power.dump_bytes = 0;
        profile
    }

    const EACH: FsyncWrites = FsyncWrites {
        span_units: 65_536,
        action: Action::Write { writes_per_sync: Some(1), sync: Sync::Flushes },
        units: 1,
        jobs: 1,
        operations: 1000,
        host_ns: 10_000,
    };

    #[test]
    fn flushes_drain_a_volatile_cache_and_cost_a_durable_one_nothing() {
        let (drains, orders) = (iops(&volatile(), EACH), iops(&durassd(), EACH));
        assert!(orders > 10.0 * drains, "{orders} {drains}");
    }

    #[test]
    fn without_a_barrier_no_flush_is_sent() {
        let sync = Sync::NoBarrier { sync_ns: 1000 };
        let without = FsyncWrites { action: Action::Write { writes_per_sync: Some(1), sync }, ..EACH };
        assert!(iops(&durassd(), without) > iops(&durassd(), EACH));
    }

    #[test]
    fn fewer_flushes_are_faster() {
        let rare =
            FsyncWrites { action: Action::Write { writes_per_sync: Some(100), sync: Sync::Flushes }, ..EACH };
        let never =
            FsyncWrites { action: Action::Write { writes_per_sync: None, sync: Sync::Flushes }, ..EACH };
        let rates = [EACH, rare, never].map(|writes| iops(&volatile(), writes));
        assert!(rates[0] * 2.0 < rates[1] && rates[1] < rates[2], "{rates:?}");
    }

    #[test]
    fn jobs_read_at_once() {
        let one = FsyncWrites { action: Action::Read, ..EACH };
        let many = FsyncWrites { jobs: 8, ..one };
        assert!(iops(&durassd(), many) > 2.0 * iops(&durassd(), one));
    }
}
