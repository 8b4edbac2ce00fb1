//! Reads a drive after power came back: pages and their spare areas, taking the time of reads. Nothing is changed.

use tantalum_nand::{
    BlockId, MAX_UNITS_PER_PAGE, Nand, NandError, Nanoseconds, PageId, PageState, Ppn, UNIT_BYTES,
    UNIT_SPARE_BYTES, UnitSpare,
};

use crate::error::{Damage, FtlError};
use crate::spare::{Kind, Spare};
use crate::types::Seq;

/// What the first page of a block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FirstPage {
    Erased,
    Torn,
    Programmed(Kind, Seq),
}

/// What has been read so far.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReadCounts {
    /// Pages whose spare areas were read.
    pub pages_scanned: u64,
    /// Pages that were uncorrectable.
    pub torn_pages: u64,
    /// Pages of checkpoint and journal that were read.
    pub pages_read: u64,
    /// Bytes loaded from memory.
    pub nvm_bytes_read: u64,
}

/// A medium that is being read.
pub(crate) struct Reader {
    pub nand: Nand,
    /// When the next read may start.
    pub at_ns: Nanoseconds,
    /// When everything read so far has arrived.
    pub done_ns: Nanoseconds,
    /// The greatest number from `Seq` found so far.
    pub newest: Seq,
    pub logical_units: u32,
    pub counts: ReadCounts,
    /// The spare areas of the page read last.
    spares: [UnitSpare; MAX_UNITS_PER_PAGE],
}

impl Reader {
    /// A reader of a drive with this many logical pages.
    pub fn new(nand: Nand, logical_units: u32, at_ns: Nanoseconds) -> Reader {
        Reader {
            nand,
            at_ns,
            done_ns: at_ns,
            newest: Seq(0),
            logical_units,
            counts: ReadCounts::default(),
            spares: [[0; UNIT_SPARE_BYTES]; MAX_UNITS_PER_PAGE],
        }
    }

    /// Waits for what was read, because it determines what to read next.
    pub fn wait(&mut self) {
        self.at_ns = self.done_ns;
    }

    /// Reads a page's spare areas.
    pub fn read(&mut self, page: PageId) -> Result<PageState, FtlError> {
        let units = self.nand.geometry().units_per_page() as usize;
        let (state, done_ns) = self.nand.read_spares(page, &mut self.spares[..units], self.at_ns)?;
        self.done_ns = self.done_ns.max(done_ns);
        self.counts.pages_scanned += 1;
        self.counts.torn_pages += u64::from(state == PageState::Uncorrectable);
        Ok(state)
    }

    /// The spare area of a unit of `page`, the page read last.
    pub fn spare(&mut self, page: PageId, unit: u32) -> Result<Spare, FtlError> {
        let spare = Spare::decode(&self.spares[unit as usize]);
        let spare = spare
            .filter(|spare| spare.is_possible(self.logical_units))
            .ok_or_else(|| Damage::Spare { ppn: self.nand.geometry().unit(page, unit) })?;
        self.newest = self.newest.max(spare.newest_seq());
        Ok(spare)
    }

    /// Calls `each` for the pages of a block up to the first that is erased.
    pub fn pages(
        &mut self,
        block: BlockId,
        mut each: impl FnMut(&mut Reader, PageId) -> Result<(), FtlError>,
    ) -> Result<(), FtlError> {
        for index in 0..self.nand.geometry().pages_per_block {
            let page = self.nand.geometry().page(block, index);
            match self.read(page)? {
                PageState::Erased => break,
                PageState::Uncorrectable => {}
                PageState::Programmed => each(self, page)?,
            }
        }
        Ok(())
    }

    pub fn first_pages(&mut self) -> Result<Vec<FirstPage>, FtlError> {
        let geometry = *self.nand.geometry();
        let mut found = Vec::with_capacity(geometry.blocks() as usize);
        for block in (0..geometry.blocks()).map(BlockId) {
            found.push(match self.read(geometry.page(block, 0))? {
                PageState::Erased => FirstPage::Erased,
                PageState::Uncorrectable => FirstPage::Torn,
                PageState::Programmed => {
                    let spare = self.spare(geometry.page(block, 0), 0)?;
                    FirstPage::Programmed(spare.kind, spare.step)
                }
            });
        }
        Ok(found)
    }

    /// Reads a unit's data.
    pub fn read_unit(&mut self, ppn: Ppn, unit: &mut [u8]) -> Result<(), NandError> {
        let done_ns = self.nand.read_retrying(ppn, unit, self.at_ns)?;
        self.done_ns = self.done_ns.max(done_ns);
        Ok(())
    }

    /// Reads a page's data, as many bytes as it has.
    pub fn read_page(&mut self, page: PageId, bytes: &mut [u8]) -> Result<(), FtlError> {
        self.counts.pages_read += 1;
        for (unit, bytes) in (0..).zip(bytes.chunks_exact_mut(UNIT_BYTES)) {
            let ppn = self.nand.geometry().unit(page, unit);
            self.read_unit(ppn, bytes)?;
        }
        Ok(())
    }
}
