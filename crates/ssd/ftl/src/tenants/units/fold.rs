//! The fold over units: L2P is the maximum of all assertions.
//!
//! For each logical page the greatest version wins; among copies of one version, the latest step. Assertions may come
//! in any order, and seeing one twice changes nothing.
//!
//! A checkpoint records where pages are, but not their versions, so anything after it wins over it. That is right for
//! newer data, and for copies, since the drive copies only what it has. It is wrong for homes: a log page older than
//! the checkpoint may claim a home that already had something newer. So for such pages the checkpoint lists the claims
//! that stood, and no others count.

use std::collections::{BTreeMap, BTreeSet};

use tantalum_canaries::guard;
use tantalum_nand::Ppn;

use super::Units;
use super::kept::UnitsKept;
use crate::error::{Damage, FtlError};
use crate::map::{Attempt, Attempts, CHUNK_ENTRIES, Living, Map, extend_whole_run, in_whole_run};
use crate::metadata::Record;
use crate::report::RecoveryReport;
use crate::spare::{BatchMark, Kind, Mark, Spare};
use crate::tenants::{CheckpointReader, DataPlaces};
use crate::types::{Generation, HashMap, Hint, Lpn, Seq};

/// The best assertion for a logical page so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Best {
    version: Seq,
    step: Seq,
    ppn: Option<Ppn>,
    /// Whether the spare area of the place records the version.
    in_spare: bool,
}

/// A page of a hinted log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LogPage {
    hint: Hint,
    version: Seq,
    step: Seq,
    ppn: Ppn,
}

/// A member of an atomic batch, which asserts only if the batch is whole.
struct Member {
    batch: BatchMark,
    lpn: Lpn,
    best: Best,
}

/// Assertions gathered over a checkpoint.
pub(crate) struct UnitsFold {
    step: Seq,
    base: UnitsKept,
    best: HashMap<u32, Best>,
    members: Vec<Member>,
    log_pages: BTreeMap<Generation, BTreeMap<(u32, u32), LogPage>>,
    /// Homes and the versions of the pages that claimed them when the checkpoint was taken.
    standing: BTreeSet<(Lpn, Seq)>,
    /// The claims that have ended since.
    ended: BTreeSet<(Lpn, Seq)>,
    groups_whole: BTreeSet<Seq>,
    whole_runs: BTreeMap<Generation, BTreeMap<u32, u32>>,
    /// Units of transactions programmed since the checkpoint, with their places: garbage collection may have moved one.
    transaction_units: BTreeMap<(Lpn, Seq), BTreeSet<Ppn>>,
    /// Journal records that map a unit to a place: commits, if that place has a page of a transaction.
    mapped: Vec<(Seq, Ppn)>,
    assertions: u64,
}

/// The result of the fold.
pub(crate) struct UnitsFound {
    /// The place of each mapped page, in the order of the pages.
    places: Vec<(Lpn, Ppn)>,
    /// Versions that spare areas do not record.
    versions: HashMap<u32, Seq>,
    /// The extent to which each log is whole.
    logs: Vec<(Generation, Attempts)>,
    /// Chunks of L2P in the checkpoint.
    chunks: usize,
}

impl UnitsFold {
    /// A fold over the contents of the checkpoint at `step`, which are at the front of `kept`. None if they are not valid.
    pub fn over(kept: &mut CheckpointReader<'_>, step: Seq) -> Option<UnitsFold> {
        Some(UnitsFold::new(step, UnitsKept::decode(kept)?))
    }

