//! What units read as, and what they may read as after a cut.

use std::collections::BTreeMap;

use tantalum::Lpn;

use super::hints::Hints;
use super::history::{Candidate, History, LOST, NEVER, Order, Stamp, Step};
use super::stop::Stop;

/// The units that commands work on, and the logs whose pages and homes they are.
#[derive(Clone, Default)]
pub(crate) struct Oracle {
    units: BTreeMap<Lpn, History>,
    /// With the time at which each is durable.
    steps: Vec<(Step<Lpn>, u64)>,
    /// Writes that may be done in part, to count those that were.
    loose: Vec<Step<Lpn>>,
    pub hints: Hints,
    last_order: Order,
}

/// What was found in each unit after a cut: the orders of the versions that it may be.
pub(crate) struct Findings(BTreeMap<Lpn, Vec<Order>>);

impl Oracle {
    /// The order of the next command.
    pub fn next_order(&mut self) -> Order {
        self.last_order += 1;
        self.last_order
    }

    fn unit(&mut self, lpn: Lpn) -> &mut History {
        self.units.entry(lpn).or_default()
    }

    /// What a unit reads as while the drive runs.
    pub fn now(&self, lpn: Lpn) -> Stamp {
        self.units.get(&lpn).map_or(0, History::now)
    }

    /// What a unit may hold if a command did not change it, newest first.
    pub fn before(&self, lpn: Lpn, order: Order) -> Vec<Stamp> {
        self.units.get(&lpn).map_or_else(|| vec![0], |unit| unit.before(order).collect())
    }

    /// A command that gives these units these values is submitted. Returns the command's order.
    pub fn issue(&mut self, new: &BTreeMap<Lpn, Stamp>, one_step: bool) -> Order {
        let order = self.next_order();
        for (&lpn, &stamp) in new {
            // a unit that is shared with what it already holds may stay the page that it was
            let is_given_up = stamp == 0 || stamp != self.now(lpn);
            self.hints.give_up(lpn, is_given_up.then_some(order));
            self.unit(lpn).issue(order, stamp);
        }
        if one_step {
            self.steps.push((Step { members: new.keys().map(|lpn| (*lpn, order)).collect() }, NEVER));
        }
        order
    }

    /// A command that may be done in part, and so shows whether a cut reaches the middle of one.
    pub fn issue_loose(&mut self, new: &BTreeMap<Lpn, Stamp>) -> Order {
        let order = self.issue(new, false);
        self.loose.push(Step { members: new.keys().map(|lpn| (*lpn, order)).collect() });
        order
    }

    /// Writes of which, judging by what was found, some units were done and others not, although they might all have been.
    pub fn done_in_part(&self, found: &Findings) -> u64 {
        let in_part = |step: &&Step<Lpn>| {
            let shown = step.shown(|lpn| found.of(*lpn));
            !shown.done && !shown.undone
        };
        self.loose.iter().filter(in_part).count() as u64
    }

    /// The drive refused it.
    pub fn refuse(&mut self, order: Order) {
        self.units.values_mut().for_each(|unit| unit.refuse(order));
        self.steps.retain(|(step, _)| step.members.iter().all(|(_, other)| *other != order));
        self.loose.retain(|step| step.members.iter().all(|(_, other)| *other != order));
        let units = &self.units;
        self.hints.refuse(order, |lpn, than| units.get(&lpn).and_then(|unit| unit.newer(than)));
    }

    /// Whether no newer command changes a unit.
    fn is_last(&self, lpn: Lpn, order: Order) -> bool {
        self.units.get(&lpn).is_some_and(|unit| unit.newer(order - 1) == Some(order))
    }

    /// Whether a refused command may have been done in part: a plain write of several units.
    pub fn may_be_in_part(&self, order: Order, new: &BTreeMap<Lpn, Stamp>) -> bool {
        let is_step = self.steps.iter().any(|(step, _)| step.members.iter().any(|(_, of)| *of == order));
        new.len() > 1 && !is_step && new.values().all(|stamp| *stamp != 0)
    }

