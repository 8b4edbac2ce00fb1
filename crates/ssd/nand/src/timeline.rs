//! Entries in order of time, the first of which are forgotten as time passes.

use tantalum_image::Nanoseconds;

/// At least this much room stays in front.
const MIN_ROOM: usize = 16;

/// Entries that follow each other in time. When each ends is kept apart from the rest of it, so that a search reads few
/// cache lines. Most entries are inserted near the front, so there is room in front.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<T> {
    ends_ns: Vec<Nanoseconds>,
    entries: Vec<T>,
    /// Entries before this one are forgotten.
    first: usize,
}

impl<T> Default for Timeline<T> {
    fn default() -> Timeline<T> {
        Timeline { ends_ns: Vec::new(), entries: Vec::new(), first: 0 }
    }
}

impl<T> Timeline<T> {
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len() - self.first
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// When each entry ends.
    #[inline]
    pub fn ends_ns(&self) -> &[Nanoseconds] {
        &self.ends_ns[self.first..]
    }

    /// The entries without their ends.
    #[inline]
    pub fn entries(&self) -> &[T] {
        &self.entries[self.first..]
    }

    #[inline]
    pub fn entry_mut(&mut self, index: usize) -> &mut T {
        &mut self.entries[self.first + index]
    }

    /// The index of the first entry that ends after a time.
    #[inline]
    pub fn index_after(&self, at_ns: Nanoseconds) -> usize {
        self.ends_ns().partition_point(|end_ns| *end_ns <= at_ns)
    }
}

impl<T: Copy> Timeline<T> {
    /// An entry and its end.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(T, Nanoseconds)> {
        Some((*self.entries().get(index)?, *self.ends_ns().get(index)?))
    }

    /// Changes an entry, which stays where it is in the order.
    #[inline]
    pub fn set(&mut self, index: usize, entry: T, end_ns: Nanoseconds) {
        self.entries[self.first + index] = entry;
        self.ends_ns[self.first + index] = end_ns;
    }

    #[inline]
    pub fn push(&mut self, entry: T, end_ns: Nanoseconds) {
        self.entries.push(entry);
        self.ends_ns.push(end_ns);
    }

    /// If there is room in front, moves the entries before it or after it, whichever are fewer.
    #[inline]
    pub fn insert(&mut self, index: usize, entry: T, end_ns: Nanoseconds) {
        debug_assert!(index <= self.len(), "an entry is inserted at {index} of {}", self.len());
        if self.first == 0 || index > self.len() / 2 {
            self.entries.insert(self.first + index, entry);
            return self.ends_ns.insert(self.first + index, end_ns);
        }
        let before = self.first..self.first + index;
        self.first -= 1;
        self.entries.copy_within(before.clone(), self.first);
        self.ends_ns.copy_within(before, self.first);
        self.set(index, entry, end_ns);
    }

    pub fn remove(&mut self, index: usize) {
        self.entries.remove(self.first + index);
        self.ends_ns.remove(self.first + index);
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
        self.ends_ns.drain(..room);
        self.first -= room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_not_found_and_the_rest_stays_in_order() {
        let mut line = Timeline::default();
        (0..100).for_each(|number| line.push(number, 10 * number));
        for forgotten in 1..=90 {
            line.forget_first();
            assert_eq!(
                (line.get(0), line.len()),
                (Some((forgotten, 10 * forgotten)), 100 - forgotten as usize)
            );
        }
        line.insert(1, 200, 905);
        line.remove(0);
        line.set(2, 7, 921);
        assert_eq!(line.entries(), [200, 91, 7, 93, 94, 95, 96, 97, 98, 99]);
        assert_eq!(line.ends_ns(), [905, 910, 921, 930, 940, 950, 960, 970, 980, 990]);
        assert_eq!([904, 905, 920, 921, 2000].map(|at_ns| line.index_after(at_ns)), [0, 1, 2, 3, 10]);
        for number in 300..400 {
            line.insert(number as usize % 3, number, 1);
        }
        assert_eq!((line.len(), &line.entries()[..3]), (110, &[399, 396, 397][..]));
        (0..110).for_each(|_| line.forget_first());
        assert!(line.is_empty() && line.get(0).is_none());
    }
}
