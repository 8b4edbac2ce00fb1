//! Reduces a failing plan as long as it still fails. Threads meet by chance, so each smaller plan is tried several times.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::plan::Plan;
use super::run::{Counts, run};

/// How often a plan is tried.
const TRIES: u32 = 5;

/// What is wrong with a run, if anything is.
pub fn failure(plan: &Plan) -> Option<String> {
    match catch_unwind(AssertUnwindSafe(|| run(plan, &mut Counts::default()))) {
        Ok(Ok(())) => None,
        Ok(Err(wrong)) => Some(wrong),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Some(text.or(panic.downcast_ref::<&str>().map(|text| text.to_string())).unwrap_or_default())
        }
    }
}

/// What is wrong with one of several runs.
pub fn fails(plan: &Plan) -> Option<String> {
    (0..TRIES).find_map(|_| failure(plan))
}

/// The smallest plan that was found to fail, and how it fails.
pub fn shrink(mut plan: Plan, mut wrong: String, fails: impl Fn(&Plan) -> Option<String>) -> (Plan, String) {
    let mut at_once = plan.transactions() / 2;
    while at_once > 0 {
        let mut first = 0;
        while first < plan.transactions() {
            let smaller = without(&plan, first, at_once);
            match fails(&smaller) {
                Some(how) => (plan, wrong) = (smaller, how),
                None => first += at_once,
            }
        }
        at_once /= 2;
    }
    (plan, wrong)
}

/// The plan without some transactions, counted through all lives and threads.
fn without(plan: &Plan, first: usize, count: usize) -> Plan {
    let mut number = 0;
    let mut smaller = plan.clone();
    for thread in smaller.lives.iter_mut().flat_map(|life| &mut life.threads) {
        thread.retain(|_| {
            number += 1;
            !(first..first + count).contains(&(number - 1))
        });
    }
    smaller
}
