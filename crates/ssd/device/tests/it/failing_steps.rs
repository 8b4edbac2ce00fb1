//! Each step inside each command fails once: programs, erases, reads, buffers, and whatever needs room, once or from then
//! on. Afterwards the command has changed nothing and its status says so, or the drive accepts no more changes. Either way
//! nothing acknowledged is lost, then or after a cut, and the drive's own checks find nothing.
//!
//! `FAILING_SEED=17` runs one seed, `FAILING_SEEDS=20` more than the usual three; a failure names seed, drive, command and step.

mod commands;
mod model;
mod subject;

use crate::small_drive;

use commands::Op;
use small_drive::small_drive;
use subject::Subject;
use tantalum::{CacheMode, FailingStep, NvmProfile, Plp, Profile, StepFault};

/// Commands of a seed, unless `FAILING_COMMANDS` says otherwise.
const COMMANDS: u64 = 24;

/// Steps of one kind in one command that fail: the first ones, then ever fewer.
fn picks(step: u64) -> bool {
    step < 4 || step.is_power_of_two()
}

fn profiles() -> Vec<(&'static str, Profile)> {
    let volatile = small_drive("tlc-nvme", 4 << 20, 60.0, Plp::None);
    let mut swapping = volatile.clone();
    swapping.limits.index_dram_bytes = Some(1);
    let mut atomic = volatile.clone();
    (atomic.limits.atomic_write_units, atomic.flash.page_bytes) = (6, 8192);
    let mut none = volatile.clone();
    none.cache.mode = CacheMode::Off;
    let mut nvm = small_drive("pebblessd", 4 << 20, 60.0, Plp::Nvm);
    nvm.cache.bytes = 64 << 10;
    nvm.nvm = Some(NvmProfile { bytes: 2 << 20, latency_ns: 500, bytes_per_second: 3_000_000_000, files: 3 });
    let capacitor = small_drive("tlc-nvme", 4 << 20, 60.0, Plp::Capacitor);
    vec![
        ("volatile", volatile),
        ("swapping", swapping),
        ("atomic", atomic),
        ("none", none),
        ("capacitor", capacitor),
        ("nvm", nvm),
    ]
}

/// What was covered.
#[derive(Default, Debug)]
struct Covered {
    failures: u64,
    /// The command succeeded nevertheless, was refused, or the drive stopped.
    succeeded: u64,
    refused: u64,
    stopped: u64,
}

/// Lets the command fail at each of its steps, on copies of the drive.
fn fail_each_step(subject: &Subject, op: &Op, story: &str, covered: &mut Covered) {
    // an index on flash that cannot be read is the end of the drive's records: `media_faults` has such losses
    for step in FailingStep::ALL.into_iter().filter(|step| *step != FailingStep::Read || !subject.swaps()) {
        let mut steps = u64::MAX;
        for lasts in [false, true] {
            for after in (0..steps).filter(|after| picks(*after)) {
                let story = format!("{story}, {step:?} {after}, lasts: {lasts}");
                let mut copy = subject.fork(story);
                copy.arm(StepFault { step, after, lasts });
                let answer = copy.submit(op);
                let failed = copy.disarm();
                if !failed {
                    steps = after;
                    break;
                }
                covered.failures += 1;
                match answer {
                    Ok(_) => covered.succeeded += 1,
                    Err(_) if copy.has_stopped() => covered.stopped += 1,
                    Err(_) => covered.refused += 1,
                }
                copy.check_after(op, answer, after);
            }
        }
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn a_command_whose_step_fails_changes_nothing_or_stops_the_drive() {
    let seeds = match setting("FAILING_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..setting("FAILING_SEEDS").unwrap_or(3),
    };
    let mut covered = Covered::default();
    for seed in seeds {
        for (name, profile) in profiles() {
            let mut subject = Subject::new(&profile, seed);
            for number in 0..setting("FAILING_COMMANDS").unwrap_or(COMMANDS) {
                let op = subject.draw();
                let story = format!("seed {seed}, drive {name}, command {number} {op:?}");
                println!("{story}: {covered:?}");
                fail_each_step(&subject, &op, &story, &mut covered);
                subject.run(&op, &story);
            }
        }
    }
    println!("{covered:?}");
    assert!(covered.succeeded > 100 && covered.refused > 100 && covered.stopped > 0, "{covered:?}");
}
