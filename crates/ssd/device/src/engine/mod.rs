//! What commands do: to the cache, to its waiting units, and through the FTL to flash.
//!
//! The engine takes commands whose shape was checked. It knows neither the host's link nor its timing: data come and go
//! through a [`Port`] that the controller passes in. So a client inside the drive uses the same engine without paying
//! for the link.

mod batch;
mod cache;
mod file_lists;
mod host_data;
mod key_value;
mod mapping;
mod read;
mod transaction;
mod write;
mod zones;

use tantalum_ftl::{Ftl, FtlError, GivenBack, Handle, HostUnit, Lpn, PlacementEvent, Portion, Slack, TxId};
use tantalum_nand::{LostProgram, Nand, Nanoseconds, Operation, Slot, UNIT_BYTES};

use cache::Cache;
use host_data::{HostData, PlainWrite};
pub use key_value::{KeyValueLimits, LIMITS as KEY_VALUE_LIMITS};

use crate::command::Command;
use crate::profile::{CacheMode, Profile};
use crate::status::Status;

/// The path of a command's data between the client and the drive's DRAM.
pub trait Port {
    /// When `bytes` that are ready at `ready_ns` have crossed the link.
    fn transfer(&mut self, ready_ns: Nanoseconds, bytes: usize) -> Nanoseconds;
}

/// The port of a client inside the drive, which uses the same DRAM.
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
    /// Units that the cache holds if nothing else uses the capacitor's budget.
    cache_units: usize,
    /// Whether there is no cache: a write completes when it is on flash.
    writes_through: bool,
    open_transactions: u32,
    units_per_page: usize,
    /// Units of the largest write that is all or nothing.
    atomic_write_units: usize,
    /// Units of the largest group that waits in the cache, and leaves it in one batch.
    group_units: usize,
    /// Gathers the next page of host units, or the units of a write that is all or nothing.
    page: Vec<HostUnit>,
}

