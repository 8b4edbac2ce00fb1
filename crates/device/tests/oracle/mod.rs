//! A random host, and what it may find after each cut.

mod log_host;

use std::collections::{BTreeMap, BTreeSet};

use log_host::LogHost;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{
    CacheMode, CacheProfile, Command, Completion, Device, FlashProfile, FtlProfile, LimitsProfile,
    LinkProfile, Lpn, Plp, PowerLoss, PowerProfile, Profile, ShareRange, Status, TxId, UNIT_BYTES,
    VictimPolicy,
};

/// Units that direct commands work on; the log's host has those behind.
const DIRECT: u32 = 48;
const UNITS: u32 = 256;

/// What kind of drive.
pub struct Plan {
    page_bytes: u32,
    cache: CacheMode,
    plp: Plp,
}

impl Plan {
    pub fn new(page_bytes: u32, cache: CacheMode, plp: Plp) -> Plan {
        Plan { page_bytes, cache, plp }
    }

    /// Little more than what the layout asks for, so that garbage is always collected under pressure.
    fn over_provisioning_percent(&self) -> f64 {
        let units_per_block = 8 * self.page_bytes / UNIT_BYTES as u32;
        let dump_blocks = if self.plp == Plp::None { 0 } else { 72_u32.div_ceil(units_per_block) + 1 };
        let spare_blocks = 20 + dump_blocks;
        f64::from(spare_blocks * units_per_block) / f64::from(UNITS) * 100.0
    }

    fn profile(&self, seed: u64) -> Profile {
        Profile {
            name: "oracle".into(),
            description: "a drive so small that everything happens often".into(),
            capacity_bytes: u64::from(UNITS) * UNIT_BYTES as u64,
            over_provisioning_percent: self.over_provisioning_percent(),
            flash: FlashProfile {
                channels: 2,
                dies_per_channel: 1,
                planes_per_die: 1 + (seed % 2) as u32,
                pages_per_block: 8,
                page_bytes: self.page_bytes,
                read_ns: 50_000,
                program_ns: 500_000,
                erase_ns: 3_000_000,
                channel_bytes_per_second: 400_000_000,
                endurance_cycles: 3000,
            },
            link: LinkProfile { bytes_per_second: 1_000_000_000, command_ns: 5_000 },
            cache: CacheProfile { mode: self.cache, bytes: 16 * UNIT_BYTES as u64 },
            power: PowerProfile {
                plp: self.plp,
                dump_bytes: if self.plp == Plp::None { 0 } else { 72 * UNIT_BYTES as u64 },
            },
            limits: LimitsProfile { atomic_units: 16, open_transactions: 4, shared_owners: 8 },
            ftl: FtlProfile {
                victim_policy: if seed.is_multiple_of(3) {
                    VictimPolicy::CostBenefit
                } else {
                    VictimPolicy::Greedy
                },
                wear_spread: 8,
            },
        }
    }
}

/// What a run came across.
#[derive(Default)]
pub struct Seen {
    pub cuts: u64,
    pub dirty_recoveries: u64,
    pub second_cuts: u64,
    pub torn_pages: u64,
}

/// A value is a stamp; 0 is what an unmapped unit reads as.
type Stamp = u64;

pub fn unit_of(stamp: Stamp) -> Vec<u8> {
    stamp.to_le_bytes().repeat(UNIT_BYTES / 8)
}

/// The stamp of a unit; D2 says that it is one whole version.
pub fn stamp_of(unit: &[u8], what: &str) -> Stamp {
    let stamp = u64::from_le_bytes(unit[..8].try_into().unwrap());
    assert!(unit.chunks(8).all(|word| word == stamp.to_le_bytes()), "D2: {what} is torn");
    stamp
}

/// A drive with the clock of its one client.
pub struct Host {
    pub device: Device,
    pub now_ns: u64,
}

impl Host {
    pub fn submit(&mut self, command: Command<'_>) -> Result<Completion, Status> {
        let completion = self.device.submit(command, self.now_ns)?;
        self.now_ns = self.now_ns.max(completion.done_ns);
        Ok(completion)
    }

