//! The persistent event log (Base, section 5.16.1.14): what has happened to the drive, the latest first, as much as fits.
//!
//! The events are a record beside the table of namespaces, so they outlive power cuts and the server. A drive without a namespace of its
//! own gets none for a log alone: until something else needs one, the log is that of this server.
//!
//! A host reads a copy that was made for its controller (a reporting context).

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::failure::Failure;
use crate::namespaces::{Entry, Kept, TableError};
use crate::subsystem::Subsystem;
use crate::wire::identify::empty;
use crate::wire::log_page::id;
use crate::wire::text;

/// The record with the events.
const EVENTS: Kept = Kept { key: b"events", magic: *b"TANTEVNT", what: "the persistent event log" };
/// Bytes of all events that are kept: the oldest go.
const LOG_BYTES: usize = 12 << 10;
const HEADER_BYTES: usize = 512;
/// The longest that the log can be, in units of 64 KiB (`PELS`).
pub const LOG_SIZE: u32 = 1;

const _: () = assert!(HEADER_BYTES + LOG_BYTES <= (LOG_SIZE as usize) << 16, "hosts know how long it can be");

/// Types of events.
mod kind {
    pub const SMART: u8 = 0x01;
    pub const TIMESTAMP: u8 = 0x03;
    pub const POWER_ON: u8 = 0x04;
    pub const NAMESPACE: u8 = 0x06;
    pub const FORMAT_BEGUN: u8 = 0x07;
    pub const FORMAT_DONE: u8 = 0x08;
    pub const SANITIZE_BEGUN: u8 = 0x09;
    pub const SANITIZE_DONE: u8 = 0x0a;
    pub const ALL: [u8; 8] =
        [SMART, TIMESTAMP, POWER_ON, NAMESPACE, FORMAT_BEGUN, FORMAT_DONE, SANITIZE_BEGUN, SANITIZE_DONE];
}

/// No controller, and no port.
const NO_CONTROLLER: u16 = 0xffff;
const NO_PORT: u8 = 3;

/// What precedes the events.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct LogHeader {
    page: u8,
    reserved: [u8; 3],
    events: U32,
    /// Of all, with this header.
    bytes: U64,
    revision: u8,
    reserved2: u8,
    /// Of this header from byte 20 on.
    header_bytes: U16,
    timestamp: U64,
    power_on_hours: [u8; 16],
    power_cycles: U64,
    vendor: U16,
    subsystem_vendor: U16,
    serial: [u8; 20],
    model: [u8; 40],
    subsystem_name: [u8; 256],
    generation: U16,
    context: U32,
    reserved3: [u8; 102],
    /// A bit for each type of event.
    supported: [u8; 32],
}

/// What precedes the data of an event.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct EventHeader {
    kind: u8,
    revision: u8,
    /// Bytes that follow in this header.
    header_bytes: u8,
    port_kind: u8,
    controller: U16,
    timestamp: U64,
    port: U16,
    reserved: [u8; 4],
    vendor_bytes: U16,
    data_bytes: U16,
}

/// A namespace that was created or deleted.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Changed {
    dword: U32,
    reserved: [u8; 4],
    size: U64,
    reserved2: [u8; 8],
    capacity: U64,
    format: u8,
    protection: u8,
    sharing: u8,
    reserved3: u8,
    access_group: U32,
    set: U16,
    reserved4: U16,
    namespace: U32,
}

/// A controller that came with power.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PowerOn {
    firmware: [u8; 8],
    controller: U16,
    activation: u8,
    in_progress: u8,
    reserved: [u8; 12],
    power_cycle: U32,
    on_ms: U64,
    timestamp: U64,
}

