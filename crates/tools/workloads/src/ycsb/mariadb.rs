//! YCSB over MariaDB's protocol: records of ten fields of 100 bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mysql::prelude::Queryable;
use mysql::{Conn, Row};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use tantalum_report::Monitor;

use super::{Draws, Operation, Workload};
use crate::clients::Client;
use crate::database::{count_rows, create_database};
use crate::distributions::text;
use crate::error::WorkloadError;
use crate::inserts::Inserts;
use crate::mariadb_retry::until_no_deadlock;

/// The database's name.
pub const DATABASE: &str = "ycsb";

const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;
const LONGEST_SCAN: u64 = 100;

/// Creates and fills the table.
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
pub struct MariaDbClient {
    connection: Conn,
    draws: Draws,
    /// The number of existing records, shared by all clients.
    records: Arc<AtomicU64>,
    random: Xoshiro256PlusPlus,
}

impl MariaDbClient {
    /// A client of a table that was loaded with this many records.
    pub fn new(
        connection: Conn,
        workload: Workload,
        loaded: u64,
        records: Arc<AtomicU64>,
        seed: u64,
    ) -> MariaDbClient {
        MariaDbClient {
            connection,
            draws: Draws::new(workload, loaded),
            records,
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    /// The record that comes next; the table's count from 1.
    fn key(&mut self) -> u64 {
        self.draws.record(self.records.load(Ordering::Relaxed), &mut self.random) + 1
    }

    fn perform(&mut self, operation: Operation) -> Result<(), mysql::Error> {
        match operation {
            Operation::Read => {
                let key = self.key();
                self.read(key)
            }
            Operation::Update => {
                let key = self.key();
                self.update(key)
            }
            Operation::Insert => {
                let id = self.records.fetch_add(1, Ordering::Relaxed) + 1;
                let row = fields_of(&mut self.random);
                self.connection.query_drop(format!("INSERT INTO usertable VALUES ({id},{row})"))
            }
            Operation::Scan => {
                let (key, rows) = (self.key(), self.random.random_range(1..=LONGEST_SCAN));
                let query = "SELECT * FROM usertable WHERE id >= ? ORDER BY id LIMIT ?";
                self.connection.exec::<Row, _, _>(query, (key, rows)).map(drop)
            }
            Operation::ReadModifyWrite => {
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

impl Client for MariaDbClient {
    type Error = WorkloadError;

    fn step(&mut self) -> Result<usize, WorkloadError> {
        let operation = self.draws.operation(&mut self.random);
        until_no_deadlock(|| self.perform(operation))?;
        Ok(operation as usize)
    }
}
