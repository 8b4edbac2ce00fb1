//! One run: a host at work on a drive with zones, and what the zones may hold.

use rand::RngExt;
use tantalum::{
    Command, Counters, Device, Lpn, PowerLoss, Status, UNIT_BYTES, ZoneAction, ZoneCondition, ZoneId,
    ZoneRefusal, ZoneShape,
};

use super::case::Case;
use super::drive::ZoneDrive;
use super::kinds::Kind;
use super::oracle::{NEVER, Stamp, Unit, ZoneOracle};
use crate::device::Flash;
use crate::device::Reached;
use crate::device::drive::UNITS;
use crate::device::host::{stamp_of, unit_of};
use crate::device::random::generator;
use crate::device::stop::Stop;
use crate::device::tally::Tally;

/// Selects the random numbers of the turns.
const TURN: u64 = 7 << 32;

/// How many times as often operations of flash that wears fail as in the torture of a drive: there are fewer of them.
const WEAR: u32 = 4;

/// What was reached, to show that the test reached it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct ZonesReached {
    /// Units appended.
    pub units: u64,
    /// Zones that were filled, or finished.
    pub full: u64,
    /// Zones that were reset.
    pub resets: u64,
    /// Commands that a zone refused, as it must.
    pub refused: u64,
    /// Zones that a cut left with fewer units than were written.
    pub cut_short: u64,
    /// Zones that a cut left with what had been there before a reset that was not done.
    pub reset_undone: u64,
    /// Units moved because their block failed, or could not go on after a cut.
    pub moved: u64,
    /// Units that were lost.
    pub lost: u64,
}

impl ZonesReached {
    pub(super) fn add(&mut self, other: &ZonesReached) {
        self.units += other.units;
        self.full += other.full;
        self.resets += other.resets;
        self.refused += other.refused;
        self.cut_short += other.cut_short;
        self.reset_undone += other.reset_undone;
        self.moved += other.moved;
        self.lost += other.lost;
    }
}

/// A host at work.
pub(super) struct Run {
    seed: u64,
    drive: ZoneDrive,
    pub device: Device,
    shape: ZoneShape,
    now_ns: u64,
    zones: Vec<ZoneOracle>,
    next_stamp: Stamp,
    /// Whether something has been written since a clean shutdown began.
    worked: bool,
    /// Whether the flash has worn out, and the drive takes no more.
    worn: bool,
    pub tally: Tally,
    pub reached: ZonesReached,
    counters: Counters,
}

impl Run {
    /// A new drive, with all of its units written.
    pub fn new(case: &Case) -> Result<Run, Stop> {
        let profile = case.drive.profile(case.seed);
        let device = Device::in_memory(&profile).map_err(|error| Stop::not_recovered(&error))?;
        let shape = device.zone_shape().expect("the drive has zones");
        let zones = vec![ZoneOracle::new(shape.capacity_units as usize); shape.count as usize];
        let mut run = Run {
            seed: case.seed,
            drive: case.drive,
            now_ns: device.time_ns(),
            device,
            shape,
            zones,
            next_stamp: 1,
            worked: true,
            worn: false,
            tally: Tally::default(),
            reached: ZonesReached::default(),
            counters: Counters::default(),
        };
        for lpn in 0..UNITS - 200 {
            run.submit(Command::Write { lpn: Lpn(lpn), data: &unit_of(1), fua: false, handle: None })?;
        }
        run.let_fail(0)?;
        Ok(run)
    }

    fn let_fail(&mut self, since: u64) -> Result<(), Stop> {
        let mut faults = self.drive.0.faults(self.seed.wrapping_add(since << 32));
        faults.program_failure_ppm *= WEAR;
        faults.erase_failure_ppm *= WEAR;
        faults.read_failure_ppm = if self.loses() { 2_000 } else { 0 };
        Ok(self.device.set_faults(faults)?)
    }

    fn loses(&self) -> bool {
        self.drive.0.flash == Flash::Loses
    }

