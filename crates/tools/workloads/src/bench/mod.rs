//! `tantalum bench`: how fast the drive itself runs on this machine, and its behaviour in virtual time.
//!
//! Every operation is one unit of 4 KiB, submitted in-process, with 32 in flight in virtual time. Before random writes
//! the drive is filled and overwritten until garbage collection is steady. The machine's limit is measured in the same
//! run, in turns: random copies of units in an arena as large as the drive. Each written unit begins with its own
//! number, which each read checks. Patterns of zones fill the zones of a drive that has some, and keep nearly all of them full.

use std::str::FromStr;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use nix::time::ClockId;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use tantalum::{Command, Device, Effective, Handle, Kind, Lpn, Profile, Status, UNIT_BYTES};
use tantalum_drive::Drive;
use tantalum_report::{Bar, InvalidSetting, LatencyUs, Monitor};

use self::memcpy::{Copies, SOURCE_UNITS};
use self::zones::{Place, ZoneLog};
use crate::error::{WorkloadError, WrongData};
use crate::handle_costs::{HandleCost, handle_costs};
use crate::memory;
use crate::queue::CommandQueue;
use crate::steady_state::{MOST_WINDOWS, SteadyState, WINDOWS_PER_CAPACITY};

mod condition;
mod memcpy;
mod summary;
mod zones;

pub use condition::{Condition, conditioned};
pub use summary::of_bench;

/// Percentage of reads in [`Pattern::Mixed`].
const MIXED_READ_PERCENT: u32 = 70;

/// Operations between two checks for an interruption.
const OPERATIONS_PER_STEP: u64 = 4096;

/// The minimum number of turns that the drive and the copies take.
const TURNS: u64 = 50;

/// The maximum number of operations in a turn: the copies of a turn are not interrupted.
const MOST_IN_TURN: u64 = 1 << 18;

/// The load on the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Writes in order.
    SeqWrite,
    /// Writes anywhere.
    RandWrite,
    /// Reads anywhere.
    RandRead,
    /// 70 % reads and 30 % writes, anywhere.
    Mixed,
    /// Writes at the write pointers of the open zones, in turn.
    ZoneWrite,
    /// The same with appends.
    ZoneAppend,
    /// 70 % reads of anything in full zones, and 30 % appends.
    ZoneMixed,
}

