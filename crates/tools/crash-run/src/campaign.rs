//! A run: makes the outcomes of all cuts, checks each different one, and explains the failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use tantalum_report::Monitor;

use crate::check::{Checker, Verdict};
use crate::error::{RunError, temporary_folder};
use crate::finding::Finding;
use crate::findings::{Explained, Findings};
use crate::operation::{Operation, Recording};
use crate::outcomes::{self, Job, Tried};
use crate::parallel::{in_parallel, workers};
use crate::posix::Posix;
use crate::sector::Sector;
use crate::settings::Settings;

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Outcome {
    /// Operations of the program that changed or synced something.
    pub operations: usize,
    /// How many of these were syncs.
    pub syncs: usize,
    /// Places where power could be cut.
    pub places: u64,
    /// Places where it was cut.
    pub cuts: u64,
    /// Outcomes made.
    pub outcomes: u64,
    /// Different outcomes, which were checked.
    pub checked: u64,
    /// Outcomes in which the check failed.
    pub failed: u64,
    /// Failures that were not explained.
    pub unexplained: u64,
    /// Whether it ended before all cuts were tried.
    pub ended_early: bool,
    /// The explained failures by cause: first what a sync mends, then what a reader must tolerate, and of these first what more
    /// outcomes show.
    pub findings: Vec<Finding>,
    /// Why findings could not be saved, if that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_saved: Option<String>,
}

/// Checks what a program may find after power cuts.
pub fn check(recording: &Recording, settings: &Settings, monitor: &Monitor) -> Result<Outcome, RunError> {
    let place = temporary_folder()?;
    let checker = Checker {
        check: settings.check.clone(),
        most: Duration::from_secs(settings.check_seconds),
        place: place.path().to_owned(),
        monitor: monitor.quiet(),
    };
    check_without_cut(recording, &checker)?;
    let ends = settings.time().and_then(|time| Instant::now().checked_add(time));
    let (tried, failures) = check_outcomes(recording, settings, &checker, ends, monitor)?;
    // what an interrupted run has found is explained all the same
    let checker = Checker { monitor: Monitor::silent(), ..checker };
    let findings = Findings::new(recording, settings, &checker, ends);
    let Explained { findings, unexplained, not_saved } = findings.explain_all(&failures, monitor)?;
    let program = &recording.operations[recording.begins..];
    Ok(Outcome {
        operations: program.len(),
        syncs: program.iter().filter(|operation| Operation::is_sync(operation)).count(),
        places: tried.places,
        cuts: tried.cuts,
        outcomes: tried.outcomes,
        checked: tried.different - tried.skipped,
        failed: failures.len() as u64,
        unexplained,
        ended_early: tried.cuts < tried.planned || tried.skipped > 0,
        findings,
        not_saved,
    })
}

/// The check must pass on all that the program left.
fn check_without_cut(recording: &Recording, checker: &Checker) -> Result<(), RunError> {
    let posix = Posix::after(recording, recording.operations.len(), Sector::default(), &[]);
    checker.run(&posix.tree(|_| true), &recording.acks, 0)?.must_pass(&checker.check)
}

/// Makes the outcomes of all cuts, and checks each different one. Returns the failures, those after the fewest operations
/// first; an interrupted run returns what it has so far.
fn check_outcomes(
    recording: &Recording,
    settings: &Settings,
    checker: &Checker,
    ends: Option<Instant>,
    monitor: &Monitor,
) -> Result<(Tried, Vec<(Job, Verdict)>), RunError> {
    let workers = workers();
    let sector = settings.losses.sector();
    let checks = Checks {
        recording,
        checker,
        sector,
        ends,
        failures: Mutex::default(),
        skipped: AtomicU64::new(0),
        stopped: Mutex::default(),
    };
    let (mut tried, made) = in_parallel(
        4 * workers,
        |worker, job| checks.take(worker, job),
        |jobs| outcomes::make(recording, settings, workers, jobs, monitor),
    );
    tried.skipped = checks.skipped.load(Ordering::Relaxed);
    let mut failures = checks.into_failures()?;
    match made {
        Ok(()) | Err(RunError::Interrupted(_)) => {}
        Err(other) => return Err(other),
    }
    // not in the order in which their checks ended
    failures.sort_by_key(|(job, _)| {
        let lost = job.kept.as_ref().map(|kept| kept.iter().filter(|kept| !**kept).count());
        (job.operations, lost, job.number)
    });
    Ok((tried, failures))
}

/// State shared by the threads that run checks.
struct Checks<'a> {
    recording: &'a Recording,
    checker: &'a Checker,
    sector: Sector,
    /// When the run's time is up: what waits then is not checked.
    ends: Option<Instant>,
    failures: Mutex<Vec<(Job, Verdict)>>,
    /// Outcomes that were not checked, because the time was up or the run interrupted.
    skipped: AtomicU64,
    /// Why a check could not be run.
    stopped: Mutex<Option<RunError>>,
}

impl Checks<'_> {
    /// Runs the check on an outcome.
    fn take(&self, worker: usize, mut job: Job) {
        // after an error the queue is still emptied, or the sender would block
        if self.stopped.lock().is_some() {
            return;
        }
        if self.ends.is_some_and(|ends| Instant::now() >= ends) {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        match self.checker.run(&job.tree, self.recording.acks_by(job.operations), worker) {
            Ok(verdict) if verdict.failed.is_none() => {}
            Ok(verdict) => {
                if job.kept.is_none() {
                    job.find_loss(self.recording, self.sector);
                }
                self.failures.lock().push((job, verdict));
            }
            // no verdict, and nothing that has failed
            Err(RunError::Interrupted(_)) => drop(self.skipped.fetch_add(1, Ordering::Relaxed)),
            Err(error) => *self.stopped.lock() = Some(error),
        }
    }

    fn into_failures(self) -> Result<Vec<(Job, Verdict)>, RunError> {
        match self.stopped.into_inner() {
            None => Ok(self.failures.into_inner()),
            Some(error) => Err(error),
        }
    }
}
