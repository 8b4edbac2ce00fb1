//! Group commit for all threads: one sync serves all waiting commits, and one `put` serves those that would otherwise
//! not share a page.
//!
//! The first thread does the work for everyone in the queue; the others find their results when their turn comes.
//! Waiting commits hold exclusive locks on everything that they change, so no record is in a `put` twice. The effect of
//! a commit on the trees of ordered namespaces is computed in its turn: only the thread that does the work changes
//! them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tantalum::{Device, Footprint, NamespaceId, Nanoseconds, Status};
use tantalum_canaries::guard;

use crate::failure::Failure;
use crate::large::{PART_BYTES, sizes};
use crate::large_values::{Change, LargeValues};
use crate::limits::Limits;
use crate::plan::{Plan, Planner};
use crate::record::{Name, OrderedChanges, Value};
use crate::record_store::{RecordStore, Records, kv_records};
use crate::redo::Redo;
use crate::space::{compact, finish_compacting, in_steps, most_steps, tidy};
use crate::tree::{Layout, Mended, Numbers, change, is_node, mend, number_of};

/// What a transaction changes.
#[derive(Clone, Default)]
pub(crate) struct Work {
    pub records: Records,
    pub ordered: Vec<(NamespaceId, OrderedChanges)>,
    /// Whether a value is large.
    pub has_large: bool,
    /// When its client commits, if it runs in the drive's time.
    pub at_ns: Option<Nanoseconds>,
}

impl Work {
    /// How many keys it changes.
    fn len(&self) -> usize {
        self.records.len() + self.ordered.iter().map(|(_, changes)| changes.len()).sum::<usize>()
    }

    /// The values that it puts.
    fn values(&self) -> impl Iterator<Item = &Value> {
        let ordered = self.ordered.iter().flat_map(|(_, changes)| changes.iter().map(|(_, value)| value));
        self.records.iter().map(|(_, value)| value).chain(ordered).flatten()
    }

    /// Whether it puts values that lie in leaves.
    pub fn has_values_in_leaves(&self) -> bool {
        let mut ordered = self.ordered.iter().flat_map(|(_, changes)| changes);
        ordered.any(|(key, value)| value.as_ref().is_some_and(|value| Layout::NOW.is_here(key, value)))
    }

    /// The same, to be changed.
    fn values_mut(&mut self) -> impl Iterator<Item = &mut Option<Value>> {
        let ordered =
            self.ordered.iter_mut().flat_map(|(_, changes)| changes.iter_mut().map(|(_, value)| value));
        self.records.iter_mut().map(|(_, value)| value).chain(ordered)
    }
}

/// Work of one transaction, and the result of its commit.
struct Pending {
    work: Work,
    bytes: usize,
    ended: Mutex<Option<Ended>>,
}

/// When a commit was done, or why it failed.
type Ended = Result<Nanoseconds, Failure>;

impl Pending {
    fn new(work: Work) -> Pending {
        let bytes = work.records.iter().map(|(_, value)| value.as_ref().map_or(0, |value| value.len())).sum();
        Pending { work, bytes, ended: Mutex::new(None) }
    }

    /// Whether it does more than delete.
    fn grows(&self) -> bool {
        self.work.values().next().is_some()
    }

    /// Whether its records are known, and fit in one `put`.
    fn is_plain(&self, limits: &Limits) -> bool {
        self.work.ordered.is_empty()
            && !self.work.has_large
            && self.work.records.len() <= limits.records
            && self.bytes <= limits.bytes
    }
}

/// State of the thread that does the work.
struct Leader {
    /// Numbers for records of ordered namespaces.
    numbers: FxHashMap<NamespaceId, Numbers>,
    redo: Redo,
    values: LargeValues,
}

/// The queue.
pub(crate) struct Commits {
    queue: Mutex<Vec<Arc<Pending>>>,
    /// Held by the thread that does the work, and by anything else that changes the drive.
    leader: Mutex<Leader>,
    limits: Limits,
    /// Whether there may be leaves: an ordered namespace.
    has_leaves: AtomicBool,
}

impl Commits {
    pub fn new(limits: Limits, redo: Redo, values: LargeValues) -> Commits {
        let leader = Leader { numbers: FxHashMap::default(), redo, values };
        Commits {
            queue: Mutex::default(),
            leader: Mutex::new(leader),
            limits,
            has_leaves: AtomicBool::new(false),
        }
    }