    /// Submits a command. Returns when it is done; a host with a queue does not always wait for that.
    fn submit(&mut self, command: Command<'_>) -> Result<u64, Status> {
        let done_ns = self.device.submit(command, self.now_ns)?.done_ns;
        if !self.drive.0.queues {
            self.now_ns = done_ns;
        }
        Ok(done_ns)
    }

    /// One turn. What it does depends only on the seed and its number.
    pub fn turn(&mut self, index: u64, kind: Kind) -> Result<(), Stop> {
        let mut rng = generator(&[self.seed, TURN, index]);
        if self.drive.0.queues && rng.random_ratio(1, 3) {
            let done_ns = self.device.time_ns();
            self.now_ns = rng.random_range(self.now_ns..=done_ns.max(self.now_ns));
        }
        self.tally.reached.commands += 1;
        // few zones at a time, so that they are filled
        let zone =
            ZoneId((rng.random_range(0..self.shape.count) + rng.random_range(0..self.shape.count)) / 2);
        let units = if rng.random_ratio(1, 4) { rng.random_range(1..20) } else { rng.random_range(1..5) };
        match kind {
            Kind::Append => self.append(zone, units, false, rng.random_ratio(1, 2)),
            Kind::Fua => self.append(zone, units, true, true),
            Kind::Several => (0..self.shape.count)
                .try_for_each(|zone| self.append(ZoneId(zone), 1 + units % 3, false, true)),
            Kind::Flush => self.flush(),
            Kind::Reset => self.manage(Some(zone), ZoneAction::Reset),
            Kind::ResetAll => self.manage(None, ZoneAction::Reset),
            Kind::Finish => self.manage(Some(zone), ZoneAction::Finish),
            Kind::Open => self.manage(Some(zone), ZoneAction::Open),
            Kind::Close => self.manage(Some(zone), ZoneAction::Close),
            Kind::Wrong => self.write_wrong(zone, rng.random_range(0..self.shape.capacity_units + 2)),
            Kind::Read => self.compare_running(zone),
            Kind::Units => {
                let data = unit_of(2);
                for _ in 0..units {
                    let lpn = Lpn(rng.random_range(0..UNITS));
                    let written = self.submit(Command::Write { lpn, data: &data, fua: false, handle: None });
                    self.unless_worn(written)?;
                }
                Ok(())
            }
            Kind::Purge => {
                self.now_ns = self.device.time_ns();
                let purged = self.device.purge(self.now_ns);
                self.now_ns = self.now_ns.max(self.device.time_ns());
                self.unless_worn(purged).map(drop)
            }
            Kind::Reopen => self.reopen(),
        }
    }

