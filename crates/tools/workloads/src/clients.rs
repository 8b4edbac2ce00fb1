//! Several clients of one server, each of which issues its next operation as soon as the previous one is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tantalum_report::{Bar, Interrupted, histogram};

use crate::processors::ProcessorTime;

/// Operations between two steps of the bar.
const OPERATIONS_PER_STEP: u64 = 16;

/// How often interruption is checked while all clients wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One client with its own connection and randomness.
pub trait Client: Send {
    /// Why an operation failed.
    type Error: From<Interrupted> + Send;

    /// Does the next operation. Returns its kind.
    fn step(&mut self) -> Result<usize, Self::Error>;
}

/// What clients did.
#[derive(Clone, Debug)]
pub struct Measured {
    /// From the first operation's start to the last one's end.
    pub seconds: f64,
    /// Latencies in nanoseconds for each kind of operation.
    pub latencies: Vec<Histogram<u64>>,
    /// The machine's CPU use of all programs in that time, in percent; 0 where the system does not report it.
    pub busy_percent: f64,
}

impl Measured {
    /// Operations of all kinds.
    pub fn operations(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }

    /// The measurement with all times divided by `times`: seconds and latencies.
    pub fn divided_by(self, times: u32) -> Measured {
        let divided = |latencies: &Histogram<u64>| {
            let mut divided = histogram();
            for step in latencies.iter_recorded() {
                let latency_ns = step.value_iterated_to() / u64::from(times);
                divided.saturating_record_n(latency_ns, step.count_since_last_iteration());
            }
            divided
        };
        Measured {
            seconds: self.seconds / f64::from(times),
            latencies: self.latencies.iter().map(divided).collect(),
            ..self
        }
    }

    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        self.operations() as f64 / self.seconds
    }
}

/// Has each client do this many operations of `kinds` kinds, all clients at once. An operation may wait many seconds for
/// the drive or for others. If the experiment should stop, `kill` ends the server and with it all waits.
pub fn drive<E: From<Interrupted> + Send>(
    clients: &mut [Box<dyn Client<Error = E> + '_>],
    operations_each: u64,
    kinds: usize,
    bar: &Bar,
    kill: impl FnOnce(),
) -> Result<Measured, E> {
    let (start, before) = (Instant::now(), ProcessorTime::now());
    let done = drive_all(clients, operations_each, kinds, bar, kill);
    let seconds = start.elapsed().as_secs_f64();
    let busy_percent = ProcessorTime::now().busy_percent_since(before);
    bar.check()?;
    let mut latencies = vec![histogram(); kinds];
    for of_client in done {
        for (sum, part) in latencies.iter_mut().zip(of_client?) {
            sum.add(part).expect("all histograms have one range");
        }
    }
    Ok(Measured { seconds, latencies, busy_percent })
}

/// Runs each client on its own thread, until all have ended. Calls `kill` when the user interrupts.
fn drive_all<E: From<Interrupted> + Send>(
    clients: &mut [Box<dyn Client<Error = E> + '_>],
    operations_each: u64,
    kinds: usize,
    bar: &Bar,
    kill: impl FnOnce(),
) -> Vec<Latencies<E>> {
    let failed = AtomicBool::new(false);
    let (working, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let run = |client| {
            let (failed, working) = (&failed, working.clone());
            scope.spawn(move || {
                let done = drive_one(client, operations_each, kinds, bar, failed);
                if done.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                drop(working);
                done
            })
        };
        let threads: Vec<_> = clients.iter_mut().map(run).collect();
        drop(working);
        while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            if bar.check().is_err() {
                kill();
                break;
            }
        }
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// A client's latencies, by kind of operation.
type Latencies<E> = Result<Vec<Histogram<u64>>, E>;

fn drive_one<E: From<Interrupted> + Send>(
    client: &mut Box<dyn Client<Error = E> + '_>,
    operations: u64,
    kinds: usize,
    bar: &Bar,
    failed: &AtomicBool,
) -> Latencies<E> {
    let mut latencies = vec![histogram(); kinds];
    for number in 0..operations {
        if number % OPERATIONS_PER_STEP == 0 {
            bar.advance(OPERATIONS_PER_STEP.min(operations - number))?;
        }
        bar.check()?;
        if failed.load(Ordering::Relaxed) {
            // Whoever failed reports why.
            break;
        }
        let start = Instant::now();
        let kind = client.step()?;
        latencies[kind].saturating_record(start.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tantalum_report::{InvalidSetting, Monitor};

    use super::*;
    use crate::error::WorkloadError;

    fn failure() -> WorkloadError {
        InvalidSetting::new("--clients", 0, "").into()
    }

    struct Counting(usize);

    impl Client for Counting {
        type Error = WorkloadError;

        fn step(&mut self) -> Result<usize, WorkloadError> {
            self.0 += 1;
            match self.0 {
                100 => Err(failure()),
                number => Ok(number % 3),
            }
        }
    }

    fn run(operations: u64) -> Result<Measured, WorkloadError> {
        let mut clients: Vec<Box<dyn Client<Error = WorkloadError>>> =
            (0..4).map(|_| Box::new(Counting(0)) as Box<_>).collect();
        drive(&mut clients, operations, 3, &Monitor::silent().bar("", 1), || ())
    }

    /// Waits for an event that only the end of its server triggers.
    struct Waiting(mpsc::Receiver<()>);

    impl Client for Waiting {
        type Error = WorkloadError;

        fn step(&mut self) -> Result<usize, WorkloadError> {
            let _ = self.0.recv();
            Err(failure())
        }
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

    // Clients of TPC-C that waited for one row checked for an interruption every 16 operations: half a minute.
    #[test]
    fn clients_that_wait_for_the_server_are_stopped_with_it() {
        let cancelled = Arc::new(AtomicBool::new(false));
        let monitor = Monitor::new(Arc::clone(&cancelled));
        let (server, waits) = mpsc::channel();
        let mut clients: Vec<Box<dyn Client<Error = WorkloadError>>> = vec![Box::new(Waiting(waits))];
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            cancelled.store(true, Ordering::Relaxed);
        });
        let ended = drive(&mut clients, 1, 1, &monitor.bar("", 1), || drop(server));
        assert!(matches!(ended, Err(WorkloadError::Interrupted(_))), "{ended:?}");
    }
}
