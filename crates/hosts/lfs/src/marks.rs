//! Numbers that are marked: looked up at once, and taken in order.

use std::collections::BTreeSet;

/// Some of the numbers below a bound.
#[derive(Clone, Debug)]
pub(crate) struct Marks {
    is_marked: Vec<bool>,
    /// The marked numbers in order.
    marked: BTreeSet<u32>,
}

impl Marks {
    /// None of the numbers below `bound`.
    pub fn new(bound: u32) -> Marks {
        Marks { is_marked: vec![false; bound as usize], marked: BTreeSet::new() }
    }

    pub fn contains(&self, number: u32) -> bool {
        self.is_marked.get(number as usize) == Some(&true)
    }

    /// Marks a number; false if it was already.
    pub fn insert(&mut self, number: u32) -> bool {
        let is_new = !std::mem::replace(&mut self.is_marked[number as usize], true);
        let is_inserted = is_new && self.marked.insert(number);
        debug_assert_eq!(is_new, is_inserted, "number {number} was marked in one of the two places");
        is_new
    }

    pub fn remove(&mut self, number: u32) {
        let was_marked = std::mem::replace(&mut self.is_marked[number as usize], false);
        let is_removed = self.marked.remove(&number);
        debug_assert_eq!(was_marked, is_removed, "number {number} was marked in one of the two places");
    }

    /// The least number that is marked.
    pub fn first(&self) -> Option<u32> {
        self.marked.first().copied()
    }

    pub fn len(&self) -> usize {
        self.marked.len()
    }

    /// All of them, in order; none is marked any more.
    pub fn take(&mut self) -> BTreeSet<u32> {
        self.marked.iter().for_each(|number| self.is_marked[*number as usize] = false);
        debug_assert!(!self.is_marked.contains(&true), "a number stays marked beside {:?}", self.marked);
        std::mem::take(&mut self.marked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_marked_until_it_is_removed_or_taken() {
        let mut marks = Marks::new(9);
        assert!(marks.insert(7) && marks.insert(3) && marks.insert(8) && !marks.insert(7));
        marks.remove(8);
        assert_eq!((marks.first(), marks.len()), (Some(3), 2));
        assert_eq!([3, 7, 8, 9].map(|number| marks.contains(number)), [true, true, false, false]);
        assert_eq!(marks.take(), BTreeSet::from([3, 7]));
        assert!(!marks.contains(3) && marks.len() == 0 && marks.insert(3));
    }
}
