//! The drive: commands go in with the time at which they are issued, and come out with the time at which they are
//! done.
//!
//! Invariants:
//! - A write is acknowledged when its data are in the cache (or on flash, without one). Without power-loss
//!   protection it is durable after the next flush; with it, at once.
//! - What waits in the cache and on the way to flash never exceeds what the capacitor can dump (hazard 12).
//! - Whatever a command refuses, it has changed nothing; where that is in doubt, the drive takes no more changes.

use tantalum_ftl::{Counters, Ftl, HostUnit, Lpn, RecoveryReport, TxId};
use tantalum_nand::{Nand, Nanoseconds, Slot, UNIT_BYTES};

use crate::cache::Cache;
use crate::command::{Command, Completion};
use crate::key_value::KeyValueLimits;
use crate::latency::Latencies;
use crate::link::Link;
use crate::profile::Profile;
use crate::smart::{AVAILABLE_SPARE_THRESHOLD_PERCENT, Smart, available_spare_percent};
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
    /// Of keys and values.
    pub key_value: KeyValueLimits,
}

/// The drive.
#[derive(Debug)]
pub struct Device {
    pub(crate) profile: Profile,
    pub(crate) power: Power,
    pub(crate) cache: Cache,
    pub(crate) link: Link,
    /// Units of open transactions that wait for a full page.
    pub(crate) transaction_units: Vec<(TxId, Lpn, Slot)>,
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
    /// Why a command may have been done in part, if one may. Nothing is built on that.
    pub(crate) doubt: Option<Box<Status>>,
    pub(crate) page: Vec<HostUnit>,
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
            latencies: Latencies::new(),
            recovery: RecoveryReport::default(),
            dumped_units: 0,
            done_ns: 0,
            ready_ns: 0,
            next_cut: None,
            settled_read_only: false,
            doubt: None,
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
            latencies: self.latencies.clone(),
            recovery: self.recovery,
            dumped_units: self.dumped_units,
            done_ns: self.done_ns,
            ready_ns: self.ready_ns,
            next_cut: self.next_cut,
            settled_read_only: self.settled_read_only,
            doubt: self.doubt.clone(),
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

    pub(crate) fn counters_mut(&mut self) -> Result<&mut Counters, Status> {
        Ok(self.ftl_mut()?.counters_mut())
    }

