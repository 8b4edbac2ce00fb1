//! The host of files' lists: what `fs_write` appended, and what the lists may be after a cut.
//!
//! The memory does one thing after the other. So after a cut the lists are as after some of the commands, in the order of
//! submission, and after all that were done. Of the next command, units that were in a list may have left it already. What
//! took effect has its data on flash.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::{Command, FileEntry, FileId, Lpn, Status};

use super::commands::range;
use super::history::{NEVER, Order};
use super::host::{Host, unit_of};
use super::run::Run;
use super::stop::Stop;

/// Files that the host writes to: more than may have lists.
const FILES: u32 = 6;

/// Files that may have lists.
pub(super) const LISTS: u32 = 4;

type Lists = BTreeMap<FileId, Vec<FileEntry>>;

/// What a command does to the lists.
#[derive(Clone, Debug)]
enum What {
    Append { file: FileId, units: Range<u32>, offset: u32 },
    Clear(Option<FileId>),
}

#[derive(Clone, Debug)]
struct Change {
    order: Order,
    done_ns: u64,
    what: What,
}

/// What the lists are.
#[derive(Clone, Debug, Default)]
pub(super) struct ListHost {
    /// For good.
    settled: Lists,
    /// Since then, in the order of submission.
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

    /// Whether `found` may be what this, on its way, made of `lists`: units have left them that are to be appended.
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
    fn issue(&mut self, order: Order, what: What) {
        self.changes.push_back(Change { order, done_ns: NEVER, what });
    }

    fn acknowledge(&mut self, order: Order, done_ns: u64) {
        for change in self.changes.iter_mut().filter(|change| change.order == order) {
            change.done_ns = done_ns;
        }
    }

    fn refuse(&mut self, order: Order) {
        self.changes.retain(|change| change.order != order);
    }

    /// Power does not go before this time.
    pub fn forget_before(&mut self, now_ns: u64) {
        while self.changes.front().is_some_and(|change| change.done_ns <= now_ns) {
            let change = self.changes.pop_front().expect("there is a front");
            change.what.apply(&mut self.settled);
        }
    }

    /// What the lists of the running drive are.
    fn now(&self) -> Lists {
        let mut lists = self.settled.clone();
        self.changes.iter().for_each(|change| change.what.apply(&mut lists));
        lists
    }

    /// After a cut: the orders of the commands that took effect although they were not done. None if the lists are as
    /// after no commands.
    fn survived(&self, found: &Lists, cut_ns: u64) -> Option<Vec<Order>> {
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

fn read(host: &mut Host) -> Result<Lists, Stop> {
    let (mut files, mut lists) = (Vec::new(), Lists::new());
    host.submit_and_wait(Command::ListFiles { files: &mut files })?;
    for file in files {
        let mut entries = Vec::new();
        host.submit_and_wait(Command::ReadFileList { file, entries: &mut entries })?;
        lists.insert(file, entries);
    }
    Ok(lists)
}

impl Run {
    /// Writes units and appends them to a file's list.
    pub(super) fn fs_write(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), Stop> {
        let units = range(rng, 6);
        let (file, offset) = (FileId(1 + rng.random_range(0..FILES)), rng.random_range(0..1000));
        let new: BTreeMap<Lpn, u64> = units.clone().map(|lpn| (Lpn(lpn), self.stamp())).collect();
        let data: Vec<u8> = new.values().flat_map(|stamp| unit_of(*stamp)).collect();
        let order = self.oracle.issue(&new, false);
        let lpn = Lpn(units.start);
        self.lists.issue(order, What::Append { file, units, offset });
        let answer = self.host.submit(Command::FsWrite { lpn, data: &data, file, offset });
        match self.answered(order, &new, answer, true)? {
            Some(written) => self.lists.acknowledge(order, written.done_ns),
            None => {
                self.lists.refuse(order);
                self.check_lists()?;
            }
        }
        Ok(())
    }

    /// Clears a list, or all of them.
    pub(super) fn clear_lists(&mut self, rng: &mut Xoshiro256PlusPlus) -> Result<(), Stop> {
        let file = rng.random_ratio(2, 3).then(|| FileId(1 + rng.random_range(0..FILES)));
        let order = self.oracle.next_order();
        self.lists.issue(order, What::Clear(file));
        match self.host.submit(Command::ClearFileLists { file }) {
            Ok(cleared) => self.lists.acknowledge(order, cleared.done_ns),
            Err(Status::PowerLost) => return Err(Stop::PowerLost),
            Err(status) => {
                self.lists.refuse(order);
                self.may_refuse(&status, true)?;
            }
        }
        Ok(())
    }

    /// Without a cut: the lists are what was appended.
    pub(super) fn check_lists(&mut self) -> Result<(), Stop> {
        if !self.has_lists {
            return Ok(());
        }
        let (found, expected) = (read(&mut self.host)?, self.lists.now());
        self.tally.promises_checked += 1;
        if found != expected {
            let detail = format!("the lists are {found:?}, and should be {expected:?}");
            return Err(Stop::broken("running drive", detail));
        }
        Ok(())
    }

    /// After a cut: the lists are as after all commands that were done, and perhaps more; then these have their data.
    pub(super) fn compare_lists(&mut self) -> Result<(), Stop> {
        if !self.has_lists {
            return Ok(());
        }
        let found = read(&mut self.host)?;
        self.tally.promises_checked += 1;
        let Some(survived) = self.lists.survived(&found, self.cut_ns) else {
            let detail = format!("the lists are {found:?} after {:?}", self.lists);
            return Err(Stop::broken("D3", detail));
        };
        survived.into_iter().for_each(|order| self.oracle.acknowledge(order, self.cut_ns, true));
        self.lists = ListHost { settled: found, changes: VecDeque::new() };
        Ok(())
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
