//! Files of a volume in this process, past its page cache (as with O_DIRECT).

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tantalum::Status;
use tantalum_volume::{FileId, RangeCommit, Volume, VolumeError};

use super::{ShareRange, Shared, Storage, StorageFile};

/// A volume; clones are the same one. Requests take the volume's time: each waits for the drive.
#[derive(Clone, Debug)]
pub struct VolumeStorage {
    volume: Arc<Mutex<Volume>>,
    /// The stores that are open.
    locked: Arc<Mutex<BTreeSet<String>>>,
}

/// Marks a store as open until it is dropped.
#[derive(Debug)]
pub struct VolumeLock {
    locked: Arc<Mutex<BTreeSet<String>>>,
    name: String,
}

impl Drop for VolumeLock {
    fn drop(&mut self) {
        let was_locked = self.locked.lock().remove(&self.name);
        debug_assert!(was_locked, "the store {} is closed and was not open", self.name);
    }
}

/// A file of a volume.
#[derive(Debug)]
pub struct VolumeFile {
    volume: Arc<Mutex<Volume>>,
    id: FileId,
}

fn error(error: VolumeError) -> io::Error {
    match error {
        VolumeError::NoSpace { .. } => io::Error::new(io::ErrorKind::StorageFull, error),
        error => io::Error::other(error),
    }
}

impl VolumeStorage {
    /// Files of the root folder of that volume.
    pub fn new(volume: Volume) -> VolumeStorage {
        VolumeStorage { volume: Arc::new(Mutex::new(volume)), locked: Arc::default() }
    }

    /// The volume. Stores on it wait while the caller holds it.
    pub fn volume(&self) -> MutexGuard<'_, Volume> {
        self.volume.lock()
    }

    /// Returns the volume once no store has its files open, and the storage otherwise.
    pub fn into_volume(self) -> Result<Volume, VolumeStorage> {
        let VolumeStorage { volume, locked } = self;
        Arc::try_unwrap(volume).map(Mutex::into_inner).map_err(|volume| VolumeStorage { volume, locked })
    }

    fn file(&self, volume: &mut Volume, id: FileId) -> io::Result<VolumeFile> {
        volume.open(id).map_err(error)?;
        Ok(VolumeFile { volume: Arc::clone(&self.volume), id })
    }
}

impl Storage for VolumeStorage {
    type File = VolumeFile;
    type Lock = VolumeLock;

    fn lock(&self, name: &str) -> io::Result<VolumeLock> {
        if !self.locked.lock().insert(name.to_owned()) {
            let why = format!("the store {name} is open: drop it, its snapshots and its compaction first");
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, why));
        }
        Ok(VolumeLock { locked: Arc::clone(&self.locked), name: name.to_owned() })
    }

    fn open(&self, name: &str) -> io::Result<Option<VolumeFile>> {
        let mut volume = self.volume();
        let Some(id) = volume.find(name) else { return Ok(None) };
        self.file(&mut volume, id).map(Some)
    }

    fn create(&self, name: &str) -> io::Result<VolumeFile> {
        self.remove(name)?;
        let mut volume = self.volume();
        let id = volume.create(name).map_err(error)?;
        self.file(&mut volume, id)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut volume = self.volume();
        match volume.find(name) {
            Some(_) => volume.remove(name).map_err(error),
            None => Ok(()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.volume().rename(from, to).map_err(error)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.volume().sync_names().map_err(error)
    }

    fn refuses_changes(&self) -> Option<String> {
        self.volume().device().refuses_changes().map(ToString::to_string)
    }

    fn has_failed(&self) -> bool {
        self.volume().device().refuses_changes().is_some_and(Status::leaves_doubt)
    }
}

impl StorageFile for VolumeFile {
    fn size(&self) -> io::Result<u64> {
        self.volume.lock().size(self.id).map_err(error)
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        let mut volume = self.volume.lock();
        let old = volume.size(self.id).map_err(error)?;
        if size <= old {
            return Ok(());
        }
        volume.allocate(self.id, old, size - old, false).map_err(error)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let read = self.volume.lock().read_direct(self.id, offset, data).map_err(error)?;
        data[read..].fill(0);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.volume.lock().write_direct(self.id, offset, data).map_err(error)
    }

    fn sync(&self) -> io::Result<()> {
        self.volume.lock().sync_data(self.id).map_err(error)
    }

    fn share_units(&self) -> u32 {
        self.volume.lock().device().limits().share_units
    }

    fn share(&self, ranges: &[ShareRange]) -> io::Result<Shared> {
        let commit = |range: &ShareRange| RangeCommit {
            from: self.id,
            from_offset: range.from,
            to: self.id,
            to_offset: range.to,
            bytes: range.bytes,
        };
        let ranges: Vec<RangeCommit> = ranges.iter().map(commit).collect();
        match self.volume.lock().commit_ranges(&ranges) {
            Ok(()) => Ok(Shared::Done),
            Err(VolumeError::Device(Status::OverLimit { .. } | Status::CapacityExceeded)) => {
                Ok(Shared::Refused)
            }
            Err(other) => Err(error(other)),
        }
    }

    fn copy_from(&self, from: &VolumeFile, from_offset: u64, to_offset: u64, bytes: u64) -> io::Result<()> {
        let mut volume = self.volume.lock();
        volume.copy_range(from.id, from_offset, self.id, to_offset, bytes).map_err(error).map(drop)
    }
}

impl Drop for VolumeFile {
    fn drop(&mut self) {
        // once the drive has ended there is nothing to close
        let _ = self.volume.lock().close(self.id);
    }
}
