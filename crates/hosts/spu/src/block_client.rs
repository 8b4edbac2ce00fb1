//! The host's library for Base-IO and Direct-IO: reads and writes of any length, split among the processors that own the
//! stripes.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::answer;
use crate::error::SpuError;
use crate::host::Event;
use crate::names::{EndpointId, ProgramId, SpuId};
use crate::system::Ssd;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;

/// Bytes of the header before the data of a request, and before the data that a read returns.
const HEAD_BYTES: usize = 16;
/// The maximum number of pieces in flight; fewer than an endpoint's queue holds.
const UNDER_WAY: usize = 32;

/// Why a read or write failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// The request could not be sent.
    #[error(transparent)]
    Sending(#[from] SpuError),
    /// The process has no right to a part of the range.
    #[error("no permission for bytes {start:#x} to {end:#x}")]
    NoPermission {
        /// The first byte of the piece.
        start: u64,
        /// The byte after its last.
        end: u64,
    },
    /// The program returned a different number of bytes than requested.
    #[error("bytes {start:#x} to {end:#x}: the program sent {bytes} bytes of data")]
    WrongLength {
        /// The first byte of the piece.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// The bytes it returned.
        bytes: usize,
    },
    /// The program answered a read without sending data.
    #[error("the program answered and sent no data")]
    NoData,
    /// The program or the drive refused.
    #[error("bytes {start:#x} to {end:#x}: the drive answered {status}")]
    Refused {
        /// The first byte of the piece.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// The answer, one of [`crate::answer`].
        status: i32,
    },
}

/// A blocking client of Base-IO or Direct-IO.
#[derive(Clone, Copy, Debug)]
pub struct BlockClient {
    endpoint: EndpointId,
    program: ProgramId,
}

/// A part of a transfer, within one stripe.
struct Piece {
    spu: SpuId,
    range: Range<u64>,
    tag: u32,
    is_answered: bool,
    has_data: bool,
}

impl BlockClient {
    /// A client with its own endpoint.
    pub fn new(endpoint: EndpointId, program: ProgramId) -> BlockClient {
        BlockClient { endpoint, program }
    }

    /// Reads bytes.
    pub fn read(self, ssd: &mut Ssd, address: u64, to: &mut [u8]) -> Result<(), IoError> {
        Transfer::new(self, address, Bytes::To(to)).run(ssd)
    }

    /// Writes bytes. They are durable after the next flush.
    pub fn write(self, ssd: &mut Ssd, address: u64, from: &[u8]) -> Result<(), IoError> {
        Transfer::new(self, address, Bytes::From(from)).run(ssd)
    }

    /// Makes all acknowledged writes durable.
    pub fn flush(self, ssd: &mut Ssd) -> Result<(), IoError> {
        let now_ns = ssd.now_ns();
        let request = ssd.send(self.endpoint, SpuId(0), (self.program, FLUSH), Vec::new(), now_ns)?;
        loop {
            match ssd.next_event_of(self.endpoint) {
                Some(Event::Answer { request: answered, status, .. }) if answered == request => {
                    return match status {
                        answer::OK => Ok(()),
                        status => Err(IoError::Refused { start: 0, end: 0, status }),
                    };
                }
                Some(Event::PowerLost { .. }) => return Err(SpuError::PowerLost.into()),
                None => return Err(IoError::NoData),
                Some(_) => {}
            }
        }
    }
}

/// Where bytes are read to, or written from.
enum Bytes<'a> {
    To(&'a mut [u8]),
    From(&'a [u8]),
}

/// A read or a write in progress.
struct Transfer<'a> {
    client: BlockClient,
    address: u64,
    bytes: Bytes<'a>,
    under_way: BTreeMap<u64, Piece>,
    /// Pieces that wait for the driver's decision about a permission.
    missing: Vec<Piece>,
}

