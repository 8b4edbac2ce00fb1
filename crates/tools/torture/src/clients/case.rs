//! One seed on one drive with its clients: everything that determines a run.

use super::coverage::Coverage;
use super::every_cut::{cuts_of_turn, every_cut};
use super::free_run::free_run;
use super::kinds::Kind;
use super::random_cuts::random_cuts;
use super::setup::Setup;
use crate::cases;
pub(super) use crate::cases::{Cuts, Found};
use crate::device::progress::Progress;
use crate::device::tally::Tally;

/// What is done with each seed on each drive; its commands are turns.
pub type Plan = cases::Plan<Kind>;

/// One seed on one drive.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub seed: u64,
    pub setup: Setup,
    pub plan: Plan,
}

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub tally: Tally,
    pub coverage: Coverage,
    /// It ends with the first broken promise.
    pub found: Option<Found>,
}

impl cases::Case for Case {
    type Kind = Kind;
    type Report = Report;

    fn seed(&self) -> u64 {
        self.seed
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn plan_mut(&mut self) -> &mut Plan {
        &mut self.plan
    }

    fn command(&self) -> String {
        format!("clients --seed {} {}", self.seed, self.setup)
    }

    fn run(&self, progress: &Progress<'_>) -> Report {
        match self.plan.cuts {
            Cuts::Random(count) if self.setup.free => free_run(self, count, progress),
            Cuts::Random(count) => random_cuts(self, count, progress),
            Cuts::All | Cuts::At(_) => every_cut(self, progress),
        }
    }

    fn found(report: &Report) -> Option<&Found> {
        report.found.as_ref()
    }

    fn repeats(&self) -> bool {
        !self.setup.free && !matches!(self.plan.cuts, Cuts::At(_))
    }

    fn again(&self, found: &Found) -> Option<Found> {
        match self.plan.cuts {
            Cuts::Random(_) => random_cuts(self, found.cut + 1, &Progress::unseen()).found,
            _ => cuts_of_turn(self, found.command),
        }
    }
}
