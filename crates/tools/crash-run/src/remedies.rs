//! Which syncs make a check pass that fails after a power cut.

use std::collections::BTreeSet;

use crate::check::Checker;
use crate::choices::Kept;
use crate::error::RunError;
use crate::finding::WithoutLoss;
use crate::operation::{Operation, ROOT, Recording};
use crate::paths::Paths;
use crate::posix::{Piece, Posix, What};
use crate::tree::Tree;

/// A sync, and the operation that it follows.
pub(crate) type Added = (usize, Operation);

/// A power cut after which the check fails.
#[derive(Clone, Copy)]
pub(crate) struct Cut<'a> {
    pub recording: &'a Recording,
    pub checker: &'a Checker,
    /// How many operations were done.
    pub operations: usize,
    /// What waits then.
    pub posix: &'a Posix,
}

/// What would make a check pass.
#[derive(Default)]
pub(crate) struct Remedies {
    /// Syncs, each of which would.
    pub saved_by: Vec<String>,
    /// Operations that no sync protects, because the check fails also if power fails before a sync could follow.
    pub unavoidable: Vec<String>,
    /// Why the check fails although nothing is lost, when the first of what was lost is to be written.
    pub without_loss: Option<WithoutLoss>,
}

/// Why the check fails after this many operations, although everything is there; none if it passes.
pub(crate) fn without_loss(cut: &Cut<'_>, operations: usize) -> Result<Option<WithoutLoss>, RunError> {
    let Cut { recording, checker, posix, .. } = *cut;
    let tree = Posix::after(recording, operations, posix.sector(), &[]).tree(|_| true);
    let fails = |acks| -> Result<bool, RunError> { Ok(checker.run(&tree, acks, 0)?.failed.is_some()) };
    Ok(match fails(recording.acks_by(operations))? {
        false => None,
        true if fails(&[])? => Some(WithoutLoss::Between),
        true => Some(WithoutLoss::Acknowledged),
    })
}

/// Tries a sync of each file and folder that had to lose something, right after the last such operation.
pub(crate) fn remedies(cut: &Cut<'_>, kept: &Kept) -> Result<Remedies, RunError> {
    let Cut { recording, checker, posix, .. } = *cut;
    let lost = lost_of(posix, kept);
    let mut remedies = Remedies::default();
    for added in syncs_of(posix, kept) {
        let after = added.0;
        let at_once = Posix::after(recording, after + 1, posix.sector(), &[]);
        let tree = at_once.tree(|index| !lost.contains(&key(&at_once.waiting[index])));
        if checker.run(&tree, recording.acks_by(after), 0)?.failed.is_some() {
            match without_loss(cut, after)? {
                None => remedies.unavoidable.push(kind_of(recording, after)),
                why => remedies.without_loss = remedies.without_loss.or(why),
            }
        } else if cut.passes_with(std::slice::from_ref(&added), &lost)? {
            remedies.saved_by.push(cut.sync_in_words(&added));
        }
    }
    Ok(remedies)
}

