//! One seed on one drive: everything that determines a run.

use super::cut_point::CutPoint;
use super::drive::Drive;
use super::skip::Skip;
use super::stop::{Broken, Stop};
use super::tally::Tally;
use super::weights::Weights;

/// Where power is cut.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// At every program and erase of every command, on a copy of the drive each time, in every variant.
    All,
    /// This many times in one long run.
    Random(u64),
    /// At one place only, to replay a failure of [`Cuts::All`].
    At(CutPoint),
}

/// What is done with each seed on each drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Where power is cut.
    pub cuts: Cuts,
    /// Whether it is also cut during recovery.
    pub second_cut: bool,
    /// Commands before the first cut, with [`Cuts::All`] and [`Cuts::At`].
    pub age: u64,
    /// Commands in which power is cut, with [`Cuts::All`].
    pub commands: u64,
    /// How often each command comes.
    pub weights: Weights,
    /// Commands that are left out.
    pub skip: Skip,
    /// Whether every command, cut and recovery is printed on standard error.
    pub trace: bool,
    /// Runs tried to leave out commands of a failure. Not a time, so that the result depends only on the seed.
    pub minimising_runs: u64,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            cuts: Cuts::All,
            second_cut: false,
            age: 1000,
            commands: 100,
            weights: Weights::default(),
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
    pub drive: Drive,
    pub plan: Plan,
}

/// A broken promise, and when it broke.
#[derive(Clone, Debug)]
pub(super) struct Found {
    /// The command before or during which power was last cut.
    pub command: u64,
    /// The number of cuts so far.
    pub cut: u64,
    /// Where power was cut, if every place is tried.
    pub point: Option<Box<CutPoint>>,
    pub broken: Broken,
}

impl Found {
    /// Makes a finding of the error that stopped a run. A power loss without a cut is a finding too.
    pub fn new(stop: Stop, command: u64, cut: u64, point: Option<CutPoint>) -> Found {
        let broken = match stop {
            Stop::Broken(broken) => broken,
            Stop::PowerLost => {
                let detail = "power was lost where it was not cut".to_owned();
                Broken { promise: "running drive", detail }
            }
        };
        Found { command, cut, point: point.map(Box::new), broken }
    }
}

/// The result of a case.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub tally: Tally,
    /// It ends with the first broken promise.
    pub found: Option<Found>,
}

impl Case {
    /// The command line that runs this again.
    pub fn command_line(&self) -> String {
        let plan = &self.plan;
        let mut line = format!("tantalum crash device --seed {} {}", self.seed, self.drive);
        let mut add = |text: String| {
            line.push(' ');
            line.push_str(&text);
        };
        match &plan.cuts {
            Cuts::All => add(format!("--cuts all --age {} --commands {}", plan.age, plan.commands)),
            Cuts::Random(count) => add(format!("--cuts {count}")),
            Cuts::At(point) => add(format!("--age {} --at {point}", plan.age)),
        }
        if plan.second_cut {
            add("--second-cut".into());
        }
        let weights = plan.weights.to_string();
        if !weights.is_empty() {
            add(format!("--weights {weights}"));
        }
        if !plan.skip.is_empty() {
            add(format!("--skip {}", plan.skip));
        }
        line
    }

    /// The same, reduced to what was found.
    pub fn narrowed(&self, found: &Found) -> Case {
        let mut case = self.clone();
        match (&self.plan.cuts, &found.point) {
            (Cuts::Random(_), _) => case.plan.cuts = Cuts::Random(found.cut + 1),
            (_, Some(point)) => {
                case.plan.cuts = Cuts::At(CutPoint::clone(point));
                case.plan.second_cut = false;
            }
            // only the command at which it appears needs cuts
            (_, None) => {
                case.plan.age = found.command;
                case.plan.commands = 1;
            }
        }
        case
    }
}
