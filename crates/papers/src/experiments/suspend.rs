//! Who goes first on a plane, beside Wu and He (FAST 2012): what reads gain by going ahead of programs and erases, and by
//! interrupting them.
//!
//! The paper replays traces on SLC and MLC flash without a write cache, and prints averages over them. Here reads and writes of
//! 4 KiB come at random times to random places of an aged drive, so that a stated part of its planes' time is asked for. A
//! request does not wait for the one before it, as in a trace.

use std::sync::LazyLock;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use tantalum::{CacheMode, Command, Device, FlashScheduling, Lpn, Nanoseconds, Profile, UNIT_BYTES};
use tantalum_report::{Figures, Outcome, Row, Span, Time};
use tantalum_workloads::bench;

use super::binds::{self, Beginning, Phase};
use super::printed::{self, PrintedClaim};
use super::{Run, smaller};
use crate::error::ExperimentError;

/// Capacity at scale 1: 16 planes.
const CAPACITY_BYTES: u64 = 256 << 20;

/// Requests of one case, at scale 1.
const REQUESTS: u64 = 60_000;

/// Of a hundred requests.
const READ_PERCENT: u32 = 70;

/// How much of the planes' time the requests ask for, in percent, if a write takes a program and as much again for collection.
const LOADS: [u32; 3] = [20, 40, 60];

/// Times of a page and of a block, in us: read, program, erase.
const FLASH: [(&str, [u64; 3]); 2] = [
    // Agrawal et al. (USENIX ATC 2008), Samsung K9XXG08UXM
    ("SLC", [25, 200, 1500]),
    // datasheet family: MLC with pages of 4 KiB
    ("MLC", [50, 800, 2000]),
];

/// What an interruption costs, and how often there may be one: chosen, as in the profile tlc-nvme with its slower flash.
const SUSPEND_NS: Nanoseconds = 10_000;
const SUSPENSIONS: u32 = 8;

const POLICIES: [(&str, FlashScheduling); 3] = [
    ("fifo", FlashScheduling::Fifo),
    ("read-first", FlashScheduling::ReadFirst),
    ("suspend", FlashScheduling::Suspend),
];

/// What the paper prints.
static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("suspend.toml", include_str!("suspend.toml")));

/// Its averages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Printed {
    source: String,
    reads_over_read_first: PrintedClaim,
    reads_over_fifo: PrintedClaim,
    writes_over_read_first: PrintedClaim,
}

/// What requests of one case took on average, in us.
struct Case {
    read_us: f64,
    write_us: f64,
    phase: Phase,
}

/// Both kinds of flash, three loads and three policies.
pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let (mut tables, mut phases) = (Vec::new(), Vec::new());
    for (flash, times_us) in FLASH {
        let mut rows = [Vec::new(), Vec::new()];
        for (policy, scheduling) in POLICIES {
            let profile = profile(run, times_us, scheduling)?;
            let device = bench::aged(&profile, profile.capacity_units() as u32, run.seed, run.monitor)?;
            let mut of_policy = Vec::new();
            for load in LOADS {
                let case = measure(run, &device, load)?;
                phases.push((format!("{flash}, {load} %, {policy}"), case.phase));
                of_policy.push(case);
            }
            let row = |figure: fn(&Case) -> f64| Row {
                name: policy.to_owned(),
                ours: of_policy.iter().map(figure).collect(),
                paper: None,
            };
            rows[0].push(row(|case| case.read_us));
            rows[1].push(row(|case| case.write_us));
        }
        let columns: Vec<String> = LOADS.map(|load| format!("{load} %")).into();
        for (what, rows) in ["reads", "writes"].into_iter().zip(rows) {
            let title = format!("{flash}: mean latency of {what}, by the load of the planes");
            let table = Figures { title, unit: "us", columns: columns.clone(), rows };
            tables.push(table);
        }
    }
    let changes = |first: usize, of: &str, over: &str| {
        let span = |table: &Figures| Span::changes(table.row(of), table.row(over));
        span(&tables[first]).and(span(&tables[first + 2]))
    };
    let printed = &*PRINTED;
    let setup = vec![
        format!(
            "16 planes in 4 channels, pages of 4 KiB, no cache; read, program, erase in us: SLC {:?}, MLC {:?}; an \
             interruption costs {} us, and a program or erase has at most {SUSPENSIONS}",
            FLASH[0].1,
            FLASH[1].1,
            SUSPEND_NS / 1000
        ),
        format!("{} requests for each figure, {READ_PERCENT} % of them reads", requests(run)),
    ];
    let mut outcome =
        Outcome::new("reads ahead of programs and erases", &printed.source, Time::Virtual, setup);
    outcome.claims = vec![
        printed.reads_over_read_first.beside(changes(0, "suspend", "read-first")),
        printed.reads_over_fifo.beside(changes(0, "suspend", "fifo")),
        printed.writes_over_read_first.beside(changes(1, "suspend", "read-first")),
    ];
    outcome.figures = tables;
    outcome.figures.extend(binds::figures(&profile(run, FLASH[0].1, FlashScheduling::Fifo)?, &phases));
    Ok(outcome)
}

