//! Makes the outcomes of all cuts, and has each different one checked.

use std::collections::{BTreeSet, HashSet};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tantalum::Profile;
use tantalum_report::{Bar, Monitor};

use crate::check::{Check, Checker, Verdict};
use crate::choices::{Kept, choices};
use crate::drive;
use crate::error::RunError;
use crate::explain::{Explanation, describe, explain};
use crate::operation::Recording;
use crate::posix::Posix;
use crate::saved;
use crate::tree::Tree;

/// Failed outcomes that are reduced and explained; there are often hundreds for one reason.
const LOOKED_AT: usize = 24;

/// What may be lost.
#[derive(Clone, Debug)]
pub enum Losses {
    /// The worst that POSIX allows.
    Posix,
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
    /// No cut is begun after so many minutes.
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
    /// Places where power was cut.
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
struct Job {
    operations: usize,
    /// Which pieces are there, if POSIX decides.
    kept: Option<Kept>,
    /// The operations that are lost in whole or in part.
    lost: BTreeSet<usize>,
    tree: Tree,
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

struct Campaign<'a> {
    recording: &'a Recording,
    settings: &'a Settings,
    checker: Checker,
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
        let mut outcome = Outcome {
            operations: program.len(),
            syncs: program.iter().filter(|operation| operation.is_sync()).count(),
            ..Outcome::default()
        };
        let workers = thread::available_parallelism().map_or(2, NonZero::get);
        let (jobs, queue) = mpsc::sync_channel(4 * workers);
        let queue = Mutex::new(queue);
        let failed: Mutex<Vec<(Job, Verdict)>> = Mutex::default();
        let stopped: Mutex<Option<RunError>> = Mutex::default();
        let made = thread::scope(|scope| {
            for worker in 0..workers {
                let (queue, failed, stopped) = (&queue, &failed, &stopped);
                scope.spawn(move || self.work(worker, queue, failed, stopped));
            }
            let made = match &self.settings.losses {
                Losses::Posix => self.make_posix(&jobs, &mut outcome, monitor),
                Losses::Drive(profile) => self.make_drive(profile, &jobs, &mut outcome, monitor),
            };
            drop(jobs);
            made
        });
        if let Some(error) = stopped.into_inner() {
            return Err(error);
        }
        match made {
            // what was found until then is told
            Err(RunError::Interrupted(_)) => outcome.ended_early = true,
            other => other?,
        }
        let mut failed = failed.into_inner();
        failed.sort_by_key(|(job, _)| {
            (job.operations, job.kept.as_ref().map(|kept| kept.iter().filter(|kept| !**kept).count()))
        });
        outcome.failed = failed.len() as u64;
        self.explain(failed, &mut outcome)?;
        Ok(outcome)
    }

