//! Writes that carry more than data and their place: metadata, hinted logs, files.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tantalum_device::{result_of, Command, FileId, Generation, Hint, METADATA_BYTES, Metadata, UNIT_BYTES};

use super::PyDevice;
use super::buffer::Source;
use super::errors::raised;

/// Up to 24 bytes, padded with zeros.
fn metadata_of(bytes: &[u8]) -> PyResult<Metadata> {
    let mut metadata = [0; METADATA_BYTES];
    match metadata.get_mut(..bytes.len()) {
        Some(part) => part.copy_from_slice(bytes),
        None => {
            let text = format!("the metadata have {} bytes; at most {METADATA_BYTES} fit", bytes.len());
            return Err(PyValueError::new_err(text));
        }
    }
    Ok(metadata)
}

#[pymethods]
impl PyDevice {
    /// Reads one unit and its 24 bytes of metadata, which are zeros if none were written.
    fn read_with_metadata<'py>(
        &self,
        py: Python<'py>,
        lpn: u64,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let mut metadata = [0; METADATA_BYTES];
        let data = PyBytes::new_with(py, UNIT_BYTES, |data| {
            self.with(py, |state| {
                let lpn = state.lpn(lpn)?;
                let command = Command::ReadWithMetadata { lpn, data, metadata: &mut metadata };
                state.submit(command).map(drop).map_err(raised)
            })
        })?;
        Ok((data, PyBytes::new(py, &metadata)))
    }

    /// Writes one unit with up to 24 bytes of metadata, which are stored in its spare area and move with it.
    #[pyo3(signature = (lpn, data, metadata, *, fua = false, queued = false))]
    fn write_with_metadata(
        &self,
        py: Python<'_>,
        lpn: u64,
        data: &Bound<'_, PyAny>,
        metadata: Source,
        fua: bool,
        queued: bool,
    ) -> PyResult<u64> {
        let (source, metadata) = (Source::get(data)?, metadata_of(metadata.bytes())?);
        self.with(py, |state| {
            let lpn = state.lpn(lpn)?;
            let command = Command::WriteWithMetadata { lpn, data: source.bytes(), metadata: &metadata, fua };
            state.run(command, queued).map_err(raised)
        })
    }

    /// Begins a life of a hinted log; returns its generation, for `write_hinted`.
    fn begin_log(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |state| {
            let begin = |generation: &mut _| state.submit(Command::BeginLog { generation });
            let Generation(generation) = result_of(begin).map_err(raised)?;
            Ok(generation)
        })
    }

    /// Writes one page of a log, with a hint that says where it belongs: if its transaction is complete, recovery moves
    /// it home on its own (SW-WAL).
    ///
    /// generation: what `begin_log` returned. slot: the page's place in the log, from 1; pages come in the order of slots.
    /// first: the first slot of its transaction. end: whether it ends the transaction. home: the unit to which the page
    /// belongs, or None. attempt: from 0; a log that was rolled back continues with the next attempt at slot `start`.
    ///
    /// KeyError if the log is not open, ValueError if the page does not follow the one before it.
    #[pyo3(signature = (lpn, data, *, generation, slot, first, end, home = None, attempt = 0, start = 1, metadata = None, queued = false))]
    #[expect(clippy::too_many_arguments, reason = "they are the parts of the hint")]
    fn write_hinted(
        &self,
        py: Python<'_>,
        lpn: u64,
        data: &Bound<'_, PyAny>,
        generation: u64,
        slot: u32,
        first: u32,
        end: bool,
        home: Option<u64>,
        attempt: u32,
        start: u32,
        metadata: Option<Source>,
        queued: bool,
    ) -> PyResult<u64> {
        let (source, metadata) =
            (Source::get(data)?, metadata_of(metadata.as_ref().map_or(&[], Source::bytes))?);
        self.with(py, |state| {
            let lpn = state.lpn(lpn)?;
            let home = home.map(|home| state.lpn(home)).transpose()?;
            let hint = Hint { generation: Generation(generation), attempt, start, first, slot, end, home };
            let command = Command::WriteHinted { lpn, data: source.bytes(), metadata: &metadata, hint };
            state.run(command, queued).map_err(raised)
        })
    }

    /// Writes units, and appends them to the list of a file: `offset` says where in the file the first one belongs, in
    /// units. Data and list are durable when it is done (PebbleSSD). Files are numbered from 1.
    ///
    /// ValueError if this drive keeps no lists, LimitError if it keeps no more of them.
    #[pyo3(signature = (lpn, data, *, file, offset, queued = false))]
    fn fs_write(
        &self,
        py: Python<'_>,
        lpn: u64,
        data: &Bound<'_, PyAny>,
        file: u32,
        offset: u32,
        queued: bool,
    ) -> PyResult<u64> {
        let source = Source::get(data)?;
        self.with(py, |state| {
            let lpn = state.lpn(lpn)?;
            let command = Command::FsWrite { lpn, data: source.bytes(), file: FileId(file), offset };
            state.run(command, queued).map_err(raised)
        })
    }

    /// The list of a file: tuples (lpn, offset in units), in the order of writing.
    fn read_file_list(&self, py: Python<'_>, file: u32) -> PyResult<Vec<(u32, u32)>> {
        self.with(py, |state| {
            let mut entries = Vec::new();
            let command = Command::ReadFileList { file: FileId(file), entries: &mut entries };
            state.submit(command).map_err(raised)?;
            Ok(entries.iter().map(|entry| (entry.lpn.0, entry.offset)).collect())
        })
    }

    /// The numbers of the files that have lists.
    fn list_files(&self, py: Python<'_>) -> PyResult<Vec<u32>> {
        self.with(py, |state| {
            let mut files = Vec::new();
            state.submit(Command::ListFiles { files: &mut files }).map_err(raised)?;
            Ok(files.iter().map(|file| file.0).collect())
        })
    }

    /// Clears the list of a file, or all lists, in one step. It is durable when it is done.
    #[pyo3(signature = (file = None))]
    fn clear_file_lists(&self, py: Python<'_>, file: Option<u32>) -> PyResult<u64> {
        let file = file.map(FileId);
        self.with(py, |state| state.run(Command::ClearFileLists { file }, false).map_err(raised))
    }
}
