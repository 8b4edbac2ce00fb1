//! Folders and names. A folder is a file whose units are blocks of entries; in memory it also has an index by name.

mod block;
mod folder;
mod orphans;
mod tree;

pub(crate) use block::{entries_of, is_whole};
pub(crate) use folder::Folder;

use std::ops::ControlFlow;

use tantalum_filesystem::{
    Errno, FileId, FileKind, FolderEntry, Names, NewFile, Outcome, RenameMode, Timestamp,
};

use crate::fs::LogFs;

impl Names for LogFs {
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId> {
        Ok(self.lookup_name(folder, name)?.file)
    }

    fn parent(&mut self, folder: FileId) -> Outcome<FileId> {
        let inode = &self.file(folder)?.inode;
        if inode.is_folder() { Ok(inode.parent) } else { Err(Errno::ENOTDIR) }
    }

    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()> {
        let entries = self.folder(folder)?.after(after);
        let _ = entries
            .map(|(cookie, name, entry)| FolderEntry { cookie, name, file: entry.file, kind: entry.kind })
            .try_for_each(take);
        Ok(())
    }

    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId> {
        Ok(self.change(|fs| fs.make_file(folder, name, new))?)
    }

    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId> {
        Ok(self.change(|fs| fs.make_symbolic_link(folder, name, target, new))?)
    }

    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>> {
        let metadata = self.metadata_of(file)?;
        if metadata.kind != FileKind::SymbolicLink {
            return Err(Errno::EINVAL);
        }
        let page = self.page(file, 0)?;
        Ok(page.map_or_else(Vec::new, |page| page[..(metadata.size as usize).min(page.len())].to_vec()))
    }

    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(self.change(|fs| fs.link_file(file, folder, name, now))?)
    }

    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(self.change(|fs| fs.unlink_name(folder, name, now))?)
    }

    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Ok(self.change(|fs| fs.remove_empty_folder(folder, name, now))?)
    }

    fn rename_in(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        mode: RenameMode,
        now: Timestamp,
    ) -> Outcome<()> {
        Ok(self.change(|fs| fs.rename((folder, name), (new_folder, new_name), mode, now))?)
    }

    fn open(&mut self, file: FileId) -> Outcome<()> {
        Ok(self.open_file(file)?)
    }

    fn close(&mut self, file: FileId) -> Outcome<()> {
        Ok(self.change(|fs| fs.close_file(file))?)
    }

    fn sync_folder(&mut self, folder: FileId) -> Outcome<()> {
        Ok(self.change(|fs| fs.sync_file(folder, true))?)
    }
}
