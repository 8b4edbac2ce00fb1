//! Commands that change the map and write no data: share, remap, trim, commit, abort.
//!
//! Each is one step: its records are on one journal page, or are tied together as a group.

use std::collections::BTreeSet;

use tantalum_nand::{Nanoseconds, Ppn};

use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::map::EndedClaim;
use crate::map::TxPage;
use crate::map::{Claim, IN_SPARE, Owner};
use crate::metadata::Record;
use crate::parts::Parts;
use crate::reservation::{Need, Reservation};
use crate::types::{Lpn, Seq, ShareRange, TxId};

/// Why a share or remap is refused. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ShareRefusal {
    /// An empty range.
    #[error("a range is empty: dst {dst}, src {src}")]
    Empty {
        /// The range's destination.
        dst: Lpn,
        /// The range's source.
        src: Lpn,
    },
    /// A unit occurs twice as a destination.
    #[error("unit {0} occurs twice as a destination")]
    Twice(Lpn),
    /// A unit is a destination and a source.
    #[error("unit {0} is both a destination and a source")]
    Overlap(Lpn),
    /// A source is not mapped.
    #[error("unit {0} is not mapped")]
    Unmapped(Lpn),
    /// More units than fit in one step.
    #[error("{units} units requested; one step takes at most {limit}")]
    TooMany {
        /// Units asked for.
        units: u64,
        /// The limit.
        limit: u64,
    },
    /// The table of shared units is full.
    #[error("{owners} owners of shared units requested; the drive keeps at most {limit}")]
    TableFull {
        /// Owners after the share.
        owners: u64,
        /// The limit.
        limit: u64,
    },
}

impl Parts {
    /// Maximum number of units that one share may map.
    pub fn share_limit(&self) -> u32 {
        // a remap takes one more record, for the sources
        self.records_per_page() as u32 - 1
    }

    /// Checks a share before anything is changed.
    pub fn check_share(&self, ranges: &[ShareRange]) -> Result<(), ShareRefusal> {
        let units: u64 = ranges.iter().map(|range| u64::from(range.units)).sum();
        let limit = u64::from(self.share_limit());
        if units > limit {
            return Err(ShareRefusal::TooMany { units, limit });
        }
        let owners = self.map.extra_owners() as u64 + units;
        let limit = u64::from(self.space.layout().extra_owners_limit);
        if owners > limit {
            return Err(ShareRefusal::TableFull { owners, limit });
        }
        let mut destinations = BTreeSet::new();
        for range in ranges {
            if range.units == 0 {
                return Err(ShareRefusal::Empty { dst: range.dst, src: range.src });
            }
            for (dst, _) in pairs(range) {
                if !destinations.insert(dst) {
                    return Err(ShareRefusal::Twice(dst));
                }
            }
        }
        for (_, src) in ranges.iter().flat_map(pairs) {
            if destinations.contains(&src) {
                return Err(ShareRefusal::Overlap(src));
            }
            if self.map.lookup(src).is_none() {
                return Err(ShareRefusal::Unmapped(src));
            }
        }
        Ok(())
    }

    /// Whether a share of `src` with `dst` needs no record: the hint of a whole run is the record.
    fn hint_proves_share(&mut self, dst: Lpn, src: Lpn) -> Option<Seq> {
        if !self.map.is_hinted(src) {
            return None;
        }
        let living = *self.tenants.units.logs.hint(src)?;
        // a newer page that claims the same home would win after a cut, although it was written before the share
        let is_newest = self.tenants.units.logs.newest_claim(dst) == Some(living.version)
            || canary::out(Guard::OlderPageComesHome);
        if living.hint.home != Some(dst) || !is_newest {
            return None;
        }
        self.tenants.units.logs.extend(living.hint.generation);
        self.tenants.units.logs.is_whole(&living.hint).then_some(living.version)
    }

    /// Maps `dst` to what `src` has, at a new version, and returns the records for that; no records if `dst` already
    /// has it.
    fn map_as_step(&mut self, room: &mut Reservation, dst: Lpn, src: Lpn, records: &mut Vec<Record>) {
        let ppn = self.map.lookup(src).expect("the source is mapped");
        if self.map.lookup(dst) == Some(ppn) {
            // it keeps its version, unless a log page claims it: that page would win after a cut
            if !self.tenants.units.logs.is_claimed(dst) || canary::out(Guard::SharedInPlaceStaysClaimed) {
                return;
            }
            self.map.unmap(dst);
        }
        let version = self.next_seq();
        self.map_to(room, dst, version, src, records);
        records.push(Record::Map { lpn: dst, version, step: version, ppn });
    }