impl Pattern {
    const NAMES: [(&'static str, Pattern); 7] = [
        ("seqwrite", Pattern::SeqWrite),
        ("randwrite", Pattern::RandWrite),
        ("randread", Pattern::RandRead),
        ("mixed", Pattern::Mixed),
        ("zonewrite", Pattern::ZoneWrite),
        ("zoneappend", Pattern::ZoneAppend),
        ("zonemixed", Pattern::ZoneMixed),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = Pattern::NAMES.iter().find(|(_, known)| *known == self);
        known.expect("every pattern has a name").0
    }

    /// Whether it is one of zones.
    pub fn uses_zones(self) -> bool {
        matches!(self, Pattern::ZoneWrite | Pattern::ZoneAppend | Pattern::ZoneMixed)
    }

    /// Whether it creates garbage in random places.
    fn overwrites_at_random(self) -> bool {
        matches!(self, Pattern::RandWrite | Pattern::Mixed)
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(name: &str) -> Result<Pattern, String> {
        let known = Pattern::NAMES.iter().find(|(known, _)| *known == name);
        known.map(|(_, pattern)| *pattern).ok_or_else(|| {
            let names: Vec<&str> = Pattern::NAMES.iter().map(|(name, _)| *name).collect();
            format!("use one of {}", names.join(", "))
        })
    }
}

/// What a part of the work took.
#[derive(Clone, Copy, Default)]
struct Taken {
    wall: Duration,
    /// Of this thread, which does it all.
    processor: Duration,
}

impl Taken {
    fn add_since(&mut self, started: &Started) {
        self.wall += started.wall.elapsed();
        self.processor += processor_time().saturating_sub(started.processor);
    }
}

/// When a part of the work began.
struct Started {
    wall: Instant,
    processor: Duration,
}

impl Started {
    fn now() -> Started {
        Started { processor: processor_time(), wall: Instant::now() }
    }
}

/// What this thread has used so far. Other programs add to the wall time of a busy machine, and little to this.
fn processor_time() -> Duration {
    ClockId::CLOCK_THREAD_CPUTIME_ID.now().expect("Linux has this clock").into()
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The drive.
    pub profile: Profile,
    /// The load.
    pub pattern: Pattern,
    /// Whether the drive is told which reads come next, as by a host with a queue.
    pub announce_reads: bool,
    /// Measured operations; at least one.
    pub operations: u64,
    /// The seed of all randomness.
    pub seed: u64,
}

impl Settings {
    fn validate(&self) -> Result<(), InvalidSetting> {
        match self.operations {
            0 => Err(InvalidSetting::new("--operations", 0, "it must be at least 1")),
            _ if self.pattern.uses_zones() && self.profile.zones.is_none() => {
                let expected = "the drive has no zones; use `--profile zns`, or a profile with [zones]";
                Err(InvalidSetting::new("--pattern", self.pattern.name(), expected))
            }
            _ => Ok(()),
        }
    }
}

/// The results of one `tantalum bench`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Outcome {
    /// `"bench"`.
    pub command: &'static str,
    /// The profile's name.
    pub profile: String,
    /// What was done.
    pub pattern: Pattern,
    /// The drive's logical capacity.
    pub capacity_bytes: u64,
    /// Flash beyond it, as asked for.
    pub over_provisioning_percent: f64,
    /// Over-provisioning and geometry as they are.
    #[serde(flatten)]
    pub effective: Effective,
    /// Operations measured, of one unit each.
    pub operations: u64,
    /// Whether the drive was told which reads come next.
    pub announced_reads: bool,
    /// Time that they took on this machine.
    pub wall_seconds: f64,
    /// Processor time of one operation.
    pub processor_us: f64,
    /// Processor time of one copy of a unit to a random place.
    pub memcpy_processor_us: f64,
    /// Operations per second of it.
    pub operations_per_second: f64,
    /// Units that this machine copies to random places per second.
    pub memcpy_units_per_second: f64,
    /// The former over the latter.
    pub memcpy_ratio: f64,
    /// Flash writes over host writes while measuring; 0 if nothing was written.
    pub write_amplification: f64,
    /// What was written with each reclaim unit handle while measuring, on a drive that has some. Each has an equal part of the units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<HandleCost>,
    /// Host memory for maps, per unit.
    pub dram_bytes_per_unit: f64,
    /// Time that the operations took on the drive.
    pub virtual_seconds: f64,
    /// Latencies in virtual time.
    pub latency_us: LatencyUs,
    /// Whether garbage collection was steady before measuring; always true where nothing is collected.
    pub steady: bool,
}

/// Measures the drive.
pub fn bench(settings: &Settings, monitor: &Monitor) -> Result<Outcome, WorkloadError> {
    settings.validate()?;
    let profile = &settings.profile;
    let mut copies = Copies::new(profile.capacity_bytes, settings.seed, monitor)?;
    memory::require(flash_bytes(profile))?;
    let mut host = Host::new(Device::in_memory(profile)?, settings.seed);
    host.announces = settings.announce_reads;
    let overwritten = host.precondition(settings.pattern, monitor)?;
    let steady = overwritten.is_none_or(|state| state.is_steady());
    let before = host.drive.lock().smart();
    let handles_before = host.drive.lock().handles();
    let start_ns = host.queue.drained_ns();
    let latencies_before = host.latencies();
    let taken = measure(&mut host, &mut copies, settings, monitor)?;
    let wall_seconds = taken.wall.as_secs_f64();
    let memcpy_units_per_second = copies.per_second();
    let mut latencies = host.latencies();
    latencies.subtract(latencies_before).expect("it was part of them");
    let after = host.drive.lock().smart();
    let handles = handle_costs(&handles_before, &host.drive.lock().handles());
    let counted = after.counters.since(&before.counters);
    let (written, programmed) = (counted.host_units_written, counted.flash_units.total());
    let operations_per_second = settings.operations as f64 / wall_seconds;
    Ok(Outcome {
        command: "bench",
        profile: profile.name.clone(),
        pattern: settings.pattern,
        capacity_bytes: profile.capacity_bytes,
        over_provisioning_percent: profile.over_provisioning_percent,
        effective: Effective::of(profile),
        operations: settings.operations,
        announced_reads: settings.announce_reads,
        wall_seconds,
        processor_us: taken.processor.as_secs_f64() * 1e6 / settings.operations as f64,
        memcpy_processor_us: copies.processor_us(),
        operations_per_second,
        memcpy_units_per_second,
        memcpy_ratio: operations_per_second / memcpy_units_per_second,
        write_amplification: if written == 0 { 0.0 } else { programmed as f64 / written as f64 },
        handles,
        dram_bytes_per_unit: host.drive.lock().dram_bytes_per_unit(),
        virtual_seconds: (host.queue.drained_ns() - start_ns) as f64 / 1e9,
        latency_us: LatencyUs::of(&latencies),
        steady,
    })
}

/// Runs the operations, and copies as many units of memory. Returns what the operations took.
fn measure(
    host: &mut Host,
    copies: &mut Copies,
    settings: &Settings,
    monitor: &Monitor,
) -> Result<Taken, WorkloadError> {
    let bar = monitor.bar("measuring", settings.operations);
    // in turns, so that the machine's other work affects both
    let mut taken = Taken::default();
    let turns = settings.operations.div_ceil(MOST_IN_TURN).max(TURNS);
    let done_after =
        |turn: u64| (u128::from(settings.operations) * u128::from(turn) / u128::from(turns)) as u64;
    for turn in 0..turns {
        let operations = done_after(turn + 1) - done_after(turn);
        copies.copy(operations);
        let started = Started::now();
        host.run(settings.pattern, operations, &bar)?;
        taken.add_since(&started);
    }
    Ok(taken)
}

/// A drive whose first `units` are written, and overwritten at random until its garbage collection is steady.
pub fn aged(profile: &Profile, units: u32, seed: u64, monitor: &Monitor) -> Result<Device, WorkloadError> {
    memory::require(flash_bytes(profile))?;
    aged_on(Device::in_memory(profile)?, units, seed, monitor)
}

/// A drive whose first `units` are written once.
pub fn filled(profile: &Profile, units: u32, seed: u64, monitor: &Monitor) -> Result<Device, WorkloadError> {
    memory::require(flash_bytes(profile))?;
    let mut host = Host::new(Device::in_memory(profile)?, seed);
    host.units = units;
    host.run(Pattern::SeqWrite, units.into(), &monitor.bar("filling", units.into()))?;
    Ok(host.flushed()?)
}

/// Overwrites the first `units` of a new drive at random until it has collected garbage.
pub fn aged_on(device: Device, units: u32, seed: u64, monitor: &Monitor) -> Result<Device, WorkloadError> {
    let mut host = Host::new(device, seed);
    host.units = units;
    while host.drive.lock().smart().counters.blocks_erased == 0 {
        host.precondition(Pattern::RandWrite, monitor)?;
    }
    Ok(host.flushed()?)
}

/// The memory that the drive's flash takes.
fn flash_bytes(profile: &Profile) -> u64 {
    let zoned = profile.zones.and_then(|_| profile.geometry().ok());
    let units = (profile.capacity_bytes as f64 * (1.0 + profile.over_provisioning_percent / 100.0)) as u64;
    zoned.map_or(units, |geometry| u64::from(geometry.units()) * UNIT_BYTES as u64)
}

/// What a host does next.
#[derive(Clone, Copy)]
enum Operation {
    Read(Lpn),
    Write(Lpn),
}

/// Draws the next operation. `next` is where the next write in order goes.
fn draw(pattern: Pattern, random: &mut Xoshiro256PlusPlus, units: u32, next: &mut u32) -> Operation {
    let mut any = || Lpn(random.random_range(0..units));
    match pattern {
        Pattern::SeqWrite => {
            let lpn = Lpn(*next);
            *next = if *next + 1 == units { 0 } else { *next + 1 };
            Operation::Write(lpn)
        }
        Pattern::RandWrite => Operation::Write(any()),
        Pattern::RandRead => Operation::Read(any()),
        Pattern::Mixed => {
            let lpn = any();
            let is_read = random.random_range(0..100) < MIXED_READ_PERCENT;
            if is_read { Operation::Read(lpn) } else { Operation::Write(lpn) }
        }
        Pattern::ZoneWrite | Pattern::ZoneAppend | Pattern::ZoneMixed => {
            unreachable!("zones are drawn elsewhere")
        }
    }
}

/// The handle of a unit: each has an equal part of them. None on a drive without handles.
fn handle_of(lpn: Lpn, units: u32, handles: u32) -> Option<Handle> {
    if handles == 0 {
        return None;
    }
    Some(Handle((u64::from(lpn.0) * u64::from(handles) / u64::from(units)) as u8))
}

/// A host that only drives the device.
struct Host {
    /// Others may only look at it between two steps.
    drive: Drive,
    units: u32,
    /// The drive's reclaim unit handles.
    handles: u32,
    queue: CommandQueue,
    random: Xoshiro256PlusPlus,
    /// Where the next write in order goes.
    next: u32,
    /// Where it writes to zones, if the drive has some.
    zones: Option<ZoneLog>,
    /// Whether it tells the drive which reads come next.
    announces: bool,
    /// Buffers for writes, taken in turn.
    source: Vec<u8>,
    target: Vec<u8>,
}

impl Host {
    fn new(device: Device, seed: u64) -> Host {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut source = vec![0; SOURCE_UNITS * UNIT_BYTES];
        random.fill(&mut source[..]);
        Host {
            units: device.limits().capacity_units as u32,
            handles: device.handles().len() as u32,
            zones: device.zone_shape().map(ZoneLog::new),
            drive: Drive::new(device),
            queue: CommandQueue::new(0),
            random,
            next: 0,
            announces: true,
            source,
            target: vec![0; UNIT_BYTES],
        }
    }

