//! Chooses which of the many possible outcomes of one cut are tried.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::operation::FileNumber;
use crate::posix::{Piece, Posix, What};

/// How many of the last operations, and of the last files, are lost and kept one at a time.
const ALONE: usize = 12;

/// How many of the last writes are torn.
const TORN: usize = 3;

/// How many subsets are random, of operations and of pieces.
const BY_CHANCE: usize = 6;

/// For each waiting piece, whether it survived the cut.
pub(crate) type Kept = Vec<bool>;

/// Sets of surviving pieces: all, none, only names, only contents, all but one operation or file, only one, torn writes, and
/// some random ones. Those that lose the least come first.
pub(crate) fn choices(posix: &Posix, seed: u64) -> Vec<Kept> {
    let waiting = &posix.waiting;
    if waiting.is_empty() {
        return vec![Vec::new()];
    }
    let all = |is_there: &dyn Fn(&Piece) -> bool| waiting.iter().map(is_there).collect::<Kept>();
    let is_name = |piece: &Piece| matches!(piece.what, What::Names(_));
    let is_bytes = |piece: &Piece| matches!(piece.what, What::Bytes { .. });
    let mut chosen = vec![all(&|_| true), all(&|_| false), all(&is_name), all(&|piece| !is_name(piece))];
    chosen.push(all(&|piece| !is_bytes(piece)));
    let operations: BTreeSet<usize> = waiting.iter().map(|piece| piece.operation).collect();
    for &operation in operations.iter().rev().take(ALONE) {
        chosen.push(all(&|piece| piece.operation != operation));
        chosen.push(all(&|piece| piece.operation == operation));
        chosen.push(all(&|piece| piece.operation < operation));
    }
    // files are numbered in the order of their creation
    let files: BTreeSet<FileNumber> = waiting.iter().filter_map(|piece| piece.what.file()).collect();
    for &file in files.iter().rev().take(ALONE) {
        chosen.push(all(&|piece| piece.what.file() != Some(file)));
        chosen.push(all(&|piece| is_name(piece) || piece.what.file() == Some(file)));
    }
    torn(waiting, &operations, &mut chosen);
    ended_early(waiting, &operations, &mut chosen);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..BY_CHANCE {
        let lost: BTreeSet<usize> = operations.iter().copied().filter(|_| random.random_bool(0.4)).collect();
        let by_operation = all(&|piece| !lost.contains(&piece.operation));
        chosen.push(by_operation);
        chosen.push(waiting.iter().map(|_| random.random_bool(0.5)).collect());
    }
    let earlier = posix.earlier();
    chosen.iter_mut().for_each(|kept| close(kept, &earlier));
    let mut seen = BTreeSet::new();
    chosen.retain(|kept| seen.insert(kept.clone()));
    // the first of several equal outcomes is checked, and the one that lost the least explains the most
    chosen.sort_by_key(|kept| kept.iter().filter(|is_there| !**is_there).count());
    chosen
}

/// Sets of which all that came before some operation survived, as a file system loses that writes in order.
pub(crate) fn in_order(posix: &Posix) -> impl Iterator<Item = Kept> {
    let operations: BTreeSet<usize> = posix.waiting.iter().map(|piece| piece.operation).collect();
    let before = |end| posix.waiting.iter().map(|piece| piece.operation < end).collect();
    operations.into_iter().rev().map(before)
}

/// Adds the pieces that must have survived because a later one in the same sector did.
pub(crate) fn close(kept: &mut Kept, earlier: &[Option<usize>]) {
    for index in (0..kept.len()).rev() {
        if let (true, Some(before)) = (kept[index], earlier[index]) {
            kept[before] = true;
        }
    }
}

/// Adds torn versions of the last writes of several sectors, and of holes of several pages: they lose the first
/// part, everything else, either half, or the last part.
fn torn(waiting: &[Piece], operations: &BTreeSet<usize>, chosen: &mut Vec<Kept>) {
    let sectors = |operation: usize| -> Vec<usize> {
        let pieces = waiting.iter().enumerate();
        pieces
            .filter(|(_, piece)| piece.operation == operation)
            .filter(|(_, piece)| matches!(piece.what, What::Bytes { .. } | What::Zeros { .. }))
            .map(|(index, _)| index)
            .collect()
    };
    let large =
        operations.iter().rev().map(|operation| sectors(*operation)).filter(|sectors| sectors.len() > 1);
    for sectors in large.take(TORN) {
        let half = sectors.len() / 2;
        for lost in
            [&sectors[1..], &sectors[..1], &sectors[half..], &sectors[..half], &sectors[sectors.len() - 1..]]
        {
            let lost: BTreeSet<usize> = lost.iter().copied().collect();
            chosen.push((0..waiting.len()).map(|index| !lost.contains(&index)).collect());
        }
    }
}

/// Adds versions of the last writes that grew a file by several pages, cut off before the last of them.
fn ended_early(waiting: &[Piece], operations: &BTreeSet<usize>, chosen: &mut Vec<Kept>) {
    let sizes = |operation: usize| -> Vec<u64> {
        let of_operation = waiting.iter().filter(|piece| piece.operation == operation);
        of_operation.filter_map(|piece| piece.what.grown_to()).collect()
    };
    let grown = operations.iter().rev().map(|operation| (*operation, sizes(*operation)));
    for (operation, sizes) in grown.filter(|(_, sizes)| sizes.len() > 1).take(TORN) {
        for end in [sizes[0], sizes[sizes.len() / 2 - 1], sizes[sizes.len() - 2]] {
            let is_there = |piece: &Piece| piece.operation != operation || piece.what.end() <= end;
            chosen.push(waiting.iter().map(is_there).collect());
        }
    }
}
