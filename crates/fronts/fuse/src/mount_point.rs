//! Folders on which volumes are mounted: checking one, finding what is mounted on it, unmounting.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::statfs::statfs;

use crate::helper;
use crate::users::users_of;

/// The mount table names this and the image's path as the source of a mounted volume.
pub(crate) const SOURCE: &str = "tantalum:";

/// The same, if the path is not UTF-8: then `%` and bytes that no text has are written as `%` and two hexadecimal digits.
const ENCODED_SOURCE: &str = "tantalum%:";

/// Why a folder cannot be used, or cannot be unmounted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountPointError {
    /// The folder cannot be accessed.
    #[error("{}: {error}; create the folder first", path.display())]
    Missing {
        /// The path given.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Not a folder.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path given.
        path: PathBuf,
    },
    /// The folder is not empty, and mounting would hide its contents.
    #[error("{} is not empty; mount on an empty folder", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The image is already mounted.
    #[error("image {} is already mounted on {}; run `tantalum unmount` first", image.display(), path.display())]
    Mounted {
        /// Where it is mounted.
        path: PathBuf,
        /// What is mounted on it.
        image: PathBuf,
    },
    /// Nothing is mounted there.
    #[error("no Tantalum volume is mounted on {}", path.display())]
    NotMounted {
        /// The folder.
        path: PathBuf,
    },
    /// Files are in use.
    #[error("{} is in use by {}; close its open files there first", path.display(), users.as_deref().unwrap_or("a program"))]
    Busy {
        /// The folder.
        path: PathBuf,
        /// The programs that use it, as far as this user may know.
        users: Option<String>,
    },
    /// The system refused.
    #[error("{} could not be unmounted: {why}", path.display())]
    Refused {
        /// The folder.
        path: PathBuf,
        /// The message of the system or of its helper.
        why: String,
    },
}

/// A line of the mount table.
struct MountedImage {
    folder: PathBuf,
    image: PathBuf,
}

/// The mounted volumes, in order of mounting.
fn mounted_images() -> Vec<MountedImage> {
    let table = fs::read("/proc/self/mounts").unwrap_or_default();
    let lines = table.split(|&byte| byte == b'\n');
    lines.filter_map(mounted_image).collect()
}

fn mounted_image(line: &[u8]) -> Option<MountedImage> {
    let mut fields = line.split(|&byte| byte == b' ');
    let (source, folder) = (unescaped(fields.next()?), unescaped(fields.next()?));
    let image = match source.strip_prefix(SOURCE.as_bytes()) {
        Some(image) => image.to_vec(),
        None => decoded(source.strip_prefix(ENCODED_SOURCE.as_bytes())?),
    };
    let path = |bytes: Vec<u8>| PathBuf::from(OsString::from_vec(bytes));
    Some(MountedImage { folder: path(folder), image: path(image) })
}

/// A path as text that [`decoded`] turns back.
fn encoded(path: &Path) -> String {
    let mut text = String::new();
    for chunk in path.as_os_str().as_bytes().utf8_chunks() {
        text += &chunk.valid().replace('%', "%25");
        text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02x}")));
    }
    text
}

fn decoded(text: &[u8]) -> Vec<u8> {
    unescaped_by(text, b'%', 2, 16)
}

/// The mount table writes blanks and similar characters as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    unescaped_by(field, b'\\', 3, 8)
}

/// Bytes some of which are written as a mark and so many digits.
fn unescaped_by(field: &[u8], mark: u8, digits: usize, radix: u32) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, behind)) = rest.split_first() {
        let code = behind.get(..digits).filter(|_| first == mark);
        let byte = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, radix).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &behind[digits..] } else { behind };
    }
    bytes
}

/// A path without symbolic links, even if what is mounted on it no longer answers.
fn real_path(folder: &Path) -> PathBuf {
    if let Ok(path) = folder.canonicalize() {
        return path;
    }
    let (above, name) = (folder.parent(), folder.file_name());
    let above = above.map(|above| if above == Path::new("") { Path::new(".") } else { above });
    match (above.and_then(|above| above.canonicalize().ok()), name) {
        (Some(above), Some(name)) => above.join(name),
        _ => folder.to_path_buf(),
    }
}

/// The image of the volume mounted on a folder.
pub fn image_mounted_on(folder: &Path) -> Option<PathBuf> {
    let folder = real_path(folder);
    mounted_images().into_iter().rev().find(|mounted| mounted.folder == folder).map(|mounted| mounted.image)
}

/// The folder on which an image's volume is mounted.
pub fn mount_point_of(image: &Path) -> Option<PathBuf> {
    let image = image.canonicalize().ok()?;
    mounted_images().into_iter().find(|mounted| mounted.image == image).map(|mounted| mounted.folder)
}

