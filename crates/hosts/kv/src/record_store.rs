//! The drive, with its cached records and their earlier versions.
//!
//! Puts exclude reads of several records together, or as of a snapshot, for as long as the drive takes, but not its
//! sync. Records that a transaction has locked do not change, so it can read them at any time.
//!
//! After a put or a sync failed in such a way that nobody knows what is on the disk, the records that it may have changed are
//! *in doubt* until the store is reopened: they cannot be read. All others can.

use std::collections::HashSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use tantalum::{Command, Device, Footprint, HostError, Key, KvRecord, NamespaceId, Nanoseconds, Status};
use tantalum_canaries::guard;
use tantalum_drive::Drive;

use crate::cache::Cache;
use crate::failure::{Cause, Failure};
use crate::large::{Large, Stored, number_of_head, part_key, sizes};
use crate::record::{Name, Value};
use crate::room::{ENTRIES_AT_ONCE, UNCOUNTED, beside_large};
use crate::versions::{AsOf, Earlier, Versions};

/// Bytes of the drive that a record takes at least.
const LEAST_RECORD_BYTES: u64 = 64;

/// Records and their new values; `None` for those to be deleted.
pub(crate) type Records = Vec<(Name, Option<Value>)>;

pub(crate) struct RecordStore {
    /// `None` once the store is closed. No clone of it leaves this struct.
    device: Option<Drive>,
    /// The first namespace, which has the parts of large values.
    first: NamespaceId,
    pub cache: Cache,
    versions: RwLock<Versions>,
    /// Records that were put since the last sync.
    unsynced: Mutex<Vec<Name>>,
    /// Records in doubt, and why.
    doubt: RwLock<Option<(HashSet<Name>, Cause)>>,
    is_in_doubt: AtomicBool,
}

/// Reads records. What is read together is consistent.
pub(crate) trait Source {
    fn record(&self, name: Name) -> Result<Option<Value>, Failure>;
}

/// Lists keys, too.
pub(crate) trait Listing: Source {
    /// At most `limit` keys in the order in which the drive lists them, from one on.
    fn list(&self, namespace: NamespaceId, from: Option<&Key>, limit: usize) -> Result<Vec<Key>, Failure>;
}

impl RecordStore {
    pub fn new(device: Device, first: NamespaceId, cache_bytes: usize, snapshot_bytes: usize) -> RecordStore {
        RecordStore {
            device: Some(Drive::new(device)),
            first,
            cache: Cache::new(cache_bytes),
            versions: RwLock::new(Versions::new(snapshot_bytes)),
            unsynced: Mutex::default(),
            doubt: RwLock::default(),
            is_in_doubt: false.into(),
        }
    }

    pub fn device(&self) -> &Drive {
        self.device.as_ref().expect("the drive is there until the store is gone")
    }

    /// Takes the drive out, so that nothing is left to shut down.
    pub fn take_device(&mut self) -> Option<Device> {
        self.device.take().map(|drive| drive.into_device().expect("nobody else has a clone of it"))
    }

    /// Leaves the drive as it is: another process has it.
    pub fn forget_device(&mut self) {
        std::mem::forget(self.device.take());
    }

    /// A record that nobody can change meanwhile.
    pub fn read(&self, name: Name, now_ns: &mut Option<Nanoseconds>) -> Result<Option<Value>, Failure> {
        self.read_then(name, now_ns, |value| self.cache.put(name, value.clone()))
    }

    /// The same; `taken_in` is called with what the cache does not have.
    fn read_then(
        &self,
        name: Name,
        now_ns: &mut Option<Nanoseconds>,
        taken_in: impl Fn(&Value),
    ) -> Result<Option<Value>, Failure> {
        if self.is_in_doubt.load(Ordering::Acquire) {
            self.check_doubt(|doubtful| doubtful.contains(&name))?;
        }
        if let Some(value) = self.cache.get(&name) {
            return Ok(Some(value));
        }
        let found = self.get(name, now_ns)?;
        found.iter().for_each(taken_in);
        Ok(found)
    }

