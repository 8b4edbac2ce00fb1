//! A controller: a host's view of the subsystem, from the Connect of its admin queue to the end of that connection.
//!
//! Each queue is a separate connection. When that of the admin queue ends, all end; a reset ends those of the I/O queues. A
//! host disconnects its I/O queues first, and then shuts down on the admin queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::events::{Event, Events};
use crate::mailbox::{Mailbox, Message};
use crate::wire::command::{Completion, Submission};
use crate::wire::fabrics::property;
use crate::wire::feature;

/// Maximum number of entries of a queue (`MQES` is one less).
pub const QUEUE_ENTRIES: u16 = 128;
/// Maximum number of I/O queues of a controller.
pub const IO_QUEUES: u16 = 64;
/// The supported version of the Base Specification: 2.0.
pub const VERSION: u32 = 0x0002_0000;
/// Time limit for becoming ready and for shutting down, in units of 500 ms.
const READY_TIMEOUT: u64 = 30;

/// The kind of controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControllerKind {
    /// It has namespaces.
    Io,
    /// It reports where subsystems are.
    Discovery,
}

/// The host of a controller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Peer {
    /// Its identifier, which is never zero.
    pub id: [u8; 16],
    /// Its name.
    pub name: String,
}

/// A controller.
pub struct Controller {
    /// The controller's identifier (`CNTLID`).
    pub id: u16,
    /// Whether it is an I/O or a discovery controller.
    pub kind: ControllerKind,
    /// The host that connected.
    pub host: Peer,
    /// Whether the host may select other command sets than that of blocks.
    has_command_sets: bool,
    /// Its mutable state.
    pub state: Mutex<State>,
    /// When the host last sent something, in milliseconds after `made`.
    heard_ms: AtomicU64,
    made: Instant,
}

/// The mutable state of a controller.
#[derive(Default)]
pub struct State {
    /// `CC`.
    configuration: u32,
    /// `CSTS`.
    status: u32,
    /// The keep-alive timeout; 0 for none.
    pub keep_alive_ms: u32,
    /// Values of this controller's own features.
    pub features: FxHashMap<u8, u32>,
    /// I/O queues that the host requested and was granted.
    pub io_queues: Option<u16>,
    /// Events to report to the host.
    pub events: Events,
    /// Its connections by queue.
    connections: FxHashMap<u16, Arc<Mailbox>>,
    has_ended: bool,
}

/// Why a queue could not be added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueRefusal {
    /// The controller is not enabled, or has ended, or has this queue already.
    Sequence,
    /// There is no such queue.
    Number,
}

const ENABLE: u32 = 1;
const COMMAND_SET: u32 = 7 << 4;
/// Memory pages of more than 4 KiB, or an arbitration other than round robin: neither exists.
const PAGES_AND_ARBITRATION: u32 = 0x7f << 7;
const SHUTDOWN: u32 = 3 << 14;
const ENTRY_BYTES: u32 = 0xff << 16;
const READY: u32 = 1;
/// The controller was enabled with a configuration that it does not support (`CFS`).
const FATAL: u32 = 1 << 1;
const SHUTDOWN_STATUS: u32 = 3 << 2;
const SHUTDOWN_DONE: u32 = 2 << 2;

/// The bit of `CAP` that offers other command sets beside that of blocks.
const SEVERAL_COMMAND_SETS: u32 = 37 + 6;
/// "All supported I/O command sets" in the configuration.
const ALL_COMMAND_SETS: u32 = 6 << 4;
/// Sizes of queue entries as powers of two: 64 bytes of a command, 16 of a completion.
const STANDARD_ENTRY_BYTES: u32 = 6 << 16 | 4 << 20;

const _: () = assert!(
    STANDARD_ENTRY_BYTES & !ENTRY_BYTES == 0 && ALL_COMMAND_SETS & !COMMAND_SET == 0,
    "what is offered fits into the fields of the configuration"
);
const _: () = assert!(
    1 << (STANDARD_ENTRY_BYTES >> 16 & 0xf) == size_of::<Submission>()
        && 1 << (STANDARD_ENTRY_BYTES >> 20) == size_of::<Completion>(),
    "entries of queues have the sizes of commands and completions"
);

/// The configuration that enables a controller for the NVM command set.
pub const ENABLED: u32 = ENABLE | STANDARD_ENTRY_BYTES;

