//! Group commit for all threads: one sync serves all waiting commits, and one `put` serves those that would otherwise
//! not share a page.
//!
//! The first thread does the work for everyone in the queue; the others find their results when their turn comes.
//! Waiting commits hold exclusive locks on everything that they change, so no record is in a `put` twice. The effect of
//! a commit on the trees of ordered namespaces is computed in its turn: only the thread that does the work changes
//! them.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tantalum::{Device, NamespaceId, Nanoseconds, Status};

use crate::canary::{Guard, out};
use crate::drive::{Drive, Records, kv_records};
use crate::failure::Failure;
use crate::keys::borrowed;
use crate::large::sizes;
use crate::large_values::LargeValues;
use crate::record::{Bytes, Name, OrderedChanges, Value};
use crate::redo::{PutLimits, Redo};
use crate::tree::{Changed, Numbers, change, is_node, number_of, page, rebuild};

/// Room that only deletes may use: in an ordered namespace they write nodes, and a full store must still be able to
/// delete.
pub(crate) const RESERVE_BYTES: usize = 512 << 10;

/// What a transaction changes.
#[derive(Default)]
pub(crate) struct Work {
    pub records: Records,
    pub ordered: Vec<(NamespaceId, OrderedChanges)>,
    /// Whether a value is large.
    pub has_large: bool,
    /// When its client commits, if it runs in the drive's time.
    pub at_ns: Option<Nanoseconds>,
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
        let mut ordered = self.work.ordered.iter().flat_map(|(_, changes)| changes.values());
        ordered.any(Option::is_some) || self.work.records.iter().any(|(_, value)| value.is_some())
    }

    /// Whether its records are known, and fit in one `put`.
    fn is_plain(&self, limits: PutLimits) -> bool {
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
    limits: PutLimits,
}

impl Commits {
    pub fn new(limits: PutLimits, redo: Redo, values: LargeValues) -> Commits {
        let leader = Leader { numbers: FxHashMap::default(), redo, values };
        Commits { queue: Mutex::default(), leader: Mutex::new(leader), limits }
    }

    /// Does a transaction's work; returns when it is as durable as requested.
    pub fn commit(&self, drive: &Drive, work: Work) -> Ended {
        let pending = Arc::new(Pending::new(work));
        self.queue.lock().push(pending.clone());
        let mut leader = self.leader.lock();
        loop {
            if let Some(ended) = pending.ended.lock().take() {
                return ended;
            }
            let together = self.take();
            leader.lead(drive, self.limits, &together);
        }
    }

    /// Makes another change to the drive, durably.
    pub fn alone<T>(
        &self,
        drive: &Drive,
        work: impl FnOnce(&mut Device) -> Result<T, Status>,
    ) -> Result<T, Failure> {
        alone(&mut self.leader.lock(), drive, work)
    }

    /// Deletes a namespace by that change, and then the large values that were in it.
    pub fn delete_namespace(
        &self,
        drive: &Drive,
        namespace: NamespaceId,
        work: impl FnOnce(&mut Device) -> Result<(), Status>,
    ) -> Result<(), Failure> {
        let mut leader = self.leader.lock();
        alone(&mut leader, drive, work)?;
        leader.values.forget_namespace(drive, namespace);
        Ok(())
    }

    /// Builds the index of an ordered namespace anew, from what can be read of it, and deletes values that nothing names.
    pub fn rebuild_index(&self, drive: &Drive, namespace: NamespaceId) -> Result<(), Failure> {
        let mut leader = self.leader.lock();
        let done = leader.rebuild_index(drive, self.limits, namespace).and_then(|()| drive.sync());
        if let Some(cause) = done.as_ref().err().and_then(Failure::stops) {
            drive.doubt_unsynced(cause);
        }
        done
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
        queue.drain(..count).collect()
    }
}

