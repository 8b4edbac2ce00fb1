//! The expected contents of the database, and the actual ones.
//!
//! Changes are drawn from a seed and applied twice: to the database as SQL, and to a [`Contents`] in host memory. The
//! database also stores the number of the last transaction, so that the contents can be compared with exactly one
//! state.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use rand::{Rng, RngExt, SeedableRng};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, params};

pub(super) type Random = rand_xoshiro::Xoshiro256PlusPlus;

/// A table and the shape of its rows.
struct Table {
    name: &'static str,
    keys: i64,
    blob_bytes: std::ops::Range<usize>,
    /// Keys are text, and the table has no rowid.
    has_text_keys: bool,
}

/// Small rows with an index on their tags, rows with overflow pages, and rows in an index's tree.
const TABLES: [Table; 3] = [
    Table { name: "small", keys: 60, blob_bytes: 0..600, has_text_keys: false },
    Table { name: "large", keys: 7, blob_bytes: 3000..16_000, has_text_keys: false },
    Table { name: "wide", keys: 40, blob_bytes: 0..1200, has_text_keys: true },
];

const CREATE: &str = "
    BEGIN;
    CREATE TABLE progress(number INTEGER);
    INSERT INTO progress VALUES(0);
    CREATE TABLE small(k INTEGER PRIMARY KEY, tag INTEGER, b BLOB);
    CREATE INDEX small_by_tag ON small(tag, k);
    CREATE TABLE large(k INTEGER PRIMARY KEY, tag INTEGER, b BLOB);
    CREATE TABLE wide(k TEXT PRIMARY KEY, tag INTEGER, b BLOB) WITHOUT ROWID;
    COMMIT";

/// Creates the empty tables.
pub(super) fn create(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(CREATE)
}

impl Table {
    fn key(&self, key: i64) -> Value {
        if self.has_text_keys { Value::Text(format!("{key:05}")) } else { Value::Integer(key) }
    }
}

/// A row without its key: the digest stands for the blob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct RowDigest {
    tag: i64,
    bytes: usize,
    digest: u64,
}

impl RowDigest {
    fn new(tag: i64, blob: &[u8]) -> RowDigest {
        let mut hasher = DefaultHasher::new();
        blob.hash(&mut hasher);
        RowDigest { tag, bytes: blob.len(), digest: hasher.finish() }
    }
}

/// All rows of all tables, by (table, key), and the last transaction's number.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Contents {
    /// Transactions up to this one are in it.
    pub number: u64,
    rows: BTreeMap<(usize, i64), RowDigest>,
}

/// One statement of a transaction.
#[derive(Clone, Debug)]
pub(super) enum Change {
    /// A row is inserted, or replaced.
    Put { table: usize, key: i64, tag: i64, blob: Vec<u8> },
    /// Rows get another tag.
    Tag { table: usize, first: i64, last: i64, tag: i64 },
    /// Rows are deleted.
    Delete { table: usize, first: i64, last: i64 },
}

impl Change {
    /// Draws one.
    pub fn draw(random: &mut Random) -> Change {
        let table = random.random_range(0..TABLES.len());
        let keys = TABLES[table].keys;
        let tag = random.random_range(0..1000);
        let first = random.random_range(0..keys);
        match random.random_range(0..10) {
            0 | 1 => Change::Delete { table, first, last: first + random.random_range(0..keys / 4) },
            2..=4 => Change::Tag { table, first, last: first + random.random_range(0..keys / 2), tag },
            _ => {
                let mut blob = vec![0; random.random_range(TABLES[table].blob_bytes.clone())];
                random.fill_bytes(&mut blob);
                Change::Put { table, key: first, tag, blob }
            }
        }
    }

    /// Applies the change to the database.
    pub fn execute(&self, connection: &Connection) -> rusqlite::Result<()> {
        match self {
            Change::Put { table, key, tag, blob } => {
                let Table { name, .. } = TABLES[*table];
                let sql = format!("INSERT OR REPLACE INTO {name} VALUES(?1, ?2, ?3)");
                connection.prepare_cached(&sql)?.execute(params![TABLES[*table].key(*key), tag, blob])?;
            }
            Change::Tag { table, first, last, tag } => {
                let table = &TABLES[*table];
                let sql = format!("UPDATE {} SET tag = ?3 WHERE k BETWEEN ?1 AND ?2", table.name);
                let keys = params![table.key(*first), table.key(*last), tag];
                connection.prepare_cached(&sql)?.execute(keys)?;
            }
            Change::Delete { table, first, last } => {
                let table = &TABLES[*table];
                let sql = format!("DELETE FROM {} WHERE k BETWEEN ?1 AND ?2", table.name);
                connection.prepare_cached(&sql)?.execute(params![table.key(*first), table.key(*last)])?;
            }
        }
        Ok(())
    }
}

impl Contents {
    /// No rows, after that transaction.
    #[cfg(test)]
    pub fn empty_after(number: u64) -> Contents {
        Contents { number, rows: BTreeMap::new() }
    }

    /// The contents after one more transaction.
    pub fn after(&self, changes: &[Change]) -> Contents {
        let mut contents = self.clone();
        contents.number += 1;
        changes.iter().for_each(|change| contents.apply(change));
        contents
    }

