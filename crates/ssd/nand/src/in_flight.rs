//! Issued operations that may not be done, what is needed to undo them, and when power failed.
//!
//! State changes at issue. An operation stays in this queue until the host's time has passed its end, or until
//! `resolve` undoes or settles it after a power cut.

use std::collections::{HashMap, VecDeque};

use crate::nvm::Replaced;
use crate::schedule::Interval;
use tantalum_image::Block;
use tantalum_image::SavedRecords;
use tantalum_image::Slot;
use tantalum_image::{BlockId, Geometry, MAX_UNITS_PER_PAGE, Nanoseconds, PageId, Ppn, UnitSpare};

/// Kinds of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Programs a page.
    Program(PageId),
    /// Erases a block.
    Erase(BlockId),
    /// Stores words to non-volatile memory.
    Store,
}

/// An operation that had started and was not done when power failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight {
    /// The operation and its addresses.
    pub operation: Operation,
    /// When the array started, ns.
    pub start_ns: Nanoseconds,
    /// When it would have been done, ns.
    pub end_ns: Nanoseconds,
}

/// The outcome of an operation that was in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As if it had never been issued.
    NotStarted,
    /// A program leaves an uncorrectable page (M2). An erase leaves each page old, erased or uncorrectable (M3),
    /// and the block must be erased before it is programmed. A store leaves any of its words.
    Torn,
    /// As if it had completed in time.
    Completed,
}

/// A program that did not complete, with its staged units, which a capacitor can still save.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostProgram {
    /// Its destination.
    pub page: PageId,
    /// The staged units and their spare areas. The caller owns the slots, and programs or releases them.
    pub units: Vec<(Slot, UnitSpare)>,
}

/// Where a unit's slot came from, and where it returns if the program is undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// There is no slot.
    Padding,
    /// Staged by the caller.
    Staged,
    /// Moved from that place, which has carried the mark `MOVED` since.
    Moved(Ppn),
    /// Created for this copy.
    Duplicated,
}

/// What a block held before it was erased.
#[derive(Clone)]
pub(crate) struct ErasedBlock {
    pub block: BlockId,
    pub old: Block,
    pub states: Box<[u8]>,
    pub slot_of: Box<[u32]>,
    pub records: SavedRecords,
}

/// What an operation changed.
#[derive(Clone)]
pub(crate) enum Change {
    Program { page: PageId, origins: [Origin; MAX_UNITS_PER_PAGE] },
    Erase(Box<ErasedBlock>),
    Store(Vec<Replaced>),
}

/// An operation that may still be undone.
#[derive(Clone)]
pub(crate) struct Issued {
    pub interval: Interval,
    pub change: Change,
}

impl Issued {
    /// The operation as the caller knows it.
    pub fn in_flight(&self) -> InFlight {
        let operation = match &self.change {
            Change::Program { page, .. } => Operation::Program(*page),
            Change::Erase(erased) => Operation::Erase(erased.block),
            Change::Store(_) => Operation::Store,
        };
        InFlight { operation, start_ns: self.interval.start_ns, end_ns: self.interval.end_ns }
    }
}

/// When power failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    pub at_ns: Nanoseconds,
    /// Whether the last operation issued counts as in flight whatever its times.
    pub at_last: bool,
}

/// The state of an operation when power failed.
pub(crate) enum Progress {
    Queued,
    OnItsWay(InFlight),
    Done,
}

/// The state of the power supply.
#[derive(Clone, Default)]
pub(crate) struct Power {
    /// Operations until power fails, including the last one.
    pub armed: Option<u64>,
    pub cut: Option<Cut>,
    /// In the order of issue.
    pub issued: VecDeque<Issued>,
}

impl Power {
    /// Whether power fails at the next operation.
    pub fn goes_next(&self) -> bool {
        self.armed == Some(1)
    }

    /// Finds the program that fills a unit, among the first `issued` operations. If it is a copy that is not done at
    /// `at_ns`, returns its index and the place that the unit is copied from.
    pub fn copied_from(
        &self,
        geometry: &Geometry,
        ppn: Ppn,
        issued: usize,
        at_ns: Nanoseconds,
    ) -> Option<(usize, Ppn)> {
        let of_page = geometry.page_of(ppn);
        let mut operations = self.issued.range(..issued).enumerate().rev();
        let (index, end_ns, origins) =
            operations.find_map(|(index, Issued { interval, change })| match change {
                Change::Program { page, origins } if *page == of_page => {
                    Some((index, interval.end_ns, origins))
                }
                _ => None,
            })?;
        match origins[(ppn.0 - geometry.unit(of_page, 0).0) as usize] {
            Origin::Moved(from) if end_ns > at_ns => Some((index, from)),
            _ => None,
        }
    }

    /// The first operation that begins before an earlier one on its block is done: there is none.
    pub fn overtaking(&self, geometry: &Geometry) -> Option<InFlight> {
        let mut blocks_done_ns: HashMap<BlockId, Nanoseconds> = HashMap::new();
        self.issued.iter().map(Issued::in_flight).find(|InFlight { operation, start_ns, end_ns }| {
            let block = match *operation {
                Operation::Program(page) => geometry.block_of(page),
                Operation::Erase(block) => block,
                Operation::Store => return false,
            };
            blocks_done_ns.insert(block, *end_ns).is_some_and(|done_ns| *start_ns < done_ns)
        })
    }

    /// The state of the issued operation `index` at the cut.
    pub fn progress(&self, cut: Cut, index: usize) -> Progress {
        let issued = &self.issued[index];
        if cut.at_last && index + 1 == self.issued.len() {
            Progress::OnItsWay(issued.in_flight())
        } else if issued.interval.end_ns <= cut.at_ns {
            Progress::Done
        } else if issued.interval.start_ns >= cut.at_ns {
            Progress::Queued
        } else {
            Progress::OnItsWay(issued.in_flight())
        }
    }
}
