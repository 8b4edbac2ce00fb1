//! One long run: power is cut at random operations and at random times, also in the middle of a command, and the same
//! drive continues each time.

use rand::{Rng, RngExt};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::PowerLoss;

use super::case::{Case, Found, Report};
use super::drive::Medium;
use super::guard::guarded;
use super::progress::Progress;
use super::random::generator;
use super::run::Run;
use super::stop::Stop;
use crate::error::no_room;

/// Selects the random numbers of the cuts, as opposed to those of the commands.
const CUT: u64 = 5 << 32;

/// Commands after which power is cut if their operations have not triggered the cut.
const PATIENCE: u64 = 1000;

/// The maximum number of cuts in recovery, one after the other.
const IN_A_ROW: u64 = 30;

/// Cuts power `count` times.
pub(super) fn random_cuts(case: &Case, count: u64, progress: &Progress<'_>) -> Report {
    let mut run = match guarded(|| Run::new(case)) {
        Ok(run) => run,
        Err(stop) => {
            return Report {
                found: Some(Found::new(by_machine(case, stop), 0, 0, None)),
                ..Report::default()
            };
        }
    };
    let mut index = 0;
    let mut found = None;
    for cut in 0..count {
        let cycle = guarded(|| cycle(case, &mut run, cut, &mut index));
        if let Err(stop) = cycle {
            found = Some(Found::new(by_machine(case, stop), index, cut, None));
            break;
        }
        if !progress.advance(1) {
            break;
        }
    }
    Report { tally: run.tally, found }
}

/// A host that is to fail may also have done so because the machine's disk has no room.
fn by_machine(case: &Case, stop: Stop) -> Stop {
    let room = if case.drive.medium == Medium::FailingHost { no_room() } else { None };
    room.map_or(stop, |error| Stop::machine(&error))
}

/// Commands until power is lost, recovery, comparison.
fn cycle(case: &Case, run: &mut Run, cut: u64, index: &mut u64) -> Result<(), Stop> {
    let mut rng = generator(&[case.seed, CUT, cut]);
    // one in eight is so distant that journal blocks and checkpoints come and go before it
    let reach = if rng.random_ratio(1, 8) { 800 } else { 120 } * run.stores_per_operation();
    run.host.cut_after(Some(rng.random_range(1..reach)));
    let at_time = rng.random_ratio(1, 4);
    let mut left = if at_time { rng.random_range(0..40) } else { PATIENCE };
    loop {
        if left == 0 && !run.host.is_to_be_cut() {
            run.host.cut_at(Some(rng.random_range(0..3_000_000)));
        }
        left = left.saturating_sub(1);
        let skipped = case.plan.skip.contains(*index);
        let done = if skipped && run.host.has_power() { Ok(()) } else { run.command(*index) };
        match done {
            Ok(()) => *index += 1,
            Err(Stop::PowerLost) => break,
            Err(broken) => return Err(broken),
        }
    }
    *index += 1;
    run.count_work();
    recover(case, run, &mut rng)?;
    run.compare()
}

fn recover(case: &Case, run: &mut Run, rng: &mut Xoshiro256PlusPlus) -> Result<(), Stop> {
    let twice = case.plan.second_cut && rng.random_ratio(1, 2);
    run.host.cut_after(twice.then(|| rng.random_range(1..12 * run.stores_per_operation())));
    let mut loss = PowerLoss::seeded(rng.next_u64());
    // occasionally many in a row: each may use up something that the next recovery needs
    let mut more = if twice && rng.random_ratio(1, 8) { rng.random_range(1..IN_A_ROW) } else { 0 };
    let mut recovered = run.power_on(&mut loss);
    while matches!(recovered, Err(Stop::PowerLost)) {
        let reach = 12 * run.stores_per_operation();
        run.host.cut_after((more > 0).then(|| rng.random_range(1..reach)));
        more = more.saturating_sub(1);
        recovered = run.power_on_again(&mut loss);
    }
    recovered
}
