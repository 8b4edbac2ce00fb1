//! Reports as files.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use tempfile::{Builder, NamedTempFile};

use crate::error::ReportError;

/// Checks that a report can be written there, before anything is measured for it.
pub fn check_place(path: &Path) -> Result<(), ReportError> {
    if path.is_dir() {
        return Err(ReportError::Folder { path: path.to_owned() });
    }
    beside(path).map(drop)
}

/// Writes a file atomically: to a temporary file in the same folder, which is then renamed.
pub fn save(text: &str, path: &Path) -> Result<(), ReportError> {
    let mut file = beside(path)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.as_file().sync_all())
        .map_err(ReportError::file(path))?;
    file.persist(path).map_err(|error| ReportError::file(path)(error.error))?;
    Ok(())
}

/// A temporary file in the folder of `path`, removed when it is dropped.
fn beside(path: &Path) -> Result<NamedTempFile, ReportError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // with the permissions of any new file: temporary files are otherwise private
    let made = Builder::new()
        .prefix(".tantalum-report-")
        .make_in(folder, |path| File::options().read(true).write(true).create_new(true).open(path));
    made.map_err(ReportError::file(path))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_saved_file_is_alone_in_its_folder() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("report.html");
        save("text", &path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "something was left beside it");
    }

    #[test]
    fn an_impossible_place_is_found_before_measuring() {
        let error = check_place(Path::new("no/such/folder/report.html")).unwrap_err().to_string();
        assert!(error.starts_with("no/such/folder/report.html: "), "{error}");
    }

    #[test]
    fn a_folder_in_its_place_is_told() {
        assert_eq!(check_place(Path::new(".")).unwrap_err().to_string(), ".: it is a folder; name a file");
    }

    #[test]
    fn checking_the_place_leaves_nothing() {
        let dir = TempDir::new().unwrap();
        check_place(&dir.path().join("report.html")).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_error_names_the_file_that_was_asked_for_and_no_other() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("missing/report.html");
        let error = check_place(&path).unwrap_err().to_string();
        assert_eq!(error, format!("{}: No such file or directory (os error 2)", path.display()));
    }
}
