//! A store that logs and then writes: SQLite with its log.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rusqlite::{Connection, params};
use tantalum::{Device, Nanoseconds, Usage};
use tantalum_sqlite::Mode;
use tantalum_volume::Volume;
use tantalum_workloads::ageing::age_leaving;
use tantalum_workloads::kaml::{Access, Drawer, Step, Table};

use super::bench::{Bench, Measured, other_units};
use crate::compare::{DATABASE, RegisteredVolume};
use crate::error::ExperimentError;

/// Host time for a statement of SQLite ([`crate::compare::HOST_NS_PER_STATEMENT`]).
pub(super) const STATEMENT_NS: Nanoseconds = crate::compare::HOST_NS_PER_STATEMENT;

/// The volume's own cache: SQLite has one.
const VOLUME_CACHE_BYTES: u64 = 1 << 20;

impl Bench<'_> {
    /// SQLite with its log; this many of its pages are cached.
    pub(super) fn log_then_write(&self, cached_percent: u64) -> Result<Measured, ExperimentError> {
        let volume = self.load_database()?;
        let working = RegisteredVolume::new(volume, Mode::Wal, self.run.seed)?;
        let connection = working.open()?;
        let measured = self.measure_database(&working, &connection, cached_percent);
        connection.close().map_err(|(_, error)| ExperimentError::sqlite("closing the database")(error))?;
        working.into_volume()?;
        measured
    }

    fn load_database(&self) -> Result<Volume, ExperimentError> {
        let volume = Volume::format(Device::in_memory(self.aged.profile())?, VOLUME_CACHE_BYTES)?;
        let working = RegisteredVolume::new(volume, Mode::Rollback, self.run.seed)?;
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
        working: &RegisteredVolume,
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
        let (mut start_ns, mut host_ns, mut before) = (0, 0, Usage::default());
        let usage = || working.drive.volume().device().usage();
        // as much before the measurement: pages are in the cache, and the log has its size
        for number in 0..2 * wanted {
            if number == wanted {
                start_ns = working.drive.volume().now_ns();
                host_ns = 0;
                before = usage();
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
        Ok(Measured::between(start_ns, end_ns, host_ns, wanted, 0, usage().since(&before)))
    }
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
