//! Reading: from the cache, else from flash.

use tantalum_ftl::{Ftl, Lpn, Metadata, PREFETCHED};
use tantalum_nand::{Fetches, NandError, Nanoseconds, Slot, UNIT_BYTES};

use crate::device::Device;
use crate::status::Status;

impl Device {
    pub(crate) fn read(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_units(lpn, data.len())?;
        let mut ready_ns = at_ns;
        for (lpn, units) in (lpn.0..).step_by(PREFETCHED).zip(data.chunks_mut(PREFETCHED * UNIT_BYTES)) {
            let count = (units.len() / UNIT_BYTES) as u32;
            if count > 1 {
                self.prefetch((lpn..lpn + count).map(Lpn));
            }
            for (lpn, unit) in (lpn..).map(Lpn).zip(units.chunks_exact_mut(UNIT_BYTES)) {
                ready_ns = ready_ns.max(self.read_unit(lpn, unit, at_ns)?);
            }
        }
        self.counters_mut()?.host_units_read += (data.len() / UNIT_BYTES) as u64;
        Ok(self.link.transfer(ready_ns, data.len()))
    }

    /// What [`crate::Command::ReadLater`] adds to; none if the bytes of this drive cannot be fetched past it.
    pub fn fetches(&mut self) -> Option<Fetches> {
        self.ftl_mut().ok()?.nand_mut().fetches()
    }

    pub(crate) fn read_later(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        fetches: &mut Fetches,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_units(lpn, data.len())?;
        let mut ready_ns = at_ns;
        for (lpn, unit) in (lpn.0..).map(Lpn).zip(data.chunks_exact_mut(UNIT_BYTES)) {
            let cached = self.cache.get(lpn).map(|unit| unit.slot);
            let ftl = self.ftl_mut()?;
            match cached {
                Some(slot) => ftl.nand().read_slot_later(slot, fetches),
                None => ready_ns = ready_ns.max(ftl.read_later(lpn, unit, fetches, at_ns)?),
            }
        }
        self.counters_mut()?.host_units_read += (data.len() / UNIT_BYTES) as u64;
        Ok(self.link.transfer(ready_ns, data.len()))
    }

    /// Brings what reads of these units will look at into the processor's cache, for a host that knows its next
    /// commands, as one with a queue does: the misses of several take little longer than those of one. Of more than
    /// [`PREFETCHED`] only the first are looked at; what is out of range is passed over. It is no command: it takes no
    /// time and is counted nowhere.
    pub fn prefetch(&self, lpns: impl Iterator<Item = Lpn>) {
        if let Some(ftl) = self.ftl() {
            ftl.prefetch(lpns.filter(|lpn| lpn.0 < ftl.map().logical_units()));
        }
    }

    /// Whether a unit is mapped and reads as `data`. It is no command: it takes no time and is counted nowhere. For a
    /// host that remembers what it wrote, so that it need not keep the bytes a second time.
    pub fn holds(&self, lpn: Lpn, data: &[u8; UNIT_BYTES]) -> bool {
        let Some(ftl) = self.ftl() else { return false };
        match self.cache.get(lpn) {
            Some(unit) => ftl.nand().slot_holds(unit.slot, data),
            None => {
                self.check_range(lpn, 1).is_ok()
                    && ftl.map().lookup(lpn).is_some_and(|ppn| ftl.nand().holds(ppn, data))
            }
        }
    }

    pub(crate) fn read_unit(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let cached = self.cache.get(lpn).map(|unit| unit.slot);
        let ftl = self.ftl_mut()?;
        match cached {
            Some(slot) => read_buffer(ftl, lpn, slot, data).map(|()| at_ns),
            None => Ok(ftl.read(lpn, data, at_ns)?),
        }
    }

    pub(crate) fn read_with_metadata(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        metadata: &mut Metadata,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_one(lpn, data.len())?;
        let ready_ns = self.read_unit(lpn, data, at_ns)?;
        *metadata = match self.cache.get(lpn) {
            Some(unit) => unit.metadata,
            None => self.ftl_mut()?.metadata(lpn)?,
        };
        self.counters_mut()?.host_units_read += 1;
        Ok(self.link.transfer(ready_ns, data.len()))
    }
}

/// Reads a unit that waits for its page.
pub(crate) fn read_buffer(ftl: &Ftl, lpn: Lpn, slot: Slot, data: &mut [u8]) -> Result<(), Status> {
    match ftl.nand().read_slot(slot, data) {
        Err(NandError::DataChecksum { .. }) => Err(Status::Unreadable { lpn }),
        read => Ok(read?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            now_ns = device.submit(Command::Write { lpn, data: unit, fua: true }, now_ns).unwrap().done_ns;
        }
        let before = (device.smart(), device.time_ns());
        device.prefetch([Lpn(0), Lpn(10), Lpn(u32::MAX), Lpn(profile.capacity_units() as u32)].into_iter());
        device.prefetch((0..1000).map(Lpn));
        assert_eq!((device.smart(), device.time_ns()), before);
        // more units than are prefetched at once, with some before and behind that were never written
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
