//! A controller: a host's view of the subsystem, from the Connect of its admin queue to the end of that connection.
//!
//! Each queue is a separate connection. When that of the admin queue ends, all end; a reset ends those of the I/O queues. A
//! host disconnects its I/O queues first, and then shuts down on the admin queue.

mod properties;
mod reservation_notices;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::events::{Event, Events};
use crate::mailbox::{Mailbox, Message};
use crate::wire::feature;
use crate::wire::log_page::id;
use properties::Properties;
pub use properties::{ControllerKind, ENABLED, QUEUE_ENTRIES, VERSION, enabled_for};
use reservation_notices::ReservationNotices;

/// Maximum number of I/O queues of a controller.
pub const IO_QUEUES: u16 = 64;

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
    /// The number of the port through which it has come.
    pub port: u16,
    state: Mutex<State>,
    /// A bit for each block namespace that is attached, by slot of their table. It changes only while that does not.
    attached: AtomicU32,
    /// When the host last sent something, in milliseconds after `made`.
    heard_ms: AtomicU64,
    made: Instant,
}

/// The mutable state of a controller.
struct State {
    properties: Properties,
    /// The keep-alive timeout; 0 for none.
    keep_alive_ms: u32,
    /// Values of this controller's own features.
    features: FxHashMap<u8, u32>,
    /// The time that the host has set, in milliseconds, and when it did.
    timestamp: Option<(u64, Instant)>,
    /// I/O queues that the host requested and was granted.
    io_queues: Option<u16>,
    /// Events to report to the host.
    events: Events,
    /// What has happened to reservations.
    reservations: ReservationNotices,
    /// Its connections by queue.
    connections: FxHashMap<u16, Arc<Mailbox>>,
    has_ended: bool,
}

