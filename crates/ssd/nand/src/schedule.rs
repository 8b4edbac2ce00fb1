//! Who goes first on a plane or a channel.
//!
//! Once the caller was told when an operation ends, that does not change. If one goes ahead of it, operations booked
//! later pay: they start later by as much. So the told intervals of two operations of different priority may overlap;
//! those of one priority, of one block, and of a page's program and its read never do.

use std::fmt::Debug;

use tantalum_image::{BlockId, Nanoseconds, PageId};

/// How the operations of a plane follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Scheduling {
    /// First come, first served.
    #[default]
    Fifo,
    /// By priority: a read goes ahead of programs and erases that have not begun, and a host's program goes ahead of
    /// those of garbage collection.
    ReadFirst,
    /// By priority, and a read interrupts a program or erase that has begun, at most `times` times. Each interruption
    /// prolongs it by `cost_ns`, which the read waits for.
    Suspend {
        /// The cost of one interruption.
        cost_ns: Nanoseconds,
        /// The most interruptions of one operation.
        times: u32,
    },
}

/// Whose operation it is; the most urgent compares least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Priority {
    /// A read that a host waits for.
    Read,
    /// What a host's command programs, and erases: a block is erased when it is needed.
    Host,
    /// Garbage collection and checkpoints.
    Background,
}

/// The number of priorities.
pub(crate) const PRIORITIES: usize = 3;

impl Priority {
    /// The number of priorities that others may go ahead of: all but reads.
    pub const YIELDING: usize = PRIORITIES - 1;

    /// Its index among those, the most urgent first; none for a read.
    pub fn yielding(self) -> Option<usize> {
        (self as usize).checked_sub(1)
    }
}

/// What has to be known about an operation besides its time.
pub(crate) trait Work: Copy + Debug {
    /// Whether a read of this kind may interrupt others.
    const INTERRUPTS: bool;

    /// Whether this cannot begin before another operation on the same plane or channel is done.
    fn needs(self, other: Self) -> bool;
}

/// Bytes cross a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer;

impl Work for Transfer {
    const INTERRUPTS: bool = false;

    fn needs(self, _: Transfer) -> bool {
        false
    }
}

/// What an operation of a plane is about. Two words, so that it is passed in registers: stored in pieces and loaded whole, it
/// would wait for all stores of the page that was just copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Subject {
    kind: OperationKind,
    /// The page in the upper half, its block in the lower one.
    place: u64,
}

/// What an operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OperationKind {
    /// A page is read.
    Read,
    /// A page is programmed.
    Program,
    /// A block is erased.
    Erase,
}

impl Subject {
    #[inline]
    pub fn read(page: PageId, block: BlockId) -> Subject {
        Subject { kind: OperationKind::Read, place: u64::from(page.0) << 32 | u64::from(block.0) }
    }

    #[inline]
    pub fn program(page: PageId, block: BlockId) -> Subject {
        Subject { kind: OperationKind::Program, ..Subject::read(page, block) }
    }

    #[inline]
    pub fn erase(block: BlockId) -> Subject {
        Subject { kind: OperationKind::Erase, place: block.0.into() }
    }

    #[inline]
    pub fn kind(self) -> OperationKind {
        self.kind
    }

    /// The block that it reads or changes.
    #[inline]
    pub fn block(self) -> BlockId {
        BlockId(self.place as u32)
    }

    /// The block that it changes.
    #[inline]
    pub fn changed(self) -> Option<BlockId> {
        matches!(self.kind, OperationKind::Program | OperationKind::Erase).then(|| self.block())
    }
}

impl Work for Subject {
    const INTERRUPTS: bool = true;

    fn needs(self, other: Subject) -> bool {
        match (self.kind, other.kind) {
            (_, OperationKind::Read) => false,
            (OperationKind::Read, OperationKind::Program) => self.place >> 32 == other.place >> 32,
            _ => self.block() == other.block(),
        }
    }
}

/// When an operation has the plane or channel: from `start_ns` until just before `end_ns`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Interval {
    pub start_ns: Nanoseconds,
    pub end_ns: Nanoseconds,
}

/// When an operation may begin.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct When {
    /// The host's time: power does not fail before it, and what is over by then may be forgotten. A write that waits for room
    /// in the cache moves it ahead of commands before, which may therefore find a plane idle a little too early.
    pub now_ns: Nanoseconds,
    /// When it is requested.
    pub earliest_ns: Nanoseconds,
    /// When what it needs is done. See [`Line::needed_ns`].
    pub needed_ns: Nanoseconds,
}
