//! PDUs as a host sends and receives them.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use zerocopy::{FromBytes, IntoBytes};

use super::{Client, Pdu, TOGETHER_BYTES, broken};
use crate::wire::pdu::{Common, DIGEST_BYTES, controller_header_bytes, flag, kind};

impl Client {
    /// Sends raw bytes, after any that are held back.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.stream.write_all(bytes)
    }

    /// Sends bytes together with the next ones, or before the host waits for an answer.
    pub(super) fn send_soon(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.extend_from_slice(bytes);
        if self.output.len() < TOGETHER_BYTES { Ok(()) } else { self.flush() }
    }

    /// Sends what was held back.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.output.is_empty() {
            self.stream.write_all(&self.output)?;
            self.output.clear();
        }
        Ok(())
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        self.stream.socket()
    }

    fn fill(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            if self.input_at == self.input.len() {
                self.flush()?;
                self.input.resize(64 << 10, 0);
                let read = self.stream.read(&mut self.input)?;
                self.input.truncate(read);
                self.input_at = 0;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let taken = (bytes.len() - filled).min(self.input.len() - self.input_at);
            bytes[filled..filled + taken].copy_from_slice(&self.input[self.input_at..self.input_at + taken]);
            self.input_at += taken;
            filled += taken;
        }
        Ok(())
    }

    /// Receives a PDU, and checks it as far as possible without context.
    pub fn receive(&mut self) -> io::Result<Pdu> {
        let mut header = vec![0; size_of::<Common>()];
        self.fill(&mut header)?;
        let common = Common::read_from_bytes(&header).expect("it is as long");
        let header_bytes = controller_header_bytes(common.kind);
        let header_bytes = header_bytes.ok_or_else(|| broken(format!("a PDU of type {}", common.kind)))?;
        if usize::from(common.header_bytes) != header_bytes {
            return Err(broken(format!("a header of {} bytes", common.header_bytes)));
        }
        header.resize(header_bytes, 0);
        self.fill(&mut header[size_of::<Common>()..])?;
        let mut at = header_bytes;
        if common.flags & flag::HEADER_DIGEST != 0 {
            let mut digest = [0; DIGEST_BYTES];
            self.fill(&mut digest)?;
            if digest != tantalum_image::checksum_of(&header).to_le_bytes() {
                return Err(broken("a header that does not match its digest"));
            }
            at += DIGEST_BYTES;
        }
        let data = self.receive_data(common, at)?;
        Ok(Pdu { header, data })
    }

    fn receive_data(&mut self, common: Common, mut at: usize) -> io::Result<Vec<u8>> {
        let end = common.pdu_bytes.get() as usize;
        let digest_bytes = if common.flags & flag::DATA_DIGEST != 0 { DIGEST_BYTES } else { 0 };
        let offset = usize::from(common.data_offset);
        if common.kind == kind::C2H_DATA {
            if offset < at || !offset.is_multiple_of((usize::from(self.options.alignment) + 1) * 4) {
                return Err(broken(format!("data at byte {offset}")));
            }
            let mut padding = vec![0; offset - at];
            self.fill(&mut padding)?;
            at = offset;
        }
        let bytes = end.checked_sub(at + digest_bytes).ok_or_else(|| broken("a PDU that is too short"))?;
        let mut data = vec![0; bytes];
        self.fill(&mut data)?;
        if digest_bytes > 0 {
            let mut digest = [0; DIGEST_BYTES];
            self.fill(&mut digest)?;
            if digest != tantalum_image::checksum_of(&data).to_le_bytes() {
                return Err(broken("data that do not match their digest"));
            }
        }
        Ok(data)
    }

    /// A PDU with its digests and its data in their place.
    pub fn encode(&self, header: &[u8], data: &[u8]) -> Vec<u8> {
        let mut pdu = header.to_vec();
        let mut common = Common::read_from_prefix(header).expect("headers begin so").0;
        let mut bytes = header.len();
        if self.options.header_digest {
            common.flags |= flag::HEADER_DIGEST;
            bytes += DIGEST_BYTES;
        }
        if !data.is_empty() {
            common.data_offset = bytes as u8;
            bytes += data.len();
            if self.options.data_digest {
                common.flags |= flag::DATA_DIGEST;
                bytes += DIGEST_BYTES;
            }
        }
        common.pdu_bytes = (bytes as u32).into();
        pdu[..size_of::<Common>()].copy_from_slice(common.as_bytes());
        if self.options.header_digest {
            pdu.extend(tantalum_image::checksum_of(&pdu).to_le_bytes());
        }
        if !data.is_empty() {
            pdu.extend(data);
            if self.options.data_digest {
                pdu.extend(tantalum_image::checksum_of(data).to_le_bytes());
            }
        }
        pdu
    }
}