    /// Fills the drive. Writes in order then go on until blocks are written again, and random ones until garbage
    /// collection is steady; reports the state if that is given up.
    fn precondition(
        &mut self,
        pattern: Pattern,
        monitor: &Monitor,
    ) -> Result<Option<SteadyState>, WorkloadError> {
        let units = u64::from(self.units);
        self.run(Pattern::SeqWrite, units, &monitor.bar("filling", units))?;
        if let Some(zones) = self.zones.as_ref().filter(|_| pattern.uses_zones()) {
            // all of them, and some again
            let units = zones.units() + zones.units() / 4;
            self.run(Pattern::ZoneWrite, units, &monitor.bar("filling zones", units))?;
        }
        let window = (units / WINDOWS_PER_CAPACITY).max(1);
        if pattern == Pattern::SeqWrite {
            // until blocks are written again: the first time, the host's memory for them is new
            let bar = monitor.bar("filling spare blocks", units);
            while self.drive.lock().smart().counters.blocks_erased == 0 {
                self.run(pattern, window, &bar)?;
            }
        }
        if !pattern.overwrites_at_random() {
            return Ok(None);
        }
        let bar = monitor.bar("ageing", MOST_WINDOWS * window);
        let mut state = SteadyState::new(self.drive.lock().smart().counters);
        while !state.is_steady() && state.windows() < MOST_WINDOWS {
            self.run(Pattern::RandWrite, window, &bar)?;
            let amplification = state.end_window(self.drive.lock().smart().counters);
            bar.say(format!("write amplification {amplification:.2}"));
        }
        Ok(Some(state))
    }

