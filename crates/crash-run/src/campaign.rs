//! Makes the outcomes of all cuts, and has each different one checked.

use std::collections::BTreeSet;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tantalum::Profile;
use tantalum_report::Monitor;

use crate::check::{Check, Checker, Verdict};
use crate::choices::Kept;
use crate::error::RunError;
use crate::findings;
use crate::operation::Recording;
use crate::outcomes::{self, Tried};
use crate::posix::Posix;
use crate::sector::Sector;
use crate::tree::Tree;

/// What may be lost.
#[derive(Clone, Debug)]
pub enum Losses {
    /// The worst that POSIX allows, on a disk with such sectors.
    Posix(Sector),
    /// What this drive, and a volume on it, lose.
    Drive(Box<Profile>),
}

/// How a recording is checked.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What may be lost.
    pub losses: Losses,
    /// What looks at what is left.
    pub check: Check,
    /// It fails if it takes longer.
    pub check_seconds: u64,
    /// At most so many places where power is cut, spread evenly.
    pub cuts: Option<u64>,
    /// No cut is begun after so many minutes. The first cuts are spread over the run, and later ones are between them.
    pub minutes: Option<u64>,
    /// For what is drawn.
    pub seed: u64,
    /// A folder in which each finding is saved.
    pub save: Option<PathBuf>,
}

/// A failed check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Finding {
    /// Power was cut when so many operations of the program had returned.
    pub after_operations: usize,
    /// The last of them.
    pub last_operation: String,
    /// How the check ended.
    pub check_ended: String,
    /// The end of what it printed.
    pub check_said: String,
    /// What had to be lost for that. Empty if it is the drive that decides.
    pub lost: Vec<String>,
    /// What was done after that, and was there.
    pub there: Vec<String>,
    /// The syncs of what had to be lost, if the check is content with them. Findings differ in these.
    pub saved_by: Vec<String>,
    /// Other outcomes in which the check failed for the same reason.
    pub also: u64,
    /// The folder in which it is saved.
    pub saved: Option<PathBuf>,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Outcome {
    /// Operations of the program that changed or synced something.
    pub operations: usize,
    /// Of these, syncs.
    pub syncs: usize,
    /// Places where power could be cut.
    pub places: u64,
    /// Those where it was.
    pub cuts: u64,
    /// Outcomes made.
    pub outcomes: u64,
    /// Different ones, which were checked.
    pub checked: u64,
    /// Those in which the check failed.
    pub failed: u64,
    /// Of these, failures that were not looked at.
    pub unexplained: u64,
    /// Whether it ended before all cuts were tried.
    pub ended_early: bool,
    /// What explains them, the shortest recording first.
    pub findings: Vec<Finding>,
}

/// An outcome to be checked.
pub(crate) struct Job {
    pub operations: usize,
    /// Which pieces are there, if POSIX decides.
    pub kept: Option<Kept>,
    /// The operations that are lost in whole or in part.
    pub lost: BTreeSet<usize>,
    pub tree: Tree,
}

/// Checks what a program may find after power cuts.
pub fn check(recording: &Recording, settings: &Settings, monitor: &Monitor) -> Result<Outcome, RunError> {
    let place =
        tempfile::Builder::new().prefix("tantalum-crash-run-").tempdir().map_err(RunError::files("/tmp"))?;
    let checker = Checker {
        check: settings.check.clone(),
        most: Duration::from_secs(settings.check_seconds),
        place: place.path().to_owned(),
    };
    let campaign = Campaign { recording, settings, checker };
    campaign.check_without_cut()?;
    campaign.run(monitor)
}

pub(crate) struct Campaign<'a> {
    pub recording: &'a Recording,
    pub settings: &'a Settings,
    pub checker: Checker,
}

/// Threads that run checks, or drives.
pub(crate) fn workers() -> usize {
    thread::available_parallelism().map_or(2, NonZero::get)
}

impl Settings {
    /// Refuses what cannot be used, before a program runs for it.
    pub fn check(&self) -> Result<(), RunError> {
        let Some(save) = &self.save else { return Ok(()) };
        let is_free = match std::fs::read_dir(save) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if is_free { Ok(()) } else { Err(RunError::PlaceInUse { path: save.clone() }) }
    }
}

impl Campaign<'_> {
    fn run(&self, monitor: &Monitor) -> Result<Outcome, RunError> {
        let program = &self.recording.operations[self.recording.begins..];
        let workers = workers();
        let (jobs, queue) = mpsc::sync_channel(4 * workers);
        let queue = Mutex::new(queue);
        let failed: Mutex<Vec<(Job, Verdict)>> = Mutex::default();
        let stopped: Mutex<Option<RunError>> = Mutex::default();
        let (tried, made) = thread::scope(|scope| {
            for worker in 0..workers {
                let (queue, failed, stopped) = (&queue, &failed, &stopped);
                scope.spawn(move || self.work(worker, queue, failed, stopped));
            }
            outcomes::make(self, jobs, monitor)
        });
        if let Some(error) = stopped.into_inner() {
            return Err(error);
        }
        match made {
            // what was found until then is told
            Ok(()) | Err(RunError::Interrupted(_)) => {}
            Err(other) => return Err(other),
        }
        let Tried { places, cuts, outcomes, checked, of } = tried;
        let mut outcome = Outcome {
            operations: program.len(),
            syncs: program.iter().filter(|operation| operation.is_sync()).count(),
            places,
            cuts,
            outcomes,
            checked,
            ended_early: cuts < of,
            ..Outcome::default()
        };
        let mut failed = failed.into_inner();
        failed.sort_by_key(|(job, _)| {
            (job.operations, job.kept.as_ref().map(|kept| kept.iter().filter(|kept| !**kept).count()))
        });
        outcome.failed = failed.len() as u64;
        findings::explain_all(self, failed, &mut outcome, monitor)?;
        Ok(outcome)
    }

    /// A check that fails on what the program leaves with power on tells nothing.
    fn check_without_cut(&self) -> Result<(), RunError> {
        let posix = Posix::after(self.recording, self.recording.operations.len(), Sector::default(), None);
        let verdict = self.checker.run(&posix.tree(|_| true), &self.recording.said, 0)?;
        match verdict.failed {
            None => Ok(()),
            Some(status) => {
                let said = verdict.said.lines().last().unwrap_or("it printed nothing").to_owned();
                Err(RunError::CheckFails { status, said, hint: self.checker.check.hint() })
            }
        }
    }

    fn work(
        &self,
        worker: usize,
        queue: &Mutex<Receiver<Job>>,
        failed: &Mutex<Vec<(Job, Verdict)>>,
        stopped: &Mutex<Option<RunError>>,
    ) {
        loop {
            let Ok(job) = queue.lock().recv() else { return };
            // the others are taken, so that who makes them does not wait
            if stopped.lock().is_some() {
                continue;
            }
            match self.checker.run(&job.tree, self.recording.said_by(job.operations), worker) {
                Ok(verdict) if verdict.failed.is_none() => {}
                Ok(verdict) => failed.lock().push((job, verdict)),
                Err(error) => *stopped.lock() = Some(error),
            }
        }
    }
}
