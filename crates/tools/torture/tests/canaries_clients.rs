//! The torture of several clients can fail: guards of the FTL, of the controller and of the drive's clients that are taken
//! out are noticed within a number of seeds, and the violation's command line reproduces it.
//!
//! `cargo test --profile canary -p tantalum-torture --features canaries --test canaries_clients -- --nocapture` prints the
//! table.

use tantalum::canaries::{self as device, ftl};
use tantalum::{CacheMode, FlashScheduling, Plp};
use tantalum_canaries::{Guard, take_out};
use tantalum_drive::canaries as drive;
use tantalum_report::Monitor;
use tantalum_torture::Violation;
use tantalum_torture::clients::{Plan, Settings, SetupChoice, torture};
use tantalum_torture::device::{Cuts, Flash, Medium};

/// How a guard's absence is looked for.
struct Canary {
    guard: &'static Guard,
    setups: SetupChoice,
    weights: &'static str,
    /// Seeds within which it must be found.
    seeds: u64,
}

const ANY: SetupChoice = SetupChoice {
    plp: None,
    cache: None,
    page_bytes: None,
    own_logs: Some(false),
    swaps: Some(false),
    scheduling: Some(FlashScheduling::Fifo),
    medium: Some(Medium::Memory),
    clients: None,
    remaps: None,
    paced: Some(true),
    programs: Some(false),
    full: Some(false),
    flash: Some(Flash::Sound),
    free: false,
};
const CACHED: SetupChoice = SetupChoice { plp: Some(Plp::None), cache: Some(CacheMode::Volatile), ..ANY };
const UNPROTECTED: SetupChoice = SetupChoice { plp: Some(Plp::None), ..ANY };
const PROTECTED: SetupChoice = SetupChoice { plp: Some(Plp::Capacitor), ..ANY };
const IN_MEMORY: SetupChoice = SetupChoice { plp: Some(Plp::Nvm), ..ANY };
const AT_ONCE: SetupChoice = SetupChoice { paced: Some(false), ..ANY };
const REMAPPED: SetupChoice = SetupChoice { remaps: Some(true), ..CACHED };

/// Records, and batches of units and records.
const BATCHES: &str = "batch=60,put=40,delete=20,hinted=0";
/// Maps and unmaps without a record in a spare area.
const MAPPINGS: &str = "trim=40,remap=30,share=30,hinted=0";
/// Deletes of keys, many of which are not there.
const DELETES: &str = "put=60,delete=60,hinted=0,write=0,together=0";
/// Fills the cache with commands of many units, so that they wait for room.
const BULKS: &str = "write=40,bulk=60,together=10,trim=10,hinted=0,flush=0,fua=0,put=0,delete=0,batch=0,transaction=0,atomic=0,\
     share=0,remap=0,read=0,namespace=0,compare=0,reopen=0";

fn canaries() -> Vec<Canary> {
    let canary = |guard, setups, weights, seeds| Canary { guard, setups, weights, seeds };
    vec![
        canary(&drive::AnsweredEarly, ANY, "", 20),
        canary(&drive::AnsweredWithoutPower, ANY, "", 20),
        canary(&drive::AtOnceBeforeOthers, AT_ONCE, "", 20),
        canary(&drive::DuplicateUnchecked, REMAPPED, "", 20),
        canary(&device::OldCopyGivenUpEarly, CACHED, "", 20),
        canary(&ftl::EraseBeforeJournal, UNPROTECTED, "", 50),
        canary(&ftl::BatchKindsApart, ANY, BATCHES, 50),
        canary(&ftl::BatchDoneInFlight, UNPROTECTED, BATCHES, 50),
        canary(&ftl::PutMembersCountAlone, ANY, BATCHES, 50),
        canary(&device::ReplacedNotSettled, PROTECTED, "", 50),
        canary(&ftl::ProgramsNotDumped, PROTECTED, "", 50),
        canary(&device::PowerBeforeRoom, PROTECTED, BULKS, 100),
        canary(&ftl::IdleTrimDoesNotWait, PROTECTED, MAPPINGS, 100),
        canary(&ftl::IdleDeleteDoesNotWait, UNPROTECTED, DELETES, 100),
        canary(&device::ClaimOutlivesPage, ANY, "hinted=80", 50),
        canary(&device::PagesBeforeWait, CACHED, "hinted=80,share=30", 100),
        canary(&ftl::ListBeforeData, IN_MEMORY, "fs-write=80", 50),
        canary(&ftl::ListLinkedEarly, IN_MEMORY, "fs-write=80", 50),
    ]
}