    fn run(&mut self, pattern: Pattern, operations: u64, bar: &Bar) -> Result<(), WorkloadError> {
        let drive = self.drive.clone();
        let mut left = operations;
        while left > 0 {
            let step = left.min(OPERATIONS_PER_STEP);
            let mut device = drive.lock();
            for first in (0..step).step_by(SOURCE_UNITS) {
                let operations = (step - first).min(SOURCE_UNITS as u64) as usize;
                match pattern.uses_zones() {
                    true => {
                        (0..operations).try_for_each(|buffer| self.zoned(&mut device, pattern, buffer))?
                    }
                    false => self.batch(&mut device, pattern, operations)?,
                }
            }
            drop(device);
            left -= step;
            bar.advance(step)?;
        }
        Ok(())
    }

    /// Executes this many operations, at most one for each buffer. All buffers are stamped first: copying what was just
    /// stored would wait for all earlier stores of the processor.
    fn batch(
        &mut self,
        device: &mut Device,
        pattern: Pattern,
        operations: usize,
    ) -> Result<(), WorkloadError> {
        let mut drawn = [Operation::Read(Lpn(0)); SOURCE_UNITS];
        for (operation, buffer) in drawn[..operations].iter_mut().zip(self.source.chunks_mut(UNIT_BYTES)) {
            *operation = draw(pattern, &mut self.random, self.units, &mut self.next);
            if let Operation::Write(lpn) = operation {
                buffer[..8].copy_from_slice(&u64::from(lpn.0).to_le_bytes());
            }
        }
        if self.announces {
            device.prefetch(drawn[..operations].iter().filter_map(|operation| match operation {
                Operation::Read(lpn) => Some(*lpn),
                Operation::Write(_) => None,
            }));
        }
        for (index, operation) in drawn[..operations].iter().enumerate() {
            if let Some(Operation::Read(next)) = drawn[..operations].get(index + 1)
                && self.announces
            {
                device.prefetch_data(*next);
            }
            match *operation {
                Operation::Read(lpn) => self.read(device, lpn)?,
                Operation::Write(lpn) => self.write(device, lpn, index)?,
            }
        }
        Ok(())
    }

