//! The recorded operations, done again on a drive that loses power.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use tantalum::{Device, PowerLoss, Profile};
use tantalum_filesystem::{
    Attributes, Content, Errno, FileId, FileKind, FileSystem, MetadataChange, Names, NewFile, Outcome,
    Ranges, SetMode, Timestamp,
};
use tantalum_volume::Volume;

use crate::error::RunError;
use crate::operation::{Attribute, Entry, FileNumber, Made, Operation, ROOT, Recording};
use crate::program::CACHE_BYTES;
use crate::tree::{File, Tree};

/// Times are not compared.
const NOW: Timestamp = Timestamp { seconds: 0, nanoseconds: 0 };

/// What a cut left.
pub(crate) struct Left {
    /// Operations that had returned.
    pub operations: usize,
    /// Flash operations that the program took.
    pub flash_operations: u64,
    /// The files on the volume after recovery.
    pub tree: Tree,
}

/// Does the recording on a fresh drive whose power goes at this flash operation of the program, from 1, or after its last
/// command. None if there are fewer.
pub(crate) fn cut_at(
    recording: &Recording,
    profile: &Profile,
    flash_operation: Option<u64>,
    seed: u64,
) -> Result<Option<Left>, RunError> {
    let mut replay = Replay::new(profile)?;
    for (number, operation) in recording.operations[..recording.begins].iter().enumerate() {
        replay.perform(number, operation)?;
    }
    let errno = |errno| RunError::Replay { operation: recording.begins, errno };
    FileSystem::write_back(&mut replay.volume).map_err(errno)?;
    let before = replay.flash_operations();
    replay.volume.client().device().cut_after(flash_operation);
    let mut done = recording.begins;
    for operation in &recording.operations[recording.begins..] {
        if !replay.has_power() {
            break;
        }
        replay.perform(done, operation)?;
        done += usize::from(replay.has_power());
    }
    if replay.has_power() && flash_operation.is_some() {
        return Ok(None);
    }
    let flash_operations = replay.flash_operations() - before;
    let broken =
        |what: String| RunError::NotRecovered { operation: flash_operation.unwrap_or_default(), what };
    let mut device = replay.volume.into_client_without_sync().into_device().expect("nobody shares the drive");
    device.cut_power(device.time_ns());
    device.power_on(&mut PowerLoss::seeded(seed)).map_err(|error| broken(error.to_string()))?;
    device.cut_after(None);
    let mut volume = Volume::mount(device, CACHE_BYTES).map_err(|error| broken(error.to_string()))?;
    let tree = read(&mut volume).map_err(|errno| broken(format!("the volume cannot be read: {errno}")))?;
    Ok(Some(Left { operations: done, flash_operations, tree }))
}

struct Replay {
    volume: Volume,
    files: HashMap<FileNumber, FileId>,
}

impl Replay {
    fn new(profile: &Profile) -> Result<Replay, RunError> {
        let volume = Volume::format(Device::in_memory(profile)?, CACHE_BYTES)?;
        Ok(Replay { volume, files: HashMap::from([(ROOT, FileId::ROOT)]) })
    }

    fn flash_operations(&self) -> u64 {
        self.volume.client().device().flash_operations()
    }

    fn has_power(&self) -> bool {
        self.volume.client().device().has_power()
    }

    /// Fails only while there is power. What is done to a file that has no name any more is not done: nobody sees it.
    fn perform(&mut self, number: usize, operation: &Operation) -> Result<(), RunError> {
        match self.attempt(operation) {
            Err(Errno::ESTALE) | Ok(()) => Ok(()),
            Err(_) if !self.has_power() => Ok(()),
            Err(errno) => Err(RunError::Replay { operation: number, errno }),
        }
    }

    fn file(&self, file: FileNumber) -> Outcome<FileId> {
        self.files.get(&file).copied().ok_or(Errno::ESTALE)
    }

    fn attempt(&mut self, operation: &Operation) -> Outcome<()> {
        let file_of = |entry: &Entry| self.file(entry.folder);
        match operation {
            Operation::Create(entry, file, made) => {
                let folder = file_of(entry)?;
                let id = self.create(folder, &entry.name, made)?;
                self.files.insert(*file, id);
                Ok(())
            }
            Operation::Link(entry, file) => {
                let (file, folder) = (self.file(*file)?, file_of(entry)?);
                Names::link(&mut self.volume, file, folder, &entry.name, NOW)
            }
            Operation::Unlink(entry) => {
                let folder = file_of(entry)?;
                Names::unlink(&mut self.volume, folder, &entry.name, NOW)
            }
            Operation::RemoveFolder(entry) => {
                let folder = file_of(entry)?;
                Names::remove_folder(&mut self.volume, folder, &entry.name, NOW)
            }
            Operation::Rename(from, to, mode) => {
                let (folder, new) = (file_of(from)?, file_of(to)?);
                Names::rename_in(&mut self.volume, folder, &from.name, new, &to.name, *mode, NOW)
            }
            Operation::SyncFolder(folder) => {
                let folder = self.file(*folder)?;
                Names::sync_folder(&mut self.volume, folder)
            }
            other => self.change(other),
        }
    }