/// Makes a change to the drive, durably.
fn alone<T>(
    _leader: &mut Leader,
    drive: &Drive,
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
    fn lead(&mut self, drive: &Drive, limits: PutLimits, together: &[Arc<Pending>]) {
        self.values.tidy(drive);
        let mut results = self.put_all(drive, limits, together);
        if let Err(failure) = drive.sync() {
            // before anyone gives up the locks on what it has changed
            if let Some(cause) = failure.stops() {
                drive.doubt_unsynced(cause);
            }
            let done = results.iter_mut().filter(|(_, ended)| ended.is_ok());
            done.for_each(|(_, ended)| *ended = Err(failure.clone()));
        }
        for (pending, ended) in results {
            *pending.ended.lock() = Some(ended);
        }
    }

    /// Whether these records leave the room that deletes may need.
    fn leaves_reserve<'a>(
        &self,
        drive: &Drive,
        records: impl Iterator<Item = &'a (Name, Option<Value>)>,
    ) -> bool {
        let sizes = records.filter_map(|(_, value)| value.as_ref()).flat_map(|value| sizes(value.len()));
        drive.has_room(sizes.chain([RESERVE_BYTES]))
    }

    /// The same, after programming what waits for a full page: until then the records that it replaces take room.
    fn leaves_reserve_at_last(&self, drive: &Drive, records: &Records) -> Result<bool, Failure> {
        if self.leaves_reserve(drive, records.iter()) {
            return Ok(true);
        }
        self.redo.settle(drive)?;
        Ok(self.leaves_reserve(drive, records.iter()))
    }

    /// Small transactions are put separately where that takes no page of the drive, because they then fill units better
    /// than records that must stay together. The others go into one `put`. Those whose records are not known yet, or
    /// are too many, follow one by one. When there is little room, all of them do, so that only those fail that must.
    fn put_all<'a>(
        &mut self,
        drive: &Drive,
        limits: PutLimits,
        together: &'a [Arc<Pending>],
    ) -> Vec<(&'a Pending, Ended)> {
        let all = together.iter().flat_map(|pending| &pending.work.records);
        if !self.leaves_reserve(drive, all) {
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
        let mut results: Vec<_> = shared.into_iter().zip(ended).collect();
        results.extend(alone.into_iter().map(|pending| (pending, put(drive, &[pending]))));
        results
            .extend(others.into_iter().map(|pending| (pending, self.put_computed(drive, limits, pending))));
        results
    }

    fn rebuild_index(
        &mut self,
        drive: &Drive,
        limits: PutLimits,
        namespace: NamespaceId,
    ) -> Result<(), Failure> {
        let entries = entries_of(drive, namespace)?;
        let (mut last, mut old) = (0, Records::new());
        let named: HashSet<u64> = entries.iter().map(|(_, number)| *number).collect();
        for key in drive.list(namespace, None, usize::MAX)? {
            let Some((number, is_value)) = number_of(&key) else { continue };
            last = last.max(number);
            if is_node((namespace, key)) || is_value && !named.contains(&number) {
                old.push(((namespace, key), None));
            }
        }
        let Changed { mut records, numbers } = rebuild(drive, namespace, entries, Numbers::after(last))?;
        let new: HashSet<Name> = records.iter().map(|(name, _)| *name).collect();
        records.extend(old.into_iter().filter(|(name, _)| !new.contains(name)));
        self.put_records(drive, limits, records, None)?;
        self.numbers.insert(namespace, numbers);
        Ok(())
    }

    /// Puts records, all or nothing; of large values their parts first.
    fn put_records(
        &mut self,
        drive: &Drive,
        limits: PutLimits,
        mut records: Records,
        at_ns: Option<Nanoseconds>,
    ) -> Ended {
        let change = self.values.put_parts(drive, &mut records)?;
        let done = match limits.hold(&records) {
            true if out(Guard::NodesApart) => put_nodes_apart(drive, &records),
            true => drive.put(&records, at_ns),
            false if out(Guard::LargeInParts) => put_in_parts(drive, limits, &records),
            false => self.redo.put(drive, limits, &records),
        };
        match &done {
            Ok(_) => self.values.committed(drive, change),
            Err(failure) if failure.stops().is_none() => self.values.give_up(drive, change),
            // they may belong to values
            Err(_) => {}
        }
        done
    }

    /// Computes the records of a transaction and puts them.
    fn put_computed(&mut self, drive: &Drive, limits: PutLimits, pending: &Pending) -> Ended {
        let mut records = pending.work.records.clone();
        let mut left = Vec::with_capacity(pending.work.ordered.len());
        for (namespace, changes) in &pending.work.ordered {
            let numbers = match self.numbers.get(namespace) {
                Some(numbers) => *numbers,
                None => Numbers::read(drive, *namespace)?,
            };
            let changed = change(drive, *namespace, changes, numbers)?;
            records.extend(changed.records);
            left.push((*namespace, changed.numbers));
        }
        if pending.grows() && !self.leaves_reserve_at_last(drive, &records)? {
            return Err(Failure::Drive(Status::CapacityExceeded));
        }
        let done_ns = self.put_records(drive, limits, records, pending.work.at_ns)?;
        self.numbers.extend(left);
        Ok(done_ns)
    }
}

