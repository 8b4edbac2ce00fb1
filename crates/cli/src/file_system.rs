//! The file systems that a drive can hold: creating, recognising and opening them.

use std::fmt;
use std::path::Path;

use clap::{Args, ValueEnum};
use tantalum::Device;
use tantalum_filesystem::{Attributes, FileSystem};
use tantalum_lfs::{Cleaning, Indexing, LfsError, LfsKind, LogFs};
use tantalum_volume::{FileId, MetadataChange, Volume};

use crate::failure::Failure;

/// A file system, as the command line names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum FileSystemKind {
    /// Files in extents; metadata change in atomic batches of the drive
    #[default]
    Volume,
    /// A log-structured file system like F2FS
    LfsNat,
    /// A log-structured file system like NILFS2, with snapshots
    LfsTree,
}

/// How the cleaner of a log-structured file system moves live data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum CleaningKind {
    /// Read and write them
    #[default]
    Copy,
    /// Let the drive remap them, without programming flash
    Remap,
}

/// What a sync of a file on a log-structured file system writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum IndexKind {
    /// Contents, and the changed part of the file's index; lfs-nat overwrites in place, as F2FS does
    #[default]
    Conventional,
    /// Contents, and the changed part of the file's index; nothing is overwritten in place
    Append,
    /// Contents only; the drive lists them in non-volatile memory
    Nvm,
}

impl fmt::Display for FileSystemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FileSystemKind::Volume => "volume",
            FileSystemKind::LfsNat => "lfs-nat",
            FileSystemKind::LfsTree => "lfs-tree",
        })
    }
}

/// How a file system is used while it is open.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// Bytes of its page cache.
    pub cache_bytes: u64,
    /// The snapshot to mount instead of the present.
    pub snapshot: Option<u32>,
    /// On a volume: share recently written data instead of writing them again.
    pub remap_duplicates: bool,
}

/// The file system to create, with `--create` or `--format`.
#[derive(Args, Debug)]
pub struct FileSystemOptions {
    /// The file system to create [default: volume]; an existing one is recognised
    #[arg(long, value_enum)]
    pub file_system: Option<FileSystemKind>,

    /// How the cleaner of a log-structured file system moves live data, chosen at creation [default: copy]
    #[arg(long, value_enum)]
    pub cleaning: Option<CleaningKind>,

    /// What a sync on a log-structured file system writes, chosen at creation [default: conventional]; nvm needs a drive
    /// with lists of files, such as --profile pebblessd
    #[arg(long, value_enum)]
    pub index: Option<IndexKind>,
}

impl FileSystemOptions {
    /// Refuses options that contradict each other.
    pub fn check(&self, is_made: bool) -> Result<(), Failure> {
        let has_log = self.file_system.is_some_and(|kind| kind != FileSystemKind::Volume);
        let options = [("--cleaning", self.cleaning.is_some()), ("--index", self.index.is_some())];
        match options.into_iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) if !is_made || !has_log => Err(Failure::OptionOfLogs { option }),
            _ => Ok(()),
        }
    }

    /// Creates the file system; everything on the drive is lost.
    pub fn make(&self, path: &Path, device: Device, how: Use) -> Result<Box<dyn FileSystem>, Failure> {
        let mine = MetadataChange::made_by_caller();
        match self.file_system.unwrap_or_default() {
            FileSystemKind::Volume => {
                let failure = |error| Failure::Volume { path: path.to_path_buf(), error };
                let mut volume = Volume::format(device, how.cache_bytes).map_err(failure)?;
                volume.change_metadata(FileId::ROOT, &mine).map_err(failure)?;
                // or after a kill its owner could not create anything in it
                volume.sync_all().map_err(failure)?;
                volume.set_remap_duplicates(how.remap_duplicates);
                Ok(Box::new(volume))
            }
            FileSystemKind::LfsNat => self.make_log_structured(path, device, LfsKind::Nat, how, &mine),
            FileSystemKind::LfsTree => self.make_log_structured(path, device, LfsKind::Tree, how, &mine),
        }
    }

    fn make_log_structured(
        &self,
        path: &Path,
        device: Device,
        kind: LfsKind,
        how: Use,
        mine: &MetadataChange,
    ) -> Result<Box<dyn FileSystem>, Failure> {
        let failure = |error| Failure::LogStructured { path: path.to_path_buf(), error };
        let cleaning = match self.cleaning.unwrap_or_default() {
            CleaningKind::Copy => Cleaning::Copy,
            CleaningKind::Remap => Cleaning::Remap,
        };
        let indexing = match self.index.unwrap_or_default() {
            IndexKind::Conventional => Indexing::Conventional,
            IndexKind::Append => Indexing::Appended,
            IndexKind::Nvm => Indexing::Nvm,
        };
        let made = LogFs::format_indexed(device, kind, cleaning, indexing, how.cache_bytes);
        let mut fs = made.map_err(failure)?;
        let changed = Attributes::change_metadata(&mut fs, FileId::ROOT, mine);
        let durable = changed.and_then(|()| FileSystem::write_back(&mut fs));
        durable.map_err(|errno| failure(LfsError::Refused(errno)))?;
        Ok(Box::new(fs))
    }

    /// The file system that a drive holds, if any; refused if another one was requested.
    pub fn recognise(&self, path: &Path, device: &mut Device) -> Result<Option<FileSystemKind>, Failure> {
        let found = recognise(path, device)?;
        match (found, self.file_system) {
            (Some(found), Some(wanted)) if found != wanted => {
                let (found, wanted) = (found.to_string(), wanted.to_string());
                Err(Failure::OtherFileSystem { path: path.to_path_buf(), found, wanted })
            }
            _ => Ok(found),
        }
    }
}

