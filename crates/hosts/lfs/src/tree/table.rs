//! A table in the log: where the unit of each virtual number is, and how much of each segment is live. Its units are
//! named by their places, so a change propagates up to the super root, but everything else can move without such
//! changes.
//!
//! Two levels below the super root: branches with pointers to leaves, and leaves with entries of three words. A leaf that
//! was never written is all zeros, and its place is 0. Layout of both: checksum, number (4 each), then the words. Leaves
//! are numbered from 0, and branches after them.

use tantalum::{Lpn, UNIT_BYTES};

use super::partial_segment::PartialSegment;
use super::summary::What;
use crate::bytes::{Page, get32, put32, seal, verify, zeros};
use crate::error::{Damage, LfsError, Result};
use crate::marks::Marks;
use crate::segments::Log;

const HEADER_BYTES: usize = 8;
const WORDS: usize = 3;

/// Entries of a leaf.
pub(super) const LEAF_ENTRIES: u32 = ((UNIT_BYTES - HEADER_BYTES) / (4 * WORDS)) as u32;

/// Leaves to which a branch points.
pub(super) const BRANCH_POINTERS: u32 = ((UNIT_BYTES - HEADER_BYTES) / 4) as u32;

/// Number of leaves in memory beyond which unchanged ones are dropped from time to time.
const MOST_LEAVES: usize = 16 << 10;

/// An entry.
pub(super) type Words = [u32; WORDS];

/// The table.
#[derive(Debug)]
pub(super) struct Table {
    leaves: Vec<Option<Box<Page>>>,
    /// Where leaves and branches are.
    places: Vec<u32>,
    /// Leaves and branches that differ from what the drive holds.
    changed: Marks,
    in_memory: usize,
}

impl Table {
    /// An empty table.
    pub fn new(leaves: u32, branches: u32) -> Table {
        Table {
            leaves: vec![None; leaves as usize],
            places: vec![0; (leaves + branches) as usize],
            changed: Marks::new(leaves + branches),
            in_memory: 0,
        }
    }

    /// The table whose branches are at `branches`.
    pub fn load(&mut self, log: &mut Log, branches: &[u32]) -> Result<()> {
        for (number, place) in (self.leaves.len() as u32..).zip(branches) {
            if *place == 0 {
                continue;
            }
            self.places[number as usize] = *place;
            log.segments.add_apart(Lpn(*place))?;
            let page = read(log, Lpn(*place), number)?;
            let first = (number - self.leaves.len() as u32) * BRANCH_POINTERS;
            for (leaf, index) in (first..self.leaves.len() as u32).zip(0..BRANCH_POINTERS) {
                let place = get32(&page[..], HEADER_BYTES + 4 * index as usize);
                self.places[leaf as usize] = place;
                if place != 0 {
                    log.segments.add_apart(Lpn(place))?;
                }
            }
        }
        Ok(())
    }

    /// Places of all branches.
    pub fn branches(&self) -> &[u32] {
        &self.places[self.leaves.len()..]
    }

    /// Places of all units that the drive holds.
    pub fn places(&self) -> impl Iterator<Item = Lpn> {
        self.places.iter().filter(|place| **place != 0).map(|place| Lpn(*place))
    }

    pub fn is_at(&self, number: u32, lpn: Lpn) -> bool {
        self.places.get(number as usize) == Some(&lpn.0)
    }

    pub fn is_changed(&self, number: u32) -> bool {
        self.changed.contains(number)
    }

    pub fn changed_count(&self) -> usize {
        self.changed.len()
    }

    fn leaf(&mut self, log: &mut Log, number: u32) -> Result<&mut Box<Page>> {
        let entry = &mut self.leaves[number as usize];
        if entry.is_none() {
            let page = match self.places[number as usize] {
                0 => zeros(),
                place => read(log, Lpn(place), number)?,
            };
            *entry = Some(page);
            self.in_memory += 1;
        }
        Ok(entry.as_mut().expect("it is loaded"))
    }

    /// An entry.
    pub fn get(&mut self, log: &mut Log, entry: u32) -> Result<Words> {
        let page = self.leaf(log, entry / LEAF_ENTRIES)?;
        let at = position(entry);
        Ok(std::array::from_fn(|word| get32(&page[..], at + 4 * word)))
    }

