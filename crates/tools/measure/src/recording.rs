//! A recording in a temporary file.

use std::fs::File;
use std::path::Path;

use tantalum_record::Events;
use tantalum_report::temporary_file;
use tempfile::NamedTempFile;

use crate::error::MeasureError;

/// A recording in a temporary file, which is removed when this is dropped. It may be read several times.
#[derive(Debug)]
pub struct Recording {
    file: NamedTempFile,
}

impl Recording {
    /// An empty file for a recording.
    pub fn new() -> Result<Recording, MeasureError> {
        Ok(Recording { file: temporary_file("tantalum-measure-")? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads it from the beginning.
    pub fn events(&self) -> Result<Events, MeasureError> {
        let file = File::open(self.path()).map_err(MeasureError::files(self.path()))?;
        Ok(Events::read(file)?)
    }
}
