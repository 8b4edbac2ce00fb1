//! Findings: failed outcomes, of which those with the same reason are one.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tantalum_report::Monitor;

use crate::campaign::{Campaign, Finding, Job, Losses, Outcome};
use crate::check::Verdict;
use crate::error::RunError;
use crate::explain::{Explanation, describe, explain};
use crate::saved;

/// Failed outcomes that are reduced and explained; there are often hundreds for one reason.
const LOOKED_AT: usize = 24;

/// Who interrupts the run waits so long for explanations.
const AFTER_INTERRUPTION: Duration = Duration::from_secs(10);

/// Explains failed outcomes, the shortest first, until enough were looked at. After an interruption there is little time for
/// that, and the first is explained in any case.
pub(crate) fn explain_all(
    campaign: &Campaign<'_>,
    failed: Vec<(Job, Verdict)>,
    outcome: &mut Outcome,
    monitor: &Monitor,
) -> Result<(), RunError> {
    let bar = monitor.bar("findings", failed.len() as u64);
    let mut explained: Vec<Explained> = Vec::new();
    let mut until: Option<Instant> = None;
    let mut looked_at = 0;
    for (job, verdict) in failed {
        let is_interrupted = bar.advance(1).is_err();
        if let Some(known) = explained.iter().find(|known| known.explains(&job)) {
            outcome.findings[known.finding].also += 1;
            continue;
        }
        if is_interrupted {
            until = until.or_else(|| Some(Instant::now() + AFTER_INTERRUPTION));
        }
        let is_late = until.is_some_and(|until| Instant::now() >= until);
        if looked_at == LOOKED_AT || (is_late && looked_at > 0) {
            outcome.unexplained += 1;
            continue;
        }
        looked_at += 1;
        explained.push(campaign.explain(job, &verdict, outcome)?);
    }
    Ok(())
}

impl Campaign<'_> {
    /// Adds a finding, or adds to one with the same remedy.
    fn explain(&self, job: Job, verdict: &Verdict, outcome: &mut Outcome) -> Result<Explained, RunError> {
        let explanation = match (&job.kept, &self.settings.losses) {
            (Some(kept), Losses::Posix(sector)) => {
                explain(self.recording, &self.checker, *sector, job.operations, kept)?
            }
            _ => Explanation::default(),
        };
        let same = outcome.findings.iter().position(|finding| finding.saved_by == explanation.saved_by);
        let (operations, lost) = (job.operations, explanation.operations.clone());
        let finding = same.unwrap_or(outcome.findings.len());
        match same {
            Some(finding) => outcome.findings[finding].also += 1,
            None => {
                let number = outcome.findings.len() + 1;
                outcome.findings.push(self.finding(number, &job, verdict, explanation)?);
            }
        }
        Ok(Explained { operations, lost, finding })
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
