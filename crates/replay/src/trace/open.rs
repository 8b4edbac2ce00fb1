//! Opens the files of a trace: unpacks and decodes them, and finds out what they hold.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::compressed::{Refused, Unpacked, unpack};
use super::encoding;
use super::entries::{Entries, Text};
use super::error::{TraceError, beginning};
use super::format::Format;
use super::input::{Input, Raw};
use super::lines::{Lines, Next};
use super::source::Source;

/// Reads the entries of a trace from the beginning. Counts the bytes of its files into `read`.
pub(super) fn entries(
    source: &Source,
    format: Format,
    input: &Input,
    read: &Arc<AtomicU64>,
) -> Result<Box<dyn Entries>, TraceError> {
    let (path, file) = files(input, read)?.swap_remove(0);
    let reader = encoding::text(&file.head, file.reader);
    Ok(Box::new(Text::new(path, reader, format.parser(source.action))))
}

/// The format of a trace, from its beginning.
pub(super) fn detect(input: &Input) -> Result<Format, TraceError> {
    let (path, file) = files(input, &Arc::default())?.swap_remove(0);
    of_text(path, encoding::text(&file.head, file.reader))
}

/// The format that the first line has which is neither empty nor a comment.
fn of_text(path: PathBuf, reader: Box<dyn BufRead>) -> Result<Format, TraceError> {
    let mut lines = Lines::new(reader);
    let format = loop {
        let next = lines.advance().map_err(|error| TraceError::File { path: path.clone(), error })?;
        let text = lines.text();
        match next {
            Next::Line if text.is_empty() || text.starts_with('#') => {}
            Next::Line => break Format::of(text),
            Next::TooLong | Next::End => break None,
        }
    };
    let (line, found) = (lines.number().max(1), beginning(lines.text()));
    format.ok_or(TraceError::Unknown { path, line, found })
}

/// The files of a trace, unpacked. There is one, unless blktrace wrote several.
fn files(input: &Input, read: &Arc<AtomicU64>) -> Result<Vec<(PathBuf, Unpacked)>, TraceError> {
    let files = input.readers(read).into_iter();
    files.map(|(path, raw)| unpacked(&path, raw).map(|unpacked| (path, unpacked))).collect()
}

fn unpacked(path: &Path, raw: Raw) -> Result<Unpacked, TraceError> {
    let path = path.to_owned();
    unpack(raw).map_err(|refused| match refused {
        Refused::Io(error) => TraceError::File { path, error },
        Refused::Other(what, instead) => TraceError::Packed { path, what, instead },
    })
}
