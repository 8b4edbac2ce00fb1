//! Clients of KAML's transactions in real time, on either kind of store.
//!
//! - **Records** see the drive's latencies through a clock: a step that used the drive, and a commit, continue when the
//!   drive is done, and locks are held until then. Commands of several threads may arrive slightly out of the order of
//!   their times; the drive's firmware takes them as they come.
//! - **RocksDB** is on a mount that holds its answers back.
//! - Both lock what they read and change until the end, and retry when they have to give way.

use std::sync::{Arc, Mutex, PoisonError};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_drive::Clock;
use tantalum_kv::{Namespace, Store, Transaction};
use tantalum_workloads::clients::Client;
use tantalum_workloads::kaml::{Access, Drawer, Load, Step, Table};

use crate::error::ExperimentError;
use crate::rocks::{self, Rocks};

/// A store that executes such transactions.
pub(super) trait Engine: Send + Sync {
    /// Executes one, and retries it whenever it has to give way.
    fn transact(&self, tables: &[Table], steps: &[Step]) -> Result<(), ExperimentError>;
}

/// A value for a record of a table.
fn value(table: &Table) -> Vec<u8> {
    vec![7; table.value_bytes]
}

/// Fails if a loaded record is missing, or has another length than was put. One that another client inserts may not
/// exist yet.
fn check(tables: &[Table], step: &Step, found: Option<usize>) -> Result<(), ExperimentError> {
    let table = tables[step.table];
    match found {
        Some(bytes) if bytes == table.value_bytes => Ok(()),
        None if step.key >= table.records => Ok(()),
        _ => {
            let what = format!("{} of table {} has {found:?} bytes", step.key, step.table);
            Err(ExperimentError::WrongRecords { what })
        }
    }
}

/// Our store, on a drive whose time is the machine's.
pub(super) struct Records {
    pub store: Store,
    /// One for each table.
    pub namespaces: Vec<Namespace>,
    pub clock: Clock,
}

impl Records {
    fn work(&self, tx: &mut Transaction, tables: &[Table], steps: &[Step]) -> Result<(), ExperimentError> {
        let mut clock = self.clock;
        for step in steps {
            let (namespace, key) = (self.namespaces[step.table], step.key.to_be_bytes());
            tx.wait_until(clock.now_ns());
            let found = match step.access {
                Access::Read => Some(tx.read(namespace, key)?),
                Access::Change => Some(tx.read_for_update(namespace, key)?),
                Access::Write | Access::Insert => None,
            };
            if let Some(found) = found {
                clock.wait_until(tx.now_ns().expect("it lives in the drive's time"));
                check(tables, step, found.map(|value| value.len()))?;
            }
            if step.access != Access::Read {
                tx.put(namespace, key, value(&tables[step.table]))?;
            }
        }
        tx.wait_until(clock.now_ns());
        Ok(())
    }
}

impl Engine for Records {
    fn transact(&self, tables: &[Table], steps: &[Step]) -> Result<(), ExperimentError> {
        let mut clock = self.clock;
        loop {
            let mut tx = self.store.begin_in_time(clock.now_ns())?;
            match self.work(&mut tx, tables, steps) {
                Err(ExperimentError::KeyValueStore(tantalum_kv::Error::Deadlock)) => std::thread::yield_now(),
                Err(error) => return Err(error),
                Ok(()) => return Ok(tx.commit_then_wait(|done_ns| clock.wait_until(done_ns))?),
            }
        }
    }
}

/// A record's key in RocksDB, which has one space of keys for all tables.
pub(super) fn rocks_key(table: usize, key: u64) -> [u8; 9] {
    let mut bytes = [table as u8; 9];
    bytes[1..].copy_from_slice(&key.to_be_bytes());
    bytes
}

impl Engine for Rocks {
    fn transact(&self, tables: &[Table], steps: &[Step]) -> Result<(), ExperimentError> {
        let key = |step: &Step| rocks_key(step.table, step.key);
        // a single access needs no transaction
        match steps {
            [step @ Step { access: Access::Read, .. }] => {
                return check(tables, step, self.length(key(step))?);
            }
            [step @ Step { access: Access::Write | Access::Insert, .. }] => {
                return Ok(self.write([(key(step), value(&tables[step.table]))])?);
            }
            _ => {}
        }
        loop {
            let tx = self.begin();
            let work = || {
                for step in steps {
                    if matches!(step.access, Access::Read | Access::Change) {
                        let changes = step.access == Access::Change;
                        let found = tx.get_pinned_for_update(key(step), changes)?;
                        check(tables, step, found.map(|value| value.len()))?;
                    }
                    if step.access != Access::Read {
                        tx.put(key(step), value(&tables[step.table]))?;
                    }
                }
                Ok(())
            };
            match work().and_then(|()| Ok(tx.commit()?)) {
                Err(ExperimentError::RocksDb(error)) if rocks::gave_way(&error) => std::thread::yield_now(),
                done => return done,
            }
        }
    }
}

/// One client. All clients of a run draw from one drawer, which knows what they insert.
struct KamlClient {
    engine: Arc<dyn Engine>,
    tables: Arc<[Table]>,
    drawer: Arc<Mutex<Drawer>>,
    random: Xoshiro256PlusPlus,
}

impl Client for KamlClient {
    type Error = ExperimentError;

    fn step(&mut self) -> Result<usize, ExperimentError> {
        let steps = self.drawer.lock().unwrap_or_else(PoisonError::into_inner).draw(&mut self.random);
        self.engine.transact(&self.tables, &steps)?;
        Ok(0)
    }
}

