//! What goes to the host: PDUs are built here, and wait to be sent.

use std::io::{self, Write};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::limits::DATA_BYTES;
use crate::outbox::Outbox;
use crate::wire::command::Completion;
use crate::wire::pdu::{
    Common, DIGEST_BYTES, Data, Digests, Fatal, Initialize, ResponseCapsule, Terminate, flag, kind,
};

/// Padding to align data.
const PADDING: [u8; 128] = [0; 128];

const _: () = assert!(
    size_of::<Data>() + DIGEST_BYTES + PADDING.len() <= u8::MAX as usize,
    "a header has room for the offset of its data, however they are aligned"
);

/// The sending side of a connection.
#[derive(Debug, Default)]
pub struct Sender {
    outbox: Outbox,
    digests: Digests,
    /// The alignment in bytes of data sent to the host.
    alignment: usize,
}

impl Sender {
    /// Answers the host's first PDU. What follows has these digests, and data have this alignment in bytes.
    pub fn initialize(&mut self, digests: Digests, alignment: usize) {
        assert!(
            self.alignment == 0 && (1..=PADDING.len()).contains(&alignment),
            "data are aligned to {alignment} bytes, and before that to {}",
            self.alignment
        );
        (self.digests, self.alignment) = (digests, alignment);
        let response = Initialize::new(kind::IC_RESP, 0, digests.bits(), DATA_BYTES);
        self.outbox.push(response.as_bytes());
    }

    /// Says why the connection ends, with the header at fault.
    pub fn terminate(&mut self, fatal: Fatal, header: &[u8]) {
        let request = Terminate::new(kind::C2H_TERM_REQ, fatal, header.len());
        self.outbox.push(request.as_bytes());
        self.outbox.push(header);
    }

    /// Requests the data of a command.
    pub fn ready(&mut self, command: u16, transfer: u16, bytes: u32) {
        let ready = Data::new(kind::R2T, 0, command, transfer, 0, bytes);
        self.push_alone(ready);
    }

    /// The data of a command, which hold `held` bytes of the budget until they are sent.
    pub fn data(&mut self, command: u16, data: Vec<u8>, is_success: bool, held: usize) {
        assert!(self.alignment > 0, "data of command {command} are sent before the connection is open");
        let before = self.outbox.bytes();
        let flags = flag::LAST | if is_success { flag::SUCCESS } else { 0 };
        let mut header = Data::new(kind::C2H_DATA, flags, command, 0, 0, data.len() as u32);
        let mut header_bytes = size_of::<Data>();
        let mut pdu_bytes = data.len();
        if self.digests.of_headers() {
            header.common.flags |= flag::HEADER_DIGEST;
            header_bytes += DIGEST_BYTES;
        }
        let digest = self.digests.of_data().then(|| tantalum_image::checksum_of(&data));
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
    pub fn response(&mut self, completion: Completion) {
        self.push_alone(ResponseCapsule::new(completion));
    }

    /// A header without data, with its digest if digests are on.
    fn push_alone(&mut self, mut header: impl FromBytes + IntoBytes + Immutable + KnownLayout) {
        if self.digests.of_headers() {
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
        if self.digests.of_headers() {
            self.outbox.push(&tantalum_image::checksum_of(header).to_le_bytes());
        }
    }

    // -- what waits to be sent ----------------------------------------------------------------------------------

    /// Sends as much as the other side takes. Returns the bytes of the budget that are free again.
    pub fn send(&mut self, to: &mut impl Write) -> io::Result<usize> {
        self.outbox.send(to)
    }

    /// Bytes that wait to be sent.
    pub fn unsent_bytes(&self) -> usize {
        self.outbox.bytes()
    }

    /// Bytes of the budget that unsent data hold.
    pub fn held(&self) -> usize {
        self.outbox.held()
    }

    /// A buffer of data that no longer need it.
    pub fn emptied(&mut self) -> Option<Vec<u8>> {
        self.outbox.emptied()
    }

    /// Everything that waits to be sent, for whoever ends the connection.
    pub fn take_unsent(&mut self) -> Outbox {
        std::mem::take(&mut self.outbox)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(sender: &mut Sender) -> Vec<u8> {
        let mut sent = Vec::new();
        sender.send(&mut sent).unwrap();
        sent
    }

    #[test]
    fn data_are_where_their_header_says_however_they_are_aligned() {
        for alignment in (4..=128).step_by(4) {
            for digests in (0..4).map(Digests::new) {
                let mut sender = Sender::default();
                sender.initialize(digests, alignment);
                assert_eq!(sent(&mut sender).len(), size_of::<Initialize>());
                sender.data(7, vec![3; 512], true, 512);
                assert_eq!(sender.held(), 512);
                let pdu = sent(&mut sender);
                let header = Data::read_from_prefix(&pdu).unwrap().0;
                let offset = usize::from(header.common.data_offset);
                assert_eq!((header.common.pdu_bytes.get() as usize, offset % alignment), (pdu.len(), 0));
                assert_eq!(pdu[offset..offset + 512], [3; 512]);
                let digest = if digests.of_data() { DIGEST_BYTES } else { 0 };
                assert_eq!(pdu.len(), offset + 512 + digest, "nothing follows");
                if digest > 0 {
                    assert_eq!(pdu[offset + 512..], tantalum_image::checksum_of(&[3; 512]).to_le_bytes());
                }
            }
        }
    }
}
