//! A step of a commit that is too large for one `put` of the drive: what one `put` changes, and how it is logged.
//!
//! What is logged are changes of keys, not nodes: the records of a step are computed again from what the steps before it have
//! left. Keys that are deleted may be logged by their positions among the keys that exist, in the namespace's own order.
//! That takes a bit for each key, so that a full store has room to log the deletion of any of its records.

use tantalum::{Key, NamespaceId};

use crate::failure::Failure;
use crate::large::PART_BYTES;
use crate::positions::{Cursor, Positions};
use crate::record::{Bytes, Name, ORDERED_KEY_BYTES, Order, Value};
use crate::record_store::{Listing, Records};
use crate::tree::{Layout, Numbers, Place, change, find, value_name};

/// A step.
pub(crate) struct Step {
    pub form: Form,
    /// The namespace, if it only deletes keys of one, and all steps of these are in the order of the keys.
    pub deletes: Option<NamespaceId>,
    /// What is put.
    pub records: Records,
}

/// How a step is logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// As the records that are put.
    Records,
    /// As changes of keys of an ordered namespace.
    Keys {
        namespace: NamespaceId,
        numbers: Numbers,
        /// That of the version that has logged it.
        layout: Layout,
        changes: Vec<(Bytes, Option<Value>)>,
    },
    /// As the positions of keys that are deleted. Those of an ordered namespace have numbers; the layout follows from the log's format.
    Positions { namespace: NamespaceId, numbers: Option<Numbers>, positions: Positions },
}

const RECORDS: u8 = 1;
const KEYS: u8 = 2;
const HASHED_POSITIONS: u8 = 3;
const ORDERED_POSITIONS: u8 = 4;
const KEYS_WITH_VALUES: u8 = 5;
const KEYS_IN_SHORT_LEAVES: u8 = 6;

impl Step {
    /// Records as they are.
    pub fn of_records(records: Records) -> Step {
        Step { form: Form::Records, deletes: None, records }
    }

    /// The bytes that are logged: the form (1 byte); namespace (4) and numbers (16), if there are any; then what is changed.
    /// All is little-endian.
    pub fn encode(&self) -> Vec<u8> {
        match &self.form {
            Form::Records => encode_records(&self.records),
            Form::Keys { namespace, numbers, layout, changes } => {
                let mut bytes = vec![match layout {
                    Layout::ShortLeaves => KEYS_IN_SHORT_LEAVES,
                    Layout::SmallHere => KEYS_WITH_VALUES,
                    Layout::AllApart => KEYS,
                }];
                bytes.extend_from_slice(&namespace.0.to_le_bytes());
                bytes.extend_from_slice(&numbers.to_bytes());
                changes.iter().for_each(|(key, value)| encode_change(key, value.as_ref(), &mut bytes));
                bytes
            }
            Form::Positions { namespace, numbers, positions } => {
                let mut bytes = vec![if numbers.is_some() { ORDERED_POSITIONS } else { HASHED_POSITIONS }];
                bytes.extend_from_slice(&namespace.0.to_le_bytes());
                numbers.iter().for_each(|numbers| bytes.extend_from_slice(&numbers.to_bytes()));
                positions.encode(&mut bytes);
                bytes
            }
        }
    }

    /// A step as it was logged. It has its records once it is [completed](Step::complete).
    pub fn decode(bytes: &[u8]) -> Option<Step> {
        let (kind, rest) = bytes.split_first()?;
        let mut records = Records::new();
        let form = match *kind {
            RECORDS => {
                records = decode_records(rest)?;
                Form::Records
            }
            KEYS | KEYS_WITH_VALUES | KEYS_IN_SHORT_LEAVES => {
                let (namespace, rest) = decode_namespace(rest)?;
                let (numbers, rest) = Numbers::from_bytes(rest)?;
                let layout = match *kind {
                    KEYS => Layout::AllApart,
                    KEYS_WITH_VALUES => Layout::SmallHere,
                    _ => Layout::ShortLeaves,
                };
                Form::Keys { namespace, numbers, layout, changes: decode_changes(rest)? }
            }
            HASHED_POSITIONS => {
                let (namespace, rest) = decode_namespace(rest)?;
                Form::Positions { namespace, numbers: None, positions: Positions::decode(rest)? }
            }
            ORDERED_POSITIONS => {
                let (namespace, rest) = decode_namespace(rest)?;
                let (numbers, rest) = Numbers::from_bytes(rest)?;
                let positions = Positions::decode(rest)?;
                Form::Positions { namespace, numbers: Some(numbers), positions }
            }
            _ => return None,
        };
        Some(Step { form, deletes: None, records })
    }

