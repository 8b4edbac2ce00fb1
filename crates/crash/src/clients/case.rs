//! One seed on one drive with its clients: everything that determines a run.

use super::coverage::Coverage;
use super::kinds::Weights;
use super::setup::Setup;
use crate::device::Skip;
use crate::device::stop::{Broken, Stop};
use crate::device::tally::Tally;

/// What is done with each seed on each drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// How often power is cut.
    pub cuts: u64,
    /// Whether it is also cut during recovery.
    pub second_cut: bool,
    /// How often each command comes.
    pub weights: Weights,
    /// Whether real threads use the drive, in an order that nobody draws. They only read and write units.
    pub free: bool,
    /// Turns that are left out.
    pub skip: Skip,
    /// Whether every command, answer, cut and recovery is printed on standard error.
    pub trace: bool,
    /// Runs tried to leave out turns of a failure. Not a time, so that the result depends only on the seed.
    pub minimising_runs: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            cuts: 40,
            second_cut: false,
            weights: Weights::default(),
            free: false,
            skip: Skip::default(),
            trace: false,
            minimising_runs: 150,
        }
    }
}

/// One seed on one drive.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub seed: u64,
    pub setup: Setup,
    pub plan: Plan,
}

/// A broken promise, and when it broke.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The turn before or during which power was last cut.
    pub turn: u64,
    /// The number of cuts so far.
    pub cut: u64,
    pub broken: Broken,
}

impl Found {
    /// Makes a finding of the error that stopped a run. A power loss without a cut is a finding too.
    pub fn new(stop: Stop, turn: u64, cut: u64) -> Found {
        let broken = match stop {
            Stop::Broken(broken) => broken,
            Stop::PowerLost => {
                Broken { promise: "running drive", detail: "power was lost where it was not cut".to_owned() }
            }
        };
        Found { turn, cut, broken }
    }
}

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub tally: Tally,
    pub coverage: Coverage,
    /// It ends with the first broken promise.
    pub found: Option<Found>,
}

impl Case {
    /// The command line that runs this again.
    pub fn command_line(&self) -> String {
        let plan = &self.plan;
        let mut line = format!("tantalum crash clients --seed {} --cuts {}", self.seed, plan.cuts);
        line += &format!(" {}", self.setup);
        if plan.second_cut {
            line += " --second-cut";
        }
        if plan.free {
            line += " --order free";
        }
        let weights = plan.weights.to_string();
        if !weights.is_empty() {
            line += &format!(" --weights {weights}");
        }
        if !plan.skip.is_empty() {
            line += &format!(" --skip {}", plan.skip);
        }
        line
    }

    /// The same, ending with what was found.
    pub fn narrowed(&self, found: &Found) -> Case {
        let mut case = self.clone();
        case.plan.cuts = found.cut + 1;
        case
    }
}
