//! A page on its way to flash: the source of each unit's data, and its spare area.

use tantalum_nand::{
    Geometry, MAX_UNITS_PER_PAGE, Nand, NandError, Source, UNIT_BYTES, UNIT_SPARE_BYTES, UnitSpare,
};

use crate::error::FtlError;
use crate::space::PageSummary;
use crate::spare::{self, Spare};
use crate::types::Seq;

/// A page's spare areas and sources, filled unit by unit.
pub(crate) struct PageImage {
    pub sources: [Source; MAX_UNITS_PER_PAGE],
    pub spares: [UnitSpare; MAX_UNITS_PER_PAGE],
    pub used: usize,
    pub marked: bool,
}

impl PageImage {
    pub fn new() -> PageImage {
        PageImage {
            sources: [Source::Padding; MAX_UNITS_PER_PAGE],
            spares: [[0; UNIT_SPARE_BYTES]; MAX_UNITS_PER_PAGE],
            used: 0,
            marked: false,
        }
    }

    /// Bytes as a page of staged units that all have this spare area. The rest is padding.
    pub fn stage(nand: &mut Nand, bytes: &[u8], spare: &Spare) -> Result<PageImage, FtlError> {
        let mut page = PageImage::new();
        for unit in bytes.chunks(UNIT_BYTES) {
            match nand.stage(unit) {
                Ok(slot) => page.push(Source::Staged(slot), spare.encode()),
                Err(error) => {
                    page.give_up(nand);
                    return Err(error.into());
                }
            }
        }
        Ok(page)
    }

    /// Releases the buffers of a page that was not programmed.
    pub fn give_up(&self, nand: &mut Nand) {
        for source in &self.sources[..self.used] {
            if let Source::Staged(slot) = *source {
                nand.release(slot);
            }
        }
    }

    /// The same after an error. If power failed, the buffers belong to the medium.
    pub fn give_up_after(&self, nand: &mut Nand, error: &FtlError) {
        if !matches!(error, FtlError::Nand(NandError::PowerLost)) {
            self.give_up(nand);
        }
    }

    /// The page was programmed: its buffers belong to the medium.
    pub fn is_programmed(&mut self) {
        self.sources[..self.used].fill(Source::Padding);
    }

    /// Clears it.
    pub fn clear(&mut self) {
        self.sources[..self.used].fill(Source::Padding);
        self.spares[..self.used].fill([0; UNIT_SPARE_BYTES]);
        self.used = 0;
        self.marked = false;
    }

    /// Sources and spare areas of a whole page.
    pub fn parts(&self, geometry: &Geometry) -> (&[Source], &[UnitSpare]) {
        let units = geometry.units_per_page() as usize;
        (&self.sources[..units], &self.spares[..units])
    }

    /// What its block must know of it, programmed at a step.
    pub fn summary(&self, step: Seq) -> PageSummary {
        let plain = self.spares[..self.used].iter().all(|spare| spare::is_plain(spare));
        PageSummary { step, marked: self.marked, plain }
    }

    /// Adds a unit with its spare area.
    pub fn push(&mut self, source: Source, spare: UnitSpare) {
        self.sources[self.used] = source;
        self.spares[self.used] = spare;
        self.used += 1;
    }
}