    fn apply(&mut self, change: &Change) {
        match change {
            Change::Put { table, key, tag, blob } => {
                self.rows.insert((*table, *key), RowDigest::new(*tag, blob));
            }
            Change::Tag { table, first, last, tag } => {
                let rows = self.rows.range_mut((*table, *first)..=(*table, *last));
                rows.for_each(|(_, entry)| entry.tag = *tag);
            }
            Change::Delete { table, first, last } => {
                let gone = (*table, *first)..=(*table, *last);
                self.rows.retain(|key, _| !gone.contains(key));
            }
        }
    }

    /// Reads it from the database, in the open transaction or in one of its own.
    pub fn read(connection: &Connection) -> rusqlite::Result<Contents> {
        let number: i64 = connection.query_row("SELECT number FROM progress", [], |row| row.get(0))?;
        let mut contents = Contents { number: number.unsigned_abs(), rows: BTreeMap::new() };
        for (index, table) in TABLES.iter().enumerate() {
            let sql = format!("SELECT CAST(k AS INTEGER), tag, b FROM {}", table.name);
            let entry = |row: &Row<'_>| {
                let key: i64 = row.get(0)?;
                Ok(((index, key), RowDigest::new(row.get(1)?, row.get_ref(2)?.as_blob()?)))
            };
            for row in connection.prepare_cached(&sql)?.query_map([], entry)? {
                let (key, entry) = row?;
                contents.rows.insert(key, entry);
            }
        }
        Ok(contents)
    }

    /// The first row in which `found` differs; `None` if there is none.
    pub fn difference(&self, found: &Contents) -> Option<String> {
        if self == found {
            return None;
        }
        let mut keys = self.rows.keys().chain(found.rows.keys());
        let Some(key) = keys.find(|key| self.rows.get(key) != found.rows.get(key)) else {
            return Some(format!("transaction {} where {} should be", found.number, self.number));
        };
        let show = |entry: Option<&RowDigest>| match entry {
            Some(RowDigest { tag, bytes, digest }) => {
                format!("tag {tag}, {bytes} bytes, digest {digest:016x}")
            }
            None => "no row".to_owned(),
        };
        let (table, expected, is) = (TABLES[key.0].name, self.rows.get(key), found.rows.get(key));
        Some(format!("table {table}, key {}: {}, should be {}", key.1, show(is), show(expected)))
    }
}

/// Runs a transaction up to its COMMIT, which is left to the caller. `discarded` is a seed for work that is rolled back
/// to a savepoint within it, after its pages have spilled.
pub(super) fn begin(
    connection: &Connection,
    number: u64,
    changes: &[Change],
    discarded: Option<u64>,
) -> rusqlite::Result<()> {
    connection.execute_batch("BEGIN")?;
    connection.prepare_cached("UPDATE progress SET number = ?1")?.execute([number as i64])?;
    let (before, after) = changes.split_at(changes.len() / 2);
    before.iter().try_for_each(|change| change.execute(connection))?;
    if let Some(seed) = discarded {
        connection.execute_batch("SAVEPOINT s")?;
        discard(connection, seed)?;
        connection.execute_batch("ROLLBACK TO s; RELEASE s")?;
    }
    after.iter().try_for_each(|change| change.execute(connection))
}

/// Changes far more than SQLite's small page cache holds; the caller rolls it back.
pub(super) fn discard(connection: &Connection, seed: u64) -> rusqlite::Result<()> {
    let mut random = Random::seed_from_u64(seed);
    let (small, large) = (random.random_range(1..900), random.random_range(1..9000));
    connection.execute("UPDATE progress SET number = -1", [])?;
    connection.execute("UPDATE small SET tag = -1, b = zeroblob(?1)", [small])?;
    connection.execute("UPDATE large SET tag = -2, b = zeroblob(?1) WHERE k % 2 = 0", [large])?;
    connection.execute("DELETE FROM wide WHERE k % 3 = 0", [])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        create(&connection).unwrap();
        connection
    }

    #[test]
    fn changes_do_the_same_to_the_database_and_to_the_contents() {
        let connection = database();
        let mut random = Random::seed_from_u64(1);
        let mut contents = Contents::default();
        for number in 1..200 {
            let changes: Vec<Change> = (0..4).map(|_| Change::draw(&mut random)).collect();
            contents = contents.after(&changes);
            begin(&connection, number, &changes, Some(number)).unwrap();
            connection.execute_batch("COMMIT").unwrap();
            assert_eq!(contents.difference(&Contents::read(&connection).unwrap()), None);
        }
    }

    #[test]
    fn a_row_that_differs_is_named() {
        let connection = database();
        let change = Change::Put { table: 1, key: 5, tag: 9, blob: vec![1; 10] };
        let contents = Contents::default().after(std::slice::from_ref(&change));
        begin(&connection, 1, &[change], None).unwrap();
        connection.execute_batch("UPDATE large SET tag = 8; COMMIT").unwrap();
        let difference = contents.difference(&Contents::read(&connection).unwrap()).unwrap();
        assert!(difference.starts_with("table large, key 5: tag 8, 10 bytes"), "{difference}");
    }
}
