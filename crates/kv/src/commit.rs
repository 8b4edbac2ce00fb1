//! Group commit for all threads: one sync serves all waiting commits, and one `put` serves those that would not share a
//! page otherwise.
//!
//! The first thread does the work of all in the queue; the others find their result when it is their turn. Waiting
//! commits hold exclusive locks on all that they change, so no record is in a `put` twice.

use std::sync::Arc;

use parking_lot::Mutex;
use tantalum::{Command, Device, KvRecord, Nanoseconds, Status};

use crate::error::Error;
use crate::record::{Name, Value};

/// Records of one transaction, and the result of its commit.
pub(crate) struct Pending {
    records: Vec<(Name, Option<Value>)>,
    bytes: usize,
    /// When its client commits, if it lives in the drive's time.
    at_ns: Option<Nanoseconds>,
    ended: Mutex<Option<Ended>>,
}

/// When a commit was done, or why it failed.
type Ended = Result<Nanoseconds, Failure>;

/// Why a commit failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Drive(Status),
    Sync(String),
}

impl Failure {
    /// Whether it is unknown what is on the drive.
    pub fn stops(&self) -> Option<String> {
        match self {
            Failure::Drive(status) => status.leaves_doubt().then(|| status.to_string()),
            Failure::Sync(reason) => Some(reason.clone()),
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        match failure {
            Failure::Drive(Status::NoSuchNamespace { .. }) => Error::NoSuchNamespace,
            Failure::Drive(status) => Error::Drive(status),
            Failure::Sync(reason) => Error::Stopped { reason },
        }
    }
}

/// The queue.
#[derive(Default)]
pub(crate) struct Commits {
    queue: Mutex<Vec<Arc<Pending>>>,
    /// Held by the thread that does the work, and by anyone else who changes the drive.
    leader: Mutex<()>,
}

/// The most records and bytes of values of one `put`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutLimits {
    pub records: usize,
    pub bytes: usize,
}

impl Commits {
    /// Puts a transaction's records; returns when they are as durable as requested.
    pub fn commit(
        &self,
        device: &Mutex<Device>,
        limits: PutLimits,
        records: Vec<(Name, Option<Value>)>,
        at_ns: Option<Nanoseconds>,
    ) -> Ended {
        let bytes = records.iter().map(|(_, value)| value.as_ref().map_or(0, |value| value.len())).sum();
        let pending = Arc::new(Pending { records, bytes, at_ns, ended: Mutex::new(None) });
        self.queue.lock().push(pending.clone());
        let _leader = self.leader.lock();
        loop {
            if let Some(ended) = pending.ended.lock().take() {
                return ended;
            }
            let together = self.take(limits);
            lead(device, &together);
        }
    }

    /// Makes another change to the drive, durably.
    pub fn alone<T>(
        &self,
        device: &Mutex<Device>,
        work: impl FnOnce(&mut Device) -> Result<T, Status>,
    ) -> Result<T, Failure> {
        let _leader = self.leader.lock();
        let done = work(&mut device.lock()).map_err(Failure::Drive)?;
        sync(device)?;
        Ok(done)
    }

    /// Those at the head of the queue that fit in one `put`.
    fn take(&self, limits: PutLimits) -> Vec<Arc<Pending>> {
        let mut queue = self.queue.lock();
        let (mut records, mut bytes) = (0, 0);
        let fitting = queue.iter().take_while(|pending| {
            records += pending.records.len();
            bytes += pending.bytes;
            records <= limits.records && bytes <= limits.bytes
        });
        let count = fitting.count();
        queue.drain(..count).collect()
    }
}

/// Does the work of all, and gives each its result.
fn lead(device: &Mutex<Device>, together: &[Arc<Pending>]) {
    let mut results = put_all(&mut device.lock(), together);
    if let Err(failure) = sync(device) {
        let done = results.iter_mut().filter(|(_, ended)| ended.is_ok());
        done.for_each(|(_, ended)| *ended = Err(failure.clone()));
    }
    for (pending, ended) in results {
        *pending.ended.lock() = Some(ended);
    }
}

/// Small transactions are put separately where that takes no page of the drive, because they then fill units better
/// than records that must stay together. The others go into one `put`.
fn put_all<'a>(device: &mut Device, together: &'a [Arc<Pending>]) -> Vec<(&'a Pending, Ended)> {
    let pending = together.iter().map(|pending| &**pending);
    let (alone, shared): (Vec<&Pending>, Vec<&Pending>) =
        pending.partition(|pending| together.len() == 1 || device.put_waits(&records_of(&[pending])));
    let ended = if shared.is_empty() { Vec::new() } else { put_together(device, &shared) };
    let mut results: Vec<_> = shared.into_iter().zip(ended).collect();
    results.extend(alone.into_iter().map(|pending| (pending, put(device, &[pending]))));
    results
}

