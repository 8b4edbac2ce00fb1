//! Write amplification beside theory's.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{BlockId, BlockState, BlockUse, Counters, Device, Lpn, Profile, VictimPolicy};
use tantalum_report::{Figures, Row};
use tantalum_workloads::distributions::{Shuffle, Zipf};

use super::host::Host;
use super::theory::{self, Class, UNIFORM};
use super::{COLUMNS, Run, check};
use crate::error::ExperimentError;

/// How often the capacity is overwritten before measuring, and while measuring.
const WARM_UP: u64 = 8;
const MEASURED: u64 = 4;

/// How often the drive's blocks are looked at in one overwriting of the capacity.
const LOOKS: u64 = 16;

/// The exponent of the Zipf distribution, below 1: that of "How to Write to SSDs".
const ZIPF: f64 = 0.8;

/// Units of a block that is large.
const LARGE: u32 = 4096;

/// Classes into which the ranks of a Zipf distribution are divided: each holds ranks that are written nearly alike.
const ZIPF_CLASSES: u64 = 400;

/// Which units are overwritten.
#[derive(Clone, Copy)]
enum Load {
    Uniform,
    /// This percentage of the units gets the rest of the percentage of the writes: 20 for "80/20".
    Hot(u32),
    Zipf,
}

impl Load {
    fn name(self) -> String {
        match self {
            Load::Uniform => "uniform".to_owned(),
            Load::Hot(units) => format!("{}/{units}", 100 - units),
            Load::Zipf => format!("Zipf {ZIPF}"),
        }
    }

    fn classes(self, units: u64) -> Vec<Class> {
        match self {
            Load::Uniform => UNIFORM.into(),
            Load::Hot(percent) => {
                let hot = f64::from(percent) / 100.0;
                vec![Class { units: hot, writes: 1.0 - hot }, Class { units: 1.0 - hot, writes: hot }]
            }
            Load::Zipf => {
                // ranks from exp(k) to exp(k + 1), in small steps; the first ones one by one
                let weight = |rank: u64| (rank as f64).powf(-ZIPF);
                let all: f64 = (1..=units).map(weight).sum();
                let step = (units as f64).powf(1.0 / ZIPF_CLASSES as f64);
                let mut classes = Vec::new();
                let mut first = 1;
                while first <= units {
                    let last = ((first as f64 * step) as u64).clamp(first, units);
                    let writes = (first..=last).map(weight).sum::<f64>() / all;
                    classes.push(Class { units: (last - first + 1) as f64 / units as f64, writes });
                    first = last + 1;
                }
                classes
            }
        }
    }
}

/// Draws units of a load.
struct Draw {
    load: Load,
    units: u64,
    zipf: Zipf,
    shuffle: Shuffle,
    random: Xoshiro256PlusPlus,
}

impl Draw {
    fn new(load: Load, units: u64, seed: u64) -> Draw {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Draw { load, units, zipf: Zipf::new(units, ZIPF), shuffle: Shuffle::new(units), random }
    }

    fn next(&mut self) -> Lpn {
        let random = &mut self.random;
        // what is written often is spread over the drive
        let rank = match self.load {
            Load::Uniform => random.random_range(1..=self.units),
            Load::Hot(percent) => {
                let hot = self.units * u64::from(percent) / 100;
                match random.random_range(0..100) >= percent {
                    true => random.random_range(1..=hot),
                    false => random.random_range(hot + 1..=self.units),
                }
            }
            Load::Zipf => self.zipf.draw(random),
        };
        Lpn((self.shuffle.of(rank) - 1) as u32)
    }
}

/// A drive, and how it is overwritten.
#[derive(Clone, Copy)]
struct Case {
    drive: Drive,
    capacity_bytes: u64,
    over_provisioning_percent: f64,
    policy: VictimPolicy,
    load: Load,
}

#[derive(Clone, Copy)]
enum Drive {
    /// `femu-2021` with one plane, which lets its blocks be large.
    OnePlane,
    Profile(&'static str),
}

impl Drive {
    fn name(self) -> &'static str {
        match self {
            Drive::OnePlane => "one plane",
            Drive::Profile(name) => name,
        }
    }

    fn profile(self) -> Result<Profile, ExperimentError> {
        Ok(match self {
            Drive::OnePlane => {
                let mut profile = Profile::load("femu-2021")?;
                (profile.flash.channels, profile.flash.dies_per_channel) = (1, 1);
                profile
            }
            Drive::Profile(name) => Profile::load(name)?,
        })
    }
}

/// What was measured.
struct Measured {
    amplification: f64,
    /// Flash that holds data, over the logical capacity.
    a: f64,
    units_per_block: u32,
}

const MIB: u64 = 1 << 20;

const CAPACITY_BYTES: u64 = 512 * MIB;

const ONE_PLANE: Case = Case {
    drive: Drive::OnePlane,
    capacity_bytes: CAPACITY_BYTES,
    over_provisioning_percent: 7.0,
    policy: VictimPolicy::Greedy,
    load: Load::Uniform,
};

