//! The table on the drive: one record of a key-value namespace that the drive keeps for itself. Putting a record is all or nothing and
//! durable when it is done, also on a drive whose cache is lost with its power, and one of the same size replaces it without
//! taking more room.
//!
//! The namespace is made with the first change, so a drive that was never divided has none.

use tantalum::{
    Command, Device, Key, KvRecord, NamespaceAttributes, NamespaceId, Nanoseconds, Status, UNIT_BYTES,
    result_of,
};
use tantalum_drive::Queue;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::handles::{self, HANDLES, Handles};
use super::table::{Attached, Entry, FORMATS, HOSTS, HostId, Pending, SLOTS, Sanitize, SanitizeState, Table};
use super::{ZONES_NAMESPACE, highest_of, number_of};
use crate::failure::Failure;

const MAGIC: [u8; 8] = *b"TANTNSPC";
const VERSION: u32 = 1;
const KEY: &[u8] = b"table";

/// Why the namespaces of a drive are unknown.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TableError {
    /// It could not be read.
    #[error("the table of namespaces cannot be read: {0}")]
    Read(Status),
    /// Another version of this program has written it.
    #[error(
        "the table of namespaces has format {0}, and this program reads format {VERSION}: serve the image with the version of tantalum that served it last"
    )]
    Version(u32),
    /// It is not one that this program can have written for this drive.
    #[error(
        "the table of namespaces is damaged ({0}): restore a copy of the image, or read what it holds without namespaces, by unit (tantalum mount, tantalum.Device)"
    )]
    Damaged(String),
}

impl TableError {
    pub(super) fn damaged(reason: impl Into<String>) -> TableError {
        TableError::Damaged(reason.into())
    }
}

/// Where the table is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Storage {
    namespace: Option<NamespaceId>,
}

/// What precedes the entries.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    version: U32,
    /// CRC-32C of all bytes, with zeros here.
    checksum: U32,
    drive_units: U32,
    made: U32,
    /// 0 there was no Sanitize, 1 it is under way, 2 complete, 3 failed.
    sanitize: U32,
    sanitize_dword: U32,
    reserved: [u8; 32],
}

/// A slot; one without a number is empty.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct StoredEntry {
    number: U32,
    first: U32,
    units: U32,
    made: U32,
    format: u8,
    is_shared: u8,
    others: u8,
    /// How many hosts are listed.
    hosts: u8,
    /// 0 nothing, 1 deleted, 2 formatted, 3 formatted with an erase.
    pending: u8,
    pending_format: u8,
    reserved: [u8; 10],
    except: [HostId; HOSTS],
}

/// The record's value.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Stored {
    header: Header,
    entries: [StoredEntry; SLOTS],
}

fn checksum(stored: &Stored) -> u32 {
    let mut zeroed = *stored;
    zeroed.header.checksum = 0.into();
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, zeroed.as_bytes()) as u32
}

fn stored_entry(entry: &Entry) -> StoredEntry {
    let (pending, pending_format) = match entry.pending {
        Pending::Nothing => (0, 0),
        Pending::Delete => (1, 0),
        Pending::Format { format, erases } => (2 + u8::from(erases), format),
    };
    let mut except = [[0; 16]; HOSTS];
    except[..entry.attached.except.len()].copy_from_slice(&entry.attached.except);
    StoredEntry {
        number: entry.number.into(),
        first: entry.first.into(),
        units: entry.units.into(),
        made: entry.made.into(),
        format: entry.format,
        is_shared: entry.is_shared.into(),
        others: entry.attached.others.into(),
        hosts: entry.attached.except.len() as u8,
        pending,
        pending_format,
        reserved: [0; 10],
        except,
    }
}

fn entry_of(stored: &StoredEntry) -> Option<Entry> {
    let format = stored.pending_format;
    Some(Entry {
        number: stored.number.get(),
        first: stored.first.get(),
        units: stored.units.get(),
        format: stored.format,
        is_shared: stored.is_shared != 0,
        made: stored.made.get(),
        attached: Attached {
            others: stored.others != 0,
            except: stored.except.get(..usize::from(stored.hosts))?.to_vec(),
        },
        // they are stored elsewhere
        handles: Handles::default(),
        pending: match stored.pending {
            0 => Pending::Nothing,
            1 => Pending::Delete,
            2 | 3 => Pending::Format { format, erases: stored.pending == 3 },
            _ => return None,
        },
    })
}

