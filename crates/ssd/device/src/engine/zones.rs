//! Zones: whole pages go to flash as soon as they are full; what is left of a write is the *tail* of its zone, which waits in the cache
//! like any unit, under units of the map that no host sees. A page that becomes full takes its tail from there.
//!
//! What is durable of a zone is durable from its beginning on. So a write that must be on flash waits for all of its zone before it, and
//! the tail of a page goes to flash only when the pages before it are there.

use tantalum_canaries::guard;
use tantalum_ftl::{Handle, HostUnit, Lpn, ZoneAction, ZoneCondition, ZoneId, ZoneUnit};
use tantalum_nand::{Nanoseconds, Slot, UNIT_BYTES};

use super::host_data::HostData;
use super::{Engine, Port};
use crate::status::Status;

impl Engine {
    /// Writes units at the write pointer, or where `offset` says that it is. Returns when that is done, and the first unit. If a step is
    /// refused, those before it are done and the others are not.
    pub(super) fn zone_write(
        &mut self,
        zone: ZoneId,
        offset: Option<u32>,
        (mut data, fua): (&[u8], bool),
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<(Nanoseconds, u32), Status> {
        self.maintain(at_ns)?;
        let units = (data.len() / UNIT_BYTES) as u32;
        self.ftl.check_zone_write(zone, offset, units)?;
        let at_ns = self.admit(std::iter::once(self.ftl.zone_tail(zone, 0).0), at_ns)?;
        let first = self.ftl.zone_state(zone).written;
        let at_ns = self.ftl.open_zone_for_write(zone, at_ns);
        let mut done_ns = at_ns;
        while !data.is_empty() {
            let (_, tail) = self.ftl.next_zone_page(zone);
            let room = self.units_per_page - tail as usize;
            let (units, rest) = data.split_at(data.len().min(room * UNIT_BYTES));
            let arrived_ns = port.transfer(at_ns, units.len());
            let step_ns = match units.len() == room * UNIT_BYTES {
                true => self.fill_zone_page(zone, units, self.goes_through(fua), arrived_ns, at_ns)?,
                false => self.add_to_tail(zone, units, self.goes_through(fua), arrived_ns)?,
            };
            done_ns = done_ns.max(step_ns);
            data = rest;
        }
        Ok((done_ns, first))
    }

    /// Programs the next page of a zone, of which these are the last units.
    fn fill_zone_page(
        &mut self,
        zone: ZoneId,
        data: &[u8],
        goes_through: bool,
        arrived_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let (_, tail) = self.ftl.next_zone_page(zone);
        let tails: Vec<Lpn> = (0..tail).map(|unit| self.ftl.zone_tail(zone, unit).0).collect();
        let room_ns = self.room_for_zone_page(data.len() / UNIT_BYTES, arrived_ns, at_ns)?;
        let mut units: Vec<ZoneUnit> = tails.iter().map(|lpn| self.tail_unit(*lpn)).collect();
        let staged = self.stage_all(data)?;
        units.extend(staged.iter().map(|slot| ZoneUnit::Buffer(*slot)));
        let programmed = self.ftl.program_zone_page(zone, &units, room_ns);
        let page_ns = programmed.map_err(|error| {
            // otherwise the buffers may belong to the medium
            if error.changed_nothing() {
                staged.iter().for_each(|slot| self.ftl.nand_mut().release(*slot));
            }
            Status::from(error)
        })?;
        self.ftl.count_written(Handle::DEFAULT, staged.len() as u64);
        let done_ns = page_ns.max(self.ftl.zone_done_ns(zone));
        let is_protected = self.ftl.has_plp();
        if is_protected {
            // the capacitor saves no pages of zones, but what waits of the tail until the page is on flash
            guard!(TailForgottenEarly, self.ftl.nand_mut().advance(done_ns));
        }
        for lpn in tails {
            if self.cache.remove(lpn).is_some() {
                self.ftl.unprotect(lpn)?;
            }
        }
        if !self.writes_through {
            self.cache.programmed(self.units_per_page as u32, page_ns);
        }
        Ok(if goes_through || is_protected { done_ns } else { room_ns })
    }

    /// Waits until the cache has room for units that have arrived and go straight on to flash.
    fn room_for_zone_page(
        &mut self,
        units: usize,
        arrived_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        if self.writes_through {
            return Ok(arrived_ns);
        }
        while self.cache.len() > 0 && self.cache.is_high_before(units) {
            self.drain_page(at_ns)?;
        }
        let room_ns = self.cache.room_ns(units, arrived_ns).expect("not more than half of the cache waits");
        self.ftl.nand_mut().advance(room_ns);
        Ok(room_ns)
    }

    /// Where a unit of a tail is: in the cache or on flash.
    fn tail_unit(&self, lpn: Lpn) -> ZoneUnit {
        self.cache.get(lpn).map_or(ZoneUnit::Tail(lpn), |unit| ZoneUnit::Buffer(unit.slot))
    }

    fn stage_all(&mut self, data: &[u8]) -> Result<Vec<Slot>, Status> {
        let nand = self.ftl.nand_mut();
        let mut staged = Vec::with_capacity(data.len() / UNIT_BYTES);
        for unit in data.chunks(UNIT_BYTES) {
            match nand.stage(unit) {
                Ok(slot) => staged.push(slot),
                Err(error) => {
                    staged.iter().for_each(|slot| nand.release(*slot));
                    return Err(error.into());
                }
            }
        }
        Ok(staged)
    }

    /// Adds units to the page of a zone that is not full yet.
    fn add_to_tail(
        &mut self,
        zone: ZoneId,
        data: &[u8],
        goes_through: bool,
        arrived_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let (_, tail) = self.ftl.next_zone_page(zone);
        let (lpn, metadata) = self.ftl.zone_tail(zone, tail);
        let units = (data.len() / UNIT_BYTES) as u32;
        let mut done_ns = arrived_ns;
        if goes_through {
            self.drain_tail(zone, arrived_ns)?;
            let from_ns = arrived_ns.max(self.ftl.zone_tail_ready_ns(zone));
            self.write_through(HostData { metadata, ..HostData::plain(lpn, data) }, from_ns)?;
            self.ftl.zone_tail_written(zone, units);
            done_ns = arrived_ns.max(self.ftl.zone_done_ns(zone));
        } else {
            for (lpn, unit) in (lpn.0..).map(Lpn).zip(data.chunks(UNIT_BYTES)) {
                let unit = HostData { metadata, ..HostData::plain(lpn, unit) };
                done_ns = done_ns.max(self.write_cached(unit, None, arrived_ns)?);
                self.ftl.zone_tail_written(zone, 1);
            }
        }
        Ok(done_ns)
    }

    /// Sends what waits of a tail to flash.
    fn drain_tail(&mut self, zone: ZoneId, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let (_, tail) = self.ftl.next_zone_page(zone);
        let waits = (0..tail).any(|unit| self.cache.get(self.ftl.zone_tail(zone, unit).0).is_some());
        if waits { self.drain(at_ns) } else { Ok(at_ns) }
    }

    /// When units may be programmed at the earliest: those of tails, when the pages before them are on flash.
    #[inline]
    pub(super) fn may_program_ns(&self, units: &[HostUnit], at_ns: Nanoseconds) -> Nanoseconds {
        at_ns.max(self.ftl.zone_tails_ready_ns(units))
    }

    /// Reads units. Those that were not written read as zeros.
    pub(super) fn zone_read(
        &mut self,
        zone: ZoneId,
        offset: u32,
        data: &mut [u8],
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let count = (data.len() / UNIT_BYTES) as u32;
        self.ftl.check_zone_read(zone, offset, count)?;
        let per_page = self.units_per_page as u32;
        let (pages, tail) = self.ftl.next_zone_page(zone);
        let mut ready_ns = at_ns;
        for (unit, data) in (offset..).zip(data.chunks_exact_mut(UNIT_BYTES)) {
            let unreadable = Status::ZoneUnreadable { zone, offset: unit };
            let read_ns = if unit < pages * per_page {
                self.ftl.read_zone(zone, unit, data, at_ns)?.ok_or(unreadable)?
            } else if unit < pages * per_page + tail {
                let (lpn, _) = self.ftl.zone_tail(zone, unit % per_page);
                let read = self.read_unit(lpn, data, at_ns);
                read.map_err(
                    |status| if let Status::Unreadable { .. } = status { unreadable } else { status },
                )?
            } else {
                data.fill(0);
                at_ns
            };
            ready_ns = ready_ns.max(read_ns);
        }
        self.ftl.counters_mut().host_units_read += u64::from(count);
        Ok(port.transfer(ready_ns, data.len()))
    }

    /// Changes the state of a zone, or of all to which the action applies. Resets and finishes are durable when this returns.
    pub(super) fn zone_manage(
        &mut self,
        zone: Option<ZoneId>,
        action: ZoneAction,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        let zones: Vec<(ZoneId, ZoneCondition)> = match zone {
            Some(zone) => vec![(zone, self.ftl.check_zone_action(zone, action)?)],
            None => self.all_zones_for(action)?,
        };
        let zones: Vec<(ZoneId, ZoneCondition)> =
            zones.into_iter().filter(|change| self.is_news(*change)).collect();
        let is_active = |zone| self.ftl.zone_state(zone).condition.is_active();
        let active = zones.iter().filter(|(zone, after)| is_active(*zone) && !after.is_active()).count();
        match action {
            ZoneAction::Open | ZoneAction::Close => {
                zones.iter().for_each(|(zone, after)| self.ftl.set_zone(*zone, *after));
                Ok(at_ns)
            }
            ZoneAction::Finish => {
                let mut done_ns = at_ns;
                for (index, &(zone, _)) in zones.iter().enumerate() {
                    let finished = self.finish_zone(zone, at_ns);
                    // those before it are finished
                    done_ns = done_ns
                        .max(finished.map_err(|error| if index == 0 { error } else { error.unfinished() })?);
                }
                let done_ns = self.settle_zones(!zones.is_empty(), done_ns)?;
                self.ftl.zones_ended(active, done_ns);
                Ok(done_ns)
            }
            ZoneAction::Reset => {
                let zones: Vec<ZoneId> = zones.into_iter().map(|(zone, _)| zone).collect();
                self.ftl.reset_zones(&zones, at_ns)?;
                for zone in &zones {
                    for unit in 0..self.units_per_page as u32 {
                        self.forget_cached(self.ftl.zone_tail(*zone, unit).0)?;
                    }
                }
                let done_ns = self.settle_zones(!zones.is_empty(), at_ns)?;
                zones.iter().for_each(|zone| self.ftl.zone_reset_recorded(*zone, done_ns));
                self.ftl.zones_ended(active, done_ns);
                Ok(done_ns)
            }
        }
    }

    /// The zones to which an action on all of them applies (ZNS Command Set, section 3.4.3: Select All), and what they become.
    fn all_zones_for(&self, action: ZoneAction) -> Result<Vec<(ZoneId, ZoneCondition)>, Status> {
        let applies = |condition: ZoneCondition| match action {
            ZoneAction::Open => condition == ZoneCondition::Closed,
            ZoneAction::Close => condition.is_open(),
            ZoneAction::Finish => condition.is_active(),
            ZoneAction::Reset => condition.is_active() || condition == ZoneCondition::Full,
        };
        let count = self.ftl.zones_config().map_or(0, |zones| zones.count);
        let zones = (0..count).map(ZoneId).filter(|zone| applies(self.ftl.zone_state(*zone).condition));
        if action == ZoneAction::Open {
            self.ftl.check_open_all_zones()?;
        }
        zones.map(|zone| Ok((zone, self.ftl.check_zone_action(zone, action)?))).collect()
    }

    fn is_news(&self, (zone, after): (ZoneId, ZoneCondition)) -> bool {
        self.ftl.zone_state(zone).condition != after
    }

    /// Everything in a zone goes to flash before it is recorded that it takes no more.
    fn finish_zone(&mut self, zone: ZoneId, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let drained_ns = if self.ftl.has_plp() { at_ns } else { self.drain_tail(zone, at_ns)? };
        let done_ns = drained_ns.max(self.ftl.zone_done_ns(zone));
        self.ftl.finish_zone(zone, at_ns)?;
        Ok(done_ns)
    }

    /// What was recorded of zones is durable when this returns.
    fn settle_zones(&mut self, is_news: bool, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        if !is_news {
            return Ok(at_ns);
        }
        let done_ns = self.make_change_durable(at_ns)?.max(at_ns);
        Ok(guard!(ResetNotAwaited(at_ns), done_ns))
    }
}
