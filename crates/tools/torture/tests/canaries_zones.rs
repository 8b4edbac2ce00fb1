//! The torture of zones can fail: guards that are taken out are noticed within a number of seeds, and the violation's command line
//! names what reproduces it.
//!
//! `cargo test --profile canary -p tantalum-torture --features canaries --test canaries_zones -- --nocapture` prints the table.

use tantalum::canaries::{self as device, ftl};
use tantalum::{CacheMode, FlashScheduling, Plp};
use tantalum_canaries::{Guard, take_out};
use tantalum_report::Monitor;
use tantalum_torture::Violation;
use tantalum_torture::device::{Cuts, Flash};
use tantalum_torture::zones::{Plan, Settings, ZoneDrives, torture};

/// How a guard's absence is looked for.
struct Canary {
    guard: &'static Guard,
    drives: ZoneDrives,
    weights: &'static str,
    /// Seeds within which it must be found.
    seeds: u64,
}

const ANY: ZoneDrives = ZoneDrives {
    plp: None,
    cache: None,
    page_bytes: None,
    queues: None,
    flash: Some(Flash::Sound),
    scheduling: Some(FlashScheduling::Fifo),
};
const CACHED: ZoneDrives = ZoneDrives { plp: Some(Plp::None), cache: Some(CacheMode::Volatile), ..ANY };
const LARGE_PAGES: ZoneDrives = ZoneDrives { page_bytes: Some(16384), ..CACHED };
const PROTECTED: ZoneDrives = ZoneDrives { plp: Some(Plp::Capacitor), page_bytes: Some(16384), ..ANY };
const QUEUED: ZoneDrives = ZoneDrives { queues: Some(true), ..ANY };
const QUEUED_CACHED: ZoneDrives = ZoneDrives { queues: Some(true), ..LARGE_PAGES };
const LOSES: ZoneDrives = ZoneDrives { flash: Some(Flash::Loses), ..ANY };

fn canaries() -> Vec<Canary> {
    let canary = |guard, drives, weights, seeds| Canary { guard, drives, weights, seeds };
    vec![
        canary(&ftl::ResetForgotten, ANY, "", 10),
        canary(&ftl::HoleInZone, CACHED, "", 10),
        canary(&ftl::HoleBeforeZonePage, CACHED, "fua=40", 20),
        canary(&ftl::TailReplacedEarly, LARGE_PAGES, "fua=40,flush=40", 50),
        canary(&ftl::TailNotAwaited, QUEUED_CACHED, "fua=60,several=40", 50),
        canary(&ftl::WrittenBeforeReset, QUEUED, "reset=40,fua=40", 50),
        canary(&ftl::TooManyActiveAfterCut, QUEUED, "reset=20,finish=20", 50),
        canary(&ftl::ZoneCopyTakesSource, CACHED, "", 100),
        canary(&ftl::TailOfOtherPage, LARGE_PAGES, "", 10),
        canary(&ftl::LostZonePageReadsZeros, LOSES, "", 20),
        canary(&ftl::ZoneBlocksForgotten, ANY, "", 20),
        canary(&device::ResetNotAwaited, QUEUED, "reset=30", 20),
        canary(&device::TailForgottenEarly, PROTECTED, "", 50),
    ]
}

fn settings(seed: u64, canary: &Canary) -> Settings {
    let weights = canary.weights.parse().expect("the table's weights are right");
    let plan =
        Plan { cuts: Cuts::Random(40), second_cut: true, weights, minimising_runs: 0, ..Plan::default() };
    Settings { seeds: (seed..seed + 1).into(), drives: canary.drives, plan, threads: 1, first_only: true }
}

/// The first seed that notices it, and the violation.
fn find(canary: &Canary) -> Option<(u64, Violation)> {
    (0..canary.seeds).find_map(|seed| {
        let crash =
            torture(&settings(seed, canary), &Monitor::silent()).expect("the table's settings are right");
        crash.outcome.violations.into_iter().next().map(|violation| (seed, violation))
    })
}

/// Takes a guard out, in this thread; returns whether that was noticed.
fn is_noticed(canary: &Canary) -> bool {
    let guard = canary.guard;
    let out = take_out(guard);
    let found = find(canary);
    if let Some((seed, violation)) = &found {
        let (seeds, Violation { promise, detail, replay, .. }) = (seed + 1, violation);
        println!("{guard:?}: {seeds} seeds, {promise}\n  {detail}\n  {replay}");
    }
    drop(out);
    found.is_some()
}

#[test]
fn every_guard_taken_out_is_noticed() {
    let chosen = std::env::var("GUARDS").ok();
    let is_chosen = |canary: &Canary| {
        let name = format!("{:?}", canary.guard);
        chosen.as_ref().is_none_or(|names| names.split(',').any(|chosen| chosen == name))
    };
    let canaries = canaries();
    let unnoticed: Vec<&Guard> = canaries
        .iter()
        .filter(|canary| is_chosen(canary) && !is_noticed(canary))
        .map(|canary| canary.guard)
        .collect();
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:?}");
}
