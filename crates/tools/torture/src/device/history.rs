//! The values given to one unit or record, command by command, and those that it may hold after a cut.
//!
//! A host with a queue has several commands in flight. So a version is *known* from the time at which the host learnt
//! that its command was done, and *durable* from a time that may come later, or never. After a cut a unit holds the
//! newest version that was durable by then, or any newer one.

/// The place of a command in the order of submission.
pub(crate) type Order = u64;

/// A written value; 0 means nothing.
pub(crate) type Stamp = u64;

/// The value of a unit or record that can no longer be read.
pub(crate) const LOST: Stamp = Stamp::MAX;

/// A time that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// One version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Version {
    order: Order,
    stamp: Stamp,
    known_ns: u64,
    durable_ns: u64,
}

/// The versions that may be found after a cut, oldest first. The first one is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct History(Vec<Version>);

/// A version that may be what is found after a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    pub order: Order,
    pub stamp: Stamp,
    /// Nothing older can be found.
    pub certain: bool,
}

impl Default for History {
    fn default() -> History {
        History::holding(0)
    }
}

impl History {
    /// A history that holds a stamp, for good.
    pub fn holding(stamp: Stamp) -> History {
        History(vec![Version { order: 0, stamp, known_ns: 0, durable_ns: 0 }])
    }

    /// What the running drive holds.
    pub fn now(&self) -> Stamp {
        self.0.last().expect("there is always a version").stamp
    }

    /// What there may be if a command changed nothing, newest first.
    pub fn before(&self, order: Order) -> impl Iterator<Item = Stamp> + '_ {
        let mut known = false;
        let older = self.0.iter().rev().filter(move |version| version.order < order);
        older.map_while(move |version| {
            let was_known = std::mem::replace(&mut known, version.known_ns != NEVER);
            (!was_known).then_some(version.stamp)
        })
    }

    /// The newest command after this one that changes it.
    pub fn newer(&self, order: Order) -> Option<Order> {
        self.0.last().map(|version| version.order).filter(|newest| *newest > order)
    }

    /// A command is submitted.
    pub fn issue(&mut self, order: Order, stamp: Stamp) {
        self.0.push(Version { order, stamp, known_ns: NEVER, durable_ns: NEVER });
    }

    /// The command was refused, so it changed nothing.
    pub fn refuse(&mut self, order: Order) {
        self.0.retain(|version| version.order != order);
    }

    /// The command is done at one time, and durable at another.
    pub fn acknowledge(&mut self, order: Order, known_ns: u64, durable_ns: u64) {
        for version in self.0.iter_mut().filter(|version| version.order == order) {
            (version.known_ns, version.durable_ns) = (known_ns, durable_ns);
        }
    }

    /// The newest version can no longer be read. Until it is durable, the previous one may still come back: it may be a
    /// share from a lost page.
    pub fn lose(&mut self) {
        self.0.last_mut().expect("there is always a version").stamp = LOST;
    }

    /// A flush submitted at one time is done at another: what the host knew to be done when it submitted the flush is
    /// then durable.
    pub fn flush(&mut self, given_ns: u64, done_ns: u64) {
        for version in self.0.iter_mut().filter(|version| version.known_ns <= given_ns) {
            version.durable_ns = version.durable_ns.min(done_ns);
        }
    }

    /// Power does not go before this time: forgets what can no longer be found.
    pub fn forget_before(&mut self, now_ns: u64) {
        let newest = self.0.iter().rposition(|version| version.durable_ns <= now_ns).unwrap_or(0);
        self.0.drain(..newest);
    }

    /// What a drive that runs on may hold after commands that failed, newest first.
    pub fn after_failure(&self) -> impl Iterator<Item = Stamp> + '_ {
        let known = self.0.iter().rposition(|version| version.known_ns != NEVER).unwrap_or(0);
        self.0[known..].iter().rev().map(|version| version.stamp)
    }

    /// What may be found after a cut at a time, newest first.
    pub fn candidates(&self, cut_ns: u64) -> impl Iterator<Item = Candidate> + '_ {
        let mut certain = false;
        self.0.iter().rev().map_while(move |version| {
            let last = std::mem::replace(&mut certain, version.durable_ns <= cut_ns);
            (!last).then_some(Candidate { order: version.order, stamp: version.stamp, certain })
        })
    }
}