/// Something that has happened.
#[derive(Clone, Debug)]
pub enum Happened<'a> {
    /// The drive has power; its health is this.
    PowerOn(&'a [u8]),
    /// A host has set the time; before, it was this.
    Timestamp(u64),
    /// A namespace was created.
    Created(&'a Entry),
    /// The namespace with this number was deleted, or all.
    Deleted(u32),
    /// A format began: its namespace and dword 10.
    FormatBegun(u32, u32),
    /// A format has ended: its namespace, and its status.
    FormatDone(u32, u16),
    /// A Sanitize began: what can be done, and dwords 10 and 11.
    SanitizeBegun([u32; 3]),
    /// A Sanitize has ended: progress and status.
    SanitizeDone(u16, u16),
}

/// The log.
#[derive(Default)]
pub struct PersistentEvents(Mutex<State>);

#[derive(Default)]
struct State {
    /// The latest first.
    events: VecDeque<Vec<u8>>,
    bytes: usize,
    /// How often a context was established.
    generation: u16,
    /// The time that a host has set last, and when.
    clock: Option<(u64, Instant)>,
    /// Logs as they were when a controller asked.
    contexts: FxHashMap<u16, Vec<u8>>,
}

impl Happened<'_> {
    /// Its type and data.
    fn encode(&self, subsystem: &Subsystem, timestamp: u64) -> (u8, Vec<u8>) {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        match *self {
            Happened::PowerOn(_) => {
                let mut on: PowerOn = empty();
                on.firmware = text(env!("CARGO_PKG_VERSION"), b' ');
                on.controller = NO_CONTROLLER.into();
                on.power_cycle = (power_cycles(subsystem) as u32).into();
                on.on_ms = (subsystem.age_seconds() * 1000).into();
                on.timestamp = timestamp.into();
                (kind::POWER_ON, on.as_bytes().to_vec())
            }
            Happened::Timestamp(before) => {
                let since_ms = subsystem.age_seconds() * 1000;
                (kind::TIMESTAMP, [before.to_le_bytes(), since_ms.to_le_bytes()].concat())
            }
            Happened::Created(entry) => {
                let mut changed: Changed = empty();
                let blocks = entry.space().blocks;
                (changed.size, changed.capacity) = (blocks.into(), blocks.into());
                (changed.format, changed.sharing) = (entry.format, entry.is_shared.into());
                changed.namespace = entry.number.into();
                (kind::NAMESPACE, changed.as_bytes().to_vec())
            }
            Happened::Deleted(number) => {
                let mut changed: Changed = empty();
                (changed.dword, changed.namespace) = (1.into(), number.into());
                (kind::NAMESPACE, changed.as_bytes().to_vec())
            }
            Happened::FormatBegun(number, dword) => (kind::FORMAT_BEGUN, words(&[number, 0, dword])),
            Happened::FormatDone(number, status) => {
                (kind::FORMAT_DONE, words(&[number, u32::from(status != 0) << 8, status.into()]))
            }
            Happened::SanitizeBegun(dwords) => (kind::SANITIZE_BEGUN, words(&dwords)),
            Happened::SanitizeDone(progress, status) => {
                (kind::SANITIZE_DONE, words(&[u32::from(status) << 16 | u32::from(progress), 0]))
            }
        }
    }
}

/// As the health log tells them.
fn power_cycles(subsystem: &Subsystem) -> u64 {
    subsystem.queue.drive().lock().smart().counters.unsafe_shutdowns + 1
}

impl State {
    /// Milliseconds as the last host has set them, or since the server began.
    fn timestamp(&self, subsystem: &Subsystem) -> u64 {
        match self.clock {
            Some((from_ms, at)) => from_ms + at.elapsed().as_millis() as u64,
            None => subsystem.age_seconds() * 1000,
        }
    }

    fn push(&mut self, kind: u8, controller: u16, timestamp: u64, data: &[u8]) {
        let mut header: EventHeader = empty();
        (header.kind, header.revision) = (kind, 1);
        header.header_bytes = (size_of::<EventHeader>() - 3) as u8;
        header.port_kind = NO_PORT;
        header.controller = controller.into();
        header.timestamp = timestamp.into();
        header.data_bytes = (data.len() as u16).into();
        let event = [header.as_bytes(), data].concat();
        self.bytes += event.len();
        self.events.push_front(event);
        while self.bytes > LOG_BYTES
            && let Some(oldest) = self.events.pop_back()
        {
            self.bytes -= oldest.len();
        }
        assert_eq!(
            self.bytes,
            self.events.iter().map(Vec::len).sum::<usize>(),
            "the bytes of {} events, and those counted",
            self.events.len()
        );
    }

    fn log(&self, subsystem: &Subsystem) -> Vec<u8> {
        let mut header: LogHeader = empty();
        header.page = id::PERSISTENT_EVENTS;
        header.events = (self.events.len() as u32).into();
        header.bytes = ((HEADER_BYTES + self.bytes) as u64).into();
        header.revision = 3;
        header.header_bytes = ((HEADER_BYTES - 20) as u16).into();
        header.timestamp = self.timestamp(subsystem).into();
        let hours = u128::from(subsystem.age_seconds() / 3600);
        header.power_on_hours = hours.to_le_bytes();
        header.power_cycles = power_cycles(subsystem).into();
        header.serial = text(&subsystem.settings.serial, b' ');
        header.model = text("Tantalum", b' ');
        header.subsystem_name = text(&subsystem.settings.name, 0);
        header.generation = self.generation.into();
        for kind in kind::ALL {
            header.supported[usize::from(kind) / 8] |= 1 << (kind % 8);
        }
        let mut log = header.as_bytes().to_vec();
        log.extend(self.events.iter().flatten());
        log.resize(log.len().next_multiple_of(4), 0);
        log
    }
}