    /// Computes the records of a step that was logged, when all before it are in place. `cursor` is where the last one ended;
    /// `layout` is that of whoever logged a deletion by positions.
    pub fn complete(
        &mut self,
        source: &impl Listing,
        cursor: &mut Cursor,
        layout: Layout,
    ) -> Result<(), Failure> {
        match &self.form {
            Form::Records => {}
            Form::Keys { namespace, numbers, layout, changes } => {
                let changes: Vec<_> = changes.iter().map(|(key, value)| (&key[..], value)).collect();
                self.records = change(source, *namespace, &changes, *numbers, *layout)?.records;
            }
            Form::Positions { namespace, numbers: None, positions } => {
                let keys = positions.find(source, *namespace, Order::Hashed, cursor)?;
                let key = |bytes: Bytes| Key::new(&bytes).expect("the drive listed it");
                self.records = keys.into_iter().map(|bytes| ((*namespace, key(bytes)), None)).collect();
            }
            Form::Positions { namespace, numbers: Some(numbers), positions } => {
                let keys = positions.find(source, *namespace, Order::Ordered, cursor)?;
                let changes: Vec<_> = keys.iter().map(|key| (&key[..], &None)).collect();
                self.records = change(source, *namespace, &changes, *numbers, layout)?.records;
            }
        }
        Ok(())
    }

    /// The values of an ordered namespace that a step which was logged will delete, if it does nothing else.
    pub fn values(&self, source: &impl Listing, cursor: &mut Cursor) -> Result<Vec<Name>, Failure> {
        let (namespace, keys) = match &self.form {
            Form::Keys { namespace, changes, .. } if changes.iter().all(|(_, value)| value.is_none()) => {
                (*namespace, changes.iter().map(|(key, _)| key.clone()).collect())
            }
            Form::Positions { namespace, numbers: Some(_), positions } => {
                (*namespace, positions.find(source, *namespace, Order::Ordered, cursor)?)
            }
            _ => return Ok(Vec::new()),
        };
        let places = keys.iter().filter_map(|key| find(source, namespace, key, |_| ()).transpose());
        let names = places.filter_map(|place| match place {
            Ok(Place::Apart(number)) => Some(Ok(value_name(namespace, number))),
            // it goes with its leaf
            Ok(Place::Here(())) => None,
            Err(failure) => Some(Err(failure)),
        });
        names.collect()
    }

    /// The keys that it deletes, if it does nothing else, and is logged by them.
    pub fn deleted_keys(&self) -> Vec<Bytes> {
        match &self.form {
            Form::Records => self.records.iter().map(|((_, key), _)| key.as_bytes().into()).collect(),
            Form::Keys { changes, .. } => changes.iter().map(|(key, _)| key.clone()).collect(),
            Form::Positions { .. } => Vec::new(),
        }
    }
}

/// For each record: namespace (4 bytes), then the key and the value.
fn encode_records(records: &[(Name, Option<Value>)]) -> Vec<u8> {
    let mut bytes = vec![RECORDS];
    for ((namespace, key), value) in records {
        bytes.extend_from_slice(&namespace.0.to_le_bytes());
        encode_change(key.as_bytes(), value.as_ref(), &mut bytes);
    }
    bytes
}

fn decode_records(mut bytes: &[u8]) -> Option<Records> {
    let mut records = Records::new();
    while !bytes.is_empty() {
        let (namespace, rest) = decode_namespace(bytes)?;
        let (key, value, rest) = decode_change(rest)?;
        records.push(((namespace, Key::new(key).ok()?), value));
        bytes = rest;
    }
    Some(records)
}

/// Length of the key (2 bytes), key, 1 if there is a value (1), its length (4), value.
fn encode_change(key: &[u8], value: Option<&Value>, bytes: &mut Vec<u8>) {
    assert!(key.len() <= ORDERED_KEY_BYTES, "a key of {} bytes is logged", key.len());
    bytes.extend_from_slice(&(key.len() as u16).to_le_bytes());
    bytes.extend_from_slice(key);
    bytes.push(u8::from(value.is_some()));
    if let Some(value) = value {
        debug_assert!(value.len() <= PART_BYTES, "a value of {} bytes is logged as a whole", value.len());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
    }
}

fn decode_change(bytes: &[u8]) -> Option<(&[u8], Option<Value>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
    let (has_value, rest) = rest.split_first()?;
    match has_value {
        0 => Some((key, None, rest)),
        1 => {
            let (length, rest) = rest.split_first_chunk()?;
            let (value, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            Some((key, Some(value.into()), rest))
        }
        _ => None,
    }
}

fn decode_changes(mut bytes: &[u8]) -> Option<Vec<(Bytes, Option<Value>)>> {
    let mut changes = Vec::new();
    while !bytes.is_empty() {
        let (key, value, rest) = decode_change(bytes)?;
        changes.push((key.into(), value));
        bytes = rest;
    }
    Some(changes)
}

fn decode_namespace(bytes: &[u8]) -> Option<(NamespaceId, &[u8])> {
    let (namespace, rest) = bytes.split_first_chunk()?;
    Some((NamespaceId(u32::from_le_bytes(*namespace)), rest))
}
