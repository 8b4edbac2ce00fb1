//! A client's clock: virtual time, or this machine's.
//!
//! The drive never asks for the time: a client says when it issues a command, and learns when the command is done. In
//! virtual time the client continues from there at once. In real time it issues commands at the machine's time and
//! holds each completion back until it is due, so that a program sees the drive's latencies.

use std::time::{Duration, Instant};

use tantalum::Nanoseconds;

/// A client's clock, in device time. It never goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// It stands where the client's last wait ended.
    Virtual {
        /// The time.
        now_ns: Nanoseconds,
    },
    /// It runs with the machine's clock.
    Real {
        /// When it was set,
        set: Instant,
        /// and to what.
        set_ns: Nanoseconds,
    },
}

impl Clock {
    /// A clock of virtual time that stands at `now_ns`, such as [`tantalum::Device::time_ns`].
    pub fn virtual_from(now_ns: Nanoseconds) -> Clock {
        Clock::Virtual { now_ns }
    }

    /// A clock that shows `now_ns` and runs from now on.
    pub fn real_from(now_ns: Nanoseconds) -> Clock {
        Clock::Real { set: Instant::now(), set_ns: now_ns }
    }

    /// The time at which a command may be issued now.
    pub fn now_ns(&self) -> Nanoseconds {
        match self {
            Clock::Virtual { now_ns } => *now_ns,
            Clock::Real { set, set_ns } => set_ns.saturating_add(set.elapsed().as_nanos() as u64),
        }
    }

    /// Waits until `ns`, unless that has passed: virtual time moves there; in real time the thread sleeps.
    pub fn wait_until(&mut self, ns: Nanoseconds) {
        match self {
            Clock::Virtual { now_ns } => *now_ns = ns.max(*now_ns),
            Clock::Real { .. } => {
                while let Some(left_ns) = ns.checked_sub(self.now_ns()).filter(|left_ns| *left_ns > 0) {
                    std::thread::sleep(Duration::from_nanos(left_ns));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_goes_where_a_wait_ends_and_never_back() {
        let mut clock = Clock::virtual_from(5);
        clock.wait_until(9);
        clock.wait_until(7);
        assert_eq!(clock.now_ns(), 9);
    }

    #[test]
    fn a_wait_in_real_time_takes_as_long_as_it_says() {
        let (mut clock, start) = (Clock::real_from(1_000), Instant::now());
        clock.wait_until(20_000_000);
        assert!(clock.now_ns() >= 20_000_000);
        assert!(start.elapsed() >= Duration::from_nanos(19_990_000));
        let now_ns = clock.now_ns();
        clock.wait_until(5);
        assert!(clock.now_ns() >= now_ns);
    }
}
