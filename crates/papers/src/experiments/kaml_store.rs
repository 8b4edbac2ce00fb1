//! KAML's figures 9 and 10: transactions over records compared with a store that logs and then writes (Jin's thesis,
//! sections 3.3.4 and 3.3.5).
//!
//! - **Records**: `tantalum-kv`. Its clients live in the drive's time; each step of a transaction is at most one
//!   command.
//! - **Log, then write**: SQLite with its log, synced with each commit, on a volume of the same drive, instead of the
//!   paper's Shore-MT. It has one writer at a time, so more clients would not make it faster.
//! - A transaction takes all its locks at once when it begins, and waits for the holders of those it cannot get. That
//!   is as strict as the store's own locks, which then never wait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::LazyLock;

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rusqlite::{Connection, params};
use serde::Deserialize;
use tantalum::{Device, Nanoseconds, Profile, UNIT_BYTES};
use tantalum_kv::{Namespace, Store, Transaction};
use tantalum_report::table::grouped;
use tantalum_report::{Claim, Figures, Outcome, Row, Span, Time};
use tantalum_sqlite::Mode;
use tantalum_volume::Volume;
use tantalum_workloads::ageing::age_leaving;
use tantalum_workloads::bench;
use tantalum_workloads::kaml::{Access, Drawer, Load, Step, Table};

use super::printed::{self, PrintedClaim};
use super::{Run, drive_of};
use crate::compare::DATABASE;
use crate::compare::WorkingDrive;
use crate::error::ExperimentError;

/// Capacity at scale 1. The paper's drive has 375 GB; its channels, dies and planes are kept.
const CAPACITY_BYTES: u64 = 1 << 30;

/// Other data's share of the capacity, overwritten at random until garbage collection is steady.
pub(super) const OTHER_PERCENT: u64 = 40;

/// Measured transactions at scale 1.
pub(super) const TRANSACTIONS: u64 = 20_000;

/// Host time for a step of a transaction over records, in the cache or for a command. Chosen when YCSB's workload C,
/// all in the cache, did 366,593 reads per second on one thread; it is faster now (docs/key-value-figures.md), so this
/// favours the log.
const RECORD_STEP_NS: Nanoseconds = 2_700;

/// Host time for a statement of SQLite ([`crate::compare::HOST_NS_PER_STATEMENT`]).
const STATEMENT_NS: Nanoseconds = crate::compare::HOST_NS_PER_STATEMENT;

/// Memory of a record in the store's cache besides its value.
const RECORD_OVERHEAD: u64 = 128;

/// The volume's own cache: SQLite has one.
const VOLUME_CACHE_BYTES: u64 = 1 << 20;

/// Time between a load and its measurement: by then, what the load left in protected DRAM is on flash.
const REST_NS: Nanoseconds = 1_000_000_000;

/// Threads of the paper's host.
pub(super) const CLIENTS: usize = 8;

/// Records of one transaction when they are loaded.
pub(super) const LOADED_AT_ONCE: usize = 512;

/// The set-up of the store of records.
#[derive(Clone, Copy, Debug)]
struct Setting {
    clients: usize,
    records_per_lock: u32,
    /// Records in the cache, in percent.
    cached_percent: u64,
}

/// The results of a run.
#[derive(Clone, Copy, Debug)]
struct Measured {
    per_second: f64,
    conflicts: u64,
    /// The time that a transaction of one client waits for the drive.
    drive_us: f64,
}

impl Measured {
    fn between(
        start_ns: Nanoseconds,
        end_ns: Nanoseconds,
        host_ns: Nanoseconds,
        transactions: u64,
        conflicts: u64,
    ) -> Measured {
        let (taken_ns, transactions) = (end_ns - start_ns, transactions as f64);
        Measured {
            per_second: transactions * 1e9 / taken_ns as f64,
            conflicts,
            drive_us: taken_ns.saturating_sub(host_ns) as f64 / transactions / 1e3,
        }
    }
}

