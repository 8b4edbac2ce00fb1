//! Writing: into the cache and from there to flash a page at a time, or straight to flash.

use tantalum_ftl::canary::{self, Guard};
use tantalum_ftl::{Ftl, FtlError, Generation, Hint, HostUnit, Lpn, Metadata, OPEN_LOGS};
use tantalum_nand::{Fills, NandError, Nanoseconds, UNIT_BYTES};

use crate::device::{Device, Power};
use crate::profile::CacheMode;
use crate::status::Status;

impl Device {
    pub(crate) fn write(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        fua: bool,
        mut fills: Option<&mut Fills>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_units(lpn, data.len())?;
        self.maintain(at_ns)?;
        let units = (data.len() / UNIT_BYTES) as u32;
        let at_ns = self.admit((lpn.0..lpn.0 + units).map(Lpn), at_ns)?;
        let mut done_ns = at_ns;
        let direct = self.goes_through(fua);
        let per_step = if direct { self.units_per_page() } else { 1 };
        for (index, units) in data.chunks(per_step * UNIT_BYTES).enumerate() {
            let arrived_ns = self.link.transfer(at_ns, units.len());
            let first = Lpn(lpn.0 + (index * per_step) as u32);
            let step_ns = match (direct, fills.as_deref_mut()) {
                (true, _) => self.write_through(first, units, &[0; 24], None, arrived_ns)?,
                (false, fills) => self.write_cached(first, units, [0; 24], None, fills, arrived_ns)?,
            };
            done_ns = done_ns.max(step_ns);
        }
        Ok(done_ns)
    }

    /// Whether a write goes to flash before it is done.
    fn goes_through(&self, fua: bool) -> bool {
        fua && !self.is_protected() || self.profile.cache.mode == CacheMode::Off
    }

    /// Makes sure that there is room for units that are new, before anything is changed. Returns when it is there for good.
    pub(crate) fn admit(
        &mut self,
        lpns: impl Iterator<Item = Lpn> + Clone,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let waiting = self.cache.len();
        match self.ftl_mut()?.admit_units(lpns.clone(), waiting, at_ns) {
            // some of what waits may be new as well, and some not
            Err(FtlError::CapacityExceeded) if waiting > 0 => {
                self.drain(at_ns)?;
                Ok(self.ftl_mut()?.admit_units(lpns, 0, at_ns)?)
            }
            admitted => Ok(admitted?),
        }
    }

    /// Buffers for so many units of [`crate::Command::WriteFilled`], to be filled before. None if this drive has none that
    /// can be filled past it.
    pub fn fills(&mut self, units: usize) -> Result<Option<Fills>, Status> {
        match self.profile.cache.mode {
            CacheMode::Off => Ok(None),
            _ => Ok(self.ftl_mut()?.nand_mut().fills(units)?),
        }
    }

    /// The next `units` buffers are not needed, if there are so many.
    pub fn skip_fills(&mut self, fills: &mut Fills, units: usize) {
        if let Power::On(ftl) = &mut self.power {
            ftl.nand_mut().skip_fills(fills, units);
        }
    }

    pub(crate) fn write_one(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: Metadata,
        hint: Option<Hint>,
        fua: bool,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_one(lpn, data.len())?;
        self.maintain(at_ns)?;
        let home = hint.and_then(|hint| hint.home);
        let at_ns = self.admit(std::iter::once(lpn).chain(home), at_ns)?;
        let arrived_ns = self.link.transfer(at_ns, data.len());
        match self.goes_through(fua) {
            true => self.write_through(lpn, data, &metadata, hint, arrived_ns),
            false => self.write_cached(lpn, data, metadata, hint, None, arrived_ns),
        }
    }

    /// Starts a life of a hinted log.
    pub(crate) fn begin_log(&mut self, at_ns: Nanoseconds) -> Result<(Generation, Nanoseconds), Status> {
        self.maintain(at_ns)?;
        if self.ftl_mut()?.logs().is_full() && self.cache.has_hinted() {
            self.drain(at_ns)?;
        }
        let limit = OPEN_LOGS as u64;
        let begun = self.ftl_mut()?.begin_log(at_ns)?;
        begun.ok_or(Status::OverLimit { what: "open logs with living hints", asked: limit + 1, limit })
    }

    pub(crate) fn write_hinted(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: Metadata,
        hint: Hint,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_one(lpn, data.len())?;
        if let Some(home) = hint.home {
            self.check_range(home, 1)?;
            if home == lpn {
                return Err(Status::InvalidField(format!("unit {lpn} is given as its own home")));
            }
        }
        let limit = u64::from(self.limits().hints);
        let ftl = self.ftl_mut()?;
        let living = ftl.logs().count() as u64;
        if living >= limit {
            return Err(Status::OverLimit { what: "living hints", asked: living + 1, limit });
        }
        ftl.check_hint(&hint)?;
        let done_ns = self.write_one(lpn, data, metadata, Some(hint), false, at_ns)?;
        self.ftl_mut()?.accept_hint(&hint);
        Ok(done_ns)
    }