    /// A refusal that worn flash explains is none.
    fn unless_worn<T>(&mut self, done: Result<T, Status>) -> Result<Option<T>, Stop> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Status::ReadOnly | Status::CapacityExceeded) if self.drive.0.flash != Flash::Sound => {
                self.worn = true;
                Ok(None)
            }
            // somebody else's unit was lost
            Err(Status::Unreadable { .. }) if self.loses() => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Whether a zone has to refuse this, so that a refusal is right.
    fn is_right(&mut self, refusal: &ZoneRefusal, zone: ZoneId, units: u32) -> bool {
        let states = self.device.zones();
        let state = states[zone.index()];
        if state.condition == ZoneCondition::ReadOnly {
            // the flash wore out in this command
            return true;
        }
        let count =
            |is: fn(ZoneCondition) -> bool| states.iter().filter(|state| is(state.condition)).count() as u32;
        self.reached.refused += 1;
        match *refusal {
            ZoneRefusal::Full { .. } => state.condition == ZoneCondition::Full,
            ZoneRefusal::Boundary { .. } => state.written + units > self.shape.capacity_units,
            ZoneRefusal::TooManyActive { .. } => count(ZoneCondition::is_active) >= self.shape.max_active,
            ZoneRefusal::TooManyOpen { .. } => {
                count(|condition| condition == ZoneCondition::ExplicitlyOpen) >= self.shape.max_open
            }
            ZoneRefusal::Transition { condition, .. } => condition == state.condition,
            ZoneRefusal::InvalidWrite { .. } | ZoneRefusal::NoSuchZone { .. } => false,
        }
    }

    fn append(&mut self, zone: ZoneId, units: u32, fua: bool, appends: bool) -> Result<(), Stop> {
        let offset = self.zones[zone.index()].written() as u32;
        let stamps: Vec<Stamp> = (self.next_stamp..).take(units as usize).collect();
        self.next_stamp += u64::from(units);
        let data: Vec<u8> = stamps.iter().flat_map(|stamp| unit_of(*stamp)).collect();
        let mut found = offset;
        let command = match appends {
            true => Command::ZoneAppend { zone, data: &data, fua, offset: &mut found },
            false => Command::ZoneWrite { zone, offset, data: &data, fua },
        };
        let done = self.submit(command);
        let is_durable = fua || self.drive.writes_are_durable();
        match done {
            Ok(done_ns) => {
                self.zones[zone.index()].wrote(stamps.into_iter(), done_ns, is_durable);
                self.reached.units += u64::from(units);
                self.reached.full += u64::from(offset + units == self.shape.capacity_units);
                self.worked = true;
                if found != offset {
                    let detail = format!(
                        "zone {zone} was appended to at {found}, and its write pointer was at {offset}"
                    );
                    return Err(Stop::broken("running drive", detail));
                }
                Ok(())
            }
            Err(Status::Zone(refusal)) if self.is_right(&refusal, zone, units) => Ok(()),
            Err(Status::PowerLost) => {
                self.zones[zone.index()].wrote(stamps.into_iter(), NEVER, false);
                Err(Stop::PowerLost)
            }
            Err(status) => {
                // the first units may be written
                let written = self.device.zones()[zone.index()].written as usize;
                let oracle = &mut self.zones[zone.index()];
                oracle.wrote(stamps.into_iter(), NEVER, false);
                oracle.truncate(written);
                self.unless_worn::<()>(Err(status)).map(drop)
            }
        }
    }

    fn write_wrong(&mut self, zone: ZoneId, offset: u32) -> Result<(), Stop> {
        if offset as usize == self.zones[zone.index()].written() {
            return Ok(());
        }
        match self.submit(Command::ZoneWrite { zone, offset, data: &unit_of(3), fua: false }) {
            Err(Status::Zone(
                ZoneRefusal::InvalidWrite { .. } | ZoneRefusal::Boundary { .. } | ZoneRefusal::Full { .. },
            )) => {
                self.reached.refused += 1;
                Ok(())
            }
            Ok(_) => Err(Stop::broken("running drive", format!("zone {zone} took a write at {offset}"))),
            Err(status) => self.unless_worn::<()>(Err(status)).map(drop),
        }
    }

    fn flush(&mut self) -> Result<(), Stop> {
        let at_ns = self.now_ns;
        let done = self.submit(Command::Flush);
        if let Some(done_ns) = self.unless_worn(done)? {
            self.zones.iter_mut().for_each(|zone| zone.flushed(at_ns, done_ns));
        }
        Ok(())
    }

    fn manage(&mut self, zone: Option<ZoneId>, action: ZoneAction) -> Result<(), Stop> {
        let before = self.device.zones();
        let at_ns = self.now_ns;
        let done = self.submit(Command::ZoneManage { zone, action });
        let done_ns = match done {
            Ok(done_ns) => done_ns,
            Err(Status::PowerLost) => NEVER,
            Err(Status::Zone(refusal)) if zone.is_some_and(|zone| self.is_right(&refusal, zone, 0)) => {
                return Ok(());
            }
            Err(status) => return self.unless_worn::<()>(Err(status)).map(drop),
        };
        for state in before.iter().filter(|state| zone.is_none_or(|zone| zone == state.zone)) {
            let oracle = &mut self.zones[state.zone.index()];
            match action {
                ZoneAction::Reset if state.condition != ZoneCondition::Empty => {
                    oracle.reset(done_ns);
                    self.reached.resets += 1;
                    self.worked = true;
                }
                ZoneAction::Finish if state.condition != ZoneCondition::Full => {
                    oracle.finished(at_ns, done_ns);
                    self.reached.full += 1;
                    self.worked = true;
                }
                _ => {}
            }
        }
        if done_ns == NEVER { Err(Stop::PowerLost) } else { Ok(()) }
    }

    fn reopen(&mut self) -> Result<(), Stop> {
        self.now_ns = self.device.time_ns();
        self.count_work();
        match self.device.power_off(self.now_ns) {
            Ok(()) => {}
            Err(Status::PowerLost) => return Err(Stop::PowerLost),
            Err(status) => return self.unless_worn::<()>(Err(status)).map(drop),
        }
        self.zones.iter_mut().for_each(|zone| zone.flushed(NEVER - 1, 0));
        self.worked = false;
        self.power_on(&mut PowerLoss::seeded(0))?;
        self.compare(NEVER - 1)
    }

    /// Adds what the drive has done since power came on.
    pub fn count_work(&mut self) {
        let counters = self.device.counters();
        let since = counters.since(&self.counters);
        self.tally.reached.add(&Reached::of(&since, u64::from(self.drive.0.page_bytes / UNIT_BYTES as u32)));
        self.reached.moved += since.flash_units.copyback;
    }

    /// Power comes back.
    pub fn power_on(&mut self, loss: &mut PowerLoss) -> Result<(), Stop> {
        let report = match self.device.power_on(loss) {
            Ok(report) => report,
            Err(_) if !self.device.in_flight().is_empty() => return Err(Stop::PowerLost),
            Err(error) => return Err(Stop::not_recovered(&error)),
        };
        self.now_ns = self.now_ns.max(self.device.time_ns());
        self.let_fail(1 + self.tally.cuts)?;
        self.tally.torn_pages_seen += report.torn_pages;
        self.tally.dirty_recoveries += u64::from(!report.clean);
        self.counters = self.device.counters();
        Ok(())
    }

    /// Compares all zones with what may be there after a cut.
    pub fn compare(&mut self, cut_ns: u64) -> Result<(), Stop> {
        self.device.audit();
        let active = self.device.zones().iter().filter(|state| state.condition.is_active()).count();
        if active > self.shape.max_active as usize {
            let detail = format!("{active} zones are active, of at most {}", self.shape.max_active);
            return Err(Stop::broken("zone", detail));
        }
        for state in self.device.zones() {
            let found = self.read(state.zone)?;
            let loses = self.loses();
            let oracle = &mut self.zones[state.zone.index()];
            let before = oracle.written();
            oracle.compare(cut_ns, &state, &found, loses)?;
            self.reached.cut_short += u64::from((state.written as usize) < before);
            self.reached.reset_undone += u64::from(state.written as usize > before);
            self.tally.promises_checked += 1;
        }
        // losses that were found meanwhile are recorded
        self.now_ns = self.now_ns.max(self.device.time_ns());
        Ok(())
    }

    fn compare_running(&mut self, zone: ZoneId) -> Result<(), Stop> {
        let found = self.read(zone)?;
        let state = self.device.zones()[zone.index()];
        let loses = self.loses();
        self.zones[zone.index()].compare_running(&state, &found, loses)
    }

    fn read(&mut self, zone: ZoneId) -> Result<Vec<Unit>, Stop> {
        let mut data = [0; UNIT_BYTES];
        (0..self.shape.capacity_units)
            .map(|offset| match self.submit(Command::ZoneRead { zone, offset, data: &mut data }) {
                Ok(_) => stamp_of(&data, &format!("unit {offset} of zone {zone}")).map(Unit::Stamp),
                Err(Status::ZoneUnreadable { .. }) => {
                    self.reached.lost += 1;
                    Ok(Unit::Unreadable)
                }
                Err(status) => Err(status.into()),
            })
            .collect()
    }

    /// Whether the flash has worn out.
    pub fn is_worn(&self) -> bool {
        self.worn
    }

    /// Whether a cut counts: something was written since the last clean shutdown.
    pub fn has_worked(&self) -> bool {
        self.worked
    }

    /// When the host last submitted something.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }
}