/// A load of some size, on a drive.
struct Bench<'a> {
    run: &'a Run<'a>,
    load: Load,
    units: u64,
    /// Only other data; for records.
    aged: &'a Device,
}

impl Bench<'_> {
    fn transactions(&self) -> u64 {
        self.run.scaled(TRANSACTIONS, 1000)
    }

    /// Bytes of all records.
    fn bytes(&self) -> u64 {
        self.load.tables(self.units).iter().map(|table| table.records * table.value_bytes as u64).sum()
    }

    // -- records ------------------------------------------------------------------------------------------------

    fn records(&self, setting: Setting) -> Result<Measured, ExperimentError> {
        let tables = self.load.tables(self.units);
        let cached = cache_bytes(&tables, setting.cached_percent);
        let options =
            Store::options().cache_bytes(cached as usize).records_per_lock(setting.records_per_lock);
        let device = self.aged.try_clone().expect("a drive in memory can be copied");
        let store = Store::over(device, options)?;
        let namespaces = load_records(self.run, &tables, &store)?;
        let start_ns = store.with_drive(|drive| drive.time_ns())? + REST_NS;
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
        Ok(Measured::between(start_ns, end_ns, host_ns, wanted, machine.conflicts))
    }

    // -- a log, then the pages ----------------------------------------------------------------------------------

    /// SQLite with its log; this many of its pages are cached.
    fn log_then_write(&self, cached_percent: u64) -> Result<Measured, ExperimentError> {
        let volume = self.load_database()?;
        let working = WorkingDrive::new(volume, Mode::Wal, self.run.seed)?;
        let connection = working.open()?;
        let measured = self.measure_database(&working, &connection, cached_percent);
        connection.close().map_err(|(_, error)| ExperimentError::sqlite("closing the database")(error))?;
        working.into_volume()?;
        measured
    }

    fn load_database(&self) -> Result<Volume, ExperimentError> {
        let volume = Volume::format(Device::in_memory(self.aged.profile())?, VOLUME_CACHE_BYTES)?;
        let working = WorkingDrive::new(volume, Mode::Rollback, self.run.seed)?;
        let connection = working.open()?;
        insert_all(&connection, &self.load.tables(self.units))
            .map_err(ExperimentError::sqlite("filling the tables"))?;
        connection.close().map_err(|(_, error)| ExperimentError::sqlite("closing the database")(error))?;
        let mut volume = working.into_volume()?;
        let file = volume.find(DATABASE).expect("the database was just made");
        volume.sync(file)?;
        volume.sync_names()?;
        let others = other_units(self.aged.profile());
        let free = volume.free_units().saturating_sub(u64::from(others));
        age_leaving(&mut volume, free, self.run.seed, self.run.monitor)?;
        Ok(volume)
    }

    fn measure_database(
        &self,
        working: &WorkingDrive,
        connection: &Connection,
        cached_percent: u64,
    ) -> Result<Measured, ExperimentError> {
        let error = || ExperimentError::sqlite("working on the tables");
        let cache_kib = self.bytes() * if cached_percent == 100 { 400 } else { cached_percent } / 100 / 1024;
        connection.pragma_update(None, "synchronous", "full").map_err(error())?;
        connection.pragma_update(None, "cache_size", -(cache_kib as i64)).map_err(error())?;
        let mut drawer = Drawer::new(self.load, self.units);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.run.seed ^ 0x4b41_4d4c);
        let tables = self.load.tables(self.units);
        let wanted = self.transactions();
        let bar = self.run.monitor.bar(format!("{}, log", self.load.name()), 2 * wanted);
        let (mut start_ns, mut host_ns) = (0, 0);
        // as much before the measurement: pages are in the cache, and the log has its size
        for number in 0..2 * wanted {
            if number == wanted {
                start_ns = working.drive.volume().now_ns();
                host_ns = 0;
            }
            let steps = drawer.draw(&mut random);
            let statements = apply(connection, &tables, &steps).map_err(error())?;
            working.drive.volume().advance_ns(statements * STATEMENT_NS);
            host_ns += statements * STATEMENT_NS;
            if number.is_multiple_of(256) {
                bar.advance(256)?;
            }
        }
        let end_ns = working.drive.volume().now_ns();
        Ok(Measured::between(start_ns, end_ns, host_ns, wanted, 0))
    }
}