    /// Puts one unit into the cache, in the next buffer that was filled with one if there is any. Done when there is room for
    /// it.
    fn write_cached(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: Metadata,
        hint: Option<Hint>,
        fills: Option<&mut Fills>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        while self.cache.is_high() {
            self.drain_page(at_ns)?;
        }
        let room_ns = self.cache.room_ns(1, at_ns).expect("not more than half of the cache waits");
        let protected = self.is_protected();
        let Power::On(ftl) = &mut self.power else { return Err(Status::PowerLost) };
        let ends_claim = protected && ftl.is_claiming_page(lpn);
        if ends_claim {
            ftl.ensure_claim_room(1, at_ns)?;
        }
        let nand = ftl.nand_mut();
        // the drive has it from then on, and power does not go before (hazard 12)
        if !canary::out(Guard::PowerBeforeRoom) {
            nand.advance(room_ns);
        }
        let filled = fills.map_or(Ok(None), |fills| nand.adopt(fills))?;
        let slot = filled.map_or_else(|| nand.reserve(), Ok)?;
        let version = ftl.next_seq();
        let unit = HostUnit { slot, lpn, version, metadata, hint };
        let kept = match filled {
            Some(_) => ftl.protect(&unit, data),
            None => ftl.keep(&unit, data),
        };
        if let Err(error) = kept {
            ftl.nand_mut().release(slot);
            return Err(error.into());
        }
        let replaced = self.cache.insert(unit);
        if let Some(replaced) = &replaced {
            ftl.nand_mut().release(replaced.slot);
        }
        ftl.waits(&unit, replaced.as_ref());
        if ends_claim && !canary::out(Guard::ClaimOutlivesPage) {
            ftl.replaced_in_dram(lpn, version, at_ns)?;
        }
        #[cfg(feature = "canaries")]
        if canary::out(Guard::OldCopyGivenUpEarly) {
            ftl.give_up(lpn);
        }
        self.counters_mut()?.host_units_written += 1;
        Ok(room_ns)
    }

    /// Programs up to a page of units at once, past the cache.
    fn write_through(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: &Metadata,
        hint: Option<Hint>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        let done = self.stage_and_write(lpn, data, metadata, hint, &mut page, at_ns);
        self.page = page;
        let done_ns = done?;
        self.counters_mut()?.host_units_written += (data.len() / UNIT_BYTES) as u64;
        Ok(done_ns)
    }

    fn stage_and_write(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: &Metadata,
        hint: Option<Hint>,
        page: &mut Vec<HostUnit>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let ftl = self.ftl_mut()?;
        let lpns = (lpn.0..).map(Lpn).take(data.len() / UNIT_BYTES);
        let ends_claims = lpns.clone().any(|lpn| ftl.is_claiming_page(lpn));
        for (index, unit) in data.chunks(UNIT_BYTES).enumerate() {
            let slot = match ftl.nand_mut().stage(unit) {
                Ok(slot) => slot,
                Err(error) => {
                    release_all(ftl, page);
                    return Err(error.into());
                }
            };
            let version = ftl.next_seq();
            page.push(HostUnit { slot, lpn: Lpn(lpn.0 + index as u32), version, metadata: *metadata, hint });
        }
        let written = ftl.write_page(page, at_ns);
        let done_ns = match written {
            Ok(done_ns) => done_ns,
            // buffers under way when power went are the medium's
            Err(FtlError::Nand(NandError::PowerLost)) => return Err(Status::PowerLost),
            Err(error) => {
                release_all(ftl, page);
                return Err(error.into());
            }
        };
        for unit in page.iter() {
            self.forget_cached(unit.lpn)?;
        }
        self.claims_end(ends_claims, done_ns, at_ns)
    }

    /// Programs the page of units that have waited longest.
    pub(crate) fn drain_page(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let units_per_page = self.units_per_page();
        let mut page = std::mem::take(&mut self.page);
        self.cache.oldest(&mut page, units_per_page);
        let written = self.ftl_mut().and_then(|ftl| ftl.write_page(&page, at_ns).map_err(Status::from));
        if let Ok(done_ns) = written {
            for unit in &page {
                self.cache.remove(unit.lpn);
            }
            self.cache.programmed(page.len() as u32, done_ns);
        }
        let unprotected = match written {
            Ok(_) => self.unprotect(&page),
            Err(_) => Ok(()),
        };
        self.page = page;
        unprotected.and(written)
    }

    /// Programs everything that waits.
    pub(crate) fn drain(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let mut done_ns = at_ns;
        while self.cache.len() > 0 {
            done_ns = done_ns.max(self.drain_page(at_ns)?);
        }
        Ok(done_ns)
    }

    /// Forgets what waits for a logical page, because something newer took its place.
    pub(crate) fn forget_cached(&mut self, lpn: Lpn) -> Result<(), Status> {
        if let Some(unit) = self.cache.remove(lpn) {
            self.ftl_mut()?.no_longer_waits(&unit)?;
        }
        Ok(())
    }

    fn unprotect(&mut self, units: &[HostUnit]) -> Result<(), Status> {
        let ftl = self.ftl_mut()?;
        for unit in units {
            ftl.unprotect(unit.lpn)?;
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.counters_mut()?.flushes += 1;
        if self.is_protected() {
            // everything acknowledged is safe already: flush only orders (DuraSSD, section 3.3)
            return Ok(at_ns);
        }
        self.drain(at_ns)?;
        let done_ns = self.ftl_mut()?.flush_journal(at_ns)?;
        self.maintain_after(at_ns)?;
        Ok(done_ns)
    }
}

/// Gives staged buffers back that did not reach flash.
pub(crate) fn release_all(ftl: &mut Ftl, units: &[HostUnit]) {
    for unit in units {
        ftl.nand_mut().release(unit.slot);
    }
}