    /// A record of a scan that nobody can change meanwhile: the cache takes in few of those that it does not have.
    fn scanned(&self, name: Name, now_ns: &mut Option<Nanoseconds>) -> Result<Option<Value>, Failure> {
        self.read_then(name, now_ns, |value| self.cache.scanned(name, value))
    }

    /// Values of a scan that nobody can change meanwhile, for each of which `found` is called in order: none for those that are not
    /// simply in the cache.
    pub fn cached_in_scan(&self, names: &[Name], mut found: impl FnMut(Option<Value>)) {
        if self.is_in_doubt.load(Ordering::Acquire) {
            return names.iter().for_each(|_| found(None));
        }
        self.cache.get_all(names, |value| found(value.filter(|value| number_of_head(value).is_none())));
    }

    /// The value of a record of a scan, as it is stored.
    pub fn stored_in_scan(
        &self,
        name: Name,
        now_ns: &mut Option<Nanoseconds>,
    ) -> Result<Option<Stored>, Failure> {
        let record = self.scanned(name, now_ns)?;
        Stored::of(self, self.first, name, record)
    }

    /// The value of a record that nobody can change meanwhile, as it is stored.
    pub fn stored(&self, name: Name, now_ns: &mut Option<Nanoseconds>) -> Result<Option<Stored>, Failure> {
        let record = self.read(name, now_ns)?;
        Stored::of(self, self.first, name, record)
    }

    /// A part of a large value that is not deleted meanwhile. Parts are not cached: they would take the room of many records.
    pub fn part(&self, large: &Large, part: u32, now_ns: &mut Option<Nanoseconds>) -> Result<Value, Failure> {
        let lost = || Failure::missing(large.name);
        match self.get((self.first, part_key(large.number, part)), now_ns) {
            Ok(Some(bytes)) if bytes.len() == large.part_bytes(part) => Ok(bytes),
            Ok(_) => Err(lost()),
            Err(failure) if failure.is_damage() => Err(lost()),
            Err(failure) => Err(failure),
        }
    }

    /// Puts in doubt what was put since the last sync.
    pub fn doubt_unsynced(&self, cause: Cause) {
        let unsynced = std::mem::take(&mut *self.unsynced.lock());
        self.doubt(unsynced, cause);
    }

    /// Puts records in doubt.
    pub fn doubt(&self, names: impl IntoIterator<Item = Name>, cause: Cause) {
        let mut doubt = self.doubt.write();
        let (doubtful, _) = doubt.get_or_insert_with(|| (HashSet::new(), cause));
        doubtful.extend(names);
        self.is_in_doubt.store(true, Ordering::Release);
    }

    #[cold]
    fn check_doubt(&self, concerns: impl FnOnce(&HashSet<Name>) -> bool) -> Result<(), Failure> {
        match &*self.doubt.read() {
            Some((doubtful, cause)) if concerns(doubtful) => Err(Failure::Stops(cause.clone())),
            Some(_) => Ok(()),
            None => unreachable!("records are in doubt, and nobody knows which"),
        }
    }