    /// The device, with everything on flash.
    fn flushed(self) -> Result<Device, Status> {
        let mut device = self.drive.into_device().expect("nobody else uses the drive");
        device.submit(Command::Flush, self.queue.drained_ns())?;
        Ok(device)
    }

    /// The latencies of all reads and writes so far.
    fn latencies(&self) -> Histogram<u64> {
        let device = self.drive.lock();
        let mut all = device.latencies().of(Kind::Read).clone();
        all.add(device.latencies().of(Kind::Write)).expect("they are of one kind");
        all
    }

    fn write(&mut self, device: &mut Device, lpn: Lpn, buffer: usize) -> Result<(), WorkloadError> {
        let data = &self.source[buffer * UNIT_BYTES..][..UNIT_BYTES];
        let issue_ns = self.queue.issue_ns();
        let handle = handle_of(lpn, self.units, self.handles);
        let completion = device.submit(Command::Write { lpn, data, fua: false, handle }, issue_ns)?;
        self.queue.completes(completion.done_ns);
        Ok(())
    }

    fn read(&mut self, device: &mut Device, lpn: Lpn) -> Result<(), WorkloadError> {
        let issue_ns = self.queue.issue_ns();
        let completion = device.submit(Command::Read { lpn, data: &mut self.target }, issue_ns)?;
        self.queue.completes(completion.done_ns);
        let found = u64::from_le_bytes(self.target[..8].try_into().expect("eight bytes"));
        if found == u64::from(lpn.0) { Ok(()) } else { Err(WrongData { lpn, found }.into()) }
    }

    /// Draws an operation on zones, and executes it.
    fn zoned(&mut self, device: &mut Device, pattern: Pattern, buffer: usize) -> Result<(), WorkloadError> {
        let reads = pattern == Pattern::ZoneMixed && self.random.random_range(0..100) < MIXED_READ_PERCENT;
        let zones = self.zones.as_mut().expect("the settings were checked");
        match zones.any_written(&mut self.random).filter(|_| reads) {
            Some(place) => self.zone_read(device, place),
            None => {
                let place = zones.next();
                self.zone_write(device, place, pattern != Pattern::ZoneWrite, buffer)
            }
        }
    }

    fn zone_write(
        &mut self,
        device: &mut Device,
        place: Place,
        appends: bool,
        buffer: usize,
    ) -> Result<(), WorkloadError> {
        let zones = self.zones.as_mut().expect("a place in a zone was drawn");
        let data = &mut self.source[buffer * UNIT_BYTES..][..UNIT_BYTES];
        data[..8].copy_from_slice(&u64::from(zones.number(place).0).to_le_bytes());
        let (issue_ns, Place { zone, mut offset }) = (self.queue.issue_ns(), place);
        let completion = match appends {
            true => device
                .submit(Command::ZoneAppend { zone, data, fua: false, offset: &mut offset }, issue_ns)?,
            false => device.submit(Command::ZoneWrite { zone, offset, data, fua: false }, issue_ns)?,
        };
        self.queue.completes(completion.done_ns);
        Ok(zones.written(Place { zone, offset }, device, &mut self.queue)?)
    }

