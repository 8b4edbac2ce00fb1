//! Packets on the ring between the processors, and on the link to the host.
//!
//! Invariants: the ring and each direction of the link carry one packet at a time, in order of their time. A request arrives whole
//! or not at all.

use tantalum::Nanoseconds;

use crate::agenda::What;
use crate::answer;
use crate::host::Event;
use crate::message::{ANSWER_BYTES, AnswerTo, Message};
use crate::names::{EndpointId, SpuId};
use crate::packet::{Load, Packet};
use crate::permission::Rights;
use crate::system::Ssd;

impl Ssd {
    /// Sends a packet from a processor, or from the host, to a processor, or to the host.
    pub(crate) fn dispatch_packet(
        &mut self,
        from: Option<SpuId>,
        to: Option<SpuId>,
        bytes: u64,
        load: Load,
        at_ns: Nanoseconds,
    ) {
        let packet = Packet { from, to, bytes, load };
        match from {
            None => self.arrange(at_ns, What::Down(packet)),
            Some(_) => self.arrange(at_ns, What::Ring(packet)),
        }
    }

    /// A request that stays on its processor.
    pub(crate) fn arrange_local(&mut self, spu: SpuId, message: Message, at_ns: Nanoseconds) {
        let load = Load::Request(message);
        self.arrange(at_ns, What::Arrives(Packet { from: Some(spu), to: Some(spu), bytes: 0, load }));
    }

    /// A packet that leaves a processor gives back its room there.
    pub(crate) fn carry_on_ring(&mut self, packet: Packet) {
        if let Load::Request(message) | Load::ToEndpoint(_, message) = &packet.load
            && let Some(from) = packet.from
        {
            self.spus[from.0 as usize].outgoing_bytes -= message.body.len();
        }
        let done_ns = self.wires.ring.carry(self.now_ns, packet.bytes);
        match packet.to {
            Some(_) => self.arrange(done_ns, What::Arrives(packet)),
            None => self.arrange(done_ns, What::Up(packet)),
        }
    }

    pub(crate) fn arrive(&mut self, packet: Packet) {
        let at_ns = self.now_ns;
        match (packet.load, packet.to) {
            (Load::Request(message), Some(spu)) => self.admit(spu, message),
            (Load::ToEndpoint(endpoint, message), _) => {
                self.admit_at_endpoint(endpoint, message, packet.from)
            }
            (Load::Answer(AnswerTo::Host { endpoint, request }, status), _) => {
                self.host.tell(Event::Answer { endpoint, request, status, at_ns });
            }
            (Load::Answer(AnswerTo::Ticket { thread, ticket }, status), _) => {
                self.ticket_answered(thread, ticket, status);
            }
            (Load::Miss(miss), _) => self.hear_of_miss(miss),
            (Load::Permission { process, range, rights, answers }, Some(spu)) => {
                self.revoking -= usize::from(rights == Rights::NONE);
                // it may have ended while the permission was on its way
                if self.host.is_alive(process) {
                    self.spus[spu.0 as usize].permissions.install(process, range, rights);
                }
                if let Some(miss) = answers {
                    let told = Load::Tell(miss.told(true, at_ns));
                    self.dispatch_packet(Some(spu), None, ANSWER_BYTES, told, at_ns);
                }
            }
            (Load::Tell(event), _) => self.host.tell(event.at(at_ns)),
            (Load::Request(_) | Load::Answer(..) | Load::Permission { .. } | Load::Bulk, _) => {}
        }
    }

    /// A request of a program arrives at an endpoint, which answers by having it.
    fn admit_at_endpoint(&mut self, endpoint: EndpointId, message: Message, from: Option<SpuId>) {
        let (Some(spu), Some(program)) = (from, message.caller) else { return };
        let (handler, body, at_ns) = (message.handler, message.body, self.now_ns);
        let event = Event::Request { endpoint, spu, program, handler, body, at_ns };
        let status = if self.host.deliver(endpoint, event) { answer::OK } else { answer::NOT_DELIVERED };
        let packet = Packet {
            from: None,
            to: Some(spu),
            bytes: ANSWER_BYTES,
            load: Load::Answer(message.answer_to, status),
        };
        self.arrange(at_ns, What::Down(packet));
    }

    /// Sends an answer from a processor.
    pub(crate) fn send_answer(&mut self, spu: SpuId, to: AnswerTo, status: i32, at_ns: Nanoseconds) {
        match to {
            AnswerTo::Call(thread) => {
                self.arrange(at_ns, What::CallAnswered { thread, status, bytes: Vec::new() });
            }
            AnswerTo::Host { .. } => {
                self.dispatch_packet(Some(spu), None, ANSWER_BYTES, Load::Answer(to, status), at_ns);
            }
            AnswerTo::Ticket { thread, .. } if thread.spu == spu => {
                let load = Load::Answer(to, status);
                let packet = Packet { from: Some(spu), to: Some(spu), bytes: ANSWER_BYTES, load };
                self.arrange(at_ns, What::Arrives(packet));
            }
            AnswerTo::Ticket { thread, .. } => {
                let load = Load::Answer(to, status);
                self.dispatch_packet(Some(spu), Some(thread.spu), ANSWER_BYTES, load, at_ns);
            }
        }
    }
}
