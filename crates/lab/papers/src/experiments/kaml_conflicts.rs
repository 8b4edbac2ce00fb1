//! KAML's equations 3.11 and 3.12 compared with the lock table: how many of N simultaneous updates find their lock
//! taken, as more records share a lock (Jin's thesis, section 3.3.4).
//!
//! - A round is N transactions of `tantalum-kv`. Each requests the lock of one of K records without waiting, and none
//!   ends before all have done so. The store's counter of conflicts says how many found it taken.
//! - **Equation 3.11** is for locks that an update requests with probabilities p: N - L + the sum of (1 - p)^N over the
//!   L locks. If all keys are equally likely, the l keys of a lock have probability l/K together.
//! - **Equation 3.12** sets p to 1/K, which is the probability of a key. So it is right only for one record per lock;
//!   for more it is too large, and may exceed N - 1, although one of N always gets its lock.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Device, Profile};
use tantalum_kv::{Namespace, Store};
use tantalum_report::table::grouped;
use tantalum_report::{Figures, Outcome, PaperClaim, Row, Span, Time};

use super::Run;
use crate::error::ExperimentError;

/// Rounds of each case at scale 1.
const ROUNDS: u64 = 10_000;

/// Only a namespace is written.
const CAPACITY_BYTES: u64 = 512 << 20;

const RECORDS_PER_LOCK: [u32; 5] = [1, 4, 16, 64, 256];

/// The distribution of the requested records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Choice {
    /// All equally likely.
    Uniform,
    /// Four of five requests go to the first fifth.
    Hot,
}

impl Choice {
    const HOT_SHARE: f64 = 0.8;

    fn hot_records(records: u64) -> u64 {
        records / 5
    }

    fn draw(self, random: &mut Xoshiro256PlusPlus, records: u64) -> u64 {
        let hot = Choice::hot_records(records);
        match self {
            Choice::Uniform => random.random_range(0..records),
            Choice::Hot if random.random::<f64>() < Choice::HOT_SHARE => random.random_range(0..hot),
            Choice::Hot => random.random_range(hot..records),
        }
    }

    /// The probability of those records.
    fn probability(self, keys: std::ops::Range<u64>, records: u64) -> f64 {
        let count = keys.end - keys.start;
        match self {
            Choice::Uniform => count as f64 / records as f64,
            Choice::Hot => {
                let hot = Choice::hot_records(records);
                let of_hot = keys.end.min(hot).saturating_sub(keys.start);
                of_hot as f64 * Choice::HOT_SHARE / hot as f64
                    + (count - of_hot) as f64 * (1.0 - Choice::HOT_SHARE) / (records - hot) as f64
            }
        }
    }
}

/// This many simultaneous updates, over this many records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    updates: u64,
    records: u64,
    choice: Choice,
}

const CASES: [Case; 5] = [
    Case { updates: 8, records: 1024, choice: Choice::Uniform },
    Case { updates: 64, records: 1024, choice: Choice::Uniform },
    Case { updates: 64, records: 16_384, choice: Choice::Uniform },
    Case { updates: 512, records: 16_384, choice: Choice::Uniform },
    Case { updates: 64, records: 16_384, choice: Choice::Hot },
];

impl Case {
    fn draw(self, random: &mut Xoshiro256PlusPlus) -> Vec<u64> {
        (0..self.updates).map(|_| self.choice.draw(random, self.records)).collect()
    }

    /// Equation 3.11.
    fn expected(self, records_per_lock: u32) -> f64 {
        let length = u64::from(records_per_lock);
        let locks = self.records / length;
        let free: f64 = (0..locks)
            .map(|lock| self.choice.probability(lock * length..(lock + 1) * length, self.records))
            .map(|probability| (1.0 - probability).powf(self.updates as f64))
            .sum();
        self.updates as f64 - locks as f64 + free
    }

    /// Equation 3.12, letter by letter.
    fn printed(self, records_per_lock: u32) -> f64 {
        let (updates, records) = (self.updates as f64, self.records as f64);
        updates - records / f64::from(records_per_lock) * (1.0 - (1.0 - 1.0 / records).powf(updates))
    }

