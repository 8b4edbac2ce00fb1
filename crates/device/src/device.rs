//! The drive: commands go in with the time at which they are issued, and come out with the time at which they are
//! done.
//!
//! Invariants:
//! - A write is acknowledged when its data are in the cache (or on flash, without one). Without power-loss
//!   protection it is durable after the next flush; with it, at once.
//! - What waits in the cache and on the way to flash never exceeds what the capacitor can dump (hazard 12).
//! - Whatever a command refuses, it has changed nothing.

use tantalum_ftl::canary::{self, Guard};
use tantalum_ftl::{
    Ftl, FtlError, Generation, HostUnit, Lpn, Metadata, RecoveryReport, Seq, ShareRange, TxId,
};
use tantalum_nand::{Nand, NandError, Nanoseconds, Slot, UNIT_BYTES};

use crate::cache::Cache;
use crate::command::{Command, Completion};
use crate::latency::Latencies;
use crate::link::Link;
use crate::profile::{CacheMode, Profile};
use crate::smart::{AVAILABLE_SPARE_THRESHOLD_PERCENT, FlashUnits, Smart, available_spare_percent};
use crate::status::Status;

/// What the drive tells about itself (NVMe Identify).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Logical capacity in units.
    pub capacity_units: u64,
    /// Units in one `write_atomic`.
    pub atomic_units: u32,
    /// Units in one `share` or `remap`.
    pub share_units: u32,
    /// Transactions open at once.
    pub open_transactions: u32,
    /// Units that all open transactions may hold together.
    pub transaction_units: u32,
    /// Hints that may live at once.
    pub hints: u32,
}

/// Counters of the controller, kept with the FTL's so that they survive power cycles.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostCounters {
    pub units_written: u64,
    pub units_read: u64,
    pub flushes: u64,
    pub unsafe_shutdowns: u64,
}

/// The drive.
#[derive(Debug)]
pub struct Device {
    pub(crate) profile: Profile,
    pub(crate) power: Power,
    pub(crate) cache: Cache,
    link: Link,
    /// Units of open transactions that wait for a full page.
    pub(crate) transaction_units: Vec<(TxId, Lpn, Slot)>,
    pub(crate) host: HostCounters,
    pub(crate) latencies: Latencies,
    pub(crate) recovery: RecoveryReport,
    /// Units that the capacitor saved and that are not recovered yet.
    pub(crate) dumped_units: u64,
    /// The latest time that was given as the end of a command.
    pub(crate) done_ns: Nanoseconds,
    /// When the drive is ready for commands: recovery takes its time, and so do the erases for the dump area.
    pub(crate) ready_ns: Nanoseconds,
    /// A cut that is armed for the recovery to come.
    pub(crate) next_cut: Option<u64>,
    /// Whether the drive is read-only and has done what is to be done at the end of its life.
    pub(crate) settled_read_only: bool,
    page: Vec<HostUnit>,
}

/// Whether the drive has power.
#[derive(Debug)]
pub(crate) enum Power {
    On(Box<Ftl>),
    /// Without power only the flash is there; not even that while the drive is being opened.
    Off(Option<Box<Nand>>),
}

impl Device {
    pub(crate) fn assemble(profile: Profile, power: Power, cache_units: usize) -> Device {
        Device {
            cache: Cache::new(cache_units),
            link: Link::new(&profile.link),
            profile,
            power,
            transaction_units: Vec::new(),
            host: HostCounters::default(),
            latencies: Latencies::new(),
            recovery: RecoveryReport::default(),
            dumped_units: 0,
            done_ns: 0,
            ready_ns: 0,
            next_cut: None,
            settled_read_only: false,
            page: Vec::new(),
        }
    }

