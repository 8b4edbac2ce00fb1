//! The machine's processor time, as Linux counts it.

use std::fs;

/// The file with the counts (proc(5)).
const STAT: &str = "/proc/stat";

/// Ticks since the machine was started, of all processors together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessorTime {
    busy: u64,
    idle: u64,
}

impl ProcessorTime {
    /// The times so far; zeros if the system does not report them.
    pub fn now() -> ProcessorTime {
        fs::read_to_string(STAT).map(|text| ProcessorTime::of(&text)).unwrap_or_default()
    }

    /// From the first line: user, nice, system, idle, iowait, irq, softirq, steal, and guests that user has already.
    /// Programs at lower priority yield to others, so their time counts as idle.
    fn of(text: &str) -> ProcessorTime {
        let ticks = text.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let ticks: Vec<u64> = ticks.filter_map(|number| number.parse().ok()).collect();
        match ticks[..] {
            [user, nice, system, idle, iowait, irq, softirq, steal, ..] => {
                ProcessorTime { busy: user + system + irq + softirq + steal, idle: nice + idle + iowait }
            }
            _ => ProcessorTime::default(),
        }
    }

    /// The share of the time since then in which they were busy.
    pub fn busy_percent_since(self, earlier: ProcessorTime) -> f64 {
        let busy = self.busy.saturating_sub(earlier.busy);
        let idle = self.idle.saturating_sub(earlier.idle);
        100.0 * busy as f64 / (busy + idle).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_and_making_way_are_not_busy() {
        let before = ProcessorTime::of("cpu  10 0 10 100 50 0 0 0 0 0\ncpu0 1 2 3 4\n");
        let after = ProcessorTime::of("cpu  20 5 20 150 75 1 2 2 9 0\n");
        assert_eq!(after.busy_percent_since(before), 100.0 * 25.0 / 105.0);
        assert_eq!(ProcessorTime::default().busy_percent_since(before), 0.0);
    }
}
