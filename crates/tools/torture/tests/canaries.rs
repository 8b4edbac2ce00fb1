//! The torture test can fail: if a guard of the FTL or of the controller is taken out, this is noticed within a number
//! of seeds, and the violation's command line reproduces it.
//!
//! `cargo test --profile canary -p tantalum-torture --features canaries --test canaries -- --nocapture` prints the table, and what
//! commands use of what they reserve.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tantalum::canaries::{self as device, ftl};
use tantalum::{CacheMode, FlashScheduling, Plp};
use tantalum::{Purpose, ReservationUse, take_reservation_uses};
use tantalum_canaries::{Guard, take_out};
use tantalum_report::Monitor;
use tantalum_torture::Violation;
use tantalum_torture::device::{Cuts, DriveChoice, Flash, Handles, Medium, Plan, Settings, torture};
use tantalum_torture::zones::{self, ZoneDrives};

/// How a guard's absence is looked for.
struct Canary {
    guard: &'static Guard,
    drives: DriveChoice,
    plan: Plan,
    /// Seeds within which it must be found.
    seeds: u64,
}

const ANY: DriveChoice = DriveChoice {
    plp: None,
    cache: None,
    page_bytes: None,
    own_logs: Some(false),
    swaps: Some(false),
    queues: Some(false),
    full: Some(false),
    flash: None,
    medium: None,
    scheduling: Some(FlashScheduling::Fifo),
    atomic_write_units: Some(1),
    handles: Some(Handles::None),
};
const UNPROTECTED: DriveChoice = DriveChoice { plp: Some(Plp::None), ..ANY };
const PROTECTED: DriveChoice = DriveChoice { plp: Some(Plp::Capacitor), ..ANY };
const QUEUED: DriveChoice = DriveChoice { queues: Some(true), ..PROTECTED };
const QUEUES: DriveChoice = DriveChoice { queues: Some(true), ..UNPROTECTED };
const WRITTEN_THROUGH: DriveChoice =
    DriveChoice { cache: Some(CacheMode::Off), page_bytes: Some(8192), ..UNPROTECTED };
const SWAPPED: DriveChoice = DriveChoice { swaps: Some(true), ..ANY };
const IN_MEMORY: DriveChoice = DriveChoice { plp: Some(Plp::Nvm), ..ANY };
const FULL: DriveChoice = DriveChoice { full: Some(true), ..ANY };
const HOSTS_FIRST: DriveChoice = DriveChoice { scheduling: Some(FlashScheduling::ReadFirst), ..UNPROTECTED };
const CACHED: DriveChoice = DriveChoice { cache: Some(CacheMode::Volatile), ..UNPROTECTED };
const ATOMIC: DriveChoice = DriveChoice { atomic_write_units: Some(4), ..CACHED };
const APART: DriveChoice = DriveChoice { handles: Some(Handles::Persistently), ..ANY };
const APART_PROTECTED: DriveChoice = DriveChoice { plp: Some(Plp::Capacitor), ..APART };
const ATOMIC_PROTECTED: DriveChoice =
    DriveChoice { atomic_write_units: Some(4), medium: Some(Medium::Image), ..PROTECTED };

/// Fills the cache, with a record in the journal and nothing that would wait for the flash.
const STREAM: &str = "write=100,trim=10,fua=0,bulk=0,zeroes=0,share=0,remap=0,transaction=0,atomic=0,batch=0,flush=0,read=0,hinted=0,\
     log=0,lose=0,reopen=0,put=0,delete=0,namespace=0";

/// Fills the cache with writes of many units at once, so that commands wait for room.
const BULKS: &str = "write=40,bulk=60,trim=10,fua=0,zeroes=0,share=0,remap=0,transaction=0,atomic=0,batch=0,flush=0,read=0,hinted=0,\
     log=0,lose=0,reopen=0,put=0,delete=0,namespace=0";

/// Trims that wait, often as the only thing that frees a block, and are flushed when a block is erased.
const TRIMS: &str = "write=60,trim=40,fua=0,bulk=0,zeroes=0,share=0,remap=0,transaction=0,atomic=0,batch=0,flush=0,read=0,hinted=0,\
     log=0,lose=0,reopen=0,put=0,delete=0,namespace=0";

