//! The numbers of processes, endpoints, processors and programs, as programs see them.
//!
//! One space of 32 bits holds every destination of a request: endpoints of the host's kernel have a zero in the highest
//! bit, endpoints of other processes a one (thesis, section 5.1.6), and processors follow [`SPU_BASE`].

use std::fmt;

/// The number of the first processor as a destination.
const SPU_BASE: u32 = 0x4000_0000;
const USER: u32 = 0x8000_0000;
/// Bits of an endpoint's number that distinguish the endpoints of a process.
const QUEUE_BITS: u32 = 10;

/// A process of the host, to which permissions are granted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProcessId(u32);

impl ProcessId {
    /// The host's kernel.
    pub const KERNEL: ProcessId = ProcessId(0);

    /// The maximum number of processes besides the kernel.
    pub(crate) const MOST_USERS: usize = (USER >> QUEUE_BITS) as usize - 1;

    pub(crate) fn user(number: u32) -> ProcessId {
        ProcessId(USER >> QUEUE_BITS | number)
    }

    /// The next number of a process other than the kernel; the last is followed by the first.
    pub(crate) fn next_user(self) -> ProcessId {
        let number = self.0 & !(USER >> QUEUE_BITS);
        ProcessId::user(if number as usize >= ProcessId::MOST_USERS { 1 } else { number + 1 })
    }

    /// The process of this number, if it is a valid number.
    pub fn from_number(number: u32) -> Option<ProcessId> {
        (number == 0 || number >> (u32::BITS - QUEUE_BITS - 1) == 1).then_some(ProcessId(number))
    }

    pub(crate) fn endpoint(self, queue: u32) -> EndpointId {
        EndpointId(self.0 << QUEUE_BITS | queue)
    }

    /// Whether it is the host's kernel.
    pub fn is_kernel(self) -> bool {
        self == ProcessId::KERNEL
    }

    /// Its number: the high bits of its endpoints' numbers.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A Host RPC Endpoint: a queue pair that belongs to one process.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EndpointId(u32);

impl EndpointId {
    /// The endpoint of this number, for a host's library that keeps numbers. Requests from an endpoint that is not open are
    /// refused.
    pub fn from_number(number: u32) -> EndpointId {
        EndpointId(number)
    }

    /// The process that it belongs to.
    pub fn process(self) -> ProcessId {
        ProcessId(self.0 >> QUEUE_BITS)
    }

    /// The endpoint's number in requests.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A storage processor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpuId(pub u32);

/// An installed program. Numbers start at 1 and are never reused while the drive has power.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProgramId(pub u32);

/// Where a request may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Party {
    Endpoint(EndpointId),
    Spu(SpuId),
}

impl Party {
    pub fn from_number(number: u32, processors: u32) -> Option<Party> {
        match number {
            _ if number >= USER => Some(Party::Endpoint(EndpointId(number))),
            _ if number >= SPU_BASE => {
                let spu = number - SPU_BASE;
                (spu < processors).then_some(Party::Spu(SpuId(spu)))
            }
            _ => Some(Party::Endpoint(EndpointId(number))),
        }
    }

    pub fn number(self) -> u32 {
        match self {
            Party::Endpoint(endpoint) => endpoint.0,
            Party::Spu(spu) => SPU_BASE + spu.0,
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_kernel() {
            true => f.write_str("the kernel"),
            false => write!(f, "process {}", self.0 & !(USER >> QUEUE_BITS)),
        }
    }
}

impl fmt::Display for SpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for ProgramId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bit_tells_the_kernel_s_endpoints_from_all_others() {
        let kernel = ProcessId::KERNEL.endpoint(5);
        let user = ProcessId::user(7).endpoint(1023);
        assert_eq!((kernel.number() >> 31, user.number() >> 31), (0, 1));
        assert_eq!(user.process(), ProcessId::user(7));
        assert_eq!(kernel.process(), ProcessId::KERNEL);
    }

    #[test]
    fn numbers_of_processes_stay_within_their_bits() {
        let last = ProcessId::user(ProcessId::MOST_USERS as u32);
        assert_eq!(last.endpoint(1023).number(), u32::MAX);
        assert_eq!(last.next_user(), ProcessId::user(1));
        assert_eq!(ProcessId::KERNEL.next_user(), ProcessId::user(1));
        assert_eq!(ProcessId::from_number(last.number()), Some(last));
        assert_eq!(ProcessId::from_number(0), Some(ProcessId::KERNEL));
        assert_eq!(ProcessId::from_number(5), None);
        assert_eq!(ProcessId::from_number(u32::MAX), None);
    }

    #[test]
    fn destinations_are_told_apart_by_their_numbers() {
        for party in [
            Party::Spu(SpuId(7)),
            Party::Endpoint(ProcessId::KERNEL.endpoint(0)),
            Party::Endpoint(ProcessId::user(3).endpoint(4)),
        ] {
            assert_eq!(Party::from_number(party.number(), 8), Some(party));
        }
        assert_eq!(Party::from_number(Party::Spu(SpuId(8)).number(), 8), None);
    }
}
