//! The control socket of an image in use, in the image's folder.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The control socket of an image.
pub fn socket_path(image: &Path) -> PathBuf {
    let mut name = OsString::from(image);
    name.push(".sock");
    PathBuf::from(name)
}

pub(crate) fn connect(image: &Path) -> io::Result<UnixStream> {
    with_short_path(&socket_path(image), |path| UnixStream::connect(path))
}

/// Creates the socket. An existing one was left by a process that was killed, because this process has the image
/// locked.
pub(crate) fn listen(image: &Path) -> io::Result<UnixListener> {
    let path = socket_path(image);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => with_short_path(&path, |path| UnixListener::bind(path)),
    }
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
        let listener = listen(&image).unwrap();
        connect(&image).unwrap();
        drop(listener);
        assert!(connect(&image).is_err(), "nobody listens any more");
        let _again = listen(&image).unwrap();
        connect(&image).unwrap();
    }
}