    fn title(self) -> String {
        let (updates, records) = (self.updates, grouped(self.records));
        let (chosen, equation) = match self.choice {
            Choice::Uniform => ("", "3.12"),
            Choice::Hot => (", four of five times one of the first fifth", "3.11"),
        };
        format!(
            "{updates} concurrent updates of {records} records{chosen}, against equation {equation}, by records per lock"
        )
    }
}

/// Conflicts per round: their mean, and its standard error.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Mean {
    mean: f64,
    standard_error: f64,
}

impl Mean {
    fn of(samples: &[u64]) -> Mean {
        let count = samples.len() as f64;
        let mean = samples.iter().sum::<u64>() as f64 / count;
        let squares: f64 = samples.iter().map(|&sample| (sample as f64 - mean).powi(2)).sum();
        Mean { mean, standard_error: (squares / (count - 1.0) / count).sqrt() }
    }
}

/// A store without records: locks need none.
fn store(records_per_lock: u32) -> Result<(Store, Namespace), ExperimentError> {
    let mut profile = Profile::load("kaml-board")?;
    profile.capacity_bytes = CAPACITY_BYTES;
    profile.validate()?;
    let options = Store::options().records_per_lock(records_per_lock);
    let store = Store::over(Device::in_memory(&profile)?, options)?;
    let namespace = store.hashed_namespace("records")?;
    Ok((store, namespace))
}

/// All request their locks, and then all end. Returns how many found their lock taken.
fn round(store: &Store, namespace: Namespace, keys: &[u64]) -> Result<u64, ExperimentError> {
    let before = store.counters().conflicts;
    let mut open = Vec::with_capacity(keys.len());
    for key in keys {
        let mut tx = store.begin()?;
        tx.try_lock(namespace, key.to_be_bytes())?;
        open.push(tx);
    }
    Ok(store.counters().conflicts - before)
}

fn measure(run: &Run<'_>, case: Case, records_per_lock: u32) -> Result<Mean, ExperimentError> {
    let (store, namespace) = store(records_per_lock)?;
    let seed = run.seed ^ u64::from(records_per_lock) << 16 ^ case.updates << 32 ^ case.records << 48;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let rounds = run.scaled(ROUNDS, 100);
    let bar = run.monitor.bar(format!("{records_per_lock} a lock"), rounds);
    let mut conflicts = Vec::new();
    for _ in 0..rounds {
        conflicts.push(round(&store, namespace, &case.draw(&mut random))?);
        bar.advance(1)?;
    }
    Ok(Mean::of(&conflicts))
}

fn figures(run: &Run<'_>, case: Case) -> Result<Figures, ExperimentError> {
    let means: Vec<Mean> =
        RECORDS_PER_LOCK.iter().map(|&length| measure(run, case, length)).collect::<Result<_, _>>()?;
    let expected: Vec<f64> = RECORDS_PER_LOCK.iter().map(|&length| case.expected(length)).collect();
    let paper = match case.choice {
        Choice::Uniform => RECORDS_PER_LOCK.iter().map(|&length| case.printed(length)).collect(),
        Choice::Hot => expected.clone(),
    };
    let row = |name: &str, ours, paper| Row { name: name.to_owned(), ours, paper };
    Ok(Figures {
        title: case.title(),
        unit: "conflicts of a round",
        columns: RECORDS_PER_LOCK.iter().map(u32::to_string).collect(),
        rows: vec![
            row(MEASURED, means.iter().map(|mean| mean.mean).collect(), Some(paper)),
            row(ERROR, means.iter().map(|mean| mean.standard_error).collect(), None),
            row(EXPECTED, expected, None),
        ],
    })
}

const MEASURED: &str = "measured, on average";
const ERROR: &str = "standard error of it";
const EXPECTED: &str = "equation 3.11, p of a lock";

