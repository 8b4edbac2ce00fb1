//! Executes a plan, and checks the result.

use std::ops::Bound;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tantalum::{Device, PowerLoss, Profile, Status};
use tantalum_kv::{Error, Namespace, Options, Range, Snapshot, Store, Sync, Transaction, prefix_range};

use super::check::{Bounds, Done, Event, Map, Outcome, Seen, check, check_snapshot, is_empty, is_possible};
use super::plan::{BULK, End, Op, Plan, Planned, bulk_key, key, large_key};

/// Transactions that end between two snapshots.
const TRANSACTIONS_BETWEEN_LOOKS: usize = 4;

/// How long to wait for them before looking again.
const PAUSE: Duration = Duration::from_micros(100);

/// What was done, so that a test can check that it was enough.
#[derive(Default, Debug)]
pub struct Counts {
    pub commits: u64,
    pub unknown: u64,
    pub refused: u64,
    pub gave_way: u64,
    pub scanned: u64,
    pub snapshots: u64,
    pub backups: u64,
}

fn profile(seed: u64) -> Profile {
    let mut profile = Profile::load(["tlc-nvme", "tlc-nvme-plp"][seed as usize % 2]).unwrap();
    profile.capacity_bytes = [16, 128][seed as usize % 2] << 20;
    // one that is filled
    if seed % 4 == 3 {
        profile = Profile::load("tlc-nvme").unwrap();
        profile.capacity_bytes = 16 << 20;
    }
    profile.over_provisioning_percent = 40.0;
    profile
}

/// One store, with all its threads.
struct Ground<'a> {
    store: &'a Store,
    namespace: Namespace,
    /// Orders everything seen and done.
    clock: &'a AtomicU64,
    history: Mutex<Vec<Done>>,
    seen: Mutex<Vec<Seen>>,
    wrong: Mutex<Option<String>>,
    counts: Mutex<Counts>,
}

/// Runs a plan. Returns what is wrong.
pub fn run(plan: &Plan, counts: &mut Counts) -> Result<(), String> {
    let mut device = Device::in_memory(&profile(plan.seed)).unwrap();
    let (mut certain, mut unknown) = (Map::new(), Vec::new());
    let clock = AtomicU64::new(1);
    for (number, life) in plan.lives.iter().enumerate() {
        let cache_bytes = [0, 100_000, 16 << 20][(plan.seed as usize + number) % 3];
        let options = Options::default().sync(Sync::None).cache_bytes(cache_bytes);
        let store = Store::over(device, options).map_err(|error| format!("life {number}: {error}"))?;
        let namespace = store.namespace("a").map_err(|error| error.to_string())?;
        let found = read_all(&store.snapshot().unwrap(), namespace).map_err(|error| error.to_string())?;
        if !is_possible(&found, &certain, &unknown) {
            return Err(format!("life {number}: {} keys, of {} certain", found.len(), certain.len()));
        }
        let (history, seen, wrong) = (Mutex::default(), Mutex::default(), Mutex::default());
        let ground = Ground {
            store: &store,
            namespace,
            clock: &clock,
            history,
            seen,
            wrong,
            counts: Mutex::new(std::mem::take(counts)),
        };
        store.with_drive(|drive| drive.cut_after(life.cut_after)).unwrap();
        ground.live(&life.threads);
        let Ground { history, seen, wrong, counts: counted, .. } = ground;
        *counts = counted.into_inner().unwrap();
        if let Some(wrong) = wrong.into_inner().unwrap() {
            return Err(format!("life {number}: {wrong}"));
        }
        let mut history = history.into_inner().unwrap();
        (certain, unknown) =
            check(&found, &mut history).map_err(|wrong| format!("life {number}: {wrong}"))?;
        for seen in seen.into_inner().unwrap() {
            check_snapshot(&seen, &history).map_err(|wrong| format!("life {number}: a snapshot: {wrong}"))?;
        }
        device = store.into_drive().unwrap();
        let now_ns = device.time_ns();
        device.cut_power(now_ns);
        device.power_on(&mut PowerLoss::seeded(plan.seed)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn read_all(snapshot: &Snapshot, namespace: Namespace) -> Result<Map, Error> {
    snapshot.all(namespace)?.map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec()))).collect()
}

