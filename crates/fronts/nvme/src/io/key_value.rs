//! The Key Value command set (KV, section 3.2): Store, Retrieve, List, Delete, Exist; and a vendor command that puts many
//! records, in any namespaces, all or nothing.

use tantalum::{Command, Key, KvRecord, NamespaceId};
use tantalum_drive::{InReply, OwnedRecord, Request, When};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::part::Part;
use super::transfer::{TRANSFER_BYTES, Transfer};
use super::work::Worked;
use crate::failure::Failure;
use crate::mailbox::Answer;
use crate::namespaces::{Namespaces, namespace_of, number_of};
use crate::wire::command::Submission;
use crate::wire::opcode::{key_value as opcode, vendor};

/// A command about records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyValueCommand {
    /// Stores a value.
    Store(NamespaceId, Key, Condition, u32),
    /// Reads a value into a buffer of this many bytes.
    Retrieve(NamespaceId, Key, u32),
    /// Lists keys in a buffer of this many bytes.
    List(NamespaceId, Option<Key>, u32),
    /// Deletes a record.
    Delete(NamespaceId, Key),
    /// Succeeds if a record exists.
    Exist(NamespaceId, Key),
    /// Puts many records, described by this many bytes.
    Put(u32),
}

/// When a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// Always.
    None,
    /// Only if the key exists.
    Exists,
    /// Only if the key does not exist.
    IsNew,
}

/// The descriptor of a record in the vendor's `put`; its value follows, with zeros up to a multiple of four bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PutRecord {
    /// The namespace, by the host's number.
    pub namespace: U32,
    /// Bytes of the value; FFFFFFFFh deletes the record.
    pub value_bytes: U32,
    /// Bytes of the key.
    pub key_bytes: U16,
    reserved: [u8; 6],
    /// The key, with zeros behind it.
    pub key: [u8; 16],
}

impl PutRecord {
    /// Describes a record.
    pub fn new(namespace: u32, key: &[u8], value_bytes: Option<u32>) -> PutRecord {
        let mut field = [0; 16];
        let bytes = key.len().min(16);
        field[..bytes].copy_from_slice(&key[..bytes]);
        PutRecord {
            namespace: namespace.into(),
            value_bytes: value_bytes.unwrap_or(u32::MAX).into(),
            key_bytes: (key.len() as u16).into(),
            reserved: [0; 6],
            key: field,
        }
    }
}

/// The key in dwords 2, 3, 14 and 15. `None` if it has no bytes.
fn key_of(command: &Submission) -> Result<Option<Key>, Failure> {
    let bytes = (command.dword(11) & 0xff) as usize;
    let mut key = [0; 16];
    key[..8].copy_from_slice(command.dword2.as_bytes());
    key[8..].copy_from_slice(command.dword10[4..].as_bytes());
    match bytes {
        0 => Ok(None),
        bytes => {
            Key::new(key.get(..bytes).ok_or(Failure::KEY_SIZE)?).map(Some).map_err(|_| Failure::KEY_SIZE)
        }
    }
}

fn transferred(bytes: u32, failure: Failure) -> Result<u32, Failure> {
    if bytes > TRANSFER_BYTES { Err(failure) } else { Ok(bytes) }
}

impl KeyValueCommand {
    /// Reads a command's fields and checks them.
    pub fn decode(command: &Submission, namespace: NamespaceId) -> Result<KeyValueCommand, Failure> {
        let bytes = command.dword(10);
        let key = key_of(command);
        let some_key = key.and_then(|key| key.ok_or(Failure::KEY_SIZE));
        let options = command.dword(11) >> 8 & 0xff;
        match command.opcode {
            opcode::STORE => {
                let condition = match options & 3 {
                    0 => Condition::None,
                    1 => Condition::Exists,
                    2 => Condition::IsNew,
                    _ => return Err(Failure::INVALID_FIELD),
                };
                let bytes = transferred(bytes, Failure::VALUE_SIZE)?;
                Ok(KeyValueCommand::Store(namespace, some_key?, condition, bytes))
            }
            opcode::RETRIEVE => {
                let bytes = transferred(bytes, Failure::INVALID_FIELD)?;
                Ok(KeyValueCommand::Retrieve(namespace, some_key?, bytes))
            }
            opcode::LIST if bytes < 4 => Err(Failure::INVALID_FIELD),
            opcode::LIST => {
                Ok(KeyValueCommand::List(namespace, key?, transferred(bytes, Failure::INVALID_FIELD)?))
            }
            opcode::DELETE => Ok(KeyValueCommand::Delete(namespace, some_key?)),
            opcode::EXIST => Ok(KeyValueCommand::Exist(namespace, some_key?)),
            vendor::PUT if bytes == 0 => Err(Failure::INVALID_FIELD),
            vendor::PUT => Ok(KeyValueCommand::Put(transferred(bytes, Failure::INVALID_FIELD)?)),
            _ => Err(Failure::INVALID_OPCODE),
        }
    }

    /// The data that it moves.
    pub fn transfer(&self) -> Transfer {
        match *self {
            KeyValueCommand::Store(.., 0) | KeyValueCommand::Retrieve(.., 0) => Transfer::None,
            KeyValueCommand::Store(.., bytes) | KeyValueCommand::Put(bytes) => Transfer::FromHost(bytes),
            KeyValueCommand::Retrieve(.., bytes) | KeyValueCommand::List(.., bytes) => {
                Transfer::ToHost(bytes)
            }
            KeyValueCommand::Delete(..) | KeyValueCommand::Exist(..) => Transfer::None,
        }
    }

