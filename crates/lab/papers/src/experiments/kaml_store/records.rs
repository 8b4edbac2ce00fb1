//! Clients of the store of records, in the drive's time.
//!
//! A transaction takes all its locks at once when it begins, and waits for the holders of those it cannot get. This is
//! as strict as the store's own locks, for which nobody then ever waits.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum::Nanoseconds;
use tantalum_kv::{Namespace, Store, Transaction};
use tantalum_workloads::kaml::{Access, Drawer, Step, Table};

use super::bench::{Bench, Measured};
use crate::error::ExperimentError;
use crate::experiments::Run;

/// Host time for a step of a transaction over records, in the cache or for a command. Chosen when YCSB's workload C,
/// all in the cache, did 366,593 reads per second on one thread; it is faster now (docs/key-value-figures.md), so this
/// favours the log.
pub(super) const RECORD_STEP_NS: Nanoseconds = 2_700;

/// Memory of a record in the store's cache besides its value.
const RECORD_OVERHEAD: u64 = 128;

/// Time between a load and its measurement: by then, what the load left in protected DRAM is on flash.
const REST_NS: Nanoseconds = 1_000_000_000;

/// Records of one transaction when they are loaded.
pub(in crate::experiments) const LOADED_AT_ONCE: usize = 512;

/// The set-up of the store of records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) clients: usize,
    pub(super) records_per_lock: u32,
    /// Records in the cache, in percent.
    pub(super) cached_percent: u64,
}

impl Bench<'_> {
    /// The store of records.
    pub(super) fn records(&self, setting: Setting) -> Result<Measured, ExperimentError> {
        let tables = self.load.tables(self.units);
        let cached = cache_bytes(&tables, setting.cached_percent);
        let options =
            Store::options().cache_bytes(cached as usize).records_per_lock(setting.records_per_lock);
        let device = self.aged.try_clone().expect("a drive in memory can be copied");
        let store = Store::over(device, options)?;
        let namespaces = load_records(self.run, &tables, &store)?;
        let (start_ns, before) = store.with_drive(|drive| (drive.time_ns() + REST_NS, drive.usage()))?;
        let clients = (0..setting.clients as u64).map(|client| Client {
            random: Xoshiro256PlusPlus::seed_from_u64(self.run.seed ^ (client << 32) ^ 0x4b41_4d4c),
            state: State::Idle,
        });
        let mut machine = Machine {
            store: &store,
            tables: &tables,
            namespaces: &namespaces,
            drawer: Drawer::new(self.load, self.units),
            records_per_lock: setting.records_per_lock.into(),
            clients: clients.collect(),
            queue: (0..setting.clients).map(|client| Reverse((start_ns, client))).collect(),
            locks: HashMap::new(),
            waiting: VecDeque::new(),
            conflicts: 0,
            accesses: 0,
            done: 0,
        };
        let (mut end_ns, wanted) = (start_ns, self.transactions());
        let bar = self.run.monitor.bar(format!("{}, records", self.load.name()), wanted);
        while machine.done < wanted {
            let before = machine.done;
            end_ns = machine.step()?;
            if machine.done > before && machine.done.is_multiple_of(256) {
                bar.advance(256)?;
            }
        }
        let host_ns = machine.accesses * RECORD_STEP_NS / setting.clients as u64;
        let usage = store.with_drive(|drive| drive.usage())?.since(&before);
        Ok(Measured::between(start_ns, end_ns, host_ns, wanted, machine.conflicts, usage))
    }
}

/// The size of the store's cache for this percentage of all records.
pub(in crate::experiments) fn cache_bytes(tables: &[Table], percent: u64) -> u64 {
    let bytes = |table: &Table| table.records * (table.value_bytes as u64 + RECORD_OVERHEAD);
    let all = tables.iter().map(bytes).sum::<u64>();
    // inserted records fit too if everything should be cached
    if percent == 100 { 4 * all } else { all * percent / 100 }
}

/// Puts the records of all tables; the namespace of each.
pub(in crate::experiments) fn load_records(
    run: &Run<'_>,
    tables: &[Table],
    store: &Store,
) -> Result<Vec<Namespace>, ExperimentError> {
    let mut namespaces = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let namespace = store.hashed_namespace(&number.to_string())?;
        let value = vec![number as u8; table.value_bytes];
        for first in (0..table.records).step_by(LOADED_AT_ONCE) {
            let mut tx = store.begin()?;
            for key in first..(first + LOADED_AT_ONCE as u64).min(table.records) {
                tx.put(namespace, key.to_be_bytes(), &value)?;
            }
            tx.commit()?;
        }
        run.monitor.check()?;
        namespaces.push(namespace);
    }
    Ok(namespaces)
}

/// A lock: the table and the number of its group of records; held shared by this many, or exclusively.
type LockName = (usize, u64);