    fn change(&mut self, operation: &Operation) -> Outcome<()> {
        let volume = &mut self.volume;
        let file_of = |file: &FileNumber| self.files.get(file).copied().ok_or(Errno::ESTALE);
        match operation {
            Operation::Write(file, offset, data) => Content::write(volume, file_of(file)?, *offset, data),
            Operation::Zero { file, offset, bytes, keep_size } => {
                Ranges::zero_range(volume, file_of(file)?, *offset, *bytes, *keep_size)
            }
            Operation::Allocate { file, offset, bytes, keep_size } => {
                Ranges::allocate(volume, file_of(file)?, *offset, *bytes, *keep_size)
            }
            Operation::Resize(file, size) => {
                let change = MetadataChange { size: Some(*size), ..MetadataChange::default() };
                Attributes::change_metadata(volume, file_of(file)?, &change)
            }
            Operation::Change(file, attribute) => {
                let file = file_of(file)?;
                change_attribute(volume, file, attribute)
            }
            Operation::Sync(file) => Content::sync(volume, file_of(file)?),
            Operation::SyncData(file) => Content::sync_data(volume, file_of(file)?),
            _ => unreachable!("names are changed elsewhere"),
        }
    }

    fn create(&mut self, folder: FileId, name: &[u8], made: &Made) -> Outcome<FileId> {
        let Made { kind, permissions, owner, group, ref target } = *made;
        let new = NewFile { kind, permissions, owner, group, device_number: 0, now: NOW };
        match kind {
            FileKind::SymbolicLink => {
                Names::create_symbolic_link(&mut self.volume, folder, name, target, &new)
            }
            _ => {
                let file = Names::create_in(&mut self.volume, folder, name, &new)?;
                // the program may have it open, and its number must not become another's
                Names::open(&mut self.volume, file)?;
                Ok(file)
            }
        }
    }
}

fn change_attribute(volume: &mut Volume, file: FileId, attribute: &Attribute) -> Outcome<()> {
    let mut change = MetadataChange::default();
    match attribute {
        Attribute::Permissions(permissions) => change.permissions = Some(*permissions),
        Attribute::Owner(owner, group) => (change.owner, change.group) = (*owner, *group),
        Attribute::Extended(name, Some(value)) => {
            return Attributes::set_extended_attribute(volume, file, name, value, SetMode::Any);
        }
        Attribute::Extended(name, None) => return Attributes::remove_extended_attribute(volume, file, name),
    }
    Attributes::change_metadata(volume, file, &change)
}

/// All files of a volume.
fn read(volume: &mut Volume) -> Outcome<Tree> {
    let mut tree = Tree::default();
    let mut folders = vec![(FileId::ROOT, ROOT)];
    while let Some((folder, number)) = folders.pop() {
        let mut entries = Vec::new();
        Names::read_folder(volume, folder, 0, &mut |entry| {
            entries.push((entry.name.to_vec(), entry.file, entry.kind));
            ControlFlow::Continue(())
        })?;
        for (name, file, kind) in entries {
            let child = FileNumber::from(file.0);
            tree.names.insert(Entry { folder: number, name }, child);
            if tree.files.contains_key(&child) {
                continue;
            }
            tree.files.insert(child, Arc::new(read_file(volume, file)?));
            if kind == FileKind::Folder {
                folders.push((file, child));
            }
        }
    }
    Ok(tree)
}

fn read_file(volume: &mut Volume, file: FileId) -> Outcome<File> {
    let metadata = Attributes::metadata(volume, file)?;
    let target = match metadata.kind {
        FileKind::SymbolicLink => Names::read_symbolic_link(volume, file)?,
        _ => Vec::new(),
    };
    let mut found = File::new(Made {
        kind: metadata.kind,
        permissions: metadata.permissions,
        owner: metadata.owner,
        group: metadata.group,
        target,
    });
    for name in Attributes::extended_attributes(volume, file)? {
        let value = Attributes::extended_attribute(volume, file, &name)?;
        found.attributes.insert(name, value);
    }
    if metadata.kind == FileKind::File {
        found.contents.size = metadata.size;
        let mut data = vec![0; 1 << 20];
        let mut offset = 0;
        while let Some(from) = Ranges::seek_data(volume, file, offset)? {
            let bytes = Content::read(volume, file, from, &mut data, None)?;
            if bytes == 0 {
                break;
            }
            found.contents.put(from, &data[..bytes]);
            offset = from + bytes as u64;
        }
    }
    Ok(found)
}
