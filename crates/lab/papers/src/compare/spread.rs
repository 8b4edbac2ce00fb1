//! How much the figures of a run vary within it, and so how far they can be trusted.
//!
//! The transactions are divided into parts of equal length. The figures of the parts vary, because checkpoints and garbage
//! collection come in bursts. From that follows how far the figure of a longer run may be from this one's.

use serde::Serialize;
use tantalum::Nanoseconds;

/// A figure counts if a longer run's would probably differ by less than this.
const WANTED: f64 = 0.1;

/// Parts are merged two by two once there are as many.
const MOST_PARTS: usize = 32;

/// With fewer parts nothing can be said.
const LEAST_PARTS: usize = 16;

/// Half of the width of an interval with 95 % of a normal distribution, in standard deviations; a little more, because
/// there are few parts.
const DEVIATIONS: f64 = 2.1;

/// The clock and the flash units programmed so far.
pub(super) type Sample = (Nanoseconds, u64);

/// Collects samples after equal numbers of transactions.
#[derive(Debug)]
pub(super) struct Parts {
    samples: Vec<Sample>,
    /// Transactions in a part.
    length: u64,
    /// Transactions since the last sample.
    since: u64,
}

impl Parts {
    pub fn new(first: Sample) -> Parts {
        Parts { samples: vec![first], length: 1, since: 0 }
    }

    /// Some transactions were done.
    pub fn advance(&mut self, transactions: u64, sample: impl FnOnce() -> Sample) {
        self.since += transactions;
        if self.since < self.length {
            return;
        }
        // a step may be longer than a part was so far
        self.length = self.length.max(self.since);
        self.since = 0;
        self.samples.push(sample());
        if self.samples.len() > MOST_PARTS {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            self.length *= 2;
        }
    }

    /// How far figures may be from those of a longer run, which ended with this sample.
    pub fn uncertainty(&self, end: Sample) -> Uncertainty {
        let of = |figure: fn(&Sample) -> u64| {
            let differences: Vec<f64> =
                self.samples.windows(2).map(|pair| (figure(&pair[1]) - figure(&pair[0])) as f64).collect();
            if differences.len() + 1 < LEAST_PARTS {
                return None;
            }
            let parts = differences.len() as f64;
            let mean = differences.iter().sum::<f64>() / parts;
            let variance =
                differences.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (parts - 1.0);
            let chance = if mean > 0.0 { DEVIATIONS * (variance / parts).sqrt() / mean } else { 0.0 };
            // what a mode left for the end: how much of it belongs to these transactions is not known
            let whole = (figure(&end) - figure(&self.samples[0])) as f64;
            let last = self.samples.last().expect("there are some");
            let left = (figure(&end) - figure(last)) as f64 - mean * self.since as f64 / self.length as f64;
            let left = if whole > 0.0 { left.max(0.0) / whole } else { 0.0 };
            Some(chance + left)
        };
        Uncertainty { time: of(|sample| sample.0), flash: of(|sample| sample.1) }
    }
}

/// How far figures may be from those of a longer run, as fractions; none if the run was too short to say.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Uncertainty {
    /// Of the time of a transaction.
    pub time: Option<f64>,
    /// Of the flash units of a transaction.
    pub flash: Option<f64>,
}

impl Uncertainty {
    /// Whether the figures can be compared with another run's.
    pub fn is_small(&self) -> bool {
        self.worst().is_some_and(|worst| worst <= WANTED)
    }

    fn worst(&self) -> Option<f64> {
        Some(self.time?.max(self.flash?))
    }

    /// Transactions that would probably do, if these were too few.
    pub fn transactions_needed(&self, transactions: u64) -> u64 {
        let times = self.worst().map_or(10.0, |worst| (worst / WANTED).powi(2).clamp(2.0, 1000.0));
        let enough = (transactions as f64 * times).max(1000.0);
        // two digits
        let digit = 10f64.powf(enough.log10().floor() - 1.0);
        ((enough / digit).ceil() * digit) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(transactions: u64, cost: impl Fn(u64) -> u64, end: u64) -> Uncertainty {
        let mut parts = Parts::new((0, 0));
        let mut now = 0;
        for number in 0..transactions {
            now += cost(number);
            parts.advance(1, || (now, 3 * now));
        }
        parts.uncertainty((now + end, 3 * (now + end)))
    }

    #[test]
    fn a_run_of_equal_transactions_is_certain_and_one_with_bursts_is_not() {
        let equal = run(1000, |_| 5, 0);
        assert!(equal.time.unwrap() < 0.01 && equal.flash == equal.time, "{equal:?}");
        let bursts = |transactions| run(transactions, |number| if number % 97 == 96 { 500 } else { 5 }, 0);
        let (short, long) = (bursts(300), bursts(300_000));
        assert!(!short.is_small() && long.is_small(), "{short:?}, {long:?}");
        assert!(
            short.transactions_needed(300) > 600 && short.transactions_needed(300) < 300_000,
            "{}",
            short.transactions_needed(300)
        );
    }

    #[test]
    fn a_run_that_is_too_short_or_leaves_much_for_the_end_is_not_certain() {
        assert_eq!(run(5, |_| 5, 0), Uncertainty { time: None, flash: None });
        assert_eq!(run(5, |_| 5, 0).transactions_needed(5), 1000);
        let left = run(1000, |_| 5, 5000);
        assert!((left.time.unwrap() - 0.5).abs() < 0.02 && !left.is_small(), "{left:?}");
    }
}
