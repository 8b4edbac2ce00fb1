//! Atomic batches: scattered units, records, or both, all or nothing, and durable when they are done.

use tantalum_ftl::{FtlError, Handle, HostUnit, KvRecord, Lpn, Seq};
use tantalum_nand::Nanoseconds;

use super::write::release_all;
use super::{Engine, Port};
use crate::status::Status;

/// Units with their data, one unit each.
type Writes<'a> = [(Lpn, &'a [u8])];

impl Engine {
    pub(super) fn write_batch(
        &mut self,
        writes: &Writes<'_>,
        records: &[KvRecord<'_>],
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        if writes.is_empty() {
            return self.kv_put(records, port, at_ns);
        }
        let record_bytes = self.check_records(records)?;
        self.maintain(at_ns)?;
        let (records, at_ns) = self.admit_batch(writes, records, at_ns)?;
        self.settle_replaced(writes.iter().map(|(lpn, _)| *lpn), at_ns)?;
        let ends_claims = writes.iter().any(|(lpn, _)| self.ftl.is_claiming_page(*lpn));
        let (units, mut arrived_ns) = self.stage_units(writes, port, at_ns)?;
        if record_bytes > 0 {
            arrived_ns = arrived_ns.max(port.transfer(at_ns, record_bytes));
        }
        let written = self.ftl.write_batch(&units, &records, arrived_ns);
        // records that waited for its keys went to flash, even if it is refused
        self.count_programmed_records()?;
        let done_ns = written?;
        for (lpn, _) in writes {
            self.forget_cached(*lpn)?;
        }
        self.ftl.count_written(Handle::DEFAULT, writes.len() as u64);
        self.claims_end(ends_claims, done_ns, at_ns)
    }

    /// Ensures room before anything is changed. Returns the records that are needed, and when the room is there.
    fn admit_batch<'a>(
        &mut self,
        writes: &Writes<'_>,
        records: &[KvRecord<'a>],
        at_ns: Nanoseconds,
    ) -> Result<(Vec<KvRecord<'a>>, Nanoseconds), Status> {
        let lpns = writes.iter().map(|(lpn, _)| *lpn);
        let waiting = self.cache.len();
        match self.ftl.admit_batch(lpns.clone(), records, waiting, at_ns) {
            // some of the waiting units may be new as well
            Err(FtlError::CapacityExceeded) if waiting > 0 => {
                self.drain(at_ns)?;
                Ok(self.ftl.admit_batch(lpns, records, 0, at_ns)?)
            }
            admitted => Ok(admitted?),
        }
    }

    /// Gives each unit a buffer. Returns them, and when the last one has arrived.
    fn stage_units(
        &mut self,
        writes: &Writes<'_>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<(Vec<HostUnit>, Nanoseconds), Status> {
        let mut units = Vec::with_capacity(writes.len());
        let mut arrived_ns = at_ns;
        for (lpn, data) in writes {
            arrived_ns = port.transfer(at_ns, data.len());
            match self.ftl.nand_mut().stage(data) {
                Ok(slot) => {
                    units.push(HostUnit::plain(slot, *lpn, Seq(0)));
                }
                Err(error) => {
                    release_all(&mut self.ftl, &units);
                    return Err(error.into());
                }
            }
        }
        Ok((units, arrived_ns))
    }
}
