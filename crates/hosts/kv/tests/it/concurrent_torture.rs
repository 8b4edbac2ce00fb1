//! Threads that read, scan and change ordered namespaces, through full drives and power losses, compared with a map in
//! memory: scans without phantoms, snapshots and backups that do not change, commits that are there or not. `SEED=17` runs
//! one seed, `SEEDS=200` seeds 0 to 199. A failing plan is reduced and printed.

use crate::concurrent::plan::{Op, Plan};
use crate::concurrent::run::{Counts, run};
use crate::concurrent::shrink::{fails, shrink};

#[test]
fn threads_see_a_sorted_map_through_full_drives_and_power_losses() {
    let number = |name| std::env::var(name).ok().map(|text: String| text.parse::<u64>().unwrap());
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(12),
    };
    let (mut counts, is_usual) = (Counts::default(), number("SEED").is_none());
    for seed in seeds {
        let plan = Plan::draw(seed);
        if let Err(wrong) = run(&plan, &mut counts) {
            let (smallest, how) = shrink(plan, wrong.clone(), fails);
            panic!("seed {seed}: {wrong}\nsmaller: {how}\n{smallest:#?}");
        }
    }
    // whether a drive is full when something large is put depends on how the threads take turns
    for seed in (103..=135).step_by(4).take_while(|_| is_usual) {
        if counts.refused > 0 {
            break;
        }
        run(&Plan::draw(seed), &mut counts).unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}"));
    }
    println!("{counts:?}");
    if is_usual {
        assert!(counts.commits > 500 && counts.unknown > 10 && counts.gave_way > 20, "{counts:?}");
        assert!(counts.refused > 0 && counts.scanned > 500, "{counts:?}");
        assert!(counts.snapshots > 20 && counts.backups > 5, "{counts:?}");
    }
}

#[test]
fn a_plan_that_fails_is_made_as_small_as_can_be() {
    let of_interest = |plan: &Plan| {
        let all = plan.lives.iter().flat_map(|life| &life.threads).flatten();
        all.filter(|planned| planned.ops.iter().any(|op| matches!(op, Op::PutBulk))).count()
    };
    let plan = Plan::draw(0);
    assert!(of_interest(&plan) > 2 && plan.transactions() > 900);
    let fails = |plan: &Plan| (of_interest(plan) > 1).then(|| "two large transactions".to_owned());
    let (smallest, _) = shrink(plan, String::new(), fails);
    assert_eq!((smallest.transactions(), of_interest(&smallest)), (2, 2));
}
