//! A host that keeps its queues full.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde::Serialize;
use tantalum::UNIT_BYTES;

use super::case::Case;
use crate::client::{Client, block_command};
use crate::controller::QUEUE_ENTRIES;
use crate::wire::opcode::nvm;

/// Distinct command identifiers: more than a queue has entries.
const NAMES: usize = 256;

/// A round.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// Commands per second.
    pub per_second: f64,
    /// The median of their latencies, in microseconds.
    pub median_us: f64,
    /// Processor time per command, of host and server, in microseconds. Other programs disturb it least.
    pub processor_us: f64,
}

impl Measured {
    /// The median round.
    pub fn middle(mut rounds: Vec<Measured>) -> Measured {
        rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
        rounds[rounds.len() / 2]
    }
}

/// The median of times in nanoseconds, in microseconds.
pub fn median_us(latencies_ns: &mut [u64]) -> f64 {
    if latencies_ns.is_empty() {
        return 0.0;
    }
    let middle = latencies_ns.len() / 2;
    *latencies_ns.select_nth_unstable(middle).1 as f64 / 1e3
}

/// Processor time of this process.
fn processor_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::ZERO };
    let microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(microseconds as u64)
}

/// A queue that is kept full.
struct Worker {
    client: Client,
    case: Case,
    units: u64,
    /// The number of the next command.
    next: u64,
    began: Vec<Instant>,
}

/// A host.
pub struct Load {
    /// The controller exists as long as this.
    _admin: Client,
    workers: Vec<Worker>,
}

impl Load {
    /// For connections to a drive with a given number of units.
    pub fn new(admin: Client, queues: Vec<Client>, case: Case, units: u64) -> Load {
        assert!(
            case.depth < usize::from(QUEUE_ENTRIES) && case.depth <= NAMES,
            "{} keeps {} commands in flight on a queue of {QUEUE_ENTRIES}",
            case.name,
            case.depth
        );
        assert!(
            u64::from(case.units) <= units,
            "{} moves {} of {units} units at once",
            case.name,
            case.units
        );
        let worker = |(index, client): (usize, Client)| Worker {
            client,
            case,
            units,
            next: (index as u64) << 40,
            began: vec![Instant::now(); NAMES],
        };
        Load { _admin: admin, workers: queues.into_iter().enumerate().map(worker).collect() }
    }

    /// Keeps all queues full for a while.
    pub fn run(&mut self, time: Duration) -> io::Result<Measured> {
        let (began, used) = (Instant::now(), processor_time());
        let until = began + time;
        let counted: Vec<io::Result<Vec<u64>>> = thread::scope(|scope| {
            let threads: Vec<_> =
                self.workers.iter_mut().map(|worker| scope.spawn(move || worker.run(until))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
        });
        let seconds = began.elapsed().as_secs_f64();
        let mut latencies = Vec::new();
        for counted in counted {
            latencies.extend(counted?);
        }
        let commands = latencies.len() as f64;
        let processor_us = (processor_time() - used).as_secs_f64() * 1e6 / commands.max(1.0);
        Ok(Measured { per_second: commands / seconds, median_us: median_us(&mut latencies), processor_us })
    }
}

impl Worker {
    /// The latencies of all commands that were done.
    fn run(&mut self, until: Instant) -> io::Result<Vec<u64>> {
        let mut latencies = Vec::with_capacity(1 << 16);
        let first = self.next;
        for _ in 0..self.case.depth {
            self.submit()?;
        }
        let mut under_way = self.case.depth;
        while under_way > 0 {
            let completed = self.client.reap()?;
            under_way -= 1;
            let expected = if self.case.is_write { 0 } else { self.case.units as usize * UNIT_BYTES };
            if completed.code != 0 || completed.data.len() != expected {
                let (code, bytes) = (completed.code, completed.data.len());
                return Err(io::Error::other(format!("a command ended with {code:#x} and {bytes} bytes")));
            }
            let now = Instant::now();
            let began = self.began[usize::from(completed.id) % NAMES];
            latencies.push((now - began).as_nanos() as u64);
            if now < until {
                self.submit()?;
                under_way += 1;
            }
        }
        assert_eq!(latencies.len() as u64, self.next - first, "commands that were done, and those submitted");
        Ok(latencies)
    }

    fn submit(&mut self) -> io::Result<()> {
        let case = &self.case;
        let places = self.units / u64::from(case.units);
        let place = if case.is_sequential { self.next } else { tantalum_image::mix(self.next) } % places;
        self.next += 1;
        let bytes = case.units as usize * UNIT_BYTES;
        let first = place * u64::from(case.units);
        debug_assert!(
            first + u64::from(case.units) <= self.units,
            "unit {first} and those behind it are beyond the drive"
        );
        let id = if case.is_write {
            let data = vec![self.next as u8; bytes];
            self.client.submit_write(block_command(nvm::WRITE, first, case.units), data)?
        } else {
            self.client.submit(block_command(nvm::READ, first, case.units), Vec::new(), bytes as u32)?
        };
        self.began[usize::from(id) % NAMES] = Instant::now();
        Ok(())
    }
}
