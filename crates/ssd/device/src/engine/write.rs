//! Writes: into the cache and from there to flash a page at a time, or straight to flash.
//!
//! A write of up to `limits.atomic_write_units` is all or nothing, and nothing in the drive splits it (hazard 36): it enters the cache
//! in one step that nothing interrupts, or goes straight to flash on one page or in one batch. What entered protected DRAM is
//! safe. Any other cache keeps the units together as a group ([`super::cache`]), and whatever else takes the place of a part of a
//! group waits until the group has left (`Engine::settle_groups`).

use std::ops::Range;

use tantalum_canaries::guard;
use tantalum_ftl::{Ftl, FtlError, Generation, Handle, Hint, HostUnit, Lpn, OPEN_LOGS, Reservation};
use tantalum_nand::{Fills, Nanoseconds, Slot, UNIT_BYTES};

use super::host_data::{HostData, PlainWrite};
use super::{Engine, Port};
use crate::status::Status;

impl Engine {
    /// Writes units in steps: a page each straight to flash, or a unit each into the cache; up to the size that is all or nothing,
    /// in one step. If a step is refused, those before it are done and the others are not.
    pub(super) fn write(
        &mut self,
        PlainWrite { lpn, data, fua, handle }: PlainWrite<'_>,
        mut fills: Option<&mut Fills>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        let units = (data.len() / UNIT_BYTES) as u32;
        let at_ns = self.admit((lpn.0..lpn.0 + units).map(Lpn), at_ns)?;
        let mut done_ns = at_ns;
        let direct = self.goes_through(fua);
        let is_whole = guard!(AtomicWriteSplit, (2..=self.atomic_write_units as u32).contains(&units));
        if is_whole && !direct {
            let units = HostData { handle, ..HostData::plain(lpn, data) };
            return self.write_cached_whole(units, fills, port, at_ns);
        }
        let per_step = match direct {
            true if is_whole => units as usize,
            true => self.units_per_page,
            false => 1,
        };
        for (index, units) in data.chunks(per_step * UNIT_BYTES).enumerate() {
            let arrived_ns = port.transfer(at_ns, units.len());
            let lpn = Lpn(lpn.0 + (index * per_step) as u32);
            let units = HostData { handle, ..HostData::plain(lpn, units) };
            let step_ns = match (direct, fills.as_deref_mut()) {
                (true, _) => self.write_through(units, arrived_ns)?,
                (false, fills) => self.write_cached(units, fills, arrived_ns)?,
            };
            done_ns = done_ns.max(step_ns);
        }
        Ok(done_ns)
    }

    /// Whether a write must be on flash before it completes.
    pub fn goes_through(&self, fua: bool) -> bool {
        fua && !self.ftl.has_plp() || self.writes_through
    }

    /// Ensures room for new units before anything is changed. Returns when it is guaranteed.
    pub(super) fn admit(
        &mut self,
        lpns: impl Iterator<Item = Lpn> + Clone,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let end = self.ftl.map().logical_units();
        debug_assert!(
            lpns.clone().all(|lpn| lpn.0 < end),
            "a command's shape was not checked: it goes beyond {end}"
        );
        let waiting = self.cache.len();
        match self.ftl.admit_units(lpns.clone(), waiting, at_ns) {
            // some of the waiting units may be new as well
            Err(FtlError::CapacityExceeded) if waiting > 0 => {
                self.drain(at_ns)?;
                Ok(self.ftl.admit_units(lpns, 0, at_ns)?)
            }
            admitted => Ok(admitted?),
        }
    }

    /// Buffers to be filled before they are written. None if nothing waits here.
    pub fn fills(&mut self, units: usize) -> Result<Option<Fills>, Status> {
        if self.writes_through { Ok(None) } else { Ok(self.ftl.nand_mut().fills(units)?) }
    }

    pub(super) fn write_one(
        &mut self,
        unit: HostData<'_>,
        fua: bool,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        let home = unit.hint.and_then(|hint| hint.home);
        let at_ns = self.admit(std::iter::once(unit.lpn).chain(home), at_ns)?;
        let arrived_ns = port.transfer(at_ns, unit.data.len());
        match self.goes_through(fua) {
            true => self.write_through(unit, arrived_ns),
            false => self.write_cached(unit, None, arrived_ns),
        }
    }