    /// The profile that made the drive.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// What the drive does in one step.
    pub fn limits(&self) -> Limits {
        let ftl = self.ftl();
        Limits {
            capacity_units: self.profile.capacity_units(),
            atomic_units: self.profile.limits.atomic_units,
            share_units: ftl.map_or(0, Ftl::share_limit),
            open_transactions: self.profile.limits.open_transactions,
            transaction_units: ftl.map_or(0, |ftl| ftl.layout().transaction_units_limit),
            hints: ftl.map_or(0, |ftl| ftl.layout().hints_limit),
            key_value: crate::key_value::LIMITS,
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
        let (wear, spare) = (ftl.wear(), ftl.spare_good_blocks());
        Smart {
            counters: *ftl.counters(),
            erase_count_min: wear.min,
            erase_count_max: wear.max,
            erase_count_mean: wear.mean,
            bad_blocks: wear.bad_blocks,
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

    /// Does one command, issued at `at_ns`: the host need not have waited for others to be done. The time must not go back
    /// from one command to the next.
    pub fn submit(&mut self, command: Command<'_>, at_ns: Nanoseconds) -> Result<Completion, Status> {
        if !self.has_power() {
            return Err(Status::PowerLost);
        }
        let kind = crate::latency::Kind::of(&command);
        let start_ns = self.link.command(at_ns.max(self.ready_ns));
        if command.changes_units() && self.is_read_only() {
            return Err(Status::ReadOnly);
        }
        let reads = command.reads();
        if !reads {
            self.check_doubt()?;
        }
        let mut completion = Completion::default();
        let executed = self.execute(command, start_ns, &mut completion);
        if matches!(executed, Err(Status::CapacityExceeded)) {
            self.ftl_mut()?.note_exhaustion();
        }
        let read_only = self.is_read_only();
        if read_only && !self.settled_read_only {
            self.settle_read_only(start_ns).inspect_err(|status| self.note_doubt(status))?;
        }
        let done_ns = executed.map_err(|status| {
            if !reads {
                self.note_doubt(&status);
            }
            self.ended_badly(status, read_only)
        })?;
        self.latencies.record(kind, done_ns - at_ns);
        self.done_ns = self.done_ns.max(done_ns);
        Ok(Completion { done_ns, ..completion })
    }

    pub(crate) fn check_doubt(&self) -> Result<(), Status> {
        self.doubt.as_ref().map_or(Ok(()), |status| Err(Status::clone(status)))
    }

    fn note_doubt(&mut self, status: &Status) {
        if status.leaves_doubt() {
            self.doubt.get_or_insert_with(|| Box::new(status.clone()));
        }
    }

    fn ended_badly(&mut self, status: Status, read_only: bool) -> Status {
        match status {
            // not the host's data fill the flash: blocks are missing
            Status::CapacityExceeded if read_only => Status::ReadOnly,
            // the host learns of a loss when it can no longer be undone by a cut
            Status::Unreadable { .. } | Status::RecordUnreadable { .. } => {
                self.done_ns = self.done_ns.max(self.ftl().map_or(0, |ftl| ftl.nand().programs_done_ns()));
                status
            }
            status => status,
        }
    }

    /// What a command makes goes into `completion`; the time when it is done comes back by itself, because whatever is
    /// stored behind a copy of data can be read back at once only as it was stored.
    fn execute(
        &mut self,
        command: Command<'_>,
        at_ns: Nanoseconds,
        completion: &mut Completion,
    ) -> Result<Nanoseconds, Status> {
        match command {
            Command::Read { lpn, data } => self.read(lpn, data, at_ns),
            Command::ReadLater { lpn, data, fetches } => self.read_later(lpn, data, fetches, at_ns),
            Command::ReadWithMetadata { lpn, data, metadata } => {
                self.read_with_metadata(lpn, data, metadata, at_ns)
            }
            Command::Write { lpn, data, fua } => self.write(lpn, data, fua, None, at_ns),
            Command::WriteFilled { lpn, data, fills } => self.write(lpn, data, false, Some(fills), at_ns),
            Command::WriteWithMetadata { lpn, data, metadata, fua } => {
                self.write_one(lpn, data, *metadata, None, fua, at_ns)
            }
            Command::WriteHinted { lpn, data, metadata, hint } => {
                self.write_hinted(lpn, data, *metadata, hint, at_ns)
            }
            Command::WriteZeroes { lpn, units } | Command::Trim { lpn, units } => {
                self.trim(lpn, units, at_ns)
            }
            Command::Flush => self.flush(at_ns),
            Command::Share { ranges, deferred } => self.share(ranges, deferred, at_ns),
            Command::Remap { src, dst, units } => self.remap(src, dst, units, at_ns),
            Command::WriteAtomic { writes } => self.write_atomic(writes, at_ns),
            Command::Begin => {
                let (tx, done_ns) = self.begin(at_ns)?;
                completion.tx = Some(tx);
                Ok(done_ns)
            }
            Command::TxWrite { tx, lpn, data } => self.tx_write(tx, lpn, data, at_ns),
            Command::TxRead { tx, lpn, data } => self.tx_read(tx, lpn, data, at_ns),
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
            Command::KvPut { records } => self.kv_put(records, at_ns),
            Command::KvGet { namespace, key, value } => self.kv_get(namespace, &key, value, at_ns),
            Command::KvExists { namespace, key } => self.kv_exists(namespace, &key, at_ns),
            Command::KvDelete { namespace, key } => self.kv_delete(namespace, key, at_ns),
            Command::KvList { namespace, from, keys, limit } => {
                self.kv_list(namespace, from, keys, limit, at_ns)
            }
        }
    }

    // -- checks -------------------------------------------------------------------------------------------------

    pub(crate) fn check_range(&self, lpn: Lpn, units: u64) -> Result<(), Status> {
        let capacity_units = self.profile.capacity_units();
        if u64::from(lpn.0) + units > capacity_units {
            return Err(Status::OutOfRange { lpn, units, capacity_units });
        }
        Ok(())
    }

    pub(crate) fn check_units(&self, lpn: Lpn, bytes: usize) -> Result<(), Status> {
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

    // -- what is common -----------------------------------------------------------------------------------------

    pub(crate) fn units_per_page(&self) -> usize {
        (self.profile.flash.page_bytes as usize) / UNIT_BYTES
    }

    /// Whether what is in DRAM survives.
    pub(crate) fn is_protected(&self) -> bool {
        self.profile.power.plp != crate::profile::Plp::None
    }

    pub(crate) fn maintain(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        self.ftl_mut()?.maintain(at_ns).map_err(Status::from)
    }

    /// The same behind a command that is done: if there is no room, the next one is told.
    pub(crate) fn maintain_after(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        match self.maintain(at_ns) {
            Err(Status::CapacityExceeded) => Ok(()),
            maintained => maintained,
        }
    }
}
