//! The pages of a dump: ordinary pages, on blocks kept erased for it.

use tantalum_nand::{BlockId, Nand, NandError, Nanoseconds, Slot, Source, UNIT_BYTES, UnitSpare};

use super::record::{Record, encode_page, records_per_page, used_bytes};
use crate::error::FtlError;
use crate::page_image::PageImage;
use crate::spare::{Kind, Spare};
use crate::types::Seq;

/// The pages of a dump, on the blocks kept for it.
pub(crate) struct DumpPages {
    blocks: Vec<BlockId>,
    place: usize,
    page: PageImage,
    units: u64,
}

impl DumpPages {
    /// A dump onto these blocks, which are erased or hold the beginning of it.
    pub fn new(blocks: Vec<BlockId>) -> DumpPages {
        DumpPages { blocks, place: 0, page: PageImage::new(), units: 0 }
    }

    /// Units dumped so far.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Adds a unit.
    pub fn push(
        &mut self,
        nand: &mut Nand,
        slot: Slot,
        bytes: UnitSpare,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.page.push(Source::Staged(slot), bytes);
        if self.page.used == nand.geometry().units_per_page() as usize {
            self.end_page(nand, at_ns)?;
        }
        Ok(())
    }

    /// Programs the page that is being filled.
    pub fn end_page(&mut self, nand: &mut Nand, at_ns: Nanoseconds) -> Result<(), FtlError> {
        if self.page.used == 0 {
            return Ok(());
        }
        let geometry = *nand.geometry();
        let units = geometry.units_per_page() as usize;
        loop {
            let block = *self.blocks.get(self.place).ok_or(FtlError::CapacityExceeded)?;
            let index = nand.next_page(block);
            if index == geometry.pages_per_block {
                self.place += 1;
                continue;
            }
            let place = geometry.page(block, index);
            match nand.program(place, &self.page.sources[..units], &self.page.spares[..units], at_ns) {
                Ok(_) => break,
                // the rest of the block must suffice, because there is no other
                Err(NandError::ProgramFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.units += self.page.used as u64;
        self.page = PageImage::new();
        Ok(())
    }

    /// Programs journal pages.
    pub fn push_records(
        &mut self,
        nand: &mut Nand,
        records: &[Record],
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        debug_assert_eq!(self.page.used, 0, "a page of units is not programmed before the records");
        // on a separate block, because a block's first page tells recovery what it holds
        while self.blocks.get(self.place).is_some_and(|block| nand.next_page(*block) > 0) {
            self.place += 1;
        }
        let units_per_page = nand.geometry().units_per_page();
        let spare = Spare::new(Kind::Journal, step);
        for chunk in records.chunks(records_per_page(units_per_page)) {
            let mut bytes = vec![0; units_per_page as usize * UNIT_BYTES];
            encode_page(chunk.iter(), &mut bytes);
            self.page = PageImage::stage(nand, &bytes[..used_bytes(chunk.len())], &spare)?;
            self.end_page(nand, at_ns)?;
        }
        Ok(())
    }
}