fn encode(table: &Table) -> Vec<u8> {
    let mut stored = Stored::new_zeroed();
    stored.header.magic = MAGIC;
    stored.header.version = VERSION.into();
    stored.header.drive_units = table.drive_units.into();
    stored.header.made = table.made.into();
    stored.header.sanitize = match table.sanitize.state {
        SanitizeState::Never => 0,
        SanitizeState::Running => 1,
        SanitizeState::Done => 2,
        SanitizeState::Failed => 3,
    }
    .into();
    stored.header.sanitize_dword = table.sanitize.dword.into();
    for (slot, entry) in table.entries() {
        stored.entries[slot] = stored_entry(entry);
    }
    stored.header.checksum = checksum(&stored).into();
    stored.as_bytes().to_vec()
}

/// A table for a drive of so many units.
fn decode(bytes: &[u8], drive_units: u32) -> Result<Table, TableError> {
    let damaged = TableError::damaged;
    let length = || damaged(format!("it has {} bytes instead of {}", bytes.len(), size_of::<Stored>()));
    let stored = Stored::ref_from_bytes(bytes).map_err(|_| length())?;
    let header = &stored.header;
    if header.magic != MAGIC || header.checksum.get() != checksum(stored) {
        return Err(damaged("its checksum does not match".into()));
    }
    if header.version.get() != VERSION {
        return Err(TableError::Version(header.version.get()));
    }
    if header.drive_units.get() != drive_units {
        let other = header.drive_units.get();
        return Err(damaged(format!("it divides a drive of {other} units, and this one has {drive_units}")));
    }
    let mut table = Table::empty(drive_units, header.made.get());
    let state = match header.sanitize.get() {
        0 => SanitizeState::Never,
        1 => SanitizeState::Running,
        2 => SanitizeState::Done,
        3 => SanitizeState::Failed,
        state => return Err(damaged(format!("it has Sanitize in state {state}"))),
    };
    table.sanitize = Sanitize { state, dword: header.sanitize_dword.get() };
    for (slot, entry) in stored.entries.iter().enumerate().filter(|(_, entry)| entry.number.get() != 0) {
        let number = entry.number.get();
        let entry = entry_of(entry).ok_or_else(|| damaged(format!("the fields of namespace {number}")))?;
        table.set(slot, Some(entry));
    }
    match table.is_sound() {
        true => Ok(table),
        false => Err(damaged("namespaces overlap, or have a number or format that none can have".into())),
    }
}

/// Refuses a table with a number that no block namespace of this drive can have.
fn check_numbers(table: &Table, device: &Device) -> Result<(), TableError> {
    let highest = highest_of(device.last_namespace());
    for (_, entry) in table.entries() {
        let number = entry.number;
        if u64::from(number) > highest {
            return Err(TableError::damaged(format!("namespace {number} is above the highest, {highest}")));
        }
        let namespaces = device.namespaces();
        if namespaces.iter().any(|there| number_of(there.namespace) == number) {
            return Err(TableError::damaged(format!(
                "block namespace {number} has the number of a key-value namespace"
            )));
        }
        if number == ZONES_NAMESPACE && device.zone_shape().is_some() {
            return Err(TableError::damaged(format!("block namespace {number} has the number of the zones")));
        }
    }
    Ok(())
}

fn key() -> Key {
    Key::new(KEY).expect("it is short")
}

/// The index in [`FORMATS`] of blocks of this size.
fn format_of(block_bytes: u32) -> u8 {
    let format = FORMATS.iter().position(|bytes| *bytes == block_bytes);
    format.unwrap_or_else(|| panic!("a unit of {UNIT_BYTES} bytes has no blocks of {block_bytes}")) as u8
}

/// Reads the table of a drive. One that has none has namespace 1, with blocks of this size.
pub(super) fn load(device: &mut Device, block_bytes: u32) -> Result<(Table, Storage), TableError> {
    let drive_units = device.limits().capacity_units as u32;
    let drive_handles = device.profile().fdp.map_or(0, |fdp| fdp.handles);
    let undivided = Table::undivided(drive_units, format_of(block_bytes)).with_handles(drive_handles);
    // others are left of a change that power cut short
    let Some(namespace) = device.private_namespaces().into_iter().min() else {
        return Ok((undivided, Storage::default()));
    };
    let storage = Storage { namespace: Some(namespace) };
    let Some(value) = read(device, namespace, key())? else { return Ok((undivided, storage)) };
    let mut table = decode(&value, drive_units)?.with_handles(drive_handles);
    if let Some(sealed) = read(device, namespace, HANDLES.key_with(&[]))? {
        table = handles::add(table, &sealed)?;
    }
    check_numbers(&table, device)?;
    Ok((table, storage))
}

