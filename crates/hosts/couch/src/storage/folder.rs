//! Files of a folder of any file system.
//!
//! On a mounted Tantalum volume, ranges are shared with its ioctl (docs/mounting.md). Elsewhere nothing is shared, and the
//! store works the original way. Compaction copies with `copy_file_range`, which file systems with reflinks turn into sharing.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::copy_file_range;
use tantalum::LockHolder;

use super::{ShareRange, Shared, Storage, StorageFile, UNIT_BYTES, ioctl};

/// The file whose lock marks the folder as in use.
const LOCK: &str = ".couch-lock";

/// A folder, for one process at a time. On a file system that takes no changes, any number of them read it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Held open for its lock. A folder that can only be read may have none.
    _lock: Option<File>,
    /// Why its stores can only be read, if they can.
    refuses_changes: Option<OnlyRead>,
}

/// Why a folder takes no changes.
#[derive(Debug)]
struct OnlyRead {
    why: String,
    /// Whether a change has failed.
    has_failed: bool,
}

/// A file of a folder.
#[derive(Debug)]
pub struct FolderFile {
    file: File,
    /// Its token on a mounted Tantalum volume; none elsewhere.
    token: Option<u64>,
}

impl Folder {
    /// Opens a folder, which is created if it does not exist (but not those above it). Refused while another process, or
    /// another `Folder`, has it.
    ///
    /// If its file system takes no changes, its stores can only be read: if it is mounted read-only, or fails with `EIO` when the
    /// lock file is made or synced, as a mounted volume does whose host has failed. Then the lock is shared, so that others may
    /// read too, and nobody changes the folder by way of another mount. Without a lock file nothing is locked: none can be made.
    pub fn new(path: impl AsRef<Path>) -> io::Result<Folder> {
        let path = path.as_ref().to_owned();
        if !path.is_dir() {
            fs::create_dir(&path).map_err(|error| of_path("create the folder", &path, &error))?;
        }
        let file = path.join(LOCK);
        let (lock, refuses_changes) = match synced(&file) {
            Ok(lock) => (Some(lock), None),
            Err(error) => match why_only_read(&path, &error) {
                Some(why) => (existing(&file)?, Some(why)),
                None => return Err(of_path("open", &file, &error)),
            },
        };
        let locked = match &lock {
            Some(lock) if refuses_changes.is_some() => lock.try_lock_shared(),
            Some(lock) => lock.try_lock(),
            None => Ok(()),
        };
        match locked {
            Ok(()) => Ok(Folder { path, _lock: lock, refuses_changes }),
            Err(TryLockError::WouldBlock) => {
                let holder = lock.as_ref().map_or(LockHolder::Unknown, LockHolder::of);
                let why = format!("the stores in {} are in use by {holder}", path.display());
                Err(io::Error::new(io::ErrorKind::ResourceBusy, why))
            }
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// An error that says what failed: an error of the system has no path.
fn of_path(action: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot {action} {}: {error}", path.display()))
}

/// A file that is made durable, if need be created.
fn synced(file: &Path) -> io::Result<File> {
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(file)?;
    file.sync_all()?;
    Ok(file)
}

/// Why the file system of a folder takes no changes, if this error of a change says so.
fn why_only_read(folder: &Path, error: &io::Error) -> Option<OnlyRead> {
    let folder = folder.display();
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            let why = format!("the file system of {folder} is mounted read-only");
            Some(OnlyRead { why, has_failed: false })
        }
        _ if error.raw_os_error() == Some(Errno::EIO as i32) => {
            let why = format!("the file system of {folder} takes no changes: {error}");
            Some(OnlyRead { why, has_failed: true })
        }
        _ => None,
    }
}

/// Opens a file to read it, if there is one.
fn existing(file: &Path) -> io::Result<Option<File>> {
    match File::open(file) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn opened(file: File) -> FolderFile {
    let token = ioctl::token(&file);
    FolderFile { file, token }
}

impl Storage for Folder {
    type File = FolderFile;
    type Lock = ();

    /// The folder itself is locked, and has one store.
    fn lock(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, name: &str) -> io::Result<Option<FolderFile>> {
        match OpenOptions::new().read(true).write(self.refuses_changes.is_none()).open(self.path(name)) {
            Ok(file) => Ok(Some(opened(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, name: &str) -> io::Result<FolderFile> {
        self.remove(name)?;
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(self.path(name))?;
        Ok(opened(file))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn refuses_changes(&self) -> Option<String> {
        self.refuses_changes.as_ref().map(|only_read| only_read.why.clone())
    }

    fn has_failed(&self) -> bool {
        self.refuses_changes.as_ref().is_some_and(|only_read| only_read.has_failed)
    }
}

impl StorageFile for FolderFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn grow(&self, size: u64) -> io::Result<()> {
        if size <= self.size()? {
            return Ok(());
        }
        let old = self.size()?;
        match nix::fcntl::fallocate(
            &self.file,
            nix::fcntl::FallocateFlags::empty(),
            old as i64,
            (size - old) as i64,
        ) {
            Ok(()) => Ok(()),
            Err(Errno::EOPNOTSUPP) => self.file.set_len(size),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self, mut offset: u64, mut data: &mut [u8]) -> io::Result<()> {
        while !data.is_empty() {
            match self.file.read_at(data, offset) {
                Ok(0) => {
                    data.fill(0);
                    break;
                }
                Ok(read) => (data, offset) = (&mut data[read..], offset + read as u64),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn share_units(&self) -> u32 {
        if self.token.is_some() { ioctl::MOST_RANGES } else { 0 }
    }

    fn share(&self, ranges: &[ShareRange]) -> io::Result<Shared> {
        let Some(token) = self.token else { return Ok(Shared::Refused) };
        match ioctl::commit(&self.file, token, ranges) {
            Ok(()) => Ok(Shared::Done),
            Err(Errno::E2BIG | Errno::ENOSPC) => Ok(Shared::Refused),
            Err(error) => Err(error.into()),
        }
    }

    fn copy_from(
        &self,
        from: &FolderFile,
        mut from_offset: u64,
        mut to_offset: u64,
        mut bytes: u64,
    ) -> io::Result<()> {
        let (mut source, mut target) = (from_offset as i64, to_offset as i64);
        while bytes > 0 {
            let most = bytes.min(1 << 30) as usize;
            match copy_file_range(&from.file, Some(&mut source), &self.file, Some(&mut target), most) {
                Ok(0) => break,
                Ok(copied) => bytes -= copied as u64,
                Err(Errno::EINTR) => {}
                Err(Errno::EXDEV | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EINVAL) => break,
                Err(error) => return Err(error.into()),
            }
        }
        (from_offset, to_offset) = (source as u64, target as u64);
        let mut buffer = vec![0; bytes.min(64 * UNIT_BYTES as u64) as usize];
        while bytes > 0 {
            let part = &mut buffer[..bytes.min(64 * UNIT_BYTES as u64) as usize];
            from.read(from_offset, part)?;
            self.write(to_offset, part)?;
            let done = part.len() as u64;
            (from_offset, to_offset, bytes) = (from_offset + done, to_offset + done, bytes - done);
        }
        Ok(())
    }
}