    /// A copy of a drive whose flash is in memory, with power or without; none otherwise.
    pub fn try_clone(&self) -> Option<Device> {
        let power = match &self.power {
            Power::On(ftl) => Power::On(Box::new(ftl.try_clone()?)),
            Power::Off(nand) => Power::Off(Some(Box::new(nand.as_ref()?.try_clone()?))),
        };
        Some(Device {
            profile: self.profile.clone(),
            power,
            cache: self.cache.clone(),
            link: self.link.clone(),
            transaction_units: self.transaction_units.clone(),
            host: self.host,
            latencies: self.latencies.clone(),
            recovery: self.recovery,
            dumped_units: self.dumped_units,
            done_ns: self.done_ns,
            ready_ns: self.ready_ns,
            next_cut: self.next_cut,
            settled_read_only: self.settled_read_only,
            page: Vec::new(),
        })
    }

    pub(crate) fn ftl(&self) -> Option<&Ftl> {
        match &self.power {
            Power::On(ftl) => Some(ftl),
            Power::Off(_) => None,
        }
    }

    pub(crate) fn ftl_mut(&mut self) -> Result<&mut Ftl, Status> {
        match &mut self.power {
            Power::On(ftl) => Ok(ftl),
            Power::Off(_) => Err(Status::PowerLost),
        }
    }

    /// The profile that made the drive.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What the drive does in one step.
    pub fn limits(&self) -> Limits {
        let ftl = self.ftl();
        Limits {
            capacity_units: self.profile.capacity_bytes / UNIT_BYTES as u64,
            atomic_units: self.profile.limits.atomic_units,
            share_units: ftl.map_or(0, Ftl::share_limit),
            open_transactions: self.profile.limits.open_transactions,
            transaction_units: ftl.map_or(0, |ftl| ftl.layout().transaction_units_limit),
            hints: ftl.map_or(0, |ftl| ftl.layout().hints_limit),
        }
    }

    /// When all that was asked of the drive so far is done, in device time: a new client's clock starts here. One that
    /// started earlier would see commands undone by a power cut that had been acknowledged to the client before it.
    pub fn time_ns(&self) -> Nanoseconds {
        self.done_ns.max(self.ready_ns)
    }

    /// Whether a unit is mapped or waits in the cache.
    pub fn is_mapped(&self, lpn: Lpn) -> bool {
        self.cache.get(lpn).is_some() || self.ftl().is_some_and(|ftl| ftl.map().lookup(lpn).is_some())
    }

    /// What recovery did when power came on last.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Latencies of commands since power came on.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Checks the invariants of the maps, and panics if one is broken.
    pub fn audit(&self) {
        if let Power::On(ftl) = &self.power {
            let audit = ftl.audit_maps();
            let findings: Vec<String> = audit.findings().map(ToString::to_string).collect();
            assert!(findings.is_empty(), "the maps disagree: {}", findings.join("; "));
        }
    }

    /// The counters.
    pub fn smart(&self) -> Smart {
        let Some(ftl) = self.ftl() else { return Smart::default() };
        let counters = ftl.counters();
        let programmed = &counters.programmed;
        let (wear, spare) = (ftl.wear(), ftl.spare_good_blocks());
        Smart {
            host_units_written: self.host.units_written,
            host_units_read: self.host.units_read,
            flash_units: FlashUnits {
                host: programmed.host,
                padding: programmed.padding,
                copyback: programmed.copyback,
                journal: programmed.journal,
                checkpoint: programmed.checkpoint,
                dump: programmed.dump,
            },
            blocks_erased: counters.erased,
            units_shared: counters.shared,
            units_brought_home: counters.brought_home,
            units_remapped: counters.remapped,
            transactions_committed: counters.committed,
            flushes: self.host.flushes,
            unsafe_shutdowns: self.host.unsafe_shutdowns,
            erase_count_min: wear.min,
            erase_count_max: wear.max,
            erase_count_mean: wear.mean,
            bad_blocks: wear.bad_blocks,
            collections: counters.collections,
            checkpoints: counters.checkpoints,
            program_failures: counters.program_failures,
            erase_failures: counters.erase_failures,
            uncorrectable_reads: counters.uncorrectable_reads,
            spare_blocks: spare.available,
            available_spare_percent: available_spare_percent(spare, ftl.is_read_only()),
            available_spare_threshold_percent: AVAILABLE_SPARE_THRESHOLD_PERCENT,
            read_only: ftl.is_read_only(),
        }
    }

