//! The controller: commands go in with the time at which they are issued, and come out with the time at which they are
//! done. It handles link, checks, counters and latencies; the engine executes the commands.
//!
//! Invariants:
//! - A write is acknowledged when its data are in the cache (or on flash, if there is none). With power-loss protection
//!   it is then durable; without, it is durable after the next flush.
//! - Units in the cache and on their way to flash never exceed what the capacitor can dump (hazard 12).
//! - A refused command has changed nothing, except that the first units of a plain write may be written; where that is in
//!   doubt, the drive refuses all further changes.

use tantalum_ftl::{Ftl, GivenBack, KvRecord, Lpn, Portion, RecoveryReport, Slack};
use tantalum_nand::{Fetches, Fills, Nand, Nanoseconds};

use crate::command::{Command, CommandInfo, Completion, Work};
use crate::command_failures::NextFailure;
use crate::doubt::Doubt;
use crate::effective::Effective;
use crate::engine::{Engine, Inside, KEY_VALUE_LIMITS};
use crate::latency::{Kind, Latencies};
use crate::limits::{Limits, Shape};
use crate::link::Link;
use crate::profile::{CacheMode, FirmwareProfile, Plp, Profile};
use crate::status::Status;
use crate::trace;
use crate::usage::{Usage, Waited};

/// The drive.
#[derive(Debug)]
pub struct Device {
    pub(crate) profile: Profile,
    pub(crate) power: Power,
    pub(crate) shape: Shape,
    pub(crate) link: Link,
    latencies: Latencies,
    waited: Waited,
    pub(crate) recovery: RecoveryReport,
    /// Units that the capacitor saved and that are not recovered yet.
    pub(crate) dumped_units: u64,
    /// When the last command was issued.
    pub(crate) issued_ns: Nanoseconds,
    /// The latest completion time given so far.
    pub(crate) done_ns: Nanoseconds,
    /// When the drive is ready for commands: recovery takes time, and so do the erases for the dump area.
    pub(crate) ready_ns: Nanoseconds,
    /// A cut armed for the next recovery.
    pub(crate) next_cut: Option<u64>,
    /// Whether the drive is read-only and has done its end-of-life work.
    pub(crate) settled_read_only: bool,
    /// Of a command that may have been done in part. Nothing may be built on its effect.
    pub(crate) doubt: Option<Box<Doubt>>,
    /// A command that a test makes fail.
    pub(crate) next_failure: Option<Box<NextFailure>>,
    /// How often power has come on.
    pub(crate) power_ons: u64,
}

/// Whether the drive has power.
#[derive(Debug)]
pub(crate) enum Power {
    On(Box<Engine>),
    /// Without power there is only the flash, and not even that while the drive is being opened.
    Off(Option<Box<Nand>>),
}

impl Power {
    pub fn engine_mut(&mut self) -> Result<&mut Engine, Status> {
        match self {
            Power::On(engine) => Ok(engine),
            Power::Off(_) => Err(Status::PowerLost),
        }
    }
}

/// Where a command comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A command from across the link.
    Host,
    /// A command from a program inside the drive.
    Inside,
}

impl Device {
    pub(crate) fn without_power(profile: Profile) -> Device {
        Device {
            shape: Shape {
                capacity_units: profile.capacity_units(),
                atomic_units: profile.limits.atomic_units,
                handles: profile.fdp.map_or(0, |fdp| fdp.handles),
            },
            link: Link::new(&profile),
            profile,
            power: Power::Off(None),
            latencies: Latencies::new(),
            waited: Waited::default(),
            recovery: RecoveryReport::default(),
            dumped_units: 0,
            issued_ns: 0,
            done_ns: 0,
            ready_ns: 0,
            next_cut: None,
            settled_read_only: false,
            doubt: None,
            next_failure: None,
            power_ons: 0,
        }
    }

    /// A copy of a drive whose flash is in memory, with or without power; none for other drives.
    pub fn try_clone(&self) -> Option<Device> {
        let power = match &self.power {
            Power::On(engine) => Power::On(Box::new(engine.try_clone()?)),
            Power::Off(nand) => Power::Off(Some(Box::new(nand.as_ref()?.try_clone()?))),
        };
        Some(Device {
            profile: self.profile.clone(),
            power,
            link: self.link.clone(),
            latencies: self.latencies.clone(),
            doubt: self.doubt.clone(),
            next_failure: self.next_failure.clone(),
            ..*self
        })
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        match &self.power {
            Power::On(engine) => Some(engine),
            Power::Off(_) => None,
        }
    }