    /// There may be leaves from now on.
    pub fn expect_leaves(&self) {
        self.has_leaves.store(true, Ordering::Relaxed);
    }

    /// What a `put` takes, and what must be left.
    pub fn limits(&self) -> Limits {
        let mut limits = self.limits;
        if self.has_leaves.load(Ordering::Relaxed) {
            limits.reserve = limits.reserve + limits.leaf_slack;
        }
        limits
    }

    /// Does a transaction's work; returns when it is as durable as requested.
    pub fn commit(&self, drive: &RecordStore, work: Work) -> Ended {
        let pending = Arc::new(Pending::new(work));
        self.queue.lock().push(pending.clone());
        let mut leader = self.leader.lock();
        loop {
            if let Some(ended) = pending.ended.lock().take() {
                return ended;
            }
            let together = self.take();
            assert!(!together.is_empty(), "a commit that has not ended is not in the queue");
            leader.lead(drive, &self.limits(), &together);
        }
    }

    /// Makes another change to the drive, durably.
    pub fn alone<T>(
        &self,
        drive: &RecordStore,
        work: impl FnOnce(&mut Device) -> Result<T, Status>,
    ) -> Result<T, Failure> {
        alone(&mut self.leader.lock(), drive, work)
    }

    /// Deletes a namespace by that change, and then the large values that were in it.
    pub fn delete_namespace(
        &self,
        drive: &RecordStore,
        namespace: NamespaceId,
        work: impl FnOnce(&mut Device) -> Result<(), Status>,
    ) -> Result<(), Failure> {
        let mut leader = self.leader.lock();
        alone(&mut leader, drive, work)?;
        leader.values.forget_namespace(drive, namespace);
        Ok(())
    }

    /// Takes out of the index of an ordered namespace what cannot be read of it, and deletes values that nothing names.
    pub fn mend_index(&self, drive: &RecordStore, namespace: NamespaceId) -> Result<(), Failure> {
        let mut leader = self.leader.lock();
        let done = leader.mend_index(drive, &self.limits(), namespace).and_then(|()| drive.sync());
        if let Some(cause) = done.as_ref().err().and_then(Failure::stops) {
            drive.doubt_unsynced(cause);
        }
        done
    }

    /// Gives space back that nobody needs. Others commit in between.
    pub fn compact(&self, drive: &RecordStore) -> Result<(), Failure> {
        let most = most_steps(&drive.device().lock());
        in_steps(most, || self.alone(drive, compact))?;
        self.alone(drive, finish_compacting)
    }

    /// Calls a function while everything put is as durable as requested, and nothing is being put.
    pub fn at_rest<T>(&self, work: impl FnOnce() -> T) -> T {
        let _leader = self.leader.lock();
        work()
    }

    /// Those at the head of the queue that fit in one `put`, or the first.
    fn take(&self) -> Vec<Arc<Pending>> {
        let mut queue = self.queue.lock();
        let (mut records, mut bytes) = (0, 0);
        let fitting = queue.iter().take_while(|pending| {
            records += pending.work.records.len();
            bytes += pending.bytes;
            records <= self.limits.records && bytes <= self.limits.bytes
        });
        let count = fitting.count().max(1).min(queue.len());
        let together: Vec<Arc<Pending>> = queue.drain(..count).collect();
        debug_assert!(
            together.iter().all(|pending| pending.ended.lock().is_none()),
            "a commit that has ended is still in the queue"
        );
        together
    }
}

/// Makes a change to the drive, durably.
fn alone<T>(
    _leader: &mut Leader,
    drive: &RecordStore,
    work: impl FnOnce(&mut Device) -> Result<T, Status>,
) -> Result<T, Failure> {
    let done = work(&mut drive.device().lock()).map_err(Failure::Drive);
    let done = done.and_then(|done| drive.sync().map(|()| done));
    if let Some(cause) = done.as_ref().err().and_then(Failure::stops) {
        drive.doubt_unsynced(cause);
    }
    done
}

impl Leader {
    /// Does the work of all, and delivers each result.
    fn lead(&mut self, drive: &RecordStore, limits: &Limits, together: &[Arc<Pending>]) {
        debug_assert!(change_apart(together), "two transactions that commit have changed the same record");
        self.values.tidy(drive);
        let mut results = self.put_all(drive, limits, together);
        assert_eq!(results.len(), together.len(), "results, and transactions that commit");
        if let Err(failure) = drive.sync() {
            // before anyone gives up the locks on what it has changed
            if let Some(cause) = failure.stops() {
                drive.doubt_unsynced(cause);
            }
            let done = results.iter_mut().filter(|(_, ended)| ended.is_ok());
            done.for_each(|(_, ended)| *ended = Err(failure.clone()));
        }
        for (pending, ended) in results {
            let before = pending.ended.lock().replace(ended);
            assert!(before.is_none(), "a commit ends twice, before with {before:?}");
        }
        // every commit is durable; if this fails in such a way that it matters, the drive takes no more changes
        let _ = tidy(&mut drive.device().lock());
    }

