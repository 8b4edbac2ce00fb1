//! One connection, as a tap sees it: PDUs of both sides, and which commands they are.

use std::io::{self, Read};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use zerocopy::FromBytes;

use super::changes::{change_of, unit};
use super::promises::{Outcome, Promises};
use super::spot::{ABSENT, Moment, Spot, sum_of};
use crate::blocks::BlockSpace;
use crate::failure::Failure;
use crate::io::key_value::KeyValueCommand;
use crate::io::vendor::VendorCommand;
use crate::io::{IoCommand, Transfer};
use crate::namespaces::{ALL_NAMESPACES, BLOCK_NAMESPACE, namespace_of};
use crate::programs::is_program;
use crate::wire::command::{Completion, IN_CAPSULE, Submission};
use crate::wire::fabrics::Connect;
use crate::wire::opcode::{FABRICS, fabrics};
use crate::wire::pdu::{Common, DIGEST_BYTES, Data, ResponseCapsule, flag, kind};

/// More bytes than any PDU has.
const MOST_BYTES: usize = 1 << 20;

/// A command in progress.
#[derive(Debug)]
struct Open {
    sent: Moment,
    command: IoCommand,
    /// Bytes that come from the host, and those that have come.
    needs: usize,
    data: Vec<u8>,
    /// Bytes that have come from the drive.
    answer: Vec<u8>,
}

/// How a command ended: its status and its result.
#[derive(Clone, Copy)]
struct Ended {
    code: u16,
    result: u64,
}

/// What a tap knows about the subsystem, and whether it judges what is read while the drive has power.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// The namespace of blocks. It has more blocks than any drive, because a tap does not know their number.
    pub space: BlockSpace,
    pub judges_reads: bool,
}

/// The kind of a connection, and its commands in progress.
#[derive(Debug, Default)]
pub struct Connection {
    /// Whether it is an I/O queue.
    pub is_io: bool,
    /// Whether the drive has closed it.
    is_closed: bool,
    open: FxHashMap<u16, Open>,
}

/// Reads the next PDU, without checking its digests. If that fails, `pdu` has the bytes of it that came.
pub fn read_pdu(from: &mut impl Read, pdu: &mut Vec<u8>) -> io::Result<()> {
    pdu.clear();
    fill(from, pdu, size_of::<Common>())?;
    let bytes = common_of(pdu).pdu_bytes.get() as usize;
    if !(size_of::<Common>()..=MOST_BYTES).contains(&bytes) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a PDU of {bytes} bytes")));
    }
    fill(from, pdu, bytes)
}

