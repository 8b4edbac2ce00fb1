//! Latencies for people and for programs.

use hdrhistogram::Histogram;
use serde::Serialize;

/// The figures of a latency distribution, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct LatencyUs {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl LatencyUs {
    /// The figures of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> LatencyUs {
        let at = |quantile| microseconds(histogram.value_at_quantile(quantile) as f64);
        LatencyUs {
            mean: microseconds(histogram.mean()),
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            max: microseconds(histogram.max() as f64),
        }
    }
}

/// The columns of the papers' tables of latencies, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatencyMs([f64; 6]);

impl LatencyMs {
    /// The titles of the columns.
    pub const COLUMNS: [&str; 6] = ["mean", "P25", "P50", "P75", "P99", "max"];

    /// The figures of a histogram of nanoseconds; all 0 if it is empty.
    pub fn of(histogram: &Histogram<u64>) -> LatencyMs {
        let at = |quantile| histogram.value_at_quantile(quantile) as f64;
        let figures = [histogram.mean(), at(0.25), at(0.50), at(0.75), at(0.99), histogram.max() as f64];
        LatencyMs(figures.map(|nanoseconds| nanoseconds / 1e6))
    }

    /// The figures, in the order of [`LatencyMs::COLUMNS`].
    pub fn columns(self) -> [f64; 6] {
        self.0
    }
}

/// Microseconds with three decimals: a histogram is no more precise.
fn microseconds(nanoseconds: f64) -> f64 {
    nanoseconds.round() / 1000.0
}

/// The longest latency recorded: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// A histogram of nanoseconds, accurate to 0.1 %.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(LONGEST_NS, 3).expect("three digits are possible")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_microseconds() {
        let mut histogram = histogram();
        for microsecond in 1..=100 {
            histogram.saturating_record(microsecond * 1000);
        }
        let latency = LatencyUs::of(&histogram);
        assert!((latency.p50 - 50.0).abs() < 0.1, "{latency:?}");
        assert!((latency.p99 - 99.0).abs() < 0.2, "{latency:?}");
        assert!((latency.mean - 50.5).abs() < 0.1, "{latency:?}");
    }
}
