//! Which files the drive lists since the last checkpoint, and which it cannot.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_filesystem::FileId;

use crate::bytes::Page;
use crate::error::Result;
use crate::index::{Index, Purpose};
use crate::segments::{Log, Run};

/// Files and their lists since the last checkpoint.
#[derive(Debug, Default)]
pub(crate) struct ListedFiles {
    /// Files that may have a list, and the unit after the last one in it.
    pub ends: BTreeMap<FileId, u64>,
    /// Files whose units were written or given up without their lists recording it.
    pub untold: BTreeSet<FileId>,
}

impl ListedFiles {
    /// Appends contents of a unit to the log on behalf of a write, listed by the drive or not.
    pub fn append(
        &mut self,
        index: &mut dyn Index,
        log: &mut Log,
        (file, unit): (FileId, u32),
        page: &Page,
        is_listed: bool,
    ) -> Result<()> {
        if !is_listed {
            self.cannot_tell(file);
            return index.append(log, Purpose::Content, file, unit, page);
        }
        let end = self.ends.entry(file).or_default();
        *end = (*end).max(u64::from(unit) + 1);
        index.append_listed(log, file, unit, page)
    }

    /// Appends adjacent units of a file to the log on behalf of a write, listed by the drive or not, and sends them.
    pub fn append_run(&mut self, index: &mut dyn Index, log: &mut Log, run: &mut Run<'_>) -> Result<()> {
        let file = run.file();
        match run.end().filter(|_| run.is_listed()) {
            None => self.cannot_tell(file),
            Some(run_end) => {
                let end = self.ends.entry(file).or_default();
                *end = (*end).max(run_end);
            }
        }
        let appended = index.append_run(log, run);
        assert!(run.is_sent(), "a run of file {file} ends before it was sent: {appended:?}");
        if appended.is_ok() {
            assert_eq!(run.left(), 0, "a run of file {file} ends, and some units have no place");
        }
        appended
    }

    /// Units of a file change without its list telling: only the index can make them durable.
    pub fn cannot_tell(&mut self, file: FileId) {
        self.untold.insert(file);
    }
}