struct Client {
    random: Xoshiro256PlusPlus,
    state: State,
}

enum State {
    Idle,
    /// It has its locks; its next step.
    Works {
        tx: Transaction,
        steps: Vec<Step>,
        next: usize,
    },
    /// The drive has its commit; it releases its locks when that is done.
    Commits {
        steps: Vec<Step>,
    },
}

struct Machine<'a> {
    store: &'a Store,
    tables: &'a [Table],
    namespaces: &'a [Namespace],
    drawer: Drawer,
    records_per_lock: u64,
    clients: Vec<Client>,
    queue: BinaryHeap<Reverse<(Nanoseconds, usize)>>,
    /// The number of holders, and whether the holder is a writer.
    locks: HashMap<LockName, (u32, bool)>,
    waiting: VecDeque<(usize, Vec<Step>)>,
    conflicts: u64,
    accesses: u64,
    done: u64,
}

impl Machine<'_> {
    /// Does the next step. Returns its time.
    fn step(&mut self) -> Result<Nanoseconds, ExperimentError> {
        let Reverse((now_ns, client)) = self.queue.pop().expect("not all clients wait for each other");
        match std::mem::replace(&mut self.clients[client].state, State::Idle) {
            State::Idle => {
                let steps = self.drawer.draw(&mut self.clients[client].random);
                if !self.begin(client, &steps, now_ns)? {
                    self.conflicts += 1;
                    self.waiting.push_back((client, steps));
                }
            }
            State::Works { tx, steps, next } => self.work(client, tx, steps, next, now_ns)?,
            State::Commits { steps } => {
                self.done += 1;
                self.release(&steps);
                self.queue.push(Reverse((now_ns, client)));
                for _ in 0..self.waiting.len() {
                    let (waiter, steps) = self.waiting.pop_front().expect("this many wait");
                    if !self.begin(waiter, &steps, now_ns)? {
                        self.waiting.push_back((waiter, steps));
                    }
                }
            }
        }
        Ok(now_ns)
    }

    /// The locks of a transaction, and whether each is for a change.
    fn locks_of(&self, steps: &[Step]) -> BTreeMap<LockName, bool> {
        let mut locks = BTreeMap::new();
        for step in steps {
            *locks.entry((step.table, step.key / self.records_per_lock)).or_default() |=
                step.access != Access::Read;
        }
        locks
    }

    /// Takes all locks and begins; false if others hold some.
    fn begin(&mut self, client: usize, steps: &[Step], now_ns: Nanoseconds) -> Result<bool, ExperimentError> {
        let wanted = self.locks_of(steps);
        let is_free = |(name, changes): (&LockName, &bool)| {
            self.locks.get(name).is_none_or(|(_, changed)| !changes && !changed)
        };
        if !wanted.iter().all(is_free) {
            return Ok(false);
        }
        for (name, changes) in wanted {
            let held = self.locks.entry(name).or_insert((0, changes));
            held.0 += 1;
        }
        let tx = self.store.begin_in_time(now_ns)?;
        self.clients[client].state = State::Works { tx, steps: steps.to_vec(), next: 0 };
        self.queue.push(Reverse((now_ns, client)));
        Ok(true)
    }

    fn release(&mut self, steps: &[Step]) {
        for name in self.locks_of(steps).into_keys() {
            let held = self.locks.get_mut(&name).expect("it was held");
            held.0 -= 1;
            if held.0 == 0 {
                self.locks.remove(&name);
            }
        }
    }

    fn work(
        &mut self,
        client: usize,
        mut tx: Transaction,
        steps: Vec<Step>,
        next: usize,
        now_ns: Nanoseconds,
    ) -> Result<(), ExperimentError> {
        tx.wait_until(now_ns);
        let Some(step) = steps.get(next) else {
            let done_ns = tx.commit_in_time()?.expect("it lives in the drive's time");
            self.clients[client].state = State::Commits { steps };
            self.queue.push(Reverse((done_ns, client)));
            return Ok(());
        };
        self.accesses += 1;
        let (namespace, key) = (self.namespaces[step.table], step.key.to_be_bytes());
        let bytes = self.tables[step.table].value_bytes;
        let found = match step.access {
            Access::Read => Some(tx.read(namespace, key)?),
            Access::Change => Some(tx.read_for_update(namespace, key)?),
            Access::Write | Access::Insert => None,
        };
        if let Some(found) = found {
            assert_eq!(found.map(|value| value.len()), Some(bytes), "{step:?}");
        }
        if step.access != Access::Read {
            tx.put(namespace, key, vec![7; bytes])?;
        }
        let done_ns = tx.now_ns().expect("it lives in the drive's time") + RECORD_STEP_NS;
        self.clients[client].state = State::Works { tx, steps, next: next + 1 };
        self.queue.push(Reverse((done_ns, client)));
        Ok(())
    }
}