    /// Bytes of host memory for maps, per logical unit, beside data and spare areas.
    pub fn dram_bytes_per_unit(&self) -> f64 {
        let Some(ftl) = self.ftl() else { return 0.0 };
        ftl.dram_bytes() as f64 / f64::from(ftl.map().logical_units())
    }

    /// Does one command, issued at `at_ns`. The time must not go back from one command to the next.
    pub fn submit(&mut self, command: Command<'_>, at_ns: Nanoseconds) -> Result<Completion, Status> {
        if !self.has_power() {
            return Err(Status::PowerLost);
        }
        let kind = crate::latency::Kind::of(&command);
        let start_ns = self.link.command(at_ns.max(self.ready_ns));
        if command.changes_units() && self.is_read_only() {
            return Err(Status::ReadOnly);
        }
        let executed = self.execute(command, start_ns);
        if matches!(executed, Err(Status::CapacityExceeded)) {
            self.ftl_mut()?.note_exhaustion();
        }
        let read_only = self.is_read_only();
        if read_only && !self.settled_read_only {
            self.settle_read_only(start_ns)?;
        }
        let completion = executed.map_err(|status| self.ended_badly(status, read_only))?;
        self.latencies.record(kind, completion.done_ns - at_ns);
        self.done_ns = self.done_ns.max(completion.done_ns);
        Ok(completion)
    }

    fn ended_badly(&mut self, status: Status, read_only: bool) -> Status {
        match status {
            // not the host's data fill the flash: blocks are missing
            Status::CapacityExceeded if read_only => Status::ReadOnly,
            // the host learns of a loss when it can no longer be undone by a cut
            Status::Unreadable { .. } => {
                self.done_ns = self.done_ns.max(self.ftl().map_or(0, |ftl| ftl.nand().programs_done_ns()));
                status
            }
            status => status,
        }
    }

