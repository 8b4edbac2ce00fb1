//! Work on all processors.

use std::num::NonZero;
use std::sync::mpsc::{self, SyncSender};
use std::thread;

use parking_lot::Mutex;

/// How many threads work.
pub fn workers() -> usize {
    thread::available_parallelism().map_or(2, NonZero::get)
}

/// Threads do the jobs that `make` sends, each with its number; `waiting` jobs wait at most. Returns what `make` returned, when all jobs are
/// done.
pub fn in_parallel<J: Send, T>(
    waiting: usize,
    work: impl Fn(usize, J) + Sync,
    make: impl FnOnce(SyncSender<J>) -> T,
) -> T {
    let (jobs, queue) = mpsc::sync_channel(waiting);
    let queue = Mutex::new(queue);
    thread::scope(|scope| {
        for worker in 0..workers() {
            let (queue, work) = (&queue, &work);
            scope.spawn(move || {
                loop {
                    // not while the job is done
                    let next = queue.lock().recv();
                    let Ok(job) = next else { return };
                    work(worker, job);
                }
            });
        }
        make(jobs)
    })
}