    pub fn read(&mut self, lpn: Lpn) -> Stamp {
        let mut unit = vec![0; UNIT_BYTES];
        self.submit(Command::Read { lpn, data: &mut unit })
            .unwrap_or_else(|error| panic!("reading {lpn}: {error}"));
        stamp_of(&unit, &format!("unit {lpn}"))
    }
}

/// What direct units read as, and what they may read as after a cut.
#[derive(Default)]
struct Oracle {
    now: BTreeMap<Lpn, Stamp>,
    allowed: BTreeMap<Lpn, BTreeSet<Stamp>>,
    /// Steps under way or not yet durable: all of their units took the new value, or none.
    steps: Vec<BTreeMap<Lpn, Stamp>>,
}

impl Oracle {
    fn now(&self, lpn: Lpn) -> Stamp {
        self.now.get(&lpn).copied().unwrap_or(0)
    }

    fn may(&self, lpn: Lpn) -> BTreeSet<Stamp> {
        self.allowed.get(&lpn).cloned().unwrap_or_else(|| BTreeSet::from([self.now(lpn)]))
    }

    /// A command that gives these units these values is about to be issued.
    fn issue(&mut self, new: &BTreeMap<Lpn, Stamp>, one_step: bool) {
        // steps whose units are changed again can no longer be told from what came after
        self.steps.retain(|step| !step.keys().any(|lpn| new.contains_key(lpn)));
        let told_apart = new.iter().all(|(lpn, stamp)| !self.may(*lpn).contains(stamp));
        if one_step && told_apart {
            self.steps.push(new.clone());
        }
        for (lpn, stamp) in new {
            let mut may = self.may(*lpn);
            may.insert(*stamp);
            self.allowed.insert(*lpn, may);
        }
    }

    /// It was acknowledged.
    fn acknowledge(&mut self, new: &BTreeMap<Lpn, Stamp>, durable: bool) {
        for (lpn, stamp) in new {
            self.now.insert(*lpn, *stamp);
            if durable {
                self.allowed.insert(*lpn, BTreeSet::from([*stamp]));
            }
        }
        if durable {
            self.steps.retain(|step| step != new);
        }
    }

    fn flushed(&mut self) {
        self.allowed.clear();
        self.steps.clear();
    }
}

struct Run {
    rng: Xoshiro256PlusPlus,
    host: Host,
    oracle: Oracle,
    log: LogHost,
    next_stamp: Stamp,
    protected: bool,
    transaction: Option<(TxId, BTreeMap<Lpn, Stamp>)>,
}

/// Runs one seed: commands until the cut, recovery, comparison, and on, a number of times.
pub fn run(seed: u64, plan: &Plan) -> Seen {
    println!("seed {seed}");
    let mut seen = Seen::default();
    let device = Device::in_memory(&plan.profile(seed)).unwrap();
    let protected = plan.plp != Plp::None;
    assert_eq!(device.limits().capacity_units, UNITS.into());
    device.audit();
    let mut host = Host { device, now_ns: 0 };
    fill(&mut host);
    let log = LogHost::new(&mut host, Lpn(DIRECT), protected);
    let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut run =
        Run { rng, host, oracle: Oracle::default(), log, next_stamp: 1, protected, transaction: None };
    for _ in 0..10 {
        let operations = run.rng.random_range(1..120);
        run.host.device.cut_after(Some(operations));
        let error = loop {
            if run.rng.random_ratio(1, 400) {
                let at_ns = run.host.now_ns + run.rng.random_range(0..3_000_000);
                run.host.device.cut_power(at_ns);
            }
            if let Err(error) = run.step() {
                break error;
            }
        };
        assert_eq!(error, Status::PowerLost, "seed {seed}");
        run.power_on(&mut seen);
        run.compare(seed);
    }
    seen
}

/// Units that nothing else works on, with values that never change: garbage collection moves them along.
const COLD: std::ops::Range<u32> = 80..UNITS;

fn fill(host: &mut Host) {
    for lpn in COLD {
        let data = unit_of(u64::from(lpn) << 20);
        host.submit(Command::Write { lpn: Lpn(lpn), data: &data, fua: false }).unwrap();
    }
    host.submit(Command::Flush).unwrap();
}

