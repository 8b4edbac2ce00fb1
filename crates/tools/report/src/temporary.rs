//! Temporary files and folders: in `$TMPDIR`, else in `/tmp`.

use std::env;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

use tempfile::{Builder, NamedTempFile, TempDir};

/// Why there is no temporary file.
#[derive(Debug, thiserror::Error)]
#[error("no folder for temporary files: {}: {error}; {}", folder.display(), self.remedy())]
pub struct NoTemporary {
    /// Where it would have been.
    pub folder: PathBuf,
    /// The system's error.
    pub error: io::Error,
}

impl NoTemporary {
    fn of(error: io::Error) -> NoTemporary {
        NoTemporary { folder: env::temp_dir(), error: system_error(error) }
    }

    fn remedy(&self) -> &'static str {
        match self.error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => "set TMPDIR to one that exists",
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "make room there, or name a folder with more in $TMPDIR"
            }
            _ => "set TMPDIR to one that can be written",
        }
    }
}

/// A new folder whose name begins with `prefix`. It is removed when it is dropped.
pub fn temporary_folder(prefix: &str) -> Result<TempDir, NoTemporary> {
    Builder::new().prefix(prefix).tempdir().map_err(NoTemporary::of)
}

/// A new file whose name begins with `prefix`. It is removed when it is dropped.
pub fn temporary_file(prefix: &str) -> Result<NamedTempFile, NoTemporary> {
    Builder::new().prefix(prefix).tempfile().map_err(NoTemporary::of)
}

/// What the system said. `tempfile` adds the name of the temporary file, which nobody has asked for.
pub fn system_error(error: io::Error) -> io::Error {
    if error.raw_os_error().is_some() {
        return error;
    }
    let text = error.to_string();
    match text.rfind(" at path \"") {
        Some(end) if text.ends_with('"') => io::Error::new(error.kind(), &text[..end]),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const MISSING: &str = "No such file or directory (os error 2)";

    #[test]
    fn the_systems_error_has_no_name_of_a_temporary_file() {
        let nowhere = Path::new("/nosuch");
        let errors = [
            tempfile::tempdir_in(nowhere).unwrap_err(),
            tempfile::tempfile_in(nowhere).unwrap_err(),
            NamedTempFile::new_in(nowhere).unwrap_err(),
            io::Error::from_raw_os_error(2),
        ];
        for error in errors.map(system_error) {
            assert_eq!((error.to_string().as_str(), error.kind()), (MISSING, ErrorKind::NotFound));
        }
        assert_eq!(system_error(io::Error::other("no room at path \"")).to_string(), "no room");
        assert_eq!(system_error(io::Error::other("no room")).to_string(), "no room");
    }

    #[test]
    fn a_folder_that_is_missing_is_named_once_with_what_to_do() {
        let error =
            |code| NoTemporary { folder: "/nosuch".into(), error: io::Error::from_raw_os_error(code) };
        let told = error(2).to_string();
        let expected = "no folder for temporary files: /nosuch: No such file or directory (os error 2); set TMPDIR to one that exists";
        assert_eq!(told, expected);
        assert!(error(28).to_string().ends_with("name a folder with more in $TMPDIR"));
        assert!(error(13).to_string().ends_with("set TMPDIR to one that can be written"));
    }

    #[test]
    fn what_is_temporary_goes_when_it_is_dropped() {
        let (folder, file) = (temporary_folder("a-").unwrap(), temporary_file("b-").unwrap());
        let paths = [folder.path().to_owned(), file.path().to_owned()];
        assert!(paths.iter().all(|path| path.exists()));
        drop((folder, file));
        assert!(!paths.iter().any(|path| path.exists()));
    }
}
