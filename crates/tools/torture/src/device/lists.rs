//! Files' lists: what `fs_write` appended, and the allowed lists after a cut.
//!
//! The memory executes stores in order. So after a cut the lists reflect a prefix of the commands in the order of submission,
//! which includes all that were completed. The next command may already have removed units from a list. What took effect has
//! its data on flash.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use tantalum::{FileEntry, FileId, Lpn};

use super::history::{NEVER, Order};

/// Files that may have lists.
pub(crate) const LISTS: u32 = 4;

/// The lists of files that have one.
pub(crate) type Lists = BTreeMap<FileId, Vec<FileEntry>>;

/// What a command does to the lists.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Append { file: FileId, units: Range<u32>, offset: u32 },
    Clear(Option<FileId>),
}

#[derive(Clone, Debug)]
struct Change {
    order: Order,
    done_ns: u64,
    what: What,
}

/// The current lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListHost {
    /// The lists after all changes that can no longer be lost.
    settled: Lists,
    /// Changes since then, in the order of submission.
    changes: VecDeque<Change>,
}

impl What {
    fn apply(&self, lists: &mut Lists) {
        match self {
            What::Clear(None) => lists.clear(),
            What::Clear(Some(file)) => {
                lists.remove(file);
            }
            What::Append { file, units, offset } => {
                lists.values_mut().for_each(|list| list.retain(|entry| !units.contains(&entry.lpn.0)));
                lists.retain(|_, list| !list.is_empty());
                let entries = units.clone().zip(*offset..);
                let entries = entries.map(|(unit, offset)| FileEntry { lpn: Lpn(unit), offset });
                lists.entry(*file).or_default().extend(entries);
            }
        }
    }

    /// Whether `found` may be a half-done state of this command on `lists`: units that it appends have left their old lists.
    fn is_under_way(&self, found: &Lists, lists: &Lists) -> bool {
        let What::Append { units, .. } = self else { return false };
        let mut left = found.clone();
        for (file, list) in lists {
            let mut kept = left.remove(file).unwrap_or_default().into_iter().peekable();
            let told = list
                .iter()
                .all(|entry| kept.next_if(|next| next == entry).is_some() || units.contains(&entry.lpn.0));
            if !told || kept.next().is_some() {
                return false;
            }
        }
        left.is_empty()
    }
}

impl ListHost {
    /// A command was given to the drive.
    pub fn issue(&mut self, order: Order, what: What) {
        self.changes.push_back(Change { order, done_ns: NEVER, what });
    }

    /// It is done at this time.
    pub fn acknowledge(&mut self, order: Order, done_ns: u64) {
        for change in self.changes.iter_mut().filter(|change| change.order == order) {
            change.done_ns = done_ns;
        }
    }

    /// The command was refused, so it changes nothing.
    pub fn refuse(&mut self, order: Order) {
        self.changes.retain(|change| change.order != order);
    }

    /// Power does not go before this time.
    pub fn forget_before(&mut self, now_ns: u64) {
        while self.changes.front().is_some_and(|change| change.done_ns <= now_ns) {
            let change = self.changes.pop_front().expect("there is a front");
            change.what.apply(&mut self.settled);
        }
    }

    /// The state of a host that found these lists after a cut.
    pub fn found(settled: Lists) -> ListHost {
        ListHost { settled, changes: VecDeque::new() }
    }

    /// The lists of the running drive.
    pub fn now(&self) -> Lists {
        let mut lists = self.settled.clone();
        self.changes.iter().for_each(|change| change.what.apply(&mut lists));
        lists
    }

    /// After a cut: the orders of the commands that took effect although they were not done. None if the lists are as
    /// after no commands.
    pub fn survived(&self, found: &Lists, cut_ns: u64) -> Option<Vec<Order>> {
        let done =
            self.changes.iter().rposition(|change| change.done_ns <= cut_ns).map_or(0, |last| last + 1);
        let mut lists = self.settled.clone();
        self.changes.iter().take(done).for_each(|change| change.what.apply(&mut lists));
        let mut survived = Vec::new();
        for change in self.changes.iter().skip(done) {
            if *found == lists {
                return Some(survived);
            }
            survived.push(change.order);
            if change.what.is_under_way(found, &lists) {
                return Some(survived);
            }
            change.what.apply(&mut lists);
        }
        (*found == lists).then_some(survived)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> ListHost {
        let mut host = ListHost::default();
        for (order, file, units) in [(1, 1, 0..3), (2, 2, 3..4), (3, 2, 1..2)] {
            host.issue(order, What::Append { file: FileId(file), units, offset: 7 });
        }
        host.acknowledge(1, 10);
        host
    }

    #[test]
    fn lists_after_a_cut_are_those_after_some_commands() {
        let host = host();
        let mut lists = Lists::new();
        assert_eq!(host.survived(&lists, 9), Some(vec![]));
        assert_eq!(host.survived(&lists, 10), None, "the first command was done");
        for (count, change) in host.changes.iter().enumerate() {
            change.what.apply(&mut lists);
            assert_eq!(host.survived(&lists, 10), Some((2..2 + count as u64).collect()));
        }
        lists.get_mut(&FileId(2)).unwrap().pop();
        assert_eq!(host.survived(&lists, 10), Some(vec![2, 3]), "unit 1 has left its list");
        lists.get_mut(&FileId(1)).unwrap().pop();
        assert_eq!(host.survived(&lists, 10), None, "nobody took unit 2 out");
    }
}
