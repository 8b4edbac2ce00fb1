//! What each command reserves before it changes anything.
//!
//! A command first obtains a [`Reservation`]: all collection, erasing and checkpointing that it may need happens there, and it may
//! still be refused, as nothing has changed for it. The step that follows changes [`Parts`](crate::control::Parts), which can do
//! none of these. What a step leaves of its room goes back when the room is dropped.
//!
//! | for | pages | records | owners |
//! |---|---|---|---|
//! | a page of units | one, of their handle's stream | claims that its units may end | |
//! | a page of open transactions | one, of the host's stream | | |
//! | an atomic batch | its own, by stream | claims that its units may end | |
//! | a page of waiting records | one, of their stream | | |
//! | share | | one for each unit, and the claims that they may end | one for each unit |
//! | remap | | two for each unit, one for the sources, and the claims | one for each unit |
//! | trim, a step of it | | one, and the claims that its units may end | |
//! | commit | | one for each page, one for each claim that ends | one for each page |
//! | units that replace claiming pages in DRAM | | one for each such page | |
//! | making, deleting a namespace; the first number after power-on | | one | |
//! | resetting, finishing zones | | one for each zone | |
//! | a page that garbage collection moves | one, of its stream | owners that no spare area has room for | |
//! | an erase | | what only the block's spare areas prove | |
//!
//! *Pages* come with their blocks, *records* are of the journal, and *owners* are those of shared units whose versions no spare
//! area has: they take room in the next checkpoint. A checkpoint has blocks of its own, which are never given to anything else
//! (`Parts::system_blocks`), and so do zones (`Zones::reserved_blocks`). The last two rows are the `Allocator`'s: it may erase, and collects nothing.
//!
//! Capacity is admitted when a command arrives, which may be long before its units leave the cache (`Ftl::admit`). A drive lays
//! its flash out for its logical capacity, so block units alone always find room. Records share that capacity. Mapped logical
//! pages, homes that a cut would map, records (as they are packed when moved), what waits in DRAM, and the indexes in two
//! checkpoints together never exceed the drive's logical units. So garbage collection always gains something, and a command
//! that does not fit is refused before it has changed anything. Pages of open transactions are not counted: their number is
//! bounded, and they have separate room ([`crate::Layout::transaction_units_limit`]).
//!
//! A test of the torture compares what commands reserve with what they use.

#[cfg(feature = "canaries")]
mod uses;

use tantalum_nand::{FailingStep, Nand};

use crate::space::Target;

#[cfg(feature = "canaries")]
pub use uses::{ReservationUse, take_reservation_uses};

/// What room is for: a row of the table at the head of this file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A page of units.
    Units,
    /// A page of open transactions.
    Transactions,
    /// An atomic batch.
    Batch,
    /// A page of waiting records.
    WaitingRecords,
    /// A share.
    Share,
    /// A remap.
    Remap,
    /// A step of a trim.
    Trim,
    /// A commit.
    Commit,
    /// Units that replace claiming pages in DRAM.
    ReplacedInDram,
    /// Making or deleting a namespace.
    Namespace,
    /// Resetting or finishing zones.
    Zones,
    /// The first number after power-on.
    PowerOn,
    /// A page that garbage collection moves.
    Copies,
    /// An erase.
    Memberships,
}

#[cfg(feature = "canaries")]
impl Purpose {
    /// All of them.
    pub const ALL: [Purpose; 14] = [
        Purpose::Units,
        Purpose::Transactions,
        Purpose::Batch,
        Purpose::WaitingRecords,
        Purpose::Share,
        Purpose::Remap,
        Purpose::Trim,
        Purpose::Commit,
        Purpose::ReplacedInDram,
        Purpose::Namespace,
        Purpose::Zones,
        Purpose::PowerOn,
        Purpose::Copies,
        Purpose::Memberships,
    ];
}

/// Pages that a command programs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pages<'a> {
    /// None.
    None,
    /// One. The next one is reserved when it is programmed.
    One(Target),
    /// These of each stream, all of which fit or none is programmed.
    All(&'a [(Target, u32)]),
}

impl Pages<'_> {
    pub fn count(&self) -> u32 {
        match self {
            Pages::None => 0,
            Pages::One(_) => 1,
            Pages::All(pages) => pages.iter().map(|(_, pages)| pages).sum(),
        }
    }
}

