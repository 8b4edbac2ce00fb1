//! Detects when garbage collection is steady: the write amplification of successive windows stays the same.
//!
//! A drive filled once and then overwritten at random first uses up its over-provisioning, then overshoots, because all
//! its blocks are equally old, and settles after a few times its capacity. Measuring earlier would give figures that
//! are too good or too bad.

use tantalum::Counters;

/// Windows in which the capacity is overwritten once.
pub const WINDOWS_PER_CAPACITY: u64 = 8;

/// Successive windows that have to agree. They span one overwriting of the capacity, so that a slow drift becomes
/// visible.
const AGREEING_WINDOWS: usize = WINDOWS_PER_CAPACITY as usize;

/// How far apart the halves of these windows may be, relative to their mean.
const TOLERANCE: f64 = 0.03;

/// The maximum number of windows: five times the capacity.
pub const MOST_WINDOWS: u64 = 5 * WINDOWS_PER_CAPACITY;

/// Watches the write amplification of windows.
#[derive(Debug)]
pub struct SteadyState {
    last: Counters,
    windows: Vec<f64>,
}

impl SteadyState {
    /// Starts watching at these counters.
    pub fn new(counters: Counters) -> SteadyState {
        SteadyState { last: counters, windows: Vec::new() }
    }

    /// Ends a window at these counters. Returns its write amplification.
    pub fn end_window(&mut self, counters: Counters) -> f64 {
        let counted = counters.since(&self.last);
        let amplification = counted.flash_units.total() as f64 / counted.host_units_written.max(1) as f64;
        self.windows.push(amplification);
        self.last = counters;
        amplification
    }

    /// Whether the last windows agree: their older and newer half have the same mean.
    pub fn is_steady(&self) -> bool {
        // The first overwriting of the capacity uses up the over-provisioning, so it gives no information.
        if self.windows.len() < 2 * AGREEING_WINDOWS {
            return false;
        }
        let (older, newer) =
            self.windows[self.windows.len() - AGREEING_WINDOWS..].split_at(AGREEING_WINDOWS / 2);
        (mean(newer) / mean(older) - 1.0).abs() <= TOLERANCE
    }

    /// The mean of the last windows.
    pub fn write_amplification(&self) -> f64 {
        mean(&self.windows[self.windows.len().saturating_sub(AGREEING_WINDOWS)..])
    }

    /// Windows so far.
    pub fn windows(&self) -> u64 {
        self.windows.len() as u64
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(amplifications: impl IntoIterator<Item = f64>) -> SteadyState {
        let mut counters = Counters::default();
        let mut state = SteadyState::new(counters);
        for amplification in amplifications {
            counters.host_units_written += 1000;
            counters.flash_units.host += 1000;
            counters.flash_units.copyback += (1000.0 * (amplification - 1.0)) as u64;
            state.end_window(counters);
        }
        state
    }

    #[test]
    fn constant_amplification_is_steady_after_the_first_overwriting() {
        assert!(!after(vec![3.0; 15]).is_steady());
        assert!(after(vec![3.0; 16]).is_steady());
        assert_eq!(after(vec![3.0; 16]).write_amplification(), 3.0);
    }

    #[test]
    fn growing_amplification_is_not_steady() {
        assert!(!after((0..16).map(|window| 1.0 + 0.1 * f64::from(window))).is_steady());
    }

    #[test]
    fn noise_around_a_level_is_steady() {
        assert!(after((0..16).map(|window| 3.0 + 0.1 * f64::from(window % 2))).is_steady());
    }
}