    fn execute(&mut self, command: Command<'_>, at_ns: Nanoseconds) -> Result<Completion, Status> {
        let done = |done_ns| Completion { done_ns, ..Completion::default() };
        match command {
            Command::Read { lpn, data } => self.read(lpn, data, at_ns).map(done),
            Command::ReadWithMetadata { lpn, data, metadata } => {
                self.read_with_metadata(lpn, data, metadata, at_ns).map(done)
            }
            Command::Write { lpn, data, fua } => self.write(lpn, data, fua, at_ns).map(done),
            Command::WriteWithMetadata { lpn, data, metadata, fua } => {
                self.write_one(lpn, data, *metadata, None, fua, at_ns).map(done)
            }
            Command::WriteHinted { lpn, data, metadata, hint } => {
                self.write_hinted(lpn, data, *metadata, hint, at_ns).map(done)
            }
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                self.trim(lpn, units, at_ns).map(done)
            }
            Command::Flush => self.flush(at_ns).map(done),
            Command::Share { ranges, deferred } => self.share(ranges, deferred, at_ns).map(done),
            Command::Remap { src, dst, units } => self.remap(src, dst, units, at_ns).map(done),
            Command::WriteAtomic { writes } => self.write_atomic(writes, at_ns).map(done),
            Command::Begin => {
                let tx = self.begin(at_ns)?;
                Ok(Completion { done_ns: at_ns, tx: Some(tx), generation: None })
            }
            Command::TxWrite { tx, lpn, data } => self.tx_write(tx, lpn, data, at_ns).map(done),
            Command::TxRead { tx, lpn, data } => self.tx_read(tx, lpn, data, at_ns).map(done),
            Command::Commit { tx } => self.commit(tx, at_ns).map(done),
            Command::Abort { tx } => self.abort(tx, at_ns).map(done),
            Command::BeginLog => {
                let ftl = self.ftl_mut()?;
                let generation = Generation(ftl.next_seq().0);
                ftl.begin_log(generation);
                Ok(Completion { done_ns: at_ns, tx: None, generation: Some(generation) })
            }
        }
    }

    // -- checks -------------------------------------------------------------------------------------------------

    pub(crate) fn check_range(&self, lpn: Lpn, units: u64) -> Result<(), Status> {
        let capacity_units = self.limits().capacity_units;
        if u64::from(lpn.0) + units > capacity_units {
            return Err(Status::OutOfRange { lpn, units, capacity_units });
        }
        Ok(())
    }

    fn check_units(&self, lpn: Lpn, bytes: usize) -> Result<(), Status> {
        if bytes == 0 || !bytes.is_multiple_of(UNIT_BYTES) {
            return Err(Status::DataLength {
                bytes,
                expected: "a whole number of units of 4096 bytes, at least one",
            });
        }
        self.check_range(lpn, (bytes / UNIT_BYTES) as u64)
    }

    pub(crate) fn check_one(&self, lpn: Lpn, bytes: usize) -> Result<(), Status> {
        if bytes != UNIT_BYTES {
            return Err(Status::DataLength { bytes, expected: "exactly one unit of 4096 bytes" });
        }
        self.check_range(lpn, 1)
    }

    // -- reading ------------------------------------------------------------------------------------------------

    fn read(&mut self, lpn: Lpn, data: &mut [u8], at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
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

    fn read_with_metadata(
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

    // -- writing ------------------------------------------------------------------------------------------------

    fn write(&mut self, lpn: Lpn, data: &[u8], fua: bool, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.check_units(lpn, data.len())?;
        self.maintain(at_ns)?;
        let mut done_ns = at_ns;
        let direct = fua && !self.is_protected() || self.profile.cache.mode == CacheMode::Off;
        let per_step = if direct { self.units_per_page() } else { 1 };
        for (index, units) in data.chunks(per_step * UNIT_BYTES).enumerate() {
            let arrived_ns = self.link.transfer(at_ns, units.len());
            let first = lpn.0 + (index * per_step) as u32;
            let step_ns = if direct {
                self.write_through(Lpn(first), units, &[0; 24], arrived_ns)?
            } else {
                self.write_cached(Lpn(first), units, [0; 24], None, arrived_ns)?
            };
            done_ns = done_ns.max(step_ns);
        }
        Ok(done_ns)
    }

    fn write_one(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: Metadata,
        hint: Option<tantalum_ftl::Hint>,
        fua: bool,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_one(lpn, data.len())?;
        self.maintain(at_ns)?;
        let arrived_ns = self.link.transfer(at_ns, data.len());
        if fua && !self.is_protected() {
            return self.write_through(lpn, data, &metadata, arrived_ns);
        }
        let cached_ns = self.write_cached(lpn, data, metadata, hint, arrived_ns)?;
        if self.profile.cache.mode == CacheMode::Off {
            // a lone unit goes through the cache's code to carry its hint, and straight on
            return self.drain(arrived_ns);
        }
        Ok(cached_ns)
    }

    fn write_hinted(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: Metadata,
        hint: tantalum_ftl::Hint,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_one(lpn, data.len())?;
        if let Some(home) = hint.home {
            self.check_range(home, 1)?;
            if home == lpn {
                return Err(Status::InvalidField(format!("unit {lpn} is given as its own home")));
            }
        }
        let limit = u64::from(self.limits().hints);
        let ftl = self.ftl_mut()?;
        let living = ftl.logs().living_count() as u64;
        if living >= limit {
            return Err(Status::OverLimit { what: "living hints", asked: living + 1, limit });
        }
        ftl.accept_hint(&hint).map_err(|error| Status::SlotOutOfOrder(error.to_string()))?;
        self.write_one(lpn, data, metadata, Some(hint), false, at_ns)
    }

    /// Puts one unit into the cache. Done when there is room for it.
    fn write_cached(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: Metadata,
        hint: Option<tantalum_ftl::Hint>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        while self.cache.is_high() {
            self.drain_page(at_ns)?;
        }
        let room_ns = self.cache.room_ns(at_ns);
        let Power::On(ftl) = &mut self.power else { return Err(Status::PowerLost) };
        let slot = match ftl.nand_mut().stage(data) {
            Ok(slot) => slot,
            Err(error) => return Err(FtlError::from(error).into()),
        };
        let version = ftl.next_seq();
        let unit = HostUnit { slot, lpn, version, metadata, hint };
        if let Err(error) = ftl.protect(&unit, data) {
            ftl.nand_mut().release(slot);
            return Err(error.into());
        }
        if let Some(old) = self.cache.insert(unit) {
            ftl.nand_mut().release(old);
        }
        #[cfg(feature = "canaries")]
        if canary::out(Guard::OldCopyGivenUpEarly) {
            ftl.give_up(lpn);
        }
        self.host.units_written += 1;
        Ok(room_ns)
    }

    /// Programs up to a page of units at once, past the cache.
    fn write_through(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: &Metadata,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let mut page = std::mem::take(&mut self.page);
        page.clear();
        let done = self.stage_and_write(lpn, data, metadata, &mut page, at_ns);
        self.page = page;
        self.host.units_written += (data.len() / UNIT_BYTES) as u64;
        done
    }

    fn stage_and_write(
        &mut self,
        lpn: Lpn,
        data: &[u8],
        metadata: &Metadata,
        page: &mut Vec<HostUnit>,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        let ftl = self.ftl_mut()?;
        for (index, unit) in data.chunks(UNIT_BYTES).enumerate() {
            let slot = match ftl.nand_mut().stage(unit) {
                Ok(slot) => slot,
                Err(error) => {
                    release_all(ftl, page);
                    return Err(FtlError::from(error).into());
                }
            };
            let version = ftl.next_seq();
            page.push(HostUnit {
                slot,
                lpn: Lpn(lpn.0 + index as u32),
                version,
                metadata: *metadata,
                hint: None,
            });
        }
        let written = ftl.write_page(page, at_ns);
        let done_ns = match written {
            Ok(done_ns) => done_ns,
            // buffers under way when power went are the medium's
            Err(FtlError::Nand(NandError::PowerLost)) => return Err(Status::PowerLost),
            Err(error) => {
                release_all(ftl, page);
                return Err(error.into());
            }
        };
        for unit in page.iter() {
            self.forget_cached(unit.lpn)?;
        }
        Ok(done_ns)
    }

    /// Programs the page of units that have waited longest.
    pub(crate) fn drain_page(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let units_per_page = self.units_per_page();
        let mut page = std::mem::take(&mut self.page);
        self.cache.oldest(&mut page, units_per_page);
        let written = self.ftl_mut().and_then(|ftl| ftl.write_page(&page, at_ns).map_err(Status::from));
        if let Ok(done_ns) = written {
            for unit in &page {
                self.cache.remove(unit.lpn);
            }
            self.cache.programmed(page.len() as u32, done_ns);
        }
        let unprotected = match written {
            Ok(_) => self.unprotect(&page),
            Err(_) => Ok(()),
        };
        self.page = page;
        unprotected.and(written)
    }

    /// Programs everything that waits.
    pub(crate) fn drain(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let mut done_ns = at_ns;
        while self.cache.len() > 0 {
            done_ns = done_ns.max(self.drain_page(at_ns)?);
        }
        Ok(done_ns)
    }

    /// Forgets what waits for a logical page, because something newer took its place.
    pub(crate) fn forget_cached(&mut self, lpn: Lpn) -> Result<(), Status> {
        if let Some(unit) = self.cache.remove(lpn) {
            let ftl = self.ftl_mut()?;
            ftl.nand_mut().release(unit.slot);
            ftl.unprotect(lpn)?;
        }
        Ok(())
    }

    fn unprotect(&mut self, units: &[HostUnit]) -> Result<(), Status> {
        let ftl = self.ftl_mut()?;
        for unit in units {
            ftl.unprotect(unit.lpn)?;
        }
        Ok(())
    }

    fn flush(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.host.flushes += 1;
        if self.is_protected() {
            // everything acknowledged is safe already: flush only orders (DuraSSD, section 3.3)
            return Ok(at_ns);
        }
        self.drain(at_ns)?;
        let flushed = self.ftl_mut()?.flush_journal(at_ns);
        let done_ns = flushed?;
        self.maintain(at_ns)?;
        Ok(done_ns)
    }

    // -- the map ------------------------------------------------------------------------------------------------

    fn trim(&mut self, lpn: Lpn, units: u32, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.check_range(lpn, u64::from(units))?;
        self.maintain(at_ns)?;
        let ftl = self.ftl_mut()?;
        ftl.ensure_journal_block(at_ns)?;
        ftl.trim(lpn, units, at_ns)?;
        // only now: what waited is given up when the record that replaces it exists (hazard 1)
        if self.cache.len() > 0 {
            for lpn in (lpn.0..lpn.0 + units).map(Lpn) {
                self.forget_cached(lpn)?;
            }
        }
        Ok(at_ns)
    }

    /// A step replaces these units, and may be lost until it is complete. What waits for them in protected DRAM was
    /// acknowledged as durable: it goes to flash first.
    pub(crate) fn settle_replaced(
        &mut self,
        mut lpns: impl Iterator<Item = u32>,
        at_ns: Nanoseconds,
    ) -> Result<(), Status> {
        if canary::out(Guard::ReplacedNotSettled) {
            return Ok(());
        }
        if self.is_protected() && lpns.any(|lpn| self.cache.get(Lpn(lpn)).is_some()) {
            self.drain(at_ns)?;
        }
        Ok(())
    }

    /// Brings cached sources to flash, so that they have a place to share.
    fn settle_sources(&mut self, ranges: &[ShareRange], at_ns: Nanoseconds) -> Result<(), Status> {
        self.settle_replaced(ranges.iter().flat_map(|range| range.dst.0..range.dst.0 + range.units), at_ns)?;
        let cached = ranges.iter().any(|range| {
            (range.src.0..range.src.0 + range.units).any(|lpn| self.cache.get(Lpn(lpn)).is_some())
        });
        // a hinted page comes home only behind all pages before it
        if cached || self.cache.has_hinted() {
            self.drain(at_ns)?;
        }
        Ok(())
    }

    fn check_ranges(&self, ranges: &[ShareRange]) -> Result<(), Status> {
        for range in ranges {
            self.check_range(range.src, u64::from(range.units))?;
            self.check_range(range.dst, u64::from(range.units))?;
        }
        Ok(())
    }

    fn share(
        &mut self,
        ranges: &[ShareRange],
        deferred: bool,
        at_ns: Nanoseconds,
    ) -> Result<Nanoseconds, Status> {
        self.check_ranges(ranges)?;
        self.maintain(at_ns)?;
        self.settle_sources(ranges, at_ns)?;
        let ftl = self.ftl_mut()?;
        ftl.check_share(ranges).map_err(Status::from)?;
        ftl.ensure_journal_block(at_ns)?;
        ftl.share(ranges, at_ns)?;
        for range in ranges {
            for lpn in (range.dst.0..range.dst.0 + range.units).map(Lpn) {
                self.forget_cached(lpn)?;
            }
        }
        // a flush of protected DRAM waits for nothing, so there a share is durable when it returns in any case
        if deferred && !self.is_protected() { Ok(at_ns) } else { self.make_durable(at_ns) }
    }

    fn remap(&mut self, src: Lpn, dst: Lpn, units: u32, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let ranges = [ShareRange { dst, src, units }];
        self.check_ranges(&ranges)?;
        self.maintain(at_ns)?;
        self.settle_sources(&ranges, at_ns)?;
        let ftl = self.ftl_mut()?;
        ftl.check_share(&ranges).map_err(Status::from)?;
        ftl.ensure_journal_block(at_ns)?;
        ftl.remap(src, dst, units, at_ns)?;
        for lpn in (dst.0..dst.0 + units).map(Lpn) {
            self.forget_cached(lpn)?;
        }
        self.make_durable(at_ns)
    }

    /// Makes the journal durable: on flash, or in protected DRAM once what it names is on flash.
    pub(crate) fn make_durable(&mut self, at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        let protected = self.is_protected();
        let ftl = self.ftl_mut()?;
        if protected {
            return Ok(at_ns.max(ftl.nand().programs_done_ns()));
        }
        ftl.flush_journal(at_ns).map_err(Status::from)
    }

    fn write_atomic(&mut self, writes: &[(Lpn, &[u8])], at_ns: Nanoseconds) -> Result<Nanoseconds, Status> {
        self.check_atomic(writes)?;
        if writes.is_empty() {
            return Ok(at_ns);
        }
        self.maintain(at_ns)?;
        self.settle_replaced(writes.iter().map(|(lpn, _)| lpn.0), at_ns)?;
        let mut units = Vec::with_capacity(writes.len());
        let mut arrived_ns = at_ns;
        for (lpn, data) in writes {
            arrived_ns = self.link.transfer(at_ns, data.len());
            let ftl = self.ftl_mut()?;
            match ftl.nand_mut().stage(data) {
                Ok(slot) => {
                    units.push(HostUnit { slot, lpn: *lpn, version: Seq(0), metadata: [0; 24], hint: None });
                }
                Err(error) => {
                    release_all(ftl, &units);
                    return Err(FtlError::from(error).into());
                }
            }
        }
        let written = self.ftl_mut()?.write_batch(&units, arrived_ns);
        let done_ns = written?;
        for (lpn, _) in writes {
            self.forget_cached(*lpn)?;
        }
        self.host.units_written += writes.len() as u64;
        Ok(done_ns)
    }

    fn check_atomic(&self, writes: &[(Lpn, &[u8])]) -> Result<(), Status> {
        let limit = self.profile.limits.atomic_units;
        if writes.len() > limit as usize {
            let asked = writes.len() as u64;
            return Err(Status::OverLimit { what: "units in an atomic write", asked, limit: limit.into() });
        }
        let mut seen = std::collections::BTreeSet::new();
        for (lpn, data) in writes {
            self.check_one(*lpn, data.len())?;
            if !seen.insert(lpn) {
                return Err(Status::InvalidField(format!("unit {lpn} is in the atomic write twice")));
            }
        }
        Ok(())
    }

    // -- what is common -----------------------------------------------------------------------------------------

    pub(crate) fn units_per_page(&self) -> usize {
        (self.profile.flash.page_bytes as usize) / UNIT_BYTES
    }

    /// Whether what is in DRAM survives.
    pub(crate) fn is_protected(&self) -> bool {
        self.profile.power.plp != crate::profile::Plp::None
    }

    pub(crate) fn link_transfer(&mut self, ready_ns: Nanoseconds, bytes: usize) -> Nanoseconds {
        self.link.transfer(ready_ns, bytes)
    }

    pub(crate) fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        let host = self.host;
        let ftl = self.ftl_mut()?;
        *ftl.controller_counters_mut() =
            [host.units_written, host.units_read, host.flushes, host.unsafe_shutdowns];
        ftl.maintain(at_ns).map_err(Status::from)
    }
}

fn release_all(ftl: &mut Ftl, units: &[HostUnit]) {
    for unit in units {
        ftl.nand_mut().release(unit.slot);
    }
}