    /// Starts a life of a hinted log.
    pub(super) fn begin_log(
        &mut self,
        generation: &mut Generation,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        if self.ftl.logs().is_full() && self.cache.has_hinted() {
            self.drain(at_ns)?;
        }
        let limit = OPEN_LOGS as u64;
        let begun = self.ftl.begin_log(at_ns)?;
        let full = Status::OverLimit { what: "open logs with living hints", asked: limit + 1, limit };
        let (begun, done_ns) = begun.ok_or(full)?;
        *generation = begun;
        Ok(done_ns)
    }

    pub(super) fn write_hinted(
        &mut self,
        unit: HostData<'_>,
        hint: &Hint,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let limit = u64::from(self.ftl.layout().hints_limit);
        let ftl = &mut self.ftl;
        let living = ftl.logs().count() as u64;
        if living >= limit {
            return Err(Status::OverLimit { what: "living hints", asked: living + 1, limit });
        }
        ftl.check_hint(hint)?;
        let done_ns = self.write_one(unit, false, port, at_ns)?;
        self.ftl.accept_hint(hint);
        Ok(done_ns)
    }

    /// Puts one unit into the cache, in the next buffer that already holds one, if any. Done when there is room for it.
    pub(super) fn write_cached(
        &mut self,
        unit: HostData<'_>,
        fills: Option<&mut Fills>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let lpn = unit.lpn;
        self.settle_log_pages(std::iter::once(lpn), at_ns)?;
        if unit.hint.is_some() || self.cache.leaves_with_other_handle(lpn.0..lpn.0 + 1, unit.handle) {
            // what leaves together in a batch has no hints, and one handle
            self.settle_groups(std::iter::once(lpn), at_ns)?;
        }
        while self.cache.is_high() {
            self.drain_page(at_ns)?;
        }
        let (room_ns, ends_of_claims) = self.enter(lpn.0..lpn.0 + 1, at_ns, at_ns)?;
        let (slot, is_filled) = self.buffer(fills)?;
        let HostData { lpn, data, metadata, hint, handle } = unit;
        let unit = HostUnit { slot, lpn, version: self.ftl.next_seq(), metadata, hint, handle };
        // The stores of a page's copy take long to drain, and a load of bytes that were stored in other pieces waits for
        // them all. So the unit is completed before the copy, and stays where it is.
        self.take_in(&unit, data, is_filled)?;
        self.replace_in_cache(&unit);
        self.claims_end_in_dram(ends_of_claims, &[unit], at_ns)?;
        self.ftl.count_written(handle, 1);
        Ok(room_ns)
    }

    /// Puts units into the cache all at once: whatever may fail, or lose power, comes before the first one is there. Done when there
    /// is room for all of them.
    fn write_cached_whole(
        &mut self,
        units: HostData<'_>,
        fills: Option<&mut Fills>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let count = units.data.len() / UNIT_BYTES;
        let lpns = units.lpn.0..units.lpn.0 + count as u32;
        self.settle_log_pages(lpns.clone().map(Lpn), at_ns)?;
        if self.cache.joined_units(lpns.clone()) > self.group_units
            || self.cache.leaves_with_other_handle(lpns.clone(), units.handle)
        {
            self.settle_groups(lpns.clone().map(Lpn), at_ns)?;
        }
        while self.cache.is_high_before(count) {
            self.drain_page(at_ns)?;
        }
        let arrived_ns = port.transfer(at_ns, units.data.len());
        let (room_ns, ends_of_claims) = self.enter(lpns.clone(), arrived_ns, at_ns)?;
        let mut entering = std::mem::take(&mut self.page);
        entering.clear();
        let entered = self.take_in_whole(units, fills, &mut entering);
        if entered.is_ok() {
            entering.iter().for_each(|unit| self.replace_in_cache(unit));
            // the capacitor saves what waits, however it leaves
            if guard!(GroupSplit, !self.ftl.has_plp()) {
                self.cache.join(lpns);
            }
        }
        let ended = entered.and_then(|()| self.claims_end_in_dram(ends_of_claims, &entering, at_ns));
        self.page = entering;
        ended?;
        self.ftl.count_written(units.handle, count as u64);
        Ok(room_ns)
    }