    /// The drive's contents of a record, past the cache.
    pub fn get(
        &self,
        (namespace, key): Name,
        now_ns: &mut Option<Nanoseconds>,
    ) -> Result<Option<Value>, Failure> {
        let mut value = Vec::new();
        let mut device = self.device().lock();
        let at_ns = now_ns.unwrap_or(device.time_ns());
        match device.submit(Command::KvGet { namespace, key, value: &mut value }, at_ns) {
            Ok(done) => {
                *now_ns = now_ns.map(|_| done.done_ns);
                Ok(Some(value.into()))
            }
            Err(Status::NoSuchKey { .. }) => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Keys in the order in which the drive lists them.
    pub fn list(
        &self,
        namespace: NamespaceId,
        from: Option<&Key>,
        limit: usize,
    ) -> Result<Vec<Key>, Failure> {
        if self.is_in_doubt.load(Ordering::Acquire) {
            self.check_doubt(|doubtful| doubtful.iter().any(|(of, _)| *of == namespace))?;
        }
        let mut keys = Vec::new();
        let mut device = self.device().lock();
        let at_ns = device.time_ns();
        device.submit(Command::KvList { namespace, from: from.copied(), keys: &mut keys, limit }, at_ns)?;
        assert!(keys.len() <= limit, "the drive lists {} keys, and {limit} were wanted", keys.len());
        debug_assert!(
            keys.is_sorted_by(|a, b| a.listing_order() < b.listing_order()),
            "the drive lists keys of {namespace:?} out of order"
        );
        Ok(keys)
    }

    /// Nothing is put while this is held. A thread that holds it must not request it again.
    pub fn stable(&self) -> Stable<'_> {
        Stable { drive: self, versions: self.versions.read() }
    }

    /// Puts records, all or nothing. One thread at a time.
    pub fn put(&self, records: &Records, at_ns: Option<Nanoseconds>) -> Result<Nanoseconds, Failure> {
        self.put_parts(std::slice::from_ref(records), at_ns).map_err(|(_, failure)| failure)
    }

    /// Puts the parts one after the other, and nobody sees some of them without the others. If one fails, returns how
    /// many were put.
    pub fn put_parts(
        &self,
        parts: &[Records],
        at_ns: Option<Nanoseconds>,
    ) -> Result<Nanoseconds, (usize, Failure)> {
        debug_assert!(parts.iter().all(names_once), "a part has a record twice: {parts:?}");
        let mut versions = self.versions.write();
        // a node may be in several parts
        let mut seen = HashSet::new();
        let names = parts.iter().flatten().map(|(name, _)| *name);
        let wanted = names.filter(|name| versions.wants(*name) && seen.insert(*name));
        let old: Result<Vec<(Name, Earlier)>, Failure> =
            wanted.map(|name| Ok((name, self.earlier(name)?))).collect();
        versions.replaced(old.map_err(|failure| (0, failure))?);
        debug_assert!(
            parts.iter().flatten().all(|(name, _)| !versions.wants(*name)),
            "put {} replaces what a snapshot sees, and it is not kept",
            versions.puts()
        );
        // all of them: if one part fails, the others are not to be seen either
        self.unsynced.lock().extend(parts.iter().flatten().map(|(name, _)| *name));
        // while this is held, nobody reads
        let mut unread = Some(versions);
        let mut done_ns = 0;
        for (number, records) in parts.iter().enumerate() {
            done_ns = self.submit_put(records, at_ns).map_err(|status| {
                // while nobody reads: some of them may be in place
                if number > 0 || status.leaves_doubt() {
                    self.doubt(parts.iter().flatten().map(|(name, _)| *name), (&status).into());
                }
                (number, status.into())
            })?;
            guard!(PartsSeen(&mut unread));
            for (name, value) in records {
                match value {
                    Some(value) => self.cache.put(*name, value.clone()),
                    None => self.cache.remove(name),
                }
            }
        }
        Ok(done_ns)
    }

    /// A record as snapshots will see it once it has changed. A lost one stays lost for them: it can be changed like any other.
    fn earlier(&self, name: Name) -> Result<Earlier, Failure> {
        match self.read(name, &mut None) {
            Err(failure) if failure.is_damage() => Ok(Earlier::Lost),
            read => Ok(read?.into()),
        }
    }

    /// Puts records that nobody reads, not even a snapshot.
    pub fn put_unseen(&self, records: &Records) -> Result<(), Failure> {
        self.submit_put(records, None)?;
        Ok(())
    }

    /// The same, unless an open snapshot sees what a put replaced; returns whether it did so. Nobody who has the records
    /// stable sees them go.
    pub fn put_if_not_seen(&self, until: u64, records: &Records) -> Result<bool, Failure> {
        let versions = self.versions.write();
        if guard!(PartsGone, versions.sees(until)) {
            return Ok(false);
        }
        self.put_unseen(records).map(|()| true)
    }

    fn submit_put(&self, records: &Records, at_ns: Option<Nanoseconds>) -> Result<Nanoseconds, Status> {
        let mut device = self.device().lock();
        let at_ns = at_ns.unwrap_or(device.time_ns());
        Ok(device.submit(Command::KvPut { records: &kv_records(records) }, at_ns)?.done_ns)
    }

    /// Whether the drive has room for this in addition to everything that it stores.
    pub fn has_room(&self, footprint: Footprint) -> bool {
        self.device().lock().has_room(footprint)
    }

    /// The same, once the drive does not need any more what it remembers of deleted records.
    pub fn has_room_at_last(&self, footprint: Footprint) -> bool {
        let free = self.device().lock().free_without(footprint.entries, std::iter::empty());
        free.first().is_some_and(|free| (footprint.chunks + footprint.entries.div_ceil(2)) as i64 <= *free)
    }

    /// How many values of this many bytes the drive has room for at least, beside a reserve. What the
    /// drive keeps of deleted records does not count: puts release it.
    pub fn room_for(&self, value_bytes: usize, reserve: Footprint) -> u64 {
        let device = self.device().lock();
        let value: Footprint = sizes(value_bytes).map(Footprint::of).sum();
        let fits = |values: u64| {
            let footprint = value * values + reserve + UNCOUNTED;
            let beside = beside_large(&device, value_bytes, values);
            let chunks = footprint.chunks + beside + footprint.entries.min(ENTRIES_AT_ONCE).div_ceil(2);
            device.free_at_last(footprint.entries).is_some_and(|free| chunks as i64 <= free)
        };
        let (mut least, mut most) = (0, device.profile().capacity_bytes / LEAST_RECORD_BYTES);
        while least < most {
            let middle = (least + most).div_ceil(2);
            if fits(middle) { least = middle } else { most = middle - 1 }
        }
        least
    }

    /// Makes the work durable on the host's disk, if the image is synced. Others may read meanwhile.
    pub fn sync(&self) -> Result<(), Failure> {
        let begun = self.device().lock().sync_begin().map_err(Failure::Drive)?;
        if let Some(begun) = begun {
            begun.run().map_err(|error| self.sync_failed(&error))?;
            self.device().lock().sync_end().map_err(Failure::Drive)?;
        }
        self.unsynced.lock().clear();
        Ok(())
    }

    /// The drive does not see how a sync ends: it is told.
    fn sync_failed(&self, error: &io::Error) -> Failure {
        let host = HostError {
            path: "the image".into(),
            action: "sync what was written",
            kind: error.kind(),
            reason: error.to_string(),
        };
        self.device().lock().refuse_changes(Status::Host(host));
        let reason = format!("the image could not be synced: {error}");
        Failure::Stops(Cause { reason, is_host: true, only_read: false })
    }

    /// Opens a snapshot. No put may be in progress.
    pub fn open_snapshot(&self) -> AsOf {
        self.versions.write().open()
    }

    pub fn close_snapshot(&self, at: AsOf) {
        self.versions.write().close(at);
    }

    /// Bytes kept for snapshots.
    pub fn snapshot_bytes(&self) -> usize {
        self.versions.read().bytes()
    }
}

/// The writer is alone, and sees the records as they are.
impl Source for RecordStore {
    fn record(&self, name: Name) -> Result<Option<Value>, Failure> {
        self.read(name, &mut None)
    }
}

/// The records as they are on the drive, past the cache. The writer is alone.
pub(crate) struct Flash<'a>(pub &'a RecordStore);

