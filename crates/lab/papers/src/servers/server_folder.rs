//! Where a server keeps its files.

use std::fs;
use std::path::Path;

use tantalum::Counters;
use tantalum_report::system_error;
use tempfile::TempDir;

use super::ServerError;

/// A folder for a server's files, and the drive below it, if any.
pub trait ServerFolder {
    /// The folder.
    fn folder(&self) -> &Path;

    /// What the drive has done so far; zeros without a drive.
    fn counters(&self) -> Result<Counters, ServerError>;
}

/// A temporary folder on the machine's own disk.
#[derive(Debug)]
pub struct PlainFolder(TempDir);

impl PlainFolder {
    /// A new folder, which others may enter: servers run as other users.
    pub fn new() -> Result<PlainFolder, ServerError> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("tantalum-lab-").permissions(open_to_all());
        let parent = std::env::temp_dir();
        let made = builder.tempdir_in(&parent).map_err(system_error);
        made.map(PlainFolder).map_err(ServerError::file(&parent))
    }
}

fn open_to_all() -> fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    fs::Permissions::from_mode(0o755)
}

impl ServerFolder for PlainFolder {
    fn folder(&self) -> &Path {
        self.0.path()
    }

    fn counters(&self) -> Result<Counters, ServerError> {
        Ok(Counters::default())
    }
}

/// Copies a folder with all its contents; every copied file is synced, and has the owner of the original.
pub fn copy_tree(from: &Path, to: &Path) -> Result<(), ServerError> {
    fs::create_dir_all(to).map_err(ServerError::file(to))?;
    take_over(from, to)?;
    for entry in fs::read_dir(from).map_err(ServerError::file(from))? {
        let entry = entry.map_err(ServerError::file(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(ServerError::file(&source))?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(ServerError::file(&target))?;
            take_over(&source, &target)?;
            let file = fs::File::open(&target).map_err(ServerError::file(&target))?;
            file.sync_all().map_err(ServerError::file(&target))?;
        }
    }
    Ok(())
}

/// Gives the copy the permissions and the owner of the original.
fn take_over(from: &Path, to: &Path) -> Result<(), ServerError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(from).map_err(ServerError::file(from))?;
    fs::set_permissions(to, metadata.permissions()).map_err(ServerError::file(to))?;
    std::os::unix::fs::chown(to, Some(metadata.uid()), Some(metadata.gid())).map_err(ServerError::file(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copied_tree_holds_the_same() {
        let (from, to) = (PlainFolder::new().unwrap(), PlainFolder::new().unwrap());
        fs::create_dir(from.folder().join("inner")).unwrap();
        fs::write(from.folder().join("inner/file"), b"bytes").unwrap();
        let target = to.folder().join("copy");
        copy_tree(from.folder(), &target).unwrap();
        assert_eq!(fs::read(target.join("inner/file")).unwrap(), b"bytes");
    }
}