    pub(crate) fn engine_mut(&mut self) -> Result<&mut Engine, Status> {
        self.power.engine_mut()
    }

    pub(crate) fn ftl(&self) -> Option<&Ftl> {
        self.engine().map(|engine| &engine.ftl)
    }

    // -- commands -----------------------------------------------------------------------------------------------

    /// Executes one of the host's commands, issued at `at_ns`. The host need not have waited for earlier ones.
    ///
    /// # Panics
    /// If `at_ns` is before [`Device::issued_ns`].
    pub fn submit(&mut self, mut command: Command<'_>, at_ns: Nanoseconds) -> Result<Completion, Status> {
        match trace::is_on() {
            false => self.submit_from_host(&mut command, at_ns),
            true => self.submit_traced(&mut command, Origin::Host, at_ns),
        }
    }

    /// Executes a command without telling anybody.
    pub(crate) fn submit_untraced(
        &mut self,
        command: &mut Command<'_>,
        origin: Origin,
        at_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        match origin {
            Origin::Host => self.submit_from_host(command, at_ns),
            Origin::Inside => self.submit_from_inside(command, at_ns),
        }
    }

    // inlined, so that a command that nobody traces costs no call more
    #[inline(always)]
    fn submit_from_host(
        &mut self,
        command: &mut Command<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        if let (Command::Read { lpn, .. } | Command::Write { lpn, .. }, Power::On(engine)) =
            (&*command, &self.power)
        {
            engine.ftl.map().prefetch(*lpn);
        }
        self.note_issue(at_ns)?;
        let &CommandInfo { kind, work, .. } = command.info();
        let work_ns = self.work_ns(command, work, at_ns);
        let from_ns = self.begins_ns(kind);
        let start_ns = self.link.command(at_ns.max(from_ns), work_ns);
        let mut completion = self.perform(command, Origin::Host, start_ns)?;
        if kind == Kind::Flush {
            completion.done_ns = self.end_flush(completion.done_ns);
        }
        self.latencies.record(kind, completion.done_ns - at_ns);
        self.waited.add(kind, completion.done_ns - at_ns);
        Ok(completion)
    }

    /// The earliest time at which firmware begins with a command of this kind: one that cannot be queued together with
    /// others waits for them.
    pub(crate) fn begins_ns(&self, kind: Kind) -> Nanoseconds {
        let goes_alone = kind == Kind::Flush && !self.profile.firmware.queued_flush;
        if goes_alone { self.time_ns() } else { self.ready_ns }
    }

    /// Firmware's work for units and records.
    #[inline(always)]
    fn work_ns(&mut self, command: &Command<'_>, work: Work, at_ns: Nanoseconds) -> Nanoseconds {
        let FirmwareProfile { range_ns, record_ns, insert_ns, .. } = self.profile.firmware;
        match work {
            Work::Nothing => 0,
            Work::Range => range_ns,
            Work::Record => record_ns,
            Work::Puts => self.puts_ns(command.puts(), record_ns, insert_ns, at_ns),
        }
    }

