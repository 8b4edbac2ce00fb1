//! Asynchronous events of a controller (Base, section 5.2).
//!
//! An event waits until the host has enabled events of its kind (Set Features) and has an outstanding Asynchronous Event
//! Request. Once an event has been reported, further ones of its type wait until the host has read the log page that it
//! names. No event is lost meanwhile.

use tantalum::Device;

use crate::wire::log_page::id;

/// What may be reported to a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The drive accepts no more writes: it is worn out, or its host failed.
    ReadOnly,
    /// Fewer spare blocks are left than the threshold.
    SpareLow,
    /// A Sanitize has ended.
    Sanitized,
    /// The drive has kept telemetry.
    Telemetry,
    /// Something has happened to a reservation.
    Reservation,
    /// Attributes of namespaces have changed, or which of them the controller has.
    Namespaces,
    /// Zones have changed their state without a command that does so.
    Zones,
    /// Namespaces are reached otherwise.
    Access,
}

/// Bits of the critical warning in the SMART log page, which also enable its events.
pub mod warning {
    /// Fewer spare blocks are left than the threshold.
    pub const SPARE_LOW: u8 = 1 << 0;
    /// The drive accepts no more writes.
    pub const READ_ONLY: u8 = 1 << 3;
}

/// The warnings of the SMART log page.
pub fn critical_warning(device: &Device) -> u8 {
    let smart = device.smart();
    let read_only = smart.read_only || device.refuses_changes().is_some();
    let is_low = smart.available_spare_percent < smart.available_spare_threshold_percent;
    (u8::from(is_low) * warning::SPARE_LOW) | (u8::from(read_only) * warning::READ_ONLY)
}

/// The bit that enables notices of namespaces, in the feature and in Identify (`OAES`).
pub const NAMESPACE_NOTICES: u32 = 1 << 8;

const _: () = assert!(
    NAMESPACE_NOTICES & (warning::SPARE_LOW | warning::READ_ONLY) as u32 == 0,
    "a host enables notices and warnings separately"
);

/// As [`NAMESPACE_NOTICES`], of telemetry that the drive has kept.
pub const TELEMETRY_NOTICES: u32 = 1 << 10;

/// As [`NAMESPACE_NOTICES`], of how namespaces are reached, if there are several ports.
pub const ACCESS_NOTICES: u32 = 1 << 11;

/// As [`NAMESPACE_NOTICES`], of zones that have changed, if there are some.
pub const ZONE_NOTICES: u32 = 1 << 27;

/// Valid values of the feature on every drive: critical warnings, including those that never occur, and the existing notices.
pub const CONFIGURABLE: u32 = 0xff | NAMESPACE_NOTICES | TELEMETRY_NOTICES;

impl Event {
    const ALL: [Event; 8] = [
        Event::ReadOnly,
        Event::SpareLow,
        Event::Sanitized,
        Event::Reservation,
        Event::Access,
        Event::Namespaces,
        Event::Telemetry,
        Event::Zones,
    ];

    /// The log page with details; reading it allows the next event of this type to be reported.
    fn log_page(self) -> u8 {
        match self {
            Event::ReadOnly | Event::SpareLow => id::SMART,
            Event::Namespaces => id::CHANGED_NAMESPACES,
            Event::Sanitized => id::SANITIZE,
            Event::Telemetry => id::TELEMETRY_CONTROLLER,
            Event::Access => id::ACCESS,
            Event::Reservation => id::RESERVATIONS,
            Event::Zones => id::CHANGED_ZONES,
        }
    }

    /// The bit of the feature that enables it; all of them if it cannot be disabled.
    fn asked_with(self) -> u32 {
        match self {
            Event::Sanitized | Event::Reservation => u32::MAX,
            Event::ReadOnly => warning::READ_ONLY.into(),
            Event::SpareLow => warning::SPARE_LOW.into(),
            Event::Namespaces => NAMESPACE_NOTICES,
            Event::Telemetry => TELEMETRY_NOTICES,
            Event::Zones => ZONE_NOTICES,
            Event::Access => ACCESS_NOTICES,
        }
    }