    /// A fold over a checkpoint taken at `step`.
    pub fn new(step: Seq, base: UnitsKept) -> UnitsFold {
        let mut fold = UnitsFold {
            step,
            best: HashMap::default(),
            members: Vec::new(),
            log_pages: BTreeMap::new(),
            standing: BTreeSet::new(),
            ended: BTreeSet::new(),
            groups_whole: BTreeSet::new(),
            whole_runs: BTreeMap::new(),
            transaction_units: BTreeMap::new(),
            mapped: Vec::new(),
            assertions: 0,
            base: UnitsKept::default(),
        };
        for &(generation, attempt, last) in &base.runs {
            fold.log_whole(generation, attempt, last);
        }
        for &(_, living, ppn) in &base.hints {
            let Living { hint, version } = living;
            fold.standing.extend(hint.home.map(|home| (home, version)));
            // one that waited has reached flash since, or was lost
            if let Some(ppn) = ppn {
                fold.log_page(LogPage { hint, version, step, ppn });
            }
        }
        fold.base = base;
        fold
    }

    fn assert(&mut self, lpn: Lpn, best: Best) {
        self.assertions += 1;
        let entry = self.best.entry(lpn.0).or_insert(best);
        if (best.version, best.step) > (entry.version, entry.step) {
            *entry = best;
        }
    }

    /// A data unit's spare area.
    fn data(&mut self, ppn: Ppn, spare: &Spare) {
        if let Mark::Hint(hint, log_lpn) = spare.mark
            && let Some(version) = spare.version_of(log_lpn)
        {
            self.log_page(LogPage { hint, version, step: spare.step, ppn });
        }
        for &(lpn, version) in spare.owners() {
            let best = Best { version, step: spare.step, ppn: Some(ppn), in_spare: true };
            match spare.mark {
                Mark::Batch(batch) => self.members.push(Member { batch, lpn, best }),
                _ => self.assert(lpn, best),
            }
        }
    }

    fn log_page(&mut self, page: LogPage) {
        let pages = self.log_pages.entry(page.hint.generation).or_default();
        let latest = pages.entry((page.hint.attempt().0, page.hint.slot)).or_insert(page);
        if (page.version, page.step) > (latest.version, latest.step) {
            *latest = page;
        }
    }

    fn log_whole(&mut self, generation: Generation, attempt: u32, last: u32) {
        let known = self.whole_runs.entry(generation).or_default().entry(attempt).or_insert(last);
        *known = last.max(*known);
    }

    /// Collects the records that decide about the rest of the journal.
    fn conditions(&mut self, records: &[Record]) {
        for record in records {
            match *record {
                Record::GroupWhole { group } => drop(self.groups_whole.insert(group)),
                Record::LogWhole { generation, attempt, last } => self.log_whole(generation, attempt, last),
                Record::ClaimEnded { home, version, step } if step > self.step => {
                    self.ended.insert((home, version));
                }
                _ => {}
            }
        }
    }

    fn record(&mut self, record: &Record, chunks: &BTreeSet<u32>) {
        match *record {
            Record::Map { lpn, version, step, ppn } => {
                self.mapped.push((step, ppn));
                if step > self.step {
                    self.assert(lpn, Best { version, step, ppn: Some(ppn), in_spare: false });
                }
            }
            Record::MapInGroup { lpn, version, group, ppn } if self.groups_whole.contains(&group) => {
                self.mapped.push((group, ppn));
                self.assert(lpn, Best { version, step: group, ppn: Some(ppn), in_spare: false });
            }
            Record::ClaimEndedInGroup { home, version, group } if self.groups_whole.contains(&group) => {
                self.ended.insert((home, version));
            }
            Record::Trim { lpn, units, version, step } if step > self.step => {
                self.trim(lpn, units, Best { version, step, ppn: None, in_spare: false }, chunks);
            }
            _ => {}
        }
    }

    /// Chunks of L2P in which anything may be mapped; a trim affects no others.
    fn chunks(&self, records: &[Record]) -> BTreeSet<u32> {
        let chunk = |lpn: Lpn| lpn.0 / CHUNK_ENTRIES as u32;
        let mut chunks: BTreeSet<u32> = self.base.chunks.iter().map(|(number, _)| number).collect();
        chunks.extend(self.best.keys().map(|lpn| chunk(Lpn(*lpn))));
        chunks.extend(self.members.iter().map(|member| chunk(member.lpn)));
        let homes =
            self.log_pages.values().flat_map(|pages| pages.values()).filter_map(|page| page.hint.home);
        chunks.extend(homes.map(chunk));
        let mapped = records.iter().filter_map(|record| match record {
            Record::Map { lpn, .. } | Record::MapInGroup { lpn, .. } => Some(chunk(*lpn)),
            _ => None,
        });
        guard!(TrimsOfUntouchedChunks, chunks.extend(mapped));
        chunks
    }