/// Why a queue could not be added, or no number of queues granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueRefusal {
    /// The controller is not enabled, or has ended, or has this queue already; or it has I/O queues.
    Sequence,
    /// There is no such queue.
    Number,
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
        let state = State {
            properties: Properties::new(kind, has_command_sets),
            keep_alive_ms,
            features: FxHashMap::default(),
            timestamp: None,
            io_queues: None,
            events: Events::new(warnings),
            reservations: ReservationNotices::default(),
            connections: FxHashMap::from_iter([(0, admin)]),
            has_ended: false,
        };
        let (heard_ms, made) = (AtomicU64::new(0), Instant::now());
        let attached = AtomicU32::new(0);
        Controller { id, kind, host, port: 1, state: Mutex::new(state), attached, heard_ms, made }
    }

    /// The block namespaces that are attached to it, a bit for each slot of their table.
    #[inline]
    pub fn attached(&self) -> u32 {
        self.attached.load(Ordering::Acquire)
    }

    /// Whether the block namespace of a slot is attached to it.
    pub fn has_attached(&self, slot: usize) -> bool {
        self.attached() >> slot & 1 == 1
    }

    /// Attaches or detaches the block namespace of a slot.
    pub fn set_attached(&self, slot: usize, is_attached: bool) {
        match is_attached {
            true => self.attached.fetch_or(1 << slot, Ordering::Release),
            false => self.attached.fetch_and(!(1 << slot), Ordering::Release),
        };
    }

    /// Whether it accepts commands other than Fabrics commands.
    pub fn is_ready(&self) -> bool {
        self.state.lock().properties.is_ready()
    }

    /// The host has sent something.
    pub fn hear(&self) {
        self.heard_ms.store(self.made.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// Time until the keep-alive timer expires; `None` without a timer, zero if it has expired.
    pub fn alive_for(&self) -> Option<Duration> {
        let timeout_ms = match self.keep_alive_ms() {
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
        if self.kind == ControllerKind::Discovery || queue > state.io_queues() {
            return Err(QueueRefusal::Number);
        }
        if state.has_ended || !state.properties.is_ready() || state.connections.contains_key(&queue) {
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

    /// The drive now has these critical warnings: the host is notified if it asked for such events. `numbers` are its namespaces.
    pub fn warn(&self, warnings: u8, numbers: &[u32]) {
        let mut state = self.state.lock();
        if self.kind == ControllerKind::Io
            && state.events.warn(warnings, numbers)
            && let Some(admin) = state.connections.get(&0)
        {
            admin.post(Message::Event);
        }
    }

    /// The critical warnings that the host knows of, or is about to.
    pub fn warnings(&self) -> u8 {
        self.state.lock().events.warnings()
    }

    /// These namespaces have changed for the host, which is notified if it asked for that.
    pub fn tell_changed(&self, numbers: &[u32]) {
        let mut state = self.state.lock();
        if self.kind == ControllerKind::Io
            && !numbers.is_empty()
            && state.events.change(numbers)
            && let Some(admin) = state.connections.get(&0)
        {
            admin.post(Message::Event);
        }
    }

    /// All zones have changed: the host is notified if it asked for that.
    pub fn tell_zones(&self) {
        let mut state = self.state.lock();
        state.events.change_zones();
        if let Some(admin) = state.connections.get(&0) {
            admin.post(Message::Event);
        }
    }

    /// Whether all zones have changed since the host last read the list of these.
    pub fn has_changed_zones(&self) -> bool {
        self.state.lock().events.have_zones_changed()
    }

    /// A Sanitize has ended: the host is notified.
    pub fn tell_sanitized(&self) {
        let mut state = self.state.lock();
        state.events.end_sanitize();
        if let Some(admin) = state.connections.get(&0) {
            admin.post(Message::Event);
        }
    }

    /// The namespaces are reached otherwise through its port: the host is notified if it asked for that.
    pub fn tell_access(&self) {
        let mut state = self.state.lock();
        state.events.change_access();
        if let Some(admin) = state.connections.get(&0) {
            admin.post(Message::Event);
        }
    }

    /// The drive has kept telemetry: the host is notified if it asked for that.
    pub fn tell_telemetry(&self) {
        let mut state = self.state.lock();
        state.events.keep_telemetry();
        if let Some(admin) = state.connections.get(&0) {
            admin.post(Message::Event);
        }
    }

    /// Something has happened to the reservation of a namespace: the host is notified if it wants to know.
    pub fn tell_reservation(&self, namespace: u32, kind: u8) {
        let mut state = self.state.lock();
        if state.reservations.add(namespace, kind) {
            state.events.change_reservation();
            if let Some(admin) = state.connections.get(&0) {
                admin.post(Message::Event);
            }
        }
    }

    /// What has happened to reservations, to be read and changed.
    pub fn with_reservations<T>(&self, look: impl FnOnce(&mut ReservationNotices) -> T) -> T {
        look(&mut self.state.lock().reservations)
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

    // -- features -----------------------------------------------------------------------------------------------

    /// The value of one of its own features, if the host has set it.
    pub fn feature(&self, feature: u8) -> Option<u32> {
        self.state.lock().features.get(&feature).copied()
    }

    /// Whether the host has enabled copies across namespaces (`CDFE` of Host Behaviour).
    pub fn copies_across(&self) -> bool {
        self.feature(feature::HOST_BEHAVIOUR)
            .is_some_and(|behaviour| behaviour >> 24 >> feature::COPY_ACROSS & 1 == 1)
    }

    /// Sets one of its own features.
    pub fn set_feature(&self, feature: u8, value: u32) {
        self.state.lock().features.insert(feature, value);
    }

    /// The time in milliseconds: that which the host has set and what has passed since, and true; or the age of the controller.
    pub fn timestamp(&self) -> (u64, bool) {
        let set = self.state.lock().timestamp;
        let (from_ms, at) = set.unwrap_or((0, self.made));
        (from_ms + at.elapsed().as_millis() as u64, set.is_some())
    }

    /// Sets the time, in milliseconds.
    pub fn set_timestamp(&self, milliseconds: u64) {
        self.state.lock().timestamp = Some((milliseconds, Instant::now()));
    }

    /// The keep-alive timeout; 0 for none.
    pub fn keep_alive_ms(&self) -> u32 {
        self.state.lock().keep_alive_ms
    }

    /// Sets the keep-alive timeout.
    pub fn set_keep_alive_ms(&self, keep_alive_ms: u32) {
        self.state.lock().keep_alive_ms = keep_alive_ms;
    }

    /// I/O queues that the host may have.
    pub fn io_queues(&self) -> u16 {
        self.state.lock().io_queues()
    }

    /// Grants up to this many I/O queues, at least one. Returns how many.
    pub fn grant_io_queues(&self, asked: u16) -> Result<u16, QueueRefusal> {
        let mut state = self.state.lock();
        if state.has_io_connections() {
            return Err(QueueRefusal::Sequence);
        }
        let granted = asked.min(IO_QUEUES);
        assert_ne!(granted, 0, "controller {} grants none of {asked} I/O queues", self.id);
        state.io_queues = Some(granted);
        state.assert_invariants(self.id);
        Ok(granted)
    }

    // -- log pages ----------------------------------------------------------------------------------------------

    /// The host has read a log page, and not asked to retain its event.
    pub fn was_read(&self, log_page: u8) {
        let mut state = self.state.lock();
        state.events.was_read(log_page);
        if log_page == id::RESERVATIONS && state.reservations.was_read() {
            state.events.change_reservation();
        }
    }

    /// The namespaces that have changed since the host last read the list of changes, in order.
    pub fn changed_namespaces(&self) -> Vec<u32> {
        self.state.lock().events.changed_namespaces().to_vec()
    }

    // -- properties ---------------------------------------------------------------------------------------------

    /// The value of a property; `None` if there is no such property of this size.
    pub fn property(&self, offset: u32, is_long: bool) -> Option<u64> {
        self.state.lock().properties.get(offset, is_long)
    }

    /// Sets the configuration, the only writable property. Enabled with one that it does not support, the controller never
    /// becomes ready, and says so in its status until it is reset.
    pub fn configure(&self, value: u32) -> Change {
        let mut state = self.state.lock();
        let was_ready = state.properties.is_ready();
        let announces_end = state.properties.configure(value);
        if was_ready && !state.properties.is_ready() {
            // a reset
            state.end_queues(|queue| queue != 0);
        }
        state.assert_invariants(self.id);
        if announces_end { Change::Shutdown } else { Change::None }
    }

    /// Whether the host selected all command sets, and so names one in its commands.
    pub fn selects_command_sets(&self) -> bool {
        self.state.lock().properties.selects_command_sets()
    }

    /// Everything is durable: the shutdown that the host announced is complete.
    pub fn shutdown_done(&self) {
        self.state.lock().properties.shutdown_done();
    }
}

impl State {
    /// I/O queues that the host may have.
    fn io_queues(&self) -> u16 {
        self.io_queues.unwrap_or(IO_QUEUES)
    }

    /// Whether it has queues besides the admin queue.
    fn has_io_connections(&self) -> bool {
        self.connections.keys().any(|&queue| queue != 0)
    }

    /// Checks what its parts say about each other: I/O queues need a controller that is ready, and one that has ended has no
    /// queues.
    fn assert_invariants(&self, id: u16) {
        let queues = self.connections.len();
        assert!(
            self.properties.is_ready() || !self.has_io_connections(),
            "controller {id} has I/O queues, but is not ready"
        );
        assert!(!self.has_ended || queues == 0, "controller {id} has ended, and has {queues} queues");
        assert!(
            queues <= usize::from(self.io_queues()) + 1,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::fabrics::property;

    fn controller() -> (Controller, Arc<Mailbox>) {
        let admin = Arc::new(Mailbox::new(|| ()));
        let host = Peer { id: [1; 16], name: "host".to_owned() };
        (Controller::new(1, ControllerKind::Io, host, 0, Arc::clone(&admin), 0, true), admin)
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
    fn the_number_of_queues_is_agreed_before_there_are_any() {
        let (controller, _admin) = controller();
        let mailbox = Arc::new(Mailbox::new(|| ()));
        controller.configure(ENABLED);
        assert_eq!(controller.io_queues(), IO_QUEUES);
        assert_eq!(controller.grant_io_queues(IO_QUEUES + 1), Ok(IO_QUEUES));
        assert_eq!(controller.grant_io_queues(1), Ok(1));
        assert_eq!(controller.add_queue(2, Arc::clone(&mailbox)), Err(QueueRefusal::Number));
        assert_eq!(controller.add_queue(1, Arc::clone(&mailbox)), Ok(()));
        assert_eq!(controller.grant_io_queues(2), Err(QueueRefusal::Sequence));
        controller.remove_queue(1, &mailbox);
        assert_eq!(controller.grant_io_queues(2), Ok(2));
    }
}