/// All tables.
pub(super) fn figures(run: &Run<'_>) -> Result<Vec<Figures>, ExperimentError> {
    let policies = [
        VictimPolicy::Greedy,
        VictimPolicy::Fifo,
        VictimPolicy::DChoices(10),
        VictimPolicy::DChoices(2),
        VictimPolicy::Random,
    ];
    let provisions = [7.0, 12.5, 28.0, 50.0];
    let uniform = policies.iter().flat_map(|policy| {
        provisions.map(|over_provisioning_percent| Case {
            policy: *policy,
            over_provisioning_percent,
            ..ONE_PLANE
        })
    });
    let sizes = ["femu-2021", "tlc-nvme"].into_iter().flat_map(|name| {
        [128, 512, 2048].map(|mib| Case {
            drive: Drive::Profile(name),
            capacity_bytes: mib * MIB,
            ..ONE_PLANE
        })
    });
    let skewed = [Load::Hot(20), Load::Hot(10), Load::Zipf].into_iter().flat_map(|load| {
        [12.5, 28.0, 50.0].map(|over_provisioning_percent| Case {
            load,
            policy: VictimPolicy::Fifo,
            over_provisioning_percent,
            ..ONE_PLANE
        })
    });
    Ok(vec![
        with_blocks(run, "write amplification by policy, uniform overwrites", uniform)?,
        with_blocks(run, "write amplification by size of the drive, uniform overwrites", sizes)?,
        with_blocks(run, "write amplification of skewed overwrites", skewed)?,
    ])
}

fn with_blocks(
    run: &Run<'_>,
    title: &str,
    cases: impl Iterator<Item = Case>,
) -> Result<Figures, ExperimentError> {
    let rows = cases.map(|case| case.row(run)).collect::<Result<_, _>>()?;
    let columns = ["OP that holds data, %", "units of a block", "of large blocks"];
    let columns = columns.into_iter().chain(COLUMNS).map(str::to_owned).collect();
    Ok(Figures { title: title.to_owned(), unit: "units programmed for each one written", columns, rows })
}

impl Case {
    /// The case at the scale of the run. A drive with a cache must be much larger than that.
    fn scaled(&self, run: &Run<'_>) -> Case {
        let least = match self.drive {
            Drive::OnePlane => 16 * MIB,
            Drive::Profile(_) => 128 * MIB,
        };
        let capacity_bytes = ((self.capacity_bytes as f64 * run.scale) as u64).next_multiple_of(MIB);
        Case { capacity_bytes: capacity_bytes.max(least), ..*self }
    }

    fn name(&self) -> String {
        let Case { drive, capacity_bytes, over_provisioning_percent, policy, load } = self;
        let mib = capacity_bytes / MIB;
        format!("{}, {mib} MiB, {over_provisioning_percent} %, {policy}, {}", drive.name(), load.name())
    }

    fn row(&self, run: &Run<'_>) -> Result<Row, ExperimentError> {
        let case = self.scaled(run);
        let profile = case.profile()?;
        let Measured { amplification, a, units_per_block } = case.measure(&profile, run)?;
        let (limit, expected) = match case.policy {
            VictimPolicy::Random => (a / (a - 1.0), theory::d_choices(a, units_per_block, 1)),
            VictimPolicy::DChoices(d) => {
                (theory::d_choices(a, LARGE, d), theory::d_choices(a, units_per_block, d))
            }
            VictimPolicy::Greedy => (theory::fifo(a, &UNIFORM), theory::greedy(a, units_per_block)),
            VictimPolicy::Fifo | VictimPolicy::CostBenefit => {
                let any = theory::fifo(a, &case.load.classes(profile.capacity_units()));
                (any, any)
            }
        };
        let mut ours = vec![(a - 1.0) * 100.0, f64::from(units_per_block), limit];
        ours.extend(check(expected, amplification));
        Ok(Row { name: case.name(), ours, paper: None })
    }

    fn profile(&self) -> Result<Profile, ExperimentError> {
        let mut profile = self.drive.profile()?;
        profile.capacity_bytes = self.capacity_bytes;
        profile.over_provisioning_percent = self.over_provisioning_percent;
        profile.ftl.victim_policy = self.policy;
        profile.validate()?;
        Ok(profile)
    }

    fn measure(&self, profile: &Profile, run: &Run<'_>) -> Result<Measured, ExperimentError> {
        let mut device = Device::in_memory(profile)?;
        let units = profile.capacity_units();
        let geometry = profile.geometry().expect("a valid profile has a geometry");
        let bar = run.monitor.bar(self.name(), units * (1 + WARM_UP + MEASURED));
        let mut host = Host::new(&mut device);
        let mut in_order = 0..units as u32;
        host.write(units, || Lpn(in_order.next().expect("as many as are written")), &bar)?;
        let mut draw = Draw::new(self.load, units, run.seed);
        host.write(units * WARM_UP, || draw.next(), &bar)?;
        let before = host.device.counters();
        let mut states = vec![BlockState::default(); geometry.blocks() as usize];
        let mut held = 0.0;
        for _ in 0..MEASURED * LOOKS {
            host.write(units / LOOKS, || draw.next(), &bar)?;
            host.device.block_states(BlockId(0), &mut states);
            held += blocks_with_data(&states);
        }
        let counted = host.device.counters().since(&before);
        let held = held / (MEASURED * LOOKS) as f64;
        let units_per_block = geometry.units_per_block();
        let a = held * f64::from(units_per_block) / units as f64;
        Ok(Measured { amplification: of_data(&counted), a, units_per_block })
    }
}

/// Units of data programmed for each one written. What journal and checkpoints take is not in any model.
fn of_data(counted: &Counters) -> f64 {
    let flash = counted.flash_units;
    (flash.host + flash.copyback + flash.padding) as f64 / counted.host_units_written as f64
}

/// Blocks that hold data. An open one is half full on average.
fn blocks_with_data(states: &[BlockState]) -> f64 {
    let of = |block_use| states.iter().filter(|state| state.block_use == block_use).count() as f64;
    of(BlockUse::Closed) + of(BlockUse::Open) / 2.0
}
