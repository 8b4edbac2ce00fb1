//! A file system that records what is done to another.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use parking_lot::Mutex;
use tantalum::{Fetches, Fills};
use tantalum_drive::Client;
use tantalum_filesystem::{
    Attributes, Content, FileId, FileKind, FileSystem, FolderEntry, Metadata, MetadataChange, Names, NewFile,
    Outcome, Ranges, RenameMode, SetMode, Statistics, Timestamp, UnmountFailure,
};
use tantalum_volume::Volume;

use crate::operation::{Attribute, Entry, FileNumber, Made, Operation, ROOT, Recording};

/// What is recorded, for the recorder and for who waits for the program.
pub(crate) type Shared = Arc<Mutex<Recording>>;

/// A volume whose changes are recorded.
pub(crate) struct Recorder {
    volume: Box<Volume>,
    recording: Shared,
    /// A volume uses the numbers of files that are gone again.
    numbers: HashMap<FileId, FileNumber>,
    next: FileNumber,
}

impl Recorder {
    pub fn new(volume: Volume, recording: Shared) -> Recorder {
        let numbers = HashMap::from([(FileId::ROOT, ROOT)]);
        Recorder { volume: Box::new(volume), recording, numbers, next: ROOT + 1 }
    }

    fn number(&self, file: FileId) -> FileNumber {
        *self.numbers.get(&file).expect("every file was made while it was recorded")
    }

    fn entry(&self, folder: FileId, name: &[u8]) -> Entry {
        Entry { folder: self.number(folder), name: name.to_vec() }
    }

    fn record(&self, operation: Operation) {
        self.recording.lock().operations.push(operation);
    }

    fn made(&mut self, folder: FileId, name: &[u8], file: FileId, new: &NewFile, target: &[u8]) {
        self.numbers.insert(file, self.next);
        let made = Made {
            kind: new.kind,
            permissions: new.permissions,
            owner: new.owner,
            group: new.group,
            target: target.to_vec(),
        };
        self.record(Operation::Create(self.entry(folder, name), self.next, made));
        self.next += 1;
    }
}

impl FileSystem for Recorder {
    fn client(&self) -> &Client {
        self.volume.client()
    }

    fn client_mut(&mut self) -> &mut Client {
        self.volume.client_mut()
    }

    fn statistics(&self) -> Statistics {
        FileSystem::statistics(&*self.volume)
    }

    fn write_back(&mut self) -> Outcome<()> {
        self.volume.write_back()
    }

    fn unmount(self: Box<Self>) -> Result<Client, UnmountFailure> {
        FileSystem::unmount(self.volume)
    }

    fn into_client_without_sync(self: Box<Self>) -> Client {
        FileSystem::into_client_without_sync(self.volume)
    }
}

impl Names for Recorder {
    fn lookup(&mut self, folder: FileId, name: &[u8]) -> Outcome<FileId> {
        Names::lookup(&mut *self.volume, folder, name)
    }

    fn parent(&mut self, folder: FileId) -> Outcome<FileId> {
        Names::parent(&mut *self.volume, folder)
    }

    fn read_folder(
        &mut self,
        folder: FileId,
        after: u64,
        take: &mut dyn FnMut(FolderEntry<'_>) -> ControlFlow<()>,
    ) -> Outcome<()> {
        Names::read_folder(&mut *self.volume, folder, after, take)
    }

    fn create_in(&mut self, folder: FileId, name: &[u8], new: &NewFile) -> Outcome<FileId> {
        let file = Names::create_in(&mut *self.volume, folder, name, new)?;
        self.made(folder, name, file, new, &[]);
        Ok(file)
    }

    fn create_symbolic_link(
        &mut self,
        folder: FileId,
        name: &[u8],
        target: &[u8],
        new: &NewFile,
    ) -> Outcome<FileId> {
        let file = Names::create_symbolic_link(&mut *self.volume, folder, name, target, new)?;
        self.made(folder, name, file, &NewFile { kind: FileKind::SymbolicLink, ..*new }, target);
        Ok(file)
    }

    fn read_symbolic_link(&mut self, file: FileId) -> Outcome<Vec<u8>> {
        Names::read_symbolic_link(&mut *self.volume, file)
    }

    fn link(&mut self, file: FileId, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Names::link(&mut *self.volume, file, folder, name, now)?;
        self.record(Operation::Link(self.entry(folder, name), self.number(file)));
        Ok(())
    }

    fn unlink(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Names::unlink(&mut *self.volume, folder, name, now)?;
        self.record(Operation::Unlink(self.entry(folder, name)));
        Ok(())
    }

    fn remove_folder(&mut self, folder: FileId, name: &[u8], now: Timestamp) -> Outcome<()> {
        Names::remove_folder(&mut *self.volume, folder, name, now)?;
        self.record(Operation::RemoveFolder(self.entry(folder, name)));
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
        Names::rename_in(&mut *self.volume, folder, name, new_folder, new_name, mode, now)?;
        let (from, to) = (self.entry(folder, name), self.entry(new_folder, new_name));
        self.record(Operation::Rename(from, to, mode));
        Ok(())
    }

    fn open(&mut self, file: FileId) -> Outcome<()> {
        Names::open(&mut *self.volume, file)
    }

    fn close(&mut self, file: FileId) -> Outcome<()> {
        Names::close(&mut *self.volume, file)
    }

    fn sync_folder(&mut self, folder: FileId) -> Outcome<()> {
        Names::sync_folder(&mut *self.volume, folder)?;
        self.record(Operation::SyncFolder(self.number(folder)));
        Ok(())
    }
}

impl Attributes for Recorder {
    fn metadata(&mut self, file: FileId) -> Outcome<Metadata> {
        Attributes::metadata(&mut *self.volume, file)
    }

