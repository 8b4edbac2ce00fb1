//! The drive's lists of what was written to files, as a log writes, reads and clears them.
//!
//! Invariant: whatever is listed carries the parity of the last durable checkpoint (F1 of `lists/mod.rs`).

use std::collections::BTreeSet;

use tantalum::{Command, Lpn, Nanoseconds, Status};
use tantalum_canaries::guard;
use tantalum_drive::Client;
use tantalum_filesystem::FileId;

use crate::error::{LfsError, Result};

/// Bit in the number of a listed file: the checkpoint has an odd number.
const ODD: u32 = 1 << 31;

/// The number by which the drive lists a file.
pub(crate) type ListNumber = tantalum::FileId;

/// What a buffer of units belongs to: a file, and the first unit.
pub(super) type Listed = (FileId, u32);

/// Writes to lists since the last checkpoint.
#[derive(Debug, Default)]
pub(super) struct ListWriter {
    is_odd: bool,
    /// Files that the drive refused to list, until the next checkpoint.
    refused: BTreeSet<FileId>,
}

impl ListWriter {
    /// Finds out whether the drive keeps lists, and clears all existing ones.
    pub fn format(client: &mut Client) -> Result<()> {
        match client.submit(Command::ClearFileLists { file: None }) {
            Ok(_) => Ok(()),
            Err(Status::InvalidField(_)) => Err(LfsError::NoLists),
            Err(status) => Err(status.into()),
        }
    }

    /// A checkpoint is durable, and all lists are cleared.
    pub fn begin(&mut self, checkpoints: u64) {
        self.is_odd = checkpoints % 2 == 1;
        self.refused.clear();
    }

    pub fn is_refused(&self, file: FileId) -> bool {
        self.refused.contains(&file)
    }

    fn number(&self, file: FileId) -> ListNumber {
        assert_eq!(file.0 & ODD, 0, "file {file} has the bit that tells lists of checkpoints apart");
        tantalum::FileId(if self.is_odd { file.0 | ODD } else { file.0 })
    }

    /// Writes units and lists them. Returns when they are durable; `None` if the drive refused to list them, in which
    /// case nothing changed.
    pub fn write(
        &mut self,
        client: &mut Client,
        lpn: Lpn,
        data: &[u8],
        listed: Listed,
    ) -> Result<Option<Nanoseconds>> {
        let (file, offset) = listed;
        let command = Command::FsWrite { lpn, data, file: self.number(file), offset };
        match client.submit_queued(command) {
            Ok(completion) => Ok(Some(completion.done_ns)),
            Err(Status::OverLimit { .. }) => {
                self.refused.insert(file);
                Ok(None)
            }
            Err(status) => Err(status.into()),
        }
    }

    /// Clears a file's list durably.
    pub fn clear(&self, client: &mut Client, file: FileId) -> Result<()> {
        client.submit(Command::ClearFileLists { file: Some(self.number(file)) })?;
        Ok(())
    }

    /// Clears the lists of other checkpoints, and returns the files that this one lists, with their numbers there.
    pub fn clear_void(&self, client: &mut Client) -> Result<Vec<(FileId, ListNumber)>> {
        let (mut numbers, mut files) = (Vec::new(), Vec::new());
        client.submit(Command::ListFiles { files: &mut numbers })?;
        for number in numbers {
            let file = FileId(number.0 & !ODD);
            if guard!(VoidListsFollowed, self.number(file) == number) {
                files.push((file, number));
            } else {
                client.submit(Command::ClearFileLists { file: Some(number) })?;
            }
        }
        Ok(files)
    }

    /// A file's list: places, and the units that belong there.
    pub fn list(client: &mut Client, file: ListNumber) -> Result<Vec<(Lpn, u32)>> {
        let mut entries = Vec::new();
        client.submit(Command::ReadFileList { file, entries: &mut entries })?;
        Ok(entries.into_iter().map(|entry| (entry.lpn, entry.offset)).collect())
    }
}
