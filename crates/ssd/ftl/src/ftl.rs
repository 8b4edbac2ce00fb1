//! The flash translation layer: what its users call. Each command reserves room ([`crate::reservation`]), and then its step
//! changes the parts ([`crate::parts`]).
//!
//! Each operation takes the earliest time at which it may start and returns the time at which it is done. State changes
//! at once; the medium knows what was in flight when power fails.

use std::ops::{Deref, DerefMut};

use tantalum_nand::{Nand, Nanoseconds};

use crate::allocate::Allocator;
use crate::error::FtlError;
use crate::metadata::Record;
use crate::parts::{Parts, Scratch};
use crate::reservation::{Need, Purpose};
use crate::types::{Generation, TxId};

/// The flash translation layer.
#[derive(Debug)]
pub struct Ftl {
    pub(crate) allocator: Allocator,
}

impl Deref for Ftl {
    type Target = Allocator;

    fn deref(&self) -> &Allocator {
        &self.allocator
    }
}

impl DerefMut for Ftl {
    fn deref_mut(&mut self) -> &mut Allocator {
        &mut self.allocator
    }
}

impl Ftl {
    /// Returns the medium; everything in DRAM is lost.
    pub fn into_nand(self) -> Nand {
        self.allocator.parts.nand
    }

    /// Starts a life of a hinted log; returns it with the time at which that is done. If too many are open, the least
    /// recently used one is forgotten, which takes a checkpoint; then no log page waits in a cache. None if all of them
    /// have living hints.
    pub fn begin_log(&mut self, at_ns: Nanoseconds) -> Result<Option<(Generation, Nanoseconds)>, FtlError> {
        if self.tenants.units.logs.is_full() {
            self.take_checkpoint(at_ns, false)?;
            if !self.tenants.units.logs.forget_idle() {
                return Ok(None);
            }
        }
        let done_ns = self.mark_power_on(at_ns)?;
        let generation = Generation(self.next_seq().0);
        self.tenants.units.logs.begin(generation);
        Ok(Some((generation, done_ns)))
    }

    /// Numbers issued to hosts are never reused. After a cut a gap is left for those that left no trace on flash, so
    /// the flash must show that the drive is no longer shut down. Returns when it does.
    fn mark_power_on(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, FtlError> {
        let tells = self.metadata.has_data_since() && self.nand.programs_done_ns() <= self.nand.now_ns();
        if !self.shut_down || tells {
            self.shut_down = false;
            return Ok(at_ns);
        }
        let mut room = self.reserve(&Need::record(Purpose::PowerOn), at_ns)?;
        let step = self.next_seq();
        self.append_journal(&mut room, &[Record::PowerOn { step }], at_ns)?;
        let done_ns = if self.has_plp() { at_ns } else { self.flush_journal(at_ns)? };
        self.shut_down = false;
        Ok(done_ns)
    }

    /// Opens a transaction; returns it with the time at which that is done.
    pub fn begin_transaction(&mut self, at_ns: Nanoseconds) -> Result<(TxId, Nanoseconds), FtlError> {
        let done_ns = self.mark_power_on(at_ns)?;
        let tx = TxId(self.next_seq().0);
        self.tenants.units.transactions.begin(tx);
        Ok((tx, done_ns))
    }

    /// A copy of the whole drive, if its flash is in memory.
    pub fn try_clone(&self) -> Option<Ftl> {
        let parts = Parts {
            nand: self.nand.try_clone()?,
            geometry: self.geometry,
            config: self.config,
            space: self.space.clone(),
            map: self.map.clone(),
            metadata: self.metadata.clone(),
            tenants: self.tenants.clone(),
            batches: self.batches.clone(),
            file_lists: self.file_lists.clone(),
            seq: self.seq,
            shut_down: self.shut_down,
            is_stopped: self.is_stopped,
            counters: self.counters,
            scratch: Scratch::default(),
        };
        Some(Ftl::of(parts))
    }

    /// A drive with these parts.
    pub(crate) fn of(parts: Parts) -> Ftl {
        Ftl { allocator: Allocator { parts } }
    }
}
