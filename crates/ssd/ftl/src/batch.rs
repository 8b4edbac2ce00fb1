//! Writing an atomic batch: units of blocks, records, or both, all or nothing.
//!
//! A batch that fits on one page needs no mark, because a page is atomic (M2). The members of a larger one carry its id,
//! their own number and the number of members, whatever they contain, and recovery counts them together (`fold`).
//! Members have no owner until all of them are programmed, so room is made beforehand, and no garbage is collected
//! meanwhile.

use std::ops::Range;

use tantalum_nand::{NandError, Nanoseconds, Ppn, Source};

use crate::allocate::Allocator;
use crate::batch_marks::Marks;
use crate::canary::{self, Guard};
use crate::error::FtlError;
use crate::ftl::Ftl;
use crate::host_unit::HostUnit;
use crate::page_image::PageImage;
use crate::parts::Parts;
use crate::reservation::{Need, Reservation};
use crate::space::Target;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::records::{KvRecord, Plan, ProgrammedUnits};
use crate::types::{Lpn, Seq};

/// A batch on its way to flash. Its members have no owner yet.
pub(crate) struct ProgrammedBatch {
    /// Its number, which is the version of its records.
    pub id: Seq,
    /// The version of each unit of blocks.
    versions: Vec<Seq>,
    /// The place of each unit of blocks.
    places: Vec<Ppn>,
    pub records: ProgrammedUnits,
    /// When all of it is on flash.
    pub done_ns: Nanoseconds,
    /// For the records of claims that its units end.
    room: Reservation,
}

impl Parts {
    /// The marks of the units of blocks, and of those of records.
    fn marks(&mut self, id: Seq, units: usize, record_units: usize, pages: usize) -> (Marks, Marks) {
        let (units, records) = (units as u32, record_units as u32);
        // a mark on a single page of records tells a dump what was acknowledged
        let are_needed = pages > 1 || records > 0 && self.has_plp();
        let marks = Marks { id, first: 0, count: units + records, are_needed };
        if canary::out(Guard::BatchKindsApart) {
            let other = self.next_seq();
            return (Marks { count: units, ..marks }, Marks { id: other, count: records, ..marks });
        }
        (marks, Marks { first: units, ..marks })
    }

    /// Releases buffers that did not reach flash. Those in flight when power failed belong to the medium.
    fn give_back(&mut self, units: &[HostUnit], error: &FtlError) {
        if !matches!(error, FtlError::Nand(NandError::PowerLost)) {
            units.iter().for_each(|unit| self.nand.release(unit.slot));
        }
    }
}

