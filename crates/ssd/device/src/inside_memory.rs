//! Memory beside the flash (M7), for a client inside the drive that has its own, such as storage processors.
//!
//! The drive moves the bytes and keeps what M7 promises. How the memory is laid out, and how long its banks are busy, is up
//! to that client: its stores say from when to when they are under way.

use tantalum_nand::{Nand, Nanoseconds};

use crate::controller::Device;
use crate::status::Status;

/// The memory at one time; see [`Device::inside_memory`].
#[derive(Debug)]
pub struct InsideMemory<'a> {
    nand: &'a mut Nand,
    done_ns: &'a mut Nanoseconds,
    now_ns: Nanoseconds,
}

impl Device {
    /// The memory at `at_ns`, or when the drive is ready and its last command was issued, if that is later.
    ///
    /// # Errors
    /// [`Status::PowerLost`].
    ///
    /// # Panics
    /// If the profile has no such memory ([`SpuProfile::memory`](crate::SpuProfile::memory)): a bug of the caller.
    pub fn inside_memory(&mut self, at_ns: Nanoseconds) -> Result<InsideMemory<'_>, Status> {
        assert!(self.profile.spu.memory.is_some(), "the memory beside the flash is the drive's own");
        let at_ns = at_ns.max(self.issued_ns).max(self.ready_ns);
        self.note_issue(at_ns)?;
        let Device { power, done_ns, .. } = self;
        Ok(InsideMemory { nand: power.engine_mut()?.ftl.nand_mut(), done_ns, now_ns: at_ns })
    }

    /// How often power has come on. Whatever a client inside the drive keeps in the drive's DRAM is lost when this
    /// changes (M5).
    pub fn power_ons(&self) -> u64 {
        self.power_ons
    }
}

impl InsideMemory<'_> {
    /// The time.
    pub fn now_ns(&self) -> Nanoseconds {
        self.now_ns
    }

    /// Loads whole words of 8 bytes. Returns when they are there, if nothing else keeps the memory busy.
    pub fn load(&mut self, address: u64, data: &mut [u8]) -> Result<Nanoseconds, Status> {
        Ok(self.nand.nvm_load(address, data, self.now_ns)?)
    }

    /// Stores whole words of 8 bytes from `start_ns` to `end_ns`. If power fails in between, each word is there or not.
    /// Stores to one bank follow each other.
    pub fn store(
        &mut self,
        parts: &[(u64, &[u8])],
        start_ns: Nanoseconds,
        end_ns: Nanoseconds,
    ) -> Result<(), Status> {
        self.nand.nvm_store_during(parts, start_ns, end_ns)?;
        Ok(())
    }

    /// The drive is at work for this client until then ([`Device::time_ns`]).
    pub fn busy_until(&mut self, ns: Nanoseconds) {
        *self.done_ns = ns.max(*self.done_ns);
    }
}
