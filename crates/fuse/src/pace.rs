//! When answers go out: at once, or when the drive would have given them.
//!
//! In real time a request starts at the machine's time, is done in no time as far as the volume's mutex is
//! concerned, and its answer waits here until the drive's completion time has come. Requests of several programs
//! are therefore under way at the same time, as in a drive's queue.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fuser::Errno;
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};
use tantalum::{Clock, Nanoseconds};
use tantalum_volume::Volume;

use crate::host::Outcome;

/// Whether programs meet the drive's latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pacing {
    /// Answers are held back until the drive's completion time.
    Real,
    /// Answers go out at once; the drive's time passes as one client would see it.
    None,
}

/// A text that names no pacing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("time is \"real\" or \"none\"")]
pub struct UnknownPacing;

impl FromStr for Pacing {
    type Err = UnknownPacing;

    fn from_str(text: &str) -> Result<Pacing, UnknownPacing> {
        match text {
            "real" => Ok(Pacing::Real),
            "none" => Ok(Pacing::None),
            _ => Err(UnknownPacing),
        }
    }
}

/// An answer that is ready to go out; told whether power was lost while it waited.
type Answer = Box<dyn FnOnce(bool) + Send>;

/// How requests meet the drive's time.
#[derive(Clone)]
pub(crate) enum Pace {
    AtOnce,
    InTime(Arc<Waiting>),
}

/// Answers whose time has not come.
pub(crate) struct Waiting {
    clock: Clock,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// What the drive had not answered when power was lost it never answers.
    power_lost: AtomicBool,
}

#[derive(Default)]
struct Queue {
    answers: BinaryHeap<Reverse<Entry>>,
    next_number: u64,
}

struct Entry {
    due_ns: Nanoseconds,
    /// Of two that are due at once the one that came first goes first.
    number: u64,
    answer: Answer,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        (self.due_ns, self.number) == (other.due_ns, other.number)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.due_ns, self.number).cmp(&(other.due_ns, other.number))
    }
}

impl Pace {
    /// `from_ns` is the drive's time now. In real time a thread is started that sends answers.
    pub fn new(pacing: Pacing, from_ns: Nanoseconds) -> std::io::Result<Pace> {
        if pacing == Pacing::None {
            return Ok(Pace::AtOnce);
        }
        let waiting = Arc::new(Waiting {
            clock: Clock::real_from(from_ns),
            queue: Mutex::default(),
            changed: Condvar::new(),
            power_lost: AtomicBool::new(false),
        });
        let sender = Arc::clone(&waiting);
        thread::Builder::new().name("answers".to_owned()).spawn(move || sender.send_in_time())?;
        Ok(Pace::InTime(waiting))
    }

    /// A request begins: the volume's client is where the machine is.
    pub fn begin(&self, volume: &mut Volume) {
        if let Pace::InTime(waiting) = self {
            volume.begin_at(waiting.clock.now_ns());
        }
    }

    /// A request was done, as far as the drive is concerned, at `done_ns`: `answer` sends the outcome then. If power
    /// is lost before, it sends an error.
    pub fn finish<T: Send + 'static>(
        &self,
        done_ns: Nanoseconds,
        outcome: Outcome<T>,
        answer: impl FnOnce(Outcome<T>) + Send + 'static,
    ) {
        match self {
            Pace::InTime(waiting) if waiting.clock.now_ns() < done_ns => {
                let in_time = move |power_lost| match power_lost {
                    true => answer(outcome.and(Err(Errno::EIO.into()))),
                    false => answer(outcome),
                };
                waiting.push(done_ns, Box::new(in_time));
            }
            _ => answer(outcome),
        }
    }

    /// Answers that wait are errors from now on.
    pub fn lose_power(&self) {
        if let Pace::InTime(waiting) = self {
            waiting.power_lost.store(true, Ordering::Release);
        }
    }
}

impl Waiting {
    fn push(&self, due_ns: Nanoseconds, answer: Answer) {
        let mut queue = self.queue.lock();
        let number = queue.next_number;
        queue.next_number += 1;
        let is_first = queue.answers.peek().is_none_or(|Reverse(first)| due_ns < first.due_ns);
        queue.answers.push(Reverse(Entry { due_ns, number, answer }));
        if is_first {
            self.changed.notify_one();
        }
    }

    fn send_in_time(&self) {
        // Threads usually sleep up to 50 us too long: more than a read of flash takes.
        let _ = nix::sys::prctl::set_timerslack(1);
        let mut queue = self.queue.lock();
        loop {
            let now_ns = self.clock.now_ns();
            match queue.answers.peek().map(|Reverse(first)| first.due_ns) {
                None => self.changed.wait(&mut queue),
                Some(due_ns) if due_ns > now_ns => {
                    self.changed.wait_for(&mut queue, Duration::from_nanos(due_ns - now_ns));
                }
                Some(_) => {
                    let Reverse(entry) = queue.answers.pop().expect("there is a first");
                    let power_lost = self.power_lost.load(Ordering::Acquire);
                    parking_lot::MutexGuard::unlocked(&mut queue, || (entry.answer)(power_lost));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::time::Instant;

    #[test]
    fn answers_go_out_in_the_order_of_their_times() {
        let pace = Pace::new(Pacing::Real, 0).unwrap();
        let (sender, receiver) = mpsc::channel();
        let start = Instant::now();
        for (name, due_ns) in [("late", 30_000_000), ("early", 10_000_000), ("past", 0)] {
            let sender = sender.clone();
            pace.finish(due_ns, Ok(name), move |outcome| {
                sender.send((outcome.unwrap(), start.elapsed())).unwrap();
            });
        }
        let answers: Vec<_> = receiver.iter().take(3).collect();
        assert_eq!(answers.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["past", "early", "late"]);
        assert!(answers[1].1 >= Duration::from_millis(9), "{answers:?}");
        assert!(answers[2].1 >= Duration::from_millis(29), "{answers:?}");
    }

    #[test]
    fn without_pacing_nothing_waits() {
        let pace = Pace::new(Pacing::None, 0).unwrap();
        let (sender, receiver) = mpsc::channel();
        pace.finish(u64::MAX, Ok(()), move |outcome| sender.send(outcome).unwrap());
        assert_eq!(receiver.try_recv(), Ok(Ok(())));
    }

    #[test]
    fn what_waits_when_power_goes_is_never_acknowledged() {
        let pace = Pace::new(Pacing::Real, 0).unwrap();
        let (sender, receiver) = mpsc::channel();
        pace.finish(20_000_000, Ok(()), move |outcome| sender.send(outcome).unwrap());
        pace.lose_power();
        assert_eq!(receiver.recv(), Ok(Err(Errno::EIO.into())));
    }

    #[test]
    fn pacings_have_names() {
        assert_eq!("real".parse(), Ok(Pacing::Real));
        assert_eq!("none".parse(), Ok(Pacing::None));
        assert_eq!("fast".parse::<Pacing>(), Err(UnknownPacing));
    }
}