/// The file system that a drive holds; `None` if there is none.
pub fn recognise(path: &Path, device: &mut Device) -> Result<Option<FileSystemKind>, Failure> {
    let path = path.to_path_buf();
    let log_structured = LogFs::kind_on(device);
    match log_structured.map_err(|error| Failure::LogStructured { path: path.clone(), error })? {
        Some(LfsKind::Nat) => return Ok(Some(FileSystemKind::LfsNat)),
        Some(LfsKind::Tree) => return Ok(Some(FileSystemKind::LfsTree)),
        None => {}
    }
    let is_volume = Volume::is_formatted(device).map_err(|error| Failure::Volume { path, error })?;
    Ok(is_volume.then_some(FileSystemKind::Volume))
}

/// Mounts a drive's file system, which is of this kind.
pub fn mount(
    kind: FileSystemKind,
    path: &Path,
    device: Device,
    how: Use,
) -> Result<Box<dyn FileSystem>, Failure> {
    let path = path.to_path_buf();
    match kind {
        FileSystemKind::Volume if how.snapshot.is_some() => Err(Failure::NoSnapshots { path }),
        FileSystemKind::Volume => {
            let volume = Volume::mount(device, how.cache_bytes);
            let mut volume = volume.map_err(|error| Failure::Volume { path, error })?;
            volume.set_remap_duplicates(how.remap_duplicates);
            Ok(Box::new(volume))
        }
        FileSystemKind::LfsNat | FileSystemKind::LfsTree => {
            let fs = match how.snapshot {
                Some(number) => LogFs::mount_snapshot(device, number, how.cache_bytes),
                None => LogFs::mount(device, how.cache_bytes),
            };
            Ok(Box::new(fs.map_err(|error| Failure::LogStructured { path, error })?))
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{PowerLoss, Profile};

    use super::*;

    /// The owner was only in memory: after a kill an ordinary user could create nothing in a new file system.
    #[test]
    fn a_new_file_system_belongs_to_the_caller_also_after_a_power_cut() {
        let path = Path::new("drive.tant");
        let how = Use { cache_bytes: 8 << 20, snapshot: None, remap_duplicates: true };
        let mut profile = Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = 64 << 20;
        let before = MetadataChange::made_now().modified.unwrap();
        for kind in [FileSystemKind::Volume, FileSystemKind::LfsNat, FileSystemKind::LfsTree] {
            let options = FileSystemOptions { file_system: Some(kind), cleaning: None, index: None };
            let made = options.make(path, Device::in_memory(&profile).unwrap(), how).unwrap();
            let mut device = made.into_client_without_sync().into_device().unwrap();
            device.cut_power(device.time_ns());
            device.power_on(&mut PowerLoss::seeded(1)).unwrap();
            let mut mounted = mount(kind, path, device, how).unwrap();
            let root = mounted.metadata(FileId::ROOT).unwrap();
            let change = MetadataChange::made_by_caller();
            assert_eq!((Some(root.owner), Some(root.group)), (change.owner, change.group), "{kind}");
            assert!(root.modified >= before, "{kind}: {:?}", root.modified);
        }
    }
}
