//! The steps of a commit that is too large for one `put` of the drive.
//!
//! They are computed one after the other, each from what the drive has and the steps before have left, before anything is
//! written. So it is known that each fits in a `put`, and what room they take; and damage on the way is met in time. Deletes
//! come first: they make room, and the positions of their keys can be told from what is there now.

use rustc_hash::FxHashMap;
use tantalum::{Device, Footprint, NamespaceId};
use tantalum_canaries::guard;

use crate::failure::Failure;
use crate::limits::Limits;
use crate::positions::{Positions, Walk};
use crate::record::{Bytes, Name, Order, OrderedChanges, Value};
use crate::record_store::{Listing, RecordStore, Records, Source};
use crate::room::{Taken, fits};
use crate::step::{Form, Step};
use crate::tree::{Change, Layout, Numbers, change, is_node, number_of};

/// A step changes at most this many keys for each of its records: small values lie together in leaves, which are records.
const KEYS_PER_RECORD: usize = 8;

/// Steps, and the room that they take.
#[derive(Default)]
pub(crate) struct Plan {
    pub steps: Vec<Step>,
    /// What each of them takes.
    taken: Vec<Taken>,
    /// Values of ordered namespaces that are deleted. To delete them alone, before the steps that change their nodes, makes room
    /// for these.
    values: Taken,
    /// The numbers of the namespaces afterwards.
    pub numbers: Vec<(NamespaceId, Numbers)>,
}

impl Plan {
    /// Whether a drive has room for it beside this, and for `after` when it is in place.
    pub fn fits(&self, device: &Device, beside: Footprint, after: Footprint) -> bool {
        assert_eq!(self.steps.len(), self.taken.len(), "steps, and those whose room is known");
        fits(device, std::iter::once(&self.values).chain(&self.taken), beside, after)
    }

    /// Values that are to be deleted before the first step.
    pub fn values(&self) -> &[Name] {
        &self.values.gone
    }

    /// All records that are put.
    pub fn records(&self) -> impl Iterator<Item = &(Name, Option<Value>)> {
        self.steps.iter().flat_map(|step| &step.records)
    }

    /// Adds records, in as many steps as they need.
    pub fn add(&mut self, limits: &Limits, records: Records) {
        let (count, before) = (records.len(), self.records().count());
        let mut rest = records.into_iter().peekable();
        while rest.peek().is_some() {
            let (mut step, mut bytes) = (Records::new(), 0);
            while let Some(record) = rest.next_if(|(_, value)| {
                bytes += value.as_ref().map_or(0, |value| value.len());
                step.is_empty() || step.len() < limits.step_records() && bytes <= limits.bytes
            }) {
                step.push(record);
            }
            assert!(
                limits.hold(&step),
                "a step has {} records, and a put of the drive takes {limits:?}",
                step.len()
            );
            let taken = Taken::of(&step, |_| None, |_| false);
            self.push(Step::of_records(step), taken);
        }
        debug_assert_eq!(self.records().count(), before + count, "records of the steps, with {count} more");
    }

    fn push(&mut self, step: Step, taken: Taken) {
        self.steps.push(step);
        self.taken.push(taken);
    }

    /// Logs deletes by positions where that takes less, in namespaces that are to be.
    pub fn shorten(
        &mut self,
        source: &impl Listing,
        is_to_be: impl Fn(NamespaceId, usize) -> bool,
    ) -> Result<(), Failure> {
        for steps in self.steps.chunk_by_mut(|a, b| a.deletes == b.deletes) {
            let Some(namespace) = steps[0].deletes else { continue };
            let keys: Vec<Vec<Bytes>> = steps.iter().map(Step::deleted_keys).collect();
            if is_to_be(namespace, keys.iter().map(Vec::len).sum()) {
                shorten(source, namespace, steps, &keys)?;
            }
        }
        Ok(())
    }
}

fn shorten(
    source: &impl Listing,
    namespace: NamespaceId,
    steps: &mut [Step],
    keys: &[Vec<Bytes>],
) -> Result<(), Failure> {
    let order = if matches!(steps[0].form, Form::Keys { .. }) { Order::Ordered } else { Order::Hashed };
    let mut walk = Walk::new(source, namespace, order);
    let mut forms = Vec::with_capacity(steps.len());
    for (step, keys) in steps.iter().zip(keys) {
        let positions = Positions::of(&mut walk, keys)?;
        let numbers = match &step.form {
            Form::Keys { numbers, .. } => Some(*numbers),
            _ => None,
        };
        forms.push(Form::Positions { namespace, numbers, positions });
    }
    assert_eq!(forms.len(), steps.len(), "steps that delete by positions, and steps");
    let bytes = |steps: &[Step]| steps.iter().map(|step| step.encode().len()).sum::<usize>();
    let before = bytes(steps);
    let swap = |steps: &mut [Step], forms: &mut [Form]| {
        steps.iter_mut().zip(forms).for_each(|(step, form)| std::mem::swap(&mut step.form, form));
    };
    swap(steps, &mut forms);
    // all of them or none: positions are counted from one step to the next
    if bytes(steps) >= before {
        swap(steps, &mut forms);
    }
    Ok(())
}

/// The nodes as they are after some steps.
struct Overlay<'a> {
    drive: &'a RecordStore,
    changed: FxHashMap<Name, Option<Value>>,
}

impl Overlay<'_> {
    /// The records of a step are in place.
    fn apply(&mut self, records: &Records) {
        let nodes = records.iter().filter(|(name, _)| is_node(*name)).cloned();
        guard!(PlannedOnOldNodes, self.changed.extend(nodes));
    }
}