/// Reads until `pdu` has this many bytes.
fn fill(from: &mut impl Read, pdu: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
    let missing = bytes - pdu.len();
    match from.by_ref().take(missing as u64).read_to_end(pdu)? {
        read if read == missing => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
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

/// What a command requests; `None` if the server refuses it for its fields.
fn decode(command: &Submission, space: &BlockSpace) -> Option<IoCommand> {
    match command.namespace.get() {
        BLOCK_NAMESPACE => IoCommand::decode_blocks(command, space).ok(),
        ALL_NAMESPACES if command.opcode != crate::wire::opcode::nvm::FLUSH => None,
        _ if command.opcode == crate::wire::opcode::nvm::FLUSH => Some(IoCommand::Flush),
        number => {
            let command = KeyValueCommand::decode(command, namespace_of(number)?).ok()?;
            Some(IoCommand::KeyValue(command))
        }
    }
}

fn outcome_of(code: u16) -> Outcome {
    match code {
        0 => Outcome::Done,
        code if code == Failure::POWER_LOSS.code() || code == Failure::INTERNAL.code() => Outcome::Lost,
        _ => Outcome::Refused,
    }
}

impl Connection {
    /// The host sends a PDU; it has not reached the drive.
    pub fn sent(&mut self, pdu: &[u8], rules: &Rules, promises: &Mutex<Promises>) {
        if self.is_closed {
            // nobody takes it
            return;
        }
        match common_of(pdu).kind {
            kind::CAPSULE_CMD => {
                let Some(command) = header_of::<Submission>(&pdu[size_of::<Common>()..]) else { return };
                let is_connect =
                    command.opcode == FABRICS && command.namespace.get() as u8 == fabrics::CONNECT;
                if is_connect && let Some(connect) = header_of::<Connect>(command.tail()) {
                    self.is_io = connect.queue.get() != 0;
                } else if self.is_io && command.opcode != FABRICS {
                    self.command(&command, data_of(pdu), rules, &mut promises.lock());
                }
            }
            kind::H2C_DATA => {
                let Some(header) = header_of::<Data>(pdu) else { return };
                let id = header.command.get();
                if let Some(open) = self.open.get_mut(&id) {
                    open.data.extend_from_slice(data_of(pdu));
                    self.has_data(id, rules, &mut promises.lock());
                }
            }
            _ => {}
        }
    }

    fn command(&mut self, entry: &Submission, capsule: &[u8], rules: &Rules, promises: &mut Promises) {
        if is_program(entry) {
            promises.cannot_judge();
            return;
        }
        let Some(command) = decode(entry, &rules.space) else { return };
        let needs = match command.transfer(&rules.space) {
            Transfer::FromHost(bytes) => bytes as usize,
            Transfer::None | Transfer::ToHost(_) => 0,
        };
        let data = if entry.data.kind == IN_CAPSULE { capsule.to_vec() } else { Vec::new() };
        let (sent, id) = (promises.send(), entry.id.get());
        let again = self.open.insert(id, Open { sent, command, needs, data, answer: Vec::new() });
        if let Some(again) = again {
            // two commands with one identifier: one of them is refused, and nobody knows which
            promises.end(again.sent, Outcome::Lost);
        }
        self.has_data(id, rules, promises);
    }

    /// Notes what a command changes, if all its data have been sent: before that it cannot take place.
    fn has_data(&mut self, id: u16, rules: &Rules, promises: &mut Promises) {
        let Some(open) = self.open.get_mut(&id).filter(|open| open.data.len() >= open.needs) else { return };
        let mut data = std::mem::take(&mut open.data);
        data.truncate(open.needs);
        let sent = open.sent;
        match open.command {
            IoCommand::Vendor(VendorCommand::TxWrite(lpn, transaction)) => {
                promises.write_in(transaction, sent, unit(&rules.space, tantalum::Lpn(lpn), &data));
            }
            IoCommand::Vendor(VendorCommand::Commit(transaction)) => {
                let change = promises.commit(transaction);
                promises.change(sent, change);
            }
            command => {
                if let Some(change) = change_of(command, &rules.space, &data) {
                    promises.change(sent, change);
                }
            }
        }
        // more data than the command has would be another change
        open.needs = usize::MAX;
    }

    /// The drive sends a PDU; it has not reached the host.
    pub fn answered(&mut self, pdu: &[u8], rules: &Rules, promises: &Mutex<Promises>) {
        match common_of(pdu).kind {
            kind::C2H_DATA => {
                let Some(header) = header_of::<Data>(pdu) else { return };
                let id = header.command.get();
                let Some(open) = self.open.get_mut(&id) else { return };
                open.answer.extend_from_slice(data_of(pdu));
                if header.common.flags & flag::SUCCESS != 0 {
                    self.end(id, Ended { code: 0, result: 0 }, rules, &mut promises.lock());
                }
            }
            kind::CAPSULE_RESP => {
                let Some(capsule) = header_of::<ResponseCapsule>(pdu) else { return };
                let Completion { result, id, status, .. } = capsule.completion;
                let ended = Ended { code: Failure::code_of(status.get()), result: result.get() };
                self.end(id.get(), ended, rules, &mut promises.lock());
            }
            _ => {}
        }
    }

    fn end(&mut self, id: u16, ended: Ended, rules: &Rules, promises: &mut Promises) {
        let Some(open) = self.open.remove(&id) else { return };
        let (sent, outcome) = (open.sent, outcome_of(ended.code));
        if rules.judges_reads {
            open.judge(ended, rules, promises);
        }
        match open.command {
            IoCommand::Flush if outcome == Outcome::Done => promises.flushed(sent),
            IoCommand::Vendor(VendorCommand::TxWrite(_, transaction)) => {
                promises.wrote_in(transaction, sent, outcome);
            }
            IoCommand::Vendor(VendorCommand::Commit(transaction) | VendorCommand::Abort(transaction))
                if outcome == Outcome::Done =>
            {
                promises.close(transaction);
            }
            _ => {}
        }
        promises.end(sent, outcome);
    }

    /// The drive has closed the connection: none of its commands takes place after this.
    pub fn closed(&mut self, promises: &Mutex<Promises>) {
        self.is_closed = true;
        let mut promises = promises.lock();
        self.open.drain().for_each(|(_, open)| promises.end(open.sent, Outcome::Lost));
    }
}

impl Open {
    /// Judges what was read.
    fn judge(&self, Ended { code, result }: Ended, rules: &Rules, promises: &mut Promises) {
        let block_bytes = rules.space.block_bytes as usize;
        match self.command {
            IoCommand::Read(blocks) if code == 0 => {
                for (block, data) in (blocks.first..).zip(self.answer.chunks_exact(block_bytes)) {
                    promises.seen(self.sent, Spot::Block(block), sum_of(data));
                }
            }
            IoCommand::KeyValue(KeyValueCommand::Retrieve(namespace, key, _)) => {
                let found = match code {
                    // the result is the size of the value, of which a small buffer takes only a part
                    0 if result == self.answer.len() as u64 => sum_of(&self.answer),
                    code if code == Failure::NO_SUCH_KEY.code() => ABSENT,
                    _ => return,
                };
                promises.seen(self.sent, Spot::Record(namespace, key), found);
            }
            _ => {}
        }
    }
}
