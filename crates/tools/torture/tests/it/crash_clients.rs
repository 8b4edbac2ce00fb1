//! A slice of `tantalum crash clients`: the drive keeps its promises to several clients at once.
//!
//! A failure prints the command line that reproduces it. `SEEDS=n cargo test --release -p tantalum-torture --test it
//! crash_clients` runs more seeds.

use tantalum::{CacheMode, Plp};
use tantalum_report::Monitor;
use tantalum_torture::clients::{ClientsCrash, Plan, Settings, SetupChoice, of_clients_crash, torture};
use tantalum_torture::device::{Cuts, Flash};

fn settings(seeds: std::ops::Range<u64>, setups: SetupChoice, plan: Plan) -> Settings {
    Settings { seeds: seeds.into(), drives: setups, plan, threads: 1, first_only: false }
}

fn seeds(usual: u64) -> u64 {
    std::env::var("SEEDS").ok().and_then(|number| number.parse().ok()).unwrap_or(usual)
}

fn check(settings: &Settings) -> ClientsCrash {
    let crash = torture(settings, &Monitor::silent()).unwrap();
    let outcome = &crash.outcome;
    for violation in &outcome.violations {
        println!("{}: {}\n  {}", violation.promise, violation.detail, violation.replay);
    }
    assert!(outcome.violations.is_empty(), "{} promises were broken", outcome.violations.len());
    assert_eq!(outcome.dirty_recoveries, outcome.cuts);
    crash
}

#[test]
fn several_clients_keep_what_they_were_promised() {
    let plan = Plan { cuts: Cuts::Random(12), second_cut: true, ..Plan::default() };
    let crash = check(&settings(0..seeds(8), SetupChoice::default(), plan));
    println!("{}", of_clients_crash(&crash));
    let (coverage, outcome) = (&crash.coverage, &crash.outcome);
    assert_eq!(
        (coverage.commands.len(), coverage.ways.len(), coverage.cuts.len()),
        (21, 3, 4),
        "{coverage:?}"
    );
    assert!(outcome.second_cuts.min(outcome.torn_pages_seen) > 50, "{outcome:?}");
    assert!(coverage.most_in_flight >= 8 && coverage.cuts_in_conflicts > 10, "{coverage:?}");
    assert!(coverage.cuts_with_several_clients.min(coverage.answers_lost) > 50, "{coverage:?}");
    assert!(coverage.remapped.min(coverage.conflicts) > 500, "{coverage:?}");
    assert!(coverage.program_commits > 20 && coverage.reopened > 50, "{coverage:?}");
    assert!(coverage.refused_by_full_drives > 0, "the seeds draw no full drive: {coverage:?}");
    let reached = &crash.reached;
    assert!(reached.collections.min(reached.checkpoints).min(reached.journal_pages) > 500, "{reached:?}");
}

#[test]
fn several_clients_keep_what_they_were_promised_at_every_cut_of_a_turn() {
    let plan = Plan { cuts: Cuts::All, age: 60, commands: 4, ..Plan::default() };
    let crash = check(&settings(0..seeds(2), SetupChoice::default(), plan.clone()));
    println!("{}", of_clients_crash(&crash));
    assert!(crash.outcome.cuts > 200 && crash.outcome.torn_pages_seen > 50, "{:?}", crash.outcome);
    let setups =
        SetupChoice { plp: Some(Plp::None), cache: Some(CacheMode::Volatile), ..SetupChoice::default() };
    let plan = Plan { second_cut: true, commands: 1, ..plan };
    let crash = check(&settings(2..3, setups, plan));
    assert!(crash.outcome.second_cuts > 10, "{:?}", crash.outcome);
}

/// Programs and erases fail, until the drive takes no more changes. The oracle once took what was submitted for what the drive
/// held when the refusal of another command of the same group arrived, and a write that is in part a share for one command.
#[test]
fn several_clients_keep_what_they_were_promised_while_flash_wears_out() {
    let setups = SetupChoice { flash: Some(Flash::Wears), plp: Some(Plp::None), ..SetupChoice::default() };
    let plan = Plan { cuts: Cuts::Random(40), second_cut: true, ..Plan::default() };
    let crash = check(&settings(0..seeds(2), setups, plan));
    println!("{}", of_clients_crash(&crash));
    assert!(crash.coverage.refused_by_worn_drives > 1000, "no drive was worn out: {:?}", crash.coverage);
}

