//! All logs of a recording, without the images in them.
//!
//! The kernel splits writes at pages, and images with them. So contiguous writes to a log are gathered, and searched for
//! images when something else is done.

use std::collections::HashMap;

use tantalum_record::operation::{FileNumber, Operation};
use tantalum_record::{Event, WriteKind};

use crate::images::ShorterLog;
use crate::replay::SecondCopies;

/// Contiguous writes to a log are gathered up to this many bytes.
const MOST_GATHERED_BYTES: usize = 8 << 20;

/// The logs. If there are no images to leave out, they stay unchanged.
pub(crate) struct ShorterLogs<'a> {
    without: Option<&'a SecondCopies>,
    logs: HashMap<FileNumber, ShorterLog>,
    gathered: Option<Gathered>,
}

struct Gathered {
    file: FileNumber,
    offset: u64,
    data: Vec<u8>,
    kind: WriteKind,
}

/// What remains of a write.
pub(crate) struct Shortened {
    pub file: FileNumber,
    pub place: u64,
    pub kept: Vec<u8>,
    pub kind: WriteKind,
    pub left_out_bytes: u64,
}

impl<'a> ShorterLogs<'a> {
    pub fn new(without: Option<&'a SecondCopies>) -> ShorterLogs<'a> {
        ShorterLogs { without, logs: HashMap::new(), gathered: None }
    }

    /// The new position of an offset of a file, after what was left out before it.
    pub fn place(&self, file: FileNumber, offset: u64) -> u64 {
        self.logs.get(&file).map_or(offset, |log| log.place(offset))
    }

    /// An operation at its new place, if it is on a log.
    pub fn moved(&mut self, operation: &Operation) -> Operation {
        let mut operation = operation.clone();
        match &mut operation {
            Operation::Zero { file, offset, bytes, .. } | Operation::Allocate { file, offset, bytes, .. } => {
                if let Some(log) = self.logs.get_mut(file) {
                    let end = log.place(offset.saturating_add(*bytes));
                    *offset = log.place(*offset);
                    *bytes = end - *offset;
                    log.changed();
                }
            }
            Operation::Resize(file, size) => {
                if let Some(log) = self.logs.get_mut(file) {
                    *size = log.place(*size);
                    log.changed();
                }
            }
            _ => {}
        }
        operation
    }

    /// Something else was written to a file.
    pub fn wrote(&mut self, file: FileNumber) {
        self.logs.entry(file).or_default().changed();
    }

    /// Something was left out of a write to a file.
    pub fn skipped(&mut self, file: FileNumber) {
        self.logs.entry(file).or_default().skipped();
    }

    /// Whether a sync has nothing to do, because all that was written before it was left out.
    pub fn sync_is_idle(&mut self, file: FileNumber) -> bool {
        self.logs.get_mut(&file).is_some_and(ShorterLog::sync_is_idle)
    }

    /// Keeps what is written to a log until [`take`](Self::take). False if there are no images to look for.
    pub fn gather(&mut self, file: FileNumber, offset: u64, data: &[u8], kind: WriteKind) -> bool {
        if self.without.is_some() {
            self.gathered = Some(Gathered { file, offset, data: data.to_vec(), kind });
        }
        self.without.is_some()
    }

    /// Whether this continues where a log was last written, or changes no contents.
    pub fn goes_on(&mut self, event: &Event<'_>) -> bool {
        match (event, &mut self.gathered) {
            (Event::Wrote { file, offset, data, .. }, Some(gathered))
                if *file == gathered.file
                    && *offset == gathered.offset + gathered.data.len() as u64
                    && gathered.data.len() < MOST_GATHERED_BYTES =>
            {
                gathered.data.extend_from_slice(data);
                true
            }
            (Event::Touched(file), Some(gathered)) => *file == gathered.file,
            (Event::CallEnded, Some(_)) => true,
            _ => false,
        }
    }

    /// What was gathered, without its images.
    pub fn take(&mut self) -> Option<Shortened> {
        let Gathered { file, offset, data, kind } = self.gathered.take()?;
        let found = self.without?.in_log(file, offset, &data);
        let left_out_bytes = found.iter().map(|image| image.len() as u64).sum();
        let (place, kept) = self.logs.entry(file).or_default().write(offset, &data, &found);
        Some(Shortened { file, place, kept, kind, left_out_bytes })
    }
}
