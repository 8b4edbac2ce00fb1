//! Commands that are one step of the map: trim, share and remap.

use tantalum_canaries::guard;
use tantalum_ftl::{Lpn, ShareRange};
use tantalum_nand::Nanoseconds;

use super::Engine;
use crate::status::Status;

impl Engine {
    pub(super) fn trim(&mut self, lpn: Lpn, units: u32, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        self.settle_log_pages((lpn.0..lpn.0 + units).map(Lpn), at_ns)?;
        self.settle_groups((lpn.0..lpn.0 + units).map(Lpn), at_ns)?;
        self.ftl.trim(lpn, units, at_ns)?;
        // only now: the waiting unit is dropped once the record that replaces it exists (hazard 1)
        if self.cache.len() > 0 {
            for lpn in (lpn.0..lpn.0 + units).map(Lpn) {
                self.forget_cached(lpn)?;
            }
        }
        Ok(at_ns)
    }

    /// A step replaces these units, and may be lost until it is complete. Their data in protected DRAM were
    /// acknowledged as durable, so these go to flash first.
    pub(super) fn settle_replaced(
        &mut self,
        mut lpns: impl Iterator<Item = Lpn>,
        at_ns: Nanoseconds,
    ) -> Result<(), Status> {
        if !self.ftl.has_plp() {
            return self.settle_groups(lpns, at_ns);
        }
        let must_settle = |lpn| self.cache.get(lpn).is_some() || self.is_log_page(lpn);
        if guard!(ReplacedNotSettled, lpns.any(must_settle)) {
            self.drain(at_ns)?;
        }
        Ok(())
    }

    /// Something else than a write to the cache replaces these units. Of a group that waits, what it does not replace would
    /// reach flash without it, or it without the others: so the group goes to flash first.
    pub(super) fn settle_groups(
        &mut self,
        mut lpns: impl Iterator<Item = Lpn>,
        at_ns: Nanoseconds,
    ) -> Result<(), Status> {
        let has_part = self.cache.has_groups() && lpns.any(|lpn| self.cache.is_grouped(lpn));
        if guard!(PartOfGroupReplaced, has_part) {
            self.drain(at_ns)?;
        }
        Ok(())
    }

    /// Pages of logs that wait in protected DRAM are durable, and what follows them in their logs comes home because of them.
    /// So the drive must know how far a log is whole before something takes the place of one of its pages: what waits goes
    /// to flash.
    pub(super) fn settle_log_pages(
        &mut self,
        mut lpns: impl Iterator<Item = Lpn>,
        at_ns: Nanoseconds,
    ) -> Result<(), Status> {
        if self.cache.has_hinted() && self.ftl.has_plp() && lpns.any(|lpn| self.is_log_page(lpn)) {
            self.drain(at_ns)?;
        }
        Ok(())
    }

    /// Whether a unit is a page of a log that waits, or one on flash whose log has pages that wait.
    fn is_log_page(&self, lpn: Lpn) -> bool {
        let waits = || self.cache.get(lpn).is_some_and(|unit| unit.hint.is_some());
        self.cache.has_hinted() && (waits() || self.ftl.logs().hint(lpn).is_some())
    }

    /// Sends cached sources to flash, so that there is a place to share.
    fn settle_sources(&mut self, ranges: &[ShareRange], at_ns: Nanoseconds) -> Result<(), Status> {
        self.settle_replaced(ranges.iter().flat_map(destinations), at_ns)?;
        let cached = ranges.iter().any(|range| {
            (range.src.0..range.src.0 + range.units).any(|lpn| self.cache.get(Lpn(lpn)).is_some())
        });
        // sharing a log page includes the pages before it: a reader of the log finds them as well
        if cached || guard!(PagesBeforeWait, self.cache.has_hinted()) {
            self.drain(at_ns)?;
        }
        Ok(())
    }

    pub(super) fn share(
        &mut self,
        ranges: &[ShareRange],
        deferred: bool,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        self.settle_sources(ranges, at_ns)?;
        let ftl = &mut self.ftl;
        ftl.check_share(ranges).map_err(Status::from)?;
        let at_ns = self.admit(ranges.iter().flat_map(destinations), at_ns)?;
        self.ftl.share(ranges, at_ns)?;
        for lpn in ranges.iter().flat_map(destinations) {
            self.forget_cached(lpn)?;
        }
        // a flush of protected DRAM waits for nothing, so there a share is always durable when it returns
        if deferred && !self.ftl.has_plp() { Ok(at_ns) } else { self.make_change_durable(at_ns) }
    }

    pub(super) fn remap(
        &mut self,
        src: Lpn,
        dst: Lpn,
        units: u32,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let ranges = [ShareRange { dst, src, units }];
        self.maintain(at_ns)?;
        self.settle_sources(&ranges, at_ns)?;
        let ftl = &mut self.ftl;
        ftl.check_share(&ranges).map_err(Status::from)?;
        let at_ns = self.admit(destinations(&ranges[0]), at_ns)?;
        self.ftl.remap(src, dst, units, at_ns)?;
        for lpn in destinations(&ranges[0]) {
            self.forget_cached(lpn)?;
        }
        self.make_change_durable(at_ns)
    }

    /// What was written is durable at `done_ns`. If it replaced pages that claimed their homes, the end of those claims
    /// is durable too when this returns.
    pub(super) fn claims_end(
        &mut self,
        any: bool,
        done_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        match guard!(ClaimOutlivesPage, any) {
            true => Ok(done_ns.max(self.make_change_durable(at_ns)?)),
            false => Ok(done_ns),
        }
    }

    /// Makes the journal durable, on flash or in protected DRAM once everything that it names is on flash, after a
    /// command has changed the map. If this fails, the change may never be durable, and nothing may be built on it.
    pub(super) fn make_change_durable(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        if self.ftl.has_plp() {
            return Ok(at_ns.max(self.ftl.nand().programs_done_ns()));
        }
        self.ftl.flush_journal(at_ns).map_err(|error| Status::from(error.unfinished()))
    }
}

/// The units that receive a new mapping.
fn destinations(range: &ShareRange) -> impl Iterator<Item = Lpn> + Clone + use<> {
    (range.dst.0..range.dst.0 + range.units).map(Lpn)
}
