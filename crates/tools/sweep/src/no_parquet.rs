//! In place of `table_parquet.rs` in builds without the feature `parquet`: the table is CSV only.

use std::path::{Path, PathBuf};

use tantalum_report::MissingFeature;

use crate::error::SweepError;
use crate::table::Table;

/// An error: this build writes no Parquet.
pub fn require_parquet() -> Result<(), MissingFeature> {
    Err(MissingFeature { what: "Parquet", feature: "parquet" })
}

/// Refuses a folder whose table in Parquet would be out of date.
pub(crate) fn check(path: &Path) -> Result<(), SweepError> {
    match (path.exists(), require_parquet()) {
        (true, Err(missing)) => Err(SweepError::OldParquet { path: path.to_owned(), missing }),
        _ => Ok(()),
    }
}

/// Writes nothing.
pub(crate) fn write(_: &Table, _: PathBuf) -> Result<Option<PathBuf>, SweepError> {
    Ok(None)
}
