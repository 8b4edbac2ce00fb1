//! One seed on one drive: everything that determines a run.

use super::drive::{DriveKind, Medium};
use super::every_cut::{cuts_of_command, every_cut};
use super::progress::Progress;
use super::random_cuts::random_cuts;
use super::stop::MACHINE;
use super::tally::Tally;
use super::weights::Kind;
use crate::cases;
pub(super) use crate::cases::{Cuts, Found};

/// What is done with each seed on each drive.
pub type Plan = cases::Plan<Kind>;

/// One seed on one drive.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub seed: u64,
    pub drive: DriveKind,
    pub plan: Plan,
}

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub tally: Tally,
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
        format!("device --seed {} {}", self.seed, self.drive)
    }

    fn run(&self, progress: &Progress<'_>) -> Report {
        match self.plan.cuts {
            Cuts::Random(count) => random_cuts(self, count, progress),
            Cuts::All | Cuts::At(_) => every_cut(self, progress),
        }
    }

    fn found(report: &Report) -> Option<&Found> {
        report.found.as_ref()
    }

    fn is_of_machine(&self, found: &Found) -> bool {
        let fails_on_purpose = self.drive.medium == Medium::FailingHost;
        found.broken.by_machine && (!fails_on_purpose || found.broken.promise == MACHINE)
    }

    fn again(&self, found: &Found) -> Option<Found> {
        match self.plan.cuts {
            Cuts::Random(_) => random_cuts(self, found.cut + 1, &Progress::unseen()).found,
            _ => cuts_of_command(self, found.command),
        }
    }
}
