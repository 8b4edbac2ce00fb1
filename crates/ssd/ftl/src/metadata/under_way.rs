//! What was issued to flash and may not be there yet, for the dump of a drive with a capacitor.

use std::collections::VecDeque;

use tantalum_nand::Nanoseconds;

/// A queue in the order of issue, each entry with the time at which it will be on flash.
#[derive(Clone, Debug)]
pub(crate) struct UnderWay<T>(VecDeque<(Nanoseconds, T)>);

impl<T> Default for UnderWay<T> {
    fn default() -> UnderWay<T> {
        UnderWay(VecDeque::new())
    }
}

impl<T> UnderWay<T> {
    /// All of it was issued and will be on flash at `done_ns`. Power may fail at `now_ns`, but not earlier.
    pub fn issued(&mut self, now_ns: Nanoseconds, done_ns: Nanoseconds, what: T) {
        while self.0.front().is_some_and(|(done_ns, _)| *done_ns <= now_ns) {
            self.0.pop_front();
        }
        self.0.push_back((done_ns, what));
    }

    /// Everything kept, including what may already be on flash.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, what)| what)
    }

    /// Takes what was not on flash at `cut_ns`, and forgets the rest.
    pub fn take_lost(&mut self, cut_ns: Nanoseconds) -> impl Iterator<Item = T> + use<T> {
        let all = std::mem::take(&mut self.0);
        all.into_iter().filter(move |(done_ns, _)| *done_ns > cut_ns).map(|(_, what)| what)
    }
}
