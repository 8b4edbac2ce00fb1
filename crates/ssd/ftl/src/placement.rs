//! Placement by the host (flexible data placement, NVMe TP4146): reclaim unit handles, how far they are kept apart, and what is
//! counted and told of each.
//!
//! A *reclaim unit handle* is a stream of the host's: what it writes with one handle lies in blocks of that handle. The blocks that
//! are filled together, one on each of the stream's planes, are a *reclaim unit*; when they are full, the next one begins. A unit's
//! spare area says with which handle it was written, and a copy keeps that. What was written without a handle, records, batches and
//! pages of transactions have the first handle.

use std::collections::VecDeque;
use std::fmt;

use serde::{Deserialize, Serialize};
use tantalum_nand::Nanoseconds;
use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A reclaim unit handle, from 0 to the drive's last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Handle(pub u8);

impl Handle {
    /// The first one: of everything that is written without a handle.
    pub const DEFAULT: Handle = Handle(0);

    /// The most that a drive may have.
    pub const MOST: u32 = 128;

    /// The number as an index into an array.
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How far what is written with different handles is kept apart. Profiles call them `initially` and `persistently`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// Until garbage collection moves it: copies of all handles lie together.
    Initially,
    /// Always: copies lie with copies of the same handle.
    Persistently,
}

/// The handles of a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementConfig {
    /// Number of handles, 1 to [`Handle::MOST`].
    pub handles: u32,
    /// How far they are kept apart.
    pub isolation: Isolation,
}

/// What was written with one handle since the drive was created, as of the last checkpoint when power was lost.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HandleCounters {
    /// Units that the host wrote.
    pub host_units_written: u64,
    /// Of these, units that were programmed: others were replaced while they waited in the cache.
    pub flash_host_units: u64,
    /// Units that garbage collection and wear levelling moved.
    pub flash_copies: u64,
}

impl HandleCounters {
    /// Units programmed for the handle over units that the host wrote; none before the first.
    pub fn write_amplification(&self) -> Option<f64> {
        let flash = (self.flash_host_units + self.flash_copies) as f64;
        (self.host_units_written > 0).then(|| flash / self.host_units_written as f64)
    }

    /// The increase since then; zero for a counter that went back, as it may when power is lost.
    #[must_use]
    pub fn since(&self, before: &HandleCounters) -> HandleCounters {
        HandleCounters {
            host_units_written: self.host_units_written.saturating_sub(before.host_units_written),
            flash_host_units: self.flash_host_units.saturating_sub(before.flash_host_units),
            flash_copies: self.flash_copies.saturating_sub(before.flash_copies),
        }
    }
}

/// [`HandleCounters`] as a checkpoint stores them.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct StoredHandle {
    host_units_written: U64,
    flash_host_units: U64,
    flash_copies: U64,
}

/// Bytes of each handle in a checkpoint.
pub(crate) const STORED_HANDLE_BYTES: u64 = size_of::<StoredHandle>() as u64;

const _: () = assert!(STORED_HANDLE_BYTES == 24);

impl HandleCounters {
    pub(crate) fn stored(&self) -> StoredHandle {
        StoredHandle {
            host_units_written: self.host_units_written.into(),
            flash_host_units: self.flash_host_units.into(),
            flash_copies: self.flash_copies.into(),
        }
    }

    pub(crate) fn of_stored(stored: &StoredHandle) -> HandleCounters {
        HandleCounters {
            host_units_written: stored.host_units_written.get(),
            flash_host_units: stored.flash_host_units.get(),
            flash_copies: stored.flash_copies.get(),
        }
    }
}

/// A handle as it is now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandleState {
    /// Which one.
    pub handle: Handle,
    /// Units that still fit in its reclaim unit (RUAMW, in units of 4 KiB).
    pub writable_units: u64,
    /// Its counters.
    pub counters: HandleCounters,
}

/// What happened to a reclaim unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlacementEventKind {
    /// The host's writes filled it, and the next one began.
    Filled,
    /// The host began the next one before it was full.
    NotFullyWritten {
        /// Units that would have fitted.
        units: u64,
    },
    /// Garbage collection or wear levelling moved data. What is moved one after the other is one event.
    Moved {
        /// How many.
        units: u64,
    },
    /// Power came back: all handles begin a reclaim unit.
    PowerOn,
}

/// An event, for the host to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlacementEvent {
    /// When, in the drive's time.
    pub at_ns: Nanoseconds,
    /// Whose reclaim unit it was; the first handle for an event of all.
    pub handle: Handle,
    /// What happened.
    pub kind: PlacementEventKind,
}

impl PlacementEventKind {
    const KINDS: usize = 4;

    fn index(self) -> usize {
        match self {
            PlacementEventKind::Filled => 0,
            PlacementEventKind::NotFullyWritten { .. } => 1,
            PlacementEventKind::Moved { .. } => 2,
            PlacementEventKind::PowerOn => 3,
        }
    }
}

/// The most events of one kind and handle that are remembered; the oldest are forgotten. So what happens often to one handle pushes
/// out nothing of the others.
const EVENTS: usize = 64;

/// Events of one kind and handle, oldest first, with their numbers among all events.
type Events = VecDeque<(u64, PlacementEvent)>;

