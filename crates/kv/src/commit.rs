//! Commits of all threads, gathered: one `put` and one sync serve all that wait.
//!
//! Whoever comes first does the work of all who stand in the queue; the others find their result when it is their turn.
//! What waits together holds exclusive locks on all it changes, so that no record is in a `put` twice.

use std::sync::Arc;

use parking_lot::Mutex;
use tantalum::{Command, Device, KvRecord, Status};

use crate::cache::Name;
use crate::error::Error;
use crate::transaction::Value;

/// Records of one transaction, and how its commit ended.
pub(crate) struct Pending {
    records: Vec<(Name, Option<Value>)>,
    bytes: usize,
    ended: Mutex<Option<Result<(), Failure>>>,
}

/// Why a commit failed.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Drive(Status),
    Sync(String),
}

impl Failure {
    /// Whether it cannot be told what is there.
    pub fn stops(&self) -> Option<String> {
        match self {
            Failure::Drive(status @ (Status::PowerLost | Status::Image(_))) => Some(status.to_string()),
            Failure::Drive(_) => None,
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
    /// Held by whoever does the work, and by whoever else changes what is on the drive.
    leader: Mutex<()>,
}

/// The most records and bytes of values of one `put`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutLimits {
    pub records: usize,
    pub bytes: usize,
}

impl Commits {
    /// Puts a transaction's records; returns when they are as durable as they are to be.
    pub fn commit(
        &self,
        device: &Mutex<Device>,
        limits: PutLimits,
        records: Vec<(Name, Option<Value>)>,
    ) -> Result<(), Failure> {
        let bytes = records.iter().map(|(_, value)| value.as_ref().map_or(0, |value| value.len())).sum();
        let pending = Arc::new(Pending { records, bytes, ended: Mutex::new(None) });
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

    /// Does something else that changes what is on the drive, and makes it durable.
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

    /// Those at the head of the queue that fit one `put`.
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

/// Does the work of all; tells each how it ended.
fn lead(device: &Mutex<Device>, together: &[Arc<Pending>]) {
    let mut results = put_together(&mut device.lock(), together);
    if let Err(failure) = sync(device) {
        results.iter_mut().filter(|result| result.is_ok()).for_each(|result| *result = Err(failure.clone()));
    }
    for (pending, result) in together.iter().zip(results) {
        *pending.ended.lock() = Some(result);
    }
}

/// One `put`; if the drive refuses it, one for each, so that only those fail that must.
fn put_together(device: &mut Device, together: &[Arc<Pending>]) -> Vec<Result<(), Failure>> {
    match put(device, together) {
        Ok(()) => vec![Ok(()); together.len()],
        Err(failure) if together.len() == 1 || failure.stops().is_some() => {
            vec![Err(failure); together.len()]
        }
        Err(_) => together.iter().map(|pending| put(device, std::slice::from_ref(pending))).collect(),
    }
}

fn put(device: &mut Device, together: &[Arc<Pending>]) -> Result<(), Failure> {
    let all = together.iter().flat_map(|pending| &pending.records);
    let records: Vec<KvRecord<'_>> = all
        .map(|((namespace, key), value)| KvRecord {
            namespace: *namespace,
            key: *key,
            value: value.as_deref(),
        })
        .collect();
    let at_ns = device.time_ns();
    device.submit(Command::KvPut { records: &records }, at_ns).map(drop).map_err(Failure::Drive)
}

/// Makes what was done durable on the host's disk, if the image is one that is synced. Others may read meanwhile.
fn sync(device: &Mutex<Device>) -> Result<(), Failure> {
    let file = device.lock().sync_begin().map_err(Failure::Drive)?;
    let Some(file) = file else { return Ok(()) };
    file.sync_data().map_err(|error| Failure::Sync(format!("the image could not be synced: {error}")))?;
    device.lock().sync_end().map_err(Failure::Drive)
}
