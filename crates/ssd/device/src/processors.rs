//! What the storage processors ask of the drive: their own memory, if they have any.

use tantalum_nand::Nanoseconds;

use crate::controller::Device;
use crate::profile::STRIPE_BYTES;
use crate::spu_banks::Banks;
use crate::spu_memory::{At, Part, SpuMemory, SpuMemoryCounters};
use crate::status::Status;

impl Device {
    /// Whether the storage processors have their own memory, instead of using the drive's flash.
    pub fn has_spu_memory(&self) -> bool {
        self.profile.spu.memory.is_some()
    }

    /// What the processors' memory has done since power came on.
    pub fn spu_memory_counters(&self) -> SpuMemoryCounters {
        self.spu_memory.as_ref().map_or(SpuMemoryCounters::default(), SpuMemory::counters)
    }

    /// Loads bytes of the processors' memory, starting at `address`, within a stripe. Returns when they are there.
    ///
    /// # Panics
    /// If there is no such memory: a bug of the caller.
    pub fn spu_load(
        &mut self,
        address: u64,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let bytes = data.len() as u64;
        debug_assert!(is_in_stripe(address, bytes), "{bytes} bytes at {address} are loaded from two stripes");
        self.on_bank(address, at_ns, |at, place| at.load(place, data))
    }

    /// Stores to the processors' memory, all or nothing. The parts are in stripes of one processor. Returns when they are
    /// durable.
    ///
    /// # Panics
    /// If there is no such memory, if parts are in different banks, or if they do not fit into a bank's log: a bug of the
    /// caller.
    pub fn spu_store(&mut self, parts: &[(u64, &[u8])], at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let Some(&(address, _)) = parts.first() else { return Ok(at_ns) };
        let banks = self.spu_banks();
        let (bank, _) = banks.place(address);
        assert!(parts.iter().all(|(at, _)| banks.place(*at).0 == bank), "parts in different banks");
        let in_stripe = |(at, bytes): &(u64, &[u8])| is_in_stripe(*at, bytes.len() as u64);
        debug_assert!(parts.iter().all(in_stripe), "a part at {address} or after it is in two stripes");
        let places: Vec<Part<'_>> = parts.iter().map(|&(at, bytes)| (banks.place(at).1, bytes)).collect();
        self.on_bank(address, at_ns, |at, _| at.store(&places))
    }

    fn spu_banks(&self) -> Banks {
        self.profile.spu_banks().expect("the processors have memory")
    }

    fn on_bank<T>(
        &mut self,
        address: u64,
        at_ns: Nanoseconds,
        work: impl FnOnce(&mut At<'_>, u64) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let at_ns = at_ns.max(self.issued_ns).max(self.ready_ns);
        self.issued_ns = at_ns;
        if self.spu_memory.is_none() {
            let banks = self.spu_banks();
            self.spu_memory = Some(SpuMemory::recover(self.engine_mut()?.ftl.nand_mut(), banks, at_ns)?);
        }
        let mut memory = self.spu_memory.take().expect("it was just recovered");
        let banks = self.spu_banks();
        let (bank, place) = banks.place(address);
        let result = self.engine_mut().and_then(|engine| {
            let nand = engine.ftl.nand_mut();
            nand.advance(at_ns);
            let mut at = memory.at(nand, banks, bank, at_ns);
            let result = work(&mut at, place);
            Ok((result?, at.free_ns()))
        });
        self.spu_memory = Some(memory);
        let (result, free_ns) = result?;
        self.done_ns = self.done_ns.max(free_ns);
        Ok(result)
    }
}

/// Whether bytes lie within a stripe. Stripes that follow each other in a bank do not in the drive.
fn is_in_stripe(address: u64, bytes: u64) -> bool {
    address % STRIPE_BYTES + bytes <= STRIPE_BYTES
}
