//! What commands do: to the cache, to what waits in it, and through the FTL to flash.
//!
//! The engine takes commands whose shape was checked, and knows neither the host's link nor how long a command may take
//! on it: data come and go through a [`Port`], which the controller gives along. So a client inside the drive uses the same
//! engine without paying for the link.

mod cache;
mod key_value;
mod mapping;
mod read;
mod transaction;
mod write;

use tantalum_ftl::{Ftl, FtlError, HostUnit, Lpn, TxId};
use tantalum_nand::{LostProgram, Nand, Nanoseconds, Operation, Slot, UNIT_BYTES};

use cache::Cache;
pub use key_value::{KeyValueLimits, LIMITS as KEY_VALUE_LIMITS};
use write::HostData;

use crate::command::{Command, Completion};
use crate::profile::{CacheMode, Profile};
use crate::status::Status;

/// The way of a command's data between the client and the drive's DRAM.
pub trait Port {
    /// When `bytes` have crossed that may do so from `ready_ns` on.
    fn transfer(&mut self, ready_ns: Nanoseconds, bytes: usize) -> Nanoseconds;
}

/// The port of a client in the drive: it has the same DRAM.
pub struct Inside;

impl Port for Inside {
    fn transfer(&mut self, ready_ns: Nanoseconds, _bytes: usize) -> Nanoseconds {
        ready_ns
    }
}

/// Cache and FTL of a drive with power.
#[derive(Debug)]
pub struct Engine {
    pub ftl: Ftl,
    cache: Cache,
    /// Units of open transactions that wait for a full page.
    transaction_units: Vec<(TxId, Lpn, Slot)>,
    /// Units that the cache holds where nothing else takes of what a capacitor can dump.
    cache_units: usize,
    /// Whether there is no cache: a write is done when it is on flash.
    writes_through: bool,
    open_transactions: u32,
    units_per_page: usize,
    /// What the next page of host units is gathered in.
    page: Vec<HostUnit>,
}

impl Engine {
    /// With an empty cache.
    pub fn new(ftl: Ftl, profile: &Profile) -> Engine {
        let cache_units = profile.cache_units();
        let mut engine = Engine {
            ftl,
            cache: Cache::new(cache_units),
            transaction_units: Vec::new(),
            cache_units,
            writes_through: profile.cache.mode == CacheMode::Off,
            open_transactions: profile.limits.open_transactions,
            units_per_page: profile.flash.page_bytes as usize / UNIT_BYTES,
            page: Vec::new(),
        };
        engine.fit_cache();
        engine
    }

    /// A copy of one whose flash is in memory; none otherwise.
    pub fn try_clone(&self) -> Option<Engine> {
        Some(Engine {
            ftl: self.ftl.try_clone()?,
            cache: self.cache.clone(),
            transaction_units: self.transaction_units.clone(),
            page: Vec::new(),
            ..*self
        })
    }