/// Enough to leave some turns out.
const MINIMISING_RUNS: u64 = 4;

fn settings(seed: u64, setups: SetupChoice, weights: &str) -> Settings {
    let weights = weights.parse().expect("the table's weights are right");
    let plan = Plan {
        cuts: Cuts::Random(40),
        second_cut: true,
        weights,
        minimising_runs: MINIMISING_RUNS,
        ..Plan::default()
    };
    Settings { seeds: (seed..seed + 1).into(), drives: setups, plan, threads: 1, first_only: true }
}

/// The first seed that notices it, and the violation.
fn find(canary: &Canary) -> Option<(u64, Violation)> {
    (0..canary.seeds).find_map(|seed| {
        let settings = settings(seed, canary.setups, canary.weights);
        let crash = torture(&settings, &Monitor::silent()).expect("the table's settings are right");
        crash.outcome.violations.into_iter().next().map(|violation| (seed, violation))
    })
}

/// The settings that a violation's command line gives, without leaving out more turns.
fn replayed(line: &str) -> Settings {
    let options = line.strip_prefix("tantalum crash clients ").expect("it is this command's");
    let mut settings = settings(0, SetupChoice::default(), "");
    settings.plan = Plan { minimising_runs: 0, ..Plan::default() };
    let mut words = options.split(' ');
    while let Some(option) = words.next() {
        if option == "--second-cut" {
            settings.plan.second_cut = true;
            continue;
        }
        let value = words.next().expect("an option has a value");
        let number = || value.parse::<u64>().expect("a number");
        let (plan, setups) = (&mut settings.plan, &mut settings.drives);
        match option {
            "--seed" => settings.seeds = (number()..number() + 1).into(),
            "--cuts" => plan.cuts = Cuts::Random(number()),
            "--skip" => plan.skip = value.parse().expect("turns"),
            "--weights" => plan.weights = value.parse().expect("weights"),
            "--clients" => setups.clients = Some(number() as u32),
            "--page-bytes" => setups.page_bytes = Some(number() as u32),
            "--indexes" => setups.swaps = Some(value == "swapped"),
            "--record-logs" => setups.own_logs = Some(value == "own"),
            "--duplicates" => setups.remaps = Some(value == "shared"),
            "--pacing" => setups.paced = Some(value == "virtual"),
            "--programs" => setups.programs = Some(value == "on"),
            "--room" => setups.full = Some(value == "full"),
            "--flash" => setups.flash = Some(if value == "wears" { Flash::Wears } else { Flash::Sound }),
            "--medium" => {
                setups.medium = Some(if value == "image" { Medium::Image } else { Medium::Memory });
            }
            "--scheduling" => {
                setups.scheduling = Some(match value {
                    "fifo" => FlashScheduling::Fifo,
                    "read-first" => FlashScheduling::ReadFirst,
                    _ => FlashScheduling::Suspend,
                });
            }
            "--plp" => {
                setups.plp = Some(match value {
                    "none" => Plp::None,
                    "nvm" => Plp::Nvm,
                    _ => Plp::Capacitor,
                });
            }
            "--cache" => {
                setups.cache = Some(match value {
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
        println!("{guard:?}: {seeds} seeds, {promise}\n  {detail}\n  {replay}");
        assert!(shows_again(violation), "{replay} does not show {promise} again");
    }
    drop(out);
    found.is_some()
}

#[test]
fn every_guard_taken_out_is_noticed_and_shown_again() {
    let chosen = std::env::var("GUARDS").ok();
    let is_chosen = |canary: &Canary| {
        let name = format!("{:?}", canary.guard);
        chosen.as_ref().is_none_or(|names| names.split(',').any(|chosen| chosen == name))
    };
    let unnoticed: Vec<&Guard> = canaries()
        .iter()
        .filter(|canary| is_chosen(canary) && !is_noticed(canary))
        .map(|canary| canary.guard)
        .collect();
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
