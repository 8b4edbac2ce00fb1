//! Reading: from the cache, else from flash.

use tantalum_ftl::{FtlError, Lpn, Metadata};
use tantalum_nand::{Nanoseconds, UNIT_BYTES};

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
        for (index, unit) in data.chunks_exact_mut(UNIT_BYTES).enumerate() {
            let lpn = Lpn(lpn.0 + index as u32);
            ready_ns = ready_ns.max(self.read_unit(lpn, unit, at_ns)?);
        }
        self.host.units_read += (data.len() / UNIT_BYTES) as u64;
        Ok(self.link.transfer(ready_ns, data.len()))
    }

    pub(crate) fn read_unit(
        &mut self,
        lpn: Lpn,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let cached = self.cache.get(lpn).map(|unit| unit.slot);
        let ftl = self.ftl_mut()?;
        let done_ns = match cached {
            Some(slot) => ftl.nand().read_slot(slot, data).map(|()| at_ns).map_err(FtlError::from),
            None => ftl.read(lpn, data, at_ns),
        };
        done_ns.map_err(Status::from)
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
        self.host.units_read += 1;
        Ok(self.link.transfer(ready_ns, data.len()))
    }
}