/// The value of a record, if there is one.
pub(super) fn read(
    device: &mut Device,
    namespace: NamespaceId,
    key: Key,
) -> Result<Option<Vec<u8>>, TableError> {
    let (mut value, at_ns) = (Vec::new(), device.time_ns());
    match device.submit(Command::KvGet { namespace, key, value: &mut value }, at_ns) {
        Ok(_) => Ok(Some(value)),
        Err(Status::NoSuchKey { .. }) => Ok(None),
        Err(status) => Err(TableError::Read(status)),
    }
}

impl Storage {
    /// The namespace of the table, if there is one.
    pub fn kept(&self) -> Option<NamespaceId> {
        self.namespace
    }

    /// Stores a table. Returns when it is durable. If that fails, the stored one is the one before.
    pub fn store(&mut self, queue: &Queue, table: &Table) -> Result<Nanoseconds, Failure> {
        let namespace = self.namespace(queue)?;
        let (value, handles) = (encode(table), handles::encode(table));
        debug_assert_eq!(
            again(&value, handles.as_deref(), table).as_ref(),
            Ok(table),
            "it would be read otherwise"
        );
        let record = |key, value| KvRecord { namespace, key, value: Some(value) };
        let records: Vec<KvRecord<'_>> = [record(key(), &value)]
            .into_iter()
            .chain(handles.as_deref().map(|value| record(HANDLES.key_with(&[]), value)))
            .collect();
        let put = Command::KvPut { records: &records };
        let when = queue.answers().when(0);
        Ok(queue.drive().lock().issue(put, when)?.done_ns)
    }

    /// The namespace of the table, which is made if there is none.
    pub fn namespace(&mut self, queue: &Queue) -> Result<NamespaceId, Failure> {
        if let Some(namespace) = self.namespace {
            return Ok(namespace);
        }
        let namespace = create(queue)?;
        self.namespace = Some(namespace);
        Ok(namespace)
    }

    /// Uses up a number of the drive's key-value namespaces: no later one has it.
    pub fn use_number(&mut self, queue: &Queue) -> Result<(), Failure> {
        let kept = self.namespace(queue)?;
        create(queue)?;
        let others = queue.drive().lock().private_namespaces().into_iter();
        for namespace in others.filter(|namespace| *namespace != kept) {
            let when = queue.answers().when(0);
            queue.drive().lock().issue(Command::DeleteNamespace { namespace }, when)?;
        }
        Ok(())
    }
}

/// What would be read instead of a table.
fn again(value: &[u8], handles: Option<&[u8]>, table: &Table) -> Result<Table, TableError> {
    let read = decode(value, table.drive_units)?.with_handles(table.handles.count);
    match handles {
        Some(record) => handles::add(read, record),
        None => Ok(read),
    }
}