/// The keys that can be found in a tree, with the numbers of their values.
fn entries_of(drive: &Drive, namespace: NamespaceId) -> Result<Vec<(Bytes, u64)>, Failure> {
    let (mut entries, mut rest) = (Vec::new(), Some((Bound::Unbounded, Bound::Unbounded)));
    while let Some(range) = rest {
        let found = page(drive, namespace, borrowed(&range), false, usize::MAX)?;
        entries.extend(found.entries);
        rest = found.gap.and_then(|gap| gap.divide(range, false).1);
    }
    Ok(entries)
}

/// One `put`; if the drive refuses it, one for each, so that only those fail that must.
fn put_together(drive: &Drive, together: &[&Pending]) -> Vec<Ended> {
    match put(drive, together) {
        Ok(done_ns) => vec![Ok(done_ns); together.len()],
        Err(failure) if together.len() == 1 || failure.stops().is_some() => {
            vec![Err(failure); together.len()]
        }
        Err(_) => together.iter().map(|pending| put(drive, &[pending])).collect(),
    }
}

fn put(drive: &Drive, together: &[&Pending]) -> Ended {
    let at_ns = together.iter().filter_map(|pending| pending.work.at_ns).max();
    match together {
        [one] => drive.put(&one.work.records, at_ns),
        all => {
            let records = all.iter().flat_map(|pending| pending.work.records.iter().cloned());
            drive.put(&records.collect(), at_ns)
        }
    }
}

/// What [`Guard::NodesApart`] protects against.
fn put_nodes_apart(drive: &Drive, records: &Records) -> Ended {
    let (nodes, others): (Records, Records) = records.iter().cloned().partition(|(name, _)| is_node(*name));
    drive.put(&others, None)?;
    drive.put(&nodes, None)
}

/// What [`Guard::LargeInParts`] protects against.
fn put_in_parts(drive: &Drive, limits: PutLimits, records: &Records) -> Ended {
    let parts: Vec<Records> = records.chunks(limits.records / 2).map(<[_]>::to_vec).collect();
    drive.put_parts(&parts, None).map_err(|(_, failure)| failure)
}

#[cfg(test)]
mod tests {
    use tantalum::{Access, Command, Key, NamespaceAttributes};

    use super::*;
    use crate::options::{Options, Sync};

    const LIMITS: PutLimits = PutLimits { records: 100, bytes: 1 << 20 };

    /// A new drive in an image, with a namespace.
    fn drive(folder: &std::path::Path) -> (Drive, NamespaceId) {
        let path = folder.join("app.tant");
        Options::default().capacity_bytes(64 << 20).sync(Sync::None).ensure_image(&path).unwrap();
        let mut device = Device::open_as(&path, Access::Ordered).unwrap();
        let attributes = NamespaceAttributes::default();
        let now_ns = device.time_ns();
        let created = device.submit(Command::CreateNamespace { attributes }, now_ns).unwrap();
        let namespace = created.namespace.unwrap();
        (Drive::new(device, namespace, 1 << 20, 1 << 20), namespace)
    }

    fn work(name: Name, bytes: usize) -> Work {
        Work { records: vec![(name, Some(vec![1; bytes].into()))], ..Work::default() }
    }

    #[test]
    fn what_was_committed_needs_no_sync_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, namespace) = drive(folder.path());
        let commits = Commits::new(LIMITS, Redo::new(namespace), LargeValues::none(namespace));
        let name = (namespace, Key::new(b"a").unwrap());
        assert!(commits.commit(&drive, work(name, 100)).is_ok());
        assert!(drive.device().lock().sync_begin().unwrap().is_none(), "the disk has it");
    }

    /// Otherwise a snapshot, or a backup of it, could have a commit that the disk does not have.
    #[test]
    fn nothing_is_at_rest_while_others_put_or_sync() {
        let folder = tempfile::tempdir().unwrap();
        let (drive, namespace) = drive(folder.path());
        let commits = Commits::new(LIMITS, Redo::new(namespace), LargeValues::none(namespace));
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
