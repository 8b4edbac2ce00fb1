//! A finding on disk: its files, the program's acknowledgements, and the explanation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::check::{Check, Checker};
use crate::commands::{for_any_folder, not_started};
use crate::error::RunError;
use crate::finding::Finding;
use crate::tree::Tree;

/// The files in the folder of a finding.
const FILES: &str = "files";
const ACKS: &str = "acks";
const FINDING: &str = "finding.json";

/// A saved finding.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SavedFinding {
    /// The check that failed: a program, or a shell command. `None` if it was a function of a test.
    pub check: Option<String>,
    /// A check that takes longer fails.
    pub check_seconds: u64,
    /// The finding.
    pub finding: Finding,
    /// Its folder.
    #[serde(skip)]
    folder: PathBuf,
}

/// Saves a finding in a new folder.
pub(crate) fn save(
    folder: &Path,
    finding: &Finding,
    checker: &Checker,
    tree: &Tree,
    acks: &[(usize, String)],
) -> Result<(), RunError> {
    let files = folder.join(FILES);
    fs::create_dir_all(&files).map_err(RunError::files(&files))?;
    tree.write_to(&files).map_err(RunError::files(&files))?;
    let lines: String = acks.iter().map(|(_, line)| format!("{line}\n")).collect();
    let saved = SavedFinding {
        check: match &checker.check {
            Check::Command(command) => Some(for_any_folder(command)),
            Check::Function(_) => None,
        },
        check_seconds: checker.most.as_secs(),
        finding: finding.clone(),
        folder: folder.to_owned(),
    };
    let text = serde_json::to_string_pretty(&saved).expect("it has string keys only");
    for (name, text) in [(ACKS, lines), (FINDING, text + "\n")] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(RunError::files(&path))?;
    }
    Ok(())
}

impl SavedFinding {
    /// Opens the folder of a finding.
    pub fn open(folder: &Path) -> Result<SavedFinding, RunError> {
        let path = folder.join(FINDING);
        let text =
            fs::read_to_string(&path).map_err(|_| RunError::NoFinding { folder: folder.to_owned() })?;
        let saved: SavedFinding = serde_json::from_str(&text)
            .map_err(|error| RunError::DamagedFinding { path, error: error.to_string() })?;
        let folder = std::path::absolute(folder).map_err(RunError::files(folder))?;
        Ok(SavedFinding { folder, ..saved })
    }

    /// The file with what the program had acknowledged by the cut.
    pub fn acks(&self) -> PathBuf {
        self.folder.join(ACKS)
    }

    /// Bytes of its files.
    pub(crate) fn bytes(&self) -> Result<u64, RunError> {
        let files = self.folder.join(FILES);
        bytes_of(&files).map_err(RunError::files(files))
    }

    /// Copies its files into a folder, with links, owners, times and permissions.
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<(), RunError> {
        let (program, from) = ("cp", self.folder.join(FILES).join("."));
        let mut copy = Command::new(program);
        copy.arg("-a").arg("--").arg(&from).arg(folder);
        let status = copy.status().map_err(not_started(program))?;
        if status.success() { Ok(()) } else { Err(RunError::NotCopied { from, to: folder.to_owned() }) }
    }
}

fn bytes_of(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_folder = entry.file_type()?.is_dir();
        bytes += if is_folder { bytes_of(&entry.path())? } else { entry.metadata()?.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn a_finding_is_saved_in_a_folder_of_any_name_and_knows_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(OsStr::from_bytes(b"s\xff"));
        let finding = Finding {
            after_operations: 1,
            last_operation: String::new(),
            check_ended: String::new(),
            check_said: String::new(),
            lost: Vec::new(),
            there: Vec::new(),
            saved_by: Vec::new(),
            unavoidable: Vec::new(),
            without_loss: None,
            also: 0,
            saved: Some(folder.clone()),
        };
        let checker = Checker {
            check: Check::Command("true".to_owned()),
            most: std::time::Duration::from_secs(1),
            place: place.path().to_owned(),
            monitor: tantalum_report::Monitor::silent(),
        };
        save(&folder, &finding, &checker, &Tree::default(), &[]).unwrap();
        assert_eq!(SavedFinding::open(&folder).unwrap().finding.saved, Some(folder));
    }
}