    /// Waits until the cache has room for units that have arrived. Returns when that is, and room for the records that end the
    /// claims of pages that they replace in protected DRAM.
    #[inline]
    fn enter(
        &mut self,
        lpns: Range<u32>,
        arrived_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<(Nanoseconds, Option<Reservation>), Status> {
        let room_ns =
            self.cache.room_ns(lpns.len(), arrived_ns).expect("not more than half of the cache waits");
        let ftl = &mut self.ftl;
        let claims = match ftl.has_plp() {
            true => lpns.filter(|lpn| ftl.is_claiming_page(Lpn(*lpn))).count(),
            false => 0,
        };
        let ends_of_claims = match claims {
            0 => None,
            claims => Some(ftl.reserve_ends_of_claims(claims, at_ns)?),
        };
        // only then does the drive have them, and power does not go before (hazard 12)
        guard!(PowerBeforeRoom, ftl.nand_mut().advance(room_ns));
        Ok((room_ns, ends_of_claims))
    }

    /// A complete unit replaces what waits in the cache for the same page.
    #[inline]
    fn replace_in_cache(&mut self, unit: &HostUnit) {
        let ftl = &mut self.ftl;
        let replaced = self.cache.insert(unit);
        if let Some(replaced) = &replaced {
            ftl.nand_mut().release(replaced.slot);
        }
        ftl.unit_cached(unit, replaced.as_ref());
        guard!(OldCopyGivenUpEarly(ftl, unit.lpn));
    }

    /// Ends the claims of pages that units replaced in protected DRAM.
    #[inline]
    fn claims_end_in_dram(
        &mut self,
        room: Option<Reservation>,
        units: &[HostUnit],
        at_ns: Nanoseconds,
    ) -> Result<(), Status> {
        if let Some(room) = room
            && guard!(ClaimOutlivesPage, true)
        {
            let replaced = units.iter().map(|unit| (unit.lpn, unit.version));
            self.ftl.replaced_in_dram(room, replaced, at_ns)?;
        }
        Ok(())
    }

    /// A buffer for the next unit, and whether it already holds the unit.
    #[inline]
    fn buffer(&mut self, fills: Option<&mut Fills>) -> Result<(Slot, bool), Status> {
        let nand = self.ftl.nand_mut();
        match fills.map_or(Ok(None), |fills| nand.adopt(fills))? {
            Some(slot) => Ok((slot, true)),
            None => Ok((nand.reserve()?, false)),
        }
    }

    /// Puts a unit's data into its buffer, and into protected DRAM if there is any.
    #[inline]
    fn take_in(&mut self, unit: &HostUnit, data: &[u8], is_filled: bool) -> Result<(), Status> {
        let ftl = &mut self.ftl;
        let kept =
            if is_filled { ftl.protect(std::slice::from_ref(unit), data) } else { ftl.keep(unit, data) };
        kept.map_err(|error| {
            ftl.nand_mut().release(unit.slot);
            error.into()
        })
    }

    /// Puts the data of units into buffers, and into protected DRAM if there is any. None is left in either if this fails.
    fn take_in_whole(
        &mut self,
        units: HostData<'_>,
        mut fills: Option<&mut Fills>,
        entering: &mut Vec<HostUnit>,
    ) -> Result<(), Status> {
        let HostData { lpn, data, metadata, hint, handle } = units;
        for (lpn, data) in (lpn.0..).map(Lpn).zip(data.chunks(UNIT_BYTES)) {
            let filled = self.buffer(fills.as_deref_mut()).and_then(|(slot, is_filled)| {
                let version = self.ftl.next_seq();
                entering.push(HostUnit { slot, lpn, version, metadata, hint, handle });
                if is_filled {
                    Ok(())
                } else {
                    Ok(self.ftl.nand_mut().fill(slot, data).map_err(FtlError::from)?)
                }
            });
            if let Err(error) = filled {
                release_all(&mut self.ftl, entering);
                return Err(error);
            }
        }
        self.ftl.protect(entering, data).map_err(|error| {
            release_all(&mut self.ftl, entering);
            error.into()
        })
    }

    /// Programs up to a page of units at once, or a write that is all or nothing, bypassing the cache.
    pub(super) fn write_through(
        &mut self,
        units: HostData<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let bytes = units.data.len();
        debug_assert!(
            bytes <= self.units_per_page.max(self.atomic_write_units) * UNIT_BYTES,
            "{bytes} bytes are to be programmed at once"
        );
        let lpns = units.lpn.0..units.lpn.0 + (bytes / UNIT_BYTES) as u32;
        self.settle_groups(lpns.map(Lpn), at_ns)?;
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        let done = self.stage_and_write(units, &mut page, at_ns);
        self.page = page;
        let done_ns = done?;
        self.ftl.count_written(units.handle, (units.data.len() / UNIT_BYTES) as u64);
        Ok(done_ns)
    }

    fn stage_and_write(
        &mut self,
        units: HostData<'_>,
        page: &mut Vec<HostUnit>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let HostData { lpn, data, metadata, hint, handle } = units;
        let ftl = &mut self.ftl;
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
            page.push(HostUnit { slot, lpn: Lpn(lpn.0 + index as u32), version, metadata, hint, handle });
        }
        let written = ftl.write_whole(page, at_ns);
        let done_ns = match written {
            Ok(done_ns) => done_ns,
            Err(error) => {
                // otherwise buffers may belong to the medium, or to a page that has been programmed
                if error.changed_nothing() {
                    release_all(ftl, page);
                }
                return Err(error.into());
            }
        };
        self.ftl.zone_tails_programmed(page, done_ns);
        for unit in page.iter() {
            self.forget_cached(unit.lpn)?;
        }
        self.claims_end(ends_claims, done_ns, at_ns)
    }

