//! The host's library for Base-IO and Direct-IO: reads and writes of any length, piece by piece at the processors that own
//! them.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::answer;
use crate::host::Event;
use crate::names::{EndpointId, ProgramId, SpuId};
use crate::system::{SpuError, Ssd};

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 2;

/// Bytes before the data of a request, and of what comes back.
const HEAD_BYTES: usize = 16;
/// Pieces under way at once: fewer than an endpoint's queue holds.
const UNDER_WAY: usize = 32;

/// Why a block client could not read or write.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IoError {
    /// It could not be sent.
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
    /// A program answered, and sent no data.
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

/// A client of Base-IO or Direct-IO, which waits for what it asks for.
#[derive(Clone, Copy, Debug)]
pub struct BlockClient {
    endpoint: EndpointId,
    program: ProgramId,
}

/// A piece that is under way.
struct Piece {
    spu: SpuId,
    range: Range<u64>,
    tag: u32,
    is_answered: bool,
    has_data: bool,
}

impl BlockClient {
    /// A client with an endpoint of its own.
    pub fn new(endpoint: EndpointId, program: ProgramId) -> BlockClient {
        BlockClient { endpoint, program }
    }

    /// Reads bytes.
    pub fn read(self, ssd: &mut Ssd, address: u64, to: &mut [u8]) -> Result<(), IoError> {
        let end = address.saturating_add(to.len() as u64);
        self.run(
            ssd,
            READ,
            address..end,
            |_| &[],
            |range, bytes| {
                let at = (range.start - address) as usize;
                to[at..at + bytes.len()].copy_from_slice(bytes);
            },
        )
    }

    /// Writes bytes. They are durable when a flush says so.
    pub fn write(self, ssd: &mut Ssd, address: u64, from: &[u8]) -> Result<(), IoError> {
        let end = address.saturating_add(from.len() as u64);
        let data = |range: &Range<u64>| {
            let at = (range.start - address) as usize;
            &from[at..at + (range.end - range.start) as usize]
        };
        self.run(ssd, WRITE, address..end, data, |_, _| {})
    }

    /// Makes durable what was acknowledged.
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

    fn send(self, ssd: &mut Ssd, handler: u32, piece: &Piece, data: &[u8]) -> Result<u64, SpuError> {
        let mut body = Vec::with_capacity(HEAD_BYTES + data.len());
        body.extend(piece.range.start.to_le_bytes());
        body.extend(((piece.range.end - piece.range.start) as u32).to_le_bytes());
        body.extend(piece.tag.to_le_bytes());
        body.extend(data);
        let now_ns = ssd.now_ns();
        ssd.send(self.endpoint, piece.spu, (self.program, handler), body, now_ns)
    }

    fn run<'a>(
        self,
        ssd: &mut Ssd,
        handler: u32,
        range: Range<u64>,
        data: impl Fn(&Range<u64>) -> &'a [u8],
        mut take: impl FnMut(&Range<u64>, &[u8]),
    ) -> Result<(), IoError> {
        let mut pieces = ssd.stripes().pieces(range);
        let mut under_way: BTreeMap<u64, Piece> = BTreeMap::new();
        // pieces whose permission the driver is being asked for
        let mut missing: Vec<Piece> = Vec::new();
        let mut tag = 0;
        loop {
            while under_way.len() + missing.len() < UNDER_WAY
                && let Some((spu, range)) = pieces.next()
            {
                tag += 1;
                let piece = Piece { spu, range, tag, is_answered: false, has_data: handler != READ };
                let request = self.send(ssd, handler, &piece, data(&piece.range))?;
                under_way.insert(request, piece);
            }
            if under_way.is_empty() && missing.is_empty() {
                return Ok(());
            }
            match ssd.next_event_of(self.endpoint) {
                Some(Event::Answer { request, status, .. }) => {
                    let Some(mut piece) = under_way.remove(&request) else { continue };
                    let (start, end) = (piece.range.start, piece.range.end);
                    match status {
                        answer::OK => {
                            piece.is_answered = true;
                            if !piece.has_data {
                                under_way.insert(request, piece);
                            }
                        }
                        answer::NO_PERMISSION => missing.push(piece),
                        answer::NOT_DELIVERED | answer::NO_ROOM => {
                            let again = self.send(ssd, handler, &piece, data(&piece.range))?;
                            under_way.insert(again, piece);
                        }
                        status => return Err(IoError::Refused { start, end, status }),
                    }
                }
                Some(Event::Request { body, .. }) if body.len() >= HEAD_BYTES => {
                    let tag = u32::from_le_bytes(body[12..16].try_into().expect("four bytes"));
                    let found = under_way.iter_mut().find(|(_, piece)| piece.tag == tag && !piece.has_data);
                    if let Some((&request, piece)) = found {
                        take(&piece.range, &body[HEAD_BYTES..]);
                        piece.has_data = true;
                        if piece.is_answered {
                            under_way.remove(&request);
                        }
                    }
                }
                Some(Event::Permission { spu, range, granted, .. }) => {
                    let Some(at) = missing.iter().position(|piece| piece.spu == spu && piece.range == range)
                    else {
                        continue;
                    };
                    let piece = missing.remove(at);
                    if !granted {
                        return Err(IoError::NoPermission { start: range.start, end: range.end });
                    }
                    let request = self.send(ssd, handler, &piece, data(&piece.range))?;
                    under_way.insert(request, piece);
                }
                Some(Event::PowerLost { .. }) => return Err(SpuError::PowerLost.into()),
                None => return Err(IoError::NoData),
                Some(_) => {}
            }
        }
    }
}
