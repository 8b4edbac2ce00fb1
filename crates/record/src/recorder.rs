//! A file system that tells what is done to another.

use std::ops::ControlFlow;

use tantalum::{Fetches, Fills, Nanoseconds};
use tantalum_drive::Client;
use tantalum_filesystem::{
    Attributes, Content, Errno, FileId, FileKind, FileSystem, FolderEntry, Metadata, MetadataChange, Names,
    NewFile, Outcome, RangeCommit, Ranges, RenameMode, SetMode, Statistics, Timestamp, UnmountFailure,
};

use crate::event::{Event, WriteKind};
use crate::operation::{Attribute, FileNumber, Made, Operation};
use crate::tape::{Numbers, Tape};

/// A file system whose changes are recorded while its tape runs.
pub struct Recorder {
    inner: Box<dyn FileSystem>,
    tape: Tape,
}

impl Recorder {
    /// In front of `inner`.
    pub fn new(inner: Box<dyn FileSystem>, tape: Tape) -> Recorder {
        Recorder { inner, tape }
    }

    /// When the operation begins that is about to be done; none if nothing is recorded.
    fn begins(&self) -> Option<Nanoseconds> {
        self.tape.runs().then(|| self.inner.client().now_ns())
    }

    /// Records what was done since then.
    fn record<'a>(&self, begun: Option<Nanoseconds>, event: impl FnOnce(&mut Numbers) -> Event<'a>) {
        if let Some(at_ns) = begun {
            let took_ns = self.inner.client().now_ns().saturating_sub(at_ns);
            self.tape.record(at_ns, took_ns, event);
        }
    }

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

    fn check_moves(&self) -> Outcome<()> {
        if self.tape.refuses_moves() { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
    }
}

impl FileSystem for Recorder {
    fn client(&self) -> &Client {
        self.inner.client()
    }

    fn client_mut(&mut self) -> &mut Client {
        self.inner.client_mut()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn write_back(&mut self) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_back()?;
        self.record(begun, |_| Event::WrittenBack);
        Ok(())
    }

    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure> {
        self.tape.end();
        self.inner.unmount()
    }

    fn into_client_without_sync(self: Box<Self>) -> Client {
        self.tape.end();
        self.inner.into_client_without_sync()
    }
}

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

impl Attributes for Recorder {
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata> {
        self.inner.metadata(file)
    }

    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()> {
        let begun = self.begins();
        self.inner.change_metadata(file, change)?;
        let done = |operation: &dyn Fn(FileNumber) -> Operation| {
            self.record(begun, |numbers| Event::Done(operation(numbers.number(file))));
        };
        if let Some(size) = change.size {
            done(&|number| Operation::Resize(number, size));
        }
        if let Some(permissions) = change.permissions {
            done(&|number| Operation::Change(number, Attribute::Permissions(permissions)));
        }
        if change.owner.is_some() || change.group.is_some() {
            done(&|number| Operation::Change(number, Attribute::Owner(change.owner, change.group)));
        }
        if change.accessed.is_some() || change.modified.is_some() || change.changed.is_some() {
            self.record(begun, |numbers| Event::Touched(numbers.number(file)));
        }
        Ok(())
    }

    fn extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<Vec<u8>> {
        self.inner.extended_attribute(file, name)
    }

    fn extended_attributes(&mut self, file: FileId) -> Outcome<Vec<Vec<u8>>> {
        self.inner.extended_attributes(file)
    }

    fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Outcome<()> {
        let begun = self.begins();
        self.inner.set_extended_attribute(file, name, value, mode)?;
        let attribute = || Attribute::Extended(name.to_vec(), Some(value.to_vec()));
        self.record(begun, |numbers| Event::Done(Operation::Change(numbers.number(file), attribute())));
        Ok(())
    }

    fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<()> {
        let begun = self.begins();
        self.inner.remove_extended_attribute(file, name)?;
        let attribute = || Attribute::Extended(name.to_vec(), None);
        self.record(begun, |numbers| Event::Done(Operation::Change(numbers.number(file), attribute())));
        Ok(())
    }
}