/// The events of a record, the latest first.
fn events_of(mut value: &[u8]) -> Option<VecDeque<Vec<u8>>> {
    let mut events = VecDeque::new();
    while !value.is_empty() {
        let header = EventHeader::ref_from_prefix(value).ok()?.0;
        let bytes = size_of::<EventHeader>() + usize::from(header.data_bytes.get());
        let (event, rest) = value.split_at_checked(bytes)?;
        events.push_back(event.to_vec());
        value = rest;
    }
    Some(events)
}

impl PersistentEvents {
    /// Reads the log of the drive again. One that has none keeps what this server knows.
    ///
    /// # Errors
    /// Those of reading it, and if it is damaged.
    pub fn load(&self, subsystem: &Subsystem) -> Result<(), TableError> {
        let Some(value) = subsystem.namespaces.kept_value(&subsystem.queue, &EVENTS)? else { return Ok(()) };
        let events = events_of(&value).ok_or_else(|| EVENTS.damaged())?;
        let mut state = self.0.lock();
        (state.bytes, state.events) = (value.len(), events);
        state.contexts.clear();
        Ok(())
    }

    /// Something has happened, through a controller or not. If the drive has no room for it, or no power, it is known until the server
    /// ends.
    pub fn add(&self, subsystem: &Subsystem, controller: Option<u16>, happened: &Happened<'_>) {
        let timestamp = self.0.lock().timestamp(subsystem);
        let (kind, data) = happened.encode(subsystem, timestamp);
        let controller = controller.unwrap_or(NO_CONTROLLER);
        let value: Vec<u8> = {
            let mut state = self.0.lock();
            state.push(kind, controller, timestamp, &data);
            if let Happened::PowerOn(health) = happened {
                state.push(kind::SMART, controller, timestamp, health);
            }
            state.events.iter().flatten().copied().collect()
        };
        let _ = subsystem.namespaces.keep(&subsystem.queue, &EVENTS, &value, false);
    }

    /// A host has set the time, in milliseconds.
    pub fn set_clock(&self, milliseconds: u64) {
        self.0.lock().clock = Some((milliseconds, Instant::now()));
    }

    /// The log of a controller by the action of Get Log Page: 0 as it was when its context was established, 1 establishes one, 2 releases
    /// it, 3 establishes one and has the header alone.
    ///
    /// # Errors
    /// Command Sequence Error for a context that is not there, or is.
    pub fn read(&self, subsystem: &Subsystem, controller: u16, action: u8) -> Result<Vec<u8>, Failure> {
        let mut state = self.0.lock();
        match action {
            0 => state.contexts.get(&controller).cloned().ok_or(Failure::SEQUENCE),
            1 | 3 if state.contexts.contains_key(&controller) => Err(Failure::SEQUENCE),
            1 | 3 => {
                state.generation = state.generation.wrapping_add(1);
                let mut log = state.log(subsystem);
                state.contexts.insert(controller, log.clone());
                log.truncate(if action == 3 { HEADER_BYTES } else { log.len() });
                Ok(log)
            }
            2 => {
                state.contexts.remove(&controller);
                Ok(Vec::new())
            }
            _ => Err(Failure::INVALID_FIELD),
        }
    }

    /// A controller has ended, and its context with it.
    pub fn end(&self, controller: u16) {
        self.0.lock().contexts.remove(&controller);
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn layouts_are_the_standards() {
        assert_eq!((size_of::<LogHeader>(), offset_of!(LogHeader, supported)), (512, 480));
        assert_eq!((offset_of!(LogHeader, serial), offset_of!(LogHeader, generation)), (56, 372));
        assert_eq!((size_of::<EventHeader>(), offset_of!(EventHeader, data_bytes)), (24, 22));
        assert_eq!((size_of::<Changed>(), offset_of!(Changed, namespace)), (48, 44));
        assert_eq!((size_of::<PowerOn>(), offset_of!(PowerOn, power_cycle)), (44, 24));
    }

    #[test]
    fn the_oldest_events_go_and_the_others_are_read_as_they_were() {
        let mut state = State::default();
        for number in 0..2000_u32 {
            state.push(kind::FORMAT_BEGUN, 1, number.into(), &vec![0; number as usize % 60]);
            assert!(state.bytes <= LOG_BYTES);
        }
        let value: Vec<u8> = state.events.iter().flatten().copied().collect();
        assert_eq!(events_of(&value).as_ref(), Some(&state.events));
        assert!(state.events.len() > 200);
        let latest = EventHeader::ref_from_prefix(&state.events[0]).unwrap().0;
        assert_eq!(latest.timestamp.get(), 1999);
        assert_eq!(events_of(&value[..value.len() - 1]), None);
    }
}