    fn puts_ns(
        &mut self,
        puts: &[KvRecord<'_>],
        record_ns: Nanoseconds,
        insert_ns: Nanoseconds,
        at_ns: Nanoseconds,
    ) -> Nanoseconds {
        let inserts = insert_ns > 0 && puts.iter().any(|record| self.is_new(record, at_ns));
        record_ns * puts.len() as u64 + if inserts { insert_ns } else { 0 }
    }

    fn is_new(&mut self, record: &KvRecord<'_>, at_ns: Nanoseconds) -> bool {
        let Power::On(engine) = &mut self.power else { return false };
        let there = engine.ftl.exists(record.namespace, &record.key, at_ns);
        record.value.is_some() && there.is_ok_and(|(there, _)| !there)
    }

    /// The time of a flush beyond that of its programs. Returns when it is done.
    fn end_flush(&mut self, done_ns: Nanoseconds) -> Nanoseconds {
        let firmware = &self.profile.firmware;
        let keeps_dram = self.profile.power.plp == Plp::Capacitor;
        let done_ns = done_ns + if keeps_dram { 0 } else { firmware.flush_ns };
        if !firmware.queued_flush {
            self.link.hold(done_ns);
        }
        self.done_ns = self.done_ns.max(done_ns);
        done_ns
    }

    /// Executes a command of a client inside the drive, as [`Device::submit`] does for the host. It takes no time of
    /// the link or the host protocol, and does not count in [`Device::latencies`].
    pub fn submit_inside(
        &mut self,
        mut command: Command<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        match trace::is_on() {
            false => self.submit_from_inside(&mut command, at_ns),
            true => self.submit_traced(&mut command, Origin::Inside, at_ns),
        }
    }

    fn submit_from_inside(
        &mut self,
        command: &mut Command<'_>,
        at_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        self.note_issue(at_ns)?;
        self.perform(command, Origin::Inside, at_ns.max(self.ready_ns))
    }

    pub(crate) fn note_issue(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        let Power::On(engine) = &mut self.power else { return Err(Status::PowerLost) };
        let nand = engine.ftl.nand_mut();
        if !nand.has_power() {
            return Err(Status::PowerLost);
        }
        let issued_ns = self.issued_ns;
        assert!(
            at_ns >= issued_ns,
            "a command was issued at {at_ns} ns, but the one before at {issued_ns} ns"
        );
        self.issued_ns = at_ns;
        nand.advance(at_ns);
        Ok(())
    }

    fn perform(
        &mut self,
        command: &mut Command<'_>,
        origin: Origin,
        start_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        match self.next_failure {
            None => self.carry_out(command, origin, start_ns),
            Some(_) => self.perform_or_fail(command, origin, start_ns),
        }
    }

    // The command stays where the client put it: moving it would wait for the stores of the pages copied before it.
    #[inline]
    pub(crate) fn carry_out(
        &mut self,
        command: &mut Command<'_>,
        origin: Origin,
        start_ns: Nanoseconds,
    ) -> Result<Completion, Status> {
        if command.changes_units() && self.is_read_only() {
            return Err(Status::ReadOnly);
        }
        let reads = command.reads();
        if !reads && let Err(status) = self.check_doubt() {
            // nothing was changed, so that nothing waits to become durable (Base, section 8.1.16)
            let has_nothing_to_do =
                matches!((&status, &*command), (Status::WriteProtected(_), Command::Flush));
            return if has_nothing_to_do { Ok(Completion { done_ns: start_ns }) } else { Err(status) };
        }
        self.shape.check(command)?;
        if reads {
            self.check_known(command)?;
        }
        let committed = self.units_to_commit(command);
        let Power::On(engine) = &mut self.power else { return Err(Status::PowerLost) };
        let executed = match origin {
            Origin::Host => engine.execute(command, &mut self.link, start_ns),
            Origin::Inside => engine.execute(command, &mut Inside, start_ns),
        };
        if matches!(executed, Err(Status::CapacityExceeded)) {
            engine.ftl.note_exhaustion();
        }
        // by reference, so that the result is not moved: see `Engine::dispatch`
        if let Err(status) = &executed
            // firmware's own work for a read may have changed something
            && (!reads || matches!(status, Status::Unfinished(_)))
        {
            self.note_failure(status, command, &committed);
        }
        let settled = self.settle_read_only(start_ns);
        let settled = settled.inspect_err(|status| self.note_failure(status, command, &committed));
        let done_ns = executed.map_err(|status| self.ended_badly(status))?;
        settled?;
        assert!(done_ns >= start_ns, "a command begun at {start_ns} ns was done at {done_ns} ns");
        self.done_ns = self.done_ns.max(done_ns);
        Ok(Completion { done_ns })
    }

    /// What the transaction has written that a command commits: the command does not name it.
    pub(crate) fn units_to_commit(&self, command: &Command<'_>) -> Vec<Lpn> {
        match (command, &self.power) {
            (Command::Commit { tx }, Power::On(engine)) => engine.transaction_lpns(*tx),
            _ => Vec::new(),
        }
    }

    /// When the drive becomes read-only, what waits is settled, unless nothing may be built on it. A failure that leaves no
    /// doubt says nothing about the command: what could not be settled still waits.
    fn settle_read_only(&mut self, at_ns: Nanoseconds) -> Result<(), Status> {
        let Power::On(engine) = &mut self.power else { return Ok(()) };
        if self.settled_read_only || self.doubt.is_some() || !engine.ftl.is_read_only() {
            return Ok(());
        }
        self.settled_read_only = true;
        engine
            .settle_read_only(at_ns)
            .or_else(|status| if status.leaves_doubt() { Err(status) } else { Ok(()) })
    }

    fn ended_badly(&mut self, status: Status) -> Status {
        match status {
            // it is not the host's data that fill the flash: blocks are missing
            Status::CapacityExceeded if self.is_read_only() => Status::ReadOnly,
            // the host learns of a loss once a cut can no longer undo it
            Status::Unreadable { .. } | Status::RecordUnreadable { .. } | Status::ZoneUnreadable { .. } => {
                self.done_ns = self.done_ns.max(self.ftl().map_or(0, |ftl| ftl.nand().programs_done_ns()));
                status
            }
            status => status,
        }
    }

    /// Refuses units beyond the capacity, as a command that names them would.
    pub fn check_range(&self, lpn: Lpn, units: u64) -> Result<(), Status> {
        self.shape.check_range(lpn, units)
    }

    // -- other functions ----------------------------------------------------------------------------------------

    /// Buffers for the units of a [`Command::WriteFilled`], to be filled before it. None if this drive has no buffers
    /// that can be filled without it.
    pub fn fills(&mut self, units: usize) -> Result<Option<Fills>, Status> {
        self.engine_mut()?.fills(units)
    }

    /// The next `units` buffers, if there are that many, are not needed.
    pub fn skip_fills(&mut self, fills: &mut Fills, units: usize) {
        if let Power::On(engine) = &mut self.power {
            engine.ftl.nand_mut().skip_fills(fills, units);
        }
    }

    /// The buffers are not needed, and what was filled into them may not stay: they are overwritten.
    pub fn discard_fills(&mut self, fills: &mut Fills) -> Result<(), Status> {
        match &mut self.power {
            Power::On(engine) => Ok(engine.ftl.nand_mut().discard_fills(fills)?),
            Power::Off(_) => Ok(()),
        }
    }

    /// The list to which [`Command::ReadLater`] adds; none if this drive's bytes cannot be fetched without the drive.
    pub fn fetches(&mut self) -> Option<Fetches> {
        self.engine_mut().ok()?.ftl.nand_mut().fetches()
    }

    /// Prefetches what reads of these units will access into the processor's cache. It is for a host that knows its
    /// next commands, such as one with a queue: the misses of several reads overlap. At most the first
    /// [`tantalum_ftl::PREFETCHED`] units are used; units out of range are skipped. It is not a command: it takes no
    /// time and counts nowhere.
    pub fn prefetch(&self, lpns: impl Iterator<Item = Lpn>) {
        if let Some(engine) = self.engine() {
            engine.prefetch(lpns);
        }
    }

    /// Prefetches the data of the unit that is read next, of those that were given to [`Device::prefetch`]. Call it just
    /// before the read of another unit, which then overlaps the misses: the processor's cache holds few units.
    pub fn prefetch_data(&self, lpn: Lpn) {
        if let Some(engine) = self.engine() {
            engine.prefetch_data(lpn);
        }
    }

    /// Gives a portion of the image's space beyond the slack back to its host's file system. Issued at `at_ns`, as a command is. It is
    /// no command, and for a host that asks for it between commands: the image must have been opened with
    /// [`tantalum_nand::Access::Ordered`], and its file system take space back; otherwise nothing happens. What was released
    /// goes back after two more syncs (or [`Device::sync_in_place`]). Copies and erases count like those of any garbage collection.
    ///
    /// # Errors
    /// As of a command that changes nothing for the host: what leaves doubt stops the drive.
    pub fn give_space_back(
        &mut self,
        slack: Slack,
        portion: Portion,
        at_ns: Nanoseconds,
    ) -> Result<GivenBack, Status> {
        self.check_doubt()?;
        self.note_issue(at_ns)?;
        let at_ns = at_ns.max(self.ready_ns);
        match self.engine_mut()?.give_space_back(slack, portion, at_ns) {
            Ok((done_ns, given)) => {
                self.done_ns = self.done_ns.max(done_ns);
                Ok(given)
            }
            // it tries again when there is more room
            Err(Status::CapacityExceeded) => Ok(GivenBack::default()),
            Err(status) => {
                // nothing that can be read is in doubt
                self.note_failure(&status, &Command::Flush, &[]);
                Err(status)
            }
        }
    }

    /// Erases every block that holds old data, and overwrites what the image has left of them. Issued at `at_ns`, as a command is. What
    /// units and records read as does not change. Returns how many blocks could not be erased because they are out of use. A power
    /// cut loses nothing; the purge is then to be repeated.
    ///
    /// # Errors
    /// As of a command that changes nothing for the host: what leaves doubt stops the drive. [`Device::check_purge`] says what else
    /// is refused.
    pub fn purge(&mut self, at_ns: Nanoseconds) -> Result<u32, Status> {
        self.check_doubt()?;
        self.note_issue(at_ns)?;
        let at_ns = at_ns.max(self.ready_ns);
        self.check_purge()?;
        let purged = self.engine_mut()?.purge(at_ns).and_then(|(done_ns, kept)| {
            self.done_ns = self.done_ns.max(done_ns);
            // until it is done, power loss may undo an erase
            let idle_ns = self.time_ns();
            self.note_issue(idle_ns)?;
            self.engine_mut()?.ftl.nand_mut().scrub()?;
            Ok(kept)
        });
        // nothing that can be read is in doubt
        purged.inspect_err(|status| self.note_failure(status, &Command::Flush, &[]))
    }

    /// Refuses a purge of an image that was opened with [`tantalum_nand::Access::Ordered`], whose redo log needs what is old: for
    /// whoever has to know before other work is done.
    ///
    /// # Errors
    /// [`Status::InvalidField`] for such an image, and [`Status::PowerLost`].
    pub fn check_purge(&mut self) -> Result<(), Status> {
        match self.engine_mut()?.ftl.nand_mut().is_synced() {
            true => Err(Status::InvalidField(
                "an image that is opened as a synced store keeps what is old: close it, and open it otherwise".to_owned(),
            )),
            false => Ok(()),
        }
    }

    // -- state --------------------------------------------------------------------------------------------------

    /// The profile that the drive was made from.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether the drive has no cache: a write is on flash, and durable, when it completes.
    pub fn is_write_through(&self) -> bool {
        self.profile.cache.mode == CacheMode::Off
    }

    /// The drive's limits for one step.
    pub fn limits(&self) -> Limits {
        let ftl = self.ftl();
        Limits {
            capacity_units: self.shape.capacity_units,
            flash: Effective::of(&self.profile),
            atomic_units: self.shape.atomic_units,
            atomic_write_units: self.profile.limits.atomic_write_units,
            share_units: ftl.map_or(0, |ftl| ftl.share_limit()),
            open_transactions: self.profile.limits.open_transactions,
            transaction_units: ftl.map_or(0, |ftl| ftl.layout().transaction_units_limit),
            hints: ftl.map_or(0, |ftl| ftl.layout().hints_limit),
            files: ftl.map_or(0, |ftl| ftl.file_list_counts().0),
            key_value: KEY_VALUE_LIMITS,
        }
    }

    /// When everything submitted so far is done, in device time. A new client's clock starts here: if it started
    /// earlier, a power cut could undo commands that had been acknowledged before the client came.
    pub fn time_ns(&self) -> Nanoseconds {
        self.done_ns.max(self.ready_ns)
    }

    /// When the last command was issued; later commands must not be issued before that.
    pub fn issued_ns(&self) -> Nanoseconds {
        self.issued_ns
    }

    /// What the last recovery did.
    pub fn recovery(&self) -> &RecoveryReport {
        &self.recovery
    }

    /// Latencies of the host's commands since the drive was made or opened.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// How busy the drive's parts were and how long commands waited since the drive was made or opened. Zeros without
    /// power.
    pub fn usage(&self) -> Usage {
        let planes = self.ftl().map_or_else(Default::default, |ftl| ftl.nand().busy());
        Usage::of(planes, self.link.usage(), &self.waited)
    }
}
