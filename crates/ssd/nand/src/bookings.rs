//! What planes were booked for lately, for traces: what a command waited for was booked by the commands before it.

use std::collections::VecDeque;

use tantalum_image::{BlockId, Nanoseconds, PlaneId};

use crate::schedule::{Interval, OperationKind, Priority, Subject};

/// An operation of a plane, from its begin to its end as the FTL was told. If others go ahead of it later, it begins later, but
/// its end stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Booking {
    /// The plane.
    pub plane: PlaneId,
    /// The block that it reads, programs or erases.
    pub block: BlockId,
    /// What it does.
    pub operation: OperationKind,
    /// Whether it is for garbage collection or a checkpoint, and no host waits for it by itself.
    pub in_background: bool,
    /// When it begins.
    pub start_ns: Nanoseconds,
    /// When it ends.
    pub end_ns: Nanoseconds,
}

/// Bookings that are remembered. A block that is collected makes a few hundred.
const MOST: usize = 1 << 14;

/// The last bookings of all planes, in the order in which they were made.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentBookings(VecDeque<Booking>);

impl RecentBookings {
    #[cold]
    pub fn add(&mut self, plane: PlaneId, subject: Subject, priority: Priority, interval: Interval) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back(Booking {
            plane,
            block: subject.block(),
            operation: subject.kind(),
            in_background: priority == Priority::Background,
            start_ns: interval.start_ns,
            end_ns: interval.end_ns,
        });
    }

    pub fn all(&self) -> impl DoubleEndedIterator<Item = &Booking> {
        self.0.iter()
    }

    /// Power came back: nothing of this goes on.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
