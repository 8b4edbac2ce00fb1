//! The vocabulary of the map: logical addresses, versions, hints, transactions.

use std::fmt;
use tantalum_canaries::guard;

/// A hash map whose order depends only on its contents, so that runs repeat.
pub(crate) type HashMap<K, V> = hashbrown::HashMap<K, V, rustc_hash::FxBuildHasher>;
/// A set of the same kind.
pub(crate) type HashSet<T> = hashbrown::HashSet<T, rustc_hash::FxBuildHasher>;

/// A kind of contents of the flash, by its place in the list of tenants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantId(pub u8);

/// Logical page number: what the host calls a unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Lpn(pub u32);

impl Lpn {
    /// The number as an index into an array.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Lpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The drive's one counter, from which versions and steps are drawn. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Draws the numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    last: Seq,
}

impl Numbers {
    /// Draws the next number.
    #[inline]
    pub fn draw(&mut self) -> Seq {
        self.last.0 += 1;
        debug_assert!(self.last < SEQ_LIMIT, "recovery would refuse the number {}", self.last);
        self.last
    }

    /// The last number that was drawn.
    pub fn last(&self) -> Seq {
        self.last
    }

    /// From now on only numbers beyond this one are drawn.
    pub fn draw_beyond(&mut self, last: Seq) {
        debug_assert!(
            last >= self.last,
            "number {last} would be followed by those up to {} again",
            self.last
        );
        self.last = last;
    }
}

/// No drive reaches this: at a million numbers per second it takes a hundred thousand years.
pub(crate) const SEQ_LIMIT: Seq = Seq(1 << 62);

/// An open transaction (X-FTL).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct TxId(pub u64);

impl fmt::Display for TxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One life of a hinted log, from one restart to the next. The drive draws it, so that it is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes of metadata that can be stored with a unit: the size of SQLite's frame header.
pub const METADATA_BYTES: usize = 24;

/// A few bytes that are written with a unit and stored in its spare area.
pub type Metadata = [u8; METADATA_BYTES];

/// What a log page tells the drive about itself (SW-WAL, section III-A, with attempts added).
///
/// Slots are counted from 1. A rollback starts a new attempt at slot `start`, right after the last commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hint {
    /// The log's life.
    pub generation: Generation,
    /// The attempt, counted from 0.
    pub attempt: u32,
    /// The slot at which this attempt starts.
    pub start: u32,
    /// The first slot of the page's transaction.
    pub first: u32,
    /// The page's own slot.
    pub slot: u32,
    /// Whether the page ends its transaction.
    pub end: bool,
    /// Where the page belongs once its transaction is whole; none if it has no home yet.
    pub home: Option<Lpn>,
}

impl Hint {
    /// Its attempt, and the slot at which that starts. Slots of different attempts never count together (hazard 8).
    pub(crate) fn attempt(&self) -> (u32, u32) {
        guard!(AttemptsMixed, (self.attempt, self.start))
    }

    /// Whether both say the same about their page, apart from its home.
    pub(crate) fn is_same_page(&self, other: &Hint) -> bool {
        Hint { home: None, ..*self } == Hint { home: None, ..*other }
    }

    /// Whether a drive of this many units can have accepted it.
    pub(crate) fn is_possible(&self, logical_units: u32) -> bool {
        let slots = 1 <= self.start && self.start <= self.first && self.first <= self.slot;
        slots && self.slot < u32::MAX && self.home.is_none_or(|home| home.0 < logical_units)
    }
}

/// One range of a `share`: `dst..dst+units` receives the mapping of `src..src+units`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShareRange {
    /// The first unit that receives a new mapping.
    pub dst: Lpn,
    /// The first unit whose mapping is copied.
    pub src: Lpn,
    /// Units in the range.
    pub units: u32,
}

/// A file's number, chosen by the file system: 1 and above.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

/// An entry of a file's list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileEntry {
    /// The unit that was written.
    pub lpn: Lpn,
    /// Where in the file it belongs, in units.
    pub offset: u32,
}