/// Logs and batches whose blocks are erased, with records that wait for a flush.
const LOGS: &str = "log=80,hinted=40,atomic=40,trim=20,share=10,flush=10,put=0,delete=0,namespace=0";

/// Maps and unmaps without a record in a spare area.
const MAPPINGS: &str = "trim=40,remap=30,share=30,transaction=10,write=10,batch=0,log=5";

/// Maps and unmaps without a record in a spare area, and nothing else records a chunk of the map.
const BARE_MAPPINGS: &str = "trim=60,remap=30,share=30,write=5,fua=0,bulk=0,zeroes=0,transaction=0,atomic=0,batch=0,hinted=0,\
     log=0,put=0,delete=0,namespace=0";

/// Writes that are all or nothing, and what takes the place of parts of them.
const ATOMIC_WRITES: &str = "write=100,fua=10,trim=20,share=10,remap=5,transaction=5,atomic=5,batch=2,hinted=4,log=0,put=0,delete=0,\
     namespace=0";

/// Fills the journal.
const REMAPS: &str = "remap=80,share=20,log=0,batch=0,put=0,delete=0";

/// Records of key-value namespaces, with other work that makes garbage.
const RECORDS: &str = "put=80,delete=30,namespace=0,write=20,log=5,transaction=0,share=0,remap=0";

/// Batches of units and records, and what waits or is in flight for them.
const BATCHES: &str = "batch=80,put=40,delete=20,namespace=0,log=5,transaction=0,share=0,remap=0";

/// Pages of logs, and everything that writes their homes and their slots.
const HINTS: &str =
    "hinted=80,flush=8,share=15,trim=10,transaction=30,atomic=20,batch=0,log=0,put=0,delete=0,namespace=0";

/// Deletes of keys, many of which are not there.
const DELETES: &str =
    "put=60,delete=60,hinted=0,log=0,share=0,remap=0,transaction=0,atomic=0,batch=0,namespace=0";

/// Lists of files, and what makes garbage.
const LISTS: &str = "fs-write=80,clear-lists=8,write=20,log=0,put=0,delete=0,namespace=0";

/// Deferred shares that wait while garbage is collected.
const SHARES: &str =
    "write=100,share=40,log=10,reopen=0,flush=1,atomic=0,batch=0,remap=0,transaction=0,trim=2";

/// Enough to leave some commands out. Leaving out as many as possible takes longer than to notice most guards.
const MINIMISING_RUNS: u64 = 4;

fn random(weights: &str) -> Plan {
    let weights = weights.parse().expect("the table's weights are right");
    Plan {
        cuts: Cuts::Random(40),
        second_cut: true,
        weights,
        minimising_runs: MINIMISING_RUNS,
        ..Plan::default()
    }
}

