//! What happens when a packet arrives at a processor or at the host.

use crate::agenda::What;
use crate::answer;
use crate::host::Event;
use crate::message::{ANSWER_BYTES, AnswerTo, Message};
use crate::names::{EndpointId, SpuId};
use crate::packet::{Load, Packet};
use crate::permission::Rights;
use crate::system::Ssd;

impl Ssd {
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
                let arrived = usize::from(rights == Rights::NONE);
                self.revoking = self.revoking.checked_sub(arrived).expect("a revocation was under way");
                // the process may have ended while the permission was on its way
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

    /// A request of a program arrives at an endpoint. Its delivery is the answer.
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
}
