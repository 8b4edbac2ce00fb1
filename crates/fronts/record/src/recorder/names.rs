//! Changes of names and folders.

use std::ops::ControlFlow;

use tantalum::Nanoseconds;
use tantalum_filesystem::{
    Errno, FileId, FileKind, FolderEntry, Names, NewFile, Outcome, RenameMode, Timestamp,
};

use super::Recorder;
use crate::event::Event;
use crate::operation::{Made, Operation};

impl Names for Recorder {
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId> {
        self.inner.lookup(folder, name)
    }

    fn parent(&mut self, folder: FileId) -> Outcome<FileId> {
        self.inner.parent(folder)
    }

    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()> {
        self.inner.read_folder(folder, after, take)
    }

    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId> {
        let begun = self.begins();
        let file = self.inner.create_in(folder, name, new)?;
        self.made(begun, (folder, name), file, new, &[]);
        Ok(file)
    }

    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId> {
        let begun = self.begins();
        let file = self.inner.create_symbolic_link(folder, name, target, new)?;
        let new = NewFile { kind: FileKind::SymbolicLink, ..*new };
        self.made(begun, (folder, name), file, &new, target);
        Ok(file)
    }

    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>> {
        self.inner.read_symbolic_link(file)
    }

    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        let begun = self.begins();
        self.inner.link(file, folder, name, now)?;
        self.record(begun, |numbers| {
            Event::Done(Operation::Link(numbers.entry(folder, name), numbers.number(file)))
        });
        Ok(())
    }

    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        let begun = self.begins();
        self.inner.unlink(folder, name, now)?;
        self.record(begun, |numbers| Event::Done(Operation::Unlink(numbers.entry(folder, name))));
        Ok(())
    }

    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        let begun = self.begins();
        self.inner.remove_folder(folder, name, now)?;
        self.record(begun, |numbers| Event::Done(Operation::RemoveFolder(numbers.entry(folder, name))));
        Ok(())
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
        let begun = self.begins();
        self.inner.rename_in(folder, name, new_folder, new_name, mode, now)?;
        self.record(begun, |numbers| {
            let (from, to) = (numbers.entry(folder, name), numbers.entry(new_folder, new_name));
            Event::Done(Operation::Rename(from, to, mode))
        });
        Ok(())
    }

    /// Refused while the tape runs: a recording has no operation that renames and creates in one step.
    fn rename_leaving_whiteout(
        &mut self,
        folder: FileId,
        name: &[u8],
        new_folder: FileId,
        new_name: &[u8],
        whiteout: &NewFile,
    ) -> Outcome<()> {
        if self.begins().is_some() {
            return Err(Errno::EINVAL);
        }
        self.inner.rename_leaving_whiteout(folder, name, new_folder, new_name, whiteout)
    }

    fn open(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.open(file)?;
        self.record(begun, |numbers| Event::Opened(numbers.number(file)));
        Ok(())
    }

    fn close(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.close(file)?;
        self.record(begun, |numbers| Event::Closed(numbers.number(file)));
        Ok(())
    }

    fn sync_folder(&mut self, folder: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.sync_folder(folder)?;
        self.record(begun, |numbers| Event::Done(Operation::SyncFolder(numbers.number(folder))));
        Ok(())
    }
}

impl Recorder {
    fn made(
        &self,
        begun: Option<Nanoseconds>,
        place: (FileId, &[u8]),
        file: FileId,
        new: &NewFile,
        target: &[u8],
    ) {
        self.record(begun, |numbers| {
            let entry = numbers.entry(place.0, place.1);
            let NewFile { kind, permissions, owner, group, .. } = *new;
            let made = Made { kind, permissions, owner, group, target: target.to_vec() };
            Event::Done(Operation::Create(entry, numbers.give(file), made))
        });
    }
}