    /// Dword 0 of the completion: the type in bits 2:0, the event in bits 15:8, the log page in bits 23:16.
    pub fn result(self) -> u64 {
        let (kind, which) = match self {
            Event::ReadOnly => (1, 0),
            Event::SpareLow => (1, 2),
            Event::Namespaces => (2, 0),
            Event::Telemetry => (2, 2),
            Event::Zones => (2, 0xef),
            Event::Access => (2, 3),
            // specific to a command set
            Event::Reservation => (6, 0),
            Event::Sanitized => (6, 1),
        };
        kind | which << 8 | u64::from(self.log_page()) << 16
    }
}

/// Events of one controller.
#[derive(Debug, Default)]
pub struct Events {
    /// Events not reported yet.
    due: Vec<Event>,
    /// Log pages that must be read before more of their events are reported.
    unread: Vec<u8>,
    /// The last known warnings.
    warnings: u8,
    /// Namespaces that have changed since the host last read the list of changes, in order.
    changed: Vec<u32>,
    /// Whether all zones have changed since the host last read the list of these.
    have_zones_changed: bool,
}

impl Events {
    /// The events of a host that connects while these warnings already exist. They are reported to it; it reads the state of
    /// its namespaces by itself.
    pub fn new(warnings: u8) -> Events {
        let mut events = Events::default();
        events.warn(warnings, &[]);
        events.due.retain(|&event| event != Event::Namespaces);
        events
    }

    /// Sets the current warnings; they concern these namespaces. Returns whether there is something new to report.
    pub fn warn(&mut self, warnings: u8, numbers: &[u32]) -> bool {
        let new = warnings & !self.warnings;
        let changed = warnings ^ self.warnings;
        self.warnings = warnings;
        let before = self.due.len();
        if new & warning::READ_ONLY != 0 {
            self.add(Event::ReadOnly);
        }
        if new & warning::SPARE_LOW != 0 {
            self.add(Event::SpareLow);
        }
        if changed & warning::READ_ONLY != 0 {
            self.change(numbers);
        }
        self.due.len() > before
    }

    /// These namespaces have changed. Returns whether there is something new to report.
    pub fn change(&mut self, numbers: &[u32]) -> bool {
        self.changed.extend(numbers);
        self.changed.sort_unstable();
        self.changed.dedup();
        let before = self.due.len();
        self.add(Event::Namespaces);
        self.due.len() > before
    }

    /// All zones have changed.
    pub fn change_zones(&mut self) {
        self.have_zones_changed = true;
        self.add(Event::Zones);
    }

    /// Whether all zones have changed since the host last read the list of these.
    pub fn have_zones_changed(&self) -> bool {
        self.have_zones_changed
    }

    /// A Sanitize has ended.
    pub fn end_sanitize(&mut self) {
        self.add(Event::Sanitized);
    }

    /// Something has happened to a reservation.
    pub fn change_reservation(&mut self) {
        self.add(Event::Reservation);
    }

    /// Namespaces are reached otherwise.
    pub fn change_access(&mut self) {
        self.add(Event::Access);
    }

    /// The drive has kept telemetry.
    pub fn keep_telemetry(&mut self) {
        self.add(Event::Telemetry);
    }

    /// The warnings that were set last.
    pub fn warnings(&self) -> u8 {
        self.warnings
    }

    fn add(&mut self, event: Event) {
        if !self.due.contains(&event) {
            self.due.push(event);
        }
        self.assert_invariants();
    }

    /// Checks that each event waits at most once, and that each log page masks at most one that was reported.
    fn assert_invariants(&self) {
        let is_once = |event: &Event| self.due.iter().filter(|due| *due == event).count() <= 1;
        debug_assert!(Event::ALL.iter().all(is_once), "an event waits twice: {:?}", self.due);
        let is_unread_once =
            |event: &Event| self.unread.iter().filter(|page| **page == event.log_page()).count() <= 1;
        debug_assert!(
            Event::ALL.iter().all(is_unread_once),
            "a log page masks two events: {:?}",
            self.unread
        );
    }