    /// Programs a page of the oldest waiting units, or as many as leave together.
    pub(super) fn drain_page(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.drain_page_of(None, at_ns)
    }

    /// The same for units with a handle, some of which wait.
    pub(super) fn drain_page_of(
        &mut self,
        handle: Option<Handle>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let units_per_page = self.units_per_page;
        let mut page = std::mem::take(&mut self.page);
        self.cache.oldest(&mut page, units_per_page, self.group_units, handle);
        let at_ns = self.may_program_ns(&page, at_ns);
        let written = self.ftl.write_whole(&mut page, at_ns).map_err(Status::from);
        match written {
            Ok(done_ns) => {
                for unit in &page {
                    self.cache.remove(unit.lpn);
                }
                self.ftl.zone_tails_programmed(&page, done_ns);
                self.cache.programmed(page.len() as u32, done_ns);
            }
            Err(_) if page.len() > units_per_page => self.cache.stay(&page),
            Err(_) => {}
        }
        let unprotected = match written {
            Ok(_) => self.unprotect(&page),
            Err(_) => Ok(()),
        };
        self.page = page;
        unprotected.and(written)
    }

    /// Programs everything that waits.
    pub(super) fn drain(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let mut done_ns = at_ns;
        while self.cache.len() > 0 {
            done_ns = done_ns.max(self.drain_page(at_ns)?);
        }
        Ok(done_ns)
    }

    /// Drops the waiting unit of a logical page, because something newer replaced it.
    pub(super) fn forget_cached(&mut self, lpn: Lpn) -> Result<(), Status> {
        if let Some(unit) = self.cache.remove(lpn) {
            self.ftl.unit_dropped(&unit)?;
        }
        Ok(())
    }

    fn unprotect(&mut self, units: &[HostUnit]) -> Result<(), Status> {
        let ftl = &mut self.ftl;
        for unit in units {
            ftl.unprotect(unit.lpn)?;
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.ftl.counters_mut().flushes += 1;
        if self.ftl.has_plp() {
            // everything acknowledged is already safe: flush only orders (DuraSSD, section 3.3)
            return Ok(at_ns);
        }
        self.drain(at_ns)?;
        let done_ns = self.ftl.flush_journal(at_ns)?;
        self.maintain_after(at_ns)?;
        Ok(done_ns)
    }
}

/// Releases staged buffers that did not reach flash.
pub(super) fn release_all(ftl: &mut Ftl, units: &[HostUnit]) {
    for unit in units {
        ftl.nand_mut().release(unit.slot);
    }
}

#[cfg(test)]
mod tests {
    use tantalum_nand::Faults;

    use super::*;
    use crate::Device;
    use crate::engine::Inside;
    use crate::profile::{CacheMode, Plp, Profile};

    const PAGES: std::ops::Range<u32> = 50..62;

    fn read(engine: &mut Engine, lpn: u32, at_ns: Nanoseconds) -> u8 {
        let mut data = [9; UNIT_BYTES];
        engine.read(Lpn(lpn), &mut data, &mut Inside, at_ns).unwrap();
        data[0]
    }

