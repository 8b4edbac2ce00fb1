//! Building PDUs.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Phase, Queue, Session};
use crate::failure::Failure;
use crate::wire::command::Completion;
use crate::wire::pdu::{Common, DIGEST_BYTES, Data, Fatal, ResponseCapsule, Terminate, flag, kind};

/// Padding to align data.
const PADDING: [u8; 128] = [0; 128];

const _: () = assert!(
    size_of::<Data>() + DIGEST_BYTES + PADDING.len() <= u8::MAX as usize,
    "a header has room for the offset of its data, however they are aligned"
);

impl Session {
    /// Ends the connection, with the reason and the header at fault.
    pub(super) fn terminate(&mut self, fatal: Fatal) {
        let header = self.receiver.header().to_vec();
        let request = Terminate::new(kind::C2H_TERM_REQ, fatal, header.len());
        self.outbox.push(request.as_bytes());
        self.outbox.push(&header);
        self.phase = Phase::Goodbye;
    }

    /// Requests the data of a command.
    pub(super) fn send_ready(&mut self, command: u16, transfer: u16, bytes: u32) {
        let ready = Data::new(kind::R2T, 0, command, transfer, 0, bytes);
        self.send_header(ready);
    }

    /// A header without data, with its digest if digests are on.
    fn send_header(&mut self, mut header: impl FromBytes + IntoBytes + Immutable + KnownLayout) {
        if self.has_header_digest {
            let (common, _) = Common::mut_from_prefix(header.as_mut_bytes()).expect("headers begin so");
            common.flags |= flag::HEADER_DIGEST;
            common.pdu_bytes = (common.pdu_bytes.get() + DIGEST_BYTES as u32).into();
        }
        let before = self.outbox.bytes();
        self.push_header(header.as_bytes());
        let (common, _) = Common::read_from_prefix(header.as_bytes()).expect("headers begin so");
        debug_assert_eq!(
            self.outbox.bytes() - before,
            common.pdu_bytes.get() as usize,
            "a header of kind {} is sent with another length than it says",
            common.kind
        );
    }

    fn push_header(&mut self, header: &[u8]) {
        self.outbox.push(header);
        if self.has_header_digest {
            self.outbox.push(&tantalum_image::checksum_of(header).to_le_bytes());
        }
    }

    /// The data of a command, which hold `held` bytes of the budget until they are sent.
    pub(super) fn send_data(&mut self, command: u16, data: Vec<u8>, is_success: bool, held: usize) {
        let before = self.outbox.bytes();
        let flags = flag::LAST | if is_success { flag::SUCCESS } else { 0 };
        let mut header = Data::new(kind::C2H_DATA, flags, command, 0, 0, data.len() as u32);
        let mut header_bytes = size_of::<Data>();
        let mut pdu_bytes = data.len();
        if self.has_header_digest {
            header.common.flags |= flag::HEADER_DIGEST;
            header_bytes += DIGEST_BYTES;
        }
        let digest = self.has_data_digest.then(|| tantalum_image::checksum_of(&data));
        if digest.is_some() {
            header.common.flags |= flag::DATA_DIGEST;
            pdu_bytes += DIGEST_BYTES;
        }
        let offset = header_bytes.next_multiple_of(self.alignment);
        pdu_bytes += offset;
        header.common.data_offset = offset as u8;
        header.common.pdu_bytes = (pdu_bytes as u32).into();
        self.push_header(header.as_bytes());
        self.outbox.push(&PADDING[..offset - header_bytes]);
        self.outbox.push_data(data, held);
        if let Some(digest) = digest {
            self.outbox.push(&digest.to_le_bytes());
        }
        let pushed = self.outbox.bytes() - before;
        assert_eq!(
            pushed, pdu_bytes,
            "the data of command {command} are sent with another length than announced"
        );
    }

    /// The completion of a command.
    pub(super) fn send_response(&mut self, id: u16, result: u64, failure: Option<Failure>) {
        let queue_head = match &self.queue {
            Some(queue) if queue.has_flow_control => {
                let Queue { head, entries, id: queue, .. } = *queue;
                assert!(head < entries, "queue {queue} was read up to {head} of {entries} entries");
                head
            }
            Some(_) => 0xffff,
            None => 0,
        };
        let status = failure.map_or(0, Failure::field);
        let completion = Completion {
            result: result.into(),
            queue_head: queue_head.into(),
            queue: 0.into(),
            id: id.into(),
            status: status.into(),
        };
        self.send_header(ResponseCapsule::new(completion));
    }
}
