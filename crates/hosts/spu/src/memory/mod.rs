//! Memory of the storage processors that keeps its contents (thesis, section 5.2: emulated phase-change memory), in drives
//! that have it. The drive stores words and knows when they are under way ([`tantalum::InsideMemory`]); banks, logs and wear
//! levelling are here.
//!
//! Invariant: a bank does one thing at a time. Different banks do not wait for each other.

mod bank;
mod layout;
mod start_gap;
#[cfg(test)]
mod tests;

use tantalum::{Device, Nanoseconds, STRIPE_BYTES, SpuProfile, Status};

pub use bank::MemoryCounters;
use bank::{At, Bank, Part};
use layout::Banks;

/// The banks.
#[derive(Debug)]
pub(crate) struct Memory {
    banks: Banks,
    /// Once they have been used since power came on the last time.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    /// [`Device::power_ons`], with which the rest is lost.
    power_ons: u64,
    banks: Vec<Bank>,
    counters: MemoryCounters,
}

impl Running {
    fn start(device: &mut Device, banks: Banks, at_ns: Nanoseconds) -> Result<Running, Status> {
        let (power_ons, mut counters) = (device.power_ons(), MemoryCounters::default());
        let mut memory = device.inside_memory(at_ns)?;
        let numbers = 0..banks.count as usize;
        let recovered = numbers.map(|number| Bank::recover(&mut memory, banks, number, &mut counters));
        Ok(Running { power_ons, banks: recovered.collect::<Result<_, Status>>()?, counters })
    }
}

impl Memory {
    /// The memory of a drive of this capacity; none if its processors use its flash.
    pub fn of(spu: &SpuProfile, capacity_bytes: u64) -> Option<Memory> {
        Banks::of(spu, capacity_bytes).map(|banks| Memory { banks, running: None })
    }

    /// What the banks have done since power came on.
    pub fn counters(&self) -> MemoryCounters {
        self.running.as_ref().map_or_else(MemoryCounters::default, |running| running.counters)
    }

    /// Loads bytes, starting at an address of the drive, within a stripe. Returns when they are there.
    pub fn load(
        &mut self,
        device: &mut Device,
        address: u64,
        data: &mut [u8],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let bytes = data.len() as u64;
        debug_assert!(is_in_stripe(address, bytes), "{bytes} bytes at {address} are loaded from two stripes");
        self.on_bank(device, address, at_ns, |at, place| at.load(place, data))
    }

    /// Stores bytes, all or nothing. The parts are in stripes of one processor. Returns when they are durable.
    ///
    /// # Panics
    /// If parts are in different banks, or do not fit into a bank's log: a bug of the caller.
    pub fn store(
        &mut self,
        device: &mut Device,
        parts: &[(u64, &[u8])],
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let Some(&(address, _)) = parts.first() else { return Ok(at_ns) };
        let banks = self.banks;
        let (bank, _) = banks.place(address);
        assert!(parts.iter().all(|(at, _)| banks.place(*at).0 == bank), "parts in different banks");
        let in_stripe = |(at, bytes): &(u64, &[u8])| is_in_stripe(*at, bytes.len() as u64);
        debug_assert!(parts.iter().all(in_stripe), "a part at {address} or after it is in two stripes");
        let places: Vec<Part<'_>> = parts.iter().map(|&(at, bytes)| (banks.place(at).1, bytes)).collect();
        self.on_bank(device, address, at_ns, |at, _| at.store(&places))
    }

    fn on_bank<T>(
        &mut self,
        device: &mut Device,
        address: u64,
        at_ns: Nanoseconds,
        work: impl FnOnce(&mut At<'_, '_>, u64) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let power_ons = device.power_ons();
        let running = match self.running.take_if(|running| running.power_ons == power_ons) {
            Some(running) => running,
            None => Running::start(device, self.banks, at_ns)?,
        };
        let running = self.running.insert(running);
        let (bank, place) = self.banks.place(address);
        let mut memory = device.inside_memory(at_ns)?;
        let mut at = running.banks[bank].at(&mut memory, self.banks, bank, &mut running.counters);
        let result = work(&mut at, place)?;
        let free_ns = at.free_ns();
        memory.busy_until(free_ns);
        Ok(result)
    }
}

/// Whether bytes lie within a stripe. Stripes that follow each other in a bank do not in the drive.
fn is_in_stripe(address: u64, bytes: u64) -> bool {
    address % STRIPE_BYTES + bytes <= STRIPE_BYTES
}