    /// Changes an entry.
    pub fn set(&mut self, log: &mut Log, entry: u32, words: Words) -> Result<()> {
        let number = entry / LEAF_ENTRIES;
        let page = self.leaf(log, number)?;
        let at = position(entry);
        if (0..WORDS).all(|word| get32(&page[..], at + 4 * word) == words[word]) {
            return Ok(());
        }
        (0..WORDS).for_each(|word| put32(&mut page[..], at + 4 * word, words[word]));
        self.mark_changed(number);
        Ok(())
    }

    fn mark_changed(&mut self, number: u32) {
        if self.changed.insert(number) {
            self.mark_branch_of(number);
        }
    }

    fn mark_branch_of(&mut self, number: u32) {
        if let Some(branch) = self.branch_of(number) {
            self.changed.insert(branch);
        }
    }

    fn branch_of(&self, number: u32) -> Option<u32> {
        let leaves = self.leaves.len() as u32;
        (number < leaves).then(|| leaves + number / BRANCH_POINTERS)
    }

    /// Marks a unit of the table for rewriting.
    pub fn rewrite(&mut self, log: &mut Log, number: u32) -> Result<()> {
        if (number as usize) < self.leaves.len() {
            self.leaf(log, number)?;
        }
        self.mark_changed(number);
        Ok(())
    }

    /// A unit of the table is now elsewhere.
    pub fn moved(&mut self, log: &mut Log, number: u32, to: Lpn) -> Result<()> {
        log.segments.add_apart(to)?;
        let old = std::mem::replace(&mut self.places[number as usize], to.0);
        if old != 0 {
            log.segments.release_apart(Lpn(old))?;
        }
        self.mark_branch_of(number);
        Ok(())
    }

    /// Appends what changed: leaves, then the branches above them.
    pub fn store(&mut self, log: &mut Log, partial: &mut PartialSegment) -> Result<()> {
        while let Some(number) = self.changed.first() {
            let mut branch;
            let page = if (number as usize) < self.leaves.len() {
                self.leaves[number as usize].as_mut().expect("a changed leaf is loaded")
            } else {
                branch = self.branch(number);
                &mut branch
            };
            put32(&mut page[..], 4, number);
            seal(&mut page[..]);
            let lpn = partial.append(log, What::Table(number), page)?;
            self.moved(log, number, lpn)?;
            let branch = self.branch_of(number);
            assert!(
                branch.is_none_or(|branch| self.changed.contains(branch)),
                "leaf {number} was written to {lpn}, but its branch {branch:?} keeps the old place"
            );
            self.changed.remove(number);
        }
        Ok(())
    }

    fn branch(&self, number: u32) -> Box<Page> {
        let mut page = zeros();
        let first = (number as usize - self.leaves.len()) * BRANCH_POINTERS as usize;
        let end = self.leaves.len().min(first + BRANCH_POINTERS as usize);
        for (index, place) in self.places[first..end].iter().enumerate() {
            put32(&mut page[..], HEADER_BYTES + 4 * index, *place);
        }
        page
    }

    /// Bounds memory: if there are too many leaves, unchanged ones are dropped.
    pub fn forget_some(&mut self) {
        debug_assert_eq!(
            self.in_memory,
            self.leaves.iter().flatten().count(),
            "the table counts other leaves than it has in memory"
        );
        if self.in_memory > MOST_LEAVES {
            let changed = &self.changed;
            let unchanged = (0..).zip(&mut self.leaves).filter(|(number, _)| !changed.contains(*number));
            unchanged.for_each(|(_, leaf)| *leaf = None);
            self.in_memory = self.leaves.iter().flatten().count();
        }
    }
}

fn position(entry: u32) -> usize {
    HEADER_BYTES + (entry % LEAF_ENTRIES) as usize * 4 * WORDS
}

fn read(log: &mut Log, lpn: Lpn, number: u32) -> Result<Box<Page>> {
    let damaged = |damage| LfsError::Damaged { lpn, damage };
    if log.segments.find(lpn).is_none() {
        return Err(damaged(Damage::NotA { expected: "a unit of the log" }));
    }
    let mut page = zeros();
    log.read(lpn, &mut page[..])?;
    verify(&page[..]).map_err(damaged)?;
    match get32(&page[..], 4) == number {
        true => Ok(page),
        false => Err(damaged(Damage::NotA { expected: "a unit of the table" })),
    }
}