impl<'a> Transfer<'a> {
    fn new(client: BlockClient, address: u64, bytes: Bytes<'a>) -> Transfer<'a> {
        Transfer { client, address, bytes, under_way: BTreeMap::new(), missing: Vec::new() }
    }

    fn run(mut self, ssd: &mut Ssd) -> Result<(), IoError> {
        let (length, is_read) = match &self.bytes {
            Bytes::To(to) => (to.len(), true),
            Bytes::From(from) => (from.len(), false),
        };
        let mut pieces = ssd.stripes().pieces(self.address..self.address.saturating_add(length as u64));
        let mut tag = 0;
        loop {
            while self.under_way.len() + self.missing.len() < UNDER_WAY
                && let Some((spu, range)) = pieces.next()
            {
                tag += 1;
                self.send(ssd, Piece { spu, range, tag, is_answered: false, has_data: !is_read })?;
            }
            if self.under_way.is_empty() && self.missing.is_empty() {
                return Ok(());
            }
            match ssd.next_event_of(self.client.endpoint) {
                Some(Event::Answer { request, status, .. }) => self.answered(ssd, request, status)?,
                Some(Event::Request { body, .. }) => self.arrived(&body)?,
                Some(Event::Permission { spu, range, granted, .. }) => {
                    self.decided(ssd, spu, range, granted)?;
                }
                Some(Event::PowerLost { .. }) => return Err(SpuError::PowerLost.into()),
                None => return Err(self.stuck()),
                Some(_) => {}
            }
        }
    }

    /// Why a transfer cannot continue when nothing is in flight: rights that were revoked in the middle of a write are not
    /// requested again.
    fn stuck(&self) -> IoError {
        match self.missing.first() {
            Some(Piece { range: Range { start, end }, .. }) => {
                IoError::NoPermission { start: *start, end: *end }
            }
            None => IoError::NoData,
        }
    }

    fn send(&mut self, ssd: &mut Ssd, piece: Piece) -> Result<(), SpuError> {
        let length = (piece.range.end - piece.range.start) as usize;
        let (handler, data) = match &self.bytes {
            Bytes::To(_) => (READ, &[][..]),
            Bytes::From(from) => (WRITE, &from[(piece.range.start - self.address) as usize..][..length]),
        };
        let mut body = Vec::with_capacity(HEAD_BYTES + data.len());
        body.extend(piece.range.start.to_le_bytes());
        body.extend((length as u32).to_le_bytes());
        body.extend(piece.tag.to_le_bytes());
        body.extend(data);
        let (client, now_ns) = (self.client, ssd.now_ns());
        let request = ssd.send(client.endpoint, piece.spu, (client.program, handler), body, now_ns)?;
        self.under_way.insert(request, piece);
        Ok(())
    }

    fn answered(&mut self, ssd: &mut Ssd, request: u64, status: i32) -> Result<(), IoError> {
        let Some(mut piece) = self.under_way.remove(&request) else { return Ok(()) };
        match status {
            answer::OK => {
                piece.is_answered = true;
                if !piece.has_data {
                    self.under_way.insert(request, piece);
                }
            }
            answer::NO_PERMISSION => self.missing.push(piece),
            answer::NOT_DELIVERED | answer::NO_ROOM => self.send(ssd, piece)?,
            status => {
                let Range { start, end } = piece.range;
                return Err(IoError::Refused { start, end, status });
            }
        }
        Ok(())
    }

    /// The data of a read has arrived, before or after the answer. Any program may send such a request, in any length.
    fn arrived(&mut self, body: &[u8]) -> Result<(), IoError> {
        let Some((head, data)) = body.split_at_checked(HEAD_BYTES) else { return Ok(()) };
        let tag = u32::from_le_bytes(head[12..].try_into().expect("four bytes"));
        let found = self.under_way.iter_mut().find(|(_, piece)| piece.tag == tag && !piece.has_data);
        if let (Some((&request, piece)), Bytes::To(to)) = (found, &mut self.bytes) {
            let Range { start, end } = piece.range;
            if data.len() as u64 != end - start {
                return Err(IoError::WrongLength { start, end, bytes: data.len() });
            }
            to[(start - self.address) as usize..][..data.len()].copy_from_slice(data);
            piece.has_data = true;
            if piece.is_answered {
                self.under_way.remove(&request);
            }
        }
        Ok(())
    }

    fn decided(
        &mut self,
        ssd: &mut Ssd,
        spu: SpuId,
        range: Range<u64>,
        granted: bool,
    ) -> Result<(), IoError> {
        let asked = self.missing.iter().position(|piece| piece.spu == spu && piece.range == range);
        let Some(at) = asked else { return Ok(()) };
        let piece = self.missing.remove(at);
        if !granted {
            return Err(IoError::NoPermission { start: range.start, end: range.end });
        }
        Ok(self.send(ssd, piece)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::ProcessId;

    #[test]
    fn data_of_another_length_is_refused_and_goes_nowhere() {
        let client = BlockClient::new(ProcessId::KERNEL.endpoint(1), ProgramId(1));
        let mut to = [7; 8];
        for bytes in [0, 7, 9, 4096] {
            let mut transfer = Transfer::new(client, 100, Bytes::To(&mut to));
            let piece = Piece { spu: SpuId(0), range: 100..108, tag: 3, is_answered: true, has_data: false };
            transfer.under_way.insert(5, piece);
            let mut body = vec![0; HEAD_BYTES + bytes];
            body[12] = 3;
            let refused = IoError::WrongLength { start: 100, end: 108, bytes };
            assert_eq!(transfer.arrived(&body), Err(refused));
            assert_eq!(transfer.arrived(&body[..15]), Ok(()), "no head");
        }
        assert_eq!(to, [7; 8]);
    }
}
