//! Counts a replay's requests and their latencies.

use hdrhistogram::Histogram;
use serde::Serialize;
use tantalum::Nanoseconds;
use tantalum_report::histogram;

use crate::job::{Job, is_aligned};
use crate::trace::Operation;

/// Points of the plot over time.
pub(crate) const POINTS: u64 = 60;

/// The kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Deallocation.
    Trim,
}

impl RequestKind {
    /// All, in the order of their numbers.
    pub const ALL: [RequestKind; 4] =
        [RequestKind::Read, RequestKind::Write, RequestKind::Flush, RequestKind::Trim];

    pub(crate) fn of(operation: Operation) -> RequestKind {
        match operation {
            Operation::Read => RequestKind::Read,
            Operation::Write { .. } => RequestKind::Write,
            Operation::Flush => RequestKind::Flush,
            Operation::Trim => RequestKind::Trim,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            RequestKind::Read => "read",
            RequestKind::Write => "write",
            RequestKind::Flush => "flush",
            RequestKind::Trim => "trim",
        }
    }
}

/// Completed requests of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub requests: u64,
    pub bytes: u64,
    /// Latencies from the time of issue, in nanoseconds.
    pub latencies: Histogram<u64>,
}

/// The counts so far.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub kinds: [Done; 4],
    /// Reads and writes not aligned to units.
    pub unaligned: [u64; 2],
    /// Deallocations not aligned to units.
    pub unaligned_trims: u64,
    /// Empty requests.
    pub empty: u64,
    pub units_read_to_write: u64,
    /// Units of reads.
    pub units_read: u64,
    /// Of these, units that had never been written, or were trimmed.
    pub units_without_data: u64,
    pub units_trimmed: u64,
    pub start_ns: Nanoseconds,
    /// The last end of a request.
    pub end_ns: Nanoseconds,
    /// Intervals with equally many requests: when the last of them was issued, and their total bytes.
    pub over_time: Vec<(Nanoseconds, u64)>,
    stretch: u64,
    in_stretch: u64,
    stretch_bytes: u64,
}

impl Tally {
    /// Empty, for a trace of this many requests.
    pub(crate) fn new(requests: u64, start_ns: Nanoseconds) -> Tally {
        Tally {
            kinds: std::array::from_fn(|_| Done { requests: 0, bytes: 0, latencies: histogram() }),
            unaligned: [0; 2],
            unaligned_trims: 0,
            empty: 0,
            units_read_to_write: 0,
            units_read: 0,
            units_without_data: 0,
            units_trimmed: 0,
            start_ns,
            end_ns: start_ns,
            over_time: Vec::new(),
            stretch: requests.div_ceil(POINTS).max(1),
            in_stretch: 0,
            stretch_bytes: 0,
        }
    }

    /// A request is on its way.
    pub(crate) fn asked(&mut self, job: &Job) {
        let aligned = is_aligned(&job.pieces);
        match RequestKind::of(job.operation) {
            RequestKind::Read => self.unaligned[0] += u64::from(!aligned),
            RequestKind::Write => self.unaligned[1] += u64::from(!aligned),
            RequestKind::Trim => self.unaligned_trims += u64::from(!aligned),
            RequestKind::Flush => {}
        }
        if matches!(job.operation, Operation::Read | Operation::Write { .. }) {
            self.stretch_bytes += job.bytes;
        }
        self.in_stretch += 1;
        if self.in_stretch == self.stretch {
            self.over_time.push((job.asked_ns - self.start_ns, std::mem::take(&mut self.stretch_bytes)));
            self.in_stretch = 0;
        }
    }

    /// A request is done.
    pub(crate) fn done(
        &mut self,
        kind: RequestKind,
        bytes: u64,
        asked_ns: Nanoseconds,
        done_ns: Nanoseconds,
    ) {
        let done = &mut self.kinds[kind as usize];
        done.requests += 1;
        done.bytes += bytes;
        done.latencies.saturating_record(done_ns - asked_ns);
        self.end_ns = self.end_ns.max(done_ns);
    }

    /// Completed requests.
    pub(crate) fn requests(&self) -> u64 {
        self.kinds.iter().map(|done| done.requests).sum()
    }
}
