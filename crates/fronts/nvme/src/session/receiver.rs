//! What comes from the host: bytes, in whatever pieces they arrive, become PDUs. Each is checked as far as it can be without
//! knowing the commands under way; an invalid one is the end of the connection.
//!
//! Invariant: when a PDU ends, as many bytes of data have come as its header says.

use zerocopy::FromBytes;

use super::spares::Spares;
use super::transfers::Transfers;
use crate::limits::{CAPSULE_BYTES, DATA_BYTES};
use crate::wire::command::Submission;
use crate::wire::pdu::{
    CommandCapsule, Common, DIGEST_BYTES, Data, Digests, FORMAT_VERSION, Fatal, Initialize, field, flag,
    host_header_bytes, kind,
};

/// If at least this many bytes of data are missing, they are read directly to where they belong; fewer go through the reader's
/// buffer.
const DIRECT_BYTES: usize = 8 << 10;

/// Bytes of the largest header, with its digest.
const HEADER_BYTES: usize = size_of::<Initialize>() + DIGEST_BYTES;

const _: () = assert!(
    size_of::<CommandCapsule>() + DIGEST_BYTES <= HEADER_BYTES
        && size_of::<Data>() + DIGEST_BYTES <= HEADER_BYTES,
    "headers of commands and data fit with their digests"
);

/// A PDU that has come as a whole.
#[derive(Debug)]
pub enum Pdu {
    /// The first one: it opens the connection with these digests, and an alignment in bytes of data for the host.
    Initialize(Digests, usize),
    /// A command, with the data that came with it.
    Command(Capsule),
    /// Data of a transfer, which are in their place.
    Data {
        /// The transfer.
        tag: u16,
        /// Where the data end.
        end: usize,
        /// Whether they do not match their digest.
        is_damaged: bool,
    },
    /// The host found an error of ours, and expects no answer.
    Terminate,
}

/// A command, with the data that came with it.
#[derive(Debug)]
pub struct Capsule {
    /// The command.
    pub command: Submission,
    /// The data.
    pub data: Vec<u8>,
    /// Whether they do not match their digest.
    pub is_damaged: bool,
}

/// The part of a PDU being read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The header and its digest; the bytes that have arrived.
    Header(usize),
    /// Padding between header and data; the bytes that are missing.
    Padding(usize),
    /// Data; the bytes that are missing.
    Data(usize),
    /// The digest of the data; the bytes of it that have arrived.
    Digest(usize),
    /// None: the PDU has come as a whole.
    Ended,
}

/// Where data go.
#[derive(Debug)]
enum Target {
    /// Into the capsule.
    Capsule(Vec<u8>),
    /// Into a transfer: which one, and the range that has come.
    Transfer { tag: u16, from: usize, at: usize },
}

/// The receiving side of a connection.
#[derive(Debug)]
pub struct Receiver {
    /// Those of the connection; `None` until the first PDU has come.
    digests: Option<Digests>,
    stage: Stage,
    header: [u8; HEADER_BYTES],
    /// The digest of the data.
    digest: [u8; DIGEST_BYTES],
    target: Target,
    /// Bytes of data of the PDU.
    data_bytes: usize,
}

impl Default for Receiver {
    fn default() -> Receiver {
        Receiver {
            digests: None,
            stage: Stage::Header(0),
            header: [0; HEADER_BYTES],
            digest: [0; DIGEST_BYTES],
            target: Target::Capsule(Vec::new()),
            data_bytes: 0,
        }
    }
}

impl Receiver {
    /// Takes some bytes, at least one. Returns their number, and the PDU that they end.
    pub fn take(
        &mut self,
        bytes: &[u8],
        transfers: &mut Transfers,
        spares: &mut Spares,
    ) -> Result<(usize, Option<Pdu>), Fatal> {
        assert!(!bytes.is_empty(), "no bytes come in {:?}", self.stage);
        match self.stage {
            Stage::Ended => self.take_header(0, bytes, transfers, spares),
            Stage::Header(read) => self.take_header(read, bytes, transfers, spares),
            Stage::Padding(missing) => {
                let taken = missing.min(bytes.len());
                let is_all = missing == taken;
                self.stage =
                    if is_all { Stage::Data(self.data_bytes) } else { Stage::Padding(missing - taken) };
                Ok((taken, None))
            }
            Stage::Data(missing) => {
                let taken = missing.min(bytes.len());
                self.store(&bytes[..taken], transfers);
                Ok((taken, self.note_data(taken)))
            }
            Stage::Digest(read) => {
                let taken = (DIGEST_BYTES - read).min(bytes.len());
                self.digest[read..read + taken].copy_from_slice(&bytes[..taken]);
                self.stage = Stage::Digest(read + taken);
                let is_all = read + taken == DIGEST_BYTES;
                Ok((taken, is_all.then(|| self.end(self.data_are_damaged(transfers)))))
            }
        }
    }