fn requests(run: &Run<'_>) -> u64 {
    run.scaled(REQUESTS, 2000)
}

fn profile(
    run: &Run<'_>,
    [read, program, erase]: [u64; 3],
    scheduling: FlashScheduling,
) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("femu-2021")?;
    let flash = &mut profile.flash;
    (flash.channels, flash.dies_per_channel, flash.planes_per_die) = (4, 4, 1);
    (flash.read_ns, flash.program_ns, flash.erase_ns) = (read * 1000, program * 1000, erase * 1000);
    flash.scheduling = scheduling;
    if scheduling == FlashScheduling::Suspend {
        (flash.suspend_ns, flash.suspensions) = (Some(SUSPEND_NS), Some(SUSPENSIONS));
    }
    profile.cache.mode = CacheMode::Off;
    smaller(profile, run.scaled(CAPACITY_BYTES, 64 << 20).next_multiple_of(1 << 20))
}

/// Requests at random times on a copy of the drive.
fn measure(run: &Run<'_>, aged: &Device, load: u32) -> Result<Case, ExperimentError> {
    let mut device = aged.try_clone().expect("a drive in memory can be copied");
    let flash = &device.profile().flash;
    let planes = flash.channels * flash.dies_per_channel * flash.planes_per_die;
    let (reads, writes) = (f64::from(READ_PERCENT) / 100.0, f64::from(100 - READ_PERCENT) / 100.0);
    let asked_ns = reads * flash.read_ns as f64 + writes * 2.0 * flash.program_ns as f64;
    let mean_ns = asked_ns * 100.0 / f64::from(load * planes);
    let units = device.profile().capacity_units() as u32;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(run.seed);
    let bar = run.monitor.bar(format!("load {load} %"), requests(run));
    let beginning = Beginning::of(&device);
    let mut buffer = vec![1; UNIT_BYTES];
    let (mut at_ns, mut taken, mut count) = (device.time_ns(), [0_u64; 2], [0_u64; 2]);
    for request in 0..requests(run) {
        // the time to the next of independent requests
        at_ns += (-mean_ns * (1.0 - random.random::<f64>()).ln()) as Nanoseconds;
        let lpn = Lpn(random.random_range(0..units));
        let is_write = random.random_range(0..100) >= READ_PERCENT;
        let command = match is_write {
            true => Command::Write { lpn, data: &buffer, fua: false },
            false => Command::Read { lpn, data: &mut buffer },
        };
        let done_ns = device.submit(command, at_ns)?.done_ns;
        taken[usize::from(is_write)] += done_ns - at_ns;
        count[usize::from(is_write)] += 1;
        if request % 1024 == 0 {
            bar.advance(1024)?;
        }
    }
    let mean_us = |kind: usize| taken[kind] as f64 / count[kind].max(1) as f64 / 1e3;
    Ok(Case { read_us: mean_us(0), write_us: mean_us(1), phase: beginning.until(&device) })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn each_policy_is_better_for_reads_than_the_one_before_it() {
        let settings =
            Run { scale: 0.05, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let outcome = run(&settings).unwrap();
        for table in [&outcome.figures[0], &outcome.figures[2]] {
            let [fifo, first, suspend] = POLICIES.map(|(policy, _)| table.row(policy).to_vec());
            for load in 0..LOADS.len() {
                assert!(fifo[load] > 1.1 * first[load] && first[load] > 1.1 * suspend[load], "{table:?}");
            }
        }
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