    fn trim(&mut self, lpn: Lpn, units: u32, nowhere: Best, chunks: &BTreeSet<u32>) {
        let entries = CHUNK_ENTRIES as u32;
        let end = lpn.0.saturating_add(units);
        for chunk in chunks.range(lpn.0 / entries..end.div_ceil(entries)) {
            for lpn in (chunk * entries).max(lpn.0)..((chunk + 1) * entries).min(end) {
                self.assert(Lpn(lpn), nowhere);
            }
        }
    }

    /// Counts the transactions whose pages were seen and that the journal completes, and the units of those that it does not.
    fn count_transactions(&self, report: &mut RecoveryReport) {
        let seen: BTreeSet<Ppn> = self.transaction_units.values().flatten().copied().collect();
        let commits = self.mapped.iter().filter(|(_, ppn)| seen.contains(ppn));
        let (completed, places): (BTreeSet<Seq>, BTreeSet<Ppn>) = commits.copied().unzip();
        report.transactions_completed = completed.len() as u64;
        let dropped = self.transaction_units.values().filter(|unit| unit.is_disjoint(&places));
        report.transaction_units_dropped = dropped.count() as u64;
    }

    /// A page in the whole run of its log asserts its home as well, at its own version.
    fn assert_homes(&mut self, report: &mut RecoveryReport) -> Vec<(Generation, Attempts)> {
        let mut logs = Vec::new();
        for (generation, pages) in std::mem::take(&mut self.log_pages) {
            let mut attempts = Attempts::new();
            for (attempt, last) in self.whole_runs.get(&generation).into_iter().flatten() {
                attempts.insert(*attempt, Attempt { known: Some(*last), ..Attempt::default() });
            }
            for page in pages.values() {
                let (number, start) = page.hint.attempt();
                let attempt = attempts.entry(number).or_default();
                attempt.start = start;
                attempt.pages.insert(page.hint.slot, (page.hint.first, page.hint.end));
            }
            extend_whole_run(&mut attempts);
            for page in pages.into_values() {
                if !in_whole_run(&attempts, page.hint.attempt().0, page.hint.slot) {
                    report.hints_dropped += 1;
                    continue;
                }
                report.hints_whole += 1;
                if let Some(home) = self.claimed_home(&page) {
                    let best =
                        Best { version: page.version, step: page.step, ppn: Some(page.ppn), in_spare: false };
                    self.assert(home, best);
                }
            }
            logs.push((generation, attempts));
        }
        logs
    }

    /// The home that a page claims, if its claim stands.
    fn claimed_home(&self, page: &LogPage) -> Option<Lpn> {
        let home = page.hint.home?;
        let claim = (home, page.version);
        let is_newer = page.version > self.step;
        let stands = guard!(ClaimOlderThanCheckpoint, is_newer || self.standing.contains(&claim));
        (stands && !self.ended.contains(&claim)).then_some(home)
    }

    /// A unit programmed since the checkpoint.
    pub fn unit(&mut self, ppn: Ppn, spare: &Spare) {
        match spare.kind {
            Kind::Transaction => {
                for &owner in spare.owners() {
                    self.transaction_units.entry(owner).or_default().insert(ppn);
                }
            }
            _ => self.data(ppn, spare),
        }
    }

    /// The journal since the checkpoint, after all units.
    pub fn journal(&mut self, records: &[Record]) {
        self.conditions(records);
        let chunks = self.chunks(records);
        records.iter().for_each(|record| self.record(record, &chunks));
    }