    fn change_metadata(&mut self, file: FileId, change: &MetadataChange) -> Outcome<()> {
        Attributes::change_metadata(&mut *self.volume, file, change)?;
        let number = self.number(file);
        if let Some(size) = change.size {
            self.record(Operation::Resize(number, size));
        }
        if let Some(permissions) = change.permissions {
            self.record(Operation::Change(number, Attribute::Permissions(permissions)));
        }
        if change.owner.is_some() || change.group.is_some() {
            self.record(Operation::Change(number, Attribute::Owner(change.owner, change.group)));
        }
        Ok(())
    }

    fn extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<Vec<u8>> {
        Attributes::extended_attribute(&mut *self.volume, file, name)
    }

    fn extended_attributes(&mut self, file: FileId) -> Outcome<Vec<Vec<u8>>> {
        Attributes::extended_attributes(&mut *self.volume, file)
    }

    fn set_extended_attribute(
        &mut self,
        file: FileId,
        name: &[u8],
        value: &[u8],
        mode: SetMode,
    ) -> Outcome<()> {
        Attributes::set_extended_attribute(&mut *self.volume, file, name, value, mode)?;
        let attribute = Attribute::Extended(name.to_vec(), Some(value.to_vec()));
        self.record(Operation::Change(self.number(file), attribute));
        Ok(())
    }

    fn remove_extended_attribute(&mut self, file: FileId, name: &[u8]) -> Outcome<()> {
        Attributes::remove_extended_attribute(&mut *self.volume, file, name)?;
        self.record(Operation::Change(self.number(file), Attribute::Extended(name.to_vec(), None)));
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
        Content::read(&mut *self.volume, file, offset, data, later)
    }

    fn write(&mut self, file: FileId, offset: u64, data: &[u8]) -> Outcome<()> {
        Content::write(&mut *self.volume, file, offset, data)?;
        self.record(Operation::Write(self.number(file), offset, data.into()));
        Ok(())
    }

    fn write_direct(
        &mut self,
        file: FileId,
        offset: u64,
        data: &[u8],
        fills: Option<&mut Fills>,
    ) -> Outcome<()> {
        let recorded = data.into();
        Content::write_direct(&mut *self.volume, file, offset, data, fills)?;
        self.record(Operation::Write(self.number(file), offset, recorded));
        Ok(())
    }

    fn sync(&mut self, file: FileId) -> Outcome<()> {
        Content::sync(&mut *self.volume, file)?;
        self.record(Operation::Sync(self.number(file)));
        Ok(())
    }

    fn sync_data(&mut self, file: FileId) -> Outcome<()> {
        Content::sync_data(&mut *self.volume, file)?;
        self.record(Operation::SyncData(self.number(file)));
        Ok(())
    }
}

/// What moves contents without writing them is refused, so that programs write them.
impl Ranges for Recorder {
    fn allocate(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        Ranges::allocate(&mut *self.volume, file, offset, bytes, keep_size)?;
        self.record(Operation::Allocate { file: self.number(file), offset, bytes, keep_size });
        Ok(())
    }

    fn punch_hole(&mut self, file: FileId, offset: u64, bytes: u64) -> Outcome<()> {
        Ranges::punch_hole(&mut *self.volume, file, offset, bytes)?;
        self.record(Operation::Zero { file: self.number(file), offset, bytes, keep_size: true });
        Ok(())
    }

    fn zero_range(&mut self, file: FileId, offset: u64, bytes: u64, keep_size: bool) -> Outcome<()> {
        Ranges::zero_range(&mut *self.volume, file, offset, bytes, keep_size)?;
        self.record(Operation::Zero { file: self.number(file), offset, bytes, keep_size });
        Ok(())
    }

    fn seek_data(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ranges::seek_data(&mut *self.volume, file, from)
    }

    fn seek_hole(&mut self, file: FileId, from: u64) -> Outcome<Option<u64>> {
        Ranges::seek_hole(&mut *self.volume, file, from)
    }
}
