//! Several clients of one server, each doing one operation after another as fast as it is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use hdrhistogram::Histogram;

use crate::error::LabError;
use crate::latency::histogram;
use crate::monitor::Bar;
use crate::servers::ServerError;

/// Operations between two looks at the wish to stop.
const OPERATIONS_PER_STEP: u64 = 16;

/// One client with its own connection and randomness.
pub(crate) trait Client: Send {
    /// Does the next operation and tells which kind it was.
    fn step(&mut self) -> Result<usize, ServerError>;
}

/// What clients did.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// From the first operation's start to the last one's end.
    pub seconds: f64,
    /// Latencies in nanoseconds for each kind of operation.
    pub latencies: Vec<Histogram<u64>>,
}

impl Measured {
    /// Operations of all kinds.
    pub(crate) fn operations(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }

    /// Operations in a second.
    pub(crate) fn per_second(&self) -> f64 {
        self.operations() as f64 / self.seconds
    }
}

/// Lets each client do so many operations of `kinds` kinds, all clients at once.
pub(crate) fn drive(
    clients: &mut [Box<dyn Client>],
    operations_each: u64,
    kinds: usize,
    bar: &Bar,
) -> Result<Measured, LabError> {
    let failed = AtomicBool::new(false);
    let start = Instant::now();
    let done: Vec<_> = thread::scope(|scope| {
        let run = |client| {
            let failed = &failed;
            scope.spawn(move || {
                let done = drive_one(client, operations_each, kinds, bar, failed);
                if done.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                done
            })
        };
        let threads: Vec<_> = clients.iter_mut().map(run).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let seconds = start.elapsed().as_secs_f64();
    let mut latencies = vec![histogram(); kinds];
    for of_client in done {
        for (sum, part) in latencies.iter_mut().zip(of_client?) {
            sum.add(part).expect("all histograms have one range");
        }
    }
    Ok(Measured { seconds, latencies })
}

fn drive_one(
    client: &mut Box<dyn Client>,
    operations: u64,
    kinds: usize,
    bar: &Bar,
    failed: &AtomicBool,
) -> Result<Vec<Histogram<u64>>, LabError> {
    let mut latencies = vec![histogram(); kinds];
    for number in 0..operations {
        if number % OPERATIONS_PER_STEP == 0 {
            bar.advance(OPERATIONS_PER_STEP.min(operations - number))?;
            if failed.load(Ordering::Relaxed) {
                // Whoever failed says why.
                break;
            }
        }
        let start = Instant::now();
        let kind = client.step()?;
        latencies[kind].saturating_record(start.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Monitor;

    struct Counting(usize);

    impl Client for Counting {
        fn step(&mut self) -> Result<usize, ServerError> {
            self.0 += 1;
            match self.0 {
                100 => Err(ServerError::Counters { field: "nothing" }),
                number => Ok(number % 3),
            }
        }
    }

    fn run(operations: u64) -> Result<Measured, LabError> {
        let mut clients: Vec<Box<dyn Client>> = (0..4).map(|_| Box::new(Counting(0)) as Box<_>).collect();
        drive(&mut clients, operations, 3, &Monitor::silent().bar("", 1))
    }

    #[test]
    fn every_operation_of_every_client_is_counted() {
        let measured = run(90).unwrap();
        assert_eq!(measured.latencies.iter().map(Histogram::len).collect::<Vec<_>>(), [120; 3]);
        assert_eq!(measured.operations(), 360);
    }

    #[test]
    fn a_client_that_fails_ends_all() {
        assert!(run(100).is_err());
    }
}
