//! Entries in order of time, the first of which are forgotten as time passes.

use std::ops::{Deref, DerefMut};

/// At least this much room stays in front.
const MIN_ROOM: usize = 16;

/// Entries in order of time, in one piece of memory for fast search. Most are inserted near the front, so there is room
/// in front.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<T> {
    entries: Vec<T>,
    /// Entries before this one are forgotten.
    first: usize,
}

impl<T> Default for Timeline<T> {
    fn default() -> Timeline<T> {
        Timeline { entries: Vec::new(), first: 0 }
    }
}

impl<T> Deref for Timeline<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.entries[self.first..]
    }
}

impl<T> DerefMut for Timeline<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.entries[self.first..]
    }
}

impl<T: Copy> Timeline<T> {
    #[inline]
    pub fn push(&mut self, entry: T) {
        self.entries.push(entry);
    }

    /// If there is room in front, moves the entries before it or after it, whichever are fewer.
    #[inline]
    pub fn insert(&mut self, index: usize, entry: T) {
        debug_assert!(index <= self.len(), "an entry is inserted at {index} of {}", self.len());
        if self.first == 0 || index > self.len() / 2 {
            return self.entries.insert(self.first + index, entry);
        }
        let before = self.first..self.first + index;
        self.first -= 1;
        self.entries.copy_within(before, self.first);
        self.entries[self.first + index] = entry;
    }

    pub fn remove(&mut self, index: usize) {
        self.entries.remove(self.first + index);
    }

    /// Forgets the first entry. There must be one.
    #[inline]
    pub fn forget_first(&mut self) {
        self.first += 1;
        assert!(self.first <= self.entries.len(), "there is no entry to forget");
        if self.first > MIN_ROOM && 2 * self.first > self.entries.len() {
            self.give_room_back();
        }
    }

    /// Gives back half of the room in front. While the number of entries is constant, that moves three of them for each
    /// one forgotten.
    #[inline(never)]
    fn give_room_back(&mut self) {
        let room = self.first / 2;
        self.entries.drain(..room);
        self.first -= room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_not_found_and_the_rest_stays_in_order() {
        let mut line = Timeline::default();
        (0..100).for_each(|number| line.push(number));
        for forgotten in 1..=90 {
            line.forget_first();
            assert_eq!((line[0], line.len()), (forgotten, 100 - forgotten));
        }
        line.insert(1, 200);
        line.remove(0);
        line[2] = 7;
        assert_eq!(*line, [200, 91, 7, 93, 94, 95, 96, 97, 98, 99]);
        for number in 300..400 {
            line.insert(number % 3, number);
        }
        assert_eq!((line.len(), &line[..3]), (110, &[399, 396, 397][..]));
        (0..110).for_each(|_| line.forget_first());
        assert_eq!(line.len(), 0);
    }
}
