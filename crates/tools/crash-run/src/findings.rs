//! Explains failed outcomes, and combines those with the same cause into one finding.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tantalum_report::Monitor;

use crate::check::{Checker, Verdict};
use crate::error::RunError;
use crate::explain::{Explanation, describe, explain};
use crate::finding::Finding;
use crate::operation::Recording;
use crate::outcomes::Job;
use crate::remedies::kind_of;
use crate::saved_finding;
use crate::settings::{Losses, Settings};
use crate::tree::Tree;

/// The maximum number of failed outcomes to reduce and explain; hundreds often have the same reason.
const MOST_EXPLAINED: usize = 24;

/// How long a run that was interrupted, or whose time is up, continues to explain.
const AFTER_INTERRUPTION: Duration = Duration::from_secs(10);

/// The failures that were explained, by cause.
pub(crate) struct Findings<'a> {
    recording: &'a Recording,
    settings: &'a Settings,
    checker: &'a Checker,
    explained: Vec<Known>,
    causes: Vec<Cause>,
    /// What operations do, to files of which role; those asked for so far.
    kinds: HashMap<usize, Rc<str>>,
    /// When the run's time is up.
    ends: Option<Instant>,
}

/// A failure that was explained.
struct Known {
    /// How many operations were done before the cut.
    operations: usize,
    /// Operations that had to be lost in whole or in part.
    lost: BTreeSet<usize>,
    /// The index of its cause.
    cause: usize,
}

/// What failures with a remedy in common have in common. A program does the same to many files, so remedies are compared by
/// [`role`].
struct Cause {
    /// The first of them, with the remedies of all of them.
    finding: Finding,
    /// How many operations were done before its cut.
    operations: usize,
    /// The files that it left.
    tree: Tree,
    /// How many outcomes lost what one of them had to lose.
    outcomes: u64,
}

/// What became of the failures.
pub(crate) struct Explained {
    /// The findings, the most serious first.
    pub findings: Vec<Finding>,
    /// How many failures have no explanation.
    pub unexplained: u64,
    /// Why findings could not be saved.
    pub not_saved: Option<String>,
}

impl<'a> Findings<'a> {
    pub fn new(
        recording: &'a Recording,
        settings: &'a Settings,
        checker: &'a Checker,
        ends: Option<Instant>,
    ) -> Findings<'a> {
        let (explained, causes, kinds) = (Vec::new(), Vec::new(), HashMap::new());
        Findings { recording, settings, checker, explained, causes, kinds, ends }
    }

    /// Explains failures in this order, until [`MOST_EXPLAINED`] are, and first those that lost other kinds of operations than
    /// all before. A run that was interrupted, or whose time is up, explains as many as it has time for, and at least the
    /// first.
    pub fn explain_all(
        mut self,
        failures: &[(Job, Verdict)],
        monitor: &Monitor,
    ) -> Result<Explained, RunError> {
        let bar = monitor.bar("findings", failures.len() as u64);
        let mut until: Option<Instant> = None;
        let mut kinds: Vec<BTreeSet<Rc<str>>> = Vec::new();
        for again in [false, true] {
            for (job, verdict) in failures {
                let is_over = self.ends.is_some_and(|ends| Instant::now() >= ends);
                let goes_on = if again { bar.check() } else { bar.advance(1) };
                if goes_on.is_err() || is_over {
                    until = until.or_else(|| Some(Instant::now() + AFTER_INTERRUPTION));
                }
                let is_late = until.is_some_and(|until| Instant::now() >= until);
                let explained = self.explained.len();
                if explained == MOST_EXPLAINED || (is_late && explained > 0) {
                    break;
                }
                if self.explained.iter().any(|known| known.explains(job)) {
                    continue;
                }
                if !again {
                    let lost = self.kinds_of(&job.lost);
                    if kinds.iter().any(|known| known.is_subset(&lost)) {
                        continue;
                    }
                }
                let lost = self.explain(job, verdict)?;
                kinds.push(self.kinds_of(&lost));
            }
        }
        let unexplained = self.count(failures);
        let (findings, not_saved) = self.by_seriousness();
        Ok(Explained { findings, unexplained, not_saved })
    }

    /// What these operations do, to files of which role.
    fn kinds_of(&mut self, operations: &BTreeSet<usize>) -> BTreeSet<Rc<str>> {
        let kind = |operation: &usize| role(&kind_of(self.recording, *operation)).into();
        let each = operations
            .iter()
            .map(|operation| Rc::clone(self.kinds.entry(*operation).or_insert_with_key(kind)));
        each.collect()
    }

    /// Adds a cause, or a failure to one that has a remedy in common with it. Returns the operations that had to be lost.
    fn explain(&mut self, job: &Job, verdict: &Verdict) -> Result<BTreeSet<usize>, RunError> {
        let losses = &self.settings.losses;
        let known = (losses.sector(), matches!(losses, Losses::Drive(_)));
        let explanation = match &job.kept {
            Some(kept) => explain(self.recording, self.checker, known, job.operations, kept)?,
            None => Explanation::default(),
        };
        let lost = explanation.operations.clone();
        let same = self.causes.iter_mut().position(|cause| cause.takes(&explanation));
        let cause = same.unwrap_or(self.causes.len());
        if same.is_none() {
            self.causes.push(self.cause(job, verdict, explanation));
        }
        self.explained.push(Known { operations: job.operations, lost: lost.clone(), cause });
        Ok(lost)
    }

    fn cause(&self, job: &Job, verdict: &Verdict, explanation: Explanation) -> Cause {
        let recording = self.recording;
        let last = job.operations.checked_sub(1).filter(|last| *last >= recording.begins);
        let finding = Finding {
            after_operations: job.operations - recording.begins,
            last_operation: last.map_or("nothing yet".to_owned(), |last| describe(recording, last)),
            check_ended: verdict.failed.clone().unwrap_or_default(),
            check_said: verdict.said.clone(),
            lost: explanation.lost,
            there: explanation.there,
            saved_by: explanation.saved_by,
            unavoidable: explanation.unavoidable,
            without_loss: explanation.without_loss,
            also: 0,
            saved: None,
        };
        // less may be lost than a drive can lose
        let least = explanation.tree.filter(|_| matches!(self.settings.losses, Losses::Posix(_)));
        let tree = least.unwrap_or_else(|| job.tree.clone());
        Cause { finding, operations: job.operations, tree, outcomes: 0 }
    }

    /// Counts each failure with every cause that explains it: one that lost everything has them all. Returns how many none
    /// explains.
    fn count(&mut self, failures: &[(Job, Verdict)]) -> u64 {
        let mut unexplained = 0;
        for (job, _) in failures {
            let causes: BTreeSet<usize> =
                self.explained.iter().filter(|known| known.explains(job)).map(|known| known.cause).collect();
            unexplained += u64::from(causes.is_empty());
            causes.into_iter().for_each(|cause| self.causes[cause].outcomes += 1);
        }
        unexplained
    }

    /// First what the program does wrong, then what its reader must tolerate; of these first what more outcomes show.
    /// Saves them, if the user wants that.
    /// What was found is not lost because it cannot be saved: the reason is returned.
    fn by_seriousness(mut self) -> (Vec<Finding>, Option<String>) {
        let is_tolerable = |finding: &Finding| finding.saved_by.is_empty() && finding.without_loss.is_none();
        self.causes.sort_by_key(|cause| (is_tolerable(&cause.finding), Reverse(cause.outcomes)));
        let (mut found, mut not_saved) = (Vec::new(), None);
        for (index, cause) in self.causes.into_iter().enumerate() {
            let saved = self.settings.save.as_ref().map(|save| save.join(format!("finding-{}", index + 1)));
            let mut finding = Finding { also: cause.outcomes - 1, saved, ..cause.finding };
            if let Some(folder) = &finding.saved {
                let acks = self.recording.acks_by(cause.operations);
                if let Err(error) = saved_finding::save(folder, &finding, self.checker, &cause.tree, acks) {
                    not_saved = not_saved.or_else(|| Some(error.to_string()));
                    finding.saved = None;
                }
            }
            found.push(finding);
        }
        (found, not_saved)
    }
}