/// The configuration that enables a controller with these capabilities (`CAP`) for all of its command sets, as Linux does.
pub fn enabled_for(capabilities: u64) -> u32 {
    if capabilities >> SEVERAL_COMMAND_SETS & 1 == 1 { ENABLED | ALL_COMMAND_SETS } else { ENABLED }
}

/// What a change of the configuration requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing has to be done.
    None,
    /// The host announces a shutdown: everything must become durable.
    Shutdown,
}

impl Controller {
    /// A controller with its admin queue, on a drive with these critical warnings. `has_command_sets` says whether there are
    /// namespaces of a command set other than that of blocks.
    pub fn new(
        id: u16,
        kind: ControllerKind,
        host: Peer,
        keep_alive_ms: u32,
        admin: Arc<Mailbox>,
        warnings: u8,
        has_command_sets: bool,
    ) -> Controller {
        assert_ne!(
            host.id, [0; 16],
            "controller {id} is that of a host without an identifier: {}",
            host.name
        );
        let connections = FxHashMap::from_iter([(0, admin)]);
        let events = Events::new(warnings);
        let state = Mutex::new(State { keep_alive_ms, events, connections, ..State::default() });
        let has_command_sets = has_command_sets && kind == ControllerKind::Io;
        Controller {
            id,
            kind,
            host,
            has_command_sets,
            state,
            heard_ms: AtomicU64::new(0),
            made: Instant::now(),
        }
    }

    /// Whether it accepts commands other than Fabrics commands.
    pub fn is_ready(&self) -> bool {
        self.state.lock().status & READY != 0
    }

    /// The host has sent something.
    pub fn hear(&self) {
        self.heard_ms.store(self.made.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Time until the keep-alive timer expires; `None` without a timer, zero if it has expired.
    pub fn alive_for(&self) -> Option<Duration> {
        let timeout_ms = match self.state.lock().keep_alive_ms {
            0 => return None,
            timeout_ms => u64::from(timeout_ms),
        };
        let silent_ms =
            (self.made.elapsed().as_millis() as u64).saturating_sub(self.heard_ms.load(Ordering::Relaxed));
        Some(Duration::from_millis(timeout_ms.saturating_sub(silent_ms)))
    }

    /// Adds the connection of an I/O queue.
    pub fn add_queue(&self, queue: u16, mailbox: Arc<Mailbox>) -> Result<(), QueueRefusal> {
        let mut state = self.state.lock();
        if self.kind == ControllerKind::Discovery || queue > state.io_queues.unwrap_or(IO_QUEUES) {
            return Err(QueueRefusal::Number);
        }
        if state.has_ended || state.status & READY == 0 || state.connections.contains_key(&queue) {
            return Err(QueueRefusal::Sequence);
        }
        assert_ne!(queue, 0, "the admin queue of controller {} is added as an I/O queue", self.id);
        state.connections.insert(queue, mailbox);
        state.assert_invariants(self.id);
        Ok(())
    }

    /// The connection of a queue has ended.
    pub fn remove_queue(&self, queue: u16, mailbox: &Arc<Mailbox>) {
        let mut state = self.state.lock();
        if state.connections.get(&queue).is_some_and(|there| Arc::ptr_eq(there, mailbox)) {
            state.connections.remove(&queue);
        }
    }

    /// The connection of a queue.
    pub fn connection(&self, queue: u16) -> Option<Arc<Mailbox>> {
        self.state.lock().connections.get(&queue).cloned()
    }

    /// The drive now has these critical warnings: the host is notified if it asked for such events.
    pub fn warn(&self, warnings: u8) {
        let mut state = self.state.lock();
        if self.kind == ControllerKind::Io
            && state.events.warn(warnings)
            && let Some(admin) = state.connections.get(&0)
        {
            admin.post(Message::Event);
        }
    }

    /// Takes an event that the host asked for and that may be reported now.
    pub fn next_event(&self) -> Option<Event> {
        let mut state = self.state.lock();
        let asked = state.features.get(&feature::EVENTS).copied().unwrap_or(0);
        state.events.next(asked)
    }

    /// Ends all its connections.
    pub fn end(&self) {
        let mut state = self.state.lock();
        state.has_ended = true;
        state.end_queues(|_| true);
        state.assert_invariants(self.id);
    }

    /// The value of a property; `None` if there is no such property of this size.
    pub fn property(&self, offset: u32, is_long: bool) -> Option<u64> {
        let state = self.state.lock();
        let value = match (offset, is_long) {
            (property::CAPABILITIES, true) => capabilities(self.has_command_sets),
            (property::VERSION, false) => VERSION.into(),
            (property::CONFIGURATION, false) => state.configuration.into(),
            (property::STATUS, false) => state.status.into(),
            (property::SUBSYSTEM_RESET, false) => 0,
            (property::READY_TIMEOUTS, false) => READY_TIMEOUT << 16 | READY_TIMEOUT,
            _ => return None,
        };
        assert!(
            is_long || value <= u32::MAX.into(),
            "property {offset:#x} has four bytes, but is {value:#x}"
        );
        Some(value)
    }

    /// Sets the configuration, the only writable property. Enabled with one that it does not support, the controller never
    /// becomes ready, and says so in its status until it is reset.
    pub fn configure(&self, value: u32) -> Change {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.configuration, value);
        match (before & ENABLE != 0, value & ENABLE != 0) {
            (false, true) => state.status = if self.supports(value) { READY } else { FATAL },
            (true, false) => {
                // a reset
                state.status = 0;
                state.end_queues(|queue| queue != 0);
            }
            _ => {}
        }
        state.assert_invariants(self.id);
        let announces_end = value & SHUTDOWN != 0 && before & SHUTDOWN == 0;
        if announces_end { Change::Shutdown } else { Change::None }
    }

    /// Whether it can be enabled like this (Base, section 3.1.3.5). The sizes of the entries of I/O queues do not matter
    /// to a discovery controller, which has none.
    fn supports(&self, configuration: u32) -> bool {
        let is_set = match configuration & COMMAND_SET {
            0 => true,
            ALL_COMMAND_SETS => self.has_command_sets,
            _ => false,
        };
        let has_sizes =
            configuration & ENTRY_BYTES == STANDARD_ENTRY_BYTES || self.kind == ControllerKind::Discovery;
        is_set && has_sizes && configuration & PAGES_AND_ARBITRATION == 0
    }

    /// Whether the host selected all command sets, and so names one in its commands.
    pub fn selects_command_sets(&self) -> bool {
        self.state.lock().configuration & COMMAND_SET == ALL_COMMAND_SETS
    }

    /// Everything is durable: the shutdown that the host announced is complete.
    pub fn shutdown_done(&self) {
        let mut state = self.state.lock();
        state.status = state.status & !SHUTDOWN_STATUS | SHUTDOWN_DONE;
    }
}

impl State {
    /// Whether it has queues besides the admin queue.
    pub fn has_io_connections(&self) -> bool {
        self.connections.keys().any(|&queue| queue != 0)
    }

