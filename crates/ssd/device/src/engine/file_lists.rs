//! Commands on lists of files: `fs_write`, reading lists, clearing them.

use tantalum_ftl::{FileEntry, FileId, Handle, Lpn};
use tantalum_nand::{Nanoseconds, UNIT_BYTES, WORD_BYTES};

use super::host_data::PlainWrite;
use super::{Engine, Port};
use crate::status::Status;

impl Engine {
    /// Writes units, and once they are durable appends them to a file's list.
    pub(super) fn fs_write(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        file: FileId,
        offset: u32,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let units = (data.len() / UNIT_BYTES) as u32;
        self.ftl.check_file_list(file, offset, units)?;
        let write = PlainWrite { lpn, data, fua: true, handle: Handle::DEFAULT };
        let written_ns = self.write(write, None, port, at_ns)?;
        Ok(self.ftl.append_to_file_list(file, lpn, units, offset, written_ns)?)
    }

    pub(super) fn read_file_list(
        &mut self,
        file: FileId,
        entries: &mut Vec<FileEntry>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let read_ns = self.ftl.file_list(file, entries)?;
        Ok(port.transfer(at_ns + read_ns, entries.len() * WORD_BYTES as usize))
    }

    pub(super) fn list_files(
        &mut self,
        files: &mut Vec<FileId>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let read_ns = self.ftl.files_with_lists(files)?;
        Ok(port.transfer(at_ns + read_ns, files.len() * size_of::<u32>()))
    }

    pub(super) fn clear_file_lists(
        &mut self,
        file: Option<FileId>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        Ok(self.ftl.clear_file_lists(file, at_ns)??)
    }
}