    /// The drive refused a plain write. Looks in which units it was done: the first ones. What something newer hides, and
    /// whether a page of a log that it would have replaced is still there, stays open.
    pub fn refuse_in_part(
        &mut self,
        order: Order,
        new: &BTreeMap<Lpn, Stamp>,
        now_ns: u64,
        mut read: impl FnMut(Lpn) -> Result<Stamp, Stop>,
    ) -> Result<(), Stop> {
        let mut not_done = None;
        for (&lpn, &stamp) in new {
            if !self.is_last(lpn, order) {
                continue;
            }
            let found = read(lpn)?;
            if found == LOST {
                self.unit(lpn).refuse(order);
            } else if found != stamp {
                self.unit(lpn).refuse(order);
                not_done = not_done.or(Some(lpn));
            } else if !self.before(lpn, order).contains(&stamp) {
                if let Some(earlier) = not_done {
                    let detail = format!("a refused write is done in unit {lpn}, and not in {earlier}");
                    return Err(Stop::broken("running drive", detail));
                }
                self.unit(lpn).acknowledge(order, now_ns, NEVER);
            }
        }
        Ok(())
    }

    /// It is done at a time. If it was `durable` then, it stays.
    pub fn acknowledge(&mut self, order: Order, done_ns: u64, durable: bool) {
        let durable_ns = if durable { done_ns } else { NEVER };
        self.units.values_mut().for_each(|unit| unit.acknowledge(order, done_ns, durable_ns));
        self.hints.acknowledge(order, done_ns, durable_ns);
        if durable {
            let of_it = |step: &Step<Lpn>| step.members.iter().all(|(_, other)| *other == order);
            self.steps
                .iter_mut()
                .filter(|(step, _)| of_it(step))
                .for_each(|(_, until_ns)| *until_ns = done_ns);
        }
    }

    /// A flush submitted at one time is done at another.
    pub fn flush(&mut self, given_ns: u64, done_ns: u64) {
        self.units.values_mut().for_each(|unit| unit.flush(given_ns, done_ns));
        self.hints.flush(given_ns, done_ns);
    }

    /// Power does not go before this time: forgets what no cut can bring back.
    pub fn forget_before(&mut self, now_ns: u64) {
        self.units.values_mut().for_each(|unit| unit.forget_before(now_ns));
        self.steps.retain(|(_, durable_ns)| *durable_ns > now_ns);
        self.hints.pass(now_ns);
    }

    /// What a unit of a drive that runs on may hold after commands that failed.
    pub fn after_failure(&self, lpn: Lpn) -> Vec<Stamp> {
        self.units.get(&lpn).map_or_else(|| vec![0], |unit| unit.after_failure().collect())
    }

    /// What each unit may hold after a cut at a given time, newest first.
    pub fn candidates(&self, lpns: impl Iterator<Item = Lpn>, cut_ns: u64) -> Vec<(Lpn, Vec<Candidate>)> {
        let mut claims = self.hints.claims(cut_ns);
        let unwritten = History::default();
        lpns.map(|lpn| {
            let mut all = claims.remove(&lpn).unwrap_or_default();
            all.extend(self.units.get(&lpn).unwrap_or(&unwritten).candidates(cut_ns));
            all.sort_by_key(|candidate| std::cmp::Reverse(candidate.order));
            let certain = all.iter().position(|candidate| candidate.certain).unwrap_or(all.len() - 1);
            all.truncate(certain + 1);
            (lpn, all)
        })
        .collect()
    }

    /// The steps and log transactions that, judging by what was found, are neither done nor undone; and transactions
    /// that came home although earlier ones of their log did not.
    pub fn torn_steps(&self, found: &Findings) -> Vec<String> {
        let matching = |lpn: &Lpn| found.of(*lpn);
        let mut torn = Vec::new();
        for (step, _) in &self.steps {
            let shown = step.shown(matching);
            if !shown.done && !shown.undone {
                let found: Vec<_> = step.members.iter().map(|(lpn, _)| matching(lpn)).collect();
                torn.push(format!("some of the step {:?} was done: found are {found:?}", step.members));
            }
        }
        for transactions in self.hints.transactions() {
            let mut missing = None;
            for members in transactions {
                let step = Step { members };
                let shown = step.shown(matching);
                match (shown.done, shown.undone) {
                    (false, false) => {
                        torn.push(format!("some of a log's transaction came home: {:?}", step.members));
                    }
                    (false, true) => missing = missing.or(Some(step)),
                    (true, false) => {
                        if let Some(missing) = &missing {
                            torn.push(format!(
                                "a log's transaction came home, {:?}, and one before it did not: {:?}",
                                step.members, missing.members
                            ));
                        }
                    }
                    (true, true) => {}
                }
            }
        }
        torn
    }

    /// The number of steps judged.
    pub fn step_count(&self) -> u64 {
        let transactions: usize = self.hints.transactions().map(|log| log.len()).sum();
        (self.steps.len() + transactions) as u64
    }