    /// Maps `dst` to what `src` has. Adds the record that ends a claim, if this ends one.
    fn map_to(
        &mut self,
        room: &mut Reservation,
        dst: Lpn,
        version: Seq,
        src: Lpn,
        records: &mut Vec<Record>,
    ) {
        let ppn = self.map.lookup(src).expect("the source is mapped");
        records.extend(self.superseded(dst, version));
        self.map_shared(room, dst, version, ppn);
    }

    /// Whether a trim that is durable when it returns may find units unmapped by a step that is not durable yet.
    fn may_come_back(&self) -> bool {
        let is_recorded =
            self.metadata.nothing_waits() && self.metadata.steps_done_ns() <= self.nand.now_ns();
        self.has_plp() && !is_recorded
    }

    /// Unmaps units. Adds the records of the claims that this ends, and returns the record of the unmapping.
    fn unmap_range(&mut self, first: Lpn, units: u32, records: &mut Vec<Record>) -> Record {
        let version = self.next_seq();
        self.tenants.units.last_unmap = version;
        for lpn in (first.0..first.0 + units).map(Lpn) {
            if self.map.is_hinted(lpn) {
                records.extend(self.superseded(lpn, version));
            }
            self.map.unmap(lpn);
        }
        Record::Trim { lpn: first, units, version, step: version }
    }

    fn map_shared(&mut self, room: &mut Reservation, lpn: Lpn, version: Seq, ppn: Ppn) {
        room.take_owners(1);
        self.map.map_shared(lpn, version, ppn);
        self.metadata.gave_owner(ppn);
    }

    /// `lpn` takes `version`, which ends older claims to it. If it held a log page that claimed a home, the returned
    /// record ends that claim, because the page may be read again after a cut, on flash or through a checkpoint. The
    /// record belongs to the step or the program that gives `lpn` something else.
    pub(crate) fn superseded(&mut self, lpn: Lpn, version: Seq) -> Option<Record> {
        let ended = self.tenants.units.logs.superseded(&mut self.map, lpn, version)?;
        if canary::out(Guard::ClaimNotEnded) {
            return None;
        }
        let EndedClaim { home, version } = ended;
        Some(Record::ClaimEnded { home, version, step: self.next_seq() })
    }

    fn commit_pages(
        &mut self,
        room: &mut Reservation,
        tx: TxId,
        at_ns: Nanoseconds,
    ) -> Result<Vec<Lpn>, FtlError> {
        let pages = self.tenants.units.transactions.take(tx).expect("the transaction is open");
        self.counters.transactions_committed += 1;
        let step = self.next_seq();
        let mut records = Vec::with_capacity(pages.len());
        for (&lpn, page) in &pages {
            let version = self.map_committed(room, lpn, page, &mut records);
            records.push(Record::Map { lpn, version, step, ppn: page.ppn });
        }
        self.append_step(room, records, at_ns)?;
        Ok(pages.into_keys().collect())
    }

    /// Maps a unit of a transaction. Returns its version.
    fn map_committed(
        &mut self,
        room: &mut Reservation,
        lpn: Lpn,
        page: &TxPage,
        records: &mut Vec<Record>,
    ) -> Seq {
        // the page may be older than one that claims this unit as its home, and the commit is newer than both
        let is_claimed = self.tenants.units.logs.newest_claim(lpn).is_some_and(|claim| claim > page.version)
            && !canary::out(Guard::CommitBelowClaim);
        let told = !is_claimed && self.is_newest(lpn, page);
        let version = if told { page.version } else { self.next_seq() };
        records.extend(self.superseded(lpn, version));
        self.map.unclaim(page.ppn);
        if told {
            self.map.map_plain(lpn, page.ppn);
            self.metadata.gave_owner(page.ppn);
        } else {
            self.map_shared(room, lpn, version, page.ppn);
        }
        version
    }

    /// Where a logical page is, and how often that block has been erased: if both are the same later, so is the
    /// version.
    pub(crate) fn whereabouts(&self, lpn: Lpn) -> Option<(Ppn, u32)> {
        let ppn = self.map.lookup(lpn)?;
        Some((ppn, self.nand.erase_count(self.geometry.block_of_unit(ppn))))
    }

