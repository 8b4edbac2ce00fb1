//! Reduces a failed check to what must be lost for it to fail, and describes that in the program's terms.

use std::collections::{BTreeMap, BTreeSet};

use crate::check::Checker;
use crate::choices::{Kept, close};
use crate::error::RunError;
use crate::finding::WithoutLoss;
use crate::operation::{Operation, ROOT, Recording};
use crate::paths::Paths;
use crate::posix::{Posix, What};
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

pub(crate) fn explain(
    recording: &Recording,
    checker: &Checker,
    sector: Sector,
    operations: usize,
    kept: &Kept,
) -> Result<Explanation, RunError> {
    let posix = Posix::after(recording, operations, sector, None);
    let acks = recording.acks_by(operations);
    let fails = |kept: &Kept| -> Result<bool, RunError> {
        Ok(checker.run(&posix.tree(|index| kept[index]), acks, 0)?.failed.is_some())
    };
    let kept = reduce(&posix, kept.clone(), &fails)?;
    let lost: Vec<usize> = (0..kept.len()).filter(|index| !kept[*index]).collect();
    let first = lost.first().map(|index| posix.waiting[*index].operation);
    let names = posix.lost_operations(&kept);
    let later: BTreeSet<usize> = posix
        .waiting
        .iter()
        .enumerate()
        .filter(|(index, piece)| {
            kept[*index] && Some(piece.operation) >= first && !names.contains(&piece.operation)
        })
        .map(|(_, piece)| piece.operation)
        .collect();
    let mut remedies = remedies(recording, checker, operations, &posix, &kept)?;
    if lost.is_empty() {
        remedies.without_loss = without_loss(recording, checker, sector, operations)?;
    }
    let Remedies { saved_by, unavoidable, without_loss } = remedies;
    Ok(Explanation {
        without_loss,
        lost: lost_of(recording, &posix, &kept),
        there: later.iter().rev().take(MOST_LINES).map(|operation| describe(recording, *operation)).collect(),
        saved_by,
        unavoidable,
        operations: names,
        tree: Some(posix.tree(|index| kept[index])),
    })
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

/// What would make a check pass.
#[derive(Default)]
struct Remedies {
    /// Syncs, each of which would.
    saved_by: Vec<String>,
    /// Operations that no sync protects, because the check fails also if power fails before a sync could follow.
    unavoidable: Vec<String>,
    /// Why the check fails although nothing is lost, when the first of what was lost is to be written.
    without_loss: Option<WithoutLoss>,
}

/// Why the check fails after this many operations, although everything is there; none if it passes.
fn without_loss(
    recording: &Recording,
    checker: &Checker,
    sector: Sector,
    operations: usize,
) -> Result<Option<WithoutLoss>, RunError> {
    let tree = Posix::after(recording, operations, sector, None).tree(|_| true);
    let fails = |acks| -> Result<bool, RunError> { Ok(checker.run(&tree, acks, 0)?.failed.is_some()) };
    Ok(match fails(recording.acks_by(operations))? {
        false => None,
        true if fails(&[])? => Some(WithoutLoss::Between),
        true => Some(WithoutLoss::Acknowledged),
    })
}

/// Tries a sync of each file and folder that had to lose something, right after the last such operation.
fn remedies(
    recording: &Recording,
    checker: &Checker,
    operations: usize,
    posix: &Posix,
    kept: &Kept,
) -> Result<Remedies, RunError> {
    let mut tried = Vec::new();
    for (index, piece) in posix.waiting.iter().enumerate().filter(|(index, _)| !kept[*index]) {
        let sync = match &piece.what {
            What::Names(names) => Operation::SyncFolder(names.last().map_or(ROOT, |(entry, _)| entry.folder)),
            other => Operation::Sync(other.file().expect("it is of a file")),
        };
        let last = (index..kept.len())
            .filter(|index| !kept[*index])
            .map(|index| &posix.waiting[index])
            .filter(|other| other.what.file() == piece.what.file())
            .map(|other| other.operation)
            .max();
        let last = last.expect("it is one of them");
        if !tried.contains(&(last, sync.clone())) {
            tried.push((last, sync));
        }
    }
    let lost: BTreeSet<(usize, String)> =
        (0..kept.len()).filter(|index| !kept[*index]).map(|index| key(&posix.waiting[index])).collect();
    let mut remedies = Remedies::default();
    for (after, sync) in tried {
        let before = kind_of(recording, after);
        let at_once = Posix::after(recording, after + 1, posix.sector(), None);
        let tree = at_once.tree(|index| !lost.contains(&key(&at_once.waiting[index])));
        if checker.run(&tree, recording.acks_by(after), 0)?.failed.is_some() {
            match without_loss(recording, checker, posix.sector(), after)? {
                None => remedies.unavoidable.push(before),
                why => remedies.without_loss = remedies.without_loss.or(why),
            }
            continue;
        }
        let synced = Posix::after(recording, operations, posix.sector(), Some((after, &sync)));
        let tree = synced.tree(|index| !lost.contains(&key(&synced.waiting[index])));
        if checker.run(&tree, recording.acks_by(operations), 0)?.failed.is_none() {
            let sync = Paths::after(recording, after + 1).operation(&sync);
            remedies.saved_by.push(format!("{sync} after {before}"));
        }
    }
    Ok(remedies)
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

fn key(piece: &crate::posix::Piece) -> (usize, String) {
    let place = match &piece.what {
        What::Bytes { from, .. } => format!("bytes {from}"),
        What::Names(_) => "names".to_owned(),
        What::Grown(_, size) => format!("grown {size}"),
        _ => "other".to_owned(),
    };
    (piece.operation, place)
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