    /// Executes it on the drive.
    pub fn work(self, part: Part<'_>, namespaces: &Namespaces, when: When, data: Vec<u8>) -> Worked {
        let nothing = |request| {
            let reply = part.perform(request, when)?;
            Ok((Answer::default(), reply.done_ns))
        };
        match self {
            KeyValueCommand::Store(namespace, key, condition, _) => {
                store(part, when, namespace, key, condition, &data)
            }
            KeyValueCommand::Retrieve(namespace, key, bytes) => {
                let reply = part.perform(Request::KvGet { namespace, key, value: InReply }, when)?;
                let done_ns = reply.done_ns;
                let mut value = reply.into_data();
                let result = value.len() as u64;
                value.truncate(bytes as usize);
                Ok((Answer { data: value, result, ..Answer::default() }, done_ns))
            }
            KeyValueCommand::List(namespace, from, bytes) => list(part, when, namespace, from, bytes),
            KeyValueCommand::Delete(namespace, key) => nothing(Request::KvDelete { namespace, key }),
            KeyValueCommand::Exist(namespace, key) => nothing(Request::KvExists { namespace, key }),
            KeyValueCommand::Put(_) => {
                nothing(Request::KvPut { records: existing_records_of(&data, namespaces)? })
            }
        }
    }
}

/// Nobody else has the drive between the check and the store.
fn store(
    part: Part<'_>,
    when: When,
    namespace: NamespaceId,
    key: Key,
    condition: Condition,
    value: &[u8],
) -> Worked {
    let mut device = part.lock()?;
    if condition != Condition::None {
        let there = device.issue(Command::KvExists { namespace, key }, when).map(drop);
        match (Failure::of(there), condition) {
            (Ok(()), Condition::IsNew) => return Err(Failure::KEY_EXISTS),
            (Err(Failure::NO_SUCH_KEY), Condition::IsNew) | (Ok(()), _) => {}
            (Err(failure), _) => return Err(failure),
        }
    }
    let record = KvRecord { namespace, key, value: Some(value) };
    let completion = device.issue(Command::KvPut { records: &[record] }, when)?;
    Ok((Answer::default(), completion.done_ns))
}

/// The number of keys in the list, then each key with its length, at a multiple of four bytes.
fn list(part: Part<'_>, when: When, namespace: NamespaceId, from: Option<Key>, bytes: u32) -> Worked {
    let limit = (bytes as usize - 4) / 4;
    let mut keys = Vec::new();
    let completion = part.lock()?.issue(Command::KvList { namespace, from, keys: &mut keys, limit }, when)?;
    let mut list = vec![0; 4];
    let mut count: u32 = 0;
    for key in &keys {
        let key = key.as_bytes();
        let entry_bytes = (2 + key.len()).next_multiple_of(4);
        if list.len() + entry_bytes > bytes as usize {
            break;
        }
        let end = list.len() + entry_bytes;
        list.extend((key.len() as u16).to_le_bytes());
        list.extend(key);
        list.resize(end, 0);
        count += 1;
    }
    list[..4].copy_from_slice(&count.to_le_bytes());
    list.resize(bytes as usize, 0);
    Ok((Answer { data: list, result: count.into(), ..Answer::default() }, completion.done_ns))
}

/// The records that [`PutRecord`]s with their values describe, all of namespaces that hosts have.
pub(crate) fn existing_records_of(data: &[u8], namespaces: &Namespaces) -> Result<Vec<OwnedRecord>, Failure> {
    let records = records_of(data)?;
    let are_there =
        records.iter().all(|(namespace, ..)| namespaces.key_value(number_of(*namespace)).is_some());
    if are_there { Ok(records) } else { Err(Failure::INVALID_NAMESPACE) }
}

/// The records that [`PutRecord`]s with their values describe.
pub(crate) fn records_of(mut data: &[u8]) -> Result<Vec<OwnedRecord>, Failure> {
    let mut records = Vec::new();
    while !data.is_empty() {
        let (record, rest) = PutRecord::ref_from_prefix(data).map_err(|_| Failure::INVALID_FIELD)?;
        let namespace = namespace_of(record.namespace.get()).ok_or(Failure::INVALID_NAMESPACE)?;
        let key = record.key.get(..record.key_bytes.get().into()).ok_or(Failure::KEY_SIZE)?;
        let key = Key::new(key).map_err(|_| Failure::KEY_SIZE)?;
        let (value, behind) = match record.value_bytes.get() {
            u32::MAX => (None, rest),
            bytes => {
                let bytes = bytes as usize;
                let value = rest.get(..bytes).ok_or(Failure::VALUE_SIZE)?;
                (Some(value.to_vec()), rest.get(bytes.next_multiple_of(4)..).unwrap_or(&[]))
            }
        };
        records.push((namespace, key, value));
        data = behind;
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_described_one_after_the_other() {
        assert_eq!(size_of::<PutRecord>(), 32);
        let mut data = PutRecord::new(2, b"abc", Some(5)).as_bytes().to_vec();
        data.extend(b"value\0\0\0");
        data.extend(PutRecord::new(3, b"gone", None).as_bytes());
        let (abc, gone) = (Key::new(b"abc").unwrap(), Key::new(b"gone").unwrap());
        assert_eq!(
            records_of(&data).unwrap(),
            [(NamespaceId(1), abc, Some(b"value".to_vec())), (NamespaceId(2), gone, None)]
        );
        assert_eq!(records_of(&data[..34]), Err(Failure::VALUE_SIZE));
        assert_eq!(records_of(&data[..70]), Err(Failure::INVALID_FIELD));
        let blocks = PutRecord::new(1, b"k", None);
        assert_eq!(records_of(blocks.as_bytes()), Err(Failure::INVALID_NAMESPACE));
    }
}