impl Source for Flash<'_> {
    fn record(&self, name: Name) -> Result<Option<Value>, Failure> {
        self.0.get(name, &mut None)
    }
}

impl Listing for Flash<'_> {
    fn list(&self, namespace: NamespaceId, from: Option<&Key>, limit: usize) -> Result<Vec<Key>, Failure> {
        self.0.list(namespace, from, limit)
    }
}

/// Whether records have names of their own.
fn names_once(records: &Records) -> bool {
    let mut seen = HashSet::new();
    records.iter().all(|(name, _)| seen.insert(*name))
}

/// The records for the drive.
pub(crate) fn kv_records(records: &Records) -> Vec<KvRecord<'_>> {
    let all = records.iter();
    all.map(|(name, value)| KvRecord { namespace: name.0, key: name.1, value: value.as_deref() }).collect()
}

/// The records while none of them changes.
pub(crate) struct Stable<'a> {
    drive: &'a RecordStore,
    versions: RwLockReadGuard<'a, Versions>,
}

impl Source for Stable<'_> {
    fn record(&self, name: Name) -> Result<Option<Value>, Failure> {
        self.drive.read(name, &mut None)
    }
}

impl<'a> Stable<'a> {
    /// How much has been put: if this is the same later, nothing has changed.
    pub fn puts(&self) -> u64 {
        self.versions.puts()
    }

