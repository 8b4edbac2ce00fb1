//! Minimises a failure: leaves out steps of a run, in ever smaller groups, while it still fails.

use std::ops::Range;

/// A run that fails.
pub(crate) trait Failing: Sized {
    /// The step at which it fails: those before it may be left out.
    fn end(&self) -> u64;

    /// Whether a step is left out already.
    fn is_left_out(&self, step: u64) -> bool;

    /// The failure found without these steps, if it still occurs.
    fn without(&self, steps: Range<u64>) -> Option<Self>;
}

/// The failure with as few steps as necessary. `goes_on` is asked before each attempt.
pub(crate) fn minimise<F: Failing>(mut smallest: F, mut goes_on: impl FnMut() -> bool) -> F {
    let mut group = (smallest.end() / 2).max(1);
    loop {
        let (mut start, mut smaller) = (0, false);
        while start < smallest.end() {
            let end = (start + group).min(smallest.end());
            if (start..end).any(|step| !smallest.is_left_out(step)) {
                if !goes_on() {
                    return smallest;
                }
                if let Some(shrunk) = smallest.without(start..end) {
                    (smallest, smaller) = (shrunk, true);
                }
            }
            start = end;
        }
        if group == 1 && !smaller {
            return smallest;
        }
        group = (group / 2).max(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A run of 100 steps that fails while it has steps 7 and 40.
    #[derive(Clone)]
    struct Run(BTreeSet<u64>);

    impl Failing for Run {
        fn end(&self) -> u64 {
            100
        }

        fn is_left_out(&self, step: u64) -> bool {
            self.0.contains(&step)
        }

        fn without(&self, steps: Range<u64>) -> Option<Run> {
            let left_out: BTreeSet<u64> = self.0.iter().copied().chain(steps).collect();
            (!left_out.contains(&7) && !left_out.contains(&40)).then_some(Run(left_out))
        }
    }

    #[test]
    fn only_what_the_failure_needs_is_left() {
        let left = minimise(Run(BTreeSet::new()), || true);
        assert_eq!((0..100).filter(|step| !left.is_left_out(*step)).collect::<Vec<_>>(), [7, 40]);
        let mut attempts = 0;
        let early = minimise(Run(BTreeSet::new()), || {
            attempts += 1;
            attempts <= 3
        });
        assert!(early.0.len() < 98, "it stopped before the end");
    }
}
