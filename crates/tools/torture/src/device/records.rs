//! What key-value namespaces hold, and what they may hold after a cut.
//!
//! On every drive everything is durable when it is done, and a put of many records is there completely or not at all.

use std::collections::{BTreeMap, BTreeSet};

use tantalum::NamespaceId;

use super::history::{Candidate, History, LOST, NEVER, Order, Stamp, Step};

/// A key of a namespace.
pub(crate) type RecordId = (NamespaceId, u64);

/// The orders of the commands that each thing may show.
pub(crate) type Orders = BTreeMap<Thing, Vec<Order>>;

/// What a step may change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Thing {
    Record(RecordId),
    /// Whether a namespace exists: 1, or 0.
    Namespace(NamespaceId),
}

/// Namespaces and records since power came on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    things: BTreeMap<Thing, History>,
    /// With the time at which each is durable.
    steps: Vec<(Step<Thing>, u64)>,
    last_order: Order,
}

impl Records {
    fn thing(&mut self, thing: Thing) -> &mut History {
        self.things.entry(thing).or_default()
    }

    /// What the running drive holds; 0 for nothing.
    pub fn now(&self, thing: Thing) -> Stamp {
        self.things.get(&thing).map_or(0, History::now)
    }

    /// A command that gives these things these values is submitted.
    pub fn issue(&mut self, new: &BTreeMap<Thing, Stamp>) -> Order {
        self.last_order += 1;
        let order = self.last_order;
        new.iter().for_each(|(thing, stamp)| self.thing(*thing).issue(order, *stamp));
        self.steps.push((Step { members: new.keys().map(|thing| (*thing, order)).collect() }, NEVER));
        order
    }

    /// The drive refused it.
    pub fn refuse(&mut self, order: Order) {
        self.things.values_mut().for_each(|thing| thing.refuse(order));
        self.steps.retain(|(step, _)| step.members.iter().all(|(_, other)| *other != order));
    }

    /// The drive acknowledged it at this time.
    pub fn acknowledge(&mut self, order: Order, done_ns: u64) {
        self.things.values_mut().for_each(|thing| thing.acknowledge(order, done_ns, done_ns));
        let of_it = |step: &Step<Thing>| step.members.iter().all(|(_, other)| *other == order);
        self.steps.iter_mut().filter(|(step, _)| of_it(step)).for_each(|(_, until_ns)| *until_ns = done_ns);
    }

    /// A namespace was, or may have been, created with this number.
    pub fn made(&mut self, namespace: NamespaceId, done_ns: Option<u64>) {
        let order = self.issue(&BTreeMap::from([(Thing::Namespace(namespace), 1)]));
        if let Some(done_ns) = done_ns {
            self.acknowledge(order, done_ns);
        }
    }

    /// Power does not go before this time: forgets what no cut can bring back.
    pub fn forget_before(&mut self, now_ns: u64) {
        self.things.values_mut().for_each(|thing| thing.forget_before(now_ns));
        self.steps.retain(|(_, durable_ns)| *durable_ns > now_ns);
    }

    /// What a record or namespace may be after a cut at a given time, newest first.
    pub fn candidates(&self, thing: Thing, cut_ns: u64) -> Vec<Candidate> {
        self.things.get(&thing).unwrap_or(&History::default()).candidates(cut_ns).collect()
    }

    /// Everything given to the drive since power came on that was not forgotten.
    pub fn things(&self) -> BTreeSet<Thing> {
        self.things.keys().copied().collect()
    }

    /// The existing keys of a namespace.
    pub fn keys(&self, namespace: NamespaceId) -> impl Iterator<Item = (u64, Stamp)> + '_ {
        let first = Thing::Record((namespace, 0));
        let of_namespace = self.things.range(first..=Thing::Record((namespace, u64::MAX)));
        of_namespace.filter_map(|(thing, history)| match (thing, history.now()) {
            (Thing::Record((_, number)), stamp) if stamp != 0 => Some((*number, stamp)),
            _ => None,
        })
    }

    /// Judging by what was found, the orders of the commands that each thing may show. Lost things give no information.
    /// `is` says whether what was found may be what a stamp stands for, because two stamps may stand for the same
    /// value.
    pub fn orders(
        &self,
        found: &BTreeMap<Thing, Stamp>,
        cut_ns: u64,
        is: impl Fn(Thing, Stamp, Stamp) -> bool,
    ) -> Orders {
        let mut orders = Orders::new();
        for (thing, stamp) in found.iter().filter(|(_, stamp)| **stamp != LOST) {
            let candidates = self.candidates(*thing, cut_ns);
            let same = candidates.iter().filter(|candidate| is(*thing, candidate.stamp, *stamp));
            orders.insert(*thing, same.map(|candidate| candidate.order).collect());
        }
        orders
    }

    /// The steps that are neither done nor undone, judging by what was found. Contents of a deleted namespace give no
    /// information.
    pub fn torn_steps(&self, found: &BTreeMap<Thing, Stamp>, cut_ns: u64, orders: &Orders) -> Vec<String> {
        let torn = self.steps.iter().filter(|(step, _)| {
            let shown = step.shown(|thing| orders.get(thing).map(Vec::as_slice));
            !shown.done && !shown.undone
        });
        let tell = |step: &Step<Thing>| {
            let members = step.members.iter().map(|(thing, order)| {
                let found = found.get(thing);
                let candidates: Vec<_> =
                    self.candidates(*thing, cut_ns).iter().map(|one| (one.order, one.stamp)).collect();
                format!("{thing:?} of {order} holds {found:?} of {candidates:?}")
            });
            members.collect::<Vec<_>>().join("; ")
        };
        torn.map(|(step, _)| format!("some of a put was done: {}", tell(step))).collect()
    }

    /// The number of steps judged.
    pub fn step_count(&self) -> u64 {
        self.steps.len() as u64
    }

    /// After a cut this is what exists, for good.
    pub fn settle(&mut self, found: &BTreeMap<Thing, Stamp>) {
        self.things = found
            .iter()
            .filter(|(_, stamp)| **stamp != 0)
            .map(|(thing, stamp)| (*thing, History::holding(*stamp)))
            .collect();
        self.steps.clear();
    }

    /// A record turned out to be lost.
    pub fn lose(&mut self, place: RecordId) {
        self.thing(Thing::Record(place)).lose();
    }
}
