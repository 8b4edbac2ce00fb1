//! YCSB's core workloads A to F (Cooper et al., SoCC 2010), over MariaDB's protocol.
//!
//! Records of ten fields of 100 bytes; keys by Zipf's distribution with the exponent 0.99, spread over the table, or
//! the latest (D).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_report::Monitor;

use super::clients::Client;
use super::database::{count_rows, create_database};
use super::distributions::{Mix, Shuffle, Zipf, text};
use super::inserts::Inserts;
use super::mariadb_retry::until_no_deadlock;
use crate::error::WorkloadError;

/// The database's name.
pub const DATABASE: &str = "ycsb";

/// Kinds of operations.
pub const NAMES: [&str; 5] = ["read", "update", "insert", "scan", "read-modify-write"];

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const EXPONENT: f64 = 0.99;
const LONGEST_SCAN: u64 = 100;

/// One of the six.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload(char);

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 6] =
        [Workload('A'), Workload('B'), Workload('C'), Workload('D'), Workload('E'), Workload('F')];

    /// Its letter.
    pub fn name(self) -> String {
        self.0.to_string()
    }

    /// Percent of each kind, in the order of [`NAMES`].
    fn shares(self) -> [f64; 5] {
        match self.0 {
            'A' => [50.0, 50.0, 0.0, 0.0, 0.0],
            'B' => [95.0, 5.0, 0.0, 0.0, 0.0],
            'C' => [100.0, 0.0, 0.0, 0.0, 0.0],
            'D' => [95.0, 0.0, 5.0, 0.0, 0.0],
            'E' => [0.0, 0.0, 5.0, 95.0, 0.0],
            _ => [50.0, 0.0, 0.0, 0.0, 50.0],
        }
    }
}

/// Makes and fills the table.
pub fn load(connection: &mut Conn, records: u64, seed: u64, monitor: &Monitor) -> Result<(), WorkloadError> {
    let fields: Vec<String> =
        (0..FIELDS).map(|field| format!("field{field} VARCHAR({FIELD_BYTES}) NOT NULL")).collect();
    let table = format!("usertable (id BIGINT PRIMARY KEY, {})", fields.join(", "));
    create_database(connection, DATABASE, [table.as_str()])?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let bar = monitor.bar("loading", records);
    let mut rows = Inserts::new("INSERT INTO usertable VALUES ");
    for id in 1..=records {
        rows.row(connection, format_args!("({id},{})", fields_of(&mut random)))?;
        bar.advance(1)?;
    }
    rows.end(connection)?;
    count_rows(connection)
}

fn fields_of(random: &mut Xoshiro256PlusPlus) -> String {
    let fields: Vec<String> = (0..FIELDS).map(|_| format!("'{}'", text(random, FIELD_BYTES))).collect();
    fields.join(",")
}

/// A client with its connection.
pub struct YcsbClient {
    connection: Conn,
    workload: Workload,
    mix: Mix,
    zipf: Zipf,
    shuffle: Shuffle,
    /// Records that there are, of all clients together.
    records: Arc<AtomicU64>,
    random: Xoshiro256PlusPlus,
}

impl YcsbClient {
    /// A client of a table that was loaded with so many records.
    pub fn new(
        connection: Conn,
        workload: Workload,
        loaded: u64,
        records: Arc<AtomicU64>,
        seed: u64,
    ) -> YcsbClient {
        YcsbClient {
            connection,
            workload,
            mix: Mix::new(workload.shares()),
            zipf: Zipf::new(loaded, EXPONENT),
            shuffle: Shuffle::new(loaded),
            records,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The record that comes next: in D the latest are the most popular.
    fn key(&mut self) -> u64 {
        let rank = self.zipf.draw(&mut self.random);
        match self.workload.0 {
            'D' => (self.records.load(Ordering::Relaxed) + 1).saturating_sub(rank).max(1),
            _ => self.shuffle.of(rank),
        }
    }

    fn perform(&mut self, kind: usize) -> Result<(), mysql::Error> {
        match kind {
            0 => {
                let key = self.key();
                self.read(key)
            }
            1 => {
                let key = self.key();
                self.update(key)
            }
            2 => {
                let id = self.records.fetch_add(1, Ordering::Relaxed) + 1;
                let row = fields_of(&mut self.random);
                self.connection.query_drop(format!("INSERT INTO usertable VALUES ({id},{row})"))
            }
            3 => {
                let (key, rows) = (self.key(), self.random.random_range(1..=LONGEST_SCAN));
                let query = "SELECT * FROM usertable WHERE id >= ? ORDER BY id LIMIT ?";
                self.connection.exec::<Row, _, _>(query, (key, rows)).map(drop)
            }
            _ => {
                let key = self.key();
                self.read(key).and_then(|()| self.update(key))
            }
        }
    }

    fn read(&mut self, key: u64) -> Result<(), mysql::Error> {
        self.connection.exec_first::<Row, _, _>("SELECT * FROM usertable WHERE id = ?", (key,)).map(drop)
    }

    fn update(&mut self, key: u64) -> Result<(), mysql::Error> {
        let (field, value) = (self.random.random_range(0..FIELDS), text(&mut self.random, FIELD_BYTES));
        self.connection.exec_drop(format!("UPDATE usertable SET field{field} = ? WHERE id = ?"), (value, key))
    }
}

impl Client for YcsbClient {
    type Error = WorkloadError;

    fn step(&mut self) -> Result<usize, WorkloadError> {
        let kind = self.mix.draw(&mut self.random);
        until_no_deadlock(|| self.perform(kind))?;
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_have_their_shares() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(4);
        for workload in Workload::ALL {
            assert_eq!(workload.shares().iter().sum::<f64>(), 100.0);
            let mix = Mix::new(workload.shares());
            let mut seen = [0.0; 5];
            (0..50_000).for_each(|_| seen[mix.draw(&mut random)] += 0.002);
            for (seen, share) in seen.iter().zip(workload.shares()) {
                assert!((seen - share).abs() < 1.0, "{workload:?}: {seen} instead of {share}");
            }
        }
    }
}