impl Allocator {
    /// Programs all members. Garbage collection would take those on flash for garbage, so none is collected.
    fn program_members(
        &mut self,
        units: &[HostUnit],
        (records, plan): (&[KvRecord<'_>], &Plan),
        (unit_marks, record_marks): (Marks, Marks),
        batch: &mut ProgrammedBatch,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.program_units(units, unit_marks, batch, at_ns)?;
        let version = (batch.id, record_marks);
        batch.records = self.program_records(&mut batch.room, records, plan, version, at_ns)?;
        // erasing blocks for the batch may have used up the journal's pages
        match batch.room.records() {
            0 => Ok(()),
            records => self.open_journal_blocks(records, at_ns),
        }
    }

    /// Programs the units of blocks.
    fn program_units(
        &mut self,
        units: &[HostUnit],
        marks: Marks,
        batch: &mut ProgrammedBatch,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let per_page = self.geometry.units_per_page() as usize;
        for chunk in units.chunks(per_page) {
            let (step, first) = (self.next_seq(), batch.places.len());
            let mut page = PageImage::new();
            page.marked = marks.are_needed;
            for (index, unit) in (first..).zip(chunk) {
                let mut spare = Spare::with_owner(Kind::Data, step, unit.lpn, batch.versions[index]);
                spare.metadata = unit.metadata;
                spare.mark = marks.of(index).map_or(Mark::Plain, Mark::Batch);
                page.push(Source::Staged(unit.slot), spare.encode());
            }
            let (place, done_ns) =
                self.program_reserved(&mut batch.room, Target::Host, &page, step, at_ns)?;
            self.counters.flash_units.host += chunk.len() as u64;
            batch.done_ns = batch.done_ns.max(done_ns);
            batch.places.extend((0..chunk.len() as u32).map(|unit| self.geometry.unit(place, unit)));
        }
        Ok(())
    }
}

impl Ftl {
    /// Ensures room for a batch before anything is changed: for units that are not mapped yet, and for records. Returns
    /// the records that it needs (a missing key need not be deleted), and when all of this is known.
    pub fn admit_batch<'a>(
        &mut self,
        lpns: impl Iterator<Item = Lpn>,
        records: &[KvRecord<'a>],
        waiting: usize,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), FtlError> {
        if records.is_empty() {
            return Ok((Vec::new(), self.admit_units(lpns, waiting, at_ns)?));
        }
        let (records, found_ns) = self.needed_records(records, at_ns)?;
        let (chunks, entries) = self.plan_of(&records).room(&records);
        // both at once: otherwise room that was granted and not yet used would count as free again
        let chunks = chunks + self.chunks_of_new(lpns);
        let ready_ns = self.admit_records(chunks, entries, waiting, at_ns)?;
        Ok((records, found_ns.max(ready_ns)))
    }

    /// Writes units, and puts and deletes records, so that after a cut all of it is done or nothing.
    /// [`Ftl::admit_batch`] has passed. Returns when everything is on flash; before that, a capacitor protects none of
    /// it.
    ///
    /// The buffers no longer belong to the caller, even if this fails.
    pub fn write_batch(
        &mut self,
        units: &[HostUnit],
        records: &[KvRecord<'_>],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, FtlError> {
        let plan = self.plan_of(records);
        if !canary::out(Guard::WaitingUnderBatch)
            && let Err(error) = self.settle_waiting(records, at_ns)
        {
            self.give_back(units, &error);
            return Err(error);
        }
        let batch = self.program_batch(units, records, &plan, at_ns)?;
        let mut done_ns = batch.done_ns;
        let ProgrammedBatch { versions, places, records: programmed, mut room, .. } = batch;
        if !records.is_empty() {
            self.tenants.records.is_durable_at(done_ns);
            // before the units: looking for what is replaced may fail
            let named = self.name_programmed(records, programmed, at_ns);
            done_ns = done_ns.max(named.map_err(FtlError::unfinished)?);
            records.iter().for_each(|record| self.count_put(record));
            self.counters.batches_with_records += u64::from(!units.is_empty());
        }
        debug_assert_eq!(places.len(), units.len(), "units of a batch are without a place");
        let mut ended = Vec::new();
        for (unit, (version, ppn)) in units.iter().zip(versions.into_iter().zip(places)) {
            ended.extend(self.superseded(unit.lpn, version));
            self.map.map_plain(unit.lpn, ppn);
        }
        // a dump does not save a batch in flight, nor what ended with it
        let ready_ns = self.nand.host_programs_done_ns();
        self.append_step_ready(&mut room, ended, ready_ns, at_ns).map_err(FtlError::unfinished)?;
        match canary::out(Guard::BatchDoneInFlight) {
            true => Ok(at_ns),
            false => Ok(done_ns),
        }
    }

    /// Programs the pages of a batch. The buffers no longer belong to the caller, even if this fails.
    pub(crate) fn program_batch(
        &mut self,
        units: &[HostUnit],
        records: &[KvRecord<'_>],
        plan: &Plan,
        at_ns: Nanoseconds,
    ) -> Result<ProgrammedBatch, FtlError> {
        let per_page = self.geometry.units_per_page() as usize;
        let (unit_pages, record_pages) = (units.len().div_ceil(per_page), plan.pages(per_page));
        let pages = pages_by_stream(unit_pages, &record_pages);
        let room = self.reserve(&Need::batch(&pages, self.claims_of(units.len())), at_ns);
        let room = room.inspect_err(|error| self.give_back(units, error))?;
        let (pages, id) = (unit_pages + record_pages.len(), self.next_seq());
        let marks = self.marks(id, units.len(), plan.targets.len(), pages);
        let mut batch = ProgrammedBatch {
            id,
            versions: units.iter().map(|_| self.next_seq()).collect(),
            places: Vec::with_capacity(units.len()),
            records: ProgrammedUnits::default(),
            done_ns: at_ns,
            room,
        };
        let programmed = self.program_members(units, (records, plan), marks, &mut batch, at_ns);
        if let Err(error) = programmed {
            self.batches.abandon(id);
            self.give_back(&units[batch.places.len()..], &error);
            return Err(error);
        }
        batch.done_ns = batch.records.pages.iter().fold(batch.done_ns, |done_ns, page| done_ns.max(page.1));
        if pages > 1 {
            self.batches.programmed(batch.done_ns);
        }
        Ok(batch)
    }
}

/// The number of pages of each stream. Units of blocks share the host's with records of namespaces that have no logs of
/// their own.
fn pages_by_stream(unit_pages: usize, record_pages: &[(Target, Range<usize>)]) -> Vec<(Target, u32)> {
    let of_units = std::iter::repeat_n(Target::Host, unit_pages);
    let mut pages: Vec<(Target, u32)> = Vec::with_capacity(2);
    for target in of_units.chain(record_pages.iter().map(|page| page.0)) {
        match pages.iter_mut().find(|(other, _)| *other == target) {
            Some((_, count)) => *count += 1,
            None => pages.push((target, 1)),
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tantalum_nand::{Faults, Nand, Slot, UNIT_BYTES};

    use super::*;
    use crate::key::{Key, NamespaceAttributes};
    use crate::space::FtlConfig;
    use crate::test_support::{CONFIG, GEOMETRY, TIMING};

    fn stage(ftl: &mut Ftl) -> Vec<Slot> {
        (0..6).map(|_| ftl.nand_mut().stage(&[1; UNIT_BYTES]).unwrap()).collect()
    }

    /// Six units from `first` on.
    fn units(ftl: &mut Ftl, first: u32) -> Vec<HostUnit> {
        let unit =
            |(lpn, slot)| HostUnit { slot, lpn: Lpn(lpn), version: Seq(0), metadata: [0; 24], hint: None };
        (first..).zip(stage(ftl)).map(unit).collect()
    }

    /// A drive that refused atomic writes for lack of blocks kept their buffers forever.
    #[test]
    fn a_refused_batch_keeps_no_buffer() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        ftl.nand_mut().set_faults(Faults { program_failure_ppm: 1_000_000, ..Faults::default() });
        for _ in 0..3 {
            let units = units(&mut ftl, 0);
            let slots: Vec<Slot> = units.iter().map(|unit| unit.slot).collect();
            assert!(matches!(ftl.write_batch(&units, &[], 0), Err(FtlError::CapacityExceeded)));
            let again = stage(&mut ftl);
            assert_eq!(again.iter().collect::<HashSet<_>>(), slots.iter().collect());
            again.into_iter().for_each(|slot| ftl.nand_mut().release(slot));
        }
    }

    /// Counted separately, the pages of each kind seemed to fit in the open blocks.
    #[test]
    fn pages_of_one_stream_are_counted_together() {
        let own = Target::Logs(crate::key::NamespaceId(1));
        let record_pages = [(Target::Host, 0..2), (Target::Host, 2..3), (own, 3..4)];
        assert_eq!(pages_by_stream(2, &record_pages), [(Target::Host, 4), (own, 1)]);
        assert_eq!(pages_by_stream(0, &record_pages[2..]), [(own, 1)]);
        assert_eq!(pages_by_stream(1, &[]), [(Target::Host, 1)]);
    }

    /// Members of several pages are counted by recovery. A single page needs no mark, unless a dump must know whether its
    /// records were acknowledged.
    #[test]
    fn members_are_marked_if_they_are_on_several_pages_or_may_be_dumped() {
        let format = |config| Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), config).unwrap();
        let marks = |ftl: &mut Ftl, units, records, pages| {
            let (of_units, of_records) = ftl.marks(Seq(9), units, records, pages);
            assert_eq!(of_units.are_needed, of_records.are_needed);
            [of_units, of_records].map(|marks| marks.of(1).map(|mark| (mark.id.0, mark.index, mark.count)))
        };
        let mut ftl = format(CONFIG);
        assert_eq!(marks(&mut ftl, 2, 0, 1), [None, None]);
        assert_eq!(marks(&mut ftl, 0, 1, 1), [None, None]);
        assert_eq!(marks(&mut ftl, 3, 2, 3), [Some((9, 1, 5)), Some((9, 4, 5))]);
        let mut ftl = format(FtlConfig { dump_units: 16, protected_units: 8, ..CONFIG });
        assert_eq!(marks(&mut ftl, 2, 0, 1), [None, None]);
        assert_eq!(marks(&mut ftl, 0, 1, 1), [Some((9, 1, 1)), Some((9, 1, 1))]);
        assert_eq!(marks(&mut ftl, 3, 2, 3), [Some((9, 1, 5)), Some((9, 4, 5))]);
    }

    /// Before a block with members is erased, the journal must say that their batch was whole.
    #[test]
    fn blocks_with_members_of_several_pages_are_marked() {
        for (count, is_marked) in [(2, false), (6, true)] {
            let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
            let mut units = units(&mut ftl, 0);
            units.drain(count..).for_each(|unit| ftl.nand_mut().release(unit.slot));
            ftl.write_batch(&units, &[], 0).unwrap();
            for unit in &units {
                let block = GEOMETRY.block_of_unit(ftl.map().lookup(unit.lpn).unwrap());
                assert_eq!(ftl.space.is_marked(block), is_marked, "{count} members");
            }
        }
    }

    /// Counted separately, the units and the records of a batch each fit in what is left.
    #[test]
    fn units_and_records_of_a_batch_must_fit_together() {
        let mut ftl = Ftl::format(Nand::in_memory(GEOMETRY, TIMING).unwrap(), CONFIG).unwrap();
        let namespace = ftl.create_namespace(NamespaceAttributes::default(), 0).unwrap();
        for first in (0..114).step_by(6) {
            let units = units(&mut ftl, first);
            ftl.write_batch(&units, &[], 0).unwrap();
        }
        let value = [1; 4000];
        let keys: Vec<Key> = (0..10_u32).map(|number| Key::new(&number.to_le_bytes()).unwrap()).collect();
        let record = |key: &Key| KvRecord { namespace, key: *key, value: Some(&value) };
        let records: Vec<KvRecord<'_>> = keys.iter().map(record).collect();
        // 14 units are left, less what the entries take
        let mut fits = |units: u32, records: &[KvRecord<'_>]| {
            ftl.tenants.budget = 0;
            ftl.admit_batch((114..114 + units).map(Lpn), records, 0, 0).is_ok()
        };
        assert!(fits(10, &records[..1]) && fits(1, &records));
        assert!(!fits(10, &records) && !fits(10, &records[..5]));
    }
}