    /// Whether a unit is mapped or waits in the cache.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        self.cache.get(lpn).is_some() || self.ftl.map().lookup(lpn).is_some()
    }

    /// Does a command. What it makes goes into `completion`; the time when it is done comes back by itself, because whatever
    /// is stored behind a copy of data can be read back at once only as it was stored.
    pub fn execute(
        &mut self,
        command: Command<'_>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
        completion: &mut Completion,
    ) -> Result<Nanoseconds, Status> {
        match command {
            Command::Read { lpn, data } => self.read(lpn, data, port, at_ns),
            Command::ReadLater { lpn, data, fetches } => self.read_later(lpn, data, fetches, port, at_ns),
            Command::ReadWithMetadata { lpn, data, metadata } => {
                self.read_with_metadata(lpn, data, metadata, port, at_ns)
            }
            Command::Write { lpn, data, fua } => self.write(lpn, data, fua, None, port, at_ns),
            Command::WriteFilled { lpn, data, fills } => {
                self.write(lpn, data, false, Some(fills), port, at_ns)
            }
            Command::WriteWithMetadata { lpn, data, metadata, fua } => {
                self.write_one(HostData { lpn, data, metadata: *metadata, hint: None }, fua, port, at_ns)
            }
            Command::WriteHinted { lpn, data, metadata, hint } => {
                let unit = HostData { lpn, data, metadata: *metadata, hint: Some(hint) };
                self.write_hinted(unit, &hint, port, at_ns)
            }
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                self.trim(lpn, units, at_ns)
            }
            Command::Flush => self.flush(at_ns),
            Command::Share { ranges, deferred } => self.share(ranges, deferred, at_ns),
            Command::Remap { src, dst, units } => self.remap(src, dst, units, at_ns),
            Command::WriteAtomic { writes } => self.write_atomic(writes, port, at_ns),
            Command::Begin => {
                let (tx, done_ns) = self.begin(at_ns)?;
                completion.tx = Some(tx);
                Ok(done_ns)
            }
            Command::TxWrite { tx, lpn, data } => self.tx_write(tx, lpn, data, port, at_ns),
            Command::TxRead { tx, lpn, data } => self.tx_read(tx, lpn, data, port, at_ns),
            Command::Commit { tx } => self.commit(tx, at_ns),
            Command::Abort { tx } => self.abort(tx, at_ns),
            Command::BeginLog => {
                let (generation, done_ns) = self.begin_log(at_ns)?;
                completion.generation = Some(generation);
                Ok(done_ns)
            }
            Command::CreateNamespace { attributes } => {
                let (namespace, done_ns) = self.create_namespace(attributes, at_ns)?;
                completion.namespace = Some(namespace);
                Ok(done_ns)
            }
            Command::DeleteNamespace { namespace } => self.delete_namespace(namespace, at_ns),
            Command::KvPut { records } => self.kv_put(records, port, at_ns),
            Command::KvGet { namespace, key, value } => self.kv_get(namespace, &key, value, port, at_ns),
            Command::KvExists { namespace, key } => self.kv_exists(namespace, &key, at_ns),
            Command::KvDelete { namespace, key } => self.kv_delete(namespace, key, at_ns),
            Command::KvList { namespace, from, keys, limit } => {
                self.kv_list(namespace, from, keys, limit, port, at_ns)
            }
        }
    }

    fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        Ok(self.ftl.maintain(at_ns)?)
    }

    /// The same behind a command that is done: if there is no room, the next one is told.
    fn maintain_after(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        match self.maintain(at_ns) {
            Err(Status::CapacityExceeded) => Ok(()),
            maintained => maintained,
        }
    }

    /// What a capacitor can dump is shared by the cache and by the records that wait for namespaces' own logs.
    fn fit_cache(&mut self) {
        self.cache.set_capacity(self.cache_units - self.ftl.waiting_log_units() as usize);
    }

    // -- the end ------------------------------------------------------------------------------------------------

    /// Everything that waits goes to flash.
    pub fn settle(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let drained_ns = self.drain(at_ns)?;
        self.drain_records(drained_ns)
    }

    /// What a clean shutdown leaves: nothing waits, no transaction is open, and a checkpoint tells so.
    pub fn close(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let drained_ns = match self.settle(at_ns) {
            Err(Status::CapacityExceeded) => {
                self.ftl.note_exhaustion();
                let read_only = self.ftl.is_read_only();
                return Err(if read_only { Status::ReadOnly } else { Status::CapacityExceeded });
            }
            drained => drained?,
        };
        let open: Vec<_> = self.ftl.transactions().open().collect();
        for tx in open {
            self.abort(tx, drained_ns)?;
        }
        match self.maintain(drained_ns).and_then(|()| Ok(self.ftl.take_checkpoint(drained_ns, true)?)) {
            // at the end of its life there may be no room for it: the next recovery finds what this one would
            Err(Status::CapacityExceeded) if self.ftl.is_read_only() => Ok(drained_ns),
            closed => closed,
        }
    }

    /// The drive has become read-only: what it had acknowledged goes to flash, and a checkpoint tells all there is, as
    /// long as there is room for that.
    pub fn settle_read_only(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        let drained = self.drain(at_ns).and_then(|_| self.drain_records(at_ns));
        match drained.and_then(|_| Ok(self.ftl.take_checkpoint(at_ns, false)?)) {
            Ok(_) | Err(Status::CapacityExceeded) => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Power has gone at `cut_ns`, `last` being the operation at which it went and `lost` the programs that are lost. With
    /// power-loss protection what waits in DRAM is dumped. Hands the flash out, and how many units were dumped.
    pub fn lose_power(
        mut self,
        last: Option<Operation>,
        lost: Vec<LostProgram>,
        cut_ns: Nanoseconds,
    ) -> Result<(Nand, u64), FtlError> {
        let mut dumped_units = 0;
        if self.ftl.has_plp() {
            // the command at which power went may have programmed units and not got to take them from the cache
            let page = match last {
                Some(Operation::Program(page)) => Some(page),
                _ => None,
            };
            let mut cached = self.cache.drain();
            cached.retain(|unit| !self.ftl.is_on_flash(unit.lpn, unit.version, page));
            let lost = lost.into_iter().map(|program| without_cached(program, &cached)).collect();
            match self.ftl.dump(lost, cached.iter().copied(), cut_ns) {
                // after its end no blocks are kept for a dump, and nothing is acknowledged that would need one
                Err(FtlError::CapacityExceeded) if self.ftl.is_read_only() => {}
                dumped => dumped_units = dumped?,
            }
        }
        Ok((self.ftl.into_nand(), dumped_units))
    }
}

/// The units of a lost program that do not wait in the cache as well.
fn without_cached(mut program: LostProgram, cached: &[HostUnit]) -> LostProgram {
    program.units.retain(|(slot, _)| !cached.iter().any(|unit| unit.slot == *slot));
    program
}