fn canaries() -> Vec<Canary> {
    let canary = |guard, drives, plan, seeds| Canary { guard, drives, plan, seeds };
    vec![
        canary(&device::OldCopyGivenUpEarly, CACHED, random(""), 20),
        canary(&ftl::EraseBeforeJournal, UNPROTECTED, random(""), 50),
        canary(&ftl::EraseBeforeCopies, ANY, random(""), 50),
        canary(&ftl::BatchMemberErased, ANY, random("atomic=40,log=10"), 100),
        canary(&ftl::RunMemberErased, ANY, random("log=60"), 100),
        canary(&ftl::RunGrownSinceRecord, UNPROTECTED, random(HINTS), 100),
        canary(&ftl::RecordNotAwaited, HOSTS_FIRST, random(LOGS), 20),
        canary(&ftl::RunsOfSettledLogs, ANY, random("log=60"), 100),
        canary(&ftl::ExtraOwnersForgotten, ANY, random("share=60,remap=0,reopen=0,log=5"), 50),
        canary(&ftl::CopybackTakesNewVersion, ANY, random(""), 100),
        canary(&ftl::RecordTakesFlushStep, ANY, random("share=30"), 200),
        canary(&ftl::AttemptsMixed, ANY, random("log=80,batch=0,put=0,delete=0,namespace=0"), 400),
        canary(&ftl::CheckpointInPlace, ANY, random(""), 100),
        canary(&ftl::RecoveryErases, ANY, random("atomic=40,batch=0,log=60,put=0,delete=0,namespace=0"), 100),
        canary(&ftl::ProgramsNotDumped, PROTECTED, random(""), 100),
        canary(&ftl::SystemBlocksForgotten, FULL, random(REMAPS), 100),
        canary(&device::DumpUnbounded, PROTECTED, random(STREAM), 30),
        canary(&device::PowerBeforeRoom, QUEUED, random(BULKS), 100),
        canary(&ftl::JournalBlockMissing, WRITTEN_THROUGH, random(TRIMS), 200),
        canary(&device::AtomicWriteSplit, ATOMIC, random(ATOMIC_WRITES), 20),
        canary(&device::GroupSplit, ATOMIC, random(ATOMIC_WRITES), 20),
        canary(&device::PartOfGroupReplaced, ATOMIC, random(ATOMIC_WRITES), 50),
        canary(&ftl::EntersInParts, ATOMIC_PROTECTED, random(ATOMIC_WRITES), 50),
        canary(&device::HandlesMixed, APART, random(""), 20),
        canary(&ftl::CopiesLeaveHandle, APART, random(""), 20),
        canary(&ftl::CopyForgetsHandle, APART, random(""), 20),
        canary(&ftl::PartialTakesAnyHandle, APART, random(""), 20),
        canary(&ftl::DumpMixesHandles, APART_PROTECTED, random(""), 20),
        canary(&device::ReplacedNotSettled, PROTECTED, random("write=60,share=20,atomic=20"), 20),
        canary(&ftl::TrimsOfUntouchedChunks, ANY, random(BARE_MAPPINGS), 50),
        canary(&ftl::PutMembersCountAlone, ANY, random(RECORDS), 50),
        canary(&ftl::BatchKindsApart, ANY, random(BATCHES), 50),
        canary(&ftl::BatchDoneInFlight, QUEUES, random(BATCHES), 50),
        canary(&ftl::WaitingUnderBatch, PROTECTED, random(BATCHES), 50),
        canary(&ftl::TombstoneDropped, ANY, random(RECORDS), 100),
        canary(&ftl::WaitingKeepsVersion, PROTECTED, random(RECORDS), 100),
        canary(&ftl::RecordTakesNewVersion, ANY, random(RECORDS), 100),
        canary(&ftl::ChangedIndexSwappedOut, SWAPPED, random(RECORDS), 20),
        canary(&ftl::SwappedIndexNotCopied, SWAPPED, random(RECORDS), 20),
        canary(&ftl::CopyBeforeJournal, WRITTEN_THROUGH, random(SHARES), 300),
        canary(&ftl::CopyBeforeStepIsDone, QUEUES, random(SHARES), 1000),
        canary(&device::ClaimOutlivesPage, ANY, random(HINTS), 20),
        canary(&ftl::IdleTrimDoesNotWait, QUEUED, random(MAPPINGS), 50),
        canary(&ftl::NumbersDrawnTwice, ANY, random(HINTS), 100),
        canary(&ftl::ClaimNotEnded, ANY, random(HINTS), 100),
        canary(&ftl::GivenUpPageCounts, ANY, random(HINTS), 100),
        canary(&ftl::ClaimOlderThanCheckpoint, ANY, random(HINTS), 100),
        canary(&device::PagesBeforeWait, CACHED, random(HINTS), 100),
        canary(&ftl::OlderPageComesHome, ANY, random(HINTS), 100),
        canary(&ftl::SharedInPlaceStaysClaimed, ANY, random(HINTS), 100),
        canary(&ftl::CommitBelowClaim, ANY, random(HINTS), 100),
        canary(&ftl::IdleDeleteDoesNotWait, QUEUES, random(DELETES), 100),
        canary(&ftl::NvmBeforePrograms, IN_MEMORY, random(REMAPS), 50),
        canary(&ftl::NvmEntryInParts, IN_MEMORY, random(REMAPS), 50),
        canary(&ftl::NvmSwitchedEarly, IN_MEMORY, random(""), 50),
        canary(&ftl::NvmCheckpointBeforePrograms, IN_MEMORY, random(""), 100),
        canary(&ftl::NvmCheckpointInPlace, IN_MEMORY, random(""), 50),
        canary(&ftl::ListBeforeData, IN_MEMORY, random(LISTS), 50),
        canary(&ftl::ListLinkedEarly, IN_MEMORY, random(LISTS), 50),
        canary(&ftl::ListsClearedInParts, IN_MEMORY, random(LISTS), 50),
    ]
}