impl Engine {
    /// Creates one with an empty cache.
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
            atomic_write_units: profile.limits.atomic_write_units as usize,
            group_units: profile.limits.atomic_units as usize,
            page: Vec::new(),
        };
        engine.fit_cache();
        engine
    }

    /// A copy of an engine whose flash is in memory; none for others.
    pub fn try_clone(&self) -> Option<Engine> {
        Some(Engine {
            ftl: self.ftl.try_clone()?,
            cache: self.cache.clone(),
            transaction_units: self.transaction_units.clone(),
            page: Vec::new(),
            ..*self
        })
    }

    /// Units that wait in buffers, in the cache or of transactions.
    pub fn waiting_units(&self) -> u64 {
        (self.cache.len() + self.transaction_units.len()) as u64
    }

    /// Whether a unit is mapped or waits in the cache.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        self.cache.get(lpn).is_some() || self.ftl.map().lookup(lpn).is_some()
    }

    /// Executes a command, and records the losses that firmware met on the way: until a checkpoint says where a lost unit is,
    /// a cut may bring back what was there earlier.
    pub fn execute(
        &mut self,
        command: &mut Command<'_>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let done = self.dispatch(command, port, at_ns);
        if self.ftl.has_unrecorded_loss() {
            return self.record_loss(done, at_ns);
        }
        // only the time goes on: see `dispatch`
        let done_ns = done?;
        Ok(done_ns)
    }

    #[cold]
    fn record_loss(
        &mut self,
        done: Result<Nanoseconds, Status>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        if done.as_ref().is_err_and(Status::leaves_doubt) || !self.ftl.has_loss_to_record() {
            return done;
        }
        match self.ftl.take_checkpoint(at_ns, false) {
            Ok(recorded_ns) => done.map(|done_ns| done_ns.max(recorded_ns)),
            // a drive at its end has no room for it, and accepts no writes that could be mistaken for older ones
            Err(FtlError::CapacityExceeded) => done,
            Err(error) => Err(error.into()),
        }
    }

    /// Executes a command. Its results go where it says, and only the completion time is returned: in a structure it would
    /// be loaded with another width than it was stored. Store forwarding does not work then, and such a load right after a
    /// copy of data stalls.
    fn dispatch(
        &mut self,
        command: &mut Command<'_>,
        port: &mut impl Port,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        match *command {
            Command::Read { lpn, ref mut data } => self.read(lpn, data, port, at_ns),
            Command::ReadLater { lpn, ref mut data, ref mut fetches } => {
                self.read_later(lpn, data, fetches, port, at_ns)
            }
            Command::ReadWithMetadata { lpn, ref mut data, ref mut metadata } => {
                self.read_with_metadata(lpn, data, metadata, port, at_ns)
            }
            Command::Write { lpn, data, fua, handle } => {
                let handle = handle.unwrap_or_default();
                self.write(PlainWrite { lpn, data, fua, handle }, None, port, at_ns)
            }
            Command::WriteFilled { lpn, data, ref mut fills, handle } => {
                let handle = handle.unwrap_or_default();
                self.write(PlainWrite { lpn, data, fua: false, handle }, Some(fills), port, at_ns)
            }
            Command::WriteWithMetadata { lpn, data, metadata, fua } => {
                let unit = HostData { metadata: *metadata, ..HostData::plain(lpn, data) };
                self.write_one(unit, fua, port, at_ns)
            }
            Command::WriteHinted { lpn, data, metadata, hint } => {
                let unit = HostData { metadata: *metadata, hint: Some(hint), ..HostData::plain(lpn, data) };
                self.write_hinted(unit, &hint, port, at_ns)
            }
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                self.trim(lpn, units, at_ns)
            }
            Command::Flush => self.flush(at_ns),
            Command::Share { ranges, deferred } => self.share(ranges, deferred, at_ns),
            Command::Remap { src, dst, units } => self.remap(src, dst, units, at_ns),
            Command::WriteAtomic { writes } => self.write_batch(writes, &[], port, at_ns),
            Command::WriteBatch { writes, records } => self.write_batch(writes, records, port, at_ns),
            Command::Begin { ref mut tx } => self.begin(tx, at_ns),
            Command::TxWrite { tx, lpn, data } => self.tx_write(tx, lpn, data, port, at_ns),
            Command::TxRead { tx, lpn, ref mut data } => self.tx_read(tx, lpn, data, port, at_ns),
            Command::Commit { tx } => self.commit(tx, at_ns),
            Command::Abort { tx } => self.abort(tx, at_ns),
            Command::BeginLog { ref mut generation } => self.begin_log(generation, at_ns),
            Command::FsWrite { lpn, data, file, offset } => {
                self.fs_write(lpn, data, file, offset, port, at_ns)
            }
            Command::ReadFileList { file, ref mut entries } => {
                self.read_file_list(file, entries, port, at_ns)
            }
            Command::ListFiles { ref mut files } => self.list_files(files, port, at_ns),
            Command::ClearFileLists { file } => self.clear_file_lists(file, at_ns),
            Command::CreateNamespace { attributes, ref mut namespace } => {
                self.create_namespace(attributes, namespace, at_ns)
            }
            Command::DeleteNamespace { namespace } => self.delete_namespace(namespace, at_ns),
            Command::KvPut { records } => self.kv_put(records, port, at_ns),
            Command::KvGet { namespace, key, ref mut value } => {
                self.kv_get(namespace, &key, value, port, at_ns)
            }
            Command::KvExists { namespace, key } => self.kv_exists(namespace, &key, at_ns),
            Command::KvDelete { namespace, key } => self.kv_delete(namespace, key, at_ns),
            Command::KvList { namespace, from, ref mut keys, limit } => {
                self.kv_list(namespace, from.as_ref(), keys, limit, port, at_ns)
            }
            Command::ZoneRead { zone, offset, ref mut data } => {
                self.zone_read(zone, offset, data, port, at_ns)
            }
            Command::ZoneWrite { zone, offset, data, fua } => {
                self.zone_write(zone, Some(offset), (data, fua), port, at_ns).map(|(done_ns, _)| done_ns)
            }
            Command::ZoneAppend { zone, data, fua, ref mut offset } => {
                let (done_ns, first) = self.zone_write(zone, None, (data, fua), port, at_ns)?;
                **offset = first;
                Ok(done_ns)
            }
            Command::ZoneManage { zone, action } => self.zone_manage(zone, action, at_ns),
        }
    }

    /// Gives space of the image back: returns when that is done, and what is left.
    pub fn give_space_back(
        &mut self,
        slack: Slack,
        portion: Portion,
        at_ns: Nanoseconds,
    ) -> Result<(Nanoseconds, GivenBack), Status> {
        let (done_ns, given) = self.ftl.give_space_back(slack, portion, at_ns)?;
        let done =
            if self.ftl.has_unrecorded_loss() { self.record_loss(Ok(done_ns), at_ns) } else { Ok(done_ns) };
        Ok((done?, given))
    }

    /// A handle begins its next reclaim unit: what waits with this handle goes into the one before.
    pub fn update_handle(&mut self, handle: Handle, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.maintain(at_ns)?;
        while self.cache.count_with(handle) > 0 {
            self.drain_page_of(Some(handle), at_ns)?;
        }
        self.ftl.begin_reclaim_unit(handle, at_ns);
        Ok(at_ns)
    }

    /// Units that wait in the cache with a handle.
    pub fn waiting_with(&self, handle: Handle) -> u64 {
        self.cache.count_with(handle) as u64
    }

    /// What happened to reclaim units, which is then forgotten.
    pub fn take_placement_events(&mut self) -> Vec<PlacementEvent> {
        self.ftl.take_placement_events()
    }

    /// Counts units that a host's commands changed without data.
    pub fn count_without_data(&mut self, units: u64) {
        self.ftl.counters_mut().host_units_without_data += units;
    }

    /// Erases every block that holds old data: returns when that is done, and how many could not be erased.
    pub fn purge(&mut self, at_ns: Nanoseconds) -> Result<(Nanoseconds, u32), Status> {
        self.maintain(at_ns)?;
        let settled_ns = self.settle(at_ns)?;
        Ok(self.ftl.purge(settled_ns)?)
    }

    fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        Ok(self.ftl.maintain(at_ns)?)
    }

    /// The same after a command has taken effect: what is missing now, such as room, the next command reports.
    fn maintain_after(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        self.maintain(at_ns).or_else(|status| if status.leaves_doubt() { Err(status) } else { Ok(()) })
    }

    /// The cache and the records that wait for namespaces' own logs share the capacitor's budget.
    fn fit_cache(&mut self) {
        self.cache.set_capacity(self.cache_units - self.ftl.waiting_log_units() as usize);
    }

    // -- the end ------------------------------------------------------------------------------------------------

    /// Sends everything that waits to flash.
    pub fn settle(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let drained_ns = self.drain(at_ns)?;
        self.drain_records(drained_ns)
    }

    /// A clean shutdown: nothing waits, no transaction is open, and a checkpoint says so.
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
        let waiting = self.transaction_units.len();
        assert!(waiting == 0, "{waiting} units of transactions wait, but none is open");
        match self.maintain(drained_ns).and_then(|()| Ok(self.ftl.take_checkpoint(drained_ns, true)?)) {
            // at the end of the drive's life there may be no room for it: the next recovery will find the same
            Err(Status::CapacityExceeded) if self.ftl.is_read_only() => Ok(drained_ns),
            closed => closed,
        }
    }

    /// The drive has become read-only: what it had acknowledged goes to flash, followed by a checkpoint, as long as
    /// there is room.
    pub fn settle_read_only(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        let drained = self.drain(at_ns).and_then(|_| self.drain_records(at_ns));
        match drained.and_then(|_| Ok(self.ftl.take_checkpoint(at_ns, false)?)) {
            Ok(_) | Err(Status::CapacityExceeded) => Ok(()),
            Err(status) => Err(status),
        }
    }

    /// Power has failed at `cut_ns`. `last` is the operation at which it failed, and `lost` are the programs that did not
    /// complete. With power-loss protection, what waits in DRAM is dumped. Returns the flash, and the number of units
    /// dumped.
    pub fn lose_power(
        mut self,
        last: Option<Operation>,
        lost: Vec<LostProgram>,
        cut_ns: Nanoseconds,
    ) -> Result<(Nand, u64), FtlError> {
        let mut dumped_units = 0;
        if self.ftl.has_plp() {
            // the command at which power failed may have programmed units without removing them from the cache
            let page = match last {
                Some(Operation::Program(page)) => Some(page),
                _ => None,
            };
            let mut cached = self.cache.drain();
            cached.retain(|unit| {
                !self.ftl.is_on_flash(unit.lpn, unit.version, page) && !self.ftl.is_on_zone_page(unit, page)
            });
            let lost = lost.into_iter().map(|program| without_cached(program, &cached)).collect();
            match self.ftl.dump(lost, cached.iter().copied(), cut_ns) {
                // after the end of the drive's life no blocks are reserved for a dump, and nothing is acknowledged that
                // would need one
                Err(FtlError::CapacityExceeded) if self.ftl.is_read_only() => {}
                dumped => dumped_units = dumped?,
            }
        }
        Ok((self.ftl.into_nand(), dumped_units))
    }
}

/// The units of a lost program that do not also wait in the cache.
fn without_cached(mut program: LostProgram, cached: &[HostUnit]) -> LostProgram {
    program.units.retain(|(slot, _)| !cached.iter().any(|unit| unit.slot == *slot));
    program
}
