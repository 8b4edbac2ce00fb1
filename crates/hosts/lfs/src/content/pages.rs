//! Pages of files: loading, changing and giving up.

use std::ops::Range;

use tantalum_filesystem::FileId;

use crate::bytes::{Page, zeros};
use crate::error::Result;
use crate::fs::LogFs;
use crate::index::BlockPointer;

impl LogFs {
    /// The page of a unit; none if it is a hole and not in memory.
    pub(crate) fn page(&mut self, file: FileId, unit: u32) -> Result<Option<&Page>> {
        let key = (file, unit);
        if !self.pages.contains(key) {
            let BlockPointer::At(lpn) = self.index.pointer(&mut self.log, file, unit)? else {
                return Ok(None);
            };
            let mut page = zeros();
            self.log.read(lpn, &mut page[..])?;
            self.insert_page(key, &page);
        }
        Ok(self.pages.find(key).map(|frame| self.pages.data(frame)))
    }

    /// The page of a unit, mutable; there is space for it. Its contents are undefined if it will be overwritten
    /// completely.
    pub(crate) fn change_page(&mut self, file: FileId, unit: u32, is_whole: bool) -> Result<&mut Page> {
        let key = (file, unit);
        if !self.pages.is_dirty(key) {
            let pointer = self.index.pointer(&mut self.log, file, unit)?;
            let mut page = None;
            if !self.pages.contains(key) {
                let mut data = zeros();
                if let (BlockPointer::At(lpn), false) = (pointer, is_whole) {
                    self.log.read(lpn, &mut data[..])?;
                }
                page = Some(data);
            }
            self.reserve_unit(file, unit, pointer)?;
            if let Some(page) = page {
                self.insert_page(key, &page);
            }
        }
        let frame = self.pages.find(key).expect("the page is in memory");
        self.pages.mark_dirty(frame);
        Ok(self.pages.data_mut(frame))
    }

    fn insert_page(&mut self, key: (FileId, u32), page: &Page) {
        let frame = self.pages.insert(key);
        *self.pages.data_mut(frame) = *page;
    }

    /// Makes sure that there is space for contents of a unit.
    pub(crate) fn reserve_unit(&mut self, file: FileId, unit: u32, pointer: BlockPointer) -> Result<()> {
        if pointer != BlockPointer::Hole {
            return self.index.promise(&mut self.log, file, unit);
        }
        self.index.reserve(&mut self.log, file, unit)?;
        self.change_space(file)?.units += 1;
        Ok(())
    }

    /// Makes sure that an existing unit can be changed.
    pub(crate) fn promise_unit(&mut self, file: FileId, unit: u32) -> Result<()> {
        if self.pages.is_dirty((file, unit)) {
            return Ok(());
        }
        match self.index.pointer(&mut self.log, file, unit)? {
            BlockPointer::Hole => Ok(()),
            _ => self.index.promise(&mut self.log, file, unit),
        }
    }

    /// Turns a range of units into holes.
    pub(crate) fn give_up_units(&mut self, file: FileId, units: Range<u64>) -> Result<()> {
        let given_up = self.index.clear(&mut self.log, file, units.clone())?;
        assert!(
            given_up <= units.end.saturating_sub(units.start),
            "file {file} gave up {given_up} units of {units:?}"
        );
        self.pages.remove_units(file, units);
        if given_up > 0 {
            self.change_space(file)?.units -= given_up;
            self.since.lists.cannot_tell(file);
        }
        Ok(())
    }
}