/// Guards that keep something waiting for the flash. What is in flight, and so when they matter, depends on the order of
/// operations (hazard 26). `CopyBeforeStepIsDone` needs minutes, so it is taken out only if `GUARDS` names it.
static WAITS: [&Guard; 15] = [
    &device::OldCopyGivenUpEarly,
    &ftl::EraseBeforeJournal,
    &ftl::EraseBeforeCopies,
    &ftl::BatchMemberErased,
    &ftl::RunMemberErased,
    &ftl::CheckpointInPlace,
    &ftl::ProgramsNotDumped,
    &device::PowerBeforeRoom,
    &ftl::JournalBlockMissing,
    &ftl::BatchDoneInFlight,
    &ftl::CopyBeforeJournal,
    &ftl::IdleTrimDoesNotWait,
    &ftl::IdleDeleteDoesNotWait,
    &ftl::NvmBeforePrograms,
    &ftl::NvmCheckpointBeforePrograms,
];

/// With priorities fewer operations wait for each other, and cases are rarer by up to this factor.
const PRIORITY_SEEDS: u64 = 4;

/// The guards that the environment variable `GUARDS` names; `None` if it is not set.
fn chosen() -> Option<Vec<String>> {
    let names = std::env::var("GUARDS").ok()?;
    Some(names.split(',').map(str::to_owned).collect())
}

/// The seed to begin with: for the guards that need the most, one close to where they were noticed before. All are tried if
/// `GUARDS` names the guard.
fn first_seed(canary: &Canary) -> u64 {
    match (canary.guard.name(), canary.drives.scheduling) {
        _ if chosen().is_some() => 0,
        ("RunGrownSinceRecord", Some(FlashScheduling::Fifo)) => 15,
        ("JournalBlockMissing", Some(FlashScheduling::Fifo)) => 30,
        ("JournalBlockMissing", _) => 150,
        ("CopyBeforeJournal", Some(FlashScheduling::Suspend)) => 50,
        ("CopyBeforeJournal", Some(FlashScheduling::Fifo)) => 265,
        ("CopyBeforeJournal", _) => 270,
        ("CopyBeforeStepIsDone", Some(FlashScheduling::Fifo)) => 895,
        ("CopyBeforeStepIsDone", _) => 370,
        ("IdleTrimDoesNotWait", _) | ("IdleDeleteDoesNotWait", Some(FlashScheduling::ReadFirst)) => 25,
        _ => 0,
    }
}

/// The first seed that notices it, and the violation.
fn find(canary: &Canary) -> Option<(u64, Violation)> {
    (first_seed(canary)..canary.seeds).find_map(|seed| {
        let settings = settings(seed, canary.drives, canary.plan.clone());
        let crash = torture(&settings, &Monitor::silent()).expect("the table's settings are right");
        crash.outcome.violations.into_iter().next().map(|violation| (seed, violation))
    })
}

fn settings(seed: u64, drives: DriveChoice, plan: Plan) -> Settings {
    Settings { seeds: (seed..seed + 1).into(), drives, plan, threads: 1, first_only: true }
}

