//! The fields of Fabrics commands, checked as far as they stand alone.

use zerocopy::FromBytes;

use crate::failure::Failure;
use crate::io::Transfer;
use crate::wire::authentication::{PROTOCOL, Transport};
use crate::wire::command::Submission;
use crate::wire::fabrics::{CONNECT_DATA_BYTES, Connect, Property};
use crate::wire::opcode::fabrics as kind;

/// Maximum size of a message: the largest has fewer than 700 bytes.
pub(super) const MESSAGE_BYTES: u32 = 4096;

/// A Fabrics command whose fields have been checked as far as they stand alone.
#[derive(Clone, Copy, Debug)]
pub enum FabricsCommand {
    /// Makes the connection a queue.
    Connect(Connect),
    /// Reads a property.
    Get {
        /// The property's offset in bytes.
        offset: u32,
        /// Whether it has eight bytes.
        is_long: bool,
    },
    /// Sets a property.
    Set {
        /// The property's offset in bytes.
        offset: u32,
        /// The new value.
        value: u64,
    },
    /// Disconnects the queue.
    Disconnect,
    /// Sends a message of an authentication; its length in bytes.
    Send(u32),
    /// Receives a message of an authentication; its maximum length in bytes.
    Receive(u32),
}

impl FabricsCommand {
    /// Reads a command's fields. `queue` is what the connection is at this point.
    pub fn decode(command: &Submission, queue: Option<u16>) -> Result<FabricsCommand, Failure> {
        // the type is in the place of other commands' namespace
        let (decoded, belongs) = match command.namespace.get() as u8 {
            kind::CONNECT => {
                let fields = Connect::read_from_bytes(command.tail()).expect("they are as long");
                (FabricsCommand::Connect(fields), queue.is_none())
            }
            kind::PROPERTY_GET => {
                let fields = property_of(command);
                let (offset, is_long) = (fields.offset.get(), fields.attributes & 7 == 1);
                if fields.attributes & 7 > 1 {
                    return Err(Failure::INVALID_FIELD);
                }
                (FabricsCommand::Get { offset, is_long }, queue == Some(0))
            }
            kind::PROPERTY_SET => {
                let fields = property_of(command);
                if fields.attributes & 7 != 0 {
                    return Err(Failure::INVALID_FIELD);
                }
                let (offset, value) = (fields.offset.get(), fields.value.get());
                (FabricsCommand::Set { offset, value }, queue == Some(0))
            }
            kind::DISCONNECT => (FabricsCommand::Disconnect, queue.is_some_and(|queue| queue != 0)),
            kind::AUTHENTICATION_SEND => (FabricsCommand::Send(message_bytes(command)?), queue.is_some()),
            kind::AUTHENTICATION_RECEIVE => {
                (FabricsCommand::Receive(message_bytes(command)?), queue.is_some())
            }
            _ => return Err(Failure::INVALID_OPCODE),
        };
        if belongs { Ok(decoded) } else { Err(Failure::SEQUENCE) }
    }

    /// The data that it moves.
    pub fn transfer(&self) -> Transfer {
        match self {
            FabricsCommand::Connect(_) => Transfer::FromHost(CONNECT_DATA_BYTES as u32),
            FabricsCommand::Send(bytes) => Transfer::FromHost(*bytes),
            FabricsCommand::Receive(bytes) => Transfer::ToHost(*bytes),
            _ => Transfer::None,
        }
    }
}

fn property_of(command: &Submission) -> Property {
    Property::read_from_bytes(command.tail()).expect("they are as long")
}

/// Bytes of the message, or of the buffer for it.
pub fn message_bytes(command: &Submission) -> Result<u32, Failure> {
    let fields = Transport::read_from_bytes(command.tail()).expect("they are as long");
    let bytes = fields.bytes.get();
    let is_sound = fields.protocol == PROTOCOL && fields.specific == [1, 1];
    if is_sound && (1..=MESSAGE_BYTES).contains(&bytes) { Ok(bytes) } else { Err(Failure::INVALID_FIELD) }
}
