//! Contents that the drive lists, and how a mount applies lists.
//!
//! A sync that leaves the index to the drive appends contents, and no summary. So listed units are in complete partial
//! segments or in the one that was open when the host or power failed (T5 of [`super`]). A mount ends that one with the
//! summary that it would have got, because the cleaner learns only from summaries what a segment holds.
//!
//! Invariant: a unit that a summary names keeps the virtual number that it has there. Otherwise the summary would show
//! a live unit as dead, and the cleaner would lose it.

use std::collections::BTreeMap;

use tantalum::Lpn;
use tantalum_canaries::guard;
use tantalum_filesystem::FileId;

use super::summary::{MOST_ENTRIES, Summary, SummaryEntry, What};
use super::{HEAD, Tree};
use crate::bytes::Page;
use crate::error::{Damage, LfsError, Result};
use crate::segments::Log;

/// The log after the last super root, until lists have been applied.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// Contents of files that summaries name.
    named: BTreeMap<Lpn, What>,
    /// Where the partial segment without a summary begins.
    end: Option<Lpn>,
    /// The listed units there.
    unnamed: BTreeMap<Lpn, What>,
}

impl Behind {
    pub fn new(summaries: &[Summary], end: Lpn) -> Behind {
        let is_content = |what: &What| matches!(what, What::Content { .. });
        let units = summaries.iter().flat_map(|summary| {
            (summary.start.0..).map(Lpn).zip(summary.entries.iter().map(|entry| entry.what))
        });
        let named = units.filter(|(_, what)| is_content(what)).collect();
        Behind { named, end: Some(end), unnamed: BTreeMap::new() }
    }
}

impl Tree {
    /// Appends contents of a unit, which the drive lists.
    pub(super) fn append_listed_unit(
        &mut self,
        log: &mut Log,
        file: FileId,
        unit: u32,
        page: &Page,
    ) -> Result<()> {
        let number = self.number_for(log, file, unit)?;
        let what = What::Content { file, unit, number };
        let lpn = self.partial.append_listed(log, what, page, (file, unit))?;
        self.set_contents(log, file, unit, number, lpn)?;
        // If a sync through the index follows, a summary must name it before the list is cleared.
        self.since.appended.insert(file);
        Ok(())
    }

    /// Contents of a unit were found in a list.
    pub(super) fn follow_unit(&mut self, log: &mut Log, file: FileId, unit: u32, lpn: Lpn) -> Result<()> {
        let number = match self.behind.named.get(&lpn).copied() {
            Some(What::Content { file: of, unit: at, number }) if (of, at) == (file, unit) => {
                match self.is_free_for(log, file, unit, number)? {
                    true => guard!(NamedNumber(self, log, file, unit)?, number),
                    false => return Err(not_there(lpn)),
                }
            }
            None if self.is_behind_summaries(log, lpn) => {
                let number = self.number_for(log, file, unit)?;
                self.behind.unnamed.insert(lpn, What::Content { file, unit, number });
                number
            }
            _ => return Err(not_there(lpn)),
        };
        self.set_contents(log, file, unit, number, lpn)
    }

    /// Whether a place is in the partial segment without a summary; a segment's last unit always is a summary.
    fn is_behind_summaries(&self, log: &Log, lpn: Lpn) -> bool {
        let (Some(end), Some(segment)) = (self.behind.end, log.segments.find(lpn)) else { return false };
        let last = log.segments.first_lpn(segment).0 + log.segments.units() - 1;
        log.segments.find(end) == Some(segment)
            && (end.0..last).contains(&lpn.0)
            && ((lpn.0 - end.0) as usize) < MOST_ENTRIES
    }

    /// Continues the partial segment without a summary after the last unit listed there.
    pub(super) fn complete_partial(&mut self, log: &mut Log) -> Result<()> {
        let Behind { end, mut unnamed, .. } = std::mem::take(&mut self.behind);
        let (Some(start), Some((last, _))) = (end, unnamed.last_key_value()) else { return Ok(()) };
        let next = last.0 + 1;
        let what = |lpn| unnamed.remove(&Lpn(lpn)).unwrap_or(What::Nothing);
        let entries = (start.0..next).map(what).map(|what| SummaryEntry { what, is_unchecked: true });
        let entries = entries.collect();
        assert!(unnamed.is_empty(), "listed units {unnamed:?} are not in {start} to {next}");
        self.partial.resume(start, entries);
        let segment = log.segments.find(start).ok_or_else(|| not_there(start))?;
        assert_eq!(
            log.segments.find(Lpn(next)),
            Some(segment),
            "the summary of the listed units from {start} on has no place in their segment"
        );
        log.continue_head(HEAD, Some(segment), next - log.segments.first_lpn(segment).0, None);
        Ok(())
    }
}

fn not_there(lpn: Lpn) -> LfsError {
    LfsError::Damaged {
        lpn,
        damage: Damage::NotA { expected: "contents of a file behind the last super root" },
    }
}
