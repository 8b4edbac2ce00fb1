//! One connection, as a tap sees it: PDUs of both sides, and what they mean for blocks.

use std::io::{self, Read};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use zerocopy::{FromBytes, little_endian::U32, little_endian::U64};

use super::promises::{Moment, Outcome, Promises, Sum, sum_of};
use crate::failure::Failure;
use crate::wire::command::{IN_CAPSULE, Submission};
use crate::wire::fabrics::Connect;
use crate::wire::opcode::{FABRICS, fabrics, nvm};
use crate::wire::pdu::{Common, DIGEST_BYTES, Data, ResponseCapsule, flag, kind};

/// More bytes than any PDU has.
const MOST_BYTES: usize = 1 << 20;

/// A command in progress.
#[derive(Debug)]
enum Open {
    /// Changes blocks: when it was sent, the first block and their number, and whether they must be on flash. Its data, as
    /// far as they arrived.
    Change {
        sent: Moment,
        first: u64,
        count: u64,
        is_forced: bool,
        data: Vec<u8>,
    },
    /// Ranges of blocks become zeros.
    Deallocate {
        sent: Moment,
        ranges: Vec<(u64, u64)>,
    },
    Flush {
        sent: Moment,
    },
}

/// The kind of a connection, and its commands in progress.
#[derive(Debug, Default)]
pub struct Connection {
    /// Whether it is an I/O queue.
    pub is_io: bool,
    open: FxHashMap<u16, Open>,
}

/// A range of Dataset Management.
#[derive(FromBytes, zerocopy::Immutable, zerocopy::KnownLayout, zerocopy::Unaligned)]
#[repr(C)]
struct Range {
    attributes: U32,
    blocks: U32,
    first: U64,
}

/// Reads the next PDU. Digests are ignored.
pub fn read_pdu(from: &mut impl Read, pdu: &mut Vec<u8>) -> io::Result<()> {
    pdu.resize(size_of::<Common>(), 0);
    from.read_exact(pdu)?;
    let bytes = common_of(pdu).pdu_bytes.get() as usize;
    if !(size_of::<Common>()..=MOST_BYTES).contains(&bytes) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a PDU of {bytes} bytes")));
    }
    pdu.resize(bytes, 0);
    from.read_exact(&mut pdu[size_of::<Common>()..])
}

fn common_of(pdu: &[u8]) -> Common {
    Common::read_from_prefix(pdu).expect("a PDU has a header").0
}

/// A header behind the common one, or with it.
fn header_of<T: FromBytes>(pdu: &[u8]) -> Option<T> {
    T::read_from_prefix(pdu).ok().map(|(header, _)| header)
}

/// The data of a PDU.
fn data_of(pdu: &[u8]) -> &[u8] {
    let common = common_of(pdu);
    let digest = if common.flags & flag::DATA_DIGEST != 0 { DIGEST_BYTES } else { 0 };
    match usize::from(common.data_offset) {
        0 => &[],
        offset => pdu.get(offset..pdu.len() - digest).unwrap_or_default(),
    }
}

impl Connection {
    /// The host sends a PDU; it has not reached the drive.
    pub fn sent(&mut self, pdu: &[u8], block_bytes: usize, promises: &Mutex<Promises>) {
        match common_of(pdu).kind {
            kind::CAPSULE_CMD => {
                let Some(command) = header_of::<Submission>(&pdu[size_of::<Common>()..]) else { return };
                let is_connect =
                    command.opcode == FABRICS && command.namespace.get() as u8 == fabrics::CONNECT;
                if is_connect && let Some(connect) = header_of::<Connect>(command.tail()) {
                    self.is_io = connect.queue.get() != 0;
                } else if self.is_io && command.opcode != FABRICS {
                    self.command(&command, data_of(pdu), block_bytes, &mut promises.lock());
                }
            }
            kind::H2C_DATA => {
                let Some(header) = header_of::<Data>(pdu) else { return };
                let id = header.command.get();
                if let Some(Open::Change { data, .. }) = self.open.get_mut(&id) {
                    data.extend_from_slice(data_of(pdu));
                    if header.common.flags & flag::LAST != 0 {
                        self.has_data(id, block_bytes, &mut promises.lock());
                    }
                }
            }
            _ => {}
        }
    }

    fn command(&mut self, command: &Submission, capsule: &[u8], block_bytes: usize, promises: &mut Promises) {
        let id = command.id.get();
        let (first, count) = (command.first_block(), u64::from(command.dword(12) & 0xffff) + 1);
        let is_forced = command.bit(12, 30);
        let sent = promises.now();
        match command.opcode {
            nvm::FLUSH => drop(self.open.insert(id, Open::Flush { sent })),
            nvm::WRITE => {
                let data = capsule.to_vec();
                self.open.insert(id, Open::Change { sent, first, count, is_forced, data });
                if command.data.kind == IN_CAPSULE {
                    self.has_data(id, block_bytes, promises);
                }
            }
            nvm::WRITE_ZEROES => {
                let data = Vec::new();
                promises.change(sent, first, zeros(count, block_bytes));
                self.open.insert(id, Open::Change { sent, first, count, is_forced, data });
            }
            nvm::DATASET_MANAGEMENT if command.bit(11, 2) => {
                let named = (command.dword(10) & 0xff) as usize + 1;
                let ranges =
                    <[Range]>::ref_from_bytes(capsule.get(..named * size_of::<Range>()).unwrap_or_default());
                let ranges = ranges.unwrap_or_default().iter();
                let ranges: Vec<_> =
                    ranges.map(|range| (range.first.get(), range.blocks.get().into())).collect();
                for &(first, count) in &ranges {
                    promises.change(sent, first, zeros(count, block_bytes));
                }
                self.open.insert(id, Open::Deallocate { sent, ranges });
            }
            nvm::READ | nvm::COMPARE | nvm::VERIFY | nvm::DATASET_MANAGEMENT => {}
            _ => promises.unjudged += 1,
        }
    }

    /// All data of a Write have arrived.
    fn has_data(&mut self, id: u16, block_bytes: usize, promises: &mut Promises) {
        if let Some(Open::Change { sent, first, data, .. }) = self.open.get_mut(&id) {
            promises.change(*sent, *first, std::mem::take(data).chunks_exact(block_bytes).map(sum_of));
        }
    }

    /// The drive sends a PDU; it has not reached the host.
    pub fn answered(&mut self, pdu: &[u8], promises: &Mutex<Promises>) {
        let Some(capsule) = header_of::<ResponseCapsule>(pdu) else { return };
        if capsule.common.kind != kind::CAPSULE_RESP {
            return;
        }
        let is_done = Failure::code_of(capsule.completion.status.get()) == 0;
        let outcome = |is_forced| match (is_done, is_forced) {
            (false, _) => Outcome::Failed,
            (true, true) => Outcome::Durable,
            (true, false) => Outcome::Done,
        };
        let mut promises = promises.lock();
        match self.open.remove(&capsule.completion.id.get()) {
            Some(Open::Change { sent, first, count, is_forced, .. }) => {
                promises.changed(sent, first, count, outcome(is_forced));
            }
            Some(Open::Deallocate { sent, ranges }) => {
                ranges
                    .iter()
                    .for_each(|&(first, count)| promises.changed(sent, first, count, outcome(false)));
            }
            Some(Open::Flush { sent }) if is_done => promises.flushed(sent),
            Some(Open::Flush { .. }) | None => {}
        }
    }
}

fn zeros(count: u64, block_bytes: usize) -> impl Iterator<Item = Sum> {
    let sum = sum_of(&vec![0; block_bytes]);
    (0..count).map(move |_| sum)
}