/// What a command needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need<'a> {
    pub purpose: Purpose,
    pub pages: Pages<'a>,
    pub records: usize,
    pub owners: usize,
}

impl<'a> Need<'a> {
    fn of(purpose: Purpose, pages: Pages<'a>, records: usize, owners: usize) -> Need<'a> {
        Need { purpose, pages, records, owners }
    }

    /// A page of units for a stream that may end this many claims.
    pub fn units(target: Target, claims: usize) -> Need<'a> {
        Need::of(Purpose::Units, Pages::One(target), claims, 0)
    }

    /// A page of open transactions.
    pub fn transactions() -> Need<'a> {
        Need::of(Purpose::Transactions, Pages::One(Target::Host), 0, 0)
    }

    /// A batch of these pages whose units may end this many claims.
    pub fn batch(pages: &'a [(Target, u32)], claims: usize) -> Need<'a> {
        Need::of(Purpose::Batch, Pages::All(pages), claims, 0)
    }

    /// A page of records that wait for a stream.
    pub fn waiting(page: &'a [(Target, u32); 1]) -> Need<'a> {
        Need::of(Purpose::WaitingRecords, Pages::All(page), 0, 0)
    }

    /// A share of these units that may end this many claims.
    pub fn share(units: usize, claims: usize) -> Need<'a> {
        Need::of(Purpose::Share, Pages::None, units + claims, units)
    }

    /// A remap of these units that may end this many claims, of their destinations and again of their sources.
    pub fn remap(units: usize, claims: usize) -> Need<'a> {
        Need::of(Purpose::Remap, Pages::None, units + 2 * claims + 1, units)
    }

    /// A step of a trim that may end this many claims.
    pub fn trim(claims: usize) -> Need<'a> {
        Need::of(Purpose::Trim, Pages::None, 1 + claims, 0)
    }

    /// A commit of these pages that may end this many claims.
    pub fn commit(pages: usize, claims: usize) -> Need<'a> {
        Need::of(Purpose::Commit, Pages::None, pages + claims, pages)
    }

    /// Units that replace this many claiming pages in DRAM.
    pub fn ends_of_claims(claims: usize) -> Need<'a> {
        Need::of(Purpose::ReplacedInDram, Pages::None, claims, 0)
    }

    /// Resets or finishes of this many zones.
    pub fn zones(zones: usize) -> Need<'a> {
        Need::of(Purpose::Zones, Pages::None, zones, 0)
    }

    /// A single record.
    pub fn record(purpose: Purpose) -> Need<'a> {
        Need::of(purpose, Pages::None, 1, 0)
    }
}

/// What a command may still use of what it reserved. Its steps take from it, and nothing else is theirs.
#[derive(Debug)]
pub struct Reservation {
    purpose: Purpose,
    pages: u32,
    records: usize,
    owners: usize,
    #[cfg(feature = "canaries")]
    reserved: [u64; 3],
}

impl Reservation {
    /// Whoever calls this has made room.
    pub(crate) fn new(purpose: Purpose, pages: u32, records: usize, owners: usize) -> Reservation {
        Reservation {
            purpose,
            pages,
            records,
            owners,
            #[cfg(feature = "canaries")]
            reserved: [pages.into(), records as u64, owners as u64],
        }
    }

    /// Records that may still be appended.
    pub(crate) fn records(&self) -> usize {
        self.records
    }

    /// A page was programmed.
    pub(crate) fn take_page(&mut self) {
        debug_assert!(self.pages > 0, "{:?}: a page more than was reserved", self.purpose);
        self.pages = self.pages.saturating_sub(1);
    }

    /// Records are appended.
    pub(crate) fn take_records(&mut self, records: usize) {
        debug_assert!(
            records <= self.records,
            "{:?}: {records} records, {} left",
            self.purpose,
            self.records
        );
        self.records = self.records.saturating_sub(records);
    }

    /// Owners get versions that no spare area has.
    pub(crate) fn take_owners(&mut self, owners: usize) {
        debug_assert!(owners <= self.owners, "{:?}: {owners} owners, {} left", self.purpose, self.owners);
        self.owners = self.owners.saturating_sub(owners);
    }
}

/// Whether a test lets this step find no room.
#[inline]
pub(crate) fn finds_no_room(nand: &mut Nand) -> bool {
    nand.step_fails(FailingStep::Reservation)
}
