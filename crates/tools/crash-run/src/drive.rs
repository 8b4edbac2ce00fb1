//! Replays the recorded operations on a drive that loses power.

use std::ops::ControlFlow;
use std::sync::Arc;

use tantalum::{Device, PowerLoss, Profile};
use tantalum_filesystem::{Attributes, Content, Errno, FileId, FileKind, FileSystem, Names, Outcome, Ranges};
use tantalum_record::Performer;
use tantalum_volume::Volume;

use crate::error::RunError;
use crate::operation::{FileNumber, FolderName, Made, Operation, ROOT, Recording};
use crate::program::CACHE_BYTES;
use crate::tree::{File, Tree};

/// What a cut left behind.
pub(crate) struct Left {
    /// The number of operations that had returned.
    pub operations: usize,
    /// The number of flash operations that the program took.
    pub flash_operations: u64,
    /// The files on the volume after recovery.
    pub tree: Tree,
}

/// Replays the recording on a new drive that loses power at this flash operation of the program, counted from 1; with
/// `None`, after its last command. Returns `None` if the program has fewer flash operations.
pub(crate) fn cut_at(
    recording: &Recording,
    profile: &Profile,
    flash_operation: Option<u64>,
    seed: u64,
) -> Result<Option<Left>, RunError> {
    let volume = Volume::format(Device::in_memory(profile)?, CACHE_BYTES)?;
    // the program may keep a file open that has no name any more: its number must not be reused
    let mut replay = Performer::keeping_open(volume);
    for (number, operation) in recording.operations[..recording.begins].iter().enumerate() {
        perform(&mut replay, number, operation)?;
    }
    let errno = |errno| RunError::Replay { operation: recording.begins, errno };
    FileSystem::write_back(&mut replay.file_system).map_err(errno)?;
    let before = flash_operations(&replay);
    replay.file_system.client().device().cut_after(flash_operation);
    let mut done = recording.begins;
    for operation in &recording.operations[recording.begins..] {
        if !has_power(&replay) {
            break;
        }
        perform(&mut replay, done, operation)?;
        done += usize::from(has_power(&replay));
    }
    if has_power(&replay) && flash_operation.is_some() {
        return Ok(None);
    }
    let flash_operations = flash_operations(&replay) - before;
    let broken =
        |what: String| RunError::NotRecovered { operation: flash_operation.unwrap_or_default(), what };
    let mut device =
        replay.file_system.into_client_without_sync().into_device().expect("nobody shares the drive");
    device.cut_power(device.time_ns());
    device.power_on(&mut PowerLoss::seeded(seed)).map_err(|error| broken(error.to_string()))?;
    device.cut_after(None);
    let mut volume = Volume::mount(device, CACHE_BYTES).map_err(|error| broken(error.to_string()))?;
    let tree = read(&mut volume).map_err(|errno| broken(format!("the volume cannot be read: {errno}")))?;
    Ok(Some(Left { operations: done, flash_operations, tree }))
}

/// Performs an operation; errors count only while there is power. Operations on a file that has no name any more are skipped,
/// since nobody sees the result.
fn perform(replay: &mut Performer<Volume>, number: usize, operation: &Operation) -> Result<(), RunError> {
    match replay.perform(operation) {
        Err(Errno::ESTALE) | Ok(()) => Ok(()),
        Err(_) if !has_power(replay) => Ok(()),
        Err(errno) => Err(RunError::Replay { operation: number, errno }),
    }
}

fn flash_operations(replay: &Performer<Volume>) -> u64 {
    replay.file_system.client().device().flash_operations()
}

fn has_power(replay: &Performer<Volume>) -> bool {
    replay.file_system.client().device().has_power()
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
            tree.names.insert(FolderName { folder: number, name }, child);
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