/// What is counted and told of each handle. Events are in DRAM only.
#[derive(Clone, Debug)]
pub(crate) struct Placement {
    counters: Vec<HandleCounters>,
    events: Vec<[Events; PlacementEventKind::KINDS]>,
    /// Events told so far.
    told: u64,
}

impl Placement {
    /// Nothing happened.
    pub fn new(config: PlacementConfig) -> Placement {
        Placement {
            counters: vec![HandleCounters::default(); config.handles as usize],
            events: vec![Default::default(); config.handles as usize],
            told: 0,
        }
    }

    /// The counters, by handle.
    pub fn counters(&self) -> &[HandleCounters] {
        &self.counters
    }

    /// Power came back, and a checkpoint had these counters.
    pub fn recovered(&mut self, counters: Vec<HandleCounters>, at_ns: Nanoseconds) {
        debug_assert_eq!(counters.len(), self.counters.len(), "a checkpoint has the counters of all handles");
        self.counters = counters;
        self.tell(PlacementEvent { at_ns, handle: Handle::DEFAULT, kind: PlacementEventKind::PowerOn });
    }

    /// The host wrote units with a handle.
    pub fn host_wrote(&mut self, handle: Handle, units: u64) {
        self.counters[handle.index()].host_units_written += units;
    }

    /// Units of the host with a handle were programmed.
    pub fn programmed(&mut self, handle: Handle, units: u64) {
        self.counters[handle.index()].flash_host_units += units;
    }

    /// A unit of a handle was moved.
    pub fn moved(&mut self, handle: Handle, at_ns: Nanoseconds) {
        self.counters[handle.index()].flash_copies += 1;
        let kind = PlacementEventKind::Moved { units: 1 };
        if let Some((number, last)) = self.events[handle.index()][kind.index()].back_mut()
            && *number + 1 == self.told
            && let PlacementEventKind::Moved { units } = &mut last.kind
        {
            *units += 1;
            return;
        }
        self.tell(PlacementEvent { at_ns, handle, kind });
    }

    /// An event.
    pub fn tell(&mut self, event: PlacementEvent) {
        let events = &mut self.events[event.handle.index()][event.kind.index()];
        if events.len() == EVENTS {
            events.pop_front();
        }
        events.push_back((self.told, event));
        self.told += 1;
    }

    /// The events, oldest first.
    pub fn events(&self) -> Vec<PlacementEvent> {
        let mut events: Vec<_> = self.events.iter().flatten().flatten().copied().collect();
        events.sort_unstable_by_key(|(number, _)| *number);
        events.into_iter().map(|(_, event)| event).collect()
    }

    /// The events, oldest first, which are then forgotten.
    pub fn take_events(&mut self) -> Vec<PlacementEvent> {
        let taken = self.events();
        self.events.iter_mut().flatten().for_each(VecDeque::clear);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_counters_round_trip() {
        let counters = HandleCounters { host_units_written: 1 << 40, flash_host_units: 2, flash_copies: 3 };
        let stored = counters.stored();
        assert_eq!(stored.as_bytes()[..9], [0, 0, 0, 0, 0, 1, 0, 0, 2]);
        assert_eq!(HandleCounters::of_stored(&stored), counters);
        assert_eq!(counters.write_amplification(), Some(5.0 / (1_u64 << 40) as f64));
        assert_eq!(HandleCounters::default().write_amplification(), None);
    }

    #[test]
    fn what_is_moved_one_after_the_other_is_one_event_and_the_oldest_are_forgotten() {
        let mut placement =
            Placement::new(PlacementConfig { handles: 2, isolation: Isolation::Persistently });
        for at_ns in 0..10 {
            placement.moved(Handle(1), at_ns);
        }
        placement.moved(Handle(0), 10);
        let moved = |at_ns, handle, units| PlacementEvent {
            at_ns,
            handle: Handle(handle),
            kind: PlacementEventKind::Moved { units },
        };
        assert_eq!(placement.events(), [moved(0, 1, 10), moved(10, 0, 1)]);
        let filled = |at_ns| PlacementEvent { at_ns, handle: Handle(1), kind: PlacementEventKind::Filled };
        (0..100).for_each(|at_ns| placement.tell(filled(at_ns)));
        assert_eq!(placement.events().len(), 2 + EVENTS, "none of other kinds and handles");
        assert_eq!(placement.events()[..3], [moved(0, 1, 10), moved(10, 0, 1), filled(100 - EVENTS as u64)]);
        assert_eq!(placement.counters()[1].flash_copies, 10);
    }

    #[test]
    fn what_was_taken_does_not_go_on() {
        let mut placement = Placement::new(PlacementConfig { handles: 1, isolation: Isolation::Initially });
        placement.moved(Handle(0), 1);
        let kind = PlacementEventKind::Moved { units: 1 };
        assert_eq!(placement.take_events(), [PlacementEvent { at_ns: 1, handle: Handle(0), kind }]);
        assert!(placement.events().is_empty());
        placement.moved(Handle(0), 2);
        assert_eq!(placement.take_events(), [PlacementEvent { at_ns: 2, handle: Handle(0), kind }]);
    }
}