/// One `put`; if the drive refuses it, one for each, so that only those fail that must.
fn put_together(device: &mut Device, together: &[&Pending]) -> Vec<Ended> {
    match put(device, together) {
        Ok(done_ns) => vec![Ok(done_ns); together.len()],
        Err(failure) if together.len() == 1 || failure.stops().is_some() => {
            vec![Err(failure); together.len()]
        }
        Err(_) => together.iter().map(|pending| put(device, &[pending])).collect(),
    }
}

fn put(device: &mut Device, together: &[&Pending]) -> Ended {
    let records = records_of(together);
    let at_ns = together.iter().filter_map(|pending| pending.at_ns).max().unwrap_or(device.time_ns());
    let done = device.submit(Command::KvPut { records: &records }, at_ns);
    done.map(|done| done.done_ns).map_err(Failure::Drive)
}

fn records_of<'a>(together: &[&'a Pending]) -> Vec<KvRecord<'a>> {
    let all = together.iter().flat_map(|pending| &pending.records);
    all.map(|((namespace, key), value)| KvRecord {
        namespace: *namespace,
        key: *key,
        value: value.as_deref(),
    })
    .collect()
}

/// Makes the work durable on the host's disk, if the image is synced. Others may read meanwhile.
fn sync(device: &Mutex<Device>) -> Result<(), Failure> {
    let begun = device.lock().sync_begin().map_err(Failure::Drive)?;
    let Some(begun) = begun else { return Ok(()) };
    begun.run().map_err(|error| Failure::Sync(format!("the image could not be synced: {error}")))?;
    device.lock().sync_end().map_err(Failure::Drive)
}

#[cfg(test)]
mod tests {
    use tantalum::{Access, Key, NamespaceAttributes};

    use super::*;
    use crate::options::{Options, Sync};

    const LIMITS: PutLimits = PutLimits { records: 100, bytes: 1 << 20 };

    /// A new drive in an image, with a namespace.
    fn drive(folder: &std::path::Path) -> (Mutex<Device>, tantalum::NamespaceId) {
        let path = folder.join("app.tant");
        drop(Options::default().capacity_bytes(64 << 20).sync(Sync::None).open_drive(&path).unwrap());
        let mut device = Device::open_as(&path, Access::Ordered).unwrap();
        let attributes = NamespaceAttributes::default();
        let now_ns = device.time_ns();
        let created = device.submit(Command::CreateNamespace { attributes }, now_ns).unwrap();
        (Mutex::new(device), created.namespace.unwrap())
    }

    fn pending(name: Name, bytes: usize) -> Pending {
        let records = vec![(name, Some(vec![1; bytes].into()))];
        Pending { records, bytes, at_ns: None, ended: Mutex::new(None) }
    }

    #[test]
    fn what_was_committed_needs_no_sync_any_more() {
        let folder = tempfile::tempdir().unwrap();
        let (device, namespace) = drive(folder.path());
        let commits = Commits::default();
        let records = vec![((namespace, Key::new(b"a").unwrap()), Some(vec![1; 100].into()))];
        assert!(commits.commit(&device, LIMITS, records, None).is_ok());
        assert!(device.lock().sync_begin().unwrap().is_none(), "the disk has it");
    }

    #[test]
    fn of_transactions_that_go_together_only_those_fail_that_must() {
        let folder = tempfile::tempdir().unwrap();
        let (device, namespace) = drive(folder.path());
        let name = |key: &[u8]| (namespace, Key::new(key).unwrap());
        let missing = (tantalum::NamespaceId(namespace.0 + 1), Key::new(b"b").unwrap());
        let all = [pending(name(b"a"), 100), pending(missing, 100), pending(name(b"c"), 100)];
        let ended = put_together(&mut device.lock(), &all.iter().collect::<Vec<_>>());
        assert_eq!(ended.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
        let now_ns = device.lock().time_ns();
        let exists = |key| Command::KvExists { namespace, key: Key::new(key).unwrap() };
        device.lock().submit(exists(b"a"), now_ns).unwrap();
        device.lock().submit(exists(b"c"), now_ns).unwrap();
    }
}