    /// Whether a page of a transaction is known to be newer than anything its logical page has or had. A page that has been
    /// copied since counts as unknown: then the commit takes a new version.
    fn is_newest(&self, lpn: Lpn, page: &TxPage) -> bool {
        let Some(ppn) = self.map.lookup(lpn) else {
            return self.tenants.units.last_unmap < page.version;
        };
        let claimed = match self.map.owner(ppn) {
            Owner::Claim(Claim::Owners(owners)) => {
                owners.iter().find(|owner| owner.0 == lpn).expect("the place is the page's").1
            }
            _ => IN_SPARE,
        };
        match claimed {
            IN_SPARE => page.over == self.whereabouts(lpn),
            version => version < page.version,
        }
    }

    /// Drops a transaction's pages.
    pub fn abort(&mut self, tx: TxId) {
        let pages = self.tenants.units.transactions.take(tx).expect("the transaction is open");
        for page in pages.values() {
            self.map.unclaim(page.ppn);
        }
    }
}

impl Ftl {
    /// Maps every dst to what its src maps to. `Ftl::check_share` has passed, and no src waits in a cache.
    pub fn share(&mut self, ranges: &[ShareRange], at_ns: Nanoseconds) -> Result<(), FtlError> {
        let units = ranges.iter().map(|range| range.units as usize).sum();
        self.step(&Need::share(units, self.claims_of(units)), at_ns, |parts, room| {
            let mut records = Vec::new();
            for (dst, src) in ranges.iter().flat_map(pairs) {
                parts.counters.units_shared += 1;
                match parts.hint_proves_share(dst, src) {
                    Some(version) => {
                        parts.counters.units_brought_home += 1;
                        parts.map_to(room, dst, version, src, &mut records);
                    }
                    None => parts.map_as_step(room, dst, src, &mut records),
                }
            }
            parts.append_step(room, records, at_ns)
        })
    }

    /// Moves the mappings of `src..` to `dst..`.
    pub fn remap(&mut self, src: Lpn, dst: Lpn, units: u32, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let range = ShareRange { dst, src, units };
        let need = Need::remap(units as usize, self.claims_of(units as usize));
        self.step(&need, at_ns, |parts, room| {
            let mut records = Vec::new();
            for (dst, src) in pairs(&range) {
                parts.map_as_step(room, dst, src, &mut records);
            }
            parts.counters.units_remapped += u64::from(units);
            let trim = parts.unmap_range(src, units, &mut records);
            records.push(trim);
            parts.append_step(room, records, at_ns)
        })
    }

    /// Unmaps units, in several steps if ending claims takes more records than fit on a journal page.
    pub fn trim(&mut self, lpn: Lpn, units: u32, at_ns: Nanoseconds) -> Result<(), FtlError> {
        let mut range = (lpn.0..lpn.0 + units).map(Lpn);
        let is_news = range.any(|lpn| self.map.lookup(lpn).is_some() || self.map.is_hinted(lpn));
        if !is_news && (!self.may_come_back() || canary::out(Guard::IdleTrimDoesNotWait)) {
            return Ok(());
        }
        let most = self.records_per_page() as u32 - 1;
        let at_once = if self.tenants.units.logs.count() as u32 > most { most } else { units };
        for first in (lpn.0..lpn.0 + units).step_by(at_once as usize) {
            let (first, units) = (Lpn(first), at_once.min(lpn.0 + units - first));
            let need = Need::trim(self.claims_of(units as usize));
            let trimmed = self.step(&need, at_ns, |parts, room| {
                let mut records = Vec::new();
                let trim = parts.unmap_range(first, units, &mut records);
                records.push(trim);
                parts.append_step(room, records, at_ns)
            });
            // the steps before this one are done
            trimmed.map_err(|error| if first == lpn { error } else { error.unfinished() })?;
        }
        Ok(())
    }

    // -- transactions ---------------------------------------------------------------------------------------------

    /// Maps a transaction's pages. The records are in the journal buffer when this returns.
    pub fn commit(&mut self, tx: TxId, at_ns: Nanoseconds) -> Result<Vec<Lpn>, FtlError> {
        let pages = self.tenants.units.transactions.lpns(tx).count();
        let need = Need::commit(pages, self.claims_of(pages));
        self.step(&need, at_ns, |parts, room| parts.commit_pages(room, tx, at_ns))
    }
}

/// The units of a range: (dst, src).
fn pairs(range: &ShareRange) -> impl Iterator<Item = (Lpn, Lpn)> + use<> {
    let (dst, src) = (range.dst.0, range.src.0);
    (0..range.units).map(move |unit| (Lpn(dst + unit), Lpn(src + unit)))
}

#[cfg(test)]
mod tests {
    use tantalum_nand::{FailingStep, Geometry, Nand, StepFault, UNIT_BYTES};

