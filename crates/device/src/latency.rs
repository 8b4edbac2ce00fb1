//! How long commands took, in device time.

use hdrhistogram::Histogram;
use tantalum_nand::Nanoseconds;

use crate::command::Command;

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
    /// What changes the map in one step: share, remap, trim, atomic writes, commits.
    Map,
}

impl Kind {
    /// The kind of a command.
    pub fn of(command: &Command<'_>) -> Kind {
        match command {
            Command::Read { .. } | Command::ReadWithMetadata { .. } | Command::TxRead { .. } => Kind::Read,
            Command::Write { .. }
            | Command::WriteWithMetadata { .. }
            | Command::WriteHinted { .. }
            | Command::TxWrite { .. } => Kind::Write,
            Command::KvPut { .. } | Command::KvDelete { .. } => Kind::Put,
            Command::KvGet { .. } | Command::KvExists { .. } | Command::KvList { .. } => Kind::Get,
            Command::Flush => Kind::Flush,
            _ => Kind::Map,
        }
    }
}

/// One histogram for each kind, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latencies([Histogram<u64>; 6]);

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies(std::array::from_fn(|_| Histogram::new(2).expect("two digits are in bounds")))
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