    /// Whether records that take this leave the room that deletes may need; after programming what waits for a full page, if
    /// they must be: until then the records that it replaces take room.
    fn leaves_reserve(
        &self,
        drive: &RecordStore,
        limits: &Limits,
        footprint: Footprint,
    ) -> Result<bool, Failure> {
        let footprint = footprint + guard!(ReserveTaken, limits.reserve);
        if drive.has_room(footprint) {
            return Ok(true);
        }
        self.redo.settle(drive)?;
        Ok(drive.has_room_at_last(footprint))
    }

    /// Small transactions are put separately where that takes no page of the drive, because they then fill units better
    /// than records that must stay together. The others go into one `put`. Those whose records are not known yet, or
    /// are too many, follow one by one. When there is little room, all of them do, so that only those fail that must.
    fn put_all<'a>(
        &mut self,
        drive: &RecordStore,
        limits: &Limits,
        together: &'a [Arc<Pending>],
    ) -> Vec<(&'a Pending, Ended)> {
        let all = together.iter().flat_map(|pending| pending.work.values());
        if !drive.has_room(footprint_of_values(all) + limits.reserve) {
            let alone =
                together.iter().map(|pending| (&**pending, self.put_computed(drive, limits, pending)));
            return alone.collect();
        }
        let pending = together.iter().map(|pending| &**pending);
        let (plain, others): (Vec<&Pending>, Vec<&Pending>) = pending
            .partition(|pending| pending.is_plain(limits) && !self.values.concern(&pending.work.records));
        let waits = |pending: &&Pending| drive.device().lock().put_waits(&kv_records(&pending.work.records));
        let is_alone = plain.len() == 1;
        let (alone, shared): (Vec<&Pending>, Vec<&Pending>) =
            plain.into_iter().partition(|pending| is_alone || waits(pending));
        let ended = if shared.is_empty() { Vec::new() } else { put_together(drive, &shared) };
        assert_eq!(ended.len(), shared.len(), "results of a put, and transactions in it");
        let mut results: Vec<_> = shared.into_iter().zip(ended).collect();
        results.extend(alone.into_iter().map(|pending| (pending, put(drive, &[pending]))));
        results
            .extend(others.into_iter().map(|pending| (pending, self.put_computed(drive, limits, pending))));
        results
    }

    fn mend_index(
        &mut self,
        drive: &RecordStore,
        limits: &Limits,
        namespace: NamespaceId,
    ) -> Result<(), Failure> {
        let Mended { mut records, named } = mend(drive, namespace)?;
        let changed: HashSet<Name> = records.iter().map(|(name, _)| *name).collect();
        let mut last = 0;
        for key in drive.list(namespace, None, usize::MAX)? {
            let (Some((number, is_value)), name) = (number_of(&key), (namespace, key)) else { continue };
            last = last.max(number);
            if (is_value || is_node(name)) && !named.contains(&number) && !changed.contains(&name) {
                records.push((name, None));
            }
        }
        // its record may be lost as well
        let numbers = Numbers::after(last);
        records.push(numbers.record(namespace));
        let mut change = Change::default();
        let descriptions = self.values.describe(drive, records.iter(), &mut change)?;
        records.extend(descriptions);
        self.put_index(drive, limits, records)?;
        self.values.committed(drive, change);
        self.numbers.insert(namespace, numbers);
        Ok(())
    }

    /// Puts records of an index, all or nothing.
    fn put_index(&mut self, drive: &RecordStore, limits: &Limits, records: Records) -> Ended {
        match limits.hold(&records) {
            true => drive.put(&records, None),
            false => {
                let mut plan = Plan::default();
                plan.add(limits, records);
                self.redo.put(drive, plan, Footprint::default())
            }
        }
    }

    /// Computes the records of a transaction and puts them; of large values their parts first.
    fn put_computed(&mut self, drive: &RecordStore, limits: &Limits, pending: &Pending) -> Ended {
        let mut change = Change::default();
        let done = self.put_with_parts(drive, limits, pending, &mut change);
        match &done {
            Ok(_) => self.values.committed(drive, change),
            Err(failure) if failure.stops().is_none() => self.values.give_up(drive, change),
            // they may belong to values
            Err(_) => {}
        }
        done
    }

    fn put_with_parts(
        &mut self,
        drive: &RecordStore,
        limits: &Limits,
        pending: &Pending,
        change: &mut Change,
    ) -> Ended {
        let work = &pending.work;
        if pending.grows() && !self.leaves_reserve(drive, limits, footprint_of_values(work.values()))? {
            return Err(Failure::Drive(Status::CapacityExceeded));
        }
        if !work.has_large {
            return self.put_work(drive, limits, work, change);
        }
        let mut work = work.clone();
        work.values_mut().try_for_each(|value| self.values.put_parts(drive, value, change))?;
        self.put_work(drive, limits, &work, change)
    }

    /// Puts everything in one step, or in several that are logged first.
    fn put_work(&mut self, drive: &RecordStore, limits: &Limits, work: &Work, change: &mut Change) -> Ended {
        debug_assert!(
            work.values().all(|value| value.len() <= PART_BYTES),
            "a value that is put in place of its head has more than {PART_BYTES} bytes"
        );
        let grows = work.values().next().is_some();
        let refused = || Err(Failure::Drive(Status::CapacityExceeded));
        if work.len() <= limits.records {
            let (mut records, numbers) = self.computed(drive, work)?;
            records.extend(self.values.describe(drive, records.iter(), change)?);
            if limits.hold(&records) {
                let footprint = footprint_of_values(records.iter().filter_map(|(_, value)| value.as_ref()));
                if grows && !self.leaves_reserve(drive, limits, footprint)? {
                    return refused();
                }
                // deletes that change more nodes than there is room for at once do so step by step
                if grows || limits.reserve_holds(footprint) || drive.has_room(footprint) {
                    let done_ns = guard!(NodesApart(drive, &records), drive.put(&records, work.at_ns))?;
                    self.go_on_from(numbers);
                    return Ok(done_ns);
                }
            }
        }
        let numbers_of = |namespace| self.numbers_of(drive, namespace);
        let mut plan = Planner::new(drive, limits).plan(&work.records, &work.ordered, numbers_of)?;
        plan.add(limits, self.values.describe(drive, plan.records(), change)?);
        let after = if grows { guard!(ReserveTaken, limits.reserve) } else { Footprint::default() };
        let numbers = plan.numbers.clone();
        let done_ns = guard!(LargeInParts(drive, &plan), self.redo.put(drive, plan, after))?;
        self.go_on_from(numbers);
        Ok(done_ns)
    }

    /// The next numbers of ordered namespaces, after a commit. They never go back: none is used twice.
    fn go_on_from(&mut self, numbers: Vec<(NamespaceId, Numbers)>) {
        for (namespace, now) in numbers {
            if let Some(before) = self.numbers.insert(namespace, now) {
                assert!(now.follow(before), "numbers of {namespace:?} are {before:?} and then {now:?}");
            }
        }
    }

    /// The numbers of an ordered namespace.
    fn numbers_of(&self, drive: &RecordStore, namespace: NamespaceId) -> Result<Numbers, Failure> {
        self.numbers.get(&namespace).map_or_else(|| Numbers::read(drive, namespace), |numbers| Ok(*numbers))
    }

    /// The records of a transaction, and the numbers of ordered namespaces after it.
    fn computed(
        &self,
        drive: &RecordStore,
        work: &Work,
    ) -> Result<(Records, Vec<(NamespaceId, Numbers)>), Failure> {
        let mut records = work.records.clone();
        let mut left = Vec::with_capacity(work.ordered.len());
        for (namespace, changes) in &work.ordered {
            let changes: Vec<_> = changes.iter().map(|(key, value)| (&key[..], value)).collect();
            let changed =
                change(drive, *namespace, &changes, self.numbers_of(drive, *namespace)?, Layout::NOW)?;
            records.extend(changed.records);
            left.push((*namespace, changed.numbers));
        }
        Ok((records, left))
    }
}

