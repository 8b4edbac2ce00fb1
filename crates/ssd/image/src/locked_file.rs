//! A file that nobody else can open as an image; or only to read it, if that is what this one does too.
//!
//! The lock belongs to the open file, not to the descriptor: a process that another thread has just started still has
//! a copy of each descriptor, until it becomes another program. So the lock is released explicitly, instead of when the
//! last copy is closed.

use std::fs::TryLockError;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::host_file::HostFile;
use crate::error::{HostError, MediumError, NandError};

/// A file, locked until it is dropped.
#[derive(Debug)]
pub(super) struct LockedFile(Arc<HostFile>);

impl LockedFile {
    /// Locks a file; fails if somebody else has locked it.
    pub fn lock(file: HostFile, path: &Path) -> Result<LockedFile, MediumError> {
        let locked = file.try_lock();
        LockedFile::of(file, locked, path)
    }

    /// Locks a file that is only read; fails if somebody else has locked it to change it.
    pub fn lock_to_read(file: HostFile, path: &Path) -> Result<LockedFile, MediumError> {
        let locked = file.try_lock_shared();
        LockedFile::of(file, locked, path)
    }

    fn of(file: HostFile, locked: Result<(), TryLockError>, path: &Path) -> Result<LockedFile, MediumError> {
        match locked {
            Ok(()) => Ok(LockedFile(Arc::new(file))),
            Err(TryLockError::WouldBlock) => {
                Err(MediumError::Locked { path: path.to_owned(), holder: file.lock_holder() })
            }
            Err(TryLockError::Error(error)) => {
                Err(NandError::from(HostError::new(path, "lock the image", &error)).into())
            }
        }
    }
}

impl LockedFile {
    /// The file, which may outlive the lock.
    pub fn share(&self) -> Arc<HostFile> {
        Arc::clone(&self.0)
    }
}

impl Deref for LockedFile {
    type Target = HostFile;

    fn deref(&self) -> &HostFile {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        // closing releases the lock too, if nobody has a copy
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// A test that starts processes found its image locked when it reopened it at once.
    #[test]
    fn a_copy_of_the_descriptor_does_not_keep_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        let file = File::create(&path).unwrap();
        let copy = file.try_clone().unwrap();
        let locked = LockedFile::lock(HostFile::new(file, None), &path).unwrap();
        let again = || LockedFile::lock(HostFile::new(File::open(&path).unwrap(), None), &path);
        assert!(matches!(again(), Err(MediumError::Locked { .. })));
        drop(locked);
        again().unwrap();
        drop(copy);
    }

    #[test]
    fn several_may_read_a_file_and_nobody_changes_it_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        std::fs::write(&path, "").unwrap();
        let file = || HostFile::new(File::open(&path).unwrap(), None);
        let readers = [(); 2].map(|()| LockedFile::lock_to_read(file(), &path).unwrap());
        let refused = LockedFile::lock(file(), &path).unwrap_err();
        assert!(refused.to_string().contains("this process"), "{refused}");
        drop(readers);
        let _writer = LockedFile::lock(file(), &path).unwrap();
        assert!(matches!(LockedFile::lock_to_read(file(), &path), Err(MediumError::Locked { .. })));
    }
}