    /// A place into which the next bytes may be read directly, if much data is expected; report their number with
    /// [`Receiver::advance`].
    pub fn direct_space<'a>(&self, transfers: &'a mut Transfers) -> Option<&'a mut [u8]> {
        match (self.stage, &self.target) {
            (Stage::Data(missing), Target::Transfer { tag, at, .. }) if missing >= DIRECT_BYTES => {
                transfers.place(*tag, *at..at + missing)
            }
            _ => None,
        }
    }

    /// This many bytes have been read to [`Receiver::direct_space`]. Returns the PDU that they end.
    pub fn advance(&mut self, bytes: usize) -> Option<Pdu> {
        assert!(
            matches!(self.stage, Stage::Data(missing) if bytes <= missing),
            "{bytes} bytes were read directly in {:?}",
            self.stage
        );
        self.note_data(bytes)
    }

    /// The part of the header that was read, of this PDU or the last one.
    pub fn header(&self) -> &[u8] {
        let header_bytes = self.common().header_bytes.into();
        let read = if let Stage::Header(read) = self.stage { read } else { header_bytes };
        &self.header[..read.min(header_bytes)]
    }

    // -- the header ---------------------------------------------------------------------------------------------

    fn common(&self) -> Common {
        Common::read_from_prefix(&self.header).expect("a header is longer").0
    }

    fn take_header(
        &mut self,
        read: usize,
        bytes: &[u8],
        transfers: &Transfers,
        spares: &mut Spares,
    ) -> Result<(usize, Option<Pdu>), Fatal> {
        let common_bytes = size_of::<Common>();
        let end = if read < common_bytes { common_bytes } else { self.header_end() };
        assert!(read < end && end <= self.header.len(), "{read} of {end} bytes of a header were read");
        let taken = (end - read).min(bytes.len());
        self.header[read..read + taken].copy_from_slice(&bytes[..taken]);
        self.stage = Stage::Header(read + taken);
        let pdu = match read + taken == end {
            false => None,
            true if end == common_bytes => self.check_common()?,
            true => self.end_header(transfers, spares)?,
        };
        Ok((taken, pdu))
    }

    /// Where the header ends, with its digest.
    fn header_end(&self) -> usize {
        let common = self.common();
        usize::from(common.header_bytes) + self.header_digest_bytes(common.kind)
    }

    fn header_digest_bytes(&self, kind: u8) -> usize {
        let has_digest = self.digests.is_some_and(Digests::of_headers)
            && matches!(kind, kind::CAPSULE_CMD | kind::H2C_DATA);
        if has_digest { DIGEST_BYTES } else { 0 }
    }

    /// Whether a PDU with this header is allowed now (TCP, section 3.6.1). A termination ends with it.
    fn check_common(&mut self) -> Result<Option<Pdu>, Fatal> {
        let common = self.common();
        let header_bytes = host_header_bytes(common.kind).ok_or(Fatal::InvalidField(field::KIND))?;
        let is_first = common.kind == kind::IC_REQ;
        if is_first != self.digests.is_none() && common.kind != kind::H2C_TERM_REQ {
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
        self.data_bytes = 0;
        match common.kind {
            kind::IC_REQ if pdu_bytes != header_bytes => Err(Fatal::InvalidField(field::PDU_BYTES)),
            kind::IC_REQ => Ok(None),
            kind::H2C_TERM_REQ => Ok(Some(Pdu::Terminate)),
            _ => {
                self.data_bytes = self.check_data(common, header_end, pdu_bytes)?;
                Ok(None)
            }
        }
    }

    /// Checks digests, and the position of the data. Returns their number of bytes.
    fn check_data(&self, common: Common, header_end: usize, pdu_bytes: usize) -> Result<usize, Fatal> {
        let has_data = pdu_bytes > header_end;
        let has_data_digest = self.digests.is_some_and(Digests::of_data);
        let has_header_digest = self.digests.is_some_and(Digests::of_headers);
        let digests = (u8::from(has_header_digest) * flag::HEADER_DIGEST)
            | (u8::from(has_data_digest && has_data) * flag::DATA_DIGEST);
        let known = if common.kind == kind::H2C_DATA { flag::LAST } else { 0 };
        if common.flags & !known != digests {
            return Err(Fatal::InvalidField(field::FLAGS));
        }
        if !has_data {
            let needs_data = common.kind == kind::H2C_DATA;
            return if needs_data { Err(Fatal::InvalidField(field::PDU_BYTES)) } else { Ok(0) };
        }
        let offset = usize::from(common.data_offset);
        let digest = if has_data_digest { DIGEST_BYTES } else { 0 };
        if offset < header_end || !offset.is_multiple_of(4) {
            return Err(Fatal::InvalidField(field::DATA_OFFSET));
        }
        let data_bytes = pdu_bytes.checked_sub(offset + digest).filter(|&bytes| bytes > 0);
        let data_bytes = data_bytes.ok_or(Fatal::InvalidField(field::PDU_BYTES))?;
        let limit = if common.kind == kind::H2C_DATA { DATA_BYTES as usize } else { CAPSULE_BYTES };
        if data_bytes > limit { Err(Fatal::DataLimit) } else { Ok(data_bytes) }
    }

    /// The header has come as a whole. Returns the PDU if it has no data.
    fn end_header(&mut self, transfers: &Transfers, spares: &mut Spares) -> Result<Option<Pdu>, Fatal> {
        let common = self.common();
        let header_bytes = usize::from(common.header_bytes);
        if self.header_digest_bytes(common.kind) > 0 {
            let digest = &self.header[header_bytes..header_bytes + DIGEST_BYTES];
            if tantalum_image::checksum_of(&self.header[..header_bytes]).to_le_bytes() != digest {
                return Err(Fatal::HeaderDigest);
            }
        }
        match common.kind {
            kind::IC_REQ => return self.initialize().map(Some),
            kind::H2C_DATA => self.target = self.place_data(transfers)?,
            _ if self.data_bytes == 0 => {}
            _ => self.target = Target::Capsule(spares.take_empty(self.data_bytes)),
        }
        if self.data_bytes == 0 {
            return Ok(Some(self.end(false)));
        }
        let padding = usize::from(common.data_offset) - self.header_end();
        self.stage = if padding > 0 { Stage::Padding(padding) } else { Stage::Data(self.data_bytes) };
        Ok(None)
    }

    fn initialize(&mut self) -> Result<Pdu, Fatal> {
        let request = Initialize::read_from_prefix(&self.header).expect("a header is longer").0;
        if request.version.get() != FORMAT_VERSION {
            return Err(Fatal::Unsupported(field::VERSION));
        }
        // alignment in dwords less one, up to 128 bytes (TCP, section 3.6.2.2)
        if request.alignment > 31 {
            return Err(Fatal::InvalidField(field::ALIGNMENT));
        }
        let digests = Digests::new(request.digests);
        let before = self.digests.replace(digests);
        assert_eq!(before, None, "a connection is initialized again");
        self.stage = Stage::Ended;
        Ok(Pdu::Initialize(digests, (usize::from(request.alignment) + 1) * 4))
    }

    /// The destination of the data of an H2CData PDU: they come in order, within what was requested (TCP, section
    /// 3.6.2.8).
    fn place_data(&self, transfers: &Transfers) -> Result<Target, Fatal> {
        let data = Data::read_from_prefix(&self.header).expect("a header is longer").0;
        let tag = data.transfer.get();
        let expected = transfers.expected(tag).ok_or(Fatal::InvalidField(field::TRANSFER))?;
        if expected.command != data.command.get() {
            return Err(Fatal::InvalidField(field::COMMAND));
        }
        let (offset, bytes) = (data.offset.get() as usize, data.bytes.get() as usize);
        if bytes != self.data_bytes {
            return Err(Fatal::InvalidField(field::PDU_BYTES));
        }
        if offset != expected.received || bytes > expected.bytes - expected.received {
            return Err(Fatal::DataOutOfRange);
        }
        let is_last = data.common.flags & flag::LAST != 0;
        if is_last != (offset + bytes == expected.bytes) {
            return Err(Fatal::InvalidField(field::FLAGS));
        }
        Ok(Target::Transfer { tag, from: offset, at: offset })
    }

    // -- the data -----------------------------------------------------------------------------------------------

    fn store(&mut self, bytes: &[u8], transfers: &mut Transfers) {
        match &mut self.target {
            Target::Capsule(data) => data.extend_from_slice(bytes),
            Target::Transfer { tag, at, .. } => {
                if let Some(place) = transfers.place(*tag, *at..*at + bytes.len()) {
                    place.copy_from_slice(bytes);
                }
            }
        }
    }

    /// This many bytes of data are in their place. Returns the PDU if they end it.
    fn note_data(&mut self, bytes: usize) -> Option<Pdu> {
        let Stage::Data(missing) = &mut self.stage else { return None };
        *missing -= bytes;
        let is_all = *missing == 0;
        if let Target::Transfer { at, .. } = &mut self.target {
            *at += bytes;
        }
        if is_all && self.digests.is_some_and(Digests::of_data) {
            self.stage = Stage::Digest(0);
            return None;
        }
        is_all.then(|| self.end(false))
    }

    fn data_are_damaged(&self, transfers: &Transfers) -> bool {
        let data = match &self.target {
            Target::Capsule(data) => Some(&data[..]),
            Target::Transfer { tag, from, at } => transfers.peek(*tag, *from..*at),
        };
        data.is_none_or(|data| tantalum_image::checksum_of(data) != u32::from_le_bytes(self.digest))
    }

    /// The PDU has come as a whole.
    fn end(&mut self, is_damaged: bool) -> Pdu {
        let target = std::mem::replace(&mut self.target, Target::Capsule(Vec::new()));
        let bytes = match &target {
            Target::Capsule(data) => data.len(),
            Target::Transfer { from, at, .. } => at - from,
        };
        let announced = self.data_bytes;
        assert_eq!(bytes, announced, "a PDU ends with other bytes of data than its header says");
        self.stage = Stage::Ended;
        match target {
            Target::Capsule(data) => {
                let command = &self.header[size_of::<Common>()..];
                let command = Submission::read_from_prefix(command).expect("a header is longer").0;
                Pdu::Command(Capsule { command, data, is_damaged })
            }
            Target::Transfer { tag, at, .. } => Pdu::Data { tag, end: at, is_damaged },
        }
    }
}