/// The settings that a violation's command line gives, without leaving out more commands: that takes most of the time.
fn replayed(line: &str) -> Settings {
    let options = line.strip_prefix("tantalum crash device ").expect("it is this command's");
    let mut settings = settings(0, ANY, Plan { minimising_runs: 0, ..Plan::default() });
    let mut words = options.split(' ');
    while let Some(option) = words.next() {
        if option == "--second-cut" {
            settings.plan.second_cut = true;
            continue;
        }
        let value = words.next().expect("an option has a value");
        let number = || value.parse::<u64>().expect("a number");
        let plan = &mut settings.plan;
        match option {
            "--seed" => settings.seeds = (number()..number() + 1).into(),
            "--age" => plan.age = number(),
            "--commands" => plan.commands = number(),
            "--skip" => plan.skip = value.parse().expect("commands"),
            "--weights" => plan.weights = value.parse().expect("weights"),
            "--at" => plan.cuts = Cuts::At(value.parse().expect("a cut")),
            "--cuts" => plan.cuts = if value == "all" { Cuts::All } else { Cuts::Random(number()) },
            "--page-bytes" => settings.drives.page_bytes = Some(number() as u32),
            "--indexes" => settings.drives.swaps = Some(value == "swapped"),
            "--host" => settings.drives.queues = Some(value == "queues"),
            "--room" => settings.drives.full = Some(value == "full"),
            "--flash" => {
                settings.drives.flash = Some(match value {
                    "sound" => Flash::Sound,
                    "wears" => Flash::Wears,
                    _ => Flash::Loses,
                });
            }
            "--scheduling" => {
                settings.drives.scheduling = Some(match value {
                    "fifo" => FlashScheduling::Fifo,
                    "read-first" => FlashScheduling::ReadFirst,
                    _ => FlashScheduling::Suspend,
                });
            }
            "--medium" => settings.drives.medium = Some(Medium::Image),
            "--atomic-write-units" => settings.drives.atomic_write_units = Some(number() as u32),
            "--handles" => {
                settings.drives.handles = Some(match value {
                    "none" => Handles::None,
                    "initially" => Handles::Initially,
                    _ => Handles::Persistently,
                });
            }
            "--record-logs" => settings.drives.own_logs = Some(value == "own"),
            "--plp" if value == "none" => settings.drives.plp = Some(Plp::None),
            "--plp" if value == "nvm" => settings.drives.plp = Some(Plp::Nvm),
            "--plp" => settings.drives.plp = Some(Plp::Capacitor),
            "--cache" => {
                settings.drives.cache = Some(match value {
                    "off" => CacheMode::Off,
                    "volatile" => CacheMode::Volatile,
                    _ => CacheMode::Durable,
                });
            }
            other => panic!("the command has no option {other}"),
        }
    }
    settings
}

fn shows_again(violation: &Violation) -> bool {
    let crash = torture(&replayed(&violation.replay), &Monitor::silent()).expect("the settings are right");
    crash.outcome.violations.iter().any(|again| again.promise == violation.promise)
}

/// Takes a guard out, in this thread; returns whether that was noticed, and what reproduces it.
fn is_noticed(canary: &Canary) -> bool {
    let guard = canary.guard;
    let out = take_out(guard);
    let found = find(canary);
    if let Some((seed, violation)) = &found {
        let (seeds, promise, detail, replay) =
            (seed + 1, &violation.promise, &violation.detail, &violation.replay);
        let scheduling = canary.drives.scheduling;
        println!("{guard:?}, {scheduling:?}: {seeds} seeds, {promise}\n  {detail}\n  {replay}");
        assert!(shows_again(violation), "{replay} does not show {promise} again");
    }
    drop(out);
    found.is_some()
}

/// Seeds over which reservations are compared with what is used.
const RESERVING_SEEDS: u64 = 6;

/// Each row of the table at the head of `reservation/mod.rs`: a room that is too small panics where it is used, and one that is
/// larger than anything needs is a mistake too.
#[test]
fn commands_use_what_they_reserve_and_no_more() {
    let plan = |weights: &str| random(weights);
    let atomic_protected = DriveChoice { medium: None, ..ATOMIC_PROTECTED };
    for (drives, weights) in [
        (ANY, ""),
        (ANY, HINTS),
        (ANY, SHARES),
        (PROTECTED, HINTS),
        (FULL, REMAPS),
        (ANY, RECORDS),
        (ATOMIC, HINTS),
        (atomic_protected, HINTS),
        (APART, ""),
        (APART_PROTECTED, ""),
    ] {
        let settings = Settings { seeds: (0..RESERVING_SEEDS).into(), ..settings(0, drives, plan(weights)) };
        let crash = torture(&settings, &Monitor::silent()).expect("the settings are right");
        assert!(crash.outcome.violations.is_empty(), "{:?}", crash.outcome.violations);
    }
    zones_use_what_they_reserve();
    let mut uses = take_reservation_uses();
    uses.sort_by_key(|of| of.purpose as usize);
    println!("room for         rooms  pages, records, owners: the most reserved, and used  used up");
    for of in &uses {
        let ReservationUse { purpose, rooms, reserved, used, used_up } = of;
        println!("{:14} {rooms:>7}  {reserved:?} {used:?}  {used_up}", format!("{purpose:?}"));
    }
    let seen: Vec<Purpose> = uses.iter().map(|of| of.purpose).collect();
    assert_eq!(seen, Purpose::ALL, "each purpose occurs");
    for of in uses {
        assert!(of.used_up > 0, "{:?}: nothing ever used all that it reserved", of.purpose);
        for (reserved, used) in of.reserved.into_iter().zip(of.used) {
            assert!(reserved == 0 || used > 0, "{:?}: reserves what nothing uses: {of:?}", of.purpose);
        }
    }
}

