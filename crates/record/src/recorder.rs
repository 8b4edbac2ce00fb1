//! A file system that tells what is done to another.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tantalum::{Fetches, Fills, Nanoseconds};
use tantalum_drive::Client;
use tantalum_filesystem::{
    Attributes, Content, Errno, FileId, FileKind, FileSystem, FolderEntry, Metadata, MetadataChange, Names,
    NewFile, Outcome, RangeCommit, Ranges, RenameMode, SetMode, Statistics, Timestamp, UnmountFailure,
};

use crate::event::{Event, Stamped, WriteKind};
use crate::operation::{Attribute, Entry, FileNumber, Made, Operation, ROOT};

/// Takes what a recorder tells.
pub trait Sink: Send {
    /// Takes an event. What cannot be kept is reported by [`Sink::flush`].
    fn take(&mut self, event: Stamped<'_>);

    /// Finishes what waits in memory, and reports whether everything was kept.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Whether contents may move between files without being written. If not, such requests are refused while this
    /// sink is told, and programs write instead.
    fn takes_moves(&self) -> bool {
        true
    }
}

/// Starts and ends the recording of a file system, from outside. Clones are the same tape.
#[derive(Clone, Default)]
pub struct Tape(Arc<Reel>);

#[derive(Default)]
struct Reel {
    /// Whether anything is recorded: looked at before each operation.
    runs: AtomicBool,
    running: Mutex<Option<Running>>,
}

/// A recording that is under way.
struct Running {
    sink: Box<dyn Sink>,
    numbers: Numbers,
}

/// File systems use the numbers of files that are gone again; a recording does not.
struct Numbers {
    of: HashMap<FileId, FileNumber>,
    next: FileNumber,
}

impl Numbers {
    fn new() -> Numbers {
        Numbers { of: HashMap::from([(FileId::ROOT, ROOT)]), next: ROOT + 1 }
    }

    /// The number of a file. One without a name when the recording started gets its number now.
    fn number(&mut self, file: FileId) -> FileNumber {
        match self.of.get(&file) {
            Some(number) => *number,
            None => self.give(file),
        }
    }

    fn give(&mut self, file: FileId) -> FileNumber {
        let number = self.next;
        self.of.insert(file, number);
        self.next += 1;
        number
    }

    fn entry(&mut self, folder: FileId, name: &[u8]) -> Entry {
        Entry { folder: self.number(folder), name: name.to_vec() }
    }
}

impl Tape {
    /// Starts a recording with the files that are there. None if another one is under way.
    pub fn start(&self, file_system: &mut dyn FileSystem, sink: Box<dyn Sink>) -> Outcome<Option<()>> {
        let mut running = self.0.running.lock();
        if running.is_some() {
            return Ok(None);
        }
        let mut started = Running { sink, numbers: Numbers::new() };
        tell_of_files(file_system, &mut started)?;
        *running = Some(started);
        self.0.runs.store(true, Ordering::Release);
        Ok(Some(()))
    }

    /// Starts a recording on a file system that is empty, or whose files do not matter.
    pub fn start_empty(&self, sink: Box<dyn Sink>) {
        *self.0.running.lock() = Some(Running { sink, numbers: Numbers::new() });
        self.0.runs.store(true, Ordering::Release);
    }

    /// Sets a mark, after which everything so far is with the sink.
    pub fn mark(&self, at_ns: Nanoseconds) -> io::Result<()> {
        match &mut *self.0.running.lock() {
            Some(running) => {
                running.sink.take(Stamped { at_ns, took_ns: 0, event: Event::Marked });
                running.sink.flush()
            }
            None => Err(io::Error::other("nothing is recorded")),
        }
    }

    /// Ends the recording, if there is one.
    pub fn end(&self) {
        self.0.runs.store(false, Ordering::Release);
        let ended = self.0.running.lock().take();
        if let Some(mut running) = ended {
            // whoever reads the recording sees where it ends
            let _ = running.sink.flush();
        }
    }

    fn runs(&self) -> bool {
        self.0.runs.load(Ordering::Acquire)
    }
}

/// The files that are there, as if they were created now.
fn tell_of_files(file_system: &mut dyn FileSystem, running: &mut Running) -> Outcome<()> {
    let mut folders = vec![FileId::ROOT];
    while let Some(folder) = folders.pop() {
        let mut entries = Vec::new();
        file_system.read_folder(folder, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.file, entry.kind));
            ControlFlow::Continue(())
        })?;
        for (name, file, kind) in entries {
            tell_of_file(file_system, running, folder, &name, file)?;
            if kind == FileKind::Folder {
                folders.push(file);
            }
        }
    }
    Ok(())
}

fn tell_of_file(
    file_system: &mut dyn FileSystem,
    running: &mut Running,
    folder: FileId,
    name: &[u8],
    file: FileId,
) -> Outcome<()> {
    let Running { sink, numbers } = running;
    let entry = numbers.entry(folder, name);
    let mut tell = |event| sink.take(Stamped { at_ns: 0, took_ns: 0, event });
    if let Some(number) = numbers.of.get(&file) {
        tell(Event::Done(Operation::Link(entry, *number)));
        return Ok(());
    }
    let metadata = file_system.metadata(file)?;
    let target = match metadata.kind {
        FileKind::SymbolicLink => file_system.read_symbolic_link(file)?,
        _ => Vec::new(),
    };
    let Metadata { kind, permissions, owner, group, size, .. } = metadata;
    let number = numbers.give(file);
    tell(Event::Done(Operation::Create(entry, number, Made { kind, permissions, owner, group, target })));
    if kind == FileKind::File {
        tell(Event::Held { file: number, bytes: size });
    }
    Ok(())
}

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
        let Some(at_ns) = begun else { return };
        if let Some(running) = &mut *self.tape.0.running.lock() {
            let took_ns = self.inner.client().now_ns().saturating_sub(at_ns);
            let event = event(&mut running.numbers);
            running.sink.take(Stamped { at_ns, took_ns, event });
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
        if !self.tape.runs() {
            return Ok(());
        }
        let running = self.tape.0.running.lock();
        let is_refused = running.as_ref().is_some_and(|running| !running.sink.takes_moves());
        if is_refused { Err(Errno::EOPNOTSUPP) } else { Ok(()) }
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
            Event::Copied { from: (from, from_offset), to: (to, to_offset), bytes: copied }
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