/// Whether the process of what is mounted on a folder is gone. The kernel does not cache answers to this question.
fn is_dead(folder: &Path) -> bool {
    matches!(statfs(folder), Err(Errno::ENOTCONN | Errno::ECONNABORTED))
}

/// Checks that a volume can be mounted on a folder, and returns its path without symbolic links. Removes a stale mount
/// whose process was killed.
pub(crate) fn check(folder: &Path) -> Result<PathBuf, MountPointError> {
    if let Some(image) = image_mounted_on(folder) {
        if is_dead(folder) {
            unmount(folder)?;
            return check(folder);
        }
        return Err(MountPointError::Mounted { path: folder.to_path_buf(), image });
    }
    let missing = |error| MountPointError::Missing { path: folder.to_path_buf(), error };
    let path = folder.canonicalize().map_err(missing)?;
    if !path.is_dir() {
        return Err(MountPointError::NotAFolder { path });
    }
    if fs::read_dir(&path).map_err(missing)?.next().is_some() {
        return Err(MountPointError::NotEmpty { path });
    }
    Ok(path)
}

fn busy(path: PathBuf) -> MountPointError {
    let users = users_of(&path);
    MountPointError::Busy { path, users }
}

/// Unmounts the volume on a folder. Its image is closed a little later.
pub fn unmount(folder: &Path) -> Result<(), MountPointError> {
    let path = real_path(folder);
    if image_mounted_on(&path).is_none() {
        return Err(MountPointError::NotMounted { path });
    }
    match umount2(&path, MntFlags::empty()) {
        Ok(()) => Ok(()),
        Err(Errno::EBUSY) => Err(busy(path)),
        Err(Errno::EPERM) => unmount_by_helper(path),
        Err(errno) => Err(MountPointError::Refused { path, why: errno.desc().to_owned() }),
    }
}

/// Detaches a folder's volume from the file tree even if files are in use; these keep working until they are closed.
pub(crate) fn detach(folder: &Path) {
    // A user without the right unmounts with the helper; if neither works the mount is dead, and anyone can unmount it.
    if umount2(folder, MntFlags::MNT_DETACH).is_err() {
        let _ = helper::command().args(["-u", "-z", "-q"]).arg("--").arg(folder).status();
    }
}

/// As an ordinary user.
fn unmount_by_helper(path: PathBuf) -> Result<(), MountPointError> {
    let refused = |why: String| MountPointError::Refused { path: path.clone(), why };
    let output = helper::command().arg("-u").arg("--").arg(&path).output();
    let output =
        output.map_err(|error| refused(format!("fusermount3: {error}; install the package fuse3")))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    match output.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(busy(path)),
        false => Err(refused(said)),
    }
}

/// The name of an image in the mount table. `fusermount3`, which mounts for ordinary users, splits options at commas.
pub(crate) fn source_of(image: &Path, by_helper: bool) -> String {
    let source = match image.to_str() {
        Some(path) => format!("{SOURCE}{path}"),
        None => format!("{ENCODED_SOURCE}{}", encoded(image)),
    };
    if by_helper { source.replace('\\', "\\\\").replace(',', "\\,") } else { source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_is_read_with_its_escapes() {
        let line = b"tantalum:/data/my\\040drive.tant /mnt/a\\134b fuse rw,nosuid 0 0";
        let mounted = mounted_image(line).unwrap();
        assert_eq!(mounted.image, Path::new("/data/my drive.tant"));
        assert_eq!(mounted.folder, Path::new("/mnt/a\\b"));
        assert!(mounted_image(b"proc /proc proc rw 0 0").is_none());
        assert!(mounted_image(b"").is_none());
        assert_eq!(unescaped(b"a\\04"), b"a\\04", "an escape that ends too early is none");
    }

    #[test]
    fn an_image_is_found_whatever_bytes_its_path_has() {
        for bytes in [&b"/data/drive.tant"[..], b"/k\xff.tant", b"/100%41\xff\xfe/%ff", b"/100%41"] {
            let image = PathBuf::from(OsString::from_vec(bytes.to_vec()));
            let line = format!("{} /mnt fuse rw 0 0", source_of(&image, false));
            assert_eq!(mounted_image(line.as_bytes()).unwrap().image, image, "{line}");
        }
    }

    #[test]
    fn a_folder_must_be_there_and_empty() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(check(folder.path()).unwrap(), folder.path().canonicalize().unwrap());
        let file = folder.path().join("file");
        assert!(matches!(check(&file), Err(MountPointError::Missing { .. })));
        fs::write(&file, "").unwrap();
        assert!(matches!(check(&file), Err(MountPointError::NotAFolder { .. })));
        assert!(matches!(check(folder.path()), Err(MountPointError::NotEmpty { .. })));
        assert!(matches!(unmount(folder.path()), Err(MountPointError::NotMounted { .. })));
    }
}