    /// Checks what its parts say about each other: I/O queues need a controller that is ready, and one that has ended has no
    /// queues.
    fn assert_invariants(&self, id: u16) {
        let (status, queues) = (self.status, self.connections.len());
        assert_ne!(status & (READY | FATAL), READY | FATAL, "controller {id} is ready, and failed");
        assert!(
            status & READY != 0 || !self.has_io_connections(),
            "controller {id} has I/O queues, but is not ready"
        );
        assert!(!self.has_ended || queues == 0, "controller {id} has ended, and has {queues} queues");
        assert!(
            queues <= usize::from(self.io_queues.unwrap_or(IO_QUEUES)) + 1,
            "controller {id} has {queues} queues, and {:?} were granted",
            self.io_queues
        );
    }

    fn end_queues(&mut self, which: impl Fn(u16) -> bool) {
        self.connections.retain(|&queue, mailbox| {
            let ends = which(queue);
            if ends {
                mailbox.post(Message::End);
            }
            !ends
        });
    }
}

/// `CAP`: queues contiguous, the timeout, the NVM command set and perhaps others, memory pages of 4 KiB, ready with media.
fn capabilities(has_command_sets: bool) -> u64 {
    let entries = u64::from(QUEUE_ENTRIES - 1);
    let command_sets = 1 << 37 | u64::from(has_command_sets) << SEVERAL_COMMAND_SETS;
    entries | 1 << 16 | READY_TIMEOUT << 24 | command_sets | 1 << 59
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller_of(kind: ControllerKind, has_command_sets: bool) -> (Controller, Arc<Mailbox>) {
        let admin = Arc::new(Mailbox::new(|| ()));
        let host = Peer { id: [1; 16], name: "host".to_owned() };
        (Controller::new(1, kind, host, 0, Arc::clone(&admin), 0, has_command_sets), admin)
    }

    fn controller() -> (Controller, Arc<Mailbox>) {
        controller_of(ControllerKind::Io, true)
    }

    #[test]
    fn queues_come_after_enabling_and_go_with_a_reset() {
        let (controller, admin) = controller();
        let mailbox = Arc::new(Mailbox::new(|| ()));
        assert_eq!(controller.add_queue(1, Arc::clone(&mailbox)), Err(QueueRefusal::Sequence));
        assert_eq!(controller.configure(ENABLED | 6 << 4), Change::None);
        assert_eq!(controller.property(property::STATUS, false), Some(1));
        assert_eq!(controller.add_queue(1, Arc::clone(&mailbox)), Ok(()));
        assert_eq!(controller.add_queue(1, Arc::clone(&mailbox)), Err(QueueRefusal::Sequence));
        assert_eq!(controller.add_queue(IO_QUEUES + 1, Arc::clone(&mailbox)), Err(QueueRefusal::Number));
        assert_eq!(controller.configure(0), Change::None);
        assert!(matches!(mailbox.take(), Some(Message::End)));
        assert!(admin.take().is_none(), "the admin queue outlives a reset");
        assert!(!controller.is_ready());
    }

    #[test]
    fn a_shutdown_is_announced_once_and_told_when_done() {
        let (controller, _admin) = controller();
        controller.configure(ENABLED);
        assert_eq!(controller.configure(ENABLED | 1 << 14), Change::Shutdown);
        assert_eq!(controller.configure(ENABLED | 1 << 14), Change::None);
        controller.shutdown_done();
        assert_eq!(controller.property(property::STATUS, false), Some(1 | 2 << 2));
    }

    #[test]
    fn what_is_not_supported_leaves_a_controller_that_is_not_ready() {
        let (blocks, records) = (controller_of(ControllerKind::Io, false).0, controller().0);
        let discovery = controller_of(ControllerKind::Discovery, true).0;
        // bit 0 of the status: ready; bit 1: fatal
        for (configuration, of_blocks, of_records, of_discovery) in [
            (0x46_0001, 1, 1, 1),
            (0x46_0061, 2, 1, 2), // all command sets
            (0x46_0011, 2, 2, 2), // a command set that does not exist
            (0x46_0071, 2, 2, 2), // no I/O commands at all
            (0x00_0001, 2, 2, 1), // entries of one byte
            (0x45_0001, 2, 2, 1), // commands of 32 bytes
            (0x36_0001, 2, 2, 1), // completions of 8 bytes
            (0x46_0281, 2, 2, 2), // pages of 128 KiB
            (0x46_0801, 2, 2, 2), // weighted arbitration
        ] {
            for (controller, status) in
                [(&blocks, of_blocks), (&records, of_records), (&discovery, of_discovery)]
            {
                assert_eq!(controller.configure(configuration), Change::None);
                assert_eq!(controller.property(property::STATUS, false), Some(status), "{configuration:#x}");
                assert_eq!(controller.property(property::CONFIGURATION, false), Some(configuration.into()));
                assert_eq!(controller.is_ready(), status == 1);
                controller.configure(0);
                assert_eq!(controller.property(property::STATUS, false), Some(0));
            }
        }
    }

    #[test]
    fn several_command_sets_are_offered_only_if_there_are_namespaces_of_them() {
        let offered = |kind, has_command_sets| {
            let (controller, _admin) = controller_of(kind, has_command_sets);
            controller.property(property::CAPABILITIES, true).unwrap() >> 37 & 0xff
        };
        assert_eq!(offered(ControllerKind::Io, true), 1 | 1 << 6);
        assert_eq!(offered(ControllerKind::Io, false), 1);
        assert_eq!(offered(ControllerKind::Discovery, true), 1);
    }

    #[test]
    fn properties_have_one_size() {
        let (controller, _admin) = controller();
        assert_eq!(controller.property(property::CAPABILITIES, false), None);
        assert_eq!(controller.property(property::VERSION, true), None);
        assert_eq!(controller.property(0x1000, false), None);
        assert_eq!(controller.property(property::CAPABILITIES, true).unwrap() & 0xffff, 127);
    }
}