    /// A check that fails on what the program leaves with power on tells nothing.
    fn check_without_cut(&self) -> Result<(), RunError> {
        let posix = Posix::after(self.recording, self.recording.operations.len(), None);
        let verdict = self.checker.run(&posix.tree(|_| true), &self.recording.said, 0)?;
        match verdict.failed {
            None => Ok(()),
            Some(status) => {
                let said = verdict.said.lines().last().unwrap_or("it printed nothing").to_owned();
                Err(RunError::CheckFails { status, said })
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

    fn make_posix(
        &self,
        jobs: &SyncSender<Job>,
        outcome: &mut Outcome,
        monitor: &Monitor,
    ) -> Result<(), RunError> {
        let mut posix = Posix::after(self.recording, self.recording.begins, None);
        let places = self.recording.operations.len() - self.recording.begins;
        let every = self.every(places as u64);
        let bar = monitor.bar("cuts", places as u64);
        let mut sent = Sent::new(self, jobs, &bar);
        for done in 0..=places {
            let operations = self.recording.begins + done;
            if done > 0 {
                posix.then(operations - 1, &self.recording.operations[operations - 1]);
            }
            if !(done as u64).is_multiple_of(every) && done != places {
                continue;
            }
            outcome.cuts += 1;
            for kept in choices(&posix.waiting, self.settings.seed ^ operations as u64) {
                let tree = posix.tree(|index| kept[index]);
                let lost = posix.lost_operations(&kept);
                sent.send(Job { operations, kept: Some(kept), lost, tree }, outcome)?;
            }
            if sent.is_late() {
                outcome.ended_early = true;
                break;
            }
            bar.reach(done as u64)?;
        }
        Ok(())
    }

    fn make_drive(
        &self,
        profile: &Profile,
        jobs: &SyncSender<Job>,
        outcome: &mut Outcome,
        monitor: &Monitor,
    ) -> Result<(), RunError> {
        let at_end = drive::cut_at(self.recording, profile, None, self.settings.seed)?;
        let all = at_end.map_or(0, |left| left.flash_operations);
        let every = self.every(all);
        let bar = monitor.bar("cuts", all);
        let mut sent = Sent::new(self, jobs, &bar);
        let places = (1..=all).step_by(every as usize).map(Some).chain([None]);
        for at in places {
            let seed = self.settings.seed ^ at.unwrap_or_default();
            let Some(left) = drive::cut_at(self.recording, profile, at, seed)? else { continue };
            outcome.cuts += 1;
            let (operations, lost) = (left.operations, BTreeSet::new());
            sent.send(Job { operations, kept: None, lost, tree: left.tree }, outcome)?;
            if sent.is_late() {
                outcome.ended_early = true;
                break;
            }
            bar.reach(at.unwrap_or(all))?;
        }
        Ok(())
    }

    /// Every how many places power is cut.
    fn every(&self, places: u64) -> u64 {
        self.settings.cuts.map_or(1, |cuts| (places + 1).div_ceil(cuts.max(1)).max(1))
    }

    /// Explains failed outcomes, the shortest first, until enough were looked at.
    fn explain(&self, failed: Vec<(Job, Verdict)>, outcome: &mut Outcome) -> Result<(), RunError> {
        let mut explained: Vec<Explained> = Vec::new();
        let mut looked_at = 0;
        for (job, verdict) in failed {
            if let Some(known) = explained.iter().find(|known| known.explains(&job)) {
                outcome.findings[known.finding].also += 1;
                continue;
            }
            if looked_at == LOOKED_AT {
                outcome.unexplained += 1;
                continue;
            }
            looked_at += 1;
            let explanation = match &job.kept {
                Some(kept) => explain(self.recording, &self.checker, job.operations, kept)?,
                None => Explanation::default(),
            };
            let same = outcome.findings.iter().position(|finding| finding.saved_by == explanation.saved_by);
            let (operations, lost) = (job.operations, explanation.operations.clone());
            let finding = same.unwrap_or(outcome.findings.len());
            match same {
                Some(finding) => outcome.findings[finding].also += 1,
                None => outcome.findings.push(self.finding(
                    outcome.findings.len() + 1,
                    &job,
                    &verdict,
                    explanation,
                )?),
            }
            explained.push(Explained { operations, lost, finding });
        }
        Ok(())
    }

    fn finding(
        &self,
        number: usize,
        job: &Job,
        verdict: &Verdict,
        explanation: Explanation,
    ) -> Result<Finding, RunError> {
        let recording = self.recording;
        let last = job.operations.checked_sub(1).filter(|last| *last >= recording.begins);
        let tree = explanation.tree.as_ref().unwrap_or(&job.tree);
        let finding = Finding {
            after_operations: job.operations - recording.begins,
            last_operation: last.map_or("nothing yet".to_owned(), |last| describe(recording, last)),
            check_ended: verdict.failed.clone().unwrap_or_default(),
            check_said: verdict.said.clone(),
            lost: explanation.lost,
            there: explanation.there,
            saved_by: explanation.saved_by,
            also: 0,
            saved: self.settings.save.as_ref().map(|save| save.join(format!("finding-{number}"))),
        };
        if let Some(folder) = &finding.saved {
            saved::save(folder, &finding, &self.checker, tree, recording.said_by(job.operations))?;
        }
        Ok(finding)
    }
}

/// What is known to fail.
struct Explained {
    /// Where power was cut.
    operations: usize,
    /// Operations that had to be lost in whole or in part.
    lost: BTreeSet<usize>,
    /// Its number.
    finding: usize,
}

impl Explained {
    /// Whether `job` fails for the same reason: it lost the same and maybe more. Nothing is part of everything, so a failure
    /// for which nothing had to be lost explains only those at the same place, or all if the drive decides what is lost.
    fn explains(&self, job: &Job) -> bool {
        let is_same_place = job.kept.is_none() || self.operations == job.operations;
        self.lost.is_subset(&job.lost) && (!self.lost.is_empty() || is_same_place)
    }
}

/// Hands over outcomes that are new.
struct Sent<'a> {
    campaign: &'a Campaign<'a>,
    jobs: &'a SyncSender<Job>,
    bar: &'a Bar,
    seen: HashSet<(u64, usize)>,
    begun: Instant,
}

impl<'a> Sent<'a> {
    fn new(campaign: &'a Campaign<'a>, jobs: &'a SyncSender<Job>, bar: &'a Bar) -> Sent<'a> {
        Sent { campaign, jobs, bar, seen: HashSet::new(), begun: Instant::now() }
    }

    fn send(&mut self, job: Job, outcome: &mut Outcome) -> Result<(), RunError> {
        outcome.outcomes += 1;
        let said = self.campaign.recording.said_by(job.operations).len();
        if self.seen.insert((job.tree.digest(), said)) {
            outcome.checked += 1;
            // nobody takes it if a check could not be run; that is told at the end
            let _ = self.jobs.send(job);
        }
        self.bar.say(format!("{} outcomes, {} different", outcome.outcomes, outcome.checked));
        Ok(self.bar.check()?)
    }

    fn is_late(&self) -> bool {
        let minutes = self.campaign.settings.minutes;
        minutes.is_some_and(|minutes| self.begun.elapsed() >= Duration::from_secs(60 * minutes))
    }
}
