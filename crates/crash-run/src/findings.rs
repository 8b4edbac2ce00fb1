//! Explains failed outcomes, and combines those with the same reason into one finding.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tantalum_report::Monitor;

use crate::check::{Checker, Verdict};
use crate::error::RunError;
use crate::explain::{Explanation, describe, explain};
use crate::finding::Finding;
use crate::operation::Recording;
use crate::outcomes::Job;
use crate::saved;
use crate::settings::{Losses, Settings};

/// The maximum number of failed outcomes to reduce and explain; hundreds often have the same reason.
const MOST_EXPLAINED: usize = 24;

/// How long a run that was interrupted, or whose time is up, continues to explain.
const AFTER_INTERRUPTION: Duration = Duration::from_secs(10);

/// The findings so far.
pub(crate) struct Findings<'a> {
    recording: &'a Recording,
    settings: &'a Settings,
    checker: &'a Checker,
    explained: Vec<Explained>,
    /// Failures with different remedies.
    pub found: Vec<Finding>,
    /// Failures that were not explained.
    pub unexplained: u64,
    /// When the run's time is up.
    ends: Option<Instant>,
}

/// A failure whose reason is known.
struct Explained {
    /// How many operations were done before the cut.
    operations: usize,
    /// Operations that had to be lost in whole or in part.
    lost: BTreeSet<usize>,
    /// The index of its finding.
    finding: usize,
}

impl<'a> Findings<'a> {
    pub fn new(
        recording: &'a Recording,
        settings: &'a Settings,
        checker: &'a Checker,
        ends: Option<Instant>,
    ) -> Findings<'a> {
        let (explained, found) = (Vec::new(), Vec::new());
        Findings { recording, settings, checker, explained, found, unexplained: 0, ends }
    }

    /// Explains failures in this order, until [`MOST_EXPLAINED`] are. A run that was interrupted, or whose time is up, explains as many as it has time for, and
    /// at least the first.
    pub fn explain_all(&mut self, failures: Vec<(Job, Verdict)>, monitor: &Monitor) -> Result<(), RunError> {
        let bar = monitor.bar("findings", failures.len() as u64);
        let mut until: Option<Instant> = None;
        for (job, verdict) in failures {
            let is_over = self.ends.is_some_and(|ends| Instant::now() >= ends);
            let is_interrupted = bar.advance(1).is_err() || is_over;
            if let Some(known) = self.explained.iter().find(|known| known.explains(&job)) {
                self.found[known.finding].also += 1;
                continue;
            }
            if is_interrupted {
                until = until.or_else(|| Some(Instant::now() + AFTER_INTERRUPTION));
            }
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            let explained = self.explained.len();
            if explained == MOST_EXPLAINED || (is_late && explained > 0) {
                self.unexplained += 1;
                continue;
            }
            self.explain(job, &verdict)?;
        }
        Ok(())
    }

    /// Adds a finding, or counts the failure with the finding that has the same remedy.
    fn explain(&mut self, job: Job, verdict: &Verdict) -> Result<(), RunError> {
        let explanation = match (&job.kept, &self.settings.losses) {
            (Some(kept), Losses::Posix(sector)) => {
                explain(self.recording, self.checker, *sector, job.operations, kept)?
            }
            _ => Explanation::default(),
        };
        let same = self.found.iter().position(|finding| {
            (&finding.saved_by, &finding.unavoidable) == (&explanation.saved_by, &explanation.unavoidable)
        });
        let (operations, lost) = (job.operations, explanation.operations.clone());
        let finding = same.unwrap_or(self.found.len());
        match same {
            Some(finding) => self.found[finding].also += 1,
            None => self.found.push(self.finding(&job, verdict, explanation)?),
        }
        self.explained.push(Explained { operations, lost, finding });
        Ok(())
    }

    /// The next finding, saved if the user wants that.
    fn finding(&self, job: &Job, verdict: &Verdict, explanation: Explanation) -> Result<Finding, RunError> {
        let (recording, number) = (self.recording, self.found.len() + 1);
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
            unavoidable: explanation.unavoidable,
            also: 0,
            saved: self.settings.save.as_ref().map(|save| save.join(format!("finding-{number}"))),
        };
        if let Some(folder) = &finding.saved {
            saved::save(folder, &finding, self.checker, tree, recording.said_by(job.operations))?;
        }
        Ok(finding)
    }
}

impl Explained {
    /// Whether `job` fails for the same reason: it lost at least the same. The empty set is part of every set, so a failure
    /// that needs no loss explains only those at the same place, or all if the drive decides what is lost.
    fn explains(&self, job: &Job) -> bool {
        let is_same_place = job.kept.is_none() || self.operations == job.operations;
        self.lost.is_subset(&job.lost) && (!self.lost.is_empty() || is_same_place)
    }
}