/// The size of the store's cache for this percentage of all records.
pub(super) fn cache_bytes(tables: &[Table], percent: u64) -> u64 {
    let bytes = |table: &Table| table.records * (table.value_bytes as u64 + RECORD_OVERHEAD);
    let all = tables.iter().map(bytes).sum::<u64>();
    // inserted records fit too if everything should be cached
    if percent == 100 { 4 * all } else { all * percent / 100 }
}

/// Puts the records of all tables; the namespace of each.
pub(super) fn load_records(
    run: &Run<'_>,
    tables: &[Table],
    store: &Store,
) -> Result<Vec<Namespace>, ExperimentError> {
    let mut namespaces = Vec::new();
    for (number, table) in tables.iter().enumerate() {
        let namespace = store.namespace(&number.to_string())?;
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

fn insert_all(connection: &Connection, tables: &[Table]) -> rusqlite::Result<()> {
    connection.pragma_update(None, "synchronous", "off")?;
    for (number, table) in tables.iter().enumerate() {
        connection.execute_batch(&format!("CREATE TABLE t{number}(id INTEGER PRIMARY KEY, data BLOB)"))?;
        connection.execute_batch("BEGIN")?;
        let mut insert = connection.prepare(&format!("INSERT INTO t{number} VALUES (?1, ?2)"))?;
        let value = vec![number as u8; table.value_bytes];
        for key in 0..table.records {
            insert.execute(params![key as i64, value])?;
        }
        connection.execute_batch("COMMIT")?;
    }
    Ok(())
}

/// One transaction. Returns the number of its statements.
fn apply(connection: &Connection, tables: &[Table], steps: &[Step]) -> rusqlite::Result<u64> {
    let mut statements = 0;
    let is_one = steps.len() == 1 && steps[0].access != Access::Change;
    if !is_one {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    }
    for Step { table, key, access } in steps {
        let (key, value) = (*key as i64, vec![7_u8; tables[*table].value_bytes]);
        if matches!(access, Access::Read | Access::Change) {
            let mut select =
                connection.prepare_cached(&format!("SELECT data FROM t{table} WHERE id = ?1"))?;
            let found: Vec<u8> = select.query_row([key], |row| row.get(0))?;
            assert_eq!(found.len(), value.len(), "record {key} of table {table}");
            statements += 1;
        }
        let change = match access {
            Access::Read => continue,
            Access::Insert => format!("INSERT INTO t{table}(data, id) VALUES (?1, ?2)"),
            Access::Change | Access::Write => format!("UPDATE t{table} SET data = ?1 WHERE id = ?2"),
        };
        assert_eq!(connection.prepare_cached(&change)?.execute(params![value, key])?, 1);
        statements += 1;
    }
    if !is_one {
        connection.prepare_cached("COMMIT")?.execute([])?;
    }
    Ok(statements)
}

// -- clients of records -----------------------------------------------------------------------------------------

/// A lock: the table and the number of its group of records; held shared by this many, or exclusively.
type LockName = (usize, u64);

struct Client {
    random: Xoshiro256PlusPlus,
    state: State,
}

enum State {
    Idle,
    /// It has its locks; the next of its steps.
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
    /// Holders, and whether it is one who changes.
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

// -- the figures ------------------------------------------------------------------------------------------------

pub(super) fn profile(run: &Run<'_>) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::load("kaml-board")?;
    profile.capacity_bytes = run.scaled(CAPACITY_BYTES, 512 << 20).next_multiple_of(1 << 20);
    profile.validate()?;
    Ok(profile)
}

pub(super) fn other_units(profile: &Profile) -> u32 {
    (profile.capacity_bytes * OTHER_PERCENT / 100 / UNIT_BYTES as u64) as u32
}

/// The loads of figure 9, with their branches or warehouses at scale 1, and of figure 10, with thousands of records.
pub(super) const OLTP: [(Load, u64); 3] =
    [(Load::AccountUpdate, 100), (Load::NewOrder, 10), (Load::Payment, 10)];
pub(super) const YCSB: [(Load, u64); 5] = [
    (Load::Ycsb('a'), 100),
    (Load::Ycsb('b'), 100),
    (Load::Ycsb('c'), 100),
    (Load::Ycsb('d'), 100),
    (Load::Ycsb('f'), 100),
];

/// What is cached of YCSB's records.
pub(super) const YCSB_CACHED_PERCENT: u64 = 40;

/// What the paper prints.
pub(super) static PRINTED: LazyLock<Printed> =
    LazyLock::new(|| printed::parse("kaml_store.toml", include_str!("kaml_store.toml")));

/// Of both figures.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Printed {
    pub(super) figure_9: Figure9,
    pub(super) figure_10: Figure10,
}

/// Throughput over Shore-MT's by transaction, and what coarse locks cost.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure9 {
    pub(super) source: String,
    account_update: Span,
    new_order: Span,
    payment: Span,
    coarse_locks: PrintedClaim,
}

impl Figure9 {
    /// The factors in the order of [`OLTP`].
    pub(super) fn factors(&self) -> [Span; OLTP.len()] {
        [self.account_update, self.new_order, self.payment]
    }
}

/// Throughput over Shore-MT's of all workloads, and on average.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Figure10 {
    pub(super) source: String,
    pub(super) over_log: Span,
    #[cfg_attr(
        not(feature = "rocksdb"),
        expect(dead_code, reason = "only the average beside RocksDB is shown")
    )]
    pub(super) average: Span,
}

