//! Parsing PDUs, in whatever pieces their bytes arrive.

use zerocopy::FromBytes;

use super::receiver::{Stage, Target};
use super::{Phase, Session};
use crate::limits::{CAPSULE_BYTES, DATA_BYTES};
use crate::wire::pdu::{
    Common, DIGEST_BYTES, Data, Digests, FORMAT_VERSION, Fatal, Initialize, field, flag, host_header_bytes,
    kind,
};

/// If at least this many bytes of data are missing, they are read directly to where they belong; fewer go through the reader's
/// buffer.
const DIRECT_BYTES: usize = 8 << 10;

/// Further commands wait while at least this many bytes are unsent: the host can begin on them, and the processor's cache
/// still has them.
const MUCH_BYTES: usize = 1 << 20;

impl Session {
    /// Takes bytes from the host, until there is too much to send. Returns the number of bytes taken.
    pub fn feed(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        let much = self.sender.unsent_bytes() + MUCH_BYTES;
        while taken < bytes.len() && self.sender.unsent_bytes() < much {
            if self.is_ending() {
                return bytes.len();
            }
            match self.take(&bytes[taken..]) {
                Ok(more) => {
                    assert!(
                        more > 0,
                        "no byte was taken of {} in {:?}",
                        bytes.len() - taken,
                        self.receiver.stage
                    );
                    taken += more;
                }
                Err(fatal) => self.terminate(fatal),
            }
        }
        self.issue();
        self.assert_invariants();
        taken
    }

    /// A place into which the next bytes from the host may be read directly, if much data is expected; report their number
    /// with [`Session::advance`].
    pub fn direct_space(&mut self) -> Option<&mut [u8]> {
        let Stage::Data(missing) = self.receiver.stage else { return None };
        if missing < DIRECT_BYTES {
            return None;
        }
        let Target::Transfer { tag, at, .. } = self.receiver.target else { return None };
        Some(&mut self.transfers.data(tag)?[at..at + missing])
    }

    /// This many bytes have been read to [`Session::direct_space`].
    pub fn advance(&mut self, bytes: usize) {
        assert!(
            matches!(self.receiver.stage, Stage::Data(missing) if bytes <= missing),
            "{bytes} bytes were read directly in {:?}",
            self.receiver.stage
        );
        self.note_data(bytes);
        if self.receiver.stage == Stage::Data(0)
            && let Err(fatal) = self.end_data()
        {
            self.terminate(fatal);
        }
        self.issue();
        self.assert_invariants();
    }

    /// Ends the connection, with the reason and the header at fault.
    fn terminate(&mut self, fatal: Fatal) {
        self.sender.terminate(fatal, self.receiver.header());
        self.phase = Phase::Goodbye;
    }