fn create(queue: &Queue) -> Result<NamespaceId, Failure> {
    let attributes = NamespaceAttributes { is_private: true, ..NamespaceAttributes::default() };
    let when = queue.answers().when(0);
    let made = result_of(|namespace| {
        queue.drive().lock().issue(Command::CreateNamespace { attributes, namespace }, when)
    });
    Ok(made?)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use tantalum::Profile;
    use tantalum_drive::Drive;

    use super::*;
    use crate::namespaces::NewNamespace;

    fn table() -> Table {
        let mut table = Table::undivided(1000, 1);
        table.sanitize = Sanitize { state: SanitizeState::Failed, dword: 10 };
        table.entry_mut(0).unwrap().units = 400;
        table.entry_mut(0).unwrap().attached.except = vec![[7; 16]; HOSTS];
        let slot =
            table.add(&NewNamespace { blocks: 80, format: 1, is_shared: false, handles: None }, 5).unwrap();
        table.entry_mut(slot).unwrap().pending = Pending::Format { format: 0, erases: true };
        let slot =
            table.add(&NewNamespace { blocks: 300, format: 0, is_shared: true, handles: None }, 9).unwrap();
        table.entry_mut(slot).unwrap().pending = Pending::Delete;
        table
    }

    #[test]
    fn the_layout_is_pinned() {
        assert_eq!((size_of::<Header>(), size_of::<StoredEntry>()), (64, 288));
        assert_eq!((size_of::<Stored>(), offset_of!(Stored, entries)), (64 + 32 * 288, 64));
        assert_eq!((offset_of!(Header, checksum), offset_of!(Header, made)), (12, 20));
        assert_eq!((offset_of!(StoredEntry, pending), offset_of!(StoredEntry, except)), (20, 32));
    }

    #[test]
    fn a_table_is_read_as_it_was_written_and_no_other_is() {
        let (table, bytes) = (table(), encode(&table()));
        assert_eq!(decode(&bytes, 1000), Ok(table));
        let reason = |bytes: &[u8], units: u32| match decode(bytes, units) {
            Err(TableError::Damaged(reason)) => reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(reason(&bytes, 999), "it divides a drive of 1000 units, and this one has 999");
        assert_eq!(reason(&bytes[1..], 1000), "it has 9279 bytes instead of 9280");
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(reason(&damaged, 1000), "its checksum does not match", "byte {at}");
        }
        let mut overlapping = table_with_overlap();
        assert!(reason(&encode(&overlapping), 1000).starts_with("namespaces overlap"));
        overlapping.entry_mut(1).unwrap().first = 400;
        assert!(decode(&encode(&overlapping), 1000).is_ok());
    }

    #[test]
    fn a_table_of_another_format_names_both() {
        let mut bytes = encode(&table());
        let stored = Stored::mut_from_bytes(&mut bytes).unwrap();
        stored.header.version = 7.into();
        stored.header.checksum = checksum(stored).into();
        let error = decode(&bytes, 1000).unwrap_err();
        assert_eq!(error, TableError::Version(7));
        assert!(error.to_string().contains("format 7") && error.to_string().contains("format 1"), "{error}");
    }

    /// The numbers on a drive with a namespace with records, whose table, with another block namespace, is changed to what nobody can have
    /// stored.
    fn forged(profile: &Profile, number: u32, change: fn(&mut Table)) -> Result<Vec<u32>, TableError> {
        let mut device = Device::in_memory(profile).unwrap();
        let mut make = |is_private| {
            let (attributes, at_ns) =
                (NamespaceAttributes { is_private, ..NamespaceAttributes::default() }, device.time_ns());
            let namespace = &mut NamespaceId::default();
            device.submit(Command::CreateNamespace { attributes, namespace }, at_ns).unwrap();
            *namespace
        };
        let (_, namespace) = (make(false), make(true));
        let mut table = Table::undivided(device.limits().capacity_units as u32, 0);
        table.entry_mut(0).unwrap().units = 100;
        table.add(&NewNamespace { blocks: 10, format: 0, is_shared: true, handles: None }, number).unwrap();
        change(&mut table);
        let value = encode(&table);
        let (records, at_ns) = ([KvRecord { namespace, key: key(), value: Some(&value) }], device.time_ns());
        device.submit(Command::KvPut { records: &records }, at_ns).unwrap();
        crate::namespaces::Namespaces::load(&Drive::new(device), 4096).map(|namespaces| namespaces.numbers())
    }

    fn damage(loaded: Result<Vec<u32>, TableError>) -> String {
        match loaded {
            Err(TableError::Damaged(reason)) => reason,
            other => panic!("{other:?}"),
        }
    }

    /// It was found by a panic when namespaces were loaded.
    #[test]
    fn a_table_that_takes_a_number_from_a_key_value_namespace_is_refused() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("tlc-nvme").unwrap() };
        assert_eq!(forged(&profile, 3, |_| {}), Ok(vec![1, 2, 3]));
        let refused = |change: fn(&mut Table)| damage(forged(&profile, 3, change));
        let of_records = refused(|table| table.entry_mut(1).unwrap().number = 2);
        assert_eq!(of_records, "block namespace 2 has the number of a key-value namespace");
        let above = refused(|table| table.entry_mut(1).unwrap().number = 999);
        assert_eq!(above, "namespace 999 is above the highest, 36");
        assert!(refused(|table| table.made = u32::MAX).starts_with("namespaces overlap"));
    }

    #[test]
    fn a_table_that_takes_the_number_of_the_zones_is_refused() {
        let profile = Profile::load("zns").unwrap();
        assert_eq!(forged(&profile, 4, |_| {}), Ok(vec![1, 2, 3, 4]));
        let of_zones = damage(forged(&profile, 4, |table| table.entry_mut(1).unwrap().number = 2));
        assert_eq!(of_zones, "block namespace 2 has the number of the zones");
    }

    fn table_with_overlap() -> Table {
        let mut table = table();
        table.entry_mut(1).unwrap().first = 399;
        table
    }
}