/// This many clients of a store that holds a load's records.
pub(super) fn clients(
    engine: &Arc<dyn Engine>,
    load: Load,
    units: u64,
    count: u64,
    seed: u64,
) -> Vec<Box<dyn Client<Error = ExperimentError>>> {
    let tables: Arc<[Table]> = load.tables(units).into();
    let drawer = Arc::new(Mutex::new(Drawer::new(load, units)));
    let client = |number: u64| KamlClient {
        engine: Arc::clone(engine),
        tables: Arc::clone(&tables),
        drawer: Arc::clone(&drawer),
        random: Xoshiro256PlusPlus::seed_from_u64(seed ^ number << 32 ^ 0x4b41_4d4c),
    };
    (0..count).map(|number| Box::new(client(number)) as Box<dyn Client<Error = ExperimentError>>).collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tantalum::{Device, Profile};
    use tantalum_report::Monitor;
    use tantalum_workloads::clients::drive;
    use tantalum_workloads::ycsb::Workload;

    use super::*;
    use crate::rocks::RocksOptions;

    const LOADS: [(Load, u64); 4] =
        [(Load::AccountUpdate, 1), (Load::Payment, 1), (Load::NewOrder, 1), (Load::Ycsb(Workload::D), 1)];

    fn drive_all(engine: Arc<dyn Engine>, load: Load, units: u64) {
        let mut clients = clients(&engine, load, units, 4, 1);
        let measured = drive(&mut clients, 50, 1, &Monitor::silent().bar("", 1), || ()).unwrap();
        assert_eq!(measured.operations(), 200, "{load:?}");
    }

    fn rocks(folder: &std::path::Path) -> Rocks {
        let options =
            RocksOptions { synced: false, block_cache_bytes: 1 << 20, table_bytes: None, direct: false };
        Rocks::open(folder, options).unwrap()
    }

    fn records(profile: Profile) -> Records {
        let store = Store::over(Device::in_memory(&profile).unwrap(), Store::options()).unwrap();
        let clock = Clock::real_from(store.with_drive(|drive| drive.time_ns()).unwrap());
        Records { store, namespaces: Vec::new(), clock }
    }

    fn small() -> Profile {
        let mut profile = Profile::load("kaml-board").unwrap();
        profile.capacity_bytes = 512 << 20;
        profile
    }

    #[test]
    fn clients_that_change_the_same_records_all_come_to_their_end_and_insert_what_they_should() {
        for (load, units) in LOADS {
            let tables = load.tables(units);
            let folder = tempfile::tempdir().unwrap();
            let rocks = rocks(folder.path());
            let mut records = records(small());
            for (number, table) in tables.iter().enumerate() {
                let namespace = records.store.hashed_namespace(&number.to_string()).unwrap();
                records.namespaces.push(namespace);
                for first in (0..table.records).step_by(500) {
                    let keys = first..(first + 500).min(table.records);
                    rocks.write(keys.clone().map(|key| (rocks_key(number, key), value(table)))).unwrap();
                    let mut tx = records.store.begin().unwrap();
                    keys.for_each(|key| tx.put(namespace, key.to_be_bytes(), value(table)).unwrap());
                    tx.commit().unwrap();
                }
            }
            records.clock = Clock::real_from(records.store.with_drive(|drive| drive.time_ns()).unwrap());
            let (store, namespaces) = (records.store.clone(), records.namespaces.clone());
            let (rocks, loaded): (Arc<Rocks>, u64) =
                (Arc::new(rocks), tables.iter().map(|table| table.records).sum());
            drive_all(rocks.clone(), load, units);
            drive_all(Arc::new(records), load, units);
            let of_rocks = rocks.read_all().unwrap();
            let keys = |namespace| store.list(namespace, None, 1 << 20).unwrap().len() as u64;
            let of_records: u64 = namespaces.into_iter().map(keys).sum();
            if matches!(load, Load::AccountUpdate | Load::Payment) {
                assert_eq!((of_rocks, of_records), (loaded + 200, loaded + 200), "{load:?}");
            }
            assert!(of_rocks > loaded && of_records > loaded, "{load:?}");
        }
    }

    #[test]
    fn records_that_are_missing_or_too_short_are_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let rocks = rocks(folder.path());
        let tables = Load::Ycsb(Workload::F).tables(1);
        for access in [Access::Read, Access::Change] {
            let steps = [Step { table: 0, key: 3, access }];
            let missing = rocks.transact(&tables, &steps);
            assert!(matches!(missing, Err(ExperimentError::WrongRecords { .. })), "{missing:?}");
        }
        rocks.write([(rocks_key(0, 3), [1; 5])]).unwrap();
        let short = rocks.transact(&tables, &[Step { table: 0, key: 3, access: Access::Read }]);
        assert!(matches!(short, Err(ExperimentError::WrongRecords { .. })), "{short:?}");
    }

    /// Without waiting, the store would be as fast as this machine.
    #[test]
    fn a_commit_takes_the_drives_time_and_a_read_of_the_cache_none() {
        let mut profile = small();
        profile.link.command_ns = 200_000_000;
        let mut records = records(profile);
        records.namespaces.push(records.store.hashed_namespace("0").unwrap());
        records.clock = Clock::real_from(records.store.with_drive(|drive| drive.time_ns()).unwrap());
        let tables = [Table { records: 0, ..Load::Ycsb(Workload::A).tables(1)[0] }];
        for (access, waits) in [(Access::Write, true), (Access::Read, false), (Access::Change, true)] {
            let start = Instant::now();
            records.transact(&tables, &[Step { table: 0, key: 3, access }]).unwrap();
            let elapsed = start.elapsed();
            assert_eq!(elapsed >= Duration::from_millis(199), waits, "{access:?}: {elapsed:?}");
        }
    }
}
