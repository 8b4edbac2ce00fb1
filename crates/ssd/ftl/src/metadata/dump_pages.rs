//! The pages of a dump: ordinary pages, on blocks kept erased for it. Units of handles that are kept apart have blocks of their own.

use tantalum_canaries::guard;
use tantalum_nand::{BlockId, Nand, NandError, Nanoseconds, Slot, Source, UNIT_BYTES, UnitSpare};

use super::record::{Record, encode_page, records_per_page, used_bytes};
use crate::error::FtlError;
use crate::page_image::PageImage;
use crate::placement::Handle;
use crate::space::{FtlConfig, handles_in};
use crate::spare::{self, Kind, Spare};
use crate::types::Seq;

/// The pages of a dump, on the blocks kept for it.
pub(crate) struct DumpPages {
    blocks: Vec<BlockId>,
    /// The first of them that takes pages.
    place: usize,
    /// Whether handles are kept apart, even here.
    isolates: bool,
    /// The page that is being filled of each handle that is kept apart, or the only one.
    pages: Vec<(Handle, PageImage)>,
    units: u64,
}

impl DumpPages {
    /// A dump onto these blocks, which are erased or hold the beginning of it.
    pub fn new(blocks: Vec<BlockId>, config: &FtlConfig) -> DumpPages {
        DumpPages {
            blocks,
            place: 0,
            isolates: guard!(DumpMixesHandles, config.isolates()),
            pages: Vec::new(),
            units: 0,
        }
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
        let handle = if self.isolates { spare::handle(&bytes).unwrap_or_default() } else { Handle::DEFAULT };
        let of_handle = self.pages.iter().position(|(other, _)| *other == handle);
        let index = of_handle.unwrap_or_else(|| {
            self.pages.push((handle, PageImage::new()));
            self.pages.len() - 1
        });
        self.pages[index].1.push(Source::Staged(slot), bytes);
        if self.pages[index].1.used == nand.geometry().units_per_page() as usize {
            self.program(nand, index, at_ns)?;
        }
        Ok(())
    }

    /// Programs the pages that are being filled.
    pub fn end_pages(&mut self, nand: &mut Nand, at_ns: Nanoseconds) -> Result<(), FtlError> {
        (0..self.pages.len()).try_for_each(|index| self.program(nand, index, at_ns))
    }

    fn program(&mut self, nand: &mut Nand, index: usize, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let (handle, page) = &self.pages[index];
        if page.used == 0 {
            return Ok(());
        }
        let geometry = *nand.geometry();
        let (sources, spares) = page.parts(&geometry);
        loop {
            let block = self.block_for(*handle, nand).ok_or(FtlError::CapacityExceeded)?;
            let place = geometry.page(block, nand.next_page(block));
            match nand.program(place, sources, spares, at_ns) {
                Ok(_) => break,
                // the rest of the block must suffice, because there is no other
                Err(NandError::ProgramFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.units += page.used as u64;
        self.pages[index].1 = PageImage::new();
        Ok(())
    }

    /// The first block with room for a page. An earlier attempt may have begun it.
    fn block_for(&self, handle: Handle, nand: &Nand) -> Option<BlockId> {
        let has_room = |block: &BlockId| nand.next_page(*block) < nand.geometry().pages_per_block;
        let fits = |block: &BlockId| !self.isolates || handles_in(*block, nand).leaves_room_for(handle);
        self.blocks[self.place..].iter().copied().find(|block| has_room(block) && fits(block))
    }

    /// Programs journal pages.
    pub fn push_records(
        &mut self,
        nand: &mut Nand,
        records: &[Record],
        step: Seq,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let waiting: usize = self.pages.iter().map(|(_, page)| page.used).sum();
        debug_assert_eq!(waiting, 0, "units are not programmed before the records");
        // on a separate block, because a block's first page tells recovery what it holds
        while self.blocks.get(self.place).is_some_and(|block| nand.next_page(*block) > 0) {
            self.place += 1;
        }
        let units_per_page = nand.geometry().units_per_page();
        let spare = Spare::new(Kind::Journal, step);
        for chunk in records.chunks(records_per_page(units_per_page)) {
            let mut bytes = vec![0; units_per_page as usize * UNIT_BYTES];
            encode_page(chunk.iter(), &mut bytes);
            let page = PageImage::stage(nand, &bytes[..used_bytes(chunk.len())], &spare)?;
            self.pages = vec![(Handle::DEFAULT, page)];
            self.program(nand, 0, at_ns)?;
        }
        Ok(())
    }
}