impl Run {
    fn power_on(&mut self, seen: &mut Seen) {
        seen.cuts += 1;
        if self.rng.random_ratio(1, 2) {
            let operations = self.rng.random_range(1..12);
            self.host.device.cut_after(Some(operations));
        }
        let mut loss = PowerLoss::seeded(self.rng.random());
        for attempt in 0.. {
            assert!(attempt < 3, "recovery does not end");
            match self.host.device.power_on(&mut loss) {
                Ok(report) => {
                    seen.dirty_recoveries += u64::from(!report.clean);
                    seen.torn_pages += report.torn_pages;
                    break;
                }
                Err(error) => {
                    assert!(!self.host.device.has_power(), "recovery: {error}");
                    assert!(error.to_string().contains("power is lost"), "recovery: {error}");
                    seen.second_cuts += 1;
                }
            }
        }
        self.host.device.cut_after(None);
        self.host.device.audit();
        self.transaction = None;
    }

    /// Everything the promises say, after a cut.
    fn compare(&mut self, seed: u64) {
        for lpn in (0..DIRECT).map(Lpn) {
            let (found, may) = (self.host.read(lpn), self.oracle.may(lpn));
            assert!(may.contains(&found), "D1, seed {seed}: unit {lpn} reads {found}, allowed {may:?}");
            self.oracle.now.insert(lpn, found);
        }
        for step in &self.oracle.steps {
            let taken = step.iter().filter(|(lpn, stamp)| self.oracle.now(**lpn) == **stamp).count();
            assert!(
                taken == 0 || taken == step.len(),
                "D3, seed {seed}: {taken} of the step {step:?} was done"
            );
        }
        for lpn in COLD {
            assert_eq!(self.host.read(Lpn(lpn)), u64::from(lpn) << 20, "D1, seed {seed}: cold unit {lpn}");
        }
        self.oracle.flushed();
        self.log.recover(&mut self.host, seed);
    }

    fn stamp(&mut self) -> Stamp {
        self.next_stamp += 1;
        self.next_stamp
    }

    fn lpn(&mut self) -> Lpn {
        Lpn(self.rng.random_range(0..DIRECT))
    }

    fn distinct(&mut self, count: usize) -> Vec<Lpn> {
        let mut lpns = BTreeSet::new();
        while lpns.len() < count {
            lpns.insert(self.lpn());
        }
        let mut lpns: Vec<Lpn> = lpns.into_iter().collect();
        for index in (1..lpns.len()).rev() {
            lpns.swap(index, self.rng.random_range(0..=index));
        }
        lpns
    }

    /// One command, or a few of the log's host.
    fn step(&mut self) -> Result<(), Status> {
        match self.rng.random_range(0..100) {
            0..24 => self.write(),
            24..29 => self.trim(),
            29..37 => self.share(),
            37..40 => self.remap(),
            40..50 => self.transaction(),
            50..55 => self.atomic(),
            55..60 => {
                self.host.submit(Command::Flush)?;
                self.oracle.flushed();
                self.log.flushed();
                Ok(())
            }
            60..65 => self.spot_check(),
            _ => self.log.step(&mut self.host, &mut self.rng),
        }
    }

    fn write(&mut self) -> Result<(), Status> {
        let (lpn, fua) = (self.lpn(), self.rng.random_ratio(1, 10));
        let units = self.rng.random_range(1..6).min(DIRECT - lpn.0);
        let new: BTreeMap<Lpn, Stamp> = (lpn.0..lpn.0 + units).map(|lpn| (Lpn(lpn), self.stamp())).collect();
        let data: Vec<u8> = new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        self.oracle.issue(&new, false);
        self.host.submit(Command::Write { lpn, data: &data, fua })?;
        self.oracle.acknowledge(&new, fua || self.protected);
        Ok(())
    }

    fn trim(&mut self) -> Result<(), Status> {
        let lpn = self.lpn();
        let units = self.rng.random_range(1..4).min(DIRECT - lpn.0);
        let new: BTreeMap<Lpn, Stamp> = (lpn.0..lpn.0 + units).map(|lpn| (Lpn(lpn), 0)).collect();
        self.oracle.issue(&new, false);
        self.host.submit(Command::Trim { lpn, units })?;
        self.oracle.acknowledge(&new, self.protected);
        Ok(())
    }