impl Known {
    /// Whether `job` fails for the same reason: it lost at least the same. The empty set is part of every set, so a failure
    /// that needs no loss explains only those at the same place, or all of which is not known what the drive lost.
    fn explains(&self, job: &Job) -> bool {
        let is_same_place = job.kept.is_none() || self.operations == job.operations;
        self.lost.is_subset(&job.lost) && (!self.lost.is_empty() || is_same_place)
    }
}

impl Cause {
    /// Whether this failure has the same cause: one of the syncs that mend it mends all so far, or none mends any, for the same
    /// reason. If so, only the syncs that they have in common stay.
    fn takes(&mut self, explanation: &Explanation) -> bool {
        let finding = &mut self.finding;
        let saved_by = common(&finding.saved_by, &explanation.saved_by);
        if !saved_by.is_empty() {
            finding.saved_by = saved_by;
            return true;
        }
        let is_mended = !finding.saved_by.is_empty() || !explanation.saved_by.is_empty();
        if is_mended || finding.without_loss != explanation.without_loss {
            return false;
        }
        finding.without_loss.is_some()
            || !common(&finding.unavoidable, &explanation.unavoidable).is_empty()
            || (finding.unavoidable.is_empty() && explanation.unavoidable.is_empty())
    }
}

/// The lines that are in both, with the names of the first.
fn common(ours: &[String], theirs: &[String]) -> Vec<String> {
    let theirs: BTreeSet<String> = theirs.iter().map(|line| role(line)).collect();
    ours.iter().filter(|line| theirs.contains(&role(line))).cloned().collect()
}

/// A line about files, with a star for what a program numbers or draws in their names: numbers, and words of eight letters or
/// more with a digit among them. `wal/000017` and `wal/000018` have one role.
fn role(line: &str) -> String {
    let mut role = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|letter: char| letter.is_ascii_alphanumeric() != first.is_ascii_alphanumeric());
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
        if has_digit && word.len() >= 8 {
            role.push('*');
        } else {
            let letters = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
            role.push_str(letters);
            role.push_str(if letters.len() < word.len() { "*" } else { "" });
        }
        rest = after;
    }
    role
}

#[cfg(test)]
mod tests {
    use super::role;

    #[test]
    fn names_that_a_program_numbers_or_draws_have_one_role() {
        assert_eq!(role("fsync wal/000017 after write to wal/000017"), "fsync wal/* after write to wal/*");
        assert_eq!(role("fsync 01JD8Q7ZK5/chunks"), "fsync */chunks");
        assert_eq!(role("fsync tmpab12cd_ä.log2"), "fsync *_ä.log*");
        assert_eq!(role("fsync state.new after write"), "fsync state.new after write");
    }
}
