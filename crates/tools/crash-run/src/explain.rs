//! Reduces a failed check to what must be lost for it to fail, and describes that in the program's terms.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Checker;
use crate::choices::{Kept, close};
use crate::error::RunError;
use crate::finding::WithoutLoss;
use crate::operation::Recording;
use crate::paths::Paths;
use crate::posix::{Posix, What};
use crate::remedies::{Cut, Remedies, remedies, sync_of, without_loss};
use crate::sector::Sector;
use crate::tree::Tree;

/// The maximum number of lines about operations that survived although they came later.
const MOST_LINES: usize = 6;

/// Why a check fails.
#[derive(Default)]
pub(crate) struct Explanation {
    pub lost: Vec<String>,
    pub there: Vec<String>,
    pub saved_by: Vec<String>,
    pub unavoidable: Vec<String>,
    pub without_loss: Option<WithoutLoss>,
    /// Which operations had to be lost, in whole or in part.
    pub operations: BTreeSet<usize>,
    /// The files that fail the check with the least lost.
    pub tree: Option<Tree>,
}

/// Explains what is lost after this many operations. What a drive lost is known only as far as it can be seen, and its next cut
/// may lose more: then only remedies are named that help whatever of it is lost.
pub(crate) fn explain(
    recording: &Recording,
    checker: &Checker,
    (sector, by_drive): (Sector, bool),
    operations: usize,
    survived: &Kept,
) -> Result<Explanation, RunError> {
    let posix = Posix::after(recording, operations, sector, &[]);
    let cut = Cut { recording, checker, operations, posix: &posix };
    let kept = reduce(&posix, survived.clone(), &|kept| cut.fails(&posix.tree(|index| kept[index])))?;
    let mut found = remedies(&cut, &kept)?;
    if kept.iter().all(|kept| *kept) {
        found.without_loss = without_loss(&cut, operations)?;
    }
    let mut shown = kept.clone();
    if by_drive
        && found.without_loss.is_none()
        && (found.unavoidable.is_empty() || !found.saved_by.is_empty())
    {
        let syncs = cut.syncs_for_all(survived)?;
        found.saved_by = cut.in_words(&syncs);
        // what the other syncs are for was lost as well
        let is_named =
            |index: &usize| syncs.iter().flatten().any(|(_, sync)| *sync == sync_of(&posix.waiting[*index]));
        (0..shown.len())
            .filter(|index| !survived[*index])
            .filter(is_named)
            .for_each(|index| shown[index] = false);
    }
    let Remedies { saved_by, unavoidable, without_loss } = found;
    let survivors = if by_drive { survived } else { &kept };
    Ok(Explanation {
        without_loss,
        lost: lost_of(recording, &posix, &shown),
        there: there_of(recording, &posix, &shown, survivors),
        saved_by,
        unavoidable,
        operations: posix.lost_operations(&shown),
        tree: Some(posix.tree(|index| kept[index])),
    })
}

/// What survived although it came after the first operation that was lost, the last first. Nobody finds what was written to a
/// file whose name is lost.
fn there_of(recording: &Recording, posix: &Posix, shown: &Kept, survivors: &Kept) -> Vec<String> {
    let names = posix.lost_operations(shown);
    let unseen = posix.unseen(survivors);
    let later: BTreeSet<usize> = posix
        .waiting
        .iter()
        .enumerate()
        .filter(|(index, piece)| {
            survivors[*index]
                && !unseen.contains(index)
                && Some(piece.operation) >= names.first().copied()
                && !names.contains(&piece.operation)
        })
        .map(|(_, piece)| piece.operation)
        .collect();
    later.iter().rev().take(MOST_LINES).map(|operation| describe(recording, *operation)).collect()
}

/// Keeps as much as possible while the check still fails: whole operations first, then single pieces.
fn reduce(
    posix: &Posix,
    mut kept: Kept,
    fails: &impl Fn(&Kept) -> Result<bool, RunError>,
) -> Result<Kept, RunError> {
    let earlier = posix.earlier();
    let mut operations: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for index in (0..kept.len()).filter(|index| !kept[*index]) {
        operations.entry(posix.waiting[index].operation).or_default().push(index);
    }
    let groups: Vec<Vec<usize>> = operations.into_values().collect();
    restore(&mut kept, &groups, &earlier, fails)?;
    let single: Vec<Vec<usize>> =
        (0..kept.len()).filter(|index| !kept[*index]).map(|index| vec![index]).collect();
    restore(&mut kept, &single, &earlier, fails)?;
    Ok(kept)
}

/// Keeps all of these groups if the check still fails with them, and otherwise as much of each half as possible.
fn restore(
    kept: &mut Kept,
    groups: &[Vec<usize>],
    earlier: &[Option<usize>],
    fails: &impl Fn(&Kept) -> Result<bool, RunError>,
) -> Result<(), RunError> {
    if groups.iter().flatten().all(|index| kept[*index]) {
        return Ok(());
    }
    let mut more = kept.clone();
    groups.iter().flatten().for_each(|index| more[*index] = true);
    close(&mut more, earlier);
    if fails(&more)? {
        *kept = more;
    } else if groups.len() > 1 {
        let (first, second) = groups.split_at(groups.len() / 2);
        restore(kept, first, earlier, fails)?;
        restore(kept, second, earlier, fails)?;
    }
    Ok(())
}

/// What was lost, a line for each operation.
fn lost_of(recording: &Recording, posix: &Posix, kept: &Kept) -> Vec<String> {
    let lost = |index: &usize| !kept[*index];
    let operations = posix.lost_operations(kept);
    let line = |operation: &usize| {
        let pieces = (0..kept.len()).filter(|index| posix.waiting[*index].operation == *operation);
        let (gone, there): (Vec<usize>, Vec<usize>) = pieces.partition(lost);
        let which = match &posix.waiting[gone[0]].what {
            _ if there.is_empty() => String::new(),
            What::Grown(..) => ": the new size".to_owned(),
            What::Bytes { from, .. } => format!(": bytes from {from} on, in part"),
            _ => ": in part".to_owned(),
        };
        format!("{}{which}", describe(recording, *operation))
    };
    operations.iter().map(line).collect()
}

/// An operation of the program, with its number from 1.
pub(crate) fn describe(recording: &Recording, operation: usize) -> String {
    let text = Paths::after(recording, operation).operation(&recording.operations[operation]);
    format!("{}. {text}", number(recording, operation))
}

fn number(recording: &Recording, operation: usize) -> usize {
    operation + 1 - recording.begins.min(operation + 1)
}
