//! A log's operations on the drive's lists.

use tantalum::{Command, Lpn, Nanoseconds};
use tantalum_filesystem::FileId;

use super::list_writer::{ListNumber, ListWriter, Listed};
use super::log::Log;
use crate::error::Result;

impl Log {
    /// From now on, syncs may leave the index to the drive's lists.
    pub fn use_lists(&mut self) {
        self.lists = Some(ListWriter::default());
    }

    /// Clears all lists of the drive, which must be able to keep lists.
    pub fn format_lists(&mut self) -> Result<()> {
        ListWriter::format(&mut self.client)
    }

    /// Whether the drive lists what is written to a file, as far as known.
    pub fn lists_file(&self, file: FileId) -> bool {
        self.lists.as_ref().is_some_and(|lists| !lists.is_refused(file))
    }

    /// Writes units, if the drive is to list them. Returns when they are durable; `None` if they were not written.
    pub(super) fn write_listed(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        listed: Option<Listed>,
    ) -> Result<Option<Nanoseconds>> {
        match (&mut self.lists, listed) {
            (Some(lists), Some(listed)) => lists.write(&mut self.client, lpn, data, listed),
            _ => Ok(None),
        }
    }

    /// The last durable checkpoint has this number, and all lists are cleared.
    pub fn begin_lists(&mut self, checkpoints: u64) {
        if let Some(lists) = &mut self.lists {
            lists.begin(checkpoints);
        }
    }

    /// Clears a file's list durably.
    pub fn clear_list(&mut self, file: FileId) -> Result<()> {
        self.lists.as_ref().map_or(Ok(()), |lists| lists.clear(&mut self.client, file))
    }

    /// Clears all lists in one durable step.
    pub fn clear_all_lists(&mut self) -> Result<()> {
        self.client.submit(Command::ClearFileLists { file: None })?;
        Ok(())
    }

    /// Clears the lists of other checkpoints, and returns the files that this one lists, with their numbers there.
    pub fn clear_void_lists(&mut self) -> Result<Vec<(FileId, ListNumber)>> {
        self.lists.as_ref().map_or(Ok(Vec::new()), |lists| lists.clear_void(&mut self.client))
    }

    /// A file's list: places, and the units that belong there.
    pub fn list(&mut self, file: ListNumber) -> Result<Vec<(Lpn, u32)>> {
        ListWriter::list(&mut self.client, file)
    }
}