/// Whether no record is changed by two of these: who commits has locked what it changes.
fn change_apart(together: &[Arc<Pending>]) -> bool {
    let (mut records, mut keys) = (HashSet::new(), HashSet::new());
    together.iter().all(|pending| {
        let mut ordered = pending
            .work
            .ordered
            .iter()
            .flat_map(|(of, changes)| changes.iter().map(move |(key, _)| (of, &key[..])));
        pending.work.records.iter().all(|(name, _)| records.insert(name))
            && ordered.all(|key| keys.insert(key))
    })
}

/// What values take.
fn footprint_of_values<'a>(values: impl Iterator<Item = &'a Value>) -> Footprint {
    values.flat_map(|value| sizes(value.len())).map(Footprint::of).sum()
}

/// One `put`; if the drive refuses it, one for each, so that only those fail that must.
fn put_together(drive: &RecordStore, together: &[&Pending]) -> Vec<Ended> {
    match put(drive, together) {
        Ok(done_ns) => vec![Ok(done_ns); together.len()],
        Err(failure) if together.len() == 1 || failure.stops().is_some() => {
            vec![Err(failure); together.len()]
        }
        Err(_) => together.iter().map(|pending| put(drive, &[pending])).collect(),
    }
}

fn put(drive: &RecordStore, together: &[&Pending]) -> Ended {
    let at_ns = together.iter().filter_map(|pending| pending.work.at_ns).max();
    match together {
        [one] => drive.put(&one.work.records, at_ns),
        all => {
            let records = all.iter().flat_map(|pending| pending.work.records.iter().cloned());
            drive.put(&records.collect(), at_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use tantalum::{Access, Command, Key, NamespaceAttributes};

    use super::*;
    use crate::options::{Options, Sync};

    /// A new drive in an image, with a namespace.
    fn drive(folder: &std::path::Path) -> (RecordStore, NamespaceId) {
        let path = folder.join("app.tant");
        Options::default().capacity_bytes(64 << 20).sync(Sync::None).ensure_image(&path).unwrap();
        let mut device = Device::open_as(&path, Access::Ordered).unwrap();
        let attributes = NamespaceAttributes::default();
        let now_ns = device.time_ns();
        let create =
            |namespace: &mut _| device.submit(Command::CreateNamespace { attributes, namespace }, now_ns);
        let namespace = tantalum::result_of(create).unwrap();
        (RecordStore::new(device, namespace, 1 << 20, 1 << 20), namespace)
    }

    fn work(name: Name, bytes: usize) -> Work {
        Work { records: vec![(name, Some(vec![1; bytes].into()))], ..Work::default() }
    }

    #[test]
    fn what_was_committed_needs_no_sync_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, namespace) = drive(folder.path());
        let commits = Commits::new(
            Limits::of(&drive.device().lock()),
            Redo::new(namespace),
            LargeValues::none(namespace),
        );
        let name = (namespace, Key::new(b"a").unwrap());
        assert!(commits.commit(&drive, work(name, 100)).is_ok());
        assert!(drive.device().lock().sync_begin().unwrap().is_none(), "the disk has it");
    }

    /// Otherwise a snapshot, or a backup of it, could have a commit that the disk does not have.
    #[test]
    fn nothing_is_at_rest_while_others_put_or_sync() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, namespace) = drive(folder.path());
        let commits = Commits::new(
            Limits::of(&drive.device().lock()),
            Redo::new(namespace),
            LargeValues::none(namespace),
        );
        let (begun, done) = (std::sync::Barrier::new(2), std::sync::atomic::AtomicBool::new(false));
        let is_done = || done.load(std::sync::atomic::Ordering::SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let put = commits.alone(&drive, |_| {
                    begun.wait();
                    std::thread::sleep(std::time::Duration::from_millis(50));
                    done.store(true, std::sync::atomic::Ordering::SeqCst);
                    Ok(())
                });
                put.unwrap();
            });
            begun.wait();
            assert!(commits.at_rest(is_done), "a snapshot was opened in the middle");
        });
    }

    #[test]
    fn of_transactions_that_go_together_only_those_fail_that_must() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, namespace) = drive(folder.path());
        let name = |key: &[u8]| (namespace, Key::new(key).unwrap());
        let missing = (NamespaceId(namespace.0 + 1), Key::new(b"b").unwrap());
        let all = [name(b"a"), missing, name(b"c")].map(|name| Pending::new(work(name, 100)));
        let ended = put_together(&drive, &all.iter().collect::<Vec<_>>());
        assert_eq!(ended.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        for key in [b"a", b"c"] {
            drive.cache.remove(&name(key));
            assert!(drive.read(name(key), &mut None).unwrap().is_some());
        }
    }
}