/// Figure 9: OLTP.
pub(super) fn figure_9(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    const ONE: Setting = Setting { clients: 1, records_per_lock: 1, cached_percent: 100 };
    const ALL: Setting = Setting { clients: CLIENTS, ..ONE };
    const LINES: [(&str, Option<Setting>); 5] = [
        ("log, then write", None),
        ("records, 1 client", Some(ONE)),
        ("records, 8 clients", Some(ALL)),
        ("the same, 80 % cached", Some(Setting { cached_percent: 80, ..ALL })),
        ("the same, 16 records a lock", Some(Setting { records_per_lock: 16, ..ALL })),
    ];
    let profile = profile(run)?;
    let aged = bench::aged(&profile, other_units(&profile), run.seed, run.monitor)?;
    let mut rows = LINES.map(|(name, _)| Row { name: name.to_owned(), ours: Vec::new(), paper: None });
    let mut conflicts = rows.clone();
    let mut drive = [rows[0].clone(), rows[1].clone()];
    for (load, units) in OLTP {
        let bench = Bench { run, load, units: run.scaled(units, 2), aged: &aged };
        for (((_, setting), row), conflicts) in LINES.iter().zip(&mut rows).zip(&mut conflicts) {
            let measured =
                setting.map_or_else(|| bench.log_then_write(100), |setting| bench.records(setting))?;
            row.ours.push(measured.per_second);
            conflicts.ours.push(measured.conflicts as f64 * 1e3 / bench.transactions() as f64);
            if let Some(drive) = drive.iter_mut().find(|drive| drive.name == row.name) {
                drive.ours.push(measured.drive_us);
            }
        }
    }
    let columns: Vec<String> = OLTP.iter().map(|(load, _)| load.name()).collect();
    let table = |title: &str, unit, rows: &[Row]| Figures {
        title: title.to_owned(),
        unit,
        columns: columns.clone(),
        rows: rows.to_vec(),
    };
    let over = |load: usize| Span::factors(&rows[2].ours[load..=load], &rows[0].ours[load..=load]);
    let printed = &PRINTED.figure_9;
    let mut outcome = outcome(run, "OLTP over records and over a log", &printed.source)?;
    let factors = OLTP.iter().zip(printed.factors()).enumerate();
    outcome.claims = factors
        .map(|(number, ((load, _), printed))| {
            Claim::factor(format!("{}: records over a log", load.name()), printed, over(number))
        })
        .collect();
    outcome.claims.push(printed.coarse_locks.beside(Span::changes(&rows[4].ours, &rows[2].ours)));
    outcome.figures = vec![
        table("transactions per second", "1/s", &rows),
        table("what one client's transaction waits for the drive", "us", &drive),
        table("transactions that waited for a lock", "of 1000", &conflicts[2..]),
    ];
    Ok(outcome)
}

