//! An atomic batch on its way to flash: units of blocks, records, or both, all or nothing.
//!
//! A batch that fits on one page needs no mark, because a page is atomic (M2). The members of a larger one carry its id,
//! their own number and the number of members, whatever they contain, and recovery counts them together (`fold`).
//! Members have no owner until all of them are programmed, so room is made beforehand, and no garbage is collected
//! meanwhile.

use std::ops::Range;

use tantalum_canaries::guard;
use tantalum_nand::{Nanoseconds, Ppn, Source};

use super::allocate::Allocator;
use crate::batches::Marks;
use crate::error::FtlError;
use crate::host_unit::{HostUnit, target_of};
use crate::page_image::PageImage;
use crate::reservation::Reservation;
use crate::space::Target;
use crate::spare::{Kind, Mark, Spare};
use crate::tenants::records::{KvRecord, Plan, ProgrammedUnits};
use crate::types::{Numbers, Seq};

/// A batch on its way to flash. Its members have no owner yet.
pub(super) struct ProgrammedBatch {
    /// Its number, which is the version of its records.
    pub id: Seq,
    /// The version of each unit of blocks.
    pub versions: Vec<Seq>,
    /// The place of each unit of blocks.
    pub places: Vec<Ppn>,
    pub records: ProgrammedUnits,
    /// When all of it is on flash.
    pub done_ns: Nanoseconds,
    /// For the records of claims that its units end.
    pub room: Reservation,
}

impl ProgrammedBatch {
    /// Nothing of a batch with this many units of blocks.
    pub fn new(
        units: usize,
        numbers: &mut Numbers,
        room: Reservation,
        at_ns: Nanoseconds,
    ) -> ProgrammedBatch {
        ProgrammedBatch {
            id: numbers.draw(),
            versions: Vec::with_capacity(units),
            places: Vec::with_capacity(units),
            records: ProgrammedUnits::default(),
            done_ns: at_ns,
            room,
        }
    }

    /// Draws the versions of those units of blocks that have none yet.
    pub fn draw_versions(&mut self, units: &[HostUnit], numbers: &mut Numbers) {
        let version = |unit: &HostUnit| if unit.version == Seq(0) { numbers.draw() } else { unit.version };
        self.versions.extend(units.iter().map(version));
    }
}

impl Allocator {
    /// The marks of the units of blocks, and of those of records.
    pub(super) fn marks(
        &mut self,
        id: Seq,
        units: usize,
        record_units: usize,
        pages: usize,
    ) -> (Marks, Marks) {
        let (units, records) = (units as u32, record_units as u32);
        // a mark on a single page of records tells a dump what was acknowledged
        let are_needed = pages > 1 || records > 0 && self.has_plp();
        let marks = Marks { id, first: 0, count: units + records, are_needed };
        guard!(BatchKindsApart(marks, units, self.next_seq()), (marks, Marks { first: units, ..marks }))
    }

    /// Programs all members. Garbage collection would take those on flash for garbage, so none is collected. What fails once all
    /// are on flash leaves the batch unfinished: recovery may find it whole.
    pub(super) fn program_members(
        &mut self,
        units: &[HostUnit],
        (records, plan): (&[KvRecord<'_>], &Plan),
        (unit_marks, record_marks): (Marks, Marks),
        batch: &mut ProgrammedBatch,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        self.program_units(units, unit_marks, batch, at_ns)?;
        self.program_records(records, plan, record_marks, batch, at_ns)?;
        // erasing blocks for the batch may have used up the journal's pages
        match batch.room.records() {
            0 => Ok(()),
            records => self.open_journal_blocks(records, at_ns).map_err(FtlError::unfinished),
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
                (spare.metadata, spare.handle) = (unit.metadata, unit.handle);
                spare.mark = marks.of(index).map_or(Mark::Plain, Mark::Batch);
                page.push(Source::Staged(unit.slot), spare.encode());
            }
            let (place, done_ns) =
                self.program_reserved(&mut batch.room, target_of(units), &page, step, at_ns)?;
            self.count_host_units(chunk);
            batch.done_ns = batch.done_ns.max(done_ns);
            batch.places.extend((0..chunk.len() as u32).map(|unit| self.geometry.unit(place, unit)));
        }
        Ok(())
    }

    /// Programs the units that records are packed into. The records have no owner yet.
    fn program_records(
        &mut self,
        records: &[KvRecord<'_>],
        plan: &Plan,
        marks: Marks,
        batch: &mut ProgrammedBatch,
        at_ns: Nanoseconds,
    ) -> Result<(), FtlError> {
        let mut pieces = plan.by_unit();
        for (target, units) in plan.pages(self.geometry.units_per_page() as usize) {
            let (step, count) = (self.next_seq(), units.len() as u32);
            let version = (batch.id, step, marks);
            let page = batch.records.stage(units, records, &mut pieces, version, &mut self.nand)?;
            let issued = self.program_reserved(&mut batch.room, target, &page, step, at_ns);
            let issued = issued.inspect_err(|error| page.give_up_after(&mut self.nand, error));
            let (place, done_ns) = issued?;
            batch.records.programmed((0..count).map(|unit| self.geometry.unit(place, unit)), done_ns);
        }
        debug_assert_eq!(batch.records.count(), plan.targets.len(), "units of records are without a place");
        Ok(())
    }
}

/// The number of pages of each stream. Units of blocks, for `target`, share the host's with records of namespaces that have no
/// logs of their own, unless a handle places them elsewhere.
pub(super) fn pages_by_stream(
    target: Target,
    unit_pages: usize,
    record_pages: &[(Target, Range<usize>)],
) -> Vec<(Target, u32)> {
    let of_units = std::iter::repeat_n(target, unit_pages);
    let mut pages: Vec<(Target, u32)> = Vec::with_capacity(2);
    for target in of_units.chain(record_pages.iter().map(|page| page.0)) {
        match pages.iter_mut().find(|(other, _)| *other == target) {
            Some((_, count)) => *count += 1,
            None => pages.push((target, 1)),
        }
    }
    pages
}
