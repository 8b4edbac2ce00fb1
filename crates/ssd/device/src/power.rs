//! The outcome of operations in flight when power fails.

use std::collections::VecDeque;

use tantalum_nand::{InFlight, Outcome, SplitMix64};

/// Decides the fate of operations in flight: each may not have started, be torn, or be complete (M2 to M4).
#[derive(Clone, Debug)]
pub struct PowerLoss {
    random: SplitMix64,
    fixed: Option<Outcome>,
    listed: VecDeque<Outcome>,
}

impl PowerLoss {
    /// Any combination, drawn from a seed.
    pub fn seeded(seed: u64) -> PowerLoss {
        PowerLoss { random: SplitMix64(seed), fixed: None, listed: VecDeque::new() }
    }

    /// One fate for all operations in flight.
    pub fn all(outcome: Outcome) -> PowerLoss {
        PowerLoss { random: SplitMix64(0), fixed: Some(outcome), listed: VecDeque::new() }
    }

    /// A fate for each operation, in the order of issue. Operations beyond the list, and the pages of torn erases, are
    /// drawn from the seed.
    pub fn listed(fates: &[Outcome], seed: u64) -> PowerLoss {
        PowerLoss { random: SplitMix64(seed), fixed: None, listed: fates.iter().copied().collect() }
    }

    /// The next random number.
    pub fn random(&mut self) -> u64 {
        self.random.next_u64()
    }

    /// The fate of one operation.
    pub fn outcome(&mut self, _operation: &InFlight) -> Outcome {
        match self.listed.pop_front().or(self.fixed) {
            Some(outcome) => outcome,
            None => match self.random() % 3 {
                0 => Outcome::NotStarted,
                1 => Outcome::Torn,
                _ => Outcome::Completed,
            },
        }
    }
}