/// All cases.
pub(super) fn run(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let figures: Vec<Figures> = CASES.iter().map(|&case| figures(run, case)).collect::<Result<_, _>>()?;
    let all = |spans: Vec<Span>| spans.into_iter().reduce(Span::and).expect("there are cases");
    let over_expected =
        figures.iter().map(|one| Span::factors(one.row(MEASURED), one.row(EXPECTED))).collect();
    let over_printed = |places: std::ops::Range<usize>| {
        let uniform = CASES.iter().zip(&figures).filter(|(case, _)| case.choice == Choice::Uniform);
        let factors = uniform.map(|(case, figures)| {
            let printed = RECORDS_PER_LOCK.map(|length| case.printed(length));
            Span::factors(&figures.row(MEASURED)[places.clone()], &printed[places.clone()])
        });
        all(factors.collect())
    };
    let setup = vec![
        format!("{} rounds of each; the lock table of tantalum-kv", grouped(run.scaled(ROUNDS, 100))),
        "each update is a transaction of one record that does not wait; all end when all have asked"
            .to_owned(),
    ];
    let source = "KAML (Jin's thesis, 2017), equations 3.11 and 3.12";
    let mut outcome = Outcome::new("lock conflicts of updates at once", source, Time::Virtual, setup);
    outcome.claims = vec![
        PaperClaim::factor("measured over equation 3.11", Span::one(1.0), all(over_expected)),
        PaperClaim::factor(
            "measured over equation 3.12, 1 record a lock",
            Span::one(1.0),
            over_printed(0..1),
        ),
        PaperClaim::factor(
            "measured over equation 3.12, 4 to 256 records a lock",
            Span::one(1.0),
            over_printed(1..RECORDS_PER_LOCK.len()),
        ),
    ];
    outcome.figures = figures;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    /// Balls into bins, without a lock table.
    #[test]
    fn the_lock_table_has_as_many_conflicts_as_updates_that_are_not_the_first_on_their_lock() {
        for case in CASES {
            for records_per_lock in RECORDS_PER_LOCK {
                let (store, namespace) = store(records_per_lock).unwrap();
                let mut random = Xoshiro256PlusPlus::seed_from_u64(17);
                for _ in 0..20 {
                    let keys = case.draw(&mut random);
                    let locks: BTreeSet<u64> =
                        keys.iter().map(|key| key / u64::from(records_per_lock)).collect();
                    let conflicts = round(&store, namespace, &keys).unwrap();
                    assert_eq!(conflicts, case.updates - locks.len() as u64, "{case:?} {records_per_lock}");
                }
            }
        }
    }

    #[test]
    fn conflicts_are_what_equation_3_11_expects_and_not_what_3_12_prints() {
        let run = Run { scale: 0.1, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let outcome = super::run(&run).unwrap();
        for (case, figures) in CASES.iter().zip(&outcome.figures) {
            let (measured, error) = (figures.row(MEASURED), figures.row(ERROR));
            for (place, records_per_lock) in RECORDS_PER_LOCK.into_iter().enumerate() {
                let off = |from: f64| (measured[place] - from).abs();
                let most = 4.0 * error[place] + 1e-6;
                assert!(
                    off(case.expected(records_per_lock)) <= most,
                    "{case:?} {records_per_lock}: {figures:?}"
                );
                if case.choice == Choice::Uniform {
                    let is_off = off(case.printed(records_per_lock)) > most;
                    assert_eq!(is_off, records_per_lock > 1, "{case:?} {records_per_lock}: {figures:?}");
                }
            }
        }
    }

    #[test]
    fn the_printed_equation_expects_more_conflicts_than_there_can_be() {
        let case = CASES[0];
        assert!((case.printed(1) - case.expected(1)).abs() < 1e-9);
        assert!((case.expected(1024) - (case.updates - 1) as f64).abs() < 1e-9, "one lock: one gets it");
        assert!(case.printed(1024) > (case.updates - 1) as f64);
    }

    #[test]
    fn the_probabilities_of_all_locks_are_one_together() {
        for case in CASES {
            for length in RECORDS_PER_LOCK.map(u64::from) {
                let locks = (0..case.records / length).map(|lock| lock * length..(lock + 1) * length);
                let sum: f64 = locks.map(|keys| case.choice.probability(keys, case.records)).sum();
                assert!((sum - 1.0).abs() < 1e-9, "{case:?} {length}: {sum}");
            }
        }
    }
}
