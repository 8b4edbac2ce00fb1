//! One long run: power is cut at random operations and at random times, in the middle of a command or while everybody
//! waits, and the same drive continues each time with the same clients.

use rand::{Rng, RngExt};
use tantalum::PowerLoss;

use super::case::{Case, Found, Report};
use super::host::Loss;
use super::run::Run;
use crate::device::Medium;
use crate::device::draw::Generator;
use crate::device::guard::guarded;
use crate::device::progress::Progress;
use crate::device::random::generator;
use crate::device::stop::Stop;

/// Selects the random numbers of the cuts, as opposed to those of the turns.
const CUT: u64 = 5 << 32;

/// Turns after which power is cut if their operations have not triggered the cut.
const PATIENCE: u64 = 1000;

/// Turns after which power is cut on a worn-out drive, which takes no more changes.
const WORN_PATIENCE: u64 = 30;

/// The maximum number of cuts in recovery, one after the other.
const IN_A_ROW: u64 = 12;

/// Cuts power `count` times.
pub(super) fn random_cuts(case: &Case, count: u64, progress: &Progress<'_>) -> Report {
    let mut run = match guarded(|| Run::new(case)) {
        Ok(run) => run,
        Err(stop) => return Report { found: Some(Found::new(stop, 0, 0, None)), ..Report::default() },
    };
    let (mut index, mut found) = (0, None);
    for cut in 0..count {
        if let Err(stop) = guarded(|| cycle(case, &mut run, cut, &mut index)) {
            found = Some(Found::new(stop, index, cut, None));
            break;
        }
        if !progress.advance(1) {
            break;
        }
    }
    Report { tally: run.tally, coverage: run.coverage, found }
}

/// Turns until power is lost, recovery, comparison.
fn cycle(case: &Case, run: &mut Run, cut: u64, index: &mut u64) -> Result<(), Stop> {
    let mut rng = generator(&[case.seed, CUT, cut]);
    run.host.lose_by(if rng.random_ratio(2, 3) { Loss::Kill } else { Loss::Power });
    // one in eight is so distant that journal blocks and checkpoints come and go before it
    let reach = if rng.random_ratio(1, 8) { 800 } else { 120 } * steps_per_operation(case, run);
    run.host.cut_after(Some(rng.random_range(1..reach)));
    let patience = if run.host.is_worn_out() { WORN_PATIENCE } else { PATIENCE };
    let mut left = if rng.random_ratio(1, 4) { rng.random_range(0..60) } else { patience };
    let place = loop {
        if left == 0 && !run.host.is_to_be_cut() {
            run.host.cut_at(Some(rng.random_range(0..2_000_000)));
        }
        left = left.saturating_sub(1);
        let skipped = case.plan.skip.contains(*index) && run.host.has_power();
        let done = match skipped {
            true if run.host.is_to_be_cut() => run.wait(|host| host.wait_for_one()),
            true => Ok(()),
            false => run.turn(*index),
        };
        match done {
            Ok(()) => *index += 1,
            Err(Stop::PowerLost) if run.pending.values().any(|pending| pending.lost) => break "in a command",
            Err(Stop::PowerLost) => break "while all waited",
            Err(broken) => return Err(broken),
        }
    };
    *index += 1;
    run.count_work();
    run.lose_power(place)?;
    recover(case, run, &mut rng)?;
    run.compare()
}

/// Stores to an image for each flash operation, approximately, if the process is to be killed between two of them.
fn steps_per_operation(case: &Case, run: &Run) -> u64 {
    let units_per_page = u64::from(case.setup.kind.page_bytes / 4096);
    if case.setup.kind.medium == Medium::Image && run.host.dies() { 2 + units_per_page } else { 1 }
}

fn recover(case: &Case, run: &mut Run, rng: &mut Generator) -> Result<(), Stop> {
    let twice = case.plan.second_cut && rng.random_ratio(1, 2);
    if twice {
        // however power was lost: what opens an image can only be killed
        run.host.lose_by(Loss::Kill);
    }
    let reach = 12 * steps_per_operation(case, run);
    run.host.cut_at(None);
    run.host.cut_after(twice.then(|| rng.random_range(1..reach)));
    let mut loss = PowerLoss::seeded(rng.next_u64());
    // occasionally many in a row: each may use up something that the next recovery needs
    let mut more = if twice && rng.random_ratio(1, 8) { rng.random_range(1..IN_A_ROW) } else { 0 };
    run.coverage.reopened += u64::from(case.setup.kind.medium == Medium::Image);
    let mut recovered = run.power_on(&mut loss);
    while matches!(recovered, Err(Stop::PowerLost)) {
        run.tally.second_cuts += 1;
        run.coverage.cut("in recovery");
        run.host.cut_after((more > 0).then(|| rng.random_range(1..reach)));
        more = more.saturating_sub(1);
        recovered = run.power_on(&mut loss);
    }
    run.host.cut_after(None);
    recovered
}
