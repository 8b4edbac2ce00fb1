//! Making a MariaDB database and its tables.

use mysql::Conn;
use mysql::prelude::Queryable;

use crate::servers::ServerError;

/// Makes a database with these tables (all that follows `CREATE TABLE`), and uses it.
pub(super) fn create_database<'a>(
    connection: &mut Conn,
    name: &str,
    tables: impl IntoIterator<Item = &'a str>,
) -> Result<(), ServerError> {
    connection.query_drop(format!("CREATE DATABASE {name}"))?;
    connection.query_drop(format!("USE {name}"))?;
    for table in tables {
        connection.query_drop(format!("CREATE TABLE {table} ENGINE=InnoDB DEFAULT CHARSET=latin1"))?;
    }
    Ok(())
}
