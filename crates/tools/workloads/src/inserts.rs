//! Filling a table of MariaDB.

use std::fmt::Write;

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::error::WorkloadError;

/// Bytes of an INSERT statement.
const STATEMENT_BYTES: usize = 200_000;

/// Statements in a transaction.
const STATEMENTS_PER_TRANSACTION: u32 = 20;

/// Rows on their way into a table, many in a statement and many statements in a transaction.
pub struct Inserts {
    head: &'static str,
    text: String,
    statements: u32,
}

impl Inserts {
    pub fn new(head: &'static str) -> Inserts {
        Inserts { head, text: String::new(), statements: 0 }
    }

    pub fn row(&mut self, connection: &mut Conn, row: std::fmt::Arguments<'_>) -> Result<(), WorkloadError> {
        self.text.push_str(if self.text.is_empty() { self.head } else { "," });
        self.text.write_fmt(row).expect("writing to a String cannot fail");
        if self.text.len() > STATEMENT_BYTES { self.send(connection) } else { Ok(()) }
    }

    fn send(&mut self, connection: &mut Conn) -> Result<(), WorkloadError> {
        if self.statements.is_multiple_of(STATEMENTS_PER_TRANSACTION) {
            connection.query_drop("START TRANSACTION")?;
        }
        connection.query_drop(&self.text)?;
        self.text.clear();
        self.statements += 1;
        if self.statements.is_multiple_of(STATEMENTS_PER_TRANSACTION) {
            connection.query_drop("COMMIT")?;
        }
        Ok(())
    }

    pub fn end(mut self, connection: &mut Conn) -> Result<(), WorkloadError> {
        if !self.text.is_empty() {
            self.send(connection)?;
        }
        Ok(connection.query_drop("COMMIT")?)
    }
}
