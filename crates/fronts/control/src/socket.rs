//! The control socket of an image in use, beside the image if anything can be created there.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// The control socket of an image, if it is beside it.
pub fn socket_path(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".sock");
    PathBuf::from(name)
}

/// Where it is otherwise: the disk may be read-only or full, or the folder somebody else's. It is named by the image's
/// identity, as whoever connects may know the image by another path.
fn path_elsewhere(image: &Path) -> io::Result<PathBuf> {
    let image = std::fs::metadata(image)?;
    Ok(PathBuf::from(format!("/tmp/tantalum-{:x}-{:x}.sock", image.dev(), image.ino())))
}

pub(crate) fn connect(image: &Path) -> io::Result<UnixStream> {
    connect_at(&socket_path(image)).or_else(|error| {
        let path = path_elsewhere(image).ok().filter(|path| is_trusted(path, image));
        path.map_or(Err(error), |path| connect_at(&path))
    })
}

fn connect_at(path: &Path) -> io::Result<UnixStream> {
    with_short_path(path, |path| UnixStream::connect(path))
}

/// Whether whoever made a socket, where everybody may make one, may also change the image.
fn is_trusted(path: &Path, image: &Path) -> bool {
    let owner = |path| std::fs::symlink_metadata(path).ok().map(|found| found.uid());
    let (Some(maker), image) = (owner(path), owner(image)) else { return false };
    maker == 0 || maker == geteuid().as_raw() || Some(maker) == image
}

/// The socket of a process that has the image in use. Its file is removed when this is dropped.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Creates the socket, for its owner only. An existing one at which nobody listens was left by a process that was killed.
///
/// # Errors
/// Why it could not be created beside the image, or that somebody listens already: several processes may read an image.
pub(crate) fn listen(image: &Path) -> io::Result<(UnixListener, Socket)> {
    if connect(image).is_ok() {
        let why = "another process that uses the image answers there";
        return Err(io::Error::new(io::ErrorKind::AddrInUse, why));
    }
    let beside = listen_at(socket_path(image));
    beside.or_else(|error| path_elsewhere(image).and_then(listen_at).map_err(|_| error))
}

fn listen_at(path: PathBuf) -> io::Result<(UnixListener, Socket)> {
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = with_short_path(&path, |path| UnixListener::bind(path))?;
    let socket = Socket { path };
    std::fs::set_permissions(&socket.path, std::fs::Permissions::from_mode(0o600))?;
    Ok((listener, socket))
}

/// A socket's address holds only about a hundred bytes, and a path may be longer, so the folder is named by descriptor.
fn with_short_path<T>(path: &Path, use_it: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = File::open(folder)?;
    use_it(&Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_has_a_socket_too() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("a".repeat(120)).join("b".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let image = deep.join("drive.tant");
        let (listener, socket) = listen(&image).unwrap();
        connect(&image).unwrap();
        assert_eq!(listen(&image).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        // as after a kill, which leaves its file
        drop(listener);
        assert!(connect(&image).is_err(), "nobody listens any more");
        std::mem::forget(socket);
        let again = listen(&image).unwrap();
        connect(&image).unwrap();
        drop(again);
        assert!(!socket_path(&image).exists());
    }

    /// A folder stands where the socket should be, so that it cannot be beside the image, whoever runs this.
    #[test]
    fn a_socket_that_cannot_be_beside_its_image_is_elsewhere_and_found_by_any_path() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("drive.tant");
        std::fs::create_dir(socket_path(&image)).unwrap();
        assert!(listen(&image).is_err(), "an image that is not there has no identity");
        std::fs::write(&image, "").unwrap();
        let elsewhere = path_elsewhere(&image).unwrap();
        let listening = listen(&image).unwrap();
        assert!(elsewhere.exists());
        connect(&image).unwrap();
        let other = folder.path().join("other.tant");
        std::os::unix::fs::symlink(&image, &other).unwrap();
        connect(&other).unwrap();
        drop(listening);
        assert!(!elsewhere.exists() && connect(&image).is_err());
    }

    #[test]
    fn a_socket_that_somebody_else_made_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let (image, socket) = (folder.path().join("image"), folder.path().join("socket"));
        std::fs::write(&image, "").unwrap();
        assert!(!is_trusted(&socket, &image), "it is not there");
        std::fs::write(&socket, "").unwrap();
        assert!(is_trusted(&socket, &image));
        // only root can give a file away
        if std::os::unix::fs::chown(&socket, Some(12_345), None).is_ok() {
            assert!(!is_trusted(&socket, &image));
            std::os::unix::fs::chown(&image, Some(12_345), None).unwrap();
            assert!(is_trusted(&socket, &image));
        }
    }
}