    /// After a cut the units hold this, for good. Logs have ended.
    pub fn settle(&mut self, found: &BTreeMap<Lpn, Stamp>) {
        self.units = found.iter().map(|(lpn, stamp)| (*lpn, History::holding(*stamp))).collect();
        self.steps.clear();
        self.loose.clear();
        self.hints.clear();
    }

    /// A unit turned out to be lost while the drive runs.
    pub fn lose(&mut self, lpn: Lpn) {
        self.unit(lpn).lose();
    }
}

impl Findings {
    /// The orders of the commands whose result a unit may show; none if it gives no information.
    pub fn of(&self, lpn: Lpn) -> Option<&[Order]> {
        self.0.get(&lpn).map(Vec::as_slice)
    }

    /// What was found, and what it may be. Lost units give no information about steps.
    pub fn new(candidates: &[(Lpn, Vec<Candidate>)], found: &BTreeMap<Lpn, Stamp>) -> Findings {
        let told = candidates.iter().filter(|(lpn, _)| found[lpn] != LOST);
        let orders = told.map(|(lpn, candidates)| {
            let same = candidates.iter().filter(|candidate| candidate.stamp == found[lpn]);
            (*lpn, same.map(|candidate| candidate.order).collect())
        });
        Findings(orders.collect())
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Generation, Hint};

    use super::*;
    use crate::device::hints::Frame;

    const PAGE: Lpn = Lpn(1);
    const HOME: Lpn = Lpn(2);

    const NEXT: Lpn = Lpn(3);

    /// A log whose pages claim the same home, in transactions of one page each.
    fn log(oracle: &mut Oracle, pages: &[(Lpn, Stamp)]) {
        let generation = Generation(1);
        oracle.hints.begin(generation, 0);
        for (slot, (page, stamp)) in (1..).zip(pages) {
            let order = oracle.issue(&BTreeMap::from([(*page, *stamp)]), false);
            let hint =
                Hint { generation, attempt: 0, start: 1, first: slot, slot, end: true, home: Some(HOME) };
            oracle.hints.log(generation).frames.push(Frame::new(order, hint, *page, *stamp));
            oracle.acknowledge(order, 1, true);
        }
        oracle.forget_before(1);
    }

    /// What the home may hold.
    fn home(oracle: &Oracle) -> Vec<Stamp> {
        oracle.candidates([HOME].into_iter(), 9)[0].1.iter().map(|candidate| candidate.stamp).collect()
    }

    /// The oracle once allowed the later page to be lost with the earlier one, so that no torture noticed an erase that did not
    /// record how far a log was whole.
    #[test]
    fn what_follows_a_page_that_was_durable_and_replaced_still_comes_home() {
        let mut oracle = Oracle::default();
        log(&mut oracle, &[(PAGE, 5), (NEXT, 7)]);
        assert_eq!(home(&oracle), [7]);
        let order = oracle.issue(&BTreeMap::from([(PAGE, 8)]), false);
        oracle.acknowledge(order, 2, true);
        assert_eq!(home(&oracle), [7]);
    }

    /// Of two writes over a page of a log that were issued together the first was refused. The oracle then took the page for
    /// one that was still there, and its claim for certain.
    #[test]
    fn a_page_is_given_up_also_if_one_of_two_commands_was_refused() {
        let mut oracle = Oracle::default();
        log(&mut oracle, &[(PAGE, 5)]);
        assert_eq!(home(&oracle), [5], "the page comes home");
        let [first, second] = [7, 9].map(|stamp| oracle.issue(&BTreeMap::from([(PAGE, stamp)]), false));
        oracle.refuse(first);
        oracle.acknowledge(second, 2, false);
        assert_eq!(home(&oracle), [5, 0], "the page may be gone");
        oracle.refuse(second);
        assert_eq!((home(&oracle), oracle.now(PAGE)), (vec![5], 5));
    }

    /// No torture fails if the oracle lets any of a refused write's units be done: drives do them in order.
    #[test]
    fn a_refused_write_is_done_in_its_first_units() {
        let new = BTreeMap::from([(PAGE, 5), (HOME, 6), (NEXT, 7)]);
        for done in 0..8_u32 {
            let mut oracle = Oracle::default();
            let order = oracle.issue(&new, false);
            let read = |lpn: Lpn| Ok(if done >> (lpn.0 - PAGE.0) & 1 == 1 { new[&lpn] } else { 0 });
            let judged = oracle.refuse_in_part(order, &new, 1, read);
            assert_eq!(judged.is_ok(), [0b000, 0b001, 0b011, 0b111].contains(&done), "{done:03b}");
        }
    }
}