    /// The batches whose members were seen, with the members found.
    pub fn batches(&self) -> impl Iterator<Item = BatchMark> {
        self.members.iter().map(|member| member.batch)
    }

    /// The members of whole batches assert, the others do not.
    pub fn assert_batches(&mut self, whole: &BTreeSet<Seq>) {
        for Member { batch, lpn, best } in std::mem::take(&mut self.members) {
            if whole.contains(&batch.id) {
                self.assert(lpn, best);
            }
        }
    }

    /// Whether nothing was asserted since the checkpoint.
    pub fn is_empty(&self) -> bool {
        self.assertions == 0 && self.members.is_empty()
    }

    /// Decides what is conditional, and takes the maximum.
    pub fn finish(mut self, report: &mut RecoveryReport) -> UnitsFound {
        self.count_transactions(report);
        let logs = self.assert_homes(report);
        report.assertions += self.assertions;
        let versions = self.base.versions.iter().map(|(lpn, version)| (lpn.0, *version)).collect();
        let chunks = self.base.chunks.iter().len();
        let mut found = UnitsFound { places: Vec::new(), versions, logs, chunks };
        let mut asserted: Vec<(u32, Best)> = self.best.into_iter().collect();
        asserted.sort_unstable_by_key(|(lpn, _)| *lpn);
        // what the checkpoint has between two assertions stands
        let mut kept = self.base.chunks.places();
        for (lpn, best) in asserted {
            kept.extend_before(lpn, &mut found.places);
            found.place(Lpn(lpn), &best);
        }
        kept.extend_before(u32::MAX, &mut found.places);
        debug_assert!(found.places.is_sorted(), "assertions and chunks are in the order of logical pages");
        found.versions.retain(|lpn, version| !self.transaction_units.contains_key(&(Lpn(*lpn), *version)));
        found
    }
}

impl UnitsFound {
    fn place(&mut self, lpn: Lpn, best: &Best) {
        self.versions.remove(&lpn.0);
        if let Some(ppn) = best.ppn {
            self.places.push((lpn, ppn));
            if !best.in_spare {
                self.versions.insert(lpn.0, best.version);
            }
        }
    }

    /// Everything must be at a place that holds data.
    pub fn check(&self, data: &DataPlaces<'_>) -> Result<(), FtlError> {
        match self.places.iter().find(|(_, ppn)| !data.has(*ppn)) {
            None => Ok(()),
            Some(&(lpn, ppn)) => Err(Damage::Place { lpn, ppn }.into()),
        }
    }

    /// Makes it the running drive's state. `clean` if nothing followed the checkpoint.
    pub fn restore(self, units: &mut Units, map: &mut Map, clean: bool) {
        let UnitsFound { places, versions, logs, chunks } = self;
        map.expect(chunks);
        map.rebuild(places.into_iter(), &versions);
        // until recovery's own checkpoint stands, the erase rule needs to know what was found whole
        if !clean {
            let found = |(generation, attempts)| units.logs.found(generation, attempts);
            guard!(RecoveryErases, logs.into_iter().for_each(found));
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::Nand;

    use super::*;
    use crate::reader::Reader;
    use crate::test_support::{GEOMETRY, TIMING};

    #[test]
    fn a_unit_at_a_place_without_data_is_damage() {
        let reader = Reader::new(Nand::in_memory(GEOMETRY, TIMING).unwrap(), 128, 0);
        let data = DataPlaces { reader: &reader, no_data: Vec::new() };
        let found = |places| UnitsFound { places, versions: HashMap::default(), logs: Vec::new(), chunks: 0 };
        found(Vec::new()).check(&data).unwrap();
        let (lpn, ppn) = (Lpn(3), Ppn(7));
        let checked = found(vec![(lpn, ppn)]).check(&data);
        assert!(matches!(checked, Err(FtlError::Damaged(Damage::Place { lpn: Lpn(3), ppn: Ppn(7) }))));
    }
}
