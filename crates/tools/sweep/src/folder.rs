//! The output folder: a file for each complete run, and the table.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tantalum_report::save;

use crate::error::SweepError;
use crate::run::{Row, Run};

/// Where a sweep keeps its results. Several processes may use one folder: a run's file appears atomically, and is the same
/// whichever process wrote it.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// The stored result of a run.
#[derive(Serialize, Deserialize)]
struct Kept {
    run: Run,
    row: Row,
}

/// The stored result of a run, as it is in its file.
pub fn kept_text(run: &Run, row: &Row) -> String {
    let kept = Kept { run: run.clone(), row: row.clone() };
    serde_json::to_string_pretty(&kept).expect("it has string keys only")
}

impl Folder {
    /// Opens the folder, which is created if it does not exist.
    pub fn open(path: &Path) -> Result<Folder, SweepError> {
        let runs = path.join("runs");
        fs::create_dir_all(&runs).map_err(SweepError::file(&runs))?;
        Ok(Folder { path: path.to_owned() })
    }

    /// The result of a run, if it was completed here.
    pub fn row(&self, run: &Run) -> Result<Option<Row>, SweepError> {
        let path = self.file(run);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SweepError::File { path, error }),
        };
        let kept: Kept = serde_json::from_str(&text)
            .map_err(|error| SweepError::Kept { path: path.clone(), reason: error.to_string() })?;
        match kept.run.id() == run.id() {
            true => Ok(Some(kept.row)),
            false => Err(SweepError::Kept { path, reason: "it is of another run".to_owned() }),
        }
    }

    /// Stores the result of a run.
    pub fn keep(&self, run: &Run, row: &Row) -> Result<(), SweepError> {
        Ok(save(&kept_text(run, row), &self.file(run))?)
    }

    /// A file of the table.
    pub fn table(&self, ending: &str) -> PathBuf {
        self.path.join(format!("table.{ending}"))
    }

    fn file(&self, run: &Run) -> PathBuf {
        self.path.join("runs").join(format!("{}.json", run.id()))
    }
}