    use super::*;
    use crate::host_unit::HostUnit;
    use crate::space::FtlConfig;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};
    use crate::types::Hint;

    const LPN: Lpn = Lpn(3);

    fn unit(ftl: &mut Ftl, lpn: Lpn) -> HostUnit {
        let slot = ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap();
        HostUnit { slot, lpn, version: ftl.next_seq(), metadata: [0; 24], hint: None }
    }

    fn write(ftl: &mut Ftl) {
        let unit = unit(ftl, LPN);
        ftl.write_page(&[unit], 0).unwrap();
    }

    /// A drive with a unit, and a transaction that has rewritten it.
    fn with_transaction() -> (Ftl, TxId) {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        write(&mut ftl);
        let (tx, _) = ftl.begin_transaction(0).unwrap();
        let slot = ftl.nand_mut().stage(&[2; UNIT_BYTES]).unwrap();
        ftl.write_transaction_page(&[(tx, LPN, slot)], 0).unwrap();
        (ftl, tx)
    }

    fn is_newest(ftl: &Ftl, tx: TxId) -> bool {
        ftl.is_newest(LPN, &ftl.transactions().page(tx, LPN).unwrap())
    }

    #[test]
    fn a_transactions_page_is_newest_while_nothing_happened_to_its_unit() {
        let (mut ftl, tx) = with_transaction();
        assert!(is_newest(&ftl, tx));
        ftl.share(&[ShareRange { dst: Lpn(9), src: LPN, units: 1 }], 0).unwrap();
        assert!(is_newest(&ftl, tx), "it has another owner, and is where it was");
        write(&mut ftl);
        assert!(!is_newest(&ftl, tx));
    }

    #[test]
    fn a_unit_that_was_copied_or_shared_over_is_not_known_to_be_older() {
        let (mut ftl, tx) = with_transaction();
        let block = ftl.geometry.block_of_unit(ftl.map.lookup(LPN).unwrap());
        ftl.collect_block(block, 0).unwrap();
        assert!(!is_newest(&ftl, tx));
        let (mut ftl, tx) = with_transaction();
        ftl.remap(LPN, Lpn(9), 1, 0).unwrap();
        assert!(!is_newest(&ftl, tx), "it was unmapped");
        ftl.share(&[ShareRange { dst: LPN, src: Lpn(9), units: 1 }], 0).unwrap();
        assert!(!is_newest(&ftl, tx), "it is where it was, at another version");
    }

    /// The unit was written elsewhere, its block erased, and the unit written to the same place again.
    #[test]
    fn the_same_place_after_an_erase_is_another() {
        let (mut ftl, tx) = with_transaction();
        let mut page = ftl.transactions().page(tx, LPN).unwrap();
        let (ppn, erases) = page.over.unwrap();
        assert_eq!(ftl.map.lookup(LPN), Some(ppn));
        page.over = Some((ppn, erases + 1));
        assert!(!ftl.is_newest(LPN, &page));
        ftl.abort(tx);
    }

    /// Pages of a log, each of which claims a home.
    fn write_log(ftl: &mut Ftl, pages: u32) {
        let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
        for slot in 1..=pages {
            let home = Some(Lpn(1000));
            let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end: false, home };
            let unit = HostUnit { hint: Some(hint), ..unit(ftl, Lpn(slot)) };
            ftl.write_page(&[unit], 0).unwrap();
            ftl.accept_hint(&hint);
        }
    }

    /// A trim takes several steps if ending claims may take more than a journal page. The last one ends where the trim does.
    #[test]
    fn a_trim_in_several_steps_ends_where_it_was_told() {
        let geometry = Geometry { blocks_per_plane: 256, page_bytes: 4096, ..GEOMETRY };
        let config = FtlConfig { logical_units: 1024, ..CONFIG };
        let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
        let most = ftl.records_per_page() as u32;
        write_log(&mut ftl, most);
        let (first, units) = (Lpn(400), most + 10);
        let beyond = Lpn(first.0 + units);
        for lpn in [Lpn(first.0 - 1), first, Lpn(beyond.0 - 1), beyond] {
            let unit = unit(&mut ftl, lpn);
            ftl.write_page(&[unit], 0).unwrap();
        }
        ftl.trim(first, units, 0).unwrap();
        let mapped =
            [first.0 - 1, first.0, beyond.0 - 1, beyond.0].map(|lpn| ftl.map.lookup(Lpn(lpn)).is_some());
        assert_eq!(mapped, [true, false, false, true]);
    }

    /// Otherwise the host would be told that nothing has changed, and the drive would go on. No test let a later step fail.
    #[test]
    fn a_trim_whose_second_step_fails_is_unfinished() {
        let geometry = Geometry { blocks_per_plane: 256, page_bytes: 4096, ..GEOMETRY };
        let config = FtlConfig { logical_units: 1024, ..CONFIG };
        let mut ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
        let most = ftl.records_per_page() as u32;
        write_log(&mut ftl, most);
        let (first, units) = (Lpn(400), most + 10);
        let unit = unit(&mut ftl, first);
        ftl.write_page(&[unit], 0).unwrap();
        let (mut refused, mut unfinished) = (0, 0);
        for after in 0.. {
            let mut ftl = ftl.try_clone().unwrap();
            ftl.nand.fail_step(Some(StepFault { step: FailingStep::Room, after, lasts: true }));
            let Err(error) = ftl.trim(first, units, 0) else { break };
            let is_mapped = ftl.map.lookup(first).is_some();
            assert_eq!(error.changed_nothing(), is_mapped, "step {after}: {error}");
            (refused, unfinished) = (refused + u32::from(is_mapped), unfinished + u32::from(!is_mapped));
        }
        assert!(refused > 0 && unfinished > 0, "{refused} were refused, {unfinished} unfinished");
    }

    #[test]
    fn the_table_of_shared_units_takes_as_many_owners_as_are_planned() {
        let geometry = Geometry { blocks_per_plane: 256, ..GEOMETRY };
        let config = FtlConfig { logical_units: 1024, ..CONFIG };
        let ftl = Ftl::format(Nand::in_memory(geometry, TIMING).unwrap(), config).unwrap();
        let limit = ftl.layout().extra_owners_limit;
        let check = |units| ftl.check_share(&[ShareRange { dst: Lpn(500), src: LPN, units }]);
        assert_eq!(check(limit), Err(ShareRefusal::Unmapped(LPN)), "that many fit");
        let (owners, limit) = (u64::from(limit) + 1, limit.into());
        assert_eq!(check(owners as u32), Err(ShareRefusal::TableFull { owners, limit }));
        let (units, limit) = (u64::from(ftl.share_limit()) + 1, ftl.share_limit().into());
        assert_eq!(check(units as u32), Err(ShareRefusal::TooMany { units, limit }));
    }

    /// A remap unmapped the unit and is still in flight with what it names: a cut loses all of it, and the unit comes back.
    /// So a trim of the unit that is durable at once must be recorded, although it finds nothing.
    #[test]
    fn a_trim_of_what_a_step_under_way_has_unmapped_is_recorded() {
        let config = FtlConfig { dump_units: 16, ..CONFIG };
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), config).unwrap();
        let now_ns = ftl.nand.programs_done_ns();
        ftl.nand.advance(now_ns);
        let trims = |ftl: &mut Ftl| {
            ftl.trim(LPN, 1, now_ns).unwrap();
            ftl.metadata.waiting().len()
        };
        assert_eq!(trims(&mut ftl), 0, "nothing is under way");
        let unit = unit(&mut ftl, LPN);
        ftl.write_page(&[unit], now_ns).unwrap();
        ftl.remap(LPN, Lpn(9), 1, now_ns).unwrap();
        assert_eq!(trims(&mut ftl), 2 + 1, "the remap waits");
        let done_ns = ftl.flush_journal(now_ns).unwrap();
        assert!(done_ns > now_ns);
        assert_eq!(trims(&mut ftl), 1, "its records are on their way");
        let done_ns = ftl.flush_journal(now_ns).unwrap();
        ftl.nand.advance(done_ns);
        assert_eq!(trims(&mut ftl), 0, "it is on flash");
    }

    /// One for each unit, and one for each claim that a log page may lose through it.
    #[test]
    fn a_share_takes_a_record_for_each_unit_and_for_each_page_of_a_log_that_it_may_replace() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let records = |ftl: &Ftl| Need::share(5, ftl.claims_of(5)).records;
        assert_eq!(records(&ftl), 5);
        let (generation, _) = ftl.begin_log(0).unwrap().expect("no log is open");
        for slot in 1..=7 {
            let home = Some(Lpn(20));
            let hint = Hint { generation, attempt: 0, start: 1, first: 1, slot, end: false, home };
            let unit = HostUnit { hint: Some(hint), ..unit(&mut ftl, Lpn(100 + slot)) };
            ftl.write_page(&[unit], 0).unwrap();
            ftl.accept_hint(&hint);
            assert_eq!(records(&ftl), 5 + slot.min(5) as usize);
        }
    }
}