    fn share(&mut self) -> Result<(), Status> {
        let (count, deferred) = (self.rng.random_range(1..4), self.rng.random_ratio(1, 2));
        let lpns = self.distinct(2 * count);
        let (dsts, srcs) = lpns.split_at(count);
        let ranges: Vec<ShareRange> =
            dsts.iter().zip(srcs).map(|(dst, src)| ShareRange { dst: *dst, src: *src, units: 1 }).collect();
        if srcs.iter().any(|src| !self.host.device.is_mapped(*src)) {
            let refused = self.host.submit(Command::Share { ranges: &ranges, deferred });
            assert!(matches!(refused, Err(Status::Unmapped { .. } | Status::PowerLost)), "{refused:?}");
            return refused
                .map(drop)
                .or_else(|error| if error == Status::PowerLost { Err(error) } else { Ok(()) });
        }
        let new = dsts.iter().zip(srcs).map(|(dst, src)| (*dst, self.oracle.now(*src))).collect();
        self.oracle.issue(&new, true);
        self.host.submit(Command::Share { ranges: &ranges, deferred })?;
        self.oracle.acknowledge(&new, !deferred || self.protected);
        Ok(())
    }

    fn remap(&mut self) -> Result<(), Status> {
        let lpns = self.distinct(2);
        let (dst, src) = (lpns[0], lpns[1]);
        if !self.host.device.is_mapped(src) {
            return Ok(());
        }
        let new = BTreeMap::from([(dst, self.oracle.now(src)), (src, 0)]);
        self.oracle.issue(&new, true);
        self.host.submit(Command::Remap { src, dst, units: 1 })?;
        self.oracle.acknowledge(&new, true);
        Ok(())
    }

    fn transaction(&mut self) -> Result<(), Status> {
        let Some((tx, writes)) = self.transaction.take() else {
            let tx = self.host.submit(Command::Begin)?.tx.expect("begin names the transaction");
            self.transaction = Some((tx, BTreeMap::new()));
            return Ok(());
        };
        if writes.len() >= 5 || self.rng.random_ratio(1, 8) {
            if self.rng.random_ratio(1, 5) {
                return self.host.submit(Command::Abort { tx }).map(drop);
            }
            self.oracle.issue(&writes, true);
            self.host.submit(Command::Commit { tx })?;
            self.oracle.acknowledge(&writes, true);
            return Ok(());
        }
        let (lpn, stamp) = (self.lpn(), self.stamp());
        self.host.submit(Command::TxWrite { tx, lpn, data: &unit_of(stamp) })?;
        let mut unit = vec![0; UNIT_BYTES];
        self.host.submit(Command::TxRead { tx, lpn, data: &mut unit })?;
        assert_eq!(stamp_of(&unit, "a transaction's own unit"), stamp);
        self.transaction = Some((tx, writes.into_iter().chain([(lpn, stamp)]).collect()));
        Ok(())
    }

    fn atomic(&mut self) -> Result<(), Status> {
        let count = self.rng.random_range(1..10);
        let new: BTreeMap<Lpn, Stamp> =
            self.distinct(count).into_iter().map(|lpn| (lpn, self.stamp())).collect();
        let data: Vec<(Lpn, Vec<u8>)> = new.iter().map(|(lpn, stamp)| (*lpn, unit_of(*stamp))).collect();
        let writes: Vec<(Lpn, &[u8])> = data.iter().map(|(lpn, data)| (*lpn, &data[..])).collect();
        self.oracle.issue(&new, true);
        self.host.submit(Command::WriteAtomic { writes: &writes })?;
        self.oracle.acknowledge(&new, true);
        Ok(())
    }

    /// The running drive reads right too.
    fn spot_check(&mut self) -> Result<(), Status> {
        if !self.host.device.has_power() {
            return Err(Status::PowerLost);
        }
        let lpn = self.lpn();
        assert_eq!(self.host.read(lpn), self.oracle.now(lpn), "the running drive reads unit {lpn} wrong");
        self.log.check_running(&mut self.host);
        Ok(())
    }
}
