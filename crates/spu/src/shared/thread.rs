//! The thread in which everything in a shared drive's processors happens.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tantalum_drive::{Answers, Drive};

use super::waiting::Waiting;
use crate::system::Ssd;

/// While somebody waits, a loss of power is looked for at least this often.
const LOOK: Duration = Duration::from_millis(100);

type Job = Box<dyn FnOnce(&mut State) + Send>;

/// What the thread shares with those who use the drive.
pub(super) struct Inner {
    pub state: Mutex<State>,
    pub changed: Condvar,
    pub drive: Drive,
    pub answers: Answers,
    /// Set when the drive loses power, by whoever has it then.
    pub is_lost: AtomicBool,
}

pub(super) struct State {
    pub ssd: Ssd,
    pub waiting: Waiting,
    /// What the thread is to do first.
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
    /// The thread.
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
                    // a loss of power is noticed first
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
    /// Tells everybody what there is to tell.
    fn deliver(&mut self) {
        self.waiting.deliver(&mut self.ssd);
    }

    /// The processors stop, and who waits is told.
    pub fn lose_power(&mut self) {
        self.ssd.lose_power();
        while self.ssd.host.pass_on().is_some() {}
        self.waiting.fail_all(&mut self.ssd);
    }
}