impl Source for Overlay<'_> {
    /// Past the cache: what is read is what recovery would read.
    fn record(&self, name: Name) -> Result<Option<Value>, Failure> {
        match self.changed.get(&name) {
            Some(node) => Ok(node.clone()),
            None => self.drive.get(name, &mut None),
        }
    }
}

/// What a record takes; a delete as much as an empty value.
fn chunks_of(value: &Option<Value>) -> u64 {
    Footprint::of(value.as_ref().map_or(0, |value| value.len())).chunks
}

/// Computes steps.
pub(crate) struct Planner<'a> {
    source: Overlay<'a>,
    limits: &'a Limits,
    plan: Plan,
    /// The numbers of the namespaces before, as [`Plan::numbers`] has them afterwards.
    before: Vec<Numbers>,
}

impl<'a> Planner<'a> {
    pub fn new(drive: &'a RecordStore, limits: &'a Limits) -> Planner<'a> {
        Planner {
            source: Overlay { drive, changed: FxHashMap::default() },
            limits,
            plan: Plan::default(),
            before: Vec::new(),
        }
    }

    /// The steps of a transaction. `numbers_of` gives the numbers of an ordered namespace.
    pub fn plan(
        mut self,
        records: &Records,
        ordered: &[(NamespaceId, OrderedChanges)],
        numbers_of: impl Fn(NamespaceId) -> Result<Numbers, Failure>,
    ) -> Result<Plan, Failure> {
        for (namespace, _) in ordered {
            let numbers = numbers_of(*namespace)?;
            self.plan.numbers.push((*namespace, numbers));
            self.before.push(numbers);
        }
        let of_kind =
            |is_delete: bool| move |(_, value): &&(Name, Option<Value>)| value.is_none() == is_delete;
        self.delete_records(records.iter().filter(of_kind(true)).cloned().collect());
        for is_delete in [true, false] {
            for (at, (_, changes)) in ordered.iter().enumerate() {
                let changes: Vec<Change<'_>> = changes
                    .iter()
                    .filter(|(_, value)| value.is_none() == is_delete)
                    .map(|(key, value)| (&key[..], value))
                    .collect();
                self.change_keys(at, &changes)?;
            }
        }
        self.plan.add(self.limits, records.iter().filter(of_kind(false)).cloned().collect());
        Ok(self.plan)
    }

    /// Deletes records of hashed namespaces.
    fn delete_records(&mut self, mut records: Records) {
        records.sort_by_cached_key(|((namespace, key), _)| (*namespace, key.listing_order()));
        for of_one in records.chunk_by(|a, b| a.0.0 == b.0.0) {
            let namespace = of_one[0].0.0;
            for records in of_one.chunks(self.limits.step_records()) {
                let step = Step::of_records(records.to_vec());
                let taken = Taken::of(&step.records, |_| None, |_| false);
                self.plan.push(Step { deletes: Some(namespace), ..step }, taken);
            }
        }
    }

    /// Changes keys of an ordered namespace, which are deletes alone or none.
    fn change_keys(&mut self, at: usize, mut rest: &[Change<'_>]) -> Result<(), Failure> {
        let mut most = self.limits.step_records() * KEYS_PER_RECORD;
        let mut at_once = most;
        while !rest.is_empty() {
            let (namespace, before) = self.plan.numbers[at];
            let (now, later) = rest.split_at(at_once.min(rest.len()));
            debug_assert!(now.is_sorted_by(|a, b| a.0 < b.0), "changes of {namespace:?} are out of order");
            let changed = change(&self.source, namespace, now, before, Layout::NOW)?;
            assert!(changed.numbers.follow(before), "numbers are {before:?} and then {:?}", changed.numbers);
            if now.len() > 1 && !self.fits(&changed.records) {
                at_once = now.len() / 2;
                most = (now.len() - 1).max(self.limits.step_records());
                continue;
            }
            assert!(
                self.limits.hold(&changed.records),
                "a change of {} keys has {} records, and a put of the drive takes {:?}",
                now.len(),
                changed.records.len(),
                self.limits
            );
            let changes = now.iter().map(|(key, value)| (Bytes::from(*key), (*value).clone())).collect();
            let form = Form::Keys { namespace, numbers: before, layout: Layout::NOW, changes };
            let deletes = now.iter().all(|(_, value)| value.is_none()).then_some(namespace);
            let taken = self.taken(&changed.records, deletes.is_some(), self.before[at]);
            self.source.apply(&changed.records);
            self.plan.push(Step { form, deletes, records: changed.records }, taken);
            self.plan.numbers[at].1 = changed.numbers;
            (rest, at_once) = (later, (at_once + at_once / 4 + 1).min(most));
        }
        Ok(())
    }

    /// What records of an ordered namespace take. The drive has those whose numbers were given before the transaction, except
    /// for a first root.
    fn taken(&mut self, records: &Records, are_deletes: bool, before: Numbers) -> Taken {
        if are_deletes {
            let values = records.iter().filter(|(name, _)| !is_node(*name)).map(|(name, _)| *name);
            self.plan.values.gone.extend(values);
        }
        let changed = &self.source.changed;
        let planned = |name: &Name| match is_node(*name) {
            true => {
                changed.get(name).map(|node| node.as_ref().map_or(0, |node| Footprint::of(node.len()).chunks))
            }
            // it is deleted before
            false => are_deletes.then_some(0),
        };
        Taken::of(records, planned, |(_, key)| {
            number_of(key).is_some_and(|(number, _)| before.has_given(number))
        })
    }

    fn fits(&self, records: &Records) -> bool {
        let nodes = records.iter().filter(|(name, _)| is_node(*name));
        self.limits.hold_step(records, nodes.map(|(_, node)| chunks_of(node)).sum())
    }
}
