//! Loading with a summary: the page records are read of those blocks only that it has not.

use super::{Damage, Loader};
use crate::error::MediumError;
use crate::file::FileImage;
use crate::geometry::BlockId;
use crate::state::{Block, MOVED};
use crate::summary::{SummarisedBlock, Summary, are_states};
use crate::tally::BlockSum;

impl<'a> Loader<'a> {
    /// Reads the page records of those blocks only that the summary has not. None if it does not add up to the tally.
    pub(super) fn with_summary(
        image: &'a FileImage,
        summary: &Summary,
    ) -> Result<Option<(Loader<'a>, u32)>, MediumError> {
        let mut loader = Loader::new(image, Damage::Refuse)?;
        loader.contents.operations = summary.operations;
        let (used_blocks, mut blocks) = (loader.load_blocks()?, summary.blocks(&loader.geometry));
        for &block in &used_blocks {
            match blocks.take(block) {
                Some(summarised) if loader.takes_over(block, &summarised) => {}
                Some(_) => return Ok(None),
                None => loader.load_pages(block)?,
            }
        }
        let tally = image.read_tally()?.filter(|tally| tally.agrees(loader.sums.total()));
        let Some(tally) = tally.filter(|_| loader.damaged.is_empty()) else { return Ok(None) };
        if !loader.shared.is_empty() {
            loader.find_owners(&used_blocks)?;
        }
        Ok(Some((loader, tally.number())))
    }

    /// Takes over what the summary has of a block. False if that is impossible.
    fn takes_over(&mut self, block: BlockId, summarised: &SummarisedBlock<'_>) -> bool {
        let (page, unit) = (self.geometry.page(block, 0), self.geometry.first_unit(block));
        let SummarisedBlock { next_page, pages, page_states, units } = *summarised;
        let Block { torn, failed, .. } = self.contents.blocks[block.index()];
        if torn || failed || !are_states(page_states) {
            return false;
        }
        self.contents.blocks[block.index()].next_page = next_page;
        self.sums.set(block, BlockSum { pages, ..self.sums.block(block) });
        self.contents.page_states[page.index()..][..page_states.len()].copy_from_slice(page_states);
        (unit.index()..).zip(units).all(|(unit, summarised)| {
            let (slot, data_checksum) = (summarised.slot(), summarised.data_checksum());
            self.contents.slot_of[unit] = slot;
            match slot {
                0 => true,
                // nothing but its number is of interest
                _ if slot & MOVED != 0 => self.know_slot(slot & !MOVED).is_ok(),
                _ => self.note_slot(slot, data_checksum).is_ok(),
            }
        })
    }
}
