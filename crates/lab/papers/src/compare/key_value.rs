//! The key-value workload that the papers use: LevelDB's `db_bench_sqlite3`.
//!
//! One table maps a 16-byte key to a value; each transaction replaces one row. Everything follows from the seed, so the
//! expected contents are computed without asking the database.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rusqlite::{Connection, params};
use tantalum_report::InvalidSetting;
use tantalum_sqlite::Mode;
use tantalum_volume::Volume;

use super::outcome::WorkloadOutcome;
use super::pattern::Pattern;
use super::registered_volume::{DATABASE, RegisteredVolume};
use super::session::Session;
use super::workload::Workload;
use crate::error::ExperimentError;

/// SQLite's default page size, and one unit.
const PAGE_BYTES: u32 = 4096;

/// The share of the operations done before the measurement, so that the log has its size and the database's free pages
/// are where updates leave them.
const WARM_UP_PERCENT: u64 = 20;

/// Transactions between two checks for interruption.
const TRANSACTIONS_PER_STEP: u64 = 64;

const REPLACE: &str = "REPLACE INTO test (key, value) VALUES (?1, ?2)";

/// The workload's size and shape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyValue {
    /// The order of updates.
    pub pattern: Pattern,
    /// Rows of the table; at least one.
    pub rows: u64,
    /// Measured transactions; at least one.
    pub operations: u64,
    /// Bytes of a value; at least one.
    pub value_bytes: u32,
}

impl KeyValue {
    /// Checks that it is possible.
    pub fn validate(&self) -> Result<(), ExperimentError> {
        let counts = [
            ("--rows", self.rows),
            ("--operations", self.operations),
            ("--value-bytes", self.value_bytes.into()),
        ];
        for (option, count) in counts {
            if count == 0 {
                let expected = "it must be at least 1".to_owned();
                return Err(InvalidSetting::new(option, 0, expected).into());
            }
        }
        Ok(())
    }

    fn warm_up_operations(&self) -> u64 {
        self.operations * WARM_UP_PERCENT / 100
    }

    /// The rows that the transactions update, one after another.
    fn updates(&self, seed: u64) -> impl Iterator<Item = u64> + use<> {
        let KeyValue { pattern, rows, .. } = *self;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x6b65_7973);
        (0u64..).map(move |number| match pattern {
            Pattern::Random => random.random_range(0..rows),
            Pattern::Sequential => number % rows,
        })
    }

    /// Does the transactions numbered `numbers`.
    fn update(
        &self,
        session: &mut Session<'_>,
        seed: u64,
        numbers: std::ops::Range<u64>,
    ) -> Result<(), ExperimentError> {
        let mut value = vec![0; self.value_bytes as usize];
        let rows = self.updates(seed).skip(numbers.start as usize);
        for (number, row) in numbers.clone().zip(rows) {
            fill_value(&mut value, seed, row, version_of(number));
            session
                .statement(|sqlite| sqlite.prepare_cached(REPLACE)?.execute(params![key(row), value]))
                .map_err(ExperimentError::sqlite(format!("updating row {row}")))?;
            if number % TRANSACTIONS_PER_STEP == 0 {
                session.advance(TRANSACTIONS_PER_STEP.min(numbers.end - number))?;
            }
        }
        Ok(())
    }

    /// The version that each row has after all transactions; 0 for those never updated.
    fn versions(&self, seed: u64) -> Vec<u64> {
        let mut versions = vec![0; self.rows as usize];
        let all = 0..self.warm_up_operations() + self.operations;
        for (number, row) in all.zip(self.updates(seed)) {
            versions[row as usize] = version_of(number);
        }
        versions
    }

    fn insert_rows(&self, sqlite: &Connection, seed: u64) -> rusqlite::Result<()> {
        sqlite.pragma_update(None, "page_size", PAGE_BYTES)?;
        sqlite.pragma_update(None, "synchronous", "off")?;
        sqlite.execute_batch("CREATE TABLE test (key BLOB, value BLOB, PRIMARY KEY (key)); BEGIN")?;
        let mut value = vec![0; self.value_bytes as usize];
        for row in 0..self.rows {
            fill_value(&mut value, seed, row, 0);
            sqlite.prepare_cached(REPLACE)?.execute(params![key(row), value])?;
        }
        sqlite.execute_batch("COMMIT")
    }
}

impl Workload for KeyValue {
    fn load(&self, volume: Volume, seed: u64) -> Result<Volume, ExperimentError> {
        let working = RegisteredVolume::new(volume, Mode::Rollback, seed)?;
        let sqlite = working.open()?;
        self.insert_rows(&sqlite, seed).map_err(ExperimentError::sqlite("filling the table"))?;
        sqlite.close().map_err(|(_, error)| ExperimentError::sqlite("closing the database")(error))?;
        let mut volume = working.into_volume()?;
        let file = volume.find(DATABASE).expect("the database was just made");
        volume.sync(file)?;
        volume.sync_names()?;
        Ok(volume)
    }

    fn steps(&self) -> u64 {
        self.warm_up_operations() + self.operations
    }

