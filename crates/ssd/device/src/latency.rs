//! Latencies of commands, in device time.

use hdrhistogram::Histogram;
use tantalum_nand::Nanoseconds;

/// Commands that are measured together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes into the cache or through it.
    Write,
    /// Puts and deletes of records.
    Put,
    /// Reads of records.
    Get,
    /// Flushes.
    Flush,
    /// Commands that change the map in one step: share, remap, trim, atomic writes, commits.
    Map,
}

/// The longest latency that is distinguished: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// One histogram for each kind, in nanoseconds, accurate to 1 %.
#[derive(Clone, Debug)]
pub struct Latencies([Histogram<u64>; 6]);

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let histogram = || Histogram::new_with_max(LONGEST_NS, 2).expect("two digits are in bounds");
        Latencies(std::array::from_fn(|_| histogram()))
    }

    #[inline]
    pub(crate) fn record(&mut self, kind: Kind, latency_ns: Nanoseconds) {
        self.0[kind as usize].saturating_record(latency_ns);
    }

    /// The histogram of a kind.
    pub fn of(&self, kind: Kind) -> &Histogram<u64> {
        &self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use tantalum_ftl::Lpn;
    use tantalum_nand::UNIT_BYTES;

    use super::*;
    use crate::command::Command;
    use crate::controller::Device;
    use crate::profile::Profile;

    /// All latencies were clamped to 2 ns: a growable histogram does not grow when it saturates.
    #[test]
    fn latencies_are_those_of_the_commands() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("openssd-barefoot").unwrap() };
        let mut device = Device::in_memory(&profile).unwrap();
        let mut now_ns = device.time_ns();
        let mut data = [7; UNIT_BYTES];
        let mut took = |command: Command<'_>| {
            let done_ns = device.submit(command, now_ns).unwrap().done_ns;
            done_ns - std::mem::replace(&mut now_ns, done_ns)
        };
        let write_ns = took(Command::Write { lpn: Lpn(3), data: &data, fua: false, handle: None });
        let flush_ns = took(Command::Flush);
        let read_ns = took(Command::Read { lpn: Lpn(3), data: &mut data });
        assert!(flush_ns > profile.flash.program_ns && read_ns > profile.flash.read_ns);
        for (kind, ns) in [(Kind::Write, write_ns), (Kind::Flush, flush_ns), (Kind::Read, read_ns)] {
            let histogram = device.latencies().of(kind);
            let recorded_ns = histogram.max();
            assert_eq!(histogram.len(), 1);
            assert!(recorded_ns.abs_diff(ns) <= ns / 100, "{kind:?}: {recorded_ns} ns instead of {ns}");
        }
    }
}
