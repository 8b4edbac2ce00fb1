//! Creates a MariaDB database and its tables, and updates the server's statistics afterwards.

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::error::WorkloadError;

/// Creates a database with these tables (the text after `CREATE TABLE`), and uses it.
pub fn create_database<'a>(
    connection: &mut Conn,
    name: &str,
    tables: impl IntoIterator<Item = &'a str>,
) -> Result<(), WorkloadError> {
    connection.query_drop(format!("CREATE DATABASE {name}"))?;
    connection.query_drop(format!("USE {name}"))?;
    for table in tables {
        connection.query_drop(format!("CREATE TABLE {table} ENGINE=InnoDB DEFAULT CHARSET=latin1"))?;
    }
    Ok(())
}

/// Counts the rows of all tables of the database in use. Statistics are made when a table is created, and the servers
/// here do not update them by themselves: a query plan made for empty tables reads them from end to end, and locks what
/// it reads.
pub fn count_rows(connection: &mut Conn) -> Result<(), WorkloadError> {
    let tables: Vec<String> = connection.query("SHOW TABLES")?;
    Ok(connection.query_drop(format!("ANALYZE TABLE {}", tables.join(", ")))?)
}