impl Cut<'_> {
    /// Whether the check fails on these files.
    pub fn fails(&self, tree: &Tree) -> Result<bool, RunError> {
        Ok(self.checker.run(tree, self.recording.acks_by(self.operations), 0)?.failed.is_some())
    }

    /// Whether it passes if the program also has these syncs, and the same is lost of what they leave.
    fn passes_with(&self, syncs: &[Added], lost: &Lost) -> Result<bool, RunError> {
        let synced = Posix::after(self.recording, self.operations, self.posix.sector(), syncs);
        Ok(!self.fails(&synced.tree(|index| !lost.contains(&key(&synced.waiting[index]))))?)
    }

    /// Whether it also passes if everything is lost that they leave.
    fn protects(&self, syncs: &[Added], lost: &Lost, all: bool) -> Result<bool, RunError> {
        if !self.passes_with(syncs, lost)? {
            return Ok(false);
        }
        let synced = Posix::after(self.recording, self.operations, self.posix.sector(), syncs);
        Ok(!all || !self.fails(&synced.durable)?)
    }

    /// The syncs that make the check pass after this cut and, if there are such, also if everything is lost that is not synced:
    /// each alone, or if none does, some of them together.
    pub fn syncs_for_all(&self, survived: &Kept) -> Result<Vec<Vec<Added>>, RunError> {
        let lost = lost_of(self.posix, survived);
        let everything = vec![false; survived.len()];
        for (candidates, all) in
            [(syncs_of(self.posix, &everything), true), (syncs_of(self.posix, survived), false)]
        {
            if !self.protects(&candidates, &lost, all)? {
                continue;
            }
            let mut alone = Vec::new();
            for added in syncs_of(self.posix, survived) {
                if self.protects(std::slice::from_ref(&added), &lost, all)? {
                    alone.push(vec![added]);
                }
            }
            if !alone.is_empty() {
                return Ok(alone);
            }
            let mut needed = vec![true; candidates.len()];
            let chosen = |needed: &[bool]| -> Vec<Added> {
                candidates
                    .iter()
                    .zip(needed)
                    .filter(|(_, needed)| **needed)
                    .map(|(added, _)| added.clone())
                    .collect()
            };
            let suffices = |needed: &[bool]| self.protects(&chosen(needed), &lost, all);
            leave_out(&mut needed, (0, candidates.len()), &suffices)?;
            return Ok(vec![chosen(&needed)]);
        }
        Ok(Vec::new())
    }

    /// A line for each set of syncs.
    pub fn in_words(&self, sets: &[Vec<Added>]) -> Vec<String> {
        let line = |set: &Vec<Added>| {
            let words: Vec<String> = set.iter().map(|added| self.sync_in_words(added)).collect();
            words.join(", and ")
        };
        sets.iter().map(line).collect()
    }

    fn sync_in_words(&self, (after, sync): &Added) -> String {
        let words = Paths::after(self.recording, after + 1).operation(sync);
        format!("{words} after {}", kind_of(self.recording, *after))
    }
}

/// Leaves out all of a range if the rest suffices, and otherwise as much of each half as possible.
fn leave_out(
    needed: &mut Vec<bool>,
    (from, to): (usize, usize),
    suffices: &impl Fn(&[bool]) -> Result<bool, RunError>,
) -> Result<(), RunError> {
    let mut fewer = needed.clone();
    fewer[from..to].fill(false);
    if suffices(&fewer)? {
        *needed = fewer;
    } else if to - from > 1 {
        let middle = from + (to - from) / 2;
        leave_out(needed, (from, middle), suffices)?;
        leave_out(needed, (middle, to), suffices)?;
    }
    Ok(())
}

/// The sync that makes a piece durable.
pub(crate) fn sync_of(piece: &Piece) -> Operation {
    match &piece.what {
        What::Names(names) => Operation::SyncFolder(names.last().map_or(ROOT, |(entry, _)| entry.folder)),
        other => Operation::Sync(other.file().expect("it is of a file")),
    }
}

/// A sync of each file and folder that lost something, right after the last such operation.
fn syncs_of(posix: &Posix, kept: &Kept) -> Vec<Added> {
    let mut syncs: Vec<Added> = Vec::new();
    for (_, piece) in posix.waiting.iter().enumerate().filter(|(index, _)| !kept[*index]) {
        let sync = sync_of(piece);
        match syncs.iter_mut().find(|(_, known)| *known == sync) {
            Some((after, _)) => *after = piece.operation.max(*after),
            None => syncs.push((piece.operation, sync)),
        }
    }
    syncs
}

/// What an operation does, and to which file, as in remedies.
pub(crate) fn kind_of(recording: &Recording, operation: usize) -> String {
    generic(&Paths::after(recording, operation).operation(&recording.operations[operation]))
}

/// An operation without its numbers, so that all rounds of a loop read the same.
fn generic(text: &str) -> String {
    let words = text.split(' ').filter(|word| !word.bytes().all(|byte| byte.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ").replace("bytes at of", "to")
}

/// Pieces of operations, whatever else waits.
type Lost = BTreeSet<(usize, String)>;

fn lost_of(posix: &Posix, kept: &Kept) -> Lost {
    (0..kept.len()).filter(|index| !kept[*index]).map(|index| key(&posix.waiting[index])).collect()
}

fn key(piece: &Piece) -> (usize, String) {
    let place = match &piece.what {
        What::Bytes { from, .. } => format!("bytes {from}"),
        What::Names(_) => "names".to_owned(),
        What::Grown(_, size) => format!("grown {size}"),
        _ => "other".to_owned(),
    };
    (piece.operation, place)
}
