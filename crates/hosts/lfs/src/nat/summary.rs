//! Segment summaries: for each unit of a segment, what it was written for. The cleaner asks the index whether that
//! still holds, so an entry may be outdated but never missing for a live unit.
//!
//! Layout: checksum, segment (4 each), then for each unit a node number (4) and a slot of that node (2); the slot
//! [`NODE`] means the node itself.

use std::collections::BTreeMap;

use tantalum::Lpn;

use crate::bytes::{Page, get16, get32, put16, put32, seal, verify, zeros};
use crate::error::Result;
use crate::segments::{Log, State};

/// The slot that stands for the node itself.
pub(super) const NODE: u16 = u16::MAX;

/// Number of summaries in memory beyond which those of full segments are stored.
const MOST_IN_MEMORY: usize = 32;

/// What a unit was written for: a node, and its slot.
pub(super) type SummaryEntry = (u32, u16);

/// Where the entry of a unit is.
const fn entry_at(unit: u32) -> usize {
    8 + 6 * unit as usize
}

/// Bytes of the summary of a segment with so many units.
pub(super) const fn summary_bytes(segment_units: u32) -> usize {
    entry_at(segment_units)
}

#[derive(Debug)]
struct Summary {
    page: Box<Page>,
    is_changed: bool,
}

/// The summaries of all segments.
#[derive(Debug)]
pub(super) struct Summaries {
    first: Lpn,
    in_memory: BTreeMap<u32, Summary>,
}

impl Summaries {
    pub fn new(first: Lpn) -> Summaries {
        Summaries { first, in_memory: BTreeMap::new() }
    }

    fn place(&self, segment: u32) -> Lpn {
        Lpn(self.first.0 + segment)
    }

    fn load(&mut self, log: &mut Log, segment: u32) -> Result<&mut Summary> {
        if !self.in_memory.contains_key(&segment) {
            let mut page = zeros();
            log.read(self.place(segment), &mut page[..])?;
            if verify(&page[..]).is_err() || get32(&page[..], 4) != segment {
                page = zeros();
            }
            self.in_memory.insert(segment, Summary { page, is_changed: false });
        }
        Ok(self.in_memory.get_mut(&segment).expect("it is loaded"))
    }

    /// A head begins a segment with its first unit: the old summary is void. A head that fills holes continues the old
    /// summary.
    pub fn begin(&mut self, log: &Log, lpn: Lpn) {
        let segment = log.segments.find(lpn).expect("a unit of the log");
        let is_filled = log.segments.get(segment).state == State::Filling;
        if log.segments.first_lpn(segment) == lpn && !is_filled {
            let state = log.segments.get(segment).state;
            assert_ne!(
                state,
                State::Free,
                "segment {segment} begins at unit {lpn}, but no head has opened it"
            );
            self.in_memory.insert(segment, Summary { page: zeros(), is_changed: true });
        }
    }

    /// Records what a unit is written for.
    pub fn set(&mut self, log: &mut Log, lpn: Lpn, (node, slot): SummaryEntry) -> Result<()> {
        let segment = log.segments.find(lpn).expect("a unit of the log");
        let at = entry_at(lpn.0 - log.segments.first_lpn(segment).0);
        let summary = self.load(log, segment)?;
        put32(&mut summary.page[..], at, node);
        put16(&mut summary.page[..], at + 4, slot);
        summary.is_changed = true;
        if self.in_memory.len() > MOST_IN_MEMORY {
            self.store(log)?;
        }
        Ok(())
    }

    /// What the units of a segment were written for.
    pub fn entries(&mut self, log: &mut Log, segment: u32) -> Result<Vec<SummaryEntry>> {
        let units = log.segments.units();
        let page = &self.load(log, segment)?.page;
        let entry = |unit| (get32(&page[..], entry_at(unit)), get16(&page[..], entry_at(unit) + 4));
        Ok((0..units).map(entry).collect())
    }

    /// Writes all that changed, and drops those to which no head writes.
    pub fn store(&mut self, log: &mut Log) -> Result<()> {
        for (segment, summary) in self.in_memory.iter_mut().filter(|(_, summary)| summary.is_changed) {
            put32(&mut summary.page[..], 4, *segment);
            seal(&mut summary.page[..]);
            log.write(Lpn(self.first.0 + segment), &summary.page[..], false)?;
            log.written.summaries += 1;
            summary.is_changed = false;
        }
        let is_written =
            |segment: u32| matches!(log.segments.get(segment).state, State::Open | State::Filling);
        self.in_memory.retain(|segment, _| is_written(*segment));
        debug_assert!(
            self.in_memory.values().all(|summary| !summary.is_changed),
            "a summary was stored, but still counts as changed: {:?}",
            self.in_memory.keys()
        );
        Ok(())
    }
}