    /// The records as they were for a snapshot.
    pub fn past(self, at: AsOf) -> Result<Past<'a>, Failure> {
        let (is_open, is_lost) = (self.versions.is_open(at), self.versions.is_lost(at));
        assert!(
            is_open != is_lost,
            "a snapshot that is read, {at:?}, is open: {is_open}, and lost: {is_lost}"
        );
        match guard!(LostSnapshotRead, self.versions.is_lost(at)) {
            true => Err(Failure::SnapshotLost { budget_bytes: self.versions.budget_bytes() }),
            false => Ok(Past { stable: self, at }),
        }
    }
}

/// The records as they were for a snapshot.
pub(crate) struct Past<'a> {
    stable: Stable<'a>,
    at: AsOf,
}

impl Source for Past<'_> {
    fn record(&self, name: Name) -> Result<Option<Value>, Failure> {
        match self.stable.versions.of(name, self.at) {
            Some(Earlier::Value(value)) => Ok(Some(value.clone())),
            Some(Earlier::Missing) => Ok(None),
            Some(Earlier::Lost) => Err(Failure::missing(name)),
            None => self.stable.record(name),
        }
    }
}

impl Past<'_> {
    /// Values of a scan, as [`RecordStore::cached_in_scan`] finds them.
    pub fn cached_in_scan(&self, names: &[Name], mut found: impl FnMut(Option<Value>)) {
        let mut of = names.iter();
        self.stable.drive.cached_in_scan(names, |value| {
            let has_changed = of.next().is_none_or(|name| self.stable.versions.of(*name, self.at).is_some());
            found(value.filter(|_| !has_changed));
        });
    }

    /// The value of a record of a scan, as it is stored.
    pub fn stored_in_scan(&self, name: Name) -> Result<Option<Stored>, Failure> {
        let drive = self.stable.drive;
        let record = match self.stable.versions.of(name, self.at) {
            None => drive.scanned(name, &mut None)?,
            Some(_) => self.record(name)?,
        };
        Stored::of(self, drive.first, name, record)
    }

    /// The value of a record, as it is stored.
    pub fn stored(&self, name: Name) -> Result<Option<Stored>, Failure> {
        let record = self.record(name)?;
        Stored::of(self, self.stable.drive.first, name, record)
    }

    /// A part of a large value that the snapshot sees.
    pub fn part(&self, large: &Large, part: u32) -> Result<Value, Failure> {
        self.stable.drive.part(large, part, &mut None)
    }

    /// Some keys of a namespace, starting at a key, in the drive's order; and the last key examined, if there may be
    /// more.
    pub fn list(
        &self,
        namespace: NamespaceId,
        from: Option<&Key>,
        limit: usize,
    ) -> Result<(Vec<Key>, Option<Key>), Failure> {
        let now = self.stable.drive.list(namespace, from, limit)?;
        let last = now.last().filter(|_| now.len() == limit).copied();
        let versions = &self.stable.versions;
        let changed = versions.listed_from(namespace, from, self.at);
        let changed = changed
            .take_while(|(key, _)| last.is_none_or(|last| key.listing_order() <= last.listing_order()));
        let mut keys: Vec<Key> =
            now.into_iter().filter(|key| versions.of((namespace, *key), self.at).is_none()).collect();
        keys.extend(changed.filter(|(_, existed)| *existed).map(|(key, _)| key));
        keys.sort_unstable_by_key(Key::listing_order);
        debug_assert!(
            keys.is_sorted_by(|a, b| a != b),
            "a key of {namespace:?} is both as it was and changed for {:?}",
            self.at
        );
        Ok((keys, last))
    }
}
