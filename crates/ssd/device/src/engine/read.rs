//! Reads: from the cache, else from flash.

use tantalum_ftl::{Ftl, Lpn, Metadata, PREFETCHED};
use tantalum_nand::{Fetches, NandError, Nanoseconds, Slot, UNIT_BYTES};

use super::{Engine, Port};
use crate::status::Status;

impl Engine {
    pub(super) fn read(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let end = lpn.0 + (data.len() / UNIT_BYTES) as u32;
        let ready_ns = self.read_each(lpn, data, at_ns, |engine, lpn, unit| {
            if lpn.0 + 1 < end {
                engine.prefetch_data(Lpn(lpn.0 + 1));
            }
            engine.read_unit(lpn, unit, at_ns)
        })?;
        Ok(port.transfer(ready_ns, data.len()))
    }

    pub(super) fn read_later(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        fetches: &mut Fetches,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let ready_ns = self.read_each(lpn, data, at_ns, |engine, lpn, unit| {
            let cached = engine.cache.get(lpn).map(|unit| unit.slot);
            let ftl = &mut engine.ftl;
            match cached {
                Some(slot) => {
                    ftl.nand().read_slot_later(slot, fetches);
                    Ok(at_ns)
                }
                None => Ok(ftl.read_later(lpn, unit, fetches, at_ns)?),
            }
        })?;
        Ok(port.transfer(ready_ns, data.len()))
    }

    /// Reads units one by one while their misses overlap. `read` returns when a unit is there, and this when all are.
    fn read_each(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
        mut read: impl FnMut(&mut Engine, Lpn, &mut [u8]) -> Result<Nanoseconds, Status>,
    ) -> Result<Nanoseconds, Status> {
        let mut ready_ns = at_ns;
        for (lpn, units) in (lpn.0..).step_by(PREFETCHED).zip(data.chunks_mut(PREFETCHED * UNIT_BYTES)) {
            let count = (units.len() / UNIT_BYTES) as u32;
            if count > 1 {
                self.prefetch((lpn..lpn + count).map(Lpn));
            }
            for (lpn, unit) in (lpn..).map(Lpn).zip(units.chunks_exact_mut(UNIT_BYTES)) {
                ready_ns = ready_ns.max(read(self, lpn, unit)?);
            }
        }
        self.ftl.counters_mut().host_units_read += (data.len() / UNIT_BYTES) as u64;
        Ok(ready_ns)
    }

    /// Prefetches what reads of these units will access into the processor's cache.
    pub fn prefetch(&self, lpns: impl Iterator<Item = Lpn>) {
        self.ftl.prefetch(lpns.filter(|lpn| lpn.0 < self.ftl.map().logical_units()));
    }

    /// Prefetches the data of the unit that is read next.
    #[inline]
    pub fn prefetch_data(&self, lpn: Lpn) {
        if lpn.0 < self.ftl.map().logical_units() {
            self.ftl.prefetch_data(lpn);
        }
    }

    /// Whether a unit is mapped, reads as `data`, and has no metadata.
    pub fn holds(&self, lpn: Lpn, data: &[u8; UNIT_BYTES]) -> bool {
        let is_empty = |metadata| metadata == Metadata::default();
        let ftl = &self.ftl;
        match self.cache.get(lpn) {
            Some(unit) => ftl.nand().slot_holds(unit.slot, data) && is_empty(unit.metadata),
            None => {
                ftl.map().lookup(lpn).is_some_and(|ppn| ftl.nand().holds(ppn, data))
                    && ftl.metadata(lpn).is_ok_and(is_empty)
            }
        }
    }

    pub(super) fn read_unit(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let cached = self.cache.get(lpn).map(|unit| unit.slot);
        let ftl = &mut self.ftl;
        match cached {
            Some(slot) => read_buffer(ftl, lpn, slot, data).map(|()| at_ns),
            None => Ok(ftl.read(lpn, data, at_ns)?),
        }
    }

    pub(super) fn read_with_metadata(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        metadata: &mut Metadata,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let ready_ns = self.read_unit(lpn, data, at_ns)?;
        *metadata = match self.cache.get(lpn) {
            Some(unit) => unit.metadata,
            None => self.ftl.metadata(lpn)?,
        };
        self.ftl.counters_mut().host_units_read += 1;
        Ok(port.transfer(ready_ns, data.len()))
    }
}

/// Reads a unit that waits for its page.
pub(super) fn read_buffer(ftl: &Ftl, lpn: Lpn, slot: Slot, data: &mut [u8]) -> Result<(), Status> {
    match ftl.nand().read_slot(slot, data) {
        Err(NandError::DataChecksum { .. }) => Err(Status::Unreadable { lpn }),
        read => Ok(read?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;
    use crate::command::Command;
    use crate::profile::Profile;

    #[test]
    fn prefetching_is_no_command_and_passes_over_what_is_not_there() {
        let profile = Profile { capacity_bytes: 64 << 20, ..Profile::load("openssd-barefoot").unwrap() };
        let mut device = Device::in_memory(&profile).unwrap();
        let units = 3 * PREFETCHED + 5;
        let data: Vec<u8> = (0..units).flat_map(|unit| [unit as u8; UNIT_BYTES]).collect();
        let mut now_ns = device.time_ns();
        for (lpn, unit) in (10..).map(Lpn).zip(data.chunks(UNIT_BYTES)) {
            now_ns = device
                .submit(Command::Write { lpn, data: unit, fua: true, handle: None }, now_ns)
                .unwrap()
                .done_ns;
        }
        let before = (device.smart(), device.time_ns());
        let some = [Lpn(0), Lpn(10), Lpn(u32::MAX), Lpn(profile.capacity_units() as u32)];
        device.prefetch(some.into_iter());
        device.prefetch((0..1000).map(Lpn));
        some.into_iter().for_each(|lpn| device.prefetch_data(lpn));
        assert_eq!((device.smart(), device.time_ns()), before);
        // more units than are prefetched at once, with some before and after them that were never written
        let mut found = vec![0xee; (units + 20) * UNIT_BYTES];
        device.submit(Command::Read { lpn: Lpn(0), data: &mut found }, now_ns).unwrap();
        assert_eq!(found[10 * UNIT_BYTES..][..data.len()], data);
        assert!(
            found[..10 * UNIT_BYTES]
                .iter()
                .chain(&found[10 * UNIT_BYTES + data.len()..])
                .all(|byte| *byte == 0)
        );
    }
}