    fn warm_up(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError> {
        self.update(session, seed, 0..self.warm_up_operations())
    }

    fn measure(&self, session: &mut Session<'_>, seed: u64) -> Result<(), ExperimentError> {
        let first = self.warm_up_operations();
        self.update(session, seed, first..first + self.operations)
    }

    fn difference(&self, sqlite: &Connection, seed: u64) -> Result<Option<String>, ExperimentError> {
        difference(sqlite, seed, self.value_bytes, &self.versions(seed))
            .map_err(ExperimentError::sqlite("reading the table"))
    }

    fn describe(&self, outcome: &mut WorkloadOutcome) {
        outcome.kind = "key-value";
        outcome.pattern = Some(self.pattern);
        outcome.rows = Some(self.rows);
        outcome.operations = Some(self.operations);
        outcome.value_bytes = Some(self.value_bytes);
        outcome.warm_up_operations = Some(self.warm_up_operations());
    }
}

/// Compares every row with what its version should hold.
fn difference(
    sqlite: &Connection,
    seed: u64,
    value_bytes: u32,
    versions: &[u64],
) -> rusqlite::Result<Option<String>> {
    let mut statement = sqlite.prepare("SELECT key, value FROM test ORDER BY key")?;
    let mut rows = statement.query([])?;
    let mut value = vec![0; value_bytes as usize];
    for (row, &version) in (0u64..).zip(versions) {
        let Some(found) = rows.next()? else {
            return Ok(Some(format!("row {row} and all rows after it are missing")));
        };
        if found.get_ref(0)?.as_blob().ok() != Some(key(row).as_slice()) {
            return Ok(Some(format!("row {row} is missing or has another key")));
        }
        fill_value(&mut value, seed, row, version);
        if found.get_ref(1)?.as_blob().ok() != Some(value.as_slice()) {
            return Ok(Some(format!("row {row} does not hold version {version}")));
        }
    }
    Ok(rows.next()?.map(|_| format!("there are more than {} rows", versions.len())))
}

/// A row's key, as `db_bench` makes it.
fn key(row: u64) -> Vec<u8> {
    format!("{row:016}").into_bytes()
}

/// The version that transaction `number` writes; the table was filled with version 0.
fn version_of(number: u64) -> u64 {
    number + 1
}

fn fill_value(value: &mut [u8], seed: u64, row: u64, version: u64) {
    let row_seed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version.rotate_left(32);
    Xoshiro256PlusPlus::seed_from_u64(seed ^ row_seed).fill(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: KeyValue = KeyValue { pattern: Pattern::Random, rows: 20, operations: 50, value_bytes: 100 };

    fn database() -> Connection {
        let sqlite = Connection::open_in_memory().unwrap();
        SMALL.insert_rows(&sqlite, 1).unwrap();
        for (number, row) in (0..SMALL.steps()).zip(SMALL.updates(1)) {
            let mut value = vec![0; 100];
            fill_value(&mut value, 1, row, version_of(number));
            sqlite.execute(REPLACE, params![key(row), value]).unwrap();
        }
        sqlite
    }

    #[test]
    fn the_right_contents_have_no_difference() {
        assert_eq!(SMALL.difference(&database(), 1).unwrap(), None);
    }

    #[test]
    fn each_kind_of_wrong_contents_is_found() {
        let damages = [
            (
                "UPDATE test SET value = zeroblob(100) WHERE key = CAST('0000000000000007' AS BLOB)",
                "row 7 does not",
            ),
            ("DELETE FROM test WHERE key = CAST('0000000000000003' AS BLOB)", "row 3 is missing or"),
            ("DELETE FROM test WHERE key = CAST('0000000000000019' AS BLOB)", "row 19 and all"),
            ("INSERT INTO test VALUES (CAST('0000000000000020' AS BLOB), x'00')", "more than 20"),
        ];
        for (damage, expected) in damages {
            let sqlite = database();
            assert_eq!(sqlite.execute(damage, []).unwrap(), 1, "{damage}");
            let difference = SMALL.difference(&sqlite, 1).unwrap().expect(damage);
            assert!(difference.contains(expected), "{difference}");
        }
    }

    #[test]
    fn an_older_version_of_a_row_is_found() {
        let sqlite = database();
        let mut old = vec![0; 100];
        let updated = SMALL.updates(1).next().unwrap();
        fill_value(&mut old, 1, updated, 0);
        sqlite.execute(REPLACE, params![key(updated), old]).unwrap();
        assert!(SMALL.difference(&sqlite, 1).unwrap().is_some());
    }

    #[test]
    fn updates_follow_pattern_and_seed() {
        let sequential = KeyValue { pattern: Pattern::Sequential, ..SMALL };
        assert_eq!(sequential.updates(1).skip(18).take(4).collect::<Vec<_>>(), [18, 19, 0, 1]);
        let first = |seed| SMALL.updates(seed).take(20).collect::<Vec<_>>();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn zero_of_anything_is_refused() {
        assert!(SMALL.validate().is_ok());
        let error = KeyValue { rows: 0, ..SMALL }.validate().unwrap_err().to_string();
        assert_eq!(error, "--rows 0: it must be at least 1");
    }
}
