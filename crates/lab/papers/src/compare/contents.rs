//! The contents of a database, condensed for comparison.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use rusqlite::Connection;
use rusqlite::types::ValueRef;

/// A database's schema, and for each table its rows and a hash of them in the table's own order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Contents {
    schema: Vec<(String, Option<String>)>,
    tables: Vec<Table>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Table {
    name: String,
    rows: u64,
    hash: u64,
}

impl Contents {
    /// Reads all of the database.
    pub fn of(sqlite: &Connection) -> rusqlite::Result<Contents> {
        let mut statement =
            sqlite.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name")?;
        let entries: Vec<(String, String, Option<String>)> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<_, _>>()?;
        // A virtual table's rows are in its underlying tables, or nowhere.
        let is_table = |kind: &str, sql: &Option<String>| {
            kind == "table" && !sql.as_ref().is_some_and(|sql| sql.starts_with("CREATE VIRTUAL"))
        };
        let tables = entries
            .iter()
            .filter(|(kind, _, sql)| is_table(kind, sql))
            .map(|(_, name, _)| Table::of(sqlite, name))
            .collect::<Result<_, _>>()?;
        let schema = entries.into_iter().map(|(kind, name, sql)| (format!("{kind} {name}"), sql)).collect();
        Ok(Contents { schema, tables })
    }

    /// The first difference from the expected contents, if there is one.
    pub fn difference(&self, expected: &Contents) -> Option<String> {
        let missing = expected.schema.iter().find(|entry| !self.schema.contains(entry));
        let surplus = self.schema.iter().find(|entry| !expected.schema.contains(entry));
        if let Some((name, _)) = missing.or(surplus) {
            return Some(format!("the schema differs at {name}"));
        }
        let (found, expected) = self.tables.iter().zip(&expected.tables).find(|(a, b)| a != b)?;
        let Table { name, rows, .. } = expected;
        if found.rows != *rows {
            return Some(format!("table {name} has {} rows instead of {rows}", found.rows));
        }
        Some(format!(
            "table {name} has the right number of rows but other values \
             (statements that use random() or the time give others in every run)"
        ))
    }
}

impl Table {
    fn of(sqlite: &Connection, name: &str) -> rusqlite::Result<Table> {
        let quoted = name.replace('"', "\"\"");
        let mut statement = sqlite.prepare(&format!("SELECT * FROM \"{quoted}\""))?;
        let columns = statement.column_count();
        let mut rows = statement.query([])?;
        let mut hasher = DefaultHasher::new();
        let mut count = 0;
        while let Some(row) = rows.next()? {
            count += 1;
            for column in 0..columns {
                hash_value(row.get_ref(column)?, &mut hasher);
            }
        }
        Ok(Table { name: name.to_owned(), rows: count, hash: hasher.finish() })
    }
}

fn hash_value(value: ValueRef<'_>, hasher: &mut DefaultHasher) {
    match value {
        ValueRef::Null => 0u8.hash(hasher),
        ValueRef::Integer(integer) => (1u8, integer).hash(hasher),
        ValueRef::Real(real) => (2u8, real.to_bits()).hash(hasher),
        ValueRef::Text(text) => (3u8, text).hash(hasher),
        ValueRef::Blob(blob) => (4u8, blob).hash(hasher),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(sql: &str) -> Contents {
        let sqlite = Connection::open_in_memory().unwrap();
        sqlite
            .execute_batch("CREATE TABLE \"a \"\"b\" (x, y); INSERT INTO \"a \"\"b\" VALUES (1, 'one')")
            .unwrap();
        sqlite.execute_batch(sql).unwrap();
        Contents::of(&sqlite).unwrap()
    }

    #[test]
    fn each_difference_is_named() {
        let expected = contents("");
        assert_eq!(contents("").difference(&expected), None);
        let cases = [
            ("UPDATE \"a \"\"b\" SET x = 1.0", "other values"),
            ("UPDATE \"a \"\"b\" SET y = CAST('one' AS BLOB)", "other values"),
            ("DELETE FROM \"a \"\"b\"", "has 0 rows instead of 1"),
            ("CREATE INDEX i ON \"a \"\"b\" (x)", "schema differs at index i"),
            ("CREATE TABLE z (x)", "schema differs at table z"),
        ];
        for (sql, message) in cases {
            let difference = contents(sql).difference(&expected).expect(sql);
            assert!(difference.contains(message), "{difference}");
        }
    }
}