/// Steps that are done completely or not at all: each unit or record of one, with its command's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Step<K> {
    pub members: Vec<(K, Order)>,
}

/// What the units or records of a step show after a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shown {
    /// They may show that it was done.
    pub done: bool,
    /// They may show that it was not.
    pub undone: bool,
}

impl<K> Step<K> {
    /// `matching` has the orders of the candidates that equal the value found; none if it gives no information.
    pub fn shown<'a>(&self, matching: impl Fn(&K) -> Option<&'a [Order]>) -> Shown {
        let mut shown = Shown { done: true, undone: true };
        for (member, order) in &self.members {
            let Some(found) = matching(member) else { continue };
            // a newer version hides whether the step was done
            shown.done &= found.iter().any(|other| other >= order);
            shown.undone &= found.iter().any(|other| other != order);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(history: &History, cut_ns: u64) -> Vec<Stamp> {
        history.candidates(cut_ns).map(|candidate| candidate.stamp).collect()
    }

    #[test]
    fn what_is_not_durable_when_power_goes_may_be_lost() {
        let mut history = History::default();
        history.issue(1, 7);
        history.acknowledge(1, 10, NEVER);
        assert_eq!((history.now(), stamps(&history, 100)), (7, vec![7, 0]));
        history.flush(5, 20);
        assert_eq!(stamps(&history, 100), [7, 0], "the flush was given before the host knew");
        history.flush(10, 20);
        assert_eq!((stamps(&history, 19), stamps(&history, 20)), (vec![7, 0], vec![7]));
    }

    #[test]
    fn a_refused_command_leaves_nothing() {
        let mut history = History::default();
        history.issue(1, 7);
        history.refuse(1);
        assert_eq!(history, History::default());
    }

    #[test]
    fn before_a_command_there_may_be_what_nobody_knows_to_be_replaced() {
        let mut history = History::holding(7);
        (1..4).for_each(|order| history.issue(order, 10 + order));
        assert_eq!(history.before(3).collect::<Vec<_>>(), [12, 11, 7]);
        history.acknowledge(1, 10, NEVER);
        assert_eq!(history.before(3).collect::<Vec<_>>(), [12, 11]);
        assert_eq!((history.newer(2), history.newer(3)), (Some(3), None));
    }

    #[test]
    fn what_no_cut_can_bring_back_is_forgotten() {
        let mut history = History::default();
        for order in 1..4 {
            history.issue(order, 10 + order);
            history.acknowledge(order, order, 10 * order);
        }
        history.forget_before(25);
        assert_eq!(stamps(&history, 25), [13, 12]);
        history.forget_before(30);
        assert_eq!(stamps(&history, 30), [13]);
    }

    #[test]
    fn the_loss_of_what_is_not_durable_may_be_undone() {
        let mut history = History::holding(7);
        history.issue(1, 8);
        history.acknowledge(1, 10, 30);
        history.lose();
        assert_eq!((stamps(&history, 29), stamps(&history, 30)), (vec![LOST, 7], vec![LOST]));
    }

    #[test]
    fn half_of_a_step_is_told_from_all_and_nothing() {
        let step = Step { members: vec![('a', 5), ('b', 5)] };
        let shown = |a: &'static [Order], b: &'static [Order]| {
            step.shown(|member| Some(if *member == 'a' { a } else { b }))
        };
        assert_eq!(shown(&[5], &[5]), Shown { done: true, undone: false });
        assert_eq!(shown(&[2], &[0]), Shown { done: false, undone: true });
        assert_eq!(shown(&[5], &[0]), Shown { done: false, undone: false });
        assert_eq!(shown(&[8], &[0]), Shown { done: false, undone: true }, "a was given something newer");
        assert_eq!(shown(&[5], &[8]), Shown { done: true, undone: false });
        assert_eq!(shown(&[5, 2], &[2]), Shown { done: false, undone: true }, "both orders wrote the same");
    }
}