/// Figure 10: YCSB, of which two fifths are cached.
pub(super) fn figure_10(run: &Run<'_>) -> Result<Outcome, ExperimentError> {
    let profile = profile(run)?;
    let aged = bench::aged(&profile, other_units(&profile), run.seed, run.monitor)?;
    let names = ["log, then write", "records, 1 client", "records, 8 clients"];
    let mut rows = names.map(|name| Row { name: name.to_owned(), ours: Vec::new(), paper: None });
    let mut drive = [rows[0].clone(), rows[1].clone()];
    for (load, units) in YCSB {
        let bench = Bench { run, load, units: run.scaled(units, 2), aged: &aged };
        let measured = bench.log_then_write(YCSB_CACHED_PERCENT)?;
        rows[0].ours.push(measured.per_second);
        drive[0].ours.push(measured.drive_us);
        for (row, clients) in rows[1..].iter_mut().zip([1, CLIENTS]) {
            let setting = Setting { clients, records_per_lock: 1, cached_percent: YCSB_CACHED_PERCENT };
            let measured = bench.records(setting)?;
            row.ours.push(measured.per_second);
            if clients == 1 {
                drive[1].ours.push(measured.drive_us);
            }
        }
    }
    let printed = &PRINTED.figure_10;
    let mut outcome = outcome(run, "YCSB over records and over a log", &printed.source)?;
    outcome.claims = vec![Claim::factor(
        "records over a log, 1 client",
        printed.over_log,
        Span::factors(&rows[1].ours, &rows[0].ours),
    )];
    let table = |title: &str, unit, rows: &[Row]| Figures {
        title: format!("{title}, by workload"),
        unit,
        columns: YCSB.iter().map(|(load, _)| load.name()).collect(),
        rows: rows.to_vec(),
    };
    outcome.figures = vec![
        table("operations per second", "1/s", &rows),
        table("what one client's operation waits for the drive", "us", &drive),
    ];
    Ok(outcome)
}

fn outcome(run: &Run<'_>, title: &'static str, source: &'static str) -> Result<Outcome, ExperimentError> {
    let profile = profile(run)?;
    let setup = vec![
        format!("{}; {OTHER_PERCENT} % of it are other data, aged", drive_of(&profile)),
        format!(
            "{} transactions for each figure; the host takes {} ns for a record, {} ns for a statement of SQLite",
            grouped(run.scaled(TRANSACTIONS, 1000)),
            grouped(RECORD_STEP_NS),
            grouped(STATEMENT_NS)
        ),
    ];
    Ok(Outcome::new(title, source, Time::Virtual, setup))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tantalum_report::Monitor;

    use super::*;

    #[test]
    fn records_beat_a_log_where_transactions_are_small_and_coarse_locks_wait_more() {
        let run =
            Run { scale: 0.05, slower: 1, seed: 1, program: Path::new(""), monitor: &Monitor::silent() };
        let outcome = figure_9(&run).unwrap();
        assert!(outcome.claims[0].ours.low > 1.5, "{:?}", outcome.claims);
        let conflicts = &outcome.figures[2].rows;
        assert!(conflicts[2].ours[0] > conflicts[0].ours[0], "{conflicts:?}");
    }

    #[test]
    fn what_the_paper_prints_parses() {
        LazyLock::force(&PRINTED);
    }
}