    /// Takes some bytes, at least one.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, Fatal> {
        match self.receiver.stage {
            Stage::Header => self.take_header(bytes),
            Stage::Padding(missing) => {
                let taken = missing.min(bytes.len());
                self.receiver.stage = Stage::Padding(missing - taken);
                if missing == taken {
                    self.receiver.stage = Stage::Data(self.receiver.data_bytes);
                }
                Ok(taken)
            }
            Stage::Data(missing) => {
                let taken = missing.min(bytes.len());
                self.store(&bytes[..taken]);
                if missing == taken {
                    self.end_data()?;
                }
                Ok(taken)
            }
            Stage::Digest(read) => {
                let taken = (DIGEST_BYTES - read).min(bytes.len());
                self.receiver.digest[read..read + taken].copy_from_slice(&bytes[..taken]);
                self.receiver.stage = Stage::Digest(read + taken);
                if read + taken == DIGEST_BYTES {
                    self.end_pdu(self.data_is_damaged())?;
                }
                Ok(taken)
            }
        }
    }

    fn store(&mut self, bytes: &[u8]) {
        match &mut self.receiver.target {
            Target::Capsule(data) => data.extend_from_slice(bytes),
            Target::Transfer { tag, at, .. } => {
                if let Some(data) = self.transfers.data(*tag) {
                    data[*at..*at + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        self.note_data(bytes.len());
    }

    fn note_data(&mut self, bytes: usize) {
        if let Stage::Data(missing) = &mut self.receiver.stage {
            *missing -= bytes;
        }
        if let Target::Transfer { at, .. } = &mut self.receiver.target {
            *at += bytes;
        }
    }

    fn data_is_damaged(&self) -> bool {
        let data = match &self.receiver.target {
            Target::Capsule(data) => &data[..],
            Target::Transfer { tag, from, at } => match self.transfers.peek(*tag) {
                Some(data) => &data[*from..*at],
                None => return true,
            },
        };
        tantalum_image::checksum_of(data) != u32::from_le_bytes(self.receiver.digest)
    }

    // -- the header ---------------------------------------------------------------------------------------------

    fn take_header(&mut self, bytes: &[u8]) -> Result<usize, Fatal> {
        let read = self.receiver.header_read;
        let common_bytes = size_of::<Common>();
        let end = if read < common_bytes { common_bytes } else { self.header_end() };
        assert!(
            read < end && end <= self.receiver.header.len(),
            "{read} of {end} bytes of a header were read"
        );
        let taken = (end - read).min(bytes.len());
        self.receiver.header[read..read + taken].copy_from_slice(&bytes[..taken]);
        self.receiver.header_read += taken;
        if self.receiver.header_read == end {
            if end == common_bytes {
                self.check_common()?;
            } else {
                self.end_header()?;
            }
        }
        Ok(taken)
    }

    /// Where the header ends, with its digest.
    fn header_end(&self) -> usize {
        let common = self.receiver.common();
        usize::from(common.header_bytes) + self.header_digest_bytes(common.kind)
    }

    fn header_digest_bytes(&self, kind: u8) -> usize {
        let has_digest = self.digests.of_headers() && matches!(kind, kind::CAPSULE_CMD | kind::H2C_DATA);
        if has_digest { DIGEST_BYTES } else { 0 }
    }

    /// Whether a PDU with this header is allowed now (TCP, section 3.6.1).
    fn check_common(&mut self) -> Result<(), Fatal> {
        let common = self.receiver.common();
        let header_bytes = host_header_bytes(common.kind).ok_or(Fatal::InvalidField(field::KIND))?;
        let is_first = common.kind == kind::IC_REQ;
        if is_first != (self.phase == Phase::New) && common.kind != kind::H2C_TERM_REQ {
            return Err(Fatal::Sequence);
        }
        if usize::from(common.header_bytes) != header_bytes {
            return Err(Fatal::InvalidField(field::HEADER_BYTES));
        }
        let pdu_bytes = common.pdu_bytes.get() as usize;
        let header_end = self.header_end();
        if pdu_bytes < header_end {
            return Err(Fatal::InvalidField(field::PDU_BYTES));
        }
        match common.kind {
            kind::IC_REQ if pdu_bytes != header_bytes => Err(Fatal::InvalidField(field::PDU_BYTES)),
            kind::IC_REQ => Ok(()),
            kind::H2C_TERM_REQ => {
                // the host found an error of ours, and expects no answer
                self.phase = Phase::Ending;
                Ok(())
            }
            _ => self.check_data(common, header_end, pdu_bytes),
        }
    }

    /// Digests, and the position of the data.
    fn check_data(&mut self, common: Common, header_end: usize, pdu_bytes: usize) -> Result<(), Fatal> {
        let has_data = pdu_bytes > header_end;
        let digests = (u8::from(self.digests.of_headers()) * flag::HEADER_DIGEST)
            | (u8::from(self.digests.of_data() && has_data) * flag::DATA_DIGEST);
        let known = if common.kind == kind::H2C_DATA { flag::LAST } else { 0 };
        if common.flags & !known != digests {
            return Err(Fatal::InvalidField(field::FLAGS));
        }
        self.receiver.data_bytes = 0;
        if !has_data {
            let needs_data = common.kind == kind::H2C_DATA;
            return if needs_data { Err(Fatal::InvalidField(field::PDU_BYTES)) } else { Ok(()) };
        }
        let offset = usize::from(common.data_offset);
        let digest = if self.digests.of_data() { DIGEST_BYTES } else { 0 };
        if offset < header_end || !offset.is_multiple_of(4) {
            return Err(Fatal::InvalidField(field::DATA_OFFSET));
        }
        let data_bytes = pdu_bytes.checked_sub(offset + digest).filter(|&bytes| bytes > 0);
        let data_bytes = data_bytes.ok_or(Fatal::InvalidField(field::PDU_BYTES))?;
        let limit = if common.kind == kind::H2C_DATA { DATA_BYTES as usize } else { CAPSULE_BYTES };
        if data_bytes > limit {
            return Err(Fatal::DataLimit);
        }
        self.receiver.data_bytes = data_bytes;
        Ok(())
    }

    fn end_header(&mut self) -> Result<(), Fatal> {
        let common = self.receiver.common();
        let header_bytes = usize::from(common.header_bytes);
        if self.header_digest_bytes(common.kind) > 0 {
            let digest = &self.receiver.header[header_bytes..header_bytes + DIGEST_BYTES];
            if tantalum_image::checksum_of(&self.receiver.header[..header_bytes]).to_le_bytes() != digest {
                return Err(Fatal::HeaderDigest);
            }
        }
        match common.kind {
            kind::IC_REQ => return self.initialize(),
            kind::H2C_DATA => self.receiver.target = self.place_data()?,
            _ if self.receiver.data_bytes == 0 => {}
            _ => {
                let buffer = self.spares.take_empty(self.receiver.data_bytes);
                self.receiver.target = Target::Capsule(buffer);
            }
        }
        if self.receiver.data_bytes == 0 {
            return self.end_pdu(false);
        }
        let padding = usize::from(common.data_offset) - self.header_end();
        self.receiver.stage =
            if padding > 0 { Stage::Padding(padding) } else { Stage::Data(self.receiver.data_bytes) };
        Ok(())
    }

    fn initialize(&mut self) -> Result<(), Fatal> {
        let request = Initialize::read_from_prefix(&self.receiver.header).expect("a header is longer").0;
        if request.version.get() != FORMAT_VERSION {
            return Err(Fatal::Unsupported(field::VERSION));
        }
        // alignment in dwords less one, up to 128 bytes (TCP, section 3.6.2.2)
        if request.alignment > 31 {
            return Err(Fatal::InvalidField(field::ALIGNMENT));
        }
        assert!(
            self.phase == Phase::New && self.queue.is_none(),
            "a connection is initialized again in phase {:?}",
            self.phase
        );
        self.digests = Digests::new(request.digests);
        self.sender.initialize(self.digests, (usize::from(request.alignment) + 1) * 4);
        self.phase = Phase::Open;
        self.next_pdu();
        Ok(())
    }

    /// The destination of the data of an H2CData PDU: they come in order, within what was requested (TCP, section
    /// 3.6.2.8).
    fn place_data(&mut self) -> Result<Target, Fatal> {
        let data = Data::read_from_prefix(&self.receiver.header).expect("a header is longer").0;
        let tag = data.transfer.get();
        let transfer = self.transfers.get(tag).ok_or(Fatal::InvalidField(field::TRANSFER))?;
        if transfer.command != data.command.get() {
            return Err(Fatal::InvalidField(field::COMMAND));
        }
        let (offset, bytes) = (data.offset.get() as usize, data.bytes.get() as usize);
        if bytes != self.receiver.data_bytes {
            return Err(Fatal::InvalidField(field::PDU_BYTES));
        }
        if offset != transfer.received || bytes > transfer.data.len() - transfer.received {
            return Err(Fatal::DataOutOfRange);
        }
        let is_last = data.common.flags & flag::LAST != 0;
        if is_last != (offset + bytes == transfer.data.len()) {
            return Err(Fatal::InvalidField(field::FLAGS));
        }
        Ok(Target::Transfer { tag, from: offset, at: offset })
    }

    // -- the end of data and of a PDU ---------------------------------------------------------------------------

    fn end_data(&mut self) -> Result<(), Fatal> {
        debug_assert_eq!(self.receiver.stage, Stage::Data(0), "the data of a PDU end before they have come");
        if self.digests.of_data() {
            self.receiver.stage = Stage::Digest(0);
            return Ok(());
        }
        self.end_pdu(false)
    }

    fn end_pdu(&mut self, is_damaged: bool) -> Result<(), Fatal> {
        let target = std::mem::replace(&mut self.receiver.target, Target::Capsule(Vec::new()));
        let command = self.receiver.capsule();
        let bytes = match &target {
            Target::Capsule(data) => data.len(),
            Target::Transfer { from, at, .. } => at - from,
        };
        let announced = self.receiver.data_bytes;
        assert_eq!(bytes, announced, "a PDU ends with other bytes of data than its header says");
        let ended = match target {
            Target::Capsule(data) => self.command(command, data, is_damaged),
            Target::Transfer { tag, at, .. } => {
                self.received(tag, at, is_damaged);
                Ok(())
            }
        };
        if ended.is_ok() {
            self.next_pdu();
        }
        ended
    }

    fn next_pdu(&mut self) {
        self.receiver.stage = Stage::Header;
        self.receiver.header_read = 0;
    }
}