    /// Takes an event that may be reported to a host that enabled these.
    pub fn next(&mut self, asked: u32) -> Option<Event> {
        let is_asked = |event: &Event| event.asked_with() == u32::MAX || asked & event.asked_with() != 0;
        let may = |event: &Event| is_asked(event) && !self.unread.contains(&event.log_page());
        let event = Event::ALL.into_iter().filter(|event| self.due.contains(event)).find(may)?;
        self.due.retain(|&due| due != event);
        self.unread.push(event.log_page());
        self.assert_invariants();
        Some(event)
    }

    /// The host has read a log page, and not asked to retain its event.
    pub fn was_read(&mut self, log_page: u8) {
        self.unread.retain(|&unread| unread != log_page);
        if log_page == id::CHANGED_NAMESPACES {
            self.changed.clear();
        }
        if log_page == id::CHANGED_ZONES {
            self.have_zones_changed = false;
        }
    }

    /// Namespaces that have changed since the host last read the list of changes, in order.
    pub fn changed_namespaces(&self) -> &[u32] {
        &self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u32 = CONFIGURABLE | ACCESS_NOTICES;

    #[test]
    fn an_event_is_told_once_and_the_next_of_its_type_when_the_log_was_read() {
        let mut events = Events::new(0);
        assert_eq!(events.next(ALL), None);
        assert!(events.warn(warning::SPARE_LOW, &[1]));
        assert!(!events.warn(warning::SPARE_LOW, &[1]), "nothing new");
        assert_eq!(events.next(ALL), Some(Event::SpareLow));
        assert!(events.warn(warning::SPARE_LOW | warning::READ_ONLY, &[1]));
        assert_eq!(events.next(ALL), Some(Event::Namespaces), "of another type");
        assert_eq!(events.next(ALL), None, "masked");
        events.was_read(id::SMART);
        assert_eq!(events.next(ALL), Some(Event::ReadOnly));
        assert_eq!(events.changed_namespaces(), [1]);
        events.was_read(id::CHANGED_NAMESPACES);
        assert!(events.changed_namespaces().is_empty());
        assert_eq!(events.next(ALL), None);
    }

    #[test]
    fn only_what_was_asked_for_is_told() {
        let mut events = Events::new(0);
        events.warn(warning::READ_ONLY | warning::SPARE_LOW, &[1]);
        assert_eq!(events.next(0), None);
        assert_eq!(events.next(warning::SPARE_LOW.into()), Some(Event::SpareLow));
        events.was_read(id::SMART);
        assert_eq!(events.next(NAMESPACE_NOTICES), Some(Event::Namespaces));
        assert_eq!(events.next(warning::READ_ONLY.into()), Some(Event::ReadOnly));
    }

    #[test]
    fn who_comes_late_is_warned_and_knows_its_namespaces() {
        let mut events = Events::new(warning::READ_ONLY);
        assert!(events.changed_namespaces().is_empty());
        assert_eq!(events.next(ALL), Some(Event::ReadOnly));
        events.was_read(id::SMART);
        assert_eq!(events.next(ALL), None);
    }

    #[test]
    fn results_are_the_standards() {
        assert_eq!(Event::ReadOnly.result(), 0x02_0001);
        assert_eq!(Event::SpareLow.result(), 0x02_0201);
        assert_eq!(Event::Namespaces.result(), 0x04_0002);
        assert_eq!(Event::Sanitized.result(), 0x81_0106);
        assert_eq!(Event::Telemetry.result(), 0x08_0202);
        assert_eq!(Event::Access.result(), 0x0c_0302);
        assert_eq!(Event::Reservation.result(), 0x80_0006);
        assert_eq!(Event::Zones.result(), 0xbf_ef02);
    }
}
