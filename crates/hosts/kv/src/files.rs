//! Files that appear only when they are complete.

use std::fs::{File, TryLockError};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use tantalum::{LockHolder, MediumError, Status};

use crate::error::Error;

/// A temporary name next to the file's, until it is complete.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    path.with_file_name(name)
}

/// Creates a file under a temporary name, and gives it its own name unless that is taken; returns whether it was free.
pub(crate) fn make_new(path: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<bool, Error> {
    let unfinished = unfinished(path);
    let made = make(&unfinished).and_then(|()| publish(&unfinished, path));
    let made = made.map_err(|error| named(error, &unfinished, path));
    // it has its name now, or is useless
    let _ = std::fs::remove_file(&unfinished);
    made
}

/// Makes a file that takes the place of an empty one, with its owner and permissions, unless somebody else did so meanwhile.
/// The empty file is locked as long as this takes.
pub(crate) fn fill_empty(path: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    // not a link to it
    let path = &path.canonicalize().map_err(io_error(path, "find the file"))?;
    let empty = File::open(path).map_err(io_error(path, "open the empty file"))?;
    match empty.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let holder = LockHolder::of(&empty);
            return Err(
                tantalum::DeviceError::from(MediumError::Locked { path: path.clone(), holder }).into()
            );
        }
        Err(TryLockError::Error(error)) => return Err(io_error(path, "lock the empty file")(error)),
    }
    let was = empty.metadata().map_err(io_error(path, "examine the empty file"))?;
    let is_it =
        path.metadata().is_ok_and(|now| (now.dev(), now.ino(), now.len()) == (was.dev(), was.ino(), 0));
    if !is_it {
        return Ok(());
    }
    replace(path, |unfinished| {
        make(unfinished)?;
        // only root may give files away
        let _ = chown(unfinished, Some(was.uid()), Some(was.gid()));
        std::fs::set_permissions(unfinished, was.permissions()).map_err(io_error(path, "set the permissions"))
    })
}

/// The same, replacing an existing file.
pub(crate) fn replace(path: &Path, make: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
    let unfinished = unfinished(path);
    let made = make(&unfinished).and_then(|()| {
        sync_file(&unfinished)?;
        std::fs::rename(&unfinished, path).map_err(io_error(path, "replace the image"))?;
        sync_folder_of(path)
    });
    let made = made.map_err(|error| named(error, &unfinished, path));
    if made.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    made
}

/// The same error, of the file that the user named instead of the unfinished one.
fn named(error: Error, unfinished: &Path, path: &Path) -> Error {
    let host = match error {
        Error::Io { path: of, action, source } if of == unfinished => return io_error(path, action)(source),
        Error::Device(ref device) => device.host().cloned(),
        Error::Drive(Status::Host(ref host)) => Some(host.clone()),
        _ => None,
    };
    match host {
        Some(host) if host.path == unfinished => {
            io_error(path, host.action)(std::io::Error::new(host.kind, host.reason))
        }
        _ => error,
    }
}

fn publish(unfinished: &Path, path: &Path) -> Result<bool, Error> {
    sync_file(unfinished)?;
    match std::fs::hard_link(unfinished, path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
        linked => linked.map_err(io_error(path, "name the file"))?,
    }
    sync_folder_of(path)?;
    Ok(true)
}

fn sync_file(path: &Path) -> Result<(), Error> {
    let file = File::open(path).map_err(io_error(path, "open the file"))?;
    file.sync_all().map_err(io_error(path, "sync the file"))
}

fn sync_folder_of(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder_file = File::open(folder).map_err(io_error(folder, "open the folder"))?;
    folder_file.sync_all().map_err(io_error(folder, "sync the folder"))
}

pub(crate) fn io_error<'a>(
    path: &'a Path,
    action: &'static str,
) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |source| Error::Io { path: PathBuf::from(path), action, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_somebody_else_made_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("app.tant");
        let make = |path: &Path| {
            std::fs::write(&taken, "theirs").unwrap();
            std::fs::write(path, "ours").map_err(io_error(path, "write"))
        };
        assert!(!make_new(&taken, make).unwrap());
        assert_eq!(std::fs::read(&taken).unwrap(), b"theirs");
        let elsewhere = folder.path().join("missing").join("app.tant");
        let made = make_new(&elsewhere, |path| std::fs::write(path, "ours").map_err(io_error(path, "write")));
        assert!(matches!(made, Err(Error::Io { .. })), "no other failure is taken for it");
        let message = crate::Store::open(&elsewhere).err().unwrap().to_string();
        let named = format!("{}: cannot create the image: No such file", elsewhere.display());
        assert!(message.starts_with(&named), "{message}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left");
    }

    #[test]
    fn an_empty_file_is_filled_once_and_keeps_its_permissions_and_its_links() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("app.tant"), folder.path().join("link"));
        std::fs::write(&path, "").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let make = |path: &Path| std::fs::write(path, "ours").map_err(io_error(path, "write"));
        let begun = |path: &Path| {
            // somebody else who does the same meanwhile
            assert!(fill_empty(&link, |_| panic!("both make it")).is_err());
            make(path)
        };
        fill_empty(&link, begun).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"ours");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(link.is_symlink());
        fill_empty(&path, |_| panic!("it is not empty")).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left");
    }

    #[test]
    fn a_file_is_replaced_by_a_complete_one_or_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.tant");
        std::fs::write(&path, "old").unwrap();
        let fails = |path: &Path| {
            std::fs::write(path, "half").unwrap();
            Err(Error::Catalog)
        };
        assert!(replace(&path, fails).is_err());
        // the name of the temporary file is nobody's
        let full =
            |path: &Path| Err(io_error(path, "write the header")(std::io::ErrorKind::StorageFull.into()));
        let message = replace(&path, full).unwrap_err().to_string();
        assert!(message.starts_with(&format!("{}: cannot write the header", path.display())), "{message}");
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        replace(&path, |path| std::fs::write(path, "new").map_err(io_error(path, "write"))).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