/// Zones have a torture of their own.
fn zones_use_what_they_reserve() {
    let drives = ZoneDrives {
        flash: Some(Flash::Sound),
        scheduling: Some(FlashScheduling::Fifo),
        ..ZoneDrives::default()
    };
    let plan = zones::Plan {
        cuts: Cuts::Random(1),
        weights: "reset=30".parse().expect("these weights are right"),
        minimising_runs: 0,
        ..zones::Plan::default()
    };
    let settings =
        zones::Settings { seeds: (0..RESERVING_SEEDS).into(), drives, plan, threads: 1, first_only: true };
    let crash = zones::torture(&settings, &Monitor::silent()).expect("the settings are right");
    assert!(crash.outcome.violations.is_empty(), "{:?}", crash.outcome.violations);
}

/// Takes each guard out, on all processors. Fails if one is not noticed.
fn take_out_each(canaries: &[Canary]) {
    let (next, unnoticed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(canary) = canaries.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !is_noticed(canary) {
                let name = (canary.guard, canary.drives.scheduling);
                unnoticed.lock().expect("nothing panics with it").push(name);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let unnoticed = unnoticed.into_inner().expect("nothing panics with it");
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}

#[test]
fn every_guard_taken_out_is_noticed_and_shown_again() {
    let chosen = chosen();
    let is_chosen = |canary: &Canary| {
        let name = format!("{:?}", canary.guard);
        chosen.as_ref().is_none_or(|names| names.contains(&name))
    };
    let canaries: Vec<Canary> = canaries().into_iter().filter(is_chosen).collect();
    take_out_each(&canaries);
}

#[test]
fn guards_that_wait_are_noticed_whoever_goes_first() {
    let chosen = chosen();
    let is_chosen = |canary: &Canary| match &chosen {
        Some(names) => names.contains(&format!("{:?}", canary.guard)),
        None => WAITS.contains(&canary.guard),
    };
    let under = |scheduling| {
        let canaries = canaries().into_iter().filter(is_chosen);
        let drives = move |drives| DriveChoice { scheduling: Some(scheduling), ..drives };
        canaries.map(move |canary| Canary {
            drives: drives(canary.drives),
            seeds: PRIORITY_SEEDS * canary.seeds,
            ..canary
        })
    };
    let canaries: Vec<Canary> =
        under(FlashScheduling::ReadFirst).chain(under(FlashScheduling::Suspend)).collect();
    take_out_each(&canaries);
}

#[test]
fn a_cut_among_every_cut_is_shown_again_at_its_place() {
    let _out = take_out(&device::OldCopyGivenUpEarly);
    let weights = "put=0,delete=0,namespace=0".parse().expect("the weights are right");
    let plan = Plan { age: 20, commands: 40, weights, ..Plan::default() };
    let canary = Canary { guard: &device::OldCopyGivenUpEarly, drives: CACHED, plan, seeds: 20 };
    let (_, violation) = find(&canary).expect("it is noticed");
    println!("{}: {}\n  {}", violation.promise, violation.detail, violation.replay);
    assert!(violation.replay.contains("--at "), "{}", violation.replay);
    assert!(shows_again(&violation), "{}", violation.replay);
}