/// What is refused for want of room has not happened, and what was acknowledged stays.
#[test]
fn several_clients_keep_what_they_were_promised_when_there_is_no_room() {
    let setups = SetupChoice { full: Some(true), flash: Some(Flash::Sound), ..SetupChoice::default() };
    let plan = Plan { cuts: Cuts::Random(16), second_cut: true, ..Plan::default() };
    let crash = check(&settings(0..seeds(4), setups, plan));
    println!("{}", of_clients_crash(&crash));
    assert!(crash.coverage.refused_by_full_drives > 50, "no drive was full: {:?}", crash.coverage);
    assert_eq!(crash.coverage.refused_by_worn_drives, 0);
}

#[test]
fn a_cut_at_one_place_is_made_there_or_refused() {
    let setups =
        SetupChoice { plp: Some(Plp::None), cache: Some(CacheMode::Volatile), ..SetupChoice::default() };
    let run = |point: &str| {
        let plan = Plan { cuts: Cuts::At(point.parse().unwrap()), age: 60, ..Plan::default() };
        torture(&settings(0..1, setups, plan), &Monitor::silent())
    };
    assert_eq!(run("61.0.-").unwrap().outcome.cuts, 1);
    let refused = run("61.500.-").unwrap_err().to_string();
    assert!(refused.contains("the drive has no such operation"), "{refused}");
}

#[test]
fn what_is_found_depends_on_the_seed_and_not_on_the_threads() {
    let plan = Plan { cuts: Cuts::Random(4), second_cut: true, ..Plan::default() };
    // programs, an image, and answers given at once
    let one = settings(4..7, SetupChoice::default(), plan);
    let two = Settings { threads: 2, ..one.clone() };
    let torture = |settings| torture(settings, &Monitor::silent()).unwrap();
    assert_eq!(torture(&one), torture(&two));
}

/// Threads in whatever order they come, with answers in real time, and at once.
#[test]
fn threads_that_run_free_keep_what_they_were_promised() {
    let plan = Plan { cuts: Cuts::Random(8), second_cut: true, ..Plan::default() };
    for paced in [true, false] {
        let setups =
            SetupChoice { paced: Some(paced), programs: Some(false), free: true, ..SetupChoice::default() };
        let crash = check(&settings(0..seeds(2), setups, plan.clone()));
        println!("{}", of_clients_crash(&crash));
        assert!(crash.outcome.cuts >= 80 && crash.outcome.promises_checked > 10_000, "{crash:?}");
    }
}

#[test]
fn setups_that_make_no_sense_are_refused() {
    let refused = |setups: SetupChoice, cuts| {
        let plan = Plan { cuts: Cuts::Random(cuts), ..Plan::default() };
        torture(&settings(0..1, setups, plan), &Monitor::silent()).unwrap_err().to_string()
    };
    let clients = refused(SetupChoice { clients: Some(7), ..SetupChoice::default() }, 1);
    assert!(clients.contains("--clients 7: use a number from 2 to 6"), "{clients}");
    let programs = SetupChoice { paced: Some(false), programs: Some(true), ..SetupChoice::default() };
    let programs = refused(programs, 1);
    assert!(programs.contains("programs need --pacing virtual"), "{programs}");
    let loses = refused(SetupChoice { flash: Some(Flash::Loses), ..SetupChoice::default() }, 1);
    assert!(loses.contains("--flash loses: several clients have flash that is sound, or wears"), "{loses}");
    let full = SetupChoice { full: Some(true), ..SetupChoice::default() };
    let programs = refused(SetupChoice { programs: Some(true), ..full }, 1);
    assert!(programs.contains("--programs on: programs need --room ample"), "{programs}");
    let free = refused(SetupChoice { free: true, ..full }, 1);
    assert!(free.contains("--order free: it needs --room ample"), "{free}");
    let cuts = refused(SetupChoice::default(), 0);
    assert!(cuts.contains("--cuts 0: use `all` or a number of at least 1"), "{cuts}");
}
