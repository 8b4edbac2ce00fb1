//! Packets between processors and host, over the ring and the link.

use std::ops::Range;

use tantalum::Nanoseconds;

use crate::host::Event;
use crate::message::{AnswerTo, Message};
use crate::names::{EndpointId, ProcessId, SpuId};
use crate::permission::Rights;

/// A packet on its way; `None` stands for the host.
pub(crate) struct Packet {
    pub from: Option<SpuId>,
    pub to: Option<SpuId>,
    pub bytes: u64,
    pub load: Load,
}

pub(crate) enum Load {
    Request(Message),
    /// A request of a program to an endpoint.
    ToEndpoint(EndpointId, Message),
    Answer(AnswerTo, i32),
    Miss(Miss),
    Permission {
        process: ProcessId,
        range: Range<u64>,
        rights: Rights,
        answers: Option<Miss>,
    },
    /// An event for the host.
    Tell(Event),
    /// Data that nobody waits for, such as a module.
    Bulk,
}

/// A permission that a processor requested.
#[derive(Clone)]
pub(crate) struct Miss {
    pub endpoint: EndpointId,
    pub spu: SpuId,
    pub range: Range<u64>,
    pub rights: Rights,
}

impl Miss {
    /// The event of the driver's decision.
    pub fn told(&self, granted: bool, at_ns: Nanoseconds) -> Event {
        let (endpoint, spu, range) = (self.endpoint, self.spu, self.range.clone());
        Event::Permission { endpoint, spu, range, granted, at_ns }
    }
}