    /// A drive with a capacitor, and with pages of a log on flash, which hold 1 and claim homes.
    fn with_log() -> (Device, Nanoseconds) {
        let capacity_bytes = 4 << 20;
        let mut profile = Profile { capacity_bytes, ..Profile::load("tlc-nvme").unwrap() };
        profile.over_provisioning_percent = 100.0;
        (profile.flash.channels, profile.flash.dies_per_channel, profile.flash.planes_per_die) = (2, 1, 1);
        (profile.flash.pages_per_block, profile.flash.page_bytes) = (8, 8192);
        (profile.cache.mode, profile.cache.bytes) = (CacheMode::Durable, 24 * UNIT_BYTES as u64);
        (profile.power.plp, profile.power.dump_bytes) = (Plp::Capacitor, 96 * UNIT_BYTES as u64);
        let mut device = Device::in_memory(&profile).unwrap();
        let at_ns = device.time_ns();
        let engine = device.engine_mut().unwrap();
        let mut generation = Generation::default();
        engine.begin_log(&mut generation, at_ns).unwrap();
        for (lpn, slot) in PAGES.zip(1..) {
            let home = Some(Lpn(lpn - 40));
            let hint = Hint { generation, attempt: 0, start: 1, first: slot, slot, end: true, home };
            let data = HostData { hint: Some(hint), ..HostData::plain(Lpn(lpn), &[1; UNIT_BYTES]) };
            engine.write_hinted(data, &hint, &mut Inside, at_ns).unwrap();
        }
        engine.drain(at_ns).unwrap();
        let at_ns = engine.ftl.nand().programs_done_ns();
        engine.ftl.nand_mut().advance(at_ns);
        (device, at_ns)
    }

    /// The record that ends the claim of a page needs the journal, which is short of blocks here. With the room checked only
    /// when the record is appended, the unit was in the cache already, and the refused write was done. No test wrote over a
    /// page of a log while the journal had no block.
    #[test]
    fn a_write_over_a_page_of_a_log_is_refused_before_it_is_done() {
        let (mut device, at_ns) = with_log();
        let engine = device.engine_mut().unwrap();
        engine.ftl.nand_mut().set_faults(Faults { erase_failure_ppm: 1_000_000, ..Faults::default() });
        // what is left of the journal, and no block more
        while engine.ftl.trim(Lpn(5), 1, at_ns).is_ok() {
            engine.ftl.flush_journal(at_ns).unwrap();
        }
        let mut refused = 0;
        for lpn in PAGES {
            assert!(engine.ftl.is_claiming_page(Lpn(lpn)), "page {lpn}");
            let data = HostData::plain(Lpn(lpn), &[7; UNIT_BYTES]);
            let expected = match engine.write_cached(data, None, at_ns) {
                Ok(_) => 7,
                Err(Status::CapacityExceeded) => 1,
                Err(status) => panic!("{status}"),
            };
            refused += u32::from(expected == 1);
            assert_eq!(read(engine, lpn, at_ns), expected, "page {lpn}, {refused} refused");
            // so that each of them would need a page of the journal
            let _ = engine.ftl.flush_journal(at_ns);
        }
        assert!(refused > 0, "the journal had room");
    }

    /// Each write overlaps the one before, as at the end of a log. A group leaves in one batch, and a batch has a limit.
    #[test]
    fn a_chain_of_overlapping_writes_leaves_before_it_is_larger_than_a_batch() {
        let mut profile = Profile { capacity_bytes: 4 << 20, ..Profile::load("tlc-nvme").unwrap() };
        (profile.limits.atomic_write_units, profile.limits.atomic_units) = (4, 8);
        let mut device = Device::in_memory(&profile).unwrap();
        let at_ns = device.time_ns();
        let engine = device.engine_mut().unwrap();
        let (mut largest, mut alone) = (0, 0);
        for first in (0..90).step_by(3) {
            let (lpn, data, fua, handle) = (Lpn(first), &[7; 4 * UNIT_BYTES], false, Handle::DEFAULT);
            engine.write(PlainWrite { lpn, data, fua, handle }, None, &mut Inside, at_ns).unwrap();
            let group = engine.cache.joined_units(first..first + 4);
            assert!(group <= 8, "a group of {group} units waits");
            largest = largest.max(group);
            alone += u32::from(group == 4);
        }
        assert!(largest == 7 && alone > 5, "the largest has {largest} units, {alone} began a new group");
    }
}
