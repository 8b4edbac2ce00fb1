//! Commands that failed, for the error log page.

use std::collections::VecDeque;

use parking_lot::Mutex;
use zerocopy::IntoBytes;

use crate::failure::Failure;
use crate::wire::command::Submission;
use crate::wire::identify::empty;
use crate::wire::log_page::ErrorEntry;

/// Number of entries kept.
pub const ERROR_ENTRIES: usize = 64;

/// The transport, as the log encodes it: TCP.
const TCP: u8 = 3;

/// The log.
#[derive(Default)]
pub struct ErrorLog(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    /// At most [`ERROR_ENTRIES`], the latest first.
    latest: VecDeque<ErrorEntry>,
    count: u64,
}

impl ErrorLog {
    /// A command failed.
    pub fn add(&self, queue: u16, command: &Submission, failure: Failure) {
        let mut entries = self.0.lock();
        entries.count += 1;
        let mut entry: ErrorEntry = empty();
        entry.count = entries.count.into();
        entry.queue = queue.into();
        entry.command = command.id;
        entry.status = failure.field().into();
        entry.location = 0xffff.into();
        entry.block = if queue == 0 { 0.into() } else { command.first_block().into() };
        entry.namespace = command.namespace;
        entry.transport = TCP;
        entries.latest.truncate(ERROR_ENTRIES - 1);
        let before = entries.latest.front().map_or(0, |entry| entry.count.get());
        assert_eq!(before + 1, entries.count, "the error log leaves an error out");
        entries.latest.push_front(entry);
    }

    /// The number of errors since the controller was created.
    pub fn count(&self) -> u64 {
        self.0.lock().count
    }

    /// The log page.
    pub fn page(&self) -> Vec<u8> {
        let entries = self.0.lock();
        let mut page: Vec<u8> = entries.latest.iter().flat_map(|entry| entry.as_bytes()).copied().collect();
        let bytes = ERROR_ENTRIES * size_of::<ErrorEntry>();
        assert!(page.len() <= bytes, "{} entries are in a log of {ERROR_ENTRIES}", entries.latest.len());
        page.resize(bytes, 0);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_error_is_first_and_old_ones_go() {
        let log = ErrorLog::default();
        for id in 0..100_u16 {
            log.add(1, &Submission { id: id.into(), ..Submission::default() }, Failure::OUT_OF_RANGE);
        }
        let page = log.page();
        assert_eq!(page.len(), 64 * 64);
        assert_eq!((page[0], page[10]), (100, 99), "count and command of the latest");
        assert_eq!(page[63 * 64], 37);
        assert_eq!(log.count(), 100);
    }
}