impl Content for Recorder {
    fn read(
        &mut self,
        file: FileId,
        offset: u64,
        data: &mut [u8],
        later: Option<&mut Fetches>,
    ) -> Outcome<usize> {
        self.inner.read(file, offset, data, later)
    }

    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write(file, offset, data)?;
        self.record(begun, |numbers| wrote(numbers.number(file), offset, data, WriteKind::Cached));
        Ok(())
    }

    fn write_direct(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_direct(file, offset, data, fills)?;
        self.record(begun, |numbers| wrote(numbers.number(file), offset, data, WriteKind::Direct));
        Ok(())
    }

    fn has_whole_writes(&self) -> bool {
        self.inner.has_whole_writes()
    }

    fn write_whole(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_whole(file, offset, data)?;
        self.record(begun, |numbers| wrote(numbers.number(file), offset, data, WriteKind::Whole));
        Ok(())
    }

    fn write_out(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.write_out(file)?;
        self.record(begun, |numbers| Event::WrittenOut(numbers.number(file)));
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.sync(file)?;
        self.record(begun, |numbers| Event::Done(Operation::Sync(numbers.number(file))));
        Ok(())
    }

    fn sync_data(&mut self, file: FileId) -> Outcome<()> {
        let begun = self.begins();
        self.inner.sync_data(file)?;
        self.record(begun, |numbers| Event::Done(Operation::SyncData(numbers.number(file))));
        Ok(())
    }
}

fn wrote(file: FileNumber, offset: u64, data: &[u8], kind: WriteKind) -> Event<'_> {
    Event::Wrote { file, offset, data, kind }
}

impl Ranges for Recorder {
    fn allocate(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        let begun = self.begins();
        self.inner.allocate(file, offset, bytes, keep_size)?;
        self.record(begun, |numbers| {
            Event::Done(Operation::Allocate { file: numbers.number(file), offset, bytes, keep_size })
        });
        Ok(())
    }

    fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Outcome<()> {
        let begun = self.begins();
        self.inner.punch_hole(file, offset, bytes)?;
        self.record(begun, |numbers| Event::Punched { file: numbers.number(file), offset, bytes });
        Ok(())
    }

    fn zero_range(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        let begun = self.begins();
        self.inner.zero_range(file, offset, bytes, keep_size)?;
        self.record(begun, |numbers| {
            Event::Done(Operation::Zero { file: numbers.number(file), offset, bytes, keep_size })
        });
        Ok(())
    }

    fn seek_data(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        self.inner.seek_data(file, from)
    }

    fn seek_hole(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        self.inner.seek_hole(file, from)
    }

    fn copy_range(
        &mut self,
        from: FileId,
        from_offset: u64,
        to: FileId,
        to_offset: u64,
        bytes: u64,
    ) -> Outcome<u64> {
        self.check_moves()?;
        let begun = self.begins();
        let copied = self.inner.copy_range(from, from_offset, to, to_offset, bytes)?;
        self.record(begun, |numbers| {
            let (from, to) = (numbers.number(from), numbers.number(to));
            Event::Copied { from: (from, from_offset), to: (to, to_offset), bytes, copied }
        });
        Ok(copied)
    }

    fn commit_ranges(&mut self, ranges: &[RangeCommit]) -> Outcome<()> {
        self.check_moves()?;
        let begun = self.begins();
        self.inner.commit_ranges(ranges)?;
        self.record(begun, |numbers| {
            let mut commit = |range: &RangeCommit| {
                let from = (numbers.number(range.from), range.from_offset);
                (from, (numbers.number(range.to), range.to_offset), range.bytes)
            };
            Event::Committed(ranges.iter().map(&mut commit).collect())
        });
        Ok(())
    }

    fn exchange_ranges(
        &mut self,
        a: FileId,
        a_offset: u64,
        b: FileId,
        b_offset: u64,
        bytes: u64,
    ) -> Outcome<()> {
        self.check_moves()?;
        let begun = self.begins();
        self.inner.exchange_ranges(a, a_offset, b, b_offset, bytes)?;
        self.record(begun, |numbers| {
            let (a, b) = ((numbers.number(a), a_offset), (numbers.number(b), b_offset));
            Event::Exchanged { a, b, bytes }
        });
        Ok(())
    }
}
