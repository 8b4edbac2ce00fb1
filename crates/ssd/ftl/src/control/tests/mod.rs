//! Tests of the whole FTL, with a look at its parts.

mod allocate;
mod batch;
mod capacity;
mod checkpoint;
mod collect;
mod cuts_in_a_row;
mod forged;
mod journaling;
mod queries;
mod recorded;
mod recovery;
mod retire;
mod share;
mod waits;

use tantalum_nand::{BlockId, Nanoseconds, PlaneId};

use super::{Ftl, Parts};
use crate::error::FtlError;
use crate::metadata::{JournalPage, Record};
use crate::reservation::{Need, Purpose};
use crate::space::{BlockUse, Marked, Wear};
use crate::types::Seq;

impl Ftl {
    /// Appends a record in room made for it.
    pub(crate) fn append_reserved(&mut self, record: Record, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut room = self.reserve(&Need::record(Purpose::Trim), at_ns)?;
        self.append_journal(&mut room, &[record], at_ns)
    }
}

impl Ftl {
    /// A free block of a plane goes bad.
    pub(crate) fn lose_free_block(&mut self, plane: PlaneId) {
        let block = self.take_free(plane, BlockUse::Bad, Marked::Ranked, Wear::Least).expect("one is free");
        self.retire(block).unwrap();
    }

    /// Moves everything out of a block.
    pub(crate) fn empty_block(&mut self, block: BlockId) {
        self.collect_block(block, 0).unwrap();
    }
}

impl Parts {
    /// Appends a record, whatever room there is.
    pub(crate) fn append_without_room(&mut self, record: Record) -> Result<(), FtlError> {
        self.log.append(&mut self.nand, &[record], 0)
    }

    /// Takes the waiting records as a page.
    pub(crate) fn take_journal_page(&mut self, step: Seq) -> JournalPage {
        self.log.take_page(&mut self.nand, step).unwrap()
    }

    /// Returns a block that was erased and not programmed since.
    pub(crate) fn release_erased(&mut self, plane: PlaneId, block: BlockId) {
        self.space.blocks_mut().release_erased(plane, block, &self.nand);
    }
}
mod wear;
