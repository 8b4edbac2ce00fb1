//! The controller's operations on lists of files.

use tantalum_nand::{Nanoseconds, WORD_BYTES};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::file_lists::{FileLists, ListRefusal};
use crate::parts::Parts;
use crate::types::{FileEntry, FileId, Lpn};

impl Parts {
    fn lists(&self) -> Result<&FileLists, ListRefusal> {
        self.file_lists.as_ref().ok_or(ListRefusal::NoLists)
    }

    /// Checks that units may be appended to a file's list.
    pub fn check_file_list(&self, file: FileId, offset: u32, units: u32) -> Result<(), ListRefusal> {
        self.lists()?.check(file, offset, units)
    }

    /// Appends units to a file's list; `Ftl::check_file_list` has passed, and their data are durable at `written_ns`.
    pub fn append_to_file_list(
        &mut self,
        file: FileId,
        first: Lpn,
        units: u32,
        offset: u32,
        written_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let lists = self.file_lists.as_mut().expect("it was checked that there are lists");
        let at_ns = if canary::out(Guard::ListBeforeData) { 0 } else { written_ns };
        let linked_ns = lists.append(&mut self.nand, file, first, units, offset, at_ns)?;
        Ok(linked_ns.max(written_ns))
    }

    /// A file's list, and how long it takes to follow it: each entry points to the next.
    pub fn file_list(&self, file: FileId, entries: &mut Vec<FileEntry>) -> Result<Nanoseconds, ListRefusal> {
        let lists = self.lists()?;
        entries.clear();
        entries.extend(lists.list(file));
        let word_ns = self.nand.nvm().map_or(0, |shape| shape.takes_ns(WORD_BYTES));
        Ok((1 + entries.len() as u64) * word_ns)
    }

    /// The files that have lists, in the order of their numbers, and how long it takes to read them.
    pub fn files_with_lists(&self, files: &mut Vec<FileId>) -> Result<Nanoseconds, ListRefusal> {
        let lists = self.lists()?;
        files.clear();
        files.extend(lists.files());
        let bytes = u64::from(lists.limit()) * WORD_BYTES;
        Ok(self.nand.nvm().map_or(0, |shape| shape.takes_ns(bytes)))
    }

    /// Clears a file's list, or all of them. Returns when that is durable.
    ///
    /// # Errors
    /// [`ListRefusal::NoLists`], or what the medium says.
    pub fn clear_file_lists(
        &mut self,
        file: Option<FileId>,
        at_ns: Nanoseconds,
    ) -> Result<Result<Nanoseconds, FtlError>, ListRefusal> {
        let lists = self.file_lists.as_mut().ok_or(ListRefusal::NoLists)?;
        let cleared = match file {
            Some(file) => lists.clear(&mut self.nand, file, at_ns),
            None => lists.clear_all(&mut self.nand, at_ns),
        };
        Ok(cleared.map_err(FtlError::from))
    }

    /// Files that may have a list, files that have one, and entries of all lists; zeros for a drive without lists.
    pub fn file_list_counts(&self) -> (u32, usize, usize) {
        let counts = |lists: &FileLists| (lists.limit(), lists.len(), lists.units());
        self.file_lists.as_ref().map_or((0, 0, 0), counts)
    }
}
