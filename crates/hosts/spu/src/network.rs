//! Packets on the ring between the processors, and on the link to the host.
//!
//! Invariants: the ring and each direction of the link carry one packet at a time, in order of time. A request arrives completely
//! or not at all.

use tantalum::Nanoseconds;

use crate::agenda::What;
use crate::message::{ANSWER_BYTES, AnswerTo, Message};
use crate::names::SpuId;
use crate::packet::{Load, Packet};
use crate::system::Ssd;

impl Ssd {
    /// Sends a packet between processors and the host; `None` stands for the host.
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

    /// Sends a request that stays on its processor.
    pub(crate) fn arrange_local(&mut self, spu: SpuId, message: Message, at_ns: Nanoseconds) {
        let load = Load::Request(message);
        self.arrange(at_ns, What::Arrives(Packet { from: Some(spu), to: Some(spu), bytes: 0, load }));
    }

    /// Carries a packet over the ring. A request that leaves its processor frees its room there.
    pub(crate) fn carry_on_ring(&mut self, packet: Packet) {
        if let Load::Request(message) | Load::ToEndpoint(_, message) = &packet.load
            && let Some(from) = packet.from
        {
            let outgoing = &mut self.spus[from.0 as usize].outgoing_bytes;
            *outgoing = outgoing.checked_sub(message.body.len()).expect("what leaves had taken room");
        }
        let done_ns = self.wires.ring.carry(self.now_ns, packet.bytes);
        match packet.to {
            Some(_) => self.arrange(done_ns, What::Arrives(packet)),
            None => self.arrange(done_ns, What::Up(packet)),
        }
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

    /// Answers a request; a call between programs gets `bytes` too.
    pub(crate) fn answer(
        &mut self,
        spu: SpuId,
        to: AnswerTo,
        status: i32,
        bytes: Vec<u8>,
        at_ns: Nanoseconds,
    ) {
        match to {
            AnswerTo::Call(thread) => self.arrange(at_ns, What::CallAnswered { thread, status, bytes }),
            to => self.send_answer(spu, to, status, at_ns),
        }
    }
}
