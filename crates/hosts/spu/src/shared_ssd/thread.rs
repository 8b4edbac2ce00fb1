//! The thread that executes everything in a shared drive's processors.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tantalum_drive::{Answers, Drive};

use super::waiters::Waiting;
use crate::system::Ssd;

/// How often to look for a loss of power, at least, while somebody waits.
const LOOK: Duration = Duration::from_millis(100);

type Job = Box<dyn FnOnce(&mut State) + Send>;

/// What the thread shares with the users of the drive.
pub(super) struct Inner {
    pub state: Mutex<State>,
    pub changed: Condvar,
    pub drive: Drive,
    pub answers: Answers,
    /// Set when the drive loses power, by the thread that uses it then.
    pub is_lost: AtomicBool,
}

pub(super) struct State {
    pub ssd: Ssd,
    pub waiting: Waiting,
    /// Jobs, which the thread does before anything else.
    pub jobs: VecDeque<Job>,
    pub is_closed: bool,
}

/// What the thread does next.
enum Turn {
    Now,
    At(Instant),
    Waits,
}

impl Inner {
    /// Runs until the drive is closed.
    pub fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_closed {
            if self.is_lost.load(Ordering::SeqCst) {
                state.lose_power();
            }
            if let Some(job) = state.jobs.pop_front() {
                job(&mut state);
            }
            state.waiting.expire(Instant::now());
            match self.turn(&state) {
                Turn::Now => {
                    state.ssd.advance();
                    // after a loss of power nothing is delivered
                    if !self.is_lost.load(Ordering::SeqCst) {
                        state.deliver();
                    }
                    MutexGuard::bump(&mut state);
                }
                Turn::At(at) => drop(self.changed.wait_until(&mut state, at)),
                Turn::Waits => self.changed.wait(&mut state),
            }
        }
        // nobody is left waiting
        state.lose_power();
    }

    fn turn(&self, state: &State) -> Turn {
        if !state.jobs.is_empty() {
            return Turn::Now;
        }
        let happens = state.ssd.next_ns().map(|next_ns| match self.answers.now_ns() {
            Some(now_ns) => Duration::from_nanos(next_ns.saturating_sub(now_ns)),
            None => Duration::ZERO,
        });
        let ends = state.waiting.next_deadline().map(|at| at.min(Instant::now() + LOOK));
        match (happens, ends) {
            (Some(Duration::ZERO), _) => Turn::Now,
            (Some(after), Some(ends)) => Turn::At(ends.min(Instant::now() + after)),
            (Some(after), None) => Turn::At(Instant::now() + after),
            (None, Some(ends)) => Turn::At(ends),
            (None, None) => Turn::Waits,
        }
    }
}

impl State {
    /// Delivers all events and answers.
    fn deliver(&mut self) {
        self.waiting.deliver(&mut self.ssd);
    }

    /// Stops the processors, and fails all waits.
    pub fn lose_power(&mut self) {
        self.ssd.lose_power();
        while self.ssd.host.pass_on().is_some() {}
        self.waiting.fail_all(&mut self.ssd);
    }
}
