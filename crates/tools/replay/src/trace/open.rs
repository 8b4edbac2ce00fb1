//! Opens the files of a trace: unpacks and decodes them, and finds out what they hold.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::blktrace::{self, Blktrace};
use super::cloudphysics::{CloudPhysics, Layout};
use super::compression::{Refused, Unpacked, unpack};
use super::encoding;
use super::entries::{Entries, Text};
use super::error::{TraceError, beginning};
use super::format::{Format, Shown};
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
    let mut files = files(input, read)?;
    if format == Format::Blktrace {
        let readers = files.into_iter().map(|(path, file)| (path, file.reader)).collect();
        return Ok(Box::new(Blktrace::new(readers, source.action.unwrap_or_default())?));
    }
    let (path, file) = files.swap_remove(0);
    Ok(match format.parser(source) {
        Some(parser) => Box::new(Text::new(path, encoding::text(&file.head, file.reader), parser)),
        None => Box::new(CloudPhysics::new(path, &file.head, file.reader)?),
    })
}

/// The format of a trace, from its beginning.
pub(super) fn detect(input: &Input) -> Result<Format, TraceError> {
    let mut files = files(input, &Arc::default())?;
    // a processor that had nothing to do left an empty file
    let has_records = |(_, file): &(PathBuf, Unpacked)| blktrace::begins(&file.head);
    if files.iter().any(has_records) || files.len() > 1 {
        return Ok(Format::Blktrace);
    }
    let (path, file) = files.swap_remove(0);
    match Layout::of(&file.head) {
        Some(_) => Ok(Format::CloudPhysics),
        None => of_text(path, encoding::text(&file.head, file.reader)),
    }
}

/// The format that the first line has which is neither empty nor a comment.
fn of_text(path: PathBuf, reader: Box<dyn BufRead>) -> Result<Format, TraceError> {
    let mut lines = Lines::new(reader);
    let shown = loop {
        let next = lines.advance().map_err(|error| TraceError::File { path: path.clone(), error })?;
        let text = lines.text();
        match next {
            Next::Line if text.is_empty() || text.starts_with('#') => {}
            Next::Line => break Format::of(text),
            Next::TooLong => break Shown::Nothing,
            Next::End => return Err(TraceError::Empty { path }),
        }
    };
    let (line, found) = (lines.number(), beginning(lines.text()));
    match shown {
        Shown::Format(format) => Ok(format),
        Shown::Ambiguous(formats) => {
            let formats = formats.into_iter().map(Format::name).collect();
            Err(TraceError::Ambiguous { path, line, found, formats })
        }
        Shown::Nothing => Err(TraceError::Unknown { path, line, found }),
    }
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
