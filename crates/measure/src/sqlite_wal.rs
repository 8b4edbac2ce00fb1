//! Pages in SQLite's write-ahead log, from its format.
//!
//! Such a log holds pages and nothing else, so a program that writes each page once cannot do without what is in it: the
//! second copy is the one that a checkpoint writes home. That one is left out, and the log stays as it is.

use std::collections::{HashMap, HashSet};

use tantalum_record::operation::FileNumber;

use crate::images::whole_units;

/// The first bytes of a log, but for the last bit, which tells the byte order of its checksums.
const MAGIC: u32 = 0x377f_0682;
const LOG_HEADER: u64 = 32;
const FRAME_HEADER: u64 = 24;
const PAGE_BYTES: std::ops::RangeInclusive<u64> = 512..=65536;

/// The end of a log's name; the rest is that of its database.
const ENDING: &str = "-wal";

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// The page size in the header of a log.
fn page_bytes(header: &[u8]) -> Option<u64> {
    let is_log = u32_at(header, 0)? & !1 == MAGIC;
    let bytes = u64::from(u32_at(header, 8)?);
    (is_log && bytes.is_power_of_two() && PAGE_BYTES.contains(&bytes)).then_some(bytes)
}

/// The logs in a recording, and what was written to them.
#[derive(Debug, Default)]
pub(crate) struct SqliteLogs {
    /// The page size of each.
    logs: HashMap<FileNumber, u64>,
    /// By the path of a database, hashes of the units that its log has held.
    units: HashMap<String, HashSet<u64>>,
}

impl SqliteLogs {
    /// Whether a file is such a log.
    pub fn contains(&self, file: FileNumber) -> bool {
        self.logs.contains_key(&file)
    }

    /// Records what was written to a log.
    pub fn note(&mut self, file: FileNumber, path: &str, offset: u64, data: &[u8]) {
        let Some(database) = path.strip_suffix(ENDING) else { return };
        if offset == 0
            && let Some(bytes) = page_bytes(data)
        {
            self.logs.insert(file, bytes);
        }
        let Some(page_bytes) = self.logs.get(&file).copied() else { return };
        let (frame, end) = (FRAME_HEADER + page_bytes, offset + data.len() as u64);
        let first = LOG_HEADER + FRAME_HEADER;
        let before = offset.saturating_sub(first).div_ceil(frame);
        let mut page = first + before * frame;
        let units = self.units.entry(database.to_owned()).or_default();
        while page + page_bytes <= end {
            let at = (page - offset) as usize;
            let content = &data[at..at + page_bytes as usize];
            units.extend(whole_units(0, content).filter_map(|(_, hash)| hash));
            page += frame;
        }
    }

    /// Of the units written to a file, those that its log has held: they only go home.
    pub fn going_home<'a>(
        &'a self,
        path: &str,
        units: impl Iterator<Item = (u64, Option<u64>)> + 'a,
    ) -> Option<impl Iterator<Item = u64> + 'a> {
        let logged = self.units.get(path)?;
        Some(units.filter(|(_, hash)| hash.is_some_and(|hash| logged.contains(&hash))).map(|(unit, _)| unit))
    }
}
