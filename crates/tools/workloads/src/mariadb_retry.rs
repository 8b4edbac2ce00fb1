//! Retries transactions that MariaDB rolls back because of others, as an application would.

use crate::error::WorkloadError;

/// "Deadlock found when trying to get lock" and "Lock wait timeout exceeded".
const TAKEN_BACK: [u16; 2] = [1213, 1205];

/// Runs a transaction until it is not rolled back.
pub fn until_no_deadlock<T>(
    mut transaction: impl FnMut() -> Result<T, mysql::Error>,
) -> Result<T, WorkloadError> {
    loop {
        match transaction() {
            Err(mysql::Error::MySqlError(error)) if TAKEN_BACK.contains(&error.code) => {}
            other => return Ok(other?),
        }
    }
}