impl Ground<'_> {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn is_wrong(&self, wrong: String) {
        self.wrong.lock().unwrap().get_or_insert(wrong);
    }

    fn live(&self, threads: &[Vec<Planned>]) {
        let (done, working) = (AtomicBool::new(false), AtomicU64::new(threads.len() as u64));
        std::thread::scope(|scope| {
            for planned in threads {
                let (done, working) = (&done, &working);
                scope.spawn(move || {
                    for planned in planned {
                        if !self.transaction(planned) {
                            break;
                        }
                    }
                    if working.fetch_sub(1, Ordering::SeqCst) == 1 {
                        done.store(true, Ordering::SeqCst);
                    }
                });
            }
            scope.spawn(|| {
                let mut next = 0;
                while !done.load(Ordering::SeqCst) {
                    // without a pause a busy machine, on which transactions are slow, has a snapshot to check for each moment
                    let ended = self.history.lock().unwrap().len();
                    if ended < next {
                        std::thread::sleep(PAUSE);
                        continue;
                    }
                    next = ended + TRANSACTIONS_BETWEEN_LOOKS;
                    if self.look().is_err() {
                        break;
                    }
                }
            });
        });
    }

    /// Returns whether to continue.
    fn transaction(&self, planned: &Planned) -> bool {
        // after that only reads go on, of which the history would be full
        if self.store.refuses_changes().is_some() {
            return false;
        }
        let Ok(mut tx) = self.store.begin() else { return false };
        let mut events = Vec::new();
        for op in &planned.ops {
            std::thread::yield_now();
            match self.op(&mut tx, op, &mut events) {
                Ok(()) => {}
                Err(Error::Deadlock) => {
                    self.counts.lock().unwrap().gave_way += 1;
                    return true;
                }
                Err(error) => return self.failed(error),
            }
        }
        let at = self.now();
        let outcome = match planned.commits {
            false => Outcome::Aborted,
            true => match tx.commit() {
                Ok(()) => Outcome::Committed(self.now()),
                Err(Error::Drive(Status::CapacityExceeded)) => {
                    self.counts.lock().unwrap().refused += 1;
                    Outcome::Aborted
                }
                Err(Error::Drive(_) | Error::Stopped { .. }) => Outcome::Unknown,
                Err(error) => return self.failed(error),
            },
        };
        let mut counts = self.counts.lock().unwrap();
        match outcome {
            Outcome::Committed(_) => counts.commits += 1,
            Outcome::Unknown => counts.unknown += 1,
            Outcome::Aborted => {}
        }
        counts.scanned += events.iter().filter(|event| matches!(event, Event::Scanned { .. })).count() as u64;
        self.history.lock().unwrap().push(Done { at, events, outcome });
        outcome != Outcome::Unknown
    }

    /// Something failed, which is correct if there is no power.
    fn failed(&self, error: Error) -> bool {
        if self.store.with_drive(|drive| drive.has_power()).unwrap() {
            self.is_wrong(format!("{error:?}"));
        }
        false
    }

    fn op(&self, tx: &mut Transaction, op: &Op, events: &mut Vec<Event>) -> Result<(), Error> {
        let namespace = self.namespace;
        let mut put = |tx: &mut Transaction, key: Vec<u8>, bytes: usize| {
            let mut value = self.now().to_le_bytes().to_vec();
            value.resize(8 + bytes, value[0]);
            tx.put(namespace, &key, &value)?;
            events.push(Event::Wrote(key, Some(value)));
            Ok(())
        };
        match *op {
            Op::Put(number, bytes) => put(tx, key(number), bytes),
            Op::PutLarge(number, bytes) => put(tx, large_key(number), bytes),
            Op::PutBulk => (0..BULK).try_for_each(|number| put(tx, bulk_key(number), 0)),
            Op::Delete(number) => delete(tx, namespace, key(number), events),
            Op::DeleteLarge(number) => {
                (number..number + 40).try_for_each(|number| delete(tx, namespace, large_key(number), events))
            }
            Op::DeleteBulk => {
                (0..BULK).try_for_each(|number| delete(tx, namespace, bulk_key(number), events))
            }
            Op::Read(number) => {
                let found = tx.read(namespace, key(number))?;
                events.push(Event::Read(key(number), found.map(|value| value.to_vec())));
                Ok(())
            }
            Op::ReadForUpdate(number) => {
                let found = tx.read_for_update(namespace, key(number))?;
                events.push(Event::Read(key(number), found.map(|value| value.to_vec())));
                Ok(())
            }
            Op::Prefix(number, bytes) => {
                let key = key(number);
                let prefix = &key[..bytes.min(key.len())];
                let (from, to) = prefix_range(prefix);
                let bounds = (from.map(|key| key.to_vec()), to.map(|key| key.to_vec()));
                events.push(scanned(tx.prefix(namespace, prefix)?, bounds, false, usize::MAX)?);
                Ok(())
            }
            Op::Scan { from, to, backwards, limit, for_update } => {
                let bounds = (bound(from), bound(to));
                let range = tx.range(namespace, bounds.clone())?;
                let range = if for_update { range.for_update() } else { range };
                events.push(scanned(range, bounds, backwards, limit)?);
                Ok(())
            }
        }
    }

    /// A snapshot does not change, and nor does its backup.
    fn look(&self) -> Result<(), Error> {
        let from = self.now();
        let snapshot = self.store.snapshot()?;
        let to = self.now();
        let map = read_all(&snapshot, self.namespace)?;
        std::thread::yield_now();
        let again = read_all(&snapshot, self.namespace)?;
        if map != again {
            self.is_wrong("a snapshot has changed".to_owned());
        }
        let number = self.seen.lock().unwrap().len();
        if number.is_multiple_of(16) {
            let folder = tempfile::tempdir().unwrap();
            let [backup, image] = ["backup", "image"].map(|name| folder.path().join(name));
            snapshot.back_up(&backup)?;
            let options = || Options::default().sync(Sync::None).capacity_bytes(64 << 20);
            options().restore(&backup, &image).unwrap();
            let restored = options().open(&image).unwrap();
            let namespace = restored.namespace("a").unwrap();
            if read_all(&restored.snapshot().unwrap(), namespace).unwrap() != map {
                self.is_wrong("a backup is not what its snapshot is".to_owned());
            }
            self.counts.lock().unwrap().backups += 1;
        }
        self.seen.lock().unwrap().push(Seen { from, to, map });
        self.counts.lock().unwrap().snapshots += 1;
        Ok(())
    }
}

fn delete(
    tx: &mut Transaction,
    namespace: Namespace,
    key: Vec<u8>,
    events: &mut Vec<Event>,
) -> Result<(), Error> {
    tx.delete(namespace, &key)?;
    events.push(Event::Wrote(key, None));
    Ok(())
}

fn bound((number, kind): End) -> Bound<Vec<u8>> {
    match kind {
        0 => Bound::Included(key(number)),
        1 => Bound::Excluded(key(number)),
        _ => Bound::Unbounded,
    }
}

fn scanned(mut range: Range<'_>, bounds: Bounds, backwards: bool, limit: usize) -> Result<Event, Error> {
    let (mut found, mut is_all) = (Vec::new(), false);
    while found.len() < limit {
        let entry = if backwards { range.next_back() } else { range.next() };
        let Some((key, value)) = entry.transpose()? else {
            is_all = true;
            break;
        };
        found.push((key.to_vec(), value.to_vec()));
        std::thread::yield_now();
    }
    assert!(found.is_empty() || !is_empty(&bounds));
    Ok(Event::Scanned { bounds, backwards, found, is_all })
}
