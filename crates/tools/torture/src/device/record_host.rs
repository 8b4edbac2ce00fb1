//! A host that puts and deletes records of some key-value namespaces, and now and then replaces one of them. They share
//! the drive's log, or some have their own logs. On a drive that becomes full, one of them is filled until nothing more
//! fits.

mod commands;
mod compare;

use std::collections::BTreeMap;

use tantalum::{Command, Completion, Key, KvRecord, NamespaceAttributes, NamespaceId, Status};

use super::drive::{DriveKind, Flash};
use super::history::{Order, Stamp};
use super::host::Host;
use super::records::{RecordId, Records, Thing};
use super::stop::Stop;

/// New values of records, 0 for those to be deleted.
pub(crate) type NewRecords = BTreeMap<RecordId, Stamp>;

/// Records with their values.
type Values = Vec<(RecordId, Option<Vec<u8>>)>;

/// Keys of each namespace. The first few have values of several units.
pub(crate) const KEYS: u64 = 24;
const LARGE_KEYS: u64 = 4;
const LARGE_BYTES: u64 = 9000;
const SMALL_BYTES: u64 = 600;

/// Keys of the namespace that fills the drive, each with a value that takes a unit.
pub(crate) const FILLING_KEYS: u64 = 480;
const FILLING_BYTES: u64 = 3000;

/// The bit that marks the stamps of such values.
pub(crate) const FILLING: Stamp = 1 << 60;

/// Logs of each namespace, 0 for the drive's own: if all share that one, and if some have their own.
pub(crate) const SHARED: &[u32] = &[0, 0];
pub(crate) const OWN: &[u32] = &[0, 1, 2];

/// What is kept of a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Made {
    namespace: NamespaceId,
    /// Its logs when it was created: a drive may have too little room for those requested.
    logs: u32,
}

/// The host, and the contents of its namespaces.
#[derive(Clone, Debug)]
pub(super) struct RecordHost {
    logs: Vec<u32>,
    /// The last one fills the drive, if it should become full.
    full: bool,
    flash: Flash,
    slots: Vec<Option<Made>>,
    /// The former places of namespaces deleted since power came on.
    former: BTreeMap<NamespaceId, usize>,
    records: Records,
    /// Namespaces that a command in flight may have created, with the logs that they should have.
    creating: Vec<(usize, u32)>,
    next_stamp: Stamp,
    /// Pages that became unreadable, which may contain records.
    pub losses: u64,
    pub refused: u64,
    pub promises_checked: u64,
}

impl RecordHost {
    /// Empty namespaces, some of them with their own logs if requested.
    pub fn new(host: &mut Host, drive: &DriveKind) -> Result<RecordHost, Stop> {
        let mut logs = if drive.own_logs { OWN.to_vec() } else { SHARED.to_vec() };
        if drive.full {
            logs.push(0);
        }
        let mut records = RecordHost {
            slots: vec![None; logs.len()],
            logs,
            full: drive.full,
            flash: drive.flash,
            former: BTreeMap::new(),
            records: Records::default(),
            creating: Vec::new(),
            next_stamp: 1,
            losses: 0,
            refused: 0,
            promises_checked: 0,
        };
        for slot in 0..records.logs.len() {
            records.create(host, slot)?;
        }
        Ok(records)
    }

    fn keys_of(&self, slot: usize) -> u64 {
        if self.fills(slot) { FILLING_KEYS } else { KEYS }
    }

    /// Whether a namespace exists to fill the drive.
    fn fills(&self, slot: usize) -> bool {
        self.full && slot + 1 == self.slots.len()
    }

    /// The values of records.
    pub fn values_of(&self, new: &NewRecords) -> Values {
        new.iter().map(|(place, stamp)| (*place, value_of(*place, *stamp))).collect()
    }

    /// A command that gives these records their values is submitted.
    pub fn issue(&mut self, new: &NewRecords) -> Order {
        self.records.issue(&new.iter().map(|(place, stamp)| (Thing::Record(*place), *stamp)).collect())
    }

    /// Whether the drive may refuse a command in this way.
    fn may_refuse(&mut self, status: &Status, frees: bool) -> Result<(), Stop> {
        let fails = self.flash != Flash::Sound;
        let may = match status {
            Status::PowerLost => return Err(Stop::PowerLost),
            Status::CapacityExceeded => self.full && !frees || fails,
            Status::ReadOnly => fails,
            Status::OverLimit { .. } => true,
            _ => false,
        };
        self.refused += 1;
        if may { Ok(()) } else { Err(Stop::refused(status)) }
    }

    fn create(&mut self, host: &mut Host, slot: usize) -> Result<(), Stop> {
        self.creating.push((slot, self.logs[slot]));
        let made = match self.submit_create(host, self.logs[slot]) {
            // DRAM that a capacitor protects is scarce on some of these drives
            Err(Status::OverLimit { .. }) => {
                self.creating.push((slot, 0));
                self.submit_create(host, 0).map(|made| (made, 0))
            }
            made => made.map(|made| (made, self.logs[slot])),
        };
        let ((namespace, made), logs) = match made {
            Ok(made) => made,
            Err(status) => {
                self.may_refuse(&status, false)?;
                self.creating.clear();
                return Ok(());
            }
        };
        self.creating.clear();
        self.records.made(namespace, Some(made.done_ns));
        self.slots[slot] = Some(Made { namespace, logs });
        Ok(())
    }

    fn submit_create(&self, host: &mut Host, logs: u32) -> Result<(NamespaceId, Completion), Status> {
        let attributes = NamespaceAttributes { logs, ..NamespaceAttributes::default() };
        let mut namespace = NamespaceId::default();
        let made = host.submit(Command::CreateNamespace { attributes, namespace: &mut namespace })?;
        Ok((namespace, made))
    }
}

/// The value of a stamp: its bytes, repeated. 0 means no value.
pub(crate) fn value_of((_, number): RecordId, stamp: Stamp) -> Option<Vec<u8>> {
    if stamp == 0 {
        return None;
    }
    let most = if number < LARGE_KEYS { LARGE_BYTES } else { SMALL_BYTES };
    let bytes = match stamp {
        stamp if stamp & FILLING != 0 => FILLING_BYTES,
        stamp if stamp.is_multiple_of(16) => 0,
        stamp => 8 + stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (most - 8),
    };
    let mut value = stamp.to_le_bytes().repeat(bytes.div_ceil(8) as usize);
    value.truncate(bytes as usize);
    Some(value)
}

/// Records of a command.
pub(super) fn records_of(values: &[(RecordId, Option<Vec<u8>>)]) -> Vec<KvRecord<'_>> {
    values
        .iter()
        .map(|((namespace, number), value)| KvRecord {
            namespace: *namespace,
            key: key_of(*number),
            value: value.as_deref(),
        })
        .collect()
}

/// Keys of up to eight bytes, and longer ones.
pub(crate) fn key_of(number: u64) -> Key {
    let text =
        if number.is_multiple_of(3) { format!("a longer key {number:03}") } else { format!("k{number}") };
    Key::new(text.as_bytes()).expect("it has 2 to 16 bytes")
}
