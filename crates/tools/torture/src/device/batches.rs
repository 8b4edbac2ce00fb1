//! Batches of units and records: one step in each of the two oracles, and either both are done or neither.

use tantalum::Lpn;

use super::history::{NEVER, Order, Step};
use super::oracle::Findings;
use super::records::{Orders, Thing};

/// One batch.
#[derive(Clone, Debug)]
struct Batch {
    /// Among the commands on units.
    order: Order,
    units: Step<Lpn>,
    records: Step<Thing>,
    /// When it is durable.
    durable_ns: u64,
}

/// Batches that a cut may still undo.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batches(Vec<Batch>);

impl Batches {
    /// A batch is submitted, with its order among the commands on units and among those on records.
    pub fn issue(
        &mut self,
        units: (Order, impl Iterator<Item = Lpn>),
        records: (Order, impl Iterator<Item = Thing>),
    ) {
        let order = units.0;
        let units = Step { members: units.1.map(|lpn| (lpn, order)).collect() };
        let records = Step { members: records.1.map(|thing| (thing, records.0)).collect() };
        self.0.push(Batch { order, units, records, durable_ns: NEVER });
    }

    /// The batch with this order among the commands on units was refused.
    pub fn refuse(&mut self, order: Order) {
        self.0.retain(|batch| batch.order != order);
    }

    /// The drive acknowledged it at this time.
    pub fn acknowledge(&mut self, order: Order, done_ns: u64) {
        for batch in self.0.iter_mut().filter(|batch| batch.order == order) {
            batch.durable_ns = done_ns;
        }
    }

    /// Power does not go before this time.
    pub fn forget_before(&mut self, now_ns: u64) {
        self.0.retain(|batch| batch.durable_ns > now_ns);
    }

    /// Power has failed and everything was judged.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The number of batches judged.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// A batch that was only partly done, judging by what was found.
    pub fn torn(&self, units: &Findings, records: &Orders) -> Option<String> {
        let torn = self.0.iter().find(|batch| {
            let of_units = batch.units.shown(|lpn| units.of(*lpn));
            let of_records = batch.records.shown(|thing| records.get(thing).map(Vec::as_slice));
            let done = of_units.done && of_records.done;
            let undone = of_units.undone && of_records.undone;
            !done && !undone
        })?;
        let found: Vec<_> = torn.units.members.iter().map(|(lpn, _)| units.of(*lpn)).collect();
        let found_records: Vec<_> =
            torn.records.members.iter().map(|(thing, _)| records.get(thing)).collect();
        let Batch { units, records, .. } = torn;
        Some(format!(
            "some of the batch {:?} with {:?} was done: found are {found:?} and {found_records:?}",
            units.members, records.members
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tantalum::NamespaceId;

    use super::*;
    use crate::device::history::Candidate;

    /// What a batch of unit 1 (order 5) and a record (order 8) shows if they are found as of these orders.
    fn torn(unit: Order, record: Order) -> bool {
        let thing = Thing::Record((NamespaceId(1), 3));
        let mut batches = Batches::default();
        batches.issue((5, [Lpn(1)].into_iter()), (8, [thing].into_iter()));
        let candidate = Candidate { order: unit, stamp: 1, certain: true };
        let units = Findings::new(&[(Lpn(1), vec![candidate])], &BTreeMap::from([(Lpn(1), 1)]));
        batches.torn(&units, &Orders::from([(thing, vec![record])])).is_some()
    }

    #[test]
    fn one_kind_without_the_other_is_half_a_batch() {
        assert!(!torn(5, 8) && !torn(2, 3), "all, and nothing");
        assert!(torn(5, 3) && torn(2, 8));
        assert!(!torn(6, 3), "the unit was given something newer, and says nothing");
        assert!(torn(5, 7), "the record is older than the batch");
    }
}