    fn zone_read(&mut self, device: &mut Device, place: Place) -> Result<(), WorkloadError> {
        let (issue_ns, Place { zone, offset }) = (self.queue.issue_ns(), place);
        let completion =
            device.submit(Command::ZoneRead { zone, offset, data: &mut self.target }, issue_ns)?;
        self.queue.completes(completion.done_ns);
        let found = u64::from_le_bytes(self.target[..8].try_into().expect("eight bytes"));
        let lpn = self.zones.as_ref().expect("a place in a zone was drawn").number(place);
        if found == u64::from(lpn.0) { Ok(()) } else { Err(WrongData { lpn, found }.into()) }
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{FdpProfile, Isolation};

    use super::*;

    fn outcome(pattern: Pattern) -> Outcome {
        outcome_with(None, pattern)
    }

    fn outcome_with(fdp: Option<FdpProfile>, pattern: Pattern) -> Outcome {
        let profile = Profile { capacity_bytes: 64 << 20, fdp, ..Profile::load("femu-2021").unwrap() };
        let settings = Settings { profile, pattern, announce_reads: true, operations: 20_000, seed: 1 };
        bench(&settings, &Monitor::silent()).unwrap()
    }

    #[test]
    fn random_writes_amplify_and_sequential_ones_do_not() {
        let (random, sequential) = (outcome(Pattern::RandWrite), outcome(Pattern::SeqWrite));
        assert!(random.write_amplification > 1.2, "{random:?}");
        assert!(sequential.write_amplification < 1.2, "{sequential:?}");
    }

    #[test]
    fn each_handle_has_an_equal_part_of_the_units() {
        let fdp = Some(FdpProfile { handles: 2, isolation: Isolation::Persistently });
        let placed = outcome_with(fdp, Pattern::RandWrite);
        let written: Vec<u64> = placed.handles.iter().map(|cost| cost.host_units_written).collect();
        assert_eq!(written.iter().sum::<u64>(), 20_000);
        assert!(written.len() == 2 && written[0].abs_diff(written[1]) < 1000, "{written:?}");
        assert!(placed.handles.iter().all(|cost| cost.write_amplification.is_some_and(|ratio| ratio > 1.1)));
        assert!(of_bench(&placed).contains("handle 1"));
        let units = 1 << 14;
        assert_eq!(handle_of(Lpn(units - 1), units, 128), Some(Handle(127)));
        assert_eq!(
            [0, units / 2 - 1, units / 2].map(|lpn| handle_of(Lpn(lpn), units, 2)),
            [0, 0, 1].map(|handle| Some(Handle(handle)))
        );
        assert!(handle_of(Lpn(5), units, 0).is_none() && outcome(Pattern::SeqWrite).handles.is_empty());
    }

    #[test]
    fn reads_write_nothing() {
        assert_eq!(outcome(Pattern::RandRead).write_amplification, 0.0);
    }

    /// Checkpoints, tails and copies take the rest.
    #[test]
    fn zones_are_programmed_once_whatever_is_written_to_them() {
        let profile = Profile::load("zns").unwrap();
        for pattern in [Pattern::ZoneWrite, Pattern::ZoneAppend, Pattern::ZoneMixed] {
            let profile = Profile { capacity_bytes: 128 << 20, ..profile.clone() };
            let settings = Settings { profile, pattern, announce_reads: true, operations: 50_000, seed: 1 };
            let outcome = bench(&settings, &Monitor::silent()).unwrap();
            assert!((0.99..1.01).contains(&outcome.write_amplification), "{outcome:?}");
        }
        let profile = Profile::load("femu-2021").unwrap();
        let settings =
            Settings { profile, pattern: Pattern::ZoneWrite, announce_reads: true, operations: 1, seed: 1 };
        let refused = bench(&settings, &Monitor::silent()).unwrap_err().to_string();
        assert!(refused.contains("--pattern zonewrite: the drive has no zones"), "{refused}");
    }

    #[test]
    fn virtual_figures_follow_from_the_seed() {
        let (first, second) = (outcome(Pattern::Mixed), outcome(Pattern::Mixed));
        assert_eq!(first.virtual_seconds, second.virtual_seconds);
        assert_eq!(first.latency_us, second.latency_us);
        assert_eq!(first.write_amplification, second.write_amplification);
    }

    #[test]
    fn unknown_pattern_lists_the_known_ones() {
        assert_eq!("mixed".parse(), Ok(Pattern::Mixed));
        let error = "randomwrite".parse::<Pattern>().unwrap_err();
        assert_eq!(
            error,
            "use one of seqwrite, randwrite, randread, mixed, zonewrite, zoneappend, zonemixed"
        );
    }
}
