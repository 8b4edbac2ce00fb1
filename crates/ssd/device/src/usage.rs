//! How busy the drive's parts were, and what commands waited for. Two readings show the bottleneck.

use serde::{Deserialize, Serialize};
use tantalum_nand::{Busy, Nanoseconds};

use crate::latency::Kind;

/// Firmware and link.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PathUsage {
    pub firmware_ns: Nanoseconds,
    pub firmware_waited_ns: Nanoseconds,
    pub link_ns: Nanoseconds,
    pub link_waited_ns: Nanoseconds,
}

/// Sums since power came on, in nanoseconds. Divided by the time between two readings, busy time is the mean number of
/// busy planes, channels or cores, and commands' time is the mean number of commands in flight (Little's law).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Usage {
    /// Planes: reads for hosts and for firmware.
    pub plane_reads_ns: Nanoseconds,
    /// Planes: programs for hosts, and of the journal.
    pub plane_programs_ns: Nanoseconds,
    /// Planes: garbage collection and checkpoints.
    pub plane_background_ns: Nanoseconds,
    /// Planes: erases.
    pub plane_erases_ns: Nanoseconds,
    /// Channels.
    pub channels_ns: Nanoseconds,
    /// Firmware's work for commands.
    pub firmware_ns: Nanoseconds,
    /// The link.
    pub link_ns: Nanoseconds,
    /// Hosts' reads, from issue to completion.
    pub reads_ns: Nanoseconds,
    /// Hosts' writes.
    pub writes_ns: Nanoseconds,
    /// Hosts' flushes.
    pub flushes_ns: Nanoseconds,
    /// All other commands of hosts.
    pub others_ns: Nanoseconds,
    /// Part of the commands' time: until firmware was free.
    pub firmware_waited_ns: Nanoseconds,
    /// Part of it: until the link was free, for each transfer.
    pub link_waited_ns: Nanoseconds,
}

impl Usage {
    pub(crate) fn of(planes: Busy, path: PathUsage, waited: &Waited) -> Usage {
        Usage {
            plane_reads_ns: planes.reads_ns,
            plane_programs_ns: planes.programs_ns,
            plane_background_ns: planes.background_ns,
            plane_erases_ns: planes.erases_ns,
            channels_ns: planes.transfers_ns,
            firmware_ns: path.firmware_ns,
            link_ns: path.link_ns,
            reads_ns: waited.reads_ns,
            writes_ns: waited.writes_ns,
            flushes_ns: waited.flushes_ns,
            others_ns: waited.others_ns,
            firmware_waited_ns: path.firmware_waited_ns,
            link_waited_ns: path.link_waited_ns,
        }
    }

    /// What was added since an earlier reading.
    pub fn since(&self, before: &Usage) -> Usage {
        Usage {
            plane_reads_ns: self.plane_reads_ns - before.plane_reads_ns,
            plane_programs_ns: self.plane_programs_ns - before.plane_programs_ns,
            plane_background_ns: self.plane_background_ns - before.plane_background_ns,
            plane_erases_ns: self.plane_erases_ns - before.plane_erases_ns,
            channels_ns: self.channels_ns - before.channels_ns,
            firmware_ns: self.firmware_ns - before.firmware_ns,
            link_ns: self.link_ns - before.link_ns,
            reads_ns: self.reads_ns - before.reads_ns,
            writes_ns: self.writes_ns - before.writes_ns,
            flushes_ns: self.flushes_ns - before.flushes_ns,
            others_ns: self.others_ns - before.others_ns,
            firmware_waited_ns: self.firmware_waited_ns - before.firmware_waited_ns,
            link_waited_ns: self.link_waited_ns - before.link_waited_ns,
        }
    }
}

/// What hosts' commands have taken, by kind.
#[derive(Clone, Copy, Default, Debug)]
pub struct Waited {
    reads_ns: Nanoseconds,
    writes_ns: Nanoseconds,
    flushes_ns: Nanoseconds,
    others_ns: Nanoseconds,
}

impl Waited {
    #[inline]
    pub fn add(&mut self, kind: Kind, latency_ns: Nanoseconds) {
        let sum_ns = match kind {
            Kind::Read | Kind::Get => &mut self.reads_ns,
            Kind::Write | Kind::Put => &mut self.writes_ns,
            Kind::Flush => &mut self.flushes_ns,
            Kind::Map => &mut self.others_ns,
        };
        *sum_ns += latency_ns;
    }
}
